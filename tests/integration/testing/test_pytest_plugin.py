"""The pytest plugin as its users have it: tests of theirs that are answered from recordings."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest

from recorder.testing import recording_transport
from recorder.wire.dialects import declare
from tests.support.projects import ONE_CASSETTE, ONE_TEST, Project, Upstream

pytest_plugins = ["pytester"]


def test_the_sdk_gets_over_a_socket_what_the_cassette_of_the_test_holds(held: Project) -> None:
    held.test(ONE_TEST).said(passed=1)


@pytest.mark.parametrize("library", ["httpx", "httpx2", "None"])
def test_the_sdk_gets_the_same_over_a_transport(held: Project, library: str) -> None:
    client = "httpx2" if library == "None" else library
    held.test(
        f"def test_one(recorder_replay):\n"
        f"    http = {client}.Client(transport=recorder_replay.transport({library}))\n"
        f"    assert ask('http://127.0.0.1:9/v1', http_client=http) == 'Zürich'\n"
    ).said(passed=1)


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_an_asynchronous_sdk_gets_the_same(held: Project, library: Any) -> None:
    held.test(f"""
def test_one(recorder_replay):
    async def main():
        http = {library.__name__}.AsyncClient(transport=recorder_replay.async_transport({library.__name__}))
        async with openai.AsyncOpenAI(api_key="none", http_client=http) as client:
            events = await client.responses.create(model="m", input="hi", stream=True)
            return "".join([e.delta async for e in events if e.type == "response.output_text.delta"])
    assert asyncio.run(main()) == "Zürich"
""").said(passed=1)


def test_a_transport_needs_no_socket_where_tests_may_make_none(held: Project) -> None:
    """As with `pytest --disable-socket` of pytest-socket."""
    held.test("""
import socket

class Blocked(socket.socket):
    def __new__(cls, *args, **kwargs):
        raise RuntimeError("a test tried to use a socket")

@pytest.fixture(autouse=True)
def without_sockets(monkeypatch):
    monkeypatch.setattr(socket, "socket", Blocked)

def test_one(recorder_replay):
    with httpx2.Client(transport=recorder_replay.transport()) as http:
        assert ask("http://127.0.0.1:9/v1", http_client=http) == "Zürich"
""").said(passed=1)


def test_server_and_transports_share_the_recordings_of_a_test(project: Project) -> None:
    project.holds("hi", "ho").test("""
def test_one(recorder_replay):
    ask(recorder_replay.base_url())
    ask("http://127.0.0.1:9/v1", "ho", http_client=httpx2.Client(transport=recorder_replay.transport()))
    assert [seen.how for seen in recorder_replay.requests] == ["exact", "exact"]
""").said(passed=1)


def test_a_test_can_read_what_was_recorded(held: Project) -> None:
    held.test("""
def test_one(recorder_replay):
    told = recorder_replay.session
    assert told.text == ask(recorder_replay.base_url()) == "Zürich"
    assert [(call.name, call.arguments) for call in told.tool_calls] == [("look", "{}")]
    assert (told.usage.input_tokens, told.usage.output_tokens, told.usage.reasoning_output_tokens) == (7, 2, None)
    assert [event.type for event in told.events if event.kind == "frame"][::4] == [
        "response.created", "response.completed"]
    assert repr(told) == "<session 'demo': 1 exchange, 10 events, text 'Zürich'>"
""").said(passed=1)


def test_each_test_has_recordings_of_its_own(project: Project) -> None:
    for name in ("test_one", "test_two[a]", "TestIt.test_three"):
        project.holds("hi", path=f"cassettes/test_it/{name}.sse.jsonl")
    said = project.test(f"""{ONE_TEST}
@pytest.mark.parametrize("what", ["a", "/b"])
def test_two(recorder_replay, what):
    ask(recorder_replay.base_url())
class TestIt:
    def test_three(self, recorder_replay):
        ask(recorder_replay.base_url())
""").said(passed=3, errors=1)
    assert "There is no cassette cassettes/test_it/test_two[-b]-" in said


def test_a_missing_cassette_says_how_to_record_it(project: Project) -> None:
    said = project.test(ONE_TEST).said(errors=1)
    assert (
        f"recorder: There is no cassette {ONE_CASSETTE}. Record it from the real upstream:" in said
    )
    assert said.count("pytest --recorder-mode once test_it.py::test_one") == 1
    assert "Traceback" not in said
    assert "During handling" not in said


def test_a_cassette_that_cannot_be_read_fails_with_its_line(held: Project) -> None:
    path = held.test(ONE_TEST).pytester.path / ONE_CASSETTE
    path.write_bytes(path.read_bytes() + b"nonsense\n")
    said = held.said(errors=1)
    assert (
        f"test_one.sse.jsonl cannot be read: line {len(path.read_bytes().splitlines())} is none"
        in said
    )


def test_a_request_that_is_not_recorded_fails_a_test_that_did_not_notice(held: Project) -> None:
    said = held.test("""
def test_one(recorder_replay):
    ask(recorder_replay.base_url())
    with pytest.raises(openai.BadRequestError):
        ask(recorder_replay.base_url(), "ho")
""").said(passed=1, errors=1)
    assert f"recorder: 1 request was not answered by {ONE_CASSETTE}." in said
    assert "Nothing recorded answers POST /responses (openai): of 1 there" in said
    assert 'input: recorded "hi", asked "ho"' in said
    assert "POST /openai/v1/responses (openai): exact" in said
    assert "POST /openai/v1/responses (openai): miss" in said


def test_a_request_that_is_not_recorded_is_told_of_where_the_test_fails(held: Project) -> None:
    said = held.test(ONE_TEST.replace("base_url()", "base_url(), 'ho'")).said(failed=1)
    assert f"recorder: 1 request was not answered by {ONE_CASSETTE}." in said
    assert "not asked for" not in said


def test_recordings_that_are_not_asked_for_fail_the_test(project: Project) -> None:
    said = project.holds("hi", "ho").test(ONE_TEST).said(passed=1, errors=1)
    assert (
        f"recorder: 1 of 2 recordings in {ONE_CASSETTE} was not asked for:\n  2. POST /v1/responses (openai)"
        in said
    )
    assert "pytest --recorder-mode rewrite test_it.py::test_one" in said


def test_what_a_fixture_asks_when_it_ends_counts(project: Project) -> None:
    project.holds("hi", "ho").test(f"""
@pytest.fixture
def polite(recorder_replay):
    yield recorder_replay
    ask(recorder_replay.base_url(), "ho")
{ONE_TEST.replace("recorder_replay", "polite")}
""").said(passed=1)


def test_a_failed_test_says_nothing_of_recordings_it_did_not_come_to(held: Project) -> None:
    said = held.test("def test_one(recorder_replay):\n    assert False").said(failed=1)
    assert "not asked for" not in said


def test_a_fault_of_the_marker_is_what_the_client_sees(held: Project) -> None:
    held.test("""
@pytest.mark.recorder(fault=["cut@2"])
def test_one(recorder_replay):
    with pytest.raises(openai.APIConnectionError):
        ask(recorder_replay.base_url())
@pytest.mark.recorder(fault="status:429:retry-after=1", cassette="cassettes/test_it/test_one.sse.jsonl")
def test_two(recorder_replay):
    with pytest.raises(openai.RateLimitError):
        ask(recorder_replay.base_url())
""").said(passed=2)


def test_a_fault_that_a_client_does_not_come_to_counts_as_asked(held: Project) -> None:
    held.test("""
@pytest.mark.recorder(fault="status:429:times=1")
def test_one(recorder_replay):
    with pytest.raises(openai.RateLimitError):
        ask(recorder_replay.base_url())
    ask(recorder_replay.base_url())
    assert [seen.how for seen in recorder_replay.requests] == ["fault", "exact"]
""").said(passed=1)


def test_a_fault_that_does_nothing_fails_the_test(held: Project) -> None:
    said = held.test(f"@pytest.mark.recorder(fault=['cut@12', 'slice:3'])\n{ONE_TEST}").said(
        passed=1, errors=1
    )
    assert said.count("recorder: the fault cut@12 did nothing: the stream had 5 events.") == 1
    assert "slice:3 did" not in said


def test_a_test_that_fails_for_want_of_its_fault_says_so(held: Project) -> None:
    said = held.test("""
@pytest.mark.recorder(fault="drop@9")
def test_one(recorder_replay):
    with pytest.raises(openai.APIError):
        ask(recorder_replay.base_url())
""").said(failed=1)
    assert "recorder: the fault drop@9 did nothing: the stream had 5 events." in said


def test_a_miss_that_comes_again_is_said_once(held: Project) -> None:
    said = held.test("""
def test_one(recorder_replay):
    ask(recorder_replay.base_url())
    for prompt in ("ho", "ho", "ha", "ho"):
        with pytest.raises(openai.BadRequestError):
            ask(recorder_replay.base_url(), prompt)
""").said(passed=1, errors=1)
    assert "recorder: 4 requests were not answered by" in said
    assert said.count('asked "ho"') == said.count('asked "ha"') == 1
    assert "3 times: Nothing recorded answers POST /responses (openai): of 1 there" in said
    assert f"The nearest is exchange 1 of {ONE_CASSETTE}, already used. It differs" in said


def test_what_a_library_raises_for_a_recording_shows_nothing_of_what_is_behind_it(
    held: Project,
) -> None:
    said = held.test("""
from recorder.testing import recorded_in
def test_one(recorder_replay):
    with httpx2.Client(transport=recorder_replay.transport()) as http:
        ask("http://127.0.0.1:9/v1", http_client=http)
@pytest.mark.recorder(cassette="cassettes/test_it/test_one.sse.jsonl", fault="cut@2:reset")
def test_two(recorder_replay):
    with httpx2.Client(transport=recorder_replay.transport()) as http:
        http.post("http://127.0.0.1:9/v1/responses", json={"input": "hi", "model": "m", "stream": True})
def test_three():
    recorded_in("nowhere.db")
""").said(passed=1, failed=2)
    assert "ReadError" in said
    assert "nowhere.db" in said
    for behind in (
        "libraries.py",
        "faults.py",
        "futures",
        "stored.py",
        "During handling",
        "direct cause",
    ):
        assert behind not in said, behind


@pytest.mark.parametrize(
    ("marker", "option"), [("speed=0.02", "max"), ("", "0.02"), ("speed='0.02'", "max")]
)
def test_an_answer_takes_the_recorded_time_by_the_speed(
    held: Project, marker: str, option: str
) -> None:
    held.test(f"""
import time
@pytest.mark.recorder({marker})
def test_one(recorder_replay):
    began = time.monotonic()
    ask(recorder_replay.base_url())
    assert time.monotonic() - began >= 0.1  # two milliseconds, and more
""").said(f"--recorder-speed={option}", passed=1)


def test_the_rules_of_a_match_can_be_given(held: Project) -> None:
    held.test("""
from recorder.replay.matching.noise import Rules
@pytest.mark.recorder(match=Rules(until="position"))
def test_one(recorder_replay):
    ask(recorder_replay.base_url())
@pytest.mark.recorder(match=Rules(until="exact"), cassette="cassettes/test_it/test_one.sse.jsonl")
def test_two(recorder_replay):
    with pytest.raises(openai.BadRequestError):
        ask(recorder_replay.base_url(), "ho")
""").said(passed=2, errors=1)


ASKED_OTHERWISE = """
def test_one(recorder_replay):
    with httpx2.Client() as http:
        body = {"input": "hi", "model": "m", "stream": True, "run": "tuesday"}
        assert http.post(recorder_replay.base_url() + "/responses", json=body).status_code == 200
"""


CHANGED_INSTRUCTIONS = ASKED_OTHERWISE.replace('"run": "tuesday"', '"instructions": "Be brief."')


def test_other_instructions_than_the_recorded_ones_fail_a_test_unless_it_asks_for_position(
    held: Project,
) -> None:
    said = held.test(CHANGED_INSTRUCTIONS).said(failed=1)
    assert 'instructions: recorded (nothing), asked "Be brief."' in said
    held.test(f"@pytest.mark.recorder(match={{'until': 'position'}}){CHANGED_INSTRUCTIONS}").said(
        passed=1
    )


def test_a_marker_can_say_what_does_not_count_in_a_match(held: Project) -> None:
    held.test(ASKED_OTHERWISE).said(failed=1)
    held.test(f"@pytest.mark.recorder(match={{'fields': ['run']}}){ASKED_OTHERWISE}").said(passed=1)


def test_the_project_can_say_what_does_not_count_in_a_match(held: Project) -> None:
    path = held.pytester.path / "recorder.toml"
    path.write_text('[serve]\nport = 9\n[match]\nfields = ["run"]\n')
    held.test(ASKED_OTHERWISE).said(passed=1)
    path.rename(held.pytester.path / "rules.toml")
    held.said(failed=1)
    held.pytester.makeini("[pytest]\nrecorder_match = rules.toml")
    held.said(passed=1)


def test_a_project_can_declare_a_dialect_of_its_own(held: Project) -> None:
    path = held.pytester.path / "recorder.toml"
    path.write_text('[dialect.acme]\nroutes = ["POST /api/x"]\ntext = {"say" = "words"}\n')
    of_path = "    from recorder.wire.dialects import by_path\n    assert by_path('POST', '/api/x').name == 'acme'\n"
    held.test(
        f"@pytest.mark.recorder(match={{'until': 'position'}}){CHANGED_INSTRUCTIONS}{of_path}"
    ).said(passed=1)
    path.write_text("[dialect.acme]\n")
    assert "recorder.toml: [dialect.acme] gives no type a meaning" in held.run().stderr.str()
    declare({})  # tests of tests run in this process here


def test_what_a_marker_does_not_say_the_project_does(held: Project) -> None:
    (held.pytester.path / "recorder.toml").write_text('[match]\nfields = ["run"]\n')
    held.test(f"@pytest.mark.recorder(match={{'until': 'noise'}}){ASKED_OTHERWISE}").said(passed=1)
    held.test(f"@pytest.mark.recorder(match={{'fields': []}}){ASKED_OTHERWISE}").said(failed=1)


def test_the_settings_of_a_user_count_in_no_test(
    held: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = held.pytester.mkdir("home")
    (home / "recorder").mkdir()
    (home / "recorder" / "recorder.toml").write_text('[match]\nfields = ["run"]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    held.test(ASKED_OTHERWISE).said(failed=1)


@pytest.mark.parametrize(
    ("ini", "toml", "sentence"),
    [
        ("", "[match", "recorder: recorder.toml is not valid TOML"),
        ("", "match = 1", "recorder: recorder.toml has no table [match]"),
        ("", "[match]\nuntil = 1", "recorder: recorder.toml: [match] until must be one of"),
        (
            "recorder_match = else.toml",
            "",
            "recorder: recorder_match: else.toml cannot be read: No such file",
        ),
        (
            "recorder_match = recorder.toml",
            "[serve]",
            "recorder: recorder.toml has no table [match], where",
        ),
        (
            "recorder_redact = email",
            "",
            "recorder: recorder_redact: 'email' names nothing: write fields:PATH",
        ),
        (
            "recorder_redact = fields:a..b",
            "",
            "recorder: recorder_redact: 'fields:a..b' names nothing",
        ),
        (
            "",
            "[match]\nwithout = ['dates']",
            "recorder: recorder.toml: [match] without: there is no rule 'dates'",
        ),
        ("recorder_upstream = mine", "", "recorder: 'mine' is not an upstream: write NAME=URL"),
        (
            "recorder_mode = sometimes",
            "",
            "recorder_mode = sometimes is not a mode: use one of none, once",
        ),
    ],
)
def test_settings_that_make_no_sense_stop_the_run_in_a_sentence(
    project: Project, ini: str, toml: str, sentence: str
) -> None:
    project.pytester.makeini(f"[pytest]\n{ini}")
    (project.pytester.path / "recorder.toml").write_text(toml)
    result = project.test(ONE_TEST).run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sentence in str(result.stderr)
    assert "Traceback" not in str(result.stderr)


def test_a_run_without_such_a_test_does_not_look_at_the_settings(project: Project) -> None:
    project.pytester.makeini("[pytest]\nrecorder_upstream = mine")
    project.test("def test_one(): ...").said(passed=1)


def test_requests_of_many_threads_are_matched_by_what_they_say(project: Project) -> None:
    prompts = [f"number {number}" for number in range(8)]
    project.holds(*prompts).test("""
import threading
from concurrent.futures import ThreadPoolExecutor
def test_one(recorder_replay):
    transport = recorder_replay.transport()
    def one(number):
        if number % 2:
            return ask(recorder_replay.base_url(), f"number {number}")
        return ask("http://127.0.0.1:9/v1", f"number {number}", http_client=httpx2.Client(transport=transport))
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(8))) == ["Zürich"] * 8
def test_the_one_server_is_gone():
    assert "recorder-loopback" not in [thread.name for thread in threading.enumerate()]
""").said(passed=2)


def test_a_cassette_has_the_place_that_a_marker_or_the_ini_file_says(project: Project) -> None:
    project.holds("hi", path="shared/a.sse.jsonl").holds(
        "hi", path="tapes/test_it/test_two.sse.jsonl"
    )
    project.pytester.makeini("[pytest]\nrecorder_cassette_dir = tapes")
    project.test(f"""
@pytest.mark.recorder(cassette="shared/a.sse.jsonl")
{ONE_TEST}
{ONE_TEST.replace("test_one", "test_two")}
""").said(passed=2)


def test_the_marker_of_a_test_counts_before_that_of_its_module(project: Project) -> None:
    project.holds("hi", path="a.sse.jsonl").test(f"""
pytestmark = pytest.mark.recorder(session="elsewhere", speed=1)
@pytest.mark.recorder(cassette="a.sse.jsonl", speed="max")
{ONE_TEST}
""").said(passed=1)


WRONG_MARKERS = [
    ("'a.sse.jsonl'", "takes no 'a.sse.jsonl': its keywords are cassette, session"),
    ("casette='a'", "takes no casette"),
    ("cassette='a', session='b'", "takes a cassette or a session, not both"),
    ("cassette=1", "cassette=1 of the recorder marker is not a path"),
    ("session=1", "session=1 of the recorder marker is not a name"),
    ("speed=0", "0 is not a speed"),
    ("speed='fast'", "'fast' is not a speed"),
    ("fault='explode'", "'explode' is not a fault: there are cut"),
    ("fault=1", "fault=1 of the recorder marker is not text or list of texts"),
    ("upstream='mine'", "'mine' is not an upstream: write NAME=URL"),
    ("allow_network='no'", "allow_network='no' of the recorder marker is neither True nor False"),
    ("match='all'", "match='all' of the recorder marker is no [match] table"),
    (
        "match={'field': []}",
        "The recorder marker: [match] has no setting 'field': it has fields, references",
    ),
    (
        "match={'until': 'never'}",
        "The recorder marker: [match] until must be one of exact, noise, stamps, position",
    ),
]


def test_a_marker_that_makes_no_sense_fails_in_a_sentence(project: Project) -> None:
    project.holds("hi", path="a.sse.jsonl")
    tests = ""
    for number, (marker, _) in enumerate(WRONG_MARKERS):
        tests += f"@pytest.mark.recorder({marker})\n{ONE_TEST.replace('one', str(number))}\n"
    said = project.test(tests).said(errors=len(WRONG_MARKERS))
    for number, (_, sentence) in enumerate(WRONG_MARKERS):
        report = said[said.index(f"ERROR at setup of test_{number} ") :].partition(
            "ERROR at setup of test_"
        )[2]
        assert sentence in report.partition("ERROR at setup of test_")[0]
    assert "Traceback" not in said


def test_an_upstream_that_nobody_knows_fails_in_a_sentence(held: Project) -> None:
    said = held.test("def test_one(recorder_replay):\n    recorder_replay.base_url('opnai')")
    assert (
        "There is no upstream 'opnai': there are openai, anthropic, gemini, chatgpt."
        in said.said(failed=1)
    )


def test_a_speed_of_the_command_line_that_is_none_stops_the_run(project: Project) -> None:
    result = project.test(ONE_TEST).run("--recorder-speed=-1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "recorder: '-1' is not a speed: give 1" in str(result.stderr)


def test_a_server_is_gone_when_its_test_is_over(held: Project) -> None:
    held.test("""
import threading
@pytest.mark.recorder(fault='stall@1')
def test_one(recorder_replay):
    url = f"{recorder_replay.base_url()}/responses"
    with httpx2.stream("POST", url, json=dict(input="hi", model="m", stream=True)) as response:
        next(response.iter_bytes())
def test_two():
    assert "recorder-loopback" not in [thread.name for thread in threading.enumerate()]
""").said(passed=2)


@pytest.mark.long
def test_a_session_of_a_database_answers_too(
    project: Project, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = project.pytester.path / "runs.db"
    with (
        suppress(openai.APIError),
        httpx2.Client(transport=recording_transport(database, session="mine")) as http,
    ):
        client = openai.OpenAI(base_url=f"{upstream.base}/v1", api_key="none", http_client=http)
        list(client.responses.create(model="m", input="hi", stream=True))
    monkeypatch.setenv("RECORDER_DB", str(database))
    project.test(f"@pytest.mark.recorder(session='mine')\n{ONE_TEST}").said(
        "--recorder-mode=all", passed=1
    )
    said = project.test(f"@pytest.mark.recorder(session='yours')\n{ONE_TEST}").said(errors=1)
    assert "recorder: " in said
    assert "yours" in said


PAST = """
def past(url="https://api.anthropic.com/v1/messages"):
    with pytest.raises(httpx.ProxyError, match="403"):
        httpx.get(url)
"""


def test_a_client_that_goes_past_the_recordings_fails_the_test(held: Project) -> None:
    said = held.test(f"{PAST}{ONE_TEST}    past()\n").said(passed=1, errors=1)
    assert (
        "recorder: api.anthropic.com was to be asked past the recordings, and was refused." in said
    )
    assert "recorder_replay.base_url('anthropic')" in said


def test_a_test_that_fails_because_its_client_went_past_is_told_so(held: Project) -> None:
    asking = "def test_one(recorder_replay):\n    ask('https://api.openai.com/v1')"
    said = held.test(asking).said(failed=1)
    assert "recorder: api.openai.com was to be asked past the recordings" in said


def test_what_else_a_test_asks_is_refused_and_does_not_fail_it(held: Project) -> None:
    held.test(f"{PAST}{ONE_TEST}    past('https://x.test'); past('https://api.openai.com')").said(
        passed=1
    )


@pytest.mark.parametrize("by", ["marker", "ini"])
def test_a_test_can_be_let_out(held: Project, by: str) -> None:
    marker = "@pytest.mark.recorder(allow_network=True)" if by == "marker" else ""
    if by == "ini":
        held.pytester.makeini("[pytest]\nrecorder_allow_network = true")
    held.test(f"""
import os
BEFORE = dict(os.environ)
{marker}
{ONE_TEST}    assert {{**BEFORE, "PYTEST_CURRENT_TEST": ""}} == {{**os.environ, "PYTEST_CURRENT_TEST": ""}}
""").said(passed=1)


def test_the_environment_is_as_it_was_after_a_test(held: Project) -> None:
    held.test(f"""
import os
BEFORE = os.environ.get("HTTPS_PROXY")
{ONE_TEST}    assert os.environ["HTTPS_PROXY"].startswith("http://127.0.0.1:")
def test_two():
    assert os.environ.get("HTTPS_PROXY") == BEFORE
""").said(passed=2)


def test_the_marker_and_the_options_are_told_of(project: Project) -> None:
    assert "@pytest.mark.recorder(cassette or session" in str(project.run("--markers").stdout)
    told = str(project.run("--help").stdout)
    keys = ("mode", "cassette_dir", "upstream", "match", "redact", "allow_network")
    for name in ("--recorder-mode", "--recorder-speed", *(f"recorder_{key} (" for key in keys)):
        assert name in told


# -- what is recorded again


TWO_ANSWERS = """
def test_one(recorder_replay):
    for prompt in ("hi", "ho"):
        ask(recorder_replay.base_url(), prompt)
"""


@pytest.fixture
def recorded(project: Project, upstream: Upstream) -> Path:
    """A cassette with two answers, recorded once."""
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}")
    project.test(TWO_ANSWERS).said("--recorder-mode=once", passed=1)
    return project.pytester.path / ONE_CASSETTE


def test_a_cassette_whose_answers_did_not_change_stays_as_it_is(
    project: Project, upstream: Upstream, recorded: Path
) -> None:
    before = recorded.read_bytes()
    upstream.answer = upstream.answer.replace(b"resp_1", b"resp_2").replace(b"msg_1", b"msg_2")
    project.said("--recorder-mode=rewrite", passed=1)
    assert recorded.read_bytes() == before
    assert len(upstream.asked) == 4


def test_only_the_exchange_that_changed_is_written_again(
    project: Project, upstream: Upstream, recorded: Path
) -> None:
    before = lines_of(recorded)
    upstream.answer = upstream.answer.replace(b"resp_1", b"resp_2")
    project.test(TWO_ANSWERS.replace('"ho"', '"hey"')).said("--recorder-mode=rewrite", passed=1)
    after = lines_of(recorded)
    assert (after[0], after[1]) == (before[0], before[1])
    assert '"input":"hey"' in "".join(after[2])
    assert "resp_2" in "".join(after[2])


def lines_of(cassette: Path) -> dict[int, list[str]]:
    """The lines of a cassette by the number of their exchange; that of the session is under 0."""
    lines: dict[int, list[str]] = {}
    for line in cassette.read_text().splitlines():
        value = json.loads(line)
        number = value[1] if isinstance(value, list) else value.get("exchange", 0)
        lines.setdefault(number, []).append(line)
    return lines


# -- the marker without the fixture


BY_MARKER = """
@pytest.mark.recorder
def test_one():
    with openai.OpenAI() as client:
        events = client.responses.create(model="m", input="hi", stream=True)
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Zürich"
"""


@pytest.fixture
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("without_keys")
def test_the_marker_alone_points_clients_at_the_cassette_without_a_key(held: Project) -> None:
    held.test(f"""
import os
{BY_MARKER}
def test_two():
    assert "OPENAI_BASE_URL" not in os.environ
@pytest.mark.recorder
def test_three(recorder_replay):
    assert "OPENAI_BASE_URL" not in os.environ
    ask(recorder_replay.base_url())
@pytest.mark.recorder(cassette="{ONE_CASSETTE}")
@pytest.mark.parametrize("n", [1, 2])
def test_four(n):
    openai.OpenAI().responses.create(model="m", input="hi", stream=True).response.read()
""").holds("hi", path="cassettes/test_it/test_three.sse.jsonl").said(passed=5)


def test_the_marker_alone_records_with_the_key_there_is(
    project: Project, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}")
    keeps_the_key = "    assert openai.OpenAI().api_key == 'sk-mine'\n"
    project.test(BY_MARKER + keeps_the_key).said("--recorder-mode=once", passed=1)
    assert [asked["input"] for asked in upstream.asked] == ["hi"]
    project.said(passed=1)


OF_MANY = {
    "a module": ("pytestmark = pytest.mark.recorder\n", ""),
    "the ini file": ("", "recorder = true"),
}


@pytest.mark.usefixtures("without_keys")
@pytest.mark.parametrize("whose", OF_MANY)
def test_of_many_tests_with_one_marker_those_which_ask_have_cassettes(
    project: Project, upstream: Upstream, whose: str
) -> None:
    mark, ini = OF_MANY[whose]
    project.pytester.makeini(f"[pytest]\n{ini}\nrecorder_upstream = openai={upstream.base}")
    project.test(
        mark + BY_MARKER.replace("@pytest.mark.recorder\n", "") + "def test_two():\n    pass\n"
    )
    said = project.said(passed=1, failed=1)
    assert (
        f"recorder: There is no cassette {ONE_CASSETTE}, and the test asks for an answer." in said
    )
    assert (
        "Record it from the real upstream:\n  pytest --recorder-mode once test_it.py::test_one"
        in said
    )
    project.said("--recorder-mode=once", passed=2)
    project.said("--recorder-mode=rewrite", passed=2)
    project.said(passed=2)
    assert [path.name for path in project.pytester.path.rglob("*.sse.jsonl")] == [
        "test_one.sse.jsonl"
    ]
    assert [asked["input"] for asked in upstream.asked] == ["hi", "hi"]


# -- what a run says of what it has written


def test_a_summary_says_what_was_written_and_what_was_not(
    project: Project, upstream: Upstream, recorded: Path
) -> None:
    said = project.said("--recorder-mode=rewrite", passed=1)
    assert f"recorder: {ONE_CASSETTE} stays as it is: nothing differs.\n" in said
    said = project.test(TWO_ANSWERS.replace('"ho"', '"hey"')).said(
        "--recorder-mode=rewrite", passed=1
    )
    assert f"recorder: {ONE_CASSETTE} was written: 2 exchanges, 1 of them new.\n" in said
    assert "recorder: " not in project.said(passed=1)


def test_a_test_that_asks_for_nothing_cannot_be_recorded(project: Project) -> None:
    said = project.test("def test_one(recorder_replay): ...").said(
        "--recorder-mode=once", passed=1, errors=1
    )
    assert "recorder: there is nothing to record, because the test asked for nothing." in said
    assert not (project.pytester.path / ONE_CASSETTE).exists()
