"""Streams to the screen and of A2A over sockets: our rows and rules say of them what the SDKs for
JavaScript make of them: `ai`, `@ag-ui/client`, `@a2a-js/sdk`.

The packages come from npm, so this is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.http_server import Handler, listening
from tests.support.node import answers
from tests.support.recordings import Reply
from tests.support.screen import AG_UI_ASKED, UI_ASKED, sse
from tests.support.server import running, serving
from tests.unit.lint import test_a2a, test_ag_ui, test_ui_messages
from tests.unit.wire.dialects.test_ag_ui import STREAMS as RUNS
from tests.unit.wire.dialects.test_ui_messages import STREAMS as MESSAGES

PACKAGES = ("ai@6.0.326", "@ag-ui/client@1.0.0", "@ag-ui/core@1.0.0", "@a2a-js/sdk@1.3.0")


class Asked(NamedTuple):
    """A stream that an SDK reads, and what it must come to: a reading, the name of an error, or
    that it reads it.
    """

    format: str
    body: bytes
    request: Any
    says: str
    reading: Any = None
    raises: str | None = None


def asked() -> Iterator[Asked]:
    for says, (events, reading) in MESSAGES.items():
        yield Asked("ui-messages", sse(*events, done=True), UI_ASKED, says, reading._asdict())
    for says, (events, reading) in RUNS.items():
        yield Asked("ag-ui", sse(*events), AG_UI_ASKED, says, reading._asdict())
    for rule, says, reply, raises in test_ui_messages.FAULTS:
        yield Asked(
            "ui-messages", b"".join(reply.blocks()), UI_ASKED, f"{rule} {says}", raises=raises
        )
    for rule, says, reply, raises in test_ag_ui.FAULTS:
        yield Asked("ag-ui", b"".join(reply.blocks()), AG_UI_ASKED, f"{rule} {says}", raises=raises)
    for says, reply in test_ui_messages.GOODS.items():
        # the one that the stream says
        raises = "Error" if test_ui_messages.FAILED in reply.events else None
        yield Asked("ui-messages", b"".join(reply.blocks()), UI_ASKED, says, raises=raises)
    for says, reply in test_ag_ui.GOODS.items():
        yield Asked("ag-ui", b"".join(reply.blocks()), AG_UI_ASKED, says)

    for fault in test_a2a.FAULTS:
        yield of_a2a(f"{fault.rule} {fault.says}", fault.reply, fault.js)
    for says, (reply, _, js) in test_a2a.TAKEN.items():
        yield of_a2a(says, reply, js)


def of_a2a(says: str, reply: Reply, js: str) -> Asked:
    version, binding = test_a2a.spoken_by(reply)
    request = {"version": version, "binding": binding}
    return Asked("a2a", b"".join(reply.blocks()), request, says, {"gives": js})


@contextmanager
def answering(bodies: list[bytes]) -> Iterator[str]:
    """A server that answers a POST of /N, or below it, with the body of that number."""

    class App(Handler):
        def do_POST(self) -> None:
            self.given()
            self.answer("text/event-stream", bodies[int(self.path.split("/")[1])])

    with listening(App) as url:
        yield url


READ = [each for each in asked() if each.reading is not None and each.format != "a2a"]


def anew(request: Any, number: int) -> Any:
    """A request with other ids, as a client has each time."""
    ids = {name: f"{name}-{number}" for name in ("id", "threadId", "runId") if name in request}
    messages = [{**each, "id": f"m-{number}"} for each in request["messages"]]
    return {**request, **ids, "messages": messages}


@pytest.mark.slow
def test_the_sdks_read_the_same_through_the_proxy_and_with_new_ids_from_the_mock(
    tmp_path: Path,
) -> None:
    db = tmp_path / "recorder.db"

    def told(base: str, run: int) -> list[Any]:
        questions = []
        for number, case in enumerate(READ):
            url = f"{base}/s/{case.format}/app/{number}"
            questions.append((case.format, url, anew(case.request, run)))
        return [each["reading"] for each in answers("screen_sdks.cjs", PACKAGES, questions)]

    wanted = [case.reading for case in READ]
    with (
        answering([case.body for case in READ]) as app,
        serving(db, "--upstream", f"app={app}") as serve,
    ):
        assert told(serve.base, 1) == wanted
    with running(db, "mock", "ui-messages", "ag-ui", "--strict", "--speed", "max") as mock:
        assert told(mock.base, 2) == wanted


@pytest.mark.slow
def test_the_sdks_read_what_we_read_and_refuse_what_the_rules_say() -> None:
    cases = [*asked()]
    with answering([case.body for case in cases]) as base:
        questions = [
            (case.format, f"{base}/{number}", case.request) for number, case in enumerate(cases)
        ]
        told = answers("screen_sdks.cjs", PACKAGES, questions)
    for case, said in zip(cases, told, strict=True):
        assert said.get("raised") == case.raises, (case.says, said)
        assert case.reading is None or said["reading"] == case.reading, case.says
