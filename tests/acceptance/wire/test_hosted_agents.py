"""A session of a hosted agent through the recorder, asked by the real SDK: created, cut, resumed,
listed, answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import hosted_openai
from tests.support.hosted import (
    SESSION,
    Json,
    anthropic_reading,
    bytes_of,
    custom_call,
    said,
    sub_agent,
    turn,
)
from tests.support.http_server import Handler, listening
from tests.support.sdks import anthropic_client, openai_client
from tests.support.server import run, running, serving

EVENTS = [*turn(1, "What is here?", "One file."), *custom_call(2)]
CUT, AGAIN, LISTED = 14, 11, 19
"""Where the first stream ends, where the next begins, and up to where the history goes that is
listed then.
"""
ASKED: Any = [{"type": "user.message", "content": said("What is here?")}]
EVENT_STREAM = "text/event-stream"
AT_ONCE = "HT004"
"""What the server here does: it sends a whole stream in one piece."""
TOKENS = 10 + 100 + 20 + 3 + 8 + 9


@contextmanager
def provider(*streams: list[Json]) -> Iterator[str]:
    """A server that gives each stream once, one after another; lists; and takes what is posted."""
    left = list(streams)

    class Provider(Handler):
        def do_GET(self) -> None:
            is_listed = (
                self.path.partition("?")[0].endswith("/events")
                and self.headers["accept"] != EVENT_STREAM
            )
            if not is_listed:
                self.answer(EVENT_STREAM, bytes_of(left.pop(0)))
            else:
                history = [
                    each for each in EVENTS[:LISTED] if not each["type"].startswith("event_")
                ]
                self.answer(
                    "application/json", json.dumps({"data": history, "next_page": None}).encode()
                )

        def do_POST(self) -> None:
            asked = json.loads(self.given())
            if asked.get("stream"):
                self.answer(EVENT_STREAM, bytes_of(left.pop(0)))
                return
            if "events" not in asked:
                self.answer(
                    "application/json",
                    json.dumps({"type": "session", "agent": {}, "id": SESSION}).encode(),
                )
                return
            given = [{"id": EVENTS[0]["id"], **each} for each in asked["events"]]
            self.answer("application/json", json.dumps({"data": given}).encode())

    with listening(Provider) as url:
        yield url


def shown(db: Path, session: str = SESSION) -> list[Json]:
    answer = run(db, "show", session, "--json")
    assert answer.code == 0, answer
    exchanges: list[Json] = json.loads(answer.out)["exchanges"]
    return exchanges


def told(exchange: Json) -> list[tuple[Any, ...]]:
    names = ("kind", "type", "text", "name", "call_id", "arguments", "output", "status")
    return [tuple(item.get(name) for name in names) for item in exchange["items"]]


def test_a_session_that_is_cut_resumed_and_listed_counts_once(tmp_path: Path) -> None:
    db, uncut = tmp_path / "log.db", tmp_path / "uncut.db"
    with (
        provider(EVENTS[:CUT], EVENTS[AGAIN:]) as base,
        serving(db, "--upstream", f"anthropic={base}") as recorder,
    ):
        url = f"{recorder.base}/anthropic"
        with anthropic_client(url) as client:
            client.beta.sessions.create(agent="agent_1", environment_id="env_1")
            client.beta.sessions.events.send(SESSION, events=ASKED)
            anthropic_reading(url)
            assert len(client.beta.sessions.events.list(SESSION).data) > 0
        anthropic_reading(url)
        recorder.stop()
    with provider(EVENTS) as base, serving(uncut, "--upstream", f"anthropic={base}") as recorder:
        reading = anthropic_reading(f"{recorder.base}/anthropic")
        recorder.stop()
    [whole] = shown(uncut)
    created, posted, *earlier, last = shown(db)
    assert (created["status"], created.get("superseded_by")) == ("completed", None)
    assert (posted["user_text"], [each.get("superseded_by") for each in earlier]) == (
        "What is here?",
        [last["exchange_id"]] * 2,
    )
    assert told(last) == told(whole)
    assert [
        item["text"] for item in whole["items"] if item["type"] == "agent.message"
    ] == reading.texts
    assert last["usage"]["input_tokens"] == whole["usage"]["input_tokens"] == TOKENS
    used = json.loads(run(db, "usage", "--json").out)
    assert str(TOKENS) in json.dumps(used)
    assert run(uncut, "lint", SESSION, "--ignore", AT_ONCE).code == 0
    assert [row["input_tokens"] for row in used] == [TOKENS]


def test_a_run_of_openai_is_read_as_its_sdk_collects_it(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    with (
        provider(hosted_openai.ONE_TURN) as base,
        serving(db, "--upstream", f"openai={base}") as recorder,
    ):
        with openai_client(f"{recorder.base}/openai") as client:
            result = client.beta.agents.sessions.create(
                agent={"model": "gpt-5.5"},
                environment={"type": "none"},
                input="What is here?",
                stream=True,
            ).get_final_result()
        recorder.stop()
    [exchange] = shown(db, hosted_openai.SESSION)
    [message] = [item for item in exchange["items"] if item.get("role") == "assistant"]
    assert (message["text"], message["item_id"]) == (result.output_text, result.messages[0].id)
    assert (exchange["status"], exchange["user_text"]) == ("completed", "What is here?")
    assert exchange["usage"]["total_tokens"] == hosted_openai.USAGE["total_tokens"]


def test_a_session_of_openai_is_one_response_from_the_request_that_creates_it(
    tmp_path: Path,
) -> None:
    db, events = tmp_path / "log.db", hosted_openai.EVENTS
    with (
        provider(events[:20], events[17:]) as base,
        serving(db, "--upstream", f"openai={base}") as recorder,
    ):
        url = f"{recorder.base}/openai"
        with openai_client(url) as client:
            client.beta.agents.sessions.create(
                agent={"model": "gpt-5.5"},
                environment={"type": "none"},
                input="What is here?",
                stream=True,
            ).get_final_result()
        hosted_openai.openai_events(url)
        recorder.stop()
    for _ in range(2):
        created, last = shown(db, hosted_openai.SESSION)
        assert (created["superseded_by"], created["user_text"]) == (
            last["exchange_id"],
            "What is here?",
        )
        of_three_turns = [
            json.loads(run(db, "usage", "--json").out)[0][name]
            for name in ("input_tokens", "total_tokens")
        ]
        assert (
            of_three_turns
            == [last["usage"]["input_tokens"], last["usage"]["total_tokens"]]
            == [3 * 30, 3 * 42]
        )
        assert run(db, "db", "rebuild").code == 0


def test_a_session_of_openai_that_is_resumed_counts_once_and_answers_its_sdk_again(
    tmp_path: Path,
) -> None:
    db, uncut, events = tmp_path / "log.db", tmp_path / "uncut.db", hosted_openai.EVENTS
    with (
        provider(events[:20], events[17:]) as base,
        serving(db, "--upstream", f"openai={base}") as recorder,
    ):
        url = f"{recorder.base}/openai"
        assert (
            len([*hosted_openai.openai_events(url), *hosted_openai.openai_events(url)])
            == len(events) + 3
        )
        recorder.stop()
    with provider(events) as base, serving(uncut, "--upstream", f"openai={base}") as recorder:
        live = hosted_openai.openai_events(f"{recorder.base}/openai")
        recorder.stop()
    [whole], [earlier, last] = shown(uncut, hosted_openai.SESSION), shown(db, hosted_openai.SESSION)
    assert earlier["superseded_by"] == last["exchange_id"]
    assert told(last) == told(whole)
    assert last["usage"] == whole["usage"]
    assert run(uncut, "lint", hosted_openai.SESSION, "--ignore", AT_ONCE).code == 0
    with running(uncut, "mock", hosted_openai.SESSION) as mock:
        assert hosted_openai.openai_events(f"{mock.base}/openai") == live


def test_a_person_sees_the_turns_and_those_of_a_sub_agent_below(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    with provider(sub_agent(1)) as base, serving(db, "--upstream", f"anthropic={base}") as recorder:
        anthropic_reading(f"{recorder.base}/anthropic")
        recorder.stop()
    lines = run(db, "show", SESSION).out.decode().splitlines()
    began = lines.index("› Read all files.")
    assert [*lines[began + 1 : began + 2], *lines[began + 3 : -1]] == [
        "⚙ turn",
        "  ⚙ thread reader",
        "  Read a.txt",
        '  ⚙ bash {"command":"cat a.txt"}',
        "  It is empty.",
        "Nothing in it.",
    ]


def test_a_recorded_session_answers_the_sdk_as_its_provider_did(tmp_path: Path) -> None:
    db = tmp_path / "log.db"
    with provider(EVENTS) as base, serving(db, "--upstream", f"anthropic={base}") as recorder:
        url = f"{recorder.base}/anthropic"
        with anthropic_client(url) as client:
            client.beta.sessions.events.send(SESSION, events=ASKED)
        live = anthropic_reading(url)
        recorder.stop()
    with running(db, "mock", SESSION) as mock:
        url = f"{mock.base}/anthropic"
        with anthropic_client(url) as client:
            sent = client.beta.sessions.events.send(SESSION, events=ASKED).data
        assert [each.id for each in sent or ()] == [EVENTS[0]["id"]]
        assert anthropic_reading(url) == live
