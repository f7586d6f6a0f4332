"""`recorder ui` in a process of its own on a free port, and databases worth looking at.

with viewing(path) as viewer:
    … viewer.url …                     # http://127.0.0.1:PORT/?token=…
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.conversations import (
    Conversation,
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
    sse,
    thought,
)
from tests.support.corpus import CORPUS
from tests.support.rows import START_NS
from tests.support.server import run, running

_URL = re.compile(r"(http://127\.0\.0\.1:(?P<port>\d+)/)\?token=([\w-]+)")


class Viewer(NamedTuple):
    """A viewer that runs: its address with and without the token."""

    url: str
    base: str
    port: int
    token: str
    db: Path
    pid: int


@contextmanager
def viewing(db: Path, *options: str) -> Iterator[Viewer]:
    """Start `recorder ui` on that database, and stop it at the end."""
    with running(db, "ui", "--no-open", *options, listening=_URL) as started:
        found = _URL.search(started.said)
        assert found is not None
        yield Viewer(found[0], found[1], started.port, found[3], db, started.process.pid)
        started.stop()


SAMPLE = (
    "anthropic/pydantic-ai__test_anthropic.test_anthropic_advisor_tool_stream.0.sse",
    "anthropic/papercomputeco-tapes__capture.anthropic.messages_error_mid_stream.sse",
    "gemini/0xPlaygrounds-rig__gemini.code_execution_matrix.streaming_code_execution_on_gemini_3_flash.sse",
    "openai-chat/dd-trace-py__contrib.litellm.completion_stream_multiple_choices_with_tools.0.sse",
    "openai-chat/vercel-ai__mistral.mistral-incremental-tool-call.sse",
    "openai-responses/vercel-ai__openai.responses.parallel-tool-call-wrapper.1.sse",
    "openai-responses/vercel-ai__openai.responses.openai-reasoning-encrypted-content.1.sse",
    "openai-responses/pydantic-ai__test_openai_responses.test_openai_include_raw_annotations_streaming.1.sse",
)
"""Streams of the corpus, of each API, small ones."""
OF_EACH_API = tuple({each.partition("/")[0]: each for each in reversed(SAMPLE)}.values())
"""One of them for each API: the quick tests in a browser look at these."""

LONG = 1_200  # events of the response in `long`: several segments of a track


def paint(path: Path, now_ns: int) -> None:
    """Make a database with sessions of the last hours: agents, two to compare, one that broke off,
    a long one.
    """
    log = Conversations(path)
    ago = (now_ns - START_NS) / 1e9
    for number, (name, city) in enumerate((("agent", "Paris"), ("agent-again", "Lyon"))):
        session = log.session(name, ago - 7200 + 600 * number)
        plan = thought(
            "**Checking the weather**\n\n", "One city was named", ", so one call will do."
        )
        session.exchange(
            response(*plan, *call("get_weather", f'{{"city":"{city}"}}', 1)),
            asking(f"Weather in {city}?"),
        )
        said = [f"It is {17 + number} °C and clear ", "in ", city, ". A light jacket will do."]
        asked = [*asking(f"Weather in {city}?"), *answering(f"{17 + number} °C, clear")]
        session.exchange(response(*message(*said), id="resp_2"), asked, at_s=4.2)
        session.exchange(
            response(*message("You are ", "welcome."), id="resp_3"), asking("Thanks"), at_s=9.0
        )
    broken = log.session("broken", ago - 3000)
    whole = response(*thought("Hm. "), *message("This will ", "not ", "end", index=1))
    broken.exchange(whole[:6], asking("Tell me a story"), outcome="upstream_reset")
    broken.exchange([*whole[:7], *whole[5:]], asking("Again"), at_s=5.0)
    long = log.session("long", ago - 1800)
    words = [f"word{number}{'.' if number % 12 == 11 else ''} " for number in range(LONG)]
    long.exchange(response(*message(*words)), asking("Count."))


def hang(path: Path, names: Sequence[str]) -> None:
    """Import streams of the corpus, each as a session with the name of its file."""
    for part in range(0, len(names), 100):
        files = [str(CORPUS / name) for name in names[part : part + 100]]
        ran = run(path, "import", *files)
        assert ran.code in (0, 1), ran.err


TASK = "Say which tests fail on a busy machine"


def team(session: Conversation, *, told: str = TASK, agent_id: str = "thr_1") -> None:
    """Fill a session with a request for a title, and the turns of an agent and of a sub-agent that
    it names.

    The call that begins the sub-agent has what it is told, and its result the thread.
    """
    thread, title = "thread-id", "Generate a title for this conversation: fix the tests"
    main: dict[str, Any] = {"thread_id": "main", "headers": [(thread, "main")]}
    galileo = {
        **main,
        "thread_id": "thr_1",
        "headers": [(thread, "thr_1"), ("x-openai-subagent", "collab_spawn")],
    }
    asked = asking("Fix the tests that fail on a busy machine")
    spawn = call(
        "spawn_agent", json.dumps({"agent_type": "explorer", "message": told}), 0, "call_spawn"
    )
    spawned = answering(json.dumps({"agent_id": agent_id, "nickname": "Galileo"}), "call_spawn")
    ran = answering("a.py b.py", "call_ls")
    session.exchange(response(*message("Fix the tests"), id="resp_0"), asking(title), **main)
    session.exchange(response(*spawn), asked, at_s=1, **main)
    session.exchange(
        response(*call("shell", "{}", 0, "call_ls"), id="resp_2"), asking(TASK), at_s=3, **galileo
    )
    session.exchange(
        response(*message("Two fail."), id="resp_3"), [*asking(TASK), *ran], at_s=5, **galileo
    )
    session.exchange(response(*message("Done."), id="resp_4"), [*asked, *spawned], at_s=8, **main)


HOSTILE = (
    "<script>window.pwned = 1</script>",
    '<img src=x onerror="window.pwned = 1">',
    '"><svg onload="window.pwned = 1">',
    "javascript:window.pwned=1",
    "</script></textarea></style></title><!-- ${window.pwned = 1} {{constructor}}",
    "\u202egnp.exe \u2066\u2067\u200f",  # what turns the direction of text around
    "\x1b[31mred\x1b[0m\x07\x9b2J",  # a terminal's
    "a\x00b",
    "SURROGATE alone",  # in JSON one half of a pair
    "#/s/../..?token=1&sql=DROP TABLE events",
)
"""Texts that a browser, a terminal or a template may take for something else."""
HUGE_BYTES = 10 * 2**20  # of one line


def poison(path: Path, huge_bytes: int = HUGE_BYTES) -> None:
    """Make a database in which every text that an upstream or a client chooses is hostile, and one
    is long.
    """
    log = Conversations(path)
    bad = " | ".join(HOSTILE)
    printable = bad.replace("\x00", "")  # SQL has no place for it in a name

    def halved(frames: Sequence[bytes]) -> list[bytes]:
        return [frame.replace(b"SURROGATE", b"\\ud800") for frame in frames]

    for number in range(2):
        session = log.session(f"{printable} {number}")
        items = [
            *thought(*HOSTILE),
            *call(bad, json.dumps({bad: bad}), 1, bad),
            *message(*HOSTILE, bad, index=2),
        ]
        frames = response(*items, id=bad, model=printable)
        asked = [*asking(bad), *answering(bad, bad)]
        headers = [
            ("X-App", printable.encode("ascii", "ignore").decode()),
            ("User-Agent", HOSTILE[1]),
        ]
        target = "/v1/responses?<script>window.pwned=1</script>"
        named = [frame.replace(b'"msg_2"', json.dumps(bad).encode()) for frame in frames]
        session.exchange(halved(named), asked, headers=headers, target=target)
        session.exchange(halved([sse(printable, bad=bad), f"data: {bad}\n\n".encode()]), at_s=9)
        error = {"status": "failed", "error": {"code": bad, "message": bad}}
        body = {"model": printable, "input": bad, "instructions": bad}
        session.exchange(halved([sse("response.failed", response=error)]), body=body, at_s=12)
    huge = log.session("huge")
    huge.exchange(
        response(*message("before ", "<b>x</b>" * (huge_bytes // 8), " after")), asking("Say much.")
    )
