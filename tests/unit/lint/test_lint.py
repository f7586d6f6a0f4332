"""The rules of streams and of HTTP, and what holds for all rules."""

from __future__ import annotations

import gzip
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.journal.format import Gap, Mark
from recorder.lint.linter import PLACES_LIMIT, PROFILES, RULES, lint, profile_of
from recorder.lint.rule import Profile, Rule
from recorder.lint.sse import CODEX_SILENCE_NS, PROXY_SILENCE_NS
from recorder.lint.stream import StreamView
from recorder.model.events import (
    Event,
    Exchange,
    ExchangeEnd,
    Outcome,
    RequestEnd,
    RequestHead,
    ResponseHead,
)
from recorder.wire.dialects.anthropic.lint.message import TOKENS_LIMIT
from recorder.wire.framing.sse import parse
from recorder.wire.recording import recording_of
from tests.support.aws_messages import aws_message
from tests.support.recordings import (
    SECOND,
    STEP_NS,
    Mutation,
    Reply,
    assembled,
    assert_clean,
    broken,
    linted,
    recorded,
)
from tests.support.tables import table
from tests.unit.lint.test_anthropic import GOOD as ANTHROPIC
from tests.unit.lint.test_gemini import GOOD as GEMINI
from tests.unit.lint.test_openai_chat import GOOD as CHAT
from tests.unit.lint.test_openai_responses import COMPLETED, CUT, GOOD

TARGETS = (
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/messages",
    "/v1beta/models/m:streamGenerateContent",
    "/other",
)


def raw(reply: Reply, number: int, before: bytes, after: bytes) -> Reply:
    """With other bytes in an event."""
    block = reply.blocks()[number]
    assert before in block
    events = *reply.events[:number], block.replace(before, after), *reply.events[number + 1 :]
    return reply._replace(events=events)


def slow(seconds: float) -> Reply:
    return GOOD._replace(pauses={12: seconds})


def document(
    body: bytes, status: int = 200, content_type: str | None = "application/json"
) -> Reply:
    return Reply(body=body, status=status, asked={"stream": True}).headed(
        "content-type", content_type
    )


def in_aws_messages(reply: Reply) -> Reply:
    """With each payload in a message of the binary event stream."""
    events = tuple(aws_message({}, parse(block).data or b"") for block in reply.blocks())
    return reply._replace(events=events).headed(
        "content-type", "application/vnd.amazon.eventstream"
    )


BODY = b"".join(GOOD.blocks())
WITH_COMMENTS = GOOD.put(12, *[b": wait\n\n"] * 7)._replace(
    pauses=dict.fromkeys(range(12, 19), 45.0)
)
DATED = GOOD.headed("date", "Fri, 20 Nov 2026 12:00:00 GMT")
ERROR = (
    b'{"error": {"message": "No", "type": "invalid_request_error", "param": null, "code": null}}'
)

MUTATIONS = [
    Mutation("ST001", "half a character", raw(GOOD, 11, b"Hello", b"Hel\xc3")),
    Mutation("ST001", "a comment in latin-1", GOOD.put(5, b": caf\xe9\n\n")),
    Mutation("ST002", "an open quote", raw(GOOD, 11, b"Hello", b'Hel"lo')),
    Mutation(
        "ST002", "no number", GOOD.put(5, b'event: ping\ndata: {"type": "ping", "wait": NaN}\n\n')
    ),
    Mutation("ST002", "empty data", GOOD.put(5, b"event: ping\ndata: \n\n")),
    Mutation("ST003", "a name without data", GOOD.put(5, b"event: ping\n\n")),
    Mutation("ST003", "a retry time alone", GOOD.put(0, b"retry: 3000\n\n")),
    Mutation(
        "ST004",
        "a byte order mark",
        raw(GOOD, 0, b"event: response.created", b"\xef\xbb\xbfevent: response.created"),
    ),
    Mutation(
        "ST005",
        "carriage returns",
        GOOD._replace(events=tuple(b.replace(b"\n", b"\r") for b in GOOD.blocks())),
    ),
    Mutation("ST006", "no blank line at the end", raw(GOOD, 21, b"\n\n", b"\n")),
    Mutation("ST006", "half an event after the end", GOOD.put(22, b'event: ping\ndata: {"ty')),
    Mutation("ST007", "a minute of silence", slow(61)),
    Mutation("ST007", "silence before the first event", GOOD._replace(pauses={0: 61.0})),
    Mutation("ST008", "comments for five minutes", WITH_COMMENTS),
    Mutation(
        "ST009", "data without its name", GOOD.put(5, b'{"type": "response.output_text.delta"}\n\n')
    ),
    Mutation("ST009", "a line of no field", GOOD.put(5, b"hello: world\n\n")),
    Mutation("HT001", "a stream that is called JSON", document(BODY)),
    Mutation("HT001", "a stream without content-type", document(BODY, content_type=None)),
    Mutation(
        "HT002", "a document for a stream", document(b'{"id": "resp_1", "status": "completed"}')
    ),
    Mutation("HT003", "events under a status 201", GOOD._replace(status=201)),
    Mutation("HT003", "events under a status 500", GOOD._replace(status=500)),
    Mutation("HT004", "a length", GOOD.headed("content-length", str(len(BODY)))),
    Mutation("HT005", "nothing about caches", DATED),
    Mutation("HT005", "to be kept", DATED.headed("cache-control", "public, max-age=60")),
    Mutation(
        "HT006",
        "compressed",
        GOOD._replace(body=gzip.compress(BODY)).headed("content-encoding", "gzip"),
    ),
    Mutation("HT007", "an error as text", document(b"Bad gateway", 502, "text/html")),
    Mutation("HT007", "an error of another kind", document(b'{"detail": "No"}', 422)),
    Mutation("HT007", "no body", document(b"", 500)),
    Mutation("ST010", "a mark within", raw(CHAT, 1, b"data:", b"\xef\xbb\xbfdata:")),
    Mutation(
        "ST011",
        "a wrong checksum",
        in_aws_messages(CHAT).put(1, aws_message({}, b"{}")[:-1] + b"!"),
    ),
    Mutation("ST012", "chunks of Chat Completions", GOOD._replace(events=CHAT.events)),
    Mutation("HT008", "no event", GOOD._replace(events=())),
    Mutation(
        "HT008",
        "an empty object",
        GEMINI._replace(body=b"{}").headed("content-type", "application/json"),
    ),
    Mutation(
        "HT008",
        "no message",
        ANTHROPIC._replace(body=b"[]", asked={}).headed("content-type", "application/json"),
    ),
    Mutation("HT008", "no body", document(b"")),
    Mutation("HT008", "a broken document", document(b'{"id": "resp_1", "outp')._replace(asked={})),
    Mutation(
        "HT008",
        "a page",
        document(b"<html>Log in</html>", content_type="text/html")._replace(asked={}),
    ),
    Mutation("HT008", "nothing that is known", document(b"{}")._replace(asked={})),
    Mutation("HT008", "cut before its first event", GOOD._replace(events=(), outcome="truncated")),
    Mutation(
        "HT008",
        "not in its coding",
        GOOD._replace(body=b"\xff" * 9).headed("content-encoding", "br"),
    ),
    Mutation(
        "HT008",
        "half of its coding",
        GOOD._replace(body=gzip.compress(BODY)[:40]).headed("content-encoding", "gzip"),
    ),
    Mutation("HT010", "an error", document(ERROR)._replace(asked={})),
    Mutation(
        "GE007",
        "an error in an array, which is a stream",
        GEMINI._replace(body=b"[%b]" % ERROR).headed("content-type", "application/json"),
    ),
    Mutation("HT011", "no body", ANTHROPIC._replace(body=b"", status=500)),
    Mutation(
        "HT011",
        "a text",
        GEMINI._replace(body=b"Bad gateway", status=502).headed("content-type", "text/plain"),
    ),
    Mutation(
        "HT011", "an error of another API", ANTHROPIC._replace(body=b'{"detail": "No"}', status=422)
    ),
    Mutation(
        "HT009",
        "left before the first event",
        GOOD._replace(events=(), outcome="client_disconnect"),
    ),
    Mutation(
        "HT009", "stopped before the body", document(b"")._replace(outcome="recorder_shutdown")
    ),
    Mutation(
        "HT012",
        "two lengths",
        GOOD.headed("content-length", str(len(BODY))).headed("transfer-encoding", "chunked"),
    ),
]


def test_ids_are_of_one_rule_and_every_profile_has_rules() -> None:
    assert [id for id, count in Counter(rule.id for rule in RULES).items() if count > 1] == []
    assert {profile for rule in RULES for profile in rule.profiles} == set(PROFILES)


@table("rule", RULES)
def test_a_rule_says_what_and_why_in_sentences(rule: Rule) -> None:
    assert rule.meaning.endswith((".", "”."))
    assert rule.why.endswith((".", ".”", ".)"))
    assert rule.source
    assert not rule.source.endswith(".")


@table(
    "reply",
    [
        GOOD.put(5, b": keep-alive\n\n"),
        GOOD.put(5, b"id: 7\nevent: ping\ndata: {}\n\n"),
        slow(59),
        document(ERROR, 400),
        document(ERROR, 400, "text/event-stream"),
        DATED.headed("cache-control", "no-store"),
        DATED.headed("X-Accel-Buffering", "no"),
        GOOD.headed("content-encoding", "identity"),
        GOOD.put(12, *[b"event: ping\ndata: {}\n\n"] * 7)._replace(
            pauses=dict.fromkeys(range(12, 19), 45.0)
        ),
    ],
)
def test_what_no_client_minds_breaks_no_rule(reply: Reply) -> None:
    assert_clean(reply, "codex", "sdk")


@table(
    "reply",
    [
        # which was asked for
        document(b'{"id": "resp_1", "object": "response"}')._replace(asked={"model": "m"}),
        GEMINI._replace(body=b"[%b]" % ERROR, status=503).headed(
            "content-type", "application/json"
        ),
        ANTHROPIC._replace(body=ERROR, status=503).headed("content-type", "application/json"),
        # a silence that the client ended
        CUT._replace(pauses={12: 90.0}, outcome="client_disconnect"),
    ],
)
def test_a_document_an_error_of_its_api_and_what_a_client_left_are_clean(reply: Reply) -> None:
    assert_clean(reply)


@pytest.mark.parametrize(
    ("outcome", "rule"),
    [("upstream_unreachable", "HT008"), ("timeout", "HT008"), ("client_disconnect", "HT009")],
)
def test_an_exchange_without_a_response_is_not_without_a_finding(
    outcome: Outcome, rule: str
) -> None:
    exchange, events = recorded(document(b"")._replace(outcome=outcome))
    without_head = [event for event in events if event.kind != "response"]
    assert [finding.rule for finding in lint(recording_of(exchange, without_head))] == [rule]


@pytest.mark.parametrize("target", ["/v1/models", "/v1/messages/count_tokens"])
def test_what_asks_for_no_answer_may_be_empty(target: str) -> None:
    assert "HT008" not in broken(document(b"")._replace(target=target), "openai")


@table("good", [GOOD, CHAT, ANTHROPIC, GEMINI])
@table("sent", [b"", b": ping\n\n", b'data: {"id', b"data: [DONE]\n\n", b"data: {}\n\n"])
def test_no_stream_without_an_answer_is_without_a_finding(good: Reply, sent: bytes) -> None:
    assert broken(good._replace(events=(sent,)))


def test_a_silence_of_five_minutes_loses_codex_as_well() -> None:
    assert broken(slow(400), "codex") == ["ST007", "ST008"]


def with_gap(at: int, seconds: float) -> tuple[Exchange, list[Event]]:
    """The good reply, less the end of one event and the beginning of the next, which came in that
    many seconds.
    """
    blocks = GOOD.blocks()
    t_ns, steps = STEP_NS, []
    for number, block in enumerate(blocks):
        t_ns += STEP_NS
        if number == at:
            steps.append((Mark.CHUNK, t_ns, block[:20]))
            from_ns, t_ns = t_ns + STEP_NS, t_ns + int(seconds * SECOND)
            gap = Gap(Mark.CHUNK, 2, 100, "", from_ns, t_ns, "full")
            steps.append((Mark.GAP, t_ns, msgspec.json.encode(gap)))
        elif number == at + 1:
            steps.append((Mark.CHUNK, t_ns, block[20:]))
        else:
            steps.append((Mark.CHUNK, t_ns, block))
    head = RequestHead("e", "s", 1, "POST", "/v1/responses", "upstream", [])
    response = ResponseHead(200, "", list(GOOD.headers))
    return assembled(
        [
            (Mark.REQUEST, 0, msgspec.json.encode(head)),
            (Mark.REQUEST_END, 0, msgspec.json.encode(RequestEnd(True))),
            (Mark.RESPONSE, STEP_NS, msgspec.json.encode(response)),
            *steps,
            (Mark.END, t_ns + STEP_NS, msgspec.json.encode(ExchangeEnd("eof"))),
        ]
    )


@table("profile", ["openai", "codex", "sdk"])
@table("at", [0, 12, 20])
def test_where_bytes_were_lost_nothing_is_said_to_be_wrong(profile: Profile, at: int) -> None:
    exchange, events = with_gap(at, 400.0)
    assert any(event.kind == "gap" for event in events)
    assert [finding.rule for finding in lint(recording_of(exchange, events), profile)] == []


def test_an_unterminated_last_event_is_no_missing_one() -> None:
    [finding] = linted(raw(GOOD, 21, b"\n\n", b"\n"))
    assert (finding.rule, finding.places[0].said) == ("ST006", COMPLETED)


def test_places_are_counted_to_the_last_and_kept_up_to_a_limit() -> None:
    [finding] = linted(GOOD.put(5, *[b"event: ping\n\n"] * 150))
    assert (finding.count, len(finding.places)) == (150, PLACES_LIMIT)


def test_an_exchange_that_the_profile_is_not_about_has_no_findings() -> None:
    exchange, events = recorded(GOOD.without(COMPLETED))
    assert lint(recording_of(exchange, events), "gemini") == []
    assert [profile_of(api) for api in ("openai-responses", "openai-chat", "other")] == [
        "openai",
        "chat",
        None,
    ]


def test_what_stands_in_parts_is_one_event() -> None:
    long = "x" * 300_000
    exchange, events = recorded(Reply(({"type": "response.created", "response": {"id": long}},)))
    assert any(event.kind == "part" for event in events)
    [told] = StreamView(recording_of(exchange, events)).blocks
    assert told.payload["response"]["id"] == long


OUTCOMES: list[Outcome | None] = ["eof", "truncated", "client_disconnect", None]
SCRAPS = st.binary(max_size=40) | st.sampled_from(
    [b"data: ", b"event: ", b"\n\n", b"{", b"null", b'"\\ud800"', b"[DONE]"]
)
SENT = [block for reply in (GOOD, CHAT, ANTHROPIC, GEMINI) for block in reply.blocks()]
BLOCKS = st.lists(SCRAPS, max_size=6).map(b"".join) | st.sampled_from(SENT)
DATA = SCRAPS.map(lambda scrap: b"data: " + scrap + b"\n\n")


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    blocks=st.lists(BLOCKS | DATA, max_size=6),
    target=st.sampled_from(TARGETS),
    status=st.sampled_from([200, 204, 404, 500]),
    kind=st.sampled_from(["text/event-stream", "application/json", None]),
    outcome=st.sampled_from(OUTCOMES),
)
def test_no_bytes_make_a_rule_raise(
    blocks: list[bytes], target: str, status: int, kind: str | None, outcome: Outcome | None
) -> None:
    reply = Reply(
        tuple(blocks), target=target, status=status, outcome=outcome, asked={"stream": True}
    )
    exchange, events = recorded(reply.headed("content-type", kind))
    for profile in PROFILES:
        lint(recording_of(exchange, events), profile)


def test_what_a_finding_quotes_is_text_that_can_be_written() -> None:
    """JSON may have half of a surrogate pair, UTF-8 may not: it becomes U+FFFD."""
    events = [
        {
            "type": f"response.{status}",
            "sequence_number": number,
            "response": {"id": id, "status": status},
        }
        for number, (status, id) in enumerate((("created", "\ud800"), ("completed", "b")))
    ]
    assert "b, first \ufffd" in msgspec.json.encode(linted(Reply(tuple(events)))).decode()


def test_rules_name_the_limits_that_they_are_checked_by() -> None:
    """The text of a rule is written; what it says of a number is tested here."""
    meanings = {rule.id: rule.meaning for rule in RULES}
    assert f" {PROXY_SILENCE_NS // 10**9} s" in meanings["ST007"]
    assert f" {CODEX_SILENCE_NS // 10**9} s" in meanings["ST008"]
    assert f" {TOKENS_LIMIT:,}." in meanings["AN030"]
