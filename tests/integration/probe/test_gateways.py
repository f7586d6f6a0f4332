"""Tests for `recorder.probe` by what stands between a client and an answer: connections, limits,
sums, the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import pytest

from recorder.probe import runner
from recorder.probe.apis import APIS
from recorder.probe.rules import RULES
from tests.support.probe import gateway
from tests.support.probe.faults import (
    FAULTS,
    STREAM_HEADERS,
    Json,
    PlantedFault,
    Steps,
    answered,
    each,
    everywhere,
    forgets,
    in_document,
    in_stream,
    is_stream,
    objects,
    on_error,
    removed,
    streamed,
    typed,
    with_status,
)
from tests.support.probe.gateway import Ask, Planted, faults_in, gateways, probed
from tests.support.provider.reply import DemoReply, DemoRequest, Step, whole
from tools.probe_docs import page

FOREVER_S = 3_600.0
SILENCE_S = 1.5  # of a probe that waits for what will not come
HELD_S = 1.2  # for which a gateway holds a stream back: more than `BUFFERED_S`


def _falls_silent(request: DemoRequest, ask: Ask) -> DemoReply:
    """Send three events of a stream, and nothing more."""
    reply = ask(request)
    steps = list(reply.steps)
    return replace(reply, steps=[*steps[:3], Step(FOREVER_S, b"")], length=None, pace=1.0)


def _drips(request: DemoRequest, ask: Ask) -> DemoReply:
    """Send a comment now and then, for ever."""
    comments = (Step(number * SILENCE_S / 5, b": still here\n\n") for number in range(10**6))
    return DemoReply(200, STREAM_HEADERS, comments, pace=1.0)


def _floods(request: DemoRequest, ask: Ask) -> DemoReply:
    """Send more than any limit on tokens allows."""
    return DemoReply(
        200, STREAM_HEADERS, (Step(0.0, b": " + b"x" * 2**18 + b"\n\n") for _ in range(20))
    )


def _breaks_off(request: DemoRequest, ask: Ask) -> DemoReply:
    """Promise more bytes than come."""
    reply = ask(request)
    return reply if is_stream(reply) else replace(reply, length=(reply.length or 0) + 10)


def _holds_back(steps: Steps) -> list[Step]:
    return [Step(HELD_S, b"".join(step.take() for step in steps))]


def _held(request: DemoRequest, ask: Ask) -> DemoReply:
    return replace(streamed(_holds_back)(request, ask), pace=1.0)


def _streams_all(request: DemoRequest, ask: Ask) -> DemoReply:
    body = json.loads(request.body)
    return ask(replace(request, body=json.dumps({**body, "stream": True}).encode()))


def _as_text(_: DemoRequest, reply: DemoReply) -> DemoReply:
    if is_stream(reply) or reply.status != 200:
        return reply
    return whole(b"".join(step.take() for step in reply.steps), (("content-type", "text/plain"),))


def _counted_twice(event: Json) -> None:
    for found in objects(event):
        if "prompt_tokens" in found:
            found["prompt_tokens"] += 500
            found["total_tokens"] += 500


def _total_too_high(event: Json) -> None:
    for found in objects(event):
        if "total_tokens" in found:
            found["total_tokens"] += 100


def _counted_too_high(event: Json) -> None:
    for found in objects(event):
        if "prompt_tokens" in found:
            found["completion_tokens"] *= 40
            found["total_tokens"] = found["prompt_tokens"] + found["completion_tokens"]


def _resumes_one_later(request: DemoRequest, ask: Ask) -> DemoReply:
    path, _, query = request.target.partition("starting_after=")
    return ask(
        replace(request, target=f"{path}starting_after={int(query) + 1}") if query else request
    )


def _another_later(request: DemoRequest, ask: Ask) -> DemoReply:
    """Give a resumed stream another id."""
    changed = in_stream(
        each("id", lambda _: "resp_another", of=lambda found: found.get("object") == "response")
    )
    return changed(request, ask) if "starting_after" in request.target else ask(request)


def _other_text_later(request: DemoRequest, ask: Ask) -> DemoReply:
    """Say something else in the deltas of a resumed stream than in its response."""
    changed = in_stream(each("delta", str.upper, of=typed("response.output_text.delta")))
    return changed(request, ask) if "starting_after" in request.target else ask(request)


def _named_again(event: Json) -> None:
    """Say the name of a tool in each delta of its arguments."""
    for found in objects(event):
        if found.keys() == {"arguments"}:
            found["name"] = "get_weather"


def _is_no_rest(event: Json) -> bool:
    return event.get("type") != "agent.session.idle"


def _takes_no_events(request: DemoRequest, ask: Ask) -> DemoReply:
    """Refuse what is added to a session that is there."""
    is_added = request.method == "POST" and request.path.endswith("/events")
    return whole(b"{}", (), 404) if is_added else ask(request)


_RENAMED = each("name", lambda _: "f", of=typed("function_call"))


OURS: dict[str, list[PlantedFault]] = {
    "openai-responses": [
        PlantedFault(
            "no-text", "Texts are empty.", "text", "PR020", everywhere(each("text", lambda _: ""))
        ),
        PlantedFault(
            "no-input",
            "A list is null.",
            "text",
            "PR014 PR150",
            in_document(each("content", lambda _: None)),
        ),
        PlantedFault(
            "resumes-later", "Resuming leaves an event out.", "resume", "PR100", _resumes_one_later
        ),
        PlantedFault(
            "no-model",
            "No model is named.",
            "text",
            "PR016",
            everywhere(each("model", lambda _: "")),
        ),
        PlantedFault(
            "resumes-another", "The rest is of another response.", "resume", "PR102", _another_later
        ),
        PlantedFault(
            "resumes-otherwise", "The rest is another text.", "resume", "PR101", _other_text_later
        ),
    ],
    "anthropic": [
        PlantedFault(
            "unsigned",
            "Nothing is signed.",
            "reasoning",
            "PR123 AN020",
            everywhere(removed("signature")),
        ),
    ],
    "openai-chat": [
        PlantedFault(
            "total", "The total is too high.", "text", "PR031", everywhere(_total_too_high)
        ),
        PlantedFault(
            "refuses",
            "Everything is refused.",
            "text",
            "PR010",
            lambda request, ask: whole(b"{}", (), 403),
        ),
        PlantedFault("holds-back", "A stream comes at its end.", "text", "PR022", _held),
        PlantedFault("streams-all", "A stream comes unasked.", "text", "PR012", _streams_all),
        PlantedFault(
            "as-text", "A document is called a text.", "text", "PR013", answered(_as_text)
        ),
        PlantedFault(
            "twice", "Streams count the prompt twice.", "text", "PR033", in_stream(_counted_twice)
        ),
        PlantedFault(
            "too-high", "Counts are summed.", "text", "PR032", everywhere(_counted_too_high)
        ),
        PlantedFault(
            "no-tools", "Tools are forgotten.", "forced-tool", "PR040 PR050", forgets("tools")
        ),
        PlantedFault(
            "renames",
            "Tools are renamed.",
            "forced-tool",
            "PR045 PR050",
            everywhere(each("name", lambda _: "f")),
        ),
        PlantedFault(
            "other-schema",
            "Fields are renamed.",
            "structured",
            "PR061",
            in_document(each("content", lambda text: str(text).replace("inhabitants", "people"))),
        ),
        PlantedFault(
            "names", "Names come again.", "forced-tool", "CH020 PR151", in_stream(_named_again)
        ),
        PlantedFault(
            "key-500",
            "A wrong key breaks it.",
            "wrong-key",
            "PR091",
            on_error(401, change=with_status(500)),
        ),
    ],
    "openai-agents": [
        PlantedFault(
            "no-spending",
            "Turns have no tokens.",
            "text",
            "OA007 PR030",
            everywhere(removed("usage")),
        ),
        PlantedFault("no-rest", "No session rests.", "text", "OA004 PR015", in_stream(_is_no_rest)),
        PlantedFault(
            "renames-calls", "Tools are renamed.", "tool-results", "PR045", in_stream(_RENAMED)
        ),
        PlantedFault(
            "no-events", "Nothing can be added.", "tool-results", "PR010", _takes_no_events
        ),
    ],
    "anthropic-sessions": [
        PlantedFault(
            "no-model-usage",
            "No tokens.",
            "text",
            "AS004 PR030 PR150",
            in_stream(removed("model_usage")),
        ),
        PlantedFault(
            "no-reason",
            "No reason to rest.",
            "text",
            "AS004 PR015",
            in_stream(removed("stop_reason")),
        ),
        PlantedFault(
            "takes-nothing", "Nothing can be added.", "tool-results", "PR010", _takes_no_events
        ),
    ],
}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    broken = {
        "silent": _falls_silent,
        "drips": _drips,
        "floods": _floods,
        "breaks-off": _breaks_off,
    }
    planted: dict[str, Planted] = {
        fault.name: fault.planted for faults in OURS.values() for fault in faults
    }
    with gateways({**planted, **broken}) as url:
        yield url


@pytest.mark.long
@pytest.mark.parametrize(
    ("api", "fault"),
    [pytest.param(api, fault, id=fault.name) for api, faults in OURS.items() for fault in faults],
)
async def test_a_fault_is_found(api: str, fault: PlantedFault, base: str) -> None:
    found = faults_in(await probed(f"{base}/{fault.name}", api, fault.cases.split()))
    assert set(fault.rules.split()) <= set(chain(*found.values())), f"{fault.says} Found: {found}"


@pytest.mark.parametrize(
    ("name", "rule"),
    [("silent", "PR002"), ("drips", "PR003"), ("floods", "PR003"), ("breaks-off", "PR004")],
)
async def test_a_gateway_that_hangs_or_breaks_is_a_finding(
    name: str, rule: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "SILENCE_S", SILENCE_S)
    monkeypatch.setattr(runner, "REQUEST_FACTOR", 2)
    monkeypatch.setattr(runner, "BODY_LIMIT_BYTES", 2**20)
    found = faults_in(await probed(f"{base}/{name}", "openai-chat", ["text"]))
    assert rule in chain(*found.values()), found


async def test_a_gateway_that_is_not_there_is_a_finding() -> None:
    found = faults_in(await probed("http://127.0.0.1:1", "openai-chat", ["text"]))
    assert found == {"text streamed": ["PR001"], "text plain": ["PR001"]}


def test_every_case_and_rule_is_on_the_page() -> None:
    text = page()
    assert [rule.id for rule in RULES if f"### {rule.id} · {rule.severity}\n" not in text] == []
    assert [
        case.name for api in APIS.values() for case in api.cases if f"| `{case.name}` |" not in text
    ] == []


def test_every_rule_is_broken_by_a_gateway_of_the_tests() -> None:
    planted = {
        rule
        for faults in (*FAULTS.values(), *OURS.values())
        for each in faults
        for rule in each.rules.split()
    }
    broken = {"PR001", "PR002", "PR003", "PR004"}
    assert {rule.id for rule in RULES} - planted - broken == set()
