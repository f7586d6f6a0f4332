"""The verdict on a run: by its exit code, its output, and what it asked."""

from __future__ import annotations

import pytest

from recorder.torture.plan import PlannedFault
from recorder.torture.requests import AskedRequest
from recorder.torture.verdict import CommandRun, Verdict, judged
from tests.support.recordings import ask, record

BODY = {"model": "m", "messages": [{"role": "user", "content": "Which?"}]}
STRUCK = record(ask(BODY, "/v1/chat/completions"), b"data: {}\n\n", name="struck")
FIRST, SECOND = AskedRequest(), AskedRequest(results=1)
CLEAN = CommandRun(0, b"42\n", b"", [FIRST, SECOND], ["struck", "next"])
ANSWERED = ("faulty", "next")
AGAIN = ("faulty", "struck", "next")
GOES_ON = AskedRequest(results=1, is_missed=True, goes_on="otherwise")
AS_RECORDED = AskedRequest(results=1, is_missed=True, goes_on="as recorded")
MISSED = AskedRequest(is_missed=True)
ASKED_AGAIN = AskedRequest(is_again=True)
ASKED_FOR_DOCUMENT = AskedRequest(is_again=True, is_missed=True)
TWO_RESULTS = AskedRequest(results=2)


def run(
    answered: tuple[str, ...] = ANSWERED,
    out: bytes = b"42\n",
    code: int | None = 0,
    *more: AskedRequest,
) -> CommandRun:
    return CommandRun(code, out, b"Traceback\nError: gone\n", [FIRST, SECOND, *more], answered)


@pytest.mark.parametrize(
    ("verdict", "form", "is_whole", "ran"),
    [
        ("survived", "repeat@1", True, run()),
        ("survived", "end@1", None, run()),
        ("took it for success", "end@1", False, run()),
        ("took it for success", "end@1", None, run(out=b"4\n")),
        ("took it for success", "end@1", False, run(("faulty",), b"\n", 0, GOES_ON)),
        ("took it for success", "end@1", False, run(("faulty",), b"\n", 1, GOES_ON)),
        ("took it for success", "end@1", False, run(("faulty",), b"\n", 1, AS_RECORDED)),
        ("survived", "repeat@1", True, run(("faulty",), b"\n", 1, AS_RECORDED)),
        ("survived", "end@1", None, run(("faulty",), b"\n", 1, AS_RECORDED)),
        ("retried", "cut@1", False, run(AGAIN)),
        ("retried", "cut@1", False, run(("faulty",), b"42\n", 0, ASKED_AGAIN)),
        ("retried", "end@1", False, run(("faulty",), b"", 1, ASKED_FOR_DOCUMENT, GOES_ON)),
        ("reported", "cut@1", False, run(("faulty",), b"", 1)),
        ("reported", "cut@1", False, run(AGAIN, b"", 1)),
        ("reported", "cut@1", False, run(("faulty",), b"", 1, MISSED)),
        ("hung", "stall@1", False, run(("faulty",), b"", None)),
        ("did it twice", "repeat@1", True, run(out=b"442\n")),
        ("did it twice", "cut@1", False, run(AGAIN, b"442\n")),
        ("did it twice", "cut@1", False, run(("faulty", "next", "next"))),
        ("did it twice", "repeat@1", True, run(ANSWERED, b"42\n", 1, TWO_RESULTS)),
    ],
)
def test_a_verdict(verdict: Verdict, form: str, is_whole: bool | None, ran: CommandRun) -> None:
    fault = PlannedFault(STRUCK, form, "inside a text", is_whole)
    assert judged(fault, ran, CLEAN, "faulty").verdict == verdict


@pytest.mark.parametrize(
    "printed",
    [
        b"Traceback\nopenai.APIError: gone\n",
        b"file:///a.mjs:4\n throw e\n\nopenai.APIError: gone\n    at b (c.js:1)\n\nNode.js v20\n",
    ],
)
def test_a_report_has_the_last_error_that_the_command_printed(printed: bytes) -> None:
    fault = PlannedFault(STRUCK, "cut@1", "inside a text", is_whole=False)
    ran = run(("faulty",), b"", 1)._replace(err=printed)
    assert judged(fault, ran, CLEAN, "faulty").why == "exit code 1: openai.APIError: gone"
