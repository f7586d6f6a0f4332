"""The rules of Gemini: each is broken by one change to a good reply, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.recordings import Json, Mutation, Reply, crlf, unnamed

THOUGHT, TEXT, CALL, LAST, END = range(5)


def chunk(*parts: Json, reason: str | None = None, index: int = 0, **said: Any) -> Json:
    candidate: Json = {"content": {"parts": list(parts), "role": "model"}, "index": index}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "gemini-3.1-pro", "responseId": "r1", **said}


def usage(
    prompt: Any = 12, written: int = 6, thoughts: int = 3, total: int | None = 21, **more: Any
) -> Json:
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": written,
        "thoughtsTokenCount": thoughts,
    }
    return {**counts, "totalTokenCount": total, **more}


def call(
    name: str | None = "get_weather", args: Any = None, signature: str | None = "c2ln"
) -> Json:
    said = {"functionCall": {"args": {"city": "Paris"} if args is None else args}}
    if name:
        said["functionCall"]["name"] = name
    return {**said, "thoughtSignature": signature} if signature else said


GOOD = Reply(
    events=(
        chunk(
            {"text": "Paris it is.", "thought": True},
            usageMetadata={"promptTokenCount": 12, "totalTokenCount": 12},
        ),
        chunk({"text": "Let me see."}),
        chunk(call()),
        chunk({"text": ""}, reason="STOP", usageMetadata=usage()),
    ),
    encoding=crlf,
    target="/v1beta/models/gemini-3.1-pro:streamGenerateContent?alt=sse",
    asked={"contents": [{"parts": [{"text": "weather"}]}]},
    headers=(("content-type", "text/event-stream"),),
)
ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
FAILED = GOOD.without(CALL, LAST).put(CALL, ERROR)
BARE = json.dumps(ERROR, indent=2).replace("\n", "\r\n").encode()
STREAMED: tuple[Json, ...] = (
    {"functionCall": {"name": "get_weather", "willContinue": True}, "thoughtSignature": "c2ln"},
    {
        "functionCall": {
            "partialArgs": [{"jsonPath": "$.city", "stringValue": "Paris"}],
            "willContinue": True,
        }
    },
    {"functionCall": {}},
)
BLOCKED = {
    "promptFeedback": {"blockReason": "SAFETY"},
    "usageMetadata": {"promptTokenCount": 12, "totalTokenCount": 12},
}


def told(at: int, event: Json | bytes) -> Reply:
    """The good reply with another event in the place of one."""
    return GOOD.without(at).put(at, event)


def in_candidate(at: int, change: Callable[[Json], object]) -> Reply:
    return GOOD.edited(at, lambda event: change(event["candidates"][0]))


def last(**counts: Any) -> Reply:
    return GOOD.edited(LAST, lambda event: event.update(usageMetadata=usage(**counts)))


MUTATIONS = [
    Mutation(
        "GE001", "an event line", told(TEXT, b"event: chunk\r\n" + crlf(chunk({"text": "x"})))
    ),
    Mutation("GE001", "an id", told(TEXT, b"id: 1\r\n" + crlf(chunk({"text": "x"})))),
    Mutation("GE001", "a retry alone", GOOD.put(TEXT, b"retry: 1000\r\n\r\n")),
    Mutation("GE001", "a field unknown", GOOD.put(TEXT, b"hello\r\n\r\n")),
    Mutation(
        "GE001",
        "a chunk without data",
        GOOD.put(TEXT, json.dumps(chunk({"text": "x"})).encode() + b"\r\n\r\n"),
    ),
    Mutation("GE002", "a comment", GOOD.put(TEXT, b": keep-alive\r\n\r\n")),
    Mutation("GE002", "an empty comment", GOOD.put(TEXT, b":\r\n\r\n")),
    Mutation("GE002", "a comment in an event", told(TEXT, b": x\r\n" + crlf(chunk({"text": "x"})))),
    Mutation(
        "GE003", "no space", told(TEXT, crlf(chunk({"text": "x"})).replace(b"data: ", b"data:"))
    ),
    Mutation("GE004", "done", GOOD.put(END, b"data: [DONE]\r\n\r\n")),
    Mutation("GE005", "line feeds", GOOD._replace(encoding=unnamed)),
    Mutation("GE006", "an array", GOOD.put(TEXT, b"data: []\r\n\r\n")),
    Mutation("GE006", "null", GOOD.put(TEXT, b"data: null\r\n\r\n")),
    Mutation("GE007", "no code", FAILED.edited(CALL, lambda event: event["error"].pop("code"))),
    Mutation(
        "GE007",
        "a code that is a text",
        FAILED.edited(CALL, lambda event: event["error"].update(code="503")),
    ),
    Mutation(
        "GE007", "a text", FAILED.edited(CALL, lambda event: event.update(error="overloaded"))
    ),
    Mutation(
        "GE007",
        "not the first field",
        FAILED.without(CALL).put(CALL, {"responseId": "r1", **ERROR}),
    ),
    Mutation(
        "GE008", "no reason", in_candidate(LAST, lambda candidate: candidate.pop("finishReason"))
    ),
    Mutation("GE008", "cut off", GOOD.without(CALL, LAST)._replace(outcome="truncated")),
    Mutation(
        "GE008",
        "cut off before usage",
        GOOD._replace(events=GOOD.events[TEXT:CALL], outcome="upstream_reset"),
    ),
    Mutation("GE008", "no candidate", GOOD._replace(events=({"usageMetadata": usage()},))),
    Mutation(
        "GE009",
        "no usage",
        GOOD.without(THOUGHT).edited(LAST - 1, lambda event: event.pop("usageMetadata")),
    ),
    Mutation("GE010", "text after an error", FAILED.put(LAST, chunk({"text": "x"}))),
    Mutation("GE011", "text as a number", told(TEXT, chunk({"text": 1}))),
    Mutation(
        "GE011",
        "a part as a text",
        in_candidate(TEXT, lambda candidate: candidate["content"].update(parts=["x"])),
    ),
    Mutation(
        "GE011",
        "parts as a text",
        in_candidate(TEXT, lambda candidate: candidate["content"].update(parts="x")),
    ),
    Mutation(
        "GE011",
        "an index as a text",
        in_candidate(TEXT, lambda candidate: candidate.update(index="0")),
    ),
    Mutation("GE011", "a call as a text", told(TEXT, chunk({"functionCall": "get_weather"}))),
    Mutation(
        "GE011",
        "a reason as a number",
        in_candidate(LAST, lambda candidate: candidate.update(finishReason=1)),
    ),
    Mutation("GE011", "candidates as an object", GOOD.put(TEXT, {"candidates": {}})),
    Mutation(
        "GE012",
        "a count as a text",
        GOOD.edited(THOUGHT, lambda event: event.update(usageMetadata=usage("many"))),
    ),
    Mutation(
        "GE012",
        "usage as a number",
        GOOD.edited(THOUGHT, lambda event: event.update(usageMetadata=12)),
    ),
    Mutation("GE013", "no name", told(CALL, chunk(call(None)))),
    Mutation("GE014", "arguments as a text", told(CALL, chunk(call(args='{"city": "Paris"}')))),
    Mutation("GE014", "arguments as an array", told(CALL, chunk(call(args=["Paris"])))),
    Mutation("GE015", "no signature", told(CALL, chunk(call(signature=None)))),
    Mutation("GE016", "no base64", told(TEXT, chunk({"text": "", "thoughtSignature": "***"}))),
    Mutation("GE017", "a wrong total", last(total=22)),
    Mutation("GE017", "more cached than sent", last(cachedContentTokenCount=13)),
    Mutation(
        "GE018",
        "usage",
        GOOD.edited(LAST, lambda event: event.update(usage_metadata=event.pop("usageMetadata"))),
    ),
    Mutation(
        "GE018",
        "a reason",
        in_candidate(LAST, lambda said: said.update(finish_reason=said.pop("finishReason"))),
    ),
    Mutation(
        "GE018", "a call", told(CALL, chunk({"function_call": {"name": "get_weather", "args": {}}}))
    ),
    Mutation(
        "GE019",
        "another model",
        GOOD.edited(TEXT, lambda event: event.update(modelVersion="gemini-3.0-flash")),
    ),
    Mutation("GE019", "another id", GOOD.edited(TEXT, lambda event: event.update(responseId="r2"))),
    Mutation(
        "GE020",
        "one index twice",
        GOOD.edited(TEXT, lambda event: event["candidates"].append({"index": 0})),
    ),
    Mutation("GE021", "text after the reason", GOOD.put(END, chunk({"text": "late"}))),
    Mutation(
        "GE011",
        "a role as a number",
        in_candidate(TEXT, lambda said: said["content"].update(role=1)),
    ),
    Mutation("GE011", "a thought as a text", told(TEXT, chunk({"text": "x", "thought": "yes"}))),
    Mutation(
        "GE011",
        "ratings as a text",
        in_candidate(TEXT, lambda said: said.update(safetyRatings="none")),
    ),
    Mutation("GE011", "details as an object", last(promptTokensDetails={})),
    Mutation("GE017", "fewer than none", last(written=-6, total=9)),
    Mutation("GE023", "the last chunk twice", GOOD.put(END, GOOD.events[LAST])),
    Mutation("GE022", "half a chunk after the end", GOOD.put(END, b'data: {"candidates":[{"te')),
    Mutation(
        "GE011", "half a token", last(promptTokensDetails=[{"modality": "TEXT", "tokenCount": 1.5}])
    ),
    Mutation(
        "GE011",
        "code without code",
        GOOD.put(TEXT, chunk({"executableCode": {"language": "PYTHON"}})),
    ),
    Mutation("GE017", "no total", last(total=None)),
    Mutation(
        "GE022", "no blank line", told(LAST, crlf(chunk(reason="STOP", usageMetadata=usage()))[:-2])
    ),
]


GOODS = {
    "as it should be": GOOD,
    "several data lines": told(TEXT, b'data: {"candidates":\r\ndata: []}\r\n\r\n'),
    "two candidates": GOOD.put(TEXT, chunk({"text": "b"}, index=1), chunk(reason="STOP", index=1)),
    "an index that is left out": in_candidate(TEXT, lambda candidate: candidate.pop("index")),
    "a later call without a signature": GOOD.put(LAST, chunk(call(signature=None))),
    "a call of a model that does not sign": told(CALL, chunk(call(signature=None)))._replace(
        events=tuple(
            {**event, "modelVersion": "gemini-2.5-flash"}
            for event in told(CALL, chunk(call(signature=None))).events
            if isinstance(event, dict)
        )
    ),
    "arguments in pieces": GOOD.without(CALL).put(CALL, *(chunk(part) for part in STREAMED)),
    "a call without arguments": told(
        CALL, chunk({"functionCall": {"name": "now"}, "thoughtSignature": "c2ln"})
    ),
    "a signature without padding": told(TEXT, chunk({"text": "", "thoughtSignature": "c2lnbg"})),
    "a blocked prompt": GOOD._replace(events=(BLOCKED,)),
    "usage that says only the traffic": GOOD.put(
        END, {"usageMetadata": {"trafficType": "ON_DEMAND"}}
    ),
    "tokens of tools": last(total=26, toolUsePromptTokenCount=5),
    "an error": FAILED,
    "an error as bare JSON": FAILED.without(CALL).put(CALL, BARE + b"\r\n"),
    "an error as bare JSON on one line": FAILED.without(CALL).put(CALL, json.dumps(ERROR).encode()),
    "the client left": GOOD.without(CALL, LAST)._replace(outcome="client_disconnect"),
    "it still goes on": GOOD.without(CALL, LAST)._replace(outcome=None),
}
