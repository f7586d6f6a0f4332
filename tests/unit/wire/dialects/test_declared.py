"""Dialects as data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recorder.model.facts import (
    ErrorReported,
    Fact,
    ItemStarted,
    ResponseFinished,
    TextAdded,
    ToolResult,
    UnknownType,
)
from recorder.wire import dialects
from recorder.wire.dialects.declared import parse
from recorder.wire.dialects.dialect import Dialect
from tests.support.facts import folded
from tests.support.live import Live
from tests.support.tables import table
from tests.support.websocket import Connection

ROUTES = ["GET /api/*/{session}", "* /chat"]
GOOD = {"routes": ROUTES, "type": "kind", "text": {"say": "words"}}


def declared(**more: Any) -> Dialect:
    return parse("mine", {**GOOD, **more}, ["other"])


def read(dialect: Dialect, *payloads: dict[str, Any]) -> list[Fact]:
    decoder = dialect.decoder()
    facts: list[Fact] = []
    for payload in payloads:
        data = json.dumps(payload).encode()
        facts += decoder.event(dialect.keys(b"data: %b\n\n" % data).type, data)
    return facts


@table(
    ("name", "given", "said"),
    [
        (
            "Mine",
            GOOD,
            "[dialect.Mine] cannot be called that: use a-z, 0-9 and '-', and not other.",
        ),
        ("other", GOOD, "[dialect.other] cannot be called that"),
        ("mine", 7, "[dialect.mine] must be a table."),
        (
            "mine",
            {**GOOD, "txet": {}},
            "[dialect.mine] has no setting 'txet'; there are routes, type,",
        ),
        (
            "mine",
            {"text": {"say": "words"}},
            '[dialect.mine] needs routes, for example routes = ["POST /api/chat"].',
        ),
        (
            "mine",
            {**GOOD, "routes": ["api"]},
            "[dialect.mine]: the route 'api' is not like \"GET /api/stream/*/{session}\".",
        ),
        ("mine", {"routes": ROUTES}, "[dialect.mine] gives no type a meaning, for example text ="),
        ("mine", {**GOOD, "text": "say"}, "[dialect.mine]: `text` must be a table."),
        (
            "mine",
            {**GOOD, "text": {"say": 1}},
            "[dialect.mine]: `text.say` is a path of members with dots between",
        ),
        (
            "mine",
            {**GOOD, "text": {"say": ""}},
            "[dialect.mine]: `text.say` needs the path of its value.",
        ),
        (
            "mine",
            {**GOOD, "end": {"": ""}},
            "[dialect.mine]: `end.` needs the path of its value.",
        ),
        (
            "mine",
            {**GOOD, "model": "a..b"},
            "[dialect.mine]: `model` is a path of members with dots between",
        ),
        (
            "mine",
            {**GOOD, "tokens": {"in": "x"}},
            "[dialect.mine]: `tokens` has no 'in'; there are input, cached,",
        ),
        (
            "mine",
            {**GOOD, "ignored": 1},
            "[dialect.mine]: `ignored` is a text, or a list of texts.",
        ),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_with_its_place(
    name: str, given: Any, said: str
) -> None:
    with pytest.raises(ValueError, match="dialect") as refused:
        parse(name, given, ["other"])
    assert str(refused.value).startswith(said)


@table(
    ("route", "is_its_own"),
    [
        ("GET /api/a/s-1", True),
        ("GET /app/api/a/s-1", True),
        ("GET /api/a", False),
        ("POST /api/a/s-1", False),
        ("PUT /chat", True),
        ("PUT /chat/more", False),
    ],
)
def test_a_route_is_a_method_and_a_path_below_an_upstream_or_not(
    route: str, is_its_own: bool
) -> None:
    assert bool(declared().routes.search(route)) == is_its_own


def test_the_messages_of_a_websocket_at_a_declared_route_are_its_events() -> None:
    dialects.declare({"mine": declared(end={"over": "why"})})
    try:
        made = Connection("/chat").client({"kind": "ask"}).server({"kind": "say", "words": "Hel"})
        live = Live(
            made.server({"kind": "say", "words": "lo"}, {"kind": "over", "why": "stop"}).close()
        )
        rows = folded(live.connection, live.events(live.connection))
    finally:
        dialects.declare({})
    assert live.connection.api == "mine"
    assert [(item.role, item.text) for item in rows["items"]] == [("assistant", "Hello")]
    assert [(row.status, row.finish_reason) for row in rows["exchanges"]] == [("completed", "stop")]
    assert [event.type for event in live.events(live.connection) if event.kind == "frame"] == [
        "say",
        "say",
        "over",
    ]


def test_an_end_without_a_path_has_no_reason() -> None:
    assert read(declared(end={"over": ""}), {"kind": "over"}) == [ResponseFinished(None)]


def test_a_member_has_the_type_where_no_event_line_has_it() -> None:
    dialect = parse("mine", {**GOOD, "type": "event", "text": {"message": "answer"}}, [])
    said = b'data: {"event": "message", "answer": "Hi"}\n\n'
    assert dialect.keys(said).type == "message"
    assert dialect.keys(b"event: ping\n" + said).type == "ping"


def test_an_event_without_a_type_means_what_is_in_it() -> None:
    dialect = declared(text={"": "words"}, usage={"": "usage"}, end={"": "done"})
    said, usage = {"words": "Hi", "done": False}, {"prompt_tokens": 3}
    facts = read(dialect, said, said, {"usage": usage, "done": True})
    assert [type(fact).__name__ for fact in facts] == [
        "ItemStarted", "TextAdded", "TextAdded", "UsageReported", "ItemFinished", "ResponseFinished"
    ]  # fmt: skip
    assert not dialect.terminal.keys() - {"error"}, "no type of an event ends the stream"


def test_calls_without_ids_are_told_by_their_order() -> None:
    dialect = declared(tool={"call": "name"}, arguments={"args": "json"}, result={"done": "out"})
    stream: list[dict[str, Any]] = [
        {"kind": "call", "name": "one"},
        {"kind": "done", "out": 1},
        {"kind": "call", "name": "two"},
        {"kind": "args", "json": '{"a"'},
        {"kind": "done", "out": "x"},
    ]
    facts = read(dialect, *stream)
    results = [fact for fact in facts if isinstance(fact, ToolResult)]
    assert [fact.stated.name for fact in facts if isinstance(fact, ItemStarted)] == ["one", "two"]
    assert [fact.text for fact in facts if isinstance(fact, TextAdded)] == ['{"a"']
    assert results == [ToolResult(None, "one", "1"), ToolResult(None, "two", "x")]


def test_words_after_a_call_are_another_message() -> None:
    said = {"kind": "say", "words": "a"}
    facts = read(declared(tool={"call": "name"}), said, {"kind": "call", "name": "t"}, said)
    assert [fact.stated.kind for fact in facts if isinstance(fact, ItemStarted)] == [
        "message",
        "tool_call",
        "message",
    ]


def test_what_is_not_declared_is_an_unknown_type_and_an_error_is_one() -> None:
    assert read(declared(), {"kind": "new"}) == [UnknownType("new")]
    assert read(declared(ignored=["new"]), {"kind": "new"}) == []
    assert read(declared(error={"bad": ""}), {"kind": "bad", "message": "No"}) == [
        ErrorReported(message="No")
    ]
    assert read(declared(), {"error": {"message": "No"}}) == [ErrorReported(message="No")]


@table(
    "payload",
    [
        {"kind": "say", "words": 7},
        {"kind": "say"},
        {"kind": ["say"]},
        {"kind": "\ud83d"},
        {"kind": "x\0"},
    ],
)
def test_no_json_raises(payload: dict[str, Any]) -> None:
    read(
        declared(
            usage={"say": "words"}, tool={"say": "words"}, result={"say": "words"}, end={"say": ""}
        ),
        payload,
    )
