"""`recorder torture`: what a user types, what comes out, and what the written cassettes show.

The recorder is called in this process; the commands that it proves are processes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from recorder.cassettes.sse_jsonl import read_cassette
from recorder.wire.dialects import by_name
from tests.acceptance.commands.test_run import demo_upstream
from tests.integration.commands.test_schema import problems
from tests.support.empty_log import empty
from tests.support.event_loop import beside
from tests.support.server import PROGRAM, STOPPED_S, Ran, environment, run_parent, wait_until

DEMO = Path(by_name.__code__.co_filename).parent / "openai_chat" / "demo.sse.jsonl"
QUESTION = read_cassette(DEMO)[0].request_body.decode()

# A client that needs no library, and takes each end of a stream for the end of the answer.
CARELESS = """
import http.client, json, os, sys, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])

def asked():
    connection = http.client.HTTPConnection(base.netloc)
    connection.request("POST", base.path + "/chat/completions", sys.argv[1], {"content-type": "application/json"})
    response = connection.getresponse()
    if response.status >= 400:
        sys.exit(f"status {response.status}")
    for line in response:
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"].get("content") or "", choice["finish_reason"]
"""
PRINTS = f"{CARELESS}\nfor text, _ in asked():\n    print(text, end='')\n"
# One that asks again until the answer has a reason to finish, and prints nothing before.
CAREFUL = f"""{CARELESS}
for attempt in range(3):
    chunks = list(asked())
    if chunks and chunks[-1][1]:
        break
else:
    sys.exit("no answer was whole")
print(*(text for text, _ in chunks), sep="")
"""


def client(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", program, *arguments]


def torture(tmp_path: Path, *words: object) -> Ran:
    return run_parent(empty(tmp_path / "recorder.db"), "torture", *words)


def rows_of(ran: Ran) -> dict[str, dict[str, Any]]:
    return {row["fault"]: row for row in json.loads(ran.out)}


# a run without a fault may take half of it, on a machine that has other things to do
TIMEOUT_S = 10


@pytest.mark.long
def test_a_client_that_takes_an_end_for_the_whole_is_convicted_and_the_cassettes_show_it(
    tmp_path: Path,
) -> None:
    cassettes, junit = tmp_path / "faults", tmp_path / "torture.xml"
    options = (
        "--timeout",
        TIMEOUT_S,
        "--jobs",
        8,
        "--cassettes",
        cassettes,
        "--junit",
        junit,
        "--json",
    )
    ran = torture(tmp_path, DEMO, *options, "--", *client(PRINTS, QUESTION))
    rows = rows_of(ran)
    assert (ran.code, problems("torture", json.loads(ran.out))) == (4, []), ran.err
    assert {fault: row["verdict"] for fault, row in rows.items()} == {
        **{f"status:{status}": "reported" for status in by_name("openai-chat").error_statuses},
        **{f"{cut}@{n}": "took it for success" for cut in ("end", "cut") for n in (0, 25, 49)},
        **{f"cut@{n}:reset": "took it for success" for n in (0, 25, 49)},
        **{f"stall@{n}": "hung" for n in (0, 25, 49, 52)},
        **{f"error@25:{status}": "reported" for status in (429, 500, 503)},
        "repeat@25": "did it twice",
        **{f"{cut}@51": "survived" for cut in ("end", "cut")},
        **dict.fromkeys(("cut@52", "cut@52:reset", "repeat@52", "slice:utf8"), "survived"),
    }
    assert {row["exit_code"] for row in rows.values() if row["verdict"] == "hung"} == {None}
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("30", "14")
    whole, half = (
        run_parent(
            tmp_path / "recorder.db",
            "run",
            "--replay",
            rows[fault]["cassette"],
            "--",
            *client(PRINTS, QUESTION),
        )
        for fault in ("slice:utf8", "end@25")
    )
    assert (whole.code, half.code) == (0, 0)
    assert whole.out.startswith(half.out)
    assert len(half.out) == 128, "the cassette alone shows the fault"


# A client over WebSocket for which the connection may be closed when it likes: iteration ends with
# a Close of 1000.
LISTENS = """
import json, os, sys
from websockets.sync.client import connect
with connect(os.environ["OPENAI_BASE_URL"].replace("http", "ws", 1) + "/responses", proxy=None) as server:
    server.send(json.dumps({"type": "response.create", "model": "gpt-demo", "input": "Hello."}))
    for event in map(json.loads, server):
        if event["type"] == "error":
            sys.exit("an error")
        if event["type"] == "response.completed":
            break
        if event["type"] == "response.output_text.delta":
            print(event["delta"], end="")
"""


@pytest.mark.long
def test_over_websocket_a_close_is_taken_for_the_whole_and_the_cassettes_show_it(
    tmp_path: Path,
) -> None:
    db, listens = tmp_path / "recorder.db", [sys.executable, "-c", LISTENS]
    with beside(demo_upstream) as demo:
        options = ("--session", "parent", "--upstream", f"openai={demo.base_url}")
        assert run_parent(db, "run", *options, "--", *listens).code == 0
    words = (
        "--timeout",
        TIMEOUT_S,
        "--jobs",
        8,
        "--cassettes",
        tmp_path / "faults",
        "--json",
        "parent",
    )
    rows = rows_of(run_parent(db, "torture", *words, "--", *listens))
    assert len(rows) > 20
    inside = {fault for fault, row in rows.items() if not row["place"].startswith("after")}
    expected = {
        "close": "took it for success",
        "cut": "reported",
        "error": "reported",
        "status": "reported",
        "stall": "hung",
        "repeat": "did it twice",
    }
    assert {fault: rows[fault]["verdict"] for fault in inside} == {
        fault: expected[fault.partition("@")[0].partition(":")[0]] for fault in inside
    }
    assert {rows[fault]["verdict"] for fault in {*rows} - inside} == {"survived"}
    half = next(
        row
        for fault, row in rows.items()
        if fault.startswith("close") and row["place"] == "inside a text"
    )
    shown = run_parent(db, "run", "--replay", half["cassette"], "--", *listens)
    assert shown.code == 0
    assert f"it printed {len(shown.out)} bytes" in half["why"]


@pytest.mark.slow
def test_who_asks_again_gets_the_recorded_answer_and_three_runs_give_the_same_verdicts(
    tmp_path: Path,
) -> None:
    verdicts = []
    for _ in range(3):
        ran = torture(
            tmp_path,
            DEMO,
            "--timeout",
            TIMEOUT_S,
            "--jobs",
            8,
            "--json",
            "--",
            *client(CAREFUL, QUESTION),
        )
        verdicts.append({fault: row["verdict"] for fault, row in rows_of(ran).items()})
    assert verdicts[0] == verdicts[1] == verdicts[2]
    retried = {fault for fault, verdict in verdicts[0].items() if verdict == "retried"}
    assert retried == {f"{cut}@{n}" for cut in ("end", "cut") for n in (0, 25, 49)} | {
        f"cut@{n}:reset" for n in (0, 25, 49)
    }


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("raise SystemExit(7)", 1, "CMD exited with 7 without a fault"),
        ("print('nothing is asked')", 3, "there was nothing to judge"),
        (f"{PRINTS}\nimport time\nprint(time.time_ns())", 1, "printed something else on stdout"),
        (
            f"{PRINTS}\nimport time\ntime.sleep(0.6)",
            1,
            "give a --timeout of more than twice that, not 1.",
        ),
    ],
)
def test_a_command_that_proves_nothing_is_refused(
    program: str, code: int, said: str, tmp_path: Path
) -> None:
    timeout = 1 if "sleep" in program else TIMEOUT_S
    ran = torture(tmp_path, DEMO, "--timeout", timeout, "--", *client(program, QUESTION))
    assert (ran.code, said in ran.err) == (code, True), ran.err


def test_a_question_that_is_not_recorded_is_refused(tmp_path: Path) -> None:
    other = QUESTION.replace("What is a stream?", "What is a river?")
    ran = torture(tmp_path, DEMO, "--", *client(PRINTS, other))
    assert (ran.code, "asked without a fault for what is not recorded" in ran.err) == (1, True), (
        ran.err
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((DEMO,), 2, "Which command? `recorder torture"),
        (("nobody", "--", sys.executable), 3, "nobody"),
        (
            (DEMO, "--cassettes", "/dev/null/faults", "--", sys.executable),
            1,
            "/dev/null/faults cannot be written: ",
        ),
        ((DEMO, "--", "no-such-program"), 127, "no-such-program is not on the PATH"),
    ],
)
def test_a_call_that_is_wrong_is_told_what_to_do(
    words: tuple[object, ...], code: int, said: str, tmp_path: Path
) -> None:
    ran = torture(tmp_path, *words)
    assert (ran.code, said in ran.err) == (code, True), ran.err


RUNS = 32  # two without a fault, and each of the plan: four of them stall
WAITS = f"""
import os, pathlib, sys, time
pathlib.Path(sys.argv[2], str(os.getpid())).touch()
{PRINTS}"""


@pytest.mark.long
def test_an_interrupt_ends_what_it_has_started(tmp_path: Path) -> None:
    db, pids = empty(tmp_path / "recorder.db"), tmp_path / "pids"
    pids.mkdir()
    words = ("torture", str(DEMO), "--timeout", "600", "--jobs", "9", "--db", str(db), "--")
    command = [*PROGRAM, *words, *client(WAITS, QUESTION, str(pids))]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment(tmp_path)
    )
    try:
        wait_until(lambda: len(list(pids.iterdir())) >= RUNS)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=STOPPED_S)
    finally:
        process.kill()
    assert (process.returncode, b"never awaited" in said) == (130, False), said
    assert [path.name for path in pids.iterdir() if Path("/proc", path.name).exists()] == []
