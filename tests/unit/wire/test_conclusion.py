"""Whether a client that left was done: the rule, on events as they are captured and on those
recorded before it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recorder.cassettes.har.writer import har_lines
from recorder.cassettes.vcr.writer import inexpressible
from recorder.ingest.capture import Capture
from recorder.lint.linter import lint
from recorder.model.events import (
    EndRecord,
    Event,
    Exchange,
    ExchangeEnd,
    Outcome,
    Recording,
    RequestHead,
    ResponseHead,
)
from recorder.projections.fold import Rows
from recorder.replay.transport import answer
from recorder.store.maintain.verify.chain import ChainVerifier
from recorder.wire.conclusion import Conclusion, concluded
from recorder.wire.dialects import by_name
from recorder.wire.framing.sse import BOM, FRAME_LIMIT, Splitter
from recorder.wire.recording import recording_of
from tests.support.corpus import corpus_files, needs_corpus
from tests.support.facts import captured, folded
from tests.support.tables import table

STARTED = (
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
)
COMPLETED = (
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1"}}\n\n'
)


def chat(finish: str | None = None, index: int = 0, **more: Any) -> bytes:
    choice = {"index": index, "delta": {"content": "Hi"}, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **more}
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def gemini(finish: str | None = None, *, used: int = 9, part: Any = None, **more: Any) -> bytes:
    candidate = {"content": {"parts": [part or {"text": "Hi"}]}} | (
        {"finishReason": finish} if finish else {}
    )
    chunk = {"candidates": [candidate | more]} | (
        {"usageMetadata": {"totalTokenCount": used}} if used else {}
    )
    return b"data: " + msgspec.json.encode(chunk) + b"\r\n\r\n"


USAGE = {"total_tokens": 9}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}
ERROR = b'data: {"error":{"message":"x"}}\n\n'
BLOCKED = b'data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"totalTokenCount":1}}\r\n\r\n'

DONE: dict[str, tuple[str, list[bytes], str]] = {
    "completed": ("openai-responses", [STARTED, COMPLETED], "completed"),
    "incomplete": (
        "openai-responses",
        [STARTED, b'data: {"type":"response.incomplete"}\n\n'],
        "incomplete",
    ),
    "failed": ("openai-responses", [STARTED, b'data: {"type":"response.failed"}\n\n'], "failed"),
    "error": ("openai-responses", [STARTED, b'data: {"type":"error"}\n\n'], "failed"),
    "comment behind": ("openai-responses", [STARTED, COMPLETED, b": ping\n\n"], "completed"),
    "carriage returns": (
        "openai-responses",
        [STARTED, COMPLETED.replace(b"\n", b"\r")],
        "completed",
    ),
    "[DONE]": ("openai-chat", [chat(), chat("stop"), b"data: [DONE]\n\n"], "completed"),
    "usage alone": (
        "openai-chat",
        [chat(), chat("stop"), chat(choices=[], usage=USAGE)],
        "completed",
    ),
    "chat error": ("openai-chat", [chat(), ERROR], "failed"),
    "message_stop": (
        "anthropic",
        [b'event: message_stop\ndata: {"type":"message_stop"}\n\n'],
        "completed",
    ),
    "finishReason": ("gemini", [gemini(), gemini("STOP")], "completed"),
    "function call": (
        "gemini",
        [gemini("STOP", part={"functionCall": {"name": "f", "args": {}}})],
        "completed",
    ),
    "[DONE] of a gateway": ("gemini", [gemini(), gemini("STOP"), b"data: [DONE]\n\n"], "completed"),
    "an assistant": ("other", [b"event: thread.run.completed\ndata: {}\n\n"], "completed"),
    "done of an assistant": ("other", [b"event: done\ndata: [DONE]\n\n"], "completed"),
    "[DONE] of anybody": ("other", [b'data: {"text":"Hi"}\n\n', b"data: [DONE]\n\n"], "completed"),
    "AG-UI": (
        "ag-ui",
        [b'data: {"type":"RUN_STARTED"}\n\n', b'data: {"type":"RUN_FINISHED"}\n\n'],
        "completed",
    ),
    "Cohere": ("other", [b'event: message-end\ndata: {"type":"message-end"}\n\n'], "completed"),
    "an image": ("other", [b"event: image_generation.completed\ndata: {}\n\n"], "completed"),
    "a transcript": ("other", [b'data: {"type":"transcript.text.done"}\n\n'], "completed"),
    "gemini error": ("gemini", [gemini(), ERROR], "failed"),
    "blocked": ("gemini", [BLOCKED], "completed"),
}
CUT: dict[str, tuple[str, list[bytes]]] = {
    "nothing": ("openai-responses", []),
    "no end": ("openai-responses", [STARTED]),
    "half a last event": ("openai-responses", [STARTED, COMPLETED[:-20]]),
    "no blank line": ("openai-responses", [STARTED, COMPLETED[:-1]]),
    "half an event behind": (
        "openai-responses",
        [STARTED, b'data: {"type":"error"}\n\n', b"event: response.fai"],
    ),
    "only a finish": ("openai-chat", [chat(), chat("stop")]),
    "usage in every chunk": ("openai-chat", [chat(usage=USAGE), chat("stop", usage=USAGE)]),
    "usage of the first answer": (
        "openai-chat",
        [chat(index=1), chat("stop"), chat(choices=[], usage=USAGE)],
    ),
    "usage before": ("openai-chat", [chat(choices=[], usage=USAGE), chat(), chat("stop")]),
    "usage first of all": ("openai-chat", [chat(choices=[], usage=USAGE)]),
    "half a [DONE]": ("openai-chat", [chat(), chat("stop"), b"data: [DONE]\n"]),
    "message_delta": (
        "anthropic",
        [b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'],
    ),
    "no finishReason": ("gemini", [gemini(), gemini()]),
    "no usage": ("gemini", [gemini(), gemini("STOP", used=0)]),
    "a finishReason in every chunk": ("gemini", [gemini("STOP"), gemini("STOP")]),
    "a step of a tool": ("gemini", [gemini(), gemini("STOP", part=CODE)]),
    "the second answer": ("gemini", [gemini(), gemini("STOP", index=1)]),
    "no API that is known": ("other", [b'event: error\ndata: {"error":"x"}\n\n']),
}


LEFT_OR_WAITED: tuple[Outcome, Outcome] = ("client_disconnect", "eof")


def left(
    frames: Sequence[bytes], api: str, outcome: Outcome = "client_disconnect"
) -> tuple[Exchange, list[Event]]:
    """A stream that its client left behind these frames, as the log has it."""
    return captured(b"".join(frames), api, outcome=outcome)


def before(events: list[Event], status: str) -> list[Event]:
    """The same as it was recorded when the outcome `client_done` was not known."""
    end = msgspec.json.decode(events[-1].raw, type=EndRecord)
    end = msgspec.structs.replace(
        end, outcome="client_disconnect", status=status, error="the client left"
    )
    return [*events[:-1], msgspec.structs.replace(events[-1], raw=msgspec.json.encode(end))]


def end_of(events: list[Event]) -> EndRecord:
    return msgspec.json.decode(events[-1].raw, type=EndRecord)


def verified(exchange: Exchange, events: list[Event]) -> list[Any]:
    verifier = ChainVerifier(exchange.session_id, exchange.exchange_id)
    for event in events:
        verifier.feed(event)
    return list(verifier.close())


def anomalies(rows: Rows) -> list[str]:
    return [row.kind for row in rows["anomalies"]]


@table("case", DONE)
def test_who_leaves_when_all_was_said_is_done(case: str) -> None:
    api, frames, status = DONE[case]
    exchange, events = left(frames, api)
    end = end_of(events)
    assert (end.outcome, end.status, end.error, end.lossless) == ("client_done", status, None, True)
    assert verified(exchange, events) == []
    waited, whole = left(frames, api, "eof")
    assert end_of(whole).status == status
    assert anomalies(folded(exchange, events)) == anomalies(folded(waited, whole))


@table("case", CUT)
def test_who_leaves_before_has_broken_off(case: str) -> None:
    api, frames = CUT[case]
    exchange, events = left(frames, api)
    assert end_of(events).outcome == "client_disconnect"
    assert answer(recording_of(exchange, events)).failure is not None


@table("outcome", ["truncated", "upstream_reset", "timeout", "recorder_shutdown", "recorder_crash"])
def test_what_others_broke_off_is_broken_off(outcome: Outcome) -> None:
    exchange, events = left([STARTED, COMPLETED], "openai-responses", outcome)
    assert end_of(events).outcome == outcome
    assert answer(recording_of(exchange, events)).failure is not None


@table("case", DONE)
def test_a_recording_of_before_is_judged_alike(case: str) -> None:
    api, frames, status = DONE[case]
    exchange, events = left(frames, api)
    old = before(
        events, status if by_name(api).needs_terminal or status == "failed" else "client_disconnect"
    )
    for each in (events, old):
        recording = recording_of(exchange, each)
        assert recording.end == concluded(exchange, each)
        assert recording.end is not None
        assert (recording.end.outcome, recording.end.status, recording.end.error) == (
            "client_done",
            status,
            None,
        )
        assert answer(recording).failure is None
        assert b"".join(chunk.data for chunk in answer(recording).chunks) == b"".join(frames)
        assert inexpressible(recording) is None
        assert b"_error" not in b"".join(har_lines([recording]))


@table("case", ["completed", "[DONE]", "usage alone", "message_stop", "finishReason"])
def test_lint_finds_nothing_missing_that_the_client_did_not_wait_for(case: str) -> None:
    api, frames, _ = DONE[case]
    found, waited = (
        {finding.rule for finding in lint(recording_of(*left(frames, api, outcome)))}
        for outcome in LEFT_OR_WAITED
    )
    assert found <= waited - {"CH001"}, "no `[DONE]`"


def test_a_last_event_in_parts_is_one() -> None:
    padding = b'"response":{"text":"' + b"x" * 2 * FRAME_LIMIT + b'"}}'
    large = b'event: response.completed\ndata: {"type":"response.completed",' + padding + b"\n\n"
    for frames, outcome in (
        ([STARTED, large], "client_done"),
        ([STARTED, large[:-9]], "client_disconnect"),
    ):
        exchange, events = left(frames, "openai-responses")
        assert end_of(events).outcome == outcome
        end = concluded(exchange, before(events, "completed"))
        assert end is not None
        assert end.outcome == outcome


# what is not there of the body


def told(chunks: Sequence[bytes], *headers: tuple[str, str]) -> Recording:
    """What is recorded of chunks behind which the client left."""
    exchange, _ = left([], "openai-responses")
    request = RequestHead(
        exchange.exchange_id, exchange.session_id, 1, "POST", exchange.target, "openai", []
    )
    one = Capture(exchange.session_id, exchange.exchange_id, by_name("openai-responses"), 0)
    events = one.request(request, b"", wire=b"")
    events += one.response(
        1, ResponseHead(200, "OK", [("content-type", "text/event-stream"), *headers])
    )
    for number, chunk in enumerate(chunks, 2):
        events += one.chunk(number, chunk)
    events += one.end(len(chunks) + 2, ExchangeEnd("client_disconnect"))
    assert verified(exchange, events) == []
    return recording_of(exchange, events)


@pytest.mark.parametrize(("more", "outcome"), [(0, "client_done"), (5, "client_disconnect")])
def test_a_body_that_says_how_long_it_is_has_to_be_there(more: int, outcome: str) -> None:
    body = STARTED + COMPLETED
    recording = told([body], ("Content-Length", str(len(body) + more)))
    assert recording.end is not None
    assert recording.end.outcome == outcome


def test_a_length_that_is_no_number_of_bytes_is_none() -> None:
    assert told([STARTED + COMPLETED], ("Content-Length", "9" * 5_000)).end is not None


@table("kept", range(11))
def test_the_end_of_a_coding_need_not_come(kept: int) -> None:
    """Ten bytes stand behind the last event: an empty block, a digest and a length.

    What came of them is not an event.
    """
    coder = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    events = coder.compress(STARTED + COMPLETED) + coder.flush(zlib.Z_SYNC_FLUSH)
    rest = coder.flush()
    assert gzip.decompress(events + rest) == STARTED + COMPLETED
    assert len(rest) == 10
    recording = told([events, rest[:kept]] if kept else [events], ("Content-Encoding", "gzip"))
    assert recording.end is not None
    assert recording.end.outcome == "client_done"
    played = answer(recording)
    assert played.failure is None
    assert played.head is not None
    assert "content-encoding" not in {name.lower() for name, _ in played.head.headers}
    assert b"".join(chunk.data for chunk in played.chunks) == STARTED + COMPLETED


# real streams

# in one file: the first has an end of its own
TWO_RESPONSES = {"anthropic-tool-search-bm25", "encrypted-content"}


@needs_corpus
@table("path", corpus_files())
def test_no_real_stream_goes_on_behind_its_end(path: Path) -> None:
    """At whatever event its client leaves: only `[DONE]` and comments follow."""
    api = {"openai-completions": "openai-chat"}.get(path.parent.name, path.parent.name)
    dialect, splitter, body = by_name(api), Splitter(), path.read_bytes()
    conclusion, over = Conclusion(dialect), False
    for piece in [*splitter.feed(body), *splitter.close()]:
        if (
            over
            and piece.kind != "comment"
            and not any(name in path.name for name in TWO_RESPONSES)
        ):
            assert b"[DONE]" in piece.raw
        keys = dialect.keys(piece.raw.removeprefix(BOM))
        conclusion.add(
            piece.kind, None if piece.kind == "comment" else keys.type, keys.output_index, piece.raw
        )
        over = over or conclusion.outcome("client_disconnect", len(body)) == "client_done"
