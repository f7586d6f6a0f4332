"""The rules of Chat Completions: each is broken by one change to a good reply, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.recordings import Json, Mutation, Reply, unnamed

DONE = b"data: [DONE]\n\n"
ROLE, TEXT, CALL, ARGUMENTS, FINISH, USAGE, END = range(7)


def chunk(delta: Json | None = None, reason: str | None = None, index: int = 0) -> Json:
    choice = {"index": index, "delta": delta or {}, "finish_reason": reason}
    return {**_head(), "choices": [choice], "usage": None}


def call(index: int | None = 0, arguments: Any = "", **said: Any) -> Json:
    """A delta of a tool call; with `id`, `type` and `name` it begins one."""
    name = {"name": said.pop("name")} if "name" in said else {}
    at = {} if index is None else {"index": index}
    return {"tool_calls": [{**at, **said, "function": {**name, "arguments": arguments}}]}


def begun(index: int = 0, **said: Any) -> Json:
    return call(index, **{"id": f"call_{index}", "type": "function", "name": "get_weather", **said})


def usage(prompt: int = 12, completion: int = 9, total: int = 21, **details: Json) -> Json:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return {**_head(), "choices": [], "usage": {**counts, **details}}


def _head() -> Json:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-5.5"}


GOOD = Reply(
    events=(
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "Let me see."}),
        chunk(begun()),
        chunk(call(arguments='{"city": "Paris"}')),
        chunk(reason="tool_calls"),
        usage(),
        DONE,
    ),
    encoding=unnamed,
    target="/v1/chat/completions",
    asked={"model": "gpt-5.5", "stream": True, "stream_options": {"include_usage": True}},
)
TWO = (chunk({"role": "assistant", "content": "b"}, index=1), chunk(reason="stop", index=1))
ERROR = {
    "error": {
        "message": "The engine is overloaded.",
        "type": "server_error",
        "code": None,
        "param": None,
    }
}
FAILED = GOOD.put(CALL, ERROR).without(*range(CALL + 1, END + 1))


NOTED = chunk({"annotations": [{"type": "url_citation"}]})
FILTERED = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [],
}


def with_choice(change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda event: change(event["choices"][0])


def with_call(change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda event: change(event["choices"][0]["delta"]["tool_calls"][0])


def told(at: int, event: Json | bytes) -> Reply:
    """The good reply with another event in the place of one."""
    return GOOD.without(at).put(at, event)


NO_FIRST_INDEX = GOOD.without(ARGUMENTS).edited(CALL, with_call(lambda said: said.pop("index")))

MUTATIONS = [
    Mutation("CH001", "done is missing", GOOD.without(END)),
    Mutation(
        "CH001", "of a legacy completion", GOOD.without(END)._replace(target="/v1/completions")
    ),
    Mutation("CH002", "a chunk after done", GOOD.put(END + 1, chunk({"content": "late"}))),
    Mutation("CH002", "done again", GOOD.put(END + 1, DONE)),
    Mutation(
        "CH003",
        "another object",
        GOOD.edited(TEXT, lambda event: event.update(object="chat.completion")),
    ),
    Mutation("CH003", "no object", GOOD.edited(TEXT, lambda event: event.pop("object"))),
    Mutation("CH004", "another id", GOOD.edited(TEXT, lambda event: event.update(id="chatcmpl-2"))),
    Mutation("CH005", "another time", GOOD.edited(TEXT, lambda event: event.update(created=2))),
    Mutation(
        "CH005", "another model", GOOD.edited(TEXT, lambda event: event.update(model="gpt-6"))
    ),
    Mutation("CH006", "no choices", GOOD.put(TEXT, {**_head(), "usage": None})),
    Mutation("CH006", "an array", GOOD.put(TEXT, b"data: []\n\n")),
    Mutation("CH006", "null", GOOD.put(TEXT, b"data: null\n\n")),
    Mutation("CH007", "no id", GOOD.edited(TEXT, lambda event: event.pop("id"))),
    Mutation("CH007", "an empty model", GOOD.edited(TEXT, lambda event: event.update(model=""))),
    Mutation(
        "CH008", "no index", GOOD.edited(TEXT, with_choice(lambda choice: choice.pop("index")))
    ),
    Mutation(
        "CH008",
        "no delta",
        GOOD.put(TEXT, {**_head(), "choices": [{"index": 0, "finish_reason": None}]}),
    ),
    Mutation("CH009", "choice one before zero", GOOD.put(ROLE, *TWO)),
    Mutation(
        "CH010",
        "no role",
        GOOD.edited(ROLE, with_choice(lambda choice: choice["delta"].pop("role"))),
    ),
    Mutation("CH011", "no finish reason", GOOD.without(FINISH)),
    Mutation("CH011", "cut off", GOOD.without(*range(CALL, END + 1))._replace(outcome="truncated")),
    Mutation("CH011", "no choice at all", GOOD.without(*range(USAGE))),
    Mutation("CH012", "no usage", GOOD.without(USAGE)),
    Mutation(
        "CH012",
        "usage where Groq has it",
        told(USAGE, {**_head(), "choices": [], "x_groq": {"usage": {"a": 1}}}),
    ),
    Mutation(
        "CH013", "usage beside a choice", told(USAGE, {**usage(), "choices": chunk()["choices"]})
    ),
    Mutation("CH014", "usage on two chunks", GOOD.put(USAGE, usage())),
    Mutation("CH015", "fewer than none", told(USAGE, usage(-3, 9, 6))),
    Mutation("CH015", "a wrong total", told(USAGE, usage(total=22))),
    Mutation(
        "CH015", "no total", GOOD.edited(USAGE, lambda event: event["usage"].pop("total_tokens"))
    ),
    Mutation(
        "CH015",
        "more cached than sent",
        told(USAGE, usage(prompt_tokens_details={"cached_tokens": 13})),
    ),
    Mutation(
        "CH015",
        "more reasoning than all",
        told(USAGE, usage(completion_tokens_details={"reasoning_tokens": 10})),
    ),
    Mutation("CH016", "no index of the first", NO_FIRST_INDEX),
    Mutation("CH016", "no index", GOOD.put(ARGUMENTS, chunk(call(None, "")))),
    Mutation("CH017", "no id", GOOD.edited(CALL, with_call(lambda said: said.pop("id")))),
    Mutation("CH017", "an empty id", GOOD.edited(CALL, with_call(lambda said: said.update(id="")))),
    Mutation(
        "CH018", "no name", GOOD.edited(CALL, with_call(lambda said: said["function"].pop("name")))
    ),
    Mutation("CH019", "no type", GOOD.edited(CALL, with_call(lambda said: said.pop("type")))),
    Mutation(
        "CH020",
        "the id again",
        GOOD.edited(ARGUMENTS, with_call(lambda said: said.update(id="call_0"))),
    ),
    Mutation("CH020", "the name again", GOOD.put(FINISH, chunk(call(name="get_weather")))),
    Mutation(
        "CH020",
        "two calls of one index",
        GOOD.put(FINISH, chunk(begun(0, id="call_9", arguments="{}"))),
    ),
    Mutation("CH021", "an object", told(ARGUMENTS, chunk(call(arguments={"city": "Paris"})))),
    Mutation("CH022", "no JSON", told(ARGUMENTS, chunk(call(arguments='{"city": ')))),
    Mutation("CH022", "none at all", GOOD.without(ARGUMENTS)),
    Mutation(
        "CH023",
        "an error without a message",
        FAILED.edited(CALL, lambda event: event["error"].pop("message")),
    ),
    Mutation(
        "CH023", "a text", FAILED.edited(CALL, lambda event: event.update(error="overloaded"))
    ),
    Mutation(
        "CH023",
        "in the name alone",
        FAILED.without(CALL).put(CALL, b'event: error\ndata: {"message": "x"}\n\n'),
    ),
    Mutation("CH024", "text after an error", FAILED.put(CALL + 1, chunk({"content": "more"}))),
    Mutation(
        "CH025",
        "a field",
        FAILED.without(CALL).put(CALL, b'error: {"code": 500, "message": "x"}\n\n'),
    ),
    Mutation(
        "CH026",
        "a named chunk",
        GOOD.put(TEXT, b"event: chunk\n" + unnamed(chunk({"content": "x"}))),
    ),
    Mutation(
        "CH027",
        "the role again",
        GOOD.edited(TEXT, with_choice(lambda c: c["delta"].update(role="assistant"))),
    ),
    Mutation("CH028", "parts", told(TEXT, chunk({"content": [{"type": "text", "text": "x"}]}))),
    Mutation("CH029", "text after the end", GOOD.put(USAGE, chunk({"content": "late"}))),
    Mutation("CH035", "a reason without its call", GOOD.without(CALL, ARGUMENTS)),
    Mutation("CH035", "a call, and the turn ends", told(FINISH, chunk(reason="stop"))),
    Mutation(
        "CH036",
        "a reason of another API",
        GOOD.without(CALL, ARGUMENTS, FINISH).put(CALL, chunk(reason="end_turn")),
    ),
    Mutation("CH037", "notes without an index", GOOD.put(CALL, NOTED, NOTED)),
    Mutation(
        "CH006", "a filter result without a list", GOOD.put(ROLE, {**FILTERED, "choices": "x"})
    ),
    Mutation("CH030", "two reasons", GOOD.put(USAGE, chunk(reason="stop"))),
    Mutation(
        "CH031",
        "call one before zero",
        told(CALL, chunk(begun(1))).edited(ARGUMENTS, with_call(lambda s: s.update(index=1))),
    ),
    Mutation(
        "CH032",
        "no type any more",
        GOOD.edited(ARGUMENTS, with_call(lambda said: said.update(type=None))),
    ),
    Mutation(
        "CH033",
        "a role as a number",
        GOOD.edited(ROLE, with_choice(lambda c: c["delta"].update(role=1))),
    ),
    Mutation(
        "CH033",
        "calls as a text",
        GOOD.edited(TEXT, with_choice(lambda c: c["delta"].update(tool_calls="x"))),
    ),
    Mutation(
        "CH033",
        "a function as a text",
        GOOD.put(ARGUMENTS, chunk({"tool_calls": [{"index": 0, "function": "x"}]})),
    ),
    Mutation("CH033", "usage as a number", GOOD.edited(TEXT, lambda event: event.update(usage=1))),
    Mutation("CH034", "no function", GOOD.put(ARGUMENTS, chunk({"tool_calls": [{"index": 0}]}))),
]


GOODS = {
    "as it should be": GOOD,
    "nobody asked for usage": GOOD.without(USAGE)._replace(asked={"stream": True}),
    "nobody knows what was asked": GOOD._replace(asked=None),
    "two choices": GOOD.put(TEXT, *TWO),
    "two calls in one chunk": told(
        CALL,
        chunk({"tool_calls": [*begun(0)["tool_calls"], *begun(1, arguments="{}")["tool_calls"]]}),
    ),
    "an id that is empty later": GOOD.edited(ARGUMENTS, with_call(lambda said: said.update(id=""))),
    "a custom tool": told(
        CALL,
        chunk(
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "call_0",
                        "type": "custom",
                        "custom": {"name": "sql", "input": "x"},
                    }
                ]
            }
        ),
    ).without(ARGUMENTS),
    "arguments that a limit cut off": told(ARGUMENTS, chunk(call(arguments="{")))
    .without(FINISH)
    .put(FINISH, chunk(reason="length")),
    "an error": FAILED,
    "an error and no end": FAILED.without(-1),
    "an error as Azure names it": FAILED.without(CALL).put(
        CALL, b"event: error\n" + unnamed(ERROR)
    ),
    "what Azure says of its filter": GOOD.put(
        ROLE, {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    ),
    "comments": GOOD.put(TEXT, b": OPENROUTER PROCESSING\n\n"),
    "the client left": GOOD.without(*range(CALL, END + 1))._replace(outcome="client_disconnect"),
    "it still goes on": GOOD.without(*range(CALL, END + 1))._replace(outcome=None),
    "a legacy completion": GOOD._replace(target="/v1/completions"),
}
