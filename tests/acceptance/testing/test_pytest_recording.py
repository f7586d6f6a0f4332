"""The modes of the pytest plugin that record: what a test asked of its upstream is the cassette of
the next run.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import httpx
import httpx2
import msgspec
import pytest

from tests.support.projects import LOADED, ONE_CASSETTE, ONE_TEST, Project, Upstream, stream

pytest_plugins = ["pytester"]


@pytest.mark.parametrize("mode", ["once", "new_episodes", "all", "rewrite"])
def test_what_a_test_asks_is_recorded_and_replayed_from_then_on(
    project: Project, upstream: Upstream, mode: str
) -> None:
    project.test(ONE_TEST).said("--recorder-mode", mode, passed=1)
    [recording] = project.recordings()
    assert (recording.exchange.provider, recording.exchange.api) == ("openai", "openai-responses")
    assert b"".join(piece.raw for piece in recording.pieces) == stream()
    assert recording.end is not None
    assert recording.end.outcome == "eof"
    project.said(passed=1)
    assert len(upstream.asked) == 1


def test_the_ini_file_can_say_the_mode_and_no_key_reaches_the_cassette(
    project: Project, upstream: Upstream
) -> None:
    project.pytester.makeini(
        f"[pytest]\nrecorder_upstream = openai={upstream.base}\nrecorder_mode = once"
    )
    project.test(ONE_TEST).said(passed=1)
    [recording] = project.recordings()
    hosts = [value for name, value in recording.request.headers if name.lower() == "host"]
    assert hosts == [upstream.base.removeprefix("http://")]
    assert b"sk-secret" not in (project.pytester.path / ONE_CASSETTE).read_bytes()


def test_a_marker_can_say_the_upstream(project: Project, upstream: Upstream) -> None:
    project.pytester.makeini("[pytest]\nrecorder_upstream = openai=http://127.0.0.1:9")
    marker = f'@pytest.mark.recorder(upstream="openai={upstream.base}")\n'
    project.test(marker + ONE_TEST).said("--recorder-mode=once", passed=1)


def test_every_upstream_has_a_base_url(project: Project, upstream: Upstream) -> None:
    names = ("anthropic", "gemini", "my")
    upstreams = "".join(f"\n  {name}={upstream.base}" for name in names)
    project.pytester.makeini(f"[pytest]\nrecorder_upstream ={upstreams}")
    project.test("""
def test_one(recorder_replay):
    for name, path in ("anthropic", "/v1/messages"), ("gemini", "/v1beta/models/m:x"), ("my", "/v1/x"):
        assert httpx2.post(recorder_replay.base_url(name) + path, json={}).status_code == 200
""").said("--recorder-mode=once", passed=1)
    assert [each.exchange.provider for each in project.recordings()] == [*names]
    project.pytester.makeini("[pytest]")
    project.said(passed=1)


SENDS_WHAT_IS_PRIVATE = """
def test_one(recorder_replay):
    with httpx2.Client(headers={"x-request-id": "of-%(who)s"}) as http:
        body = {"input": "hi", "metadata": {"email": "%(who)s", "team": "blue"}}
        url = recorder_replay.base_url() + "/responses?after=%(who)s"
        assert http.post(url, json=body).status_code == 200
"""
REDACTED = "recorder_redact =\n  fields:metadata.email\n  headers:x-request-*\n  parameters:after"


def test_what_the_project_calls_private_is_in_no_cassette_and_in_no_match(
    project: Project, upstream: Upstream
) -> None:
    """Not even where only the very same is a match, and in no message."""
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}\n{REDACTED}")
    exact = "@pytest.mark.recorder(match={'until': 'exact'})"
    project.test(exact + SENDS_WHAT_IS_PRIVATE % {"who": "lovelace"}).said(
        "--recorder-mode=once", passed=1
    )
    written = (project.pytester.path / ONE_CASSETTE).read_bytes()
    assert b"lovelace" not in written
    assert [each["metadata"]["email"] for each in upstream.asked] == ["lovelace"]
    [recording] = project.recordings()
    assert recording.request.target.endswith("/responses?after=REDACTED")
    assert ("x-request-id", "REDACTED (11 bytes)") in recording.request.headers
    assert msgspec.json.decode(recording.request_body)["metadata"] == {
        "email": "REDACTED",
        "team": "blue",
    }
    other = SENDS_WHAT_IS_PRIVATE % {"who": "grace"}
    project.test(exact + other).said(passed=1)
    said = project.test(exact + other.replace("blue", "red")).said(failed=1)
    missed = said[said.index("recorder: 1 request was not answered") :]
    assert 'recorded "blue", asked "red"' in missed
    assert "grace" not in missed


@pytest.mark.parametrize("mode", ["new_episodes", "all"])
def test_what_cannot_be_redacted_is_not_written_and_said_once(
    project: Project, upstream: Upstream, mode: str
) -> None:
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}\n{REDACTED}")
    said = project.test("""
def test_one(recorder_replay):
    body = {"input": "I am lovelace", "metadata": {"email": "lovelace"}}
    httpx2.post(recorder_replay.base_url() + "/responses", json=body)
""").said("--recorder-mode", mode, passed=1, errors=1)
    assert (
        said.count(
            "recorder: Exchange 1 (POST to openai) cannot be redacted, so nothing was written:"
        )
        == 1
    )
    assert (
        "its request still has what fields:metadata.email takes out elsewhere. Name that place"
        in said
    )
    assert "lovelace" not in said
    assert not (project.pytester.path / ONE_CASSETTE).exists()


def test_what_was_there_before_the_redaction_is_redacted_when_something_is_added(
    project: Project, upstream: Upstream
) -> None:
    project.test(SENDS_WHAT_IS_PRIVATE % {"who": "lovelace"}).said("--recorder-mode=once", passed=1)
    assert b"lovelace" in (project.pytester.path / ONE_CASSETTE).read_bytes()
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={upstream.base}\n{REDACTED}")
    more = "    ask(recorder_replay.base_url())\n"
    project.test(SENDS_WHAT_IS_PRIVATE % {"who": "lovelace"} + more).said(
        "--recorder-mode=new_episodes", passed=1
    )
    assert b"lovelace" not in (project.pytester.path / ONE_CASSETTE).read_bytes()
    project.said(passed=1)
    assert len(upstream.asked) == 2


def test_what_is_got_while_recording_is_what_the_session_shows(
    project: Project, upstream: Upstream
) -> None:
    project.holds("hi", "ha", body=stream("Bern")).test("""
def test_one(recorder_replay):
    ask(recorder_replay.base_url(), "ho")
    ask(recorder_replay.base_url(), "hi")
    assert recorder_replay.session.text == "Zürich\\nBern"
    ask(recorder_replay.base_url(), "ha")
    assert recorder_replay.session.text == "Zürich\\nBern\\nBern"
    assert "3 exchanges" in repr(recorder_replay.session)
""").said("--recorder-mode=new_episodes", passed=1)
    assert len(project.recordings()) == 3


SHARING = """
@pytest.mark.parametrize("prompt", ["hi", "ho", "hi"])
@pytest.mark.recorder(cassette="shared.sse.jsonl")
def test_shared(recorder_replay, prompt):
    ask(recorder_replay.base_url(), prompt)
    ask(recorder_replay.base_url(), "both")
"""


@pytest.mark.parametrize(
    "mode",
    [
        "all",
        "once",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("rewrite", "new_episodes")),
    ],
)
def test_tests_that_share_a_cassette_record_it_together(
    project: Project, upstream: Upstream, mode: str
) -> None:
    """What each of them asks is there, what several ask is there once, what was there before is
    replaced.
    """
    if mode in ("all", "rewrite"):
        project.holds("old", path="shared.sse.jsonl")
    project.test(SHARING).said("--recorder-mode", mode, passed=3)
    asked = [
        msgspec.json.decode(each.request_body)["input"]
        for each in project.recordings("shared.sse.jsonl")
    ]
    assert asked == ["hi", "both", "ho"]
    project.said(passed=3)
    project.said("-k", "ho", passed=1)
    project.said("--recorder-mode", mode, passed=3)
    assert len(project.recordings("shared.sse.jsonl")) == 3


TWO = """
@pytest.mark.recorder(cassette="shared.sse.jsonl")
def test_a(recorder_replay):
    ask(recorder_replay.base_url(), "of a")
    ask(recorder_replay.base_url(), "both")

@pytest.mark.recorder(cassette="shared.sse.jsonl")
def test_b(recorder_replay):
    ask(recorder_replay.base_url(), "both")
    ask(recorder_replay.base_url(), "of b")
"""


def prompts(project: Project, path: str = "shared.sse.jsonl") -> list[str]:
    return [msgspec.json.decode(each.request_body)["input"] for each in project.recordings(path)]


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_a_test_that_records_anew_leaves_others_what_they_ask_for(
    project: Project, upstream: Upstream, mode: str
) -> None:
    """Its own is replaced; what both ask for is asked again, and has the newer answer."""
    project.test(TWO).said("--recorder-mode=once", passed=2)
    assert prompts(project) == ["of a", "both", "of b"]
    [_, before, _] = project.recordings("shared.sse.jsonl")
    upstream.answer = stream("Zür", "ich")
    project.test(TWO.replace('"of a"', '"other"')).said(
        "--recorder-mode", mode, "-k", "test_a", passed=1
    )
    assert sorted(prompts(project)) == ["both", "of b", "other"]
    [both] = [
        each for each in project.recordings("shared.sse.jsonl") if b"both" in each.request_body
    ]
    assert both.exchange.started_ns > before.exchange.started_ns
    project.said(passed=2)


def test_what_a_test_was_answered_with_in_the_same_run_is_its_own_too(
    project: Project, upstream: Upstream
) -> None:
    """The second asks nothing new, so its upstream is not asked; what it was answered from stays
    for it.
    """
    second = TWO.replace('    ask(recorder_replay.base_url(), "of b")\n', "")
    project.test(second).said("--recorder-mode=once", passed=2)
    assert [each["input"] for each in upstream.asked] == ["of a", "both"]
    project.test(second.replace('"both")\n\n', '"new")\n\n')).said(
        "--recorder-mode=rewrite", "-k", "test_a", passed=1
    )
    assert sorted(prompts(project)) == ["both", "new", "of a"]
    project.said(passed=2)


def test_a_test_that_fails_while_all_is_recorded_anew_keeps_what_it_had(
    project: Project, upstream: Upstream
) -> None:
    project.test(TWO).said("--recorder-mode=once", passed=2)
    project.test(TWO + "    assert False\n").said("--recorder-mode=rewrite", passed=1, failed=1)
    assert sorted(prompts(project)) == ["both", "of a", "of b"]


def test_the_cassette_of_another_test_is_not_removed(project: Project, upstream: Upstream) -> None:
    project.test(ONE_TEST).said("--recorder-mode=once", passed=1)
    reader = (
        f'@pytest.mark.recorder(cassette="{ONE_CASSETTE}")\ndef test_reader(recorder_replay): ...\n'
    )
    said = project.test(ONE_TEST + reader).said(passed=2, errors=1)
    assert "recorder: 1 of 1 recording in" in said
    assert "rewrite" not in said
    project.said("--recorder-mode=rewrite", "-k", "reader", passed=1)
    project.said("-k", "one", passed=1)


def test_the_remedy_for_a_shared_cassette_does_no_harm_to_others(
    project: Project, upstream: Upstream
) -> None:
    """Whoever recorded it: what is printed is typed, and then all tests pass."""
    other = f'@pytest.mark.recorder(cassette="{ONE_CASSETTE}")\n' + ONE_TEST.replace(
        "one", "other"
    ).replace("()", "(), 'ho'")
    project.holds("hi").test(ONE_TEST + other)
    said = project.said(passed=1, failed=1)
    assert "rewrite" not in said
    assert "To add what it asks for, and leave the rest to other tests:" in said
    [remedy] = {
        line.strip()
        for line in said.splitlines()
        if line.strip().startswith("pytest --recorder-mode")
    }
    assert remedy == "pytest --recorder-mode new_episodes test_it.py::test_other"
    project.run(*remedy.split()[1:])
    project.said(passed=2)
    assert [each["input"] for each in upstream.asked] == ["ho"]


IN_A_CLASS = """
@pytest.mark.recorder(cassette="shared.sse.jsonl")
class Test{0}:
    def test_one(self, recorder_replay):
        ask(recorder_replay.base_url(), "{0}")
"""


def test_a_cassette_of_tests_that_have_one_name_tells_them_apart(
    project: Project, upstream: Upstream
) -> None:
    project.test("".join(IN_A_CLASS.format(name) for name in "AB")).said(
        "--recorder-mode=once", passed=2
    )
    project.said("--recorder-mode=rewrite", "-k", "TestA", passed=1)
    assert sorted(prompts(project)) == ["A", "B"]


def test_a_cassette_that_names_its_tests_and_no_exchanges_is_of_all_of_them(
    project: Project, upstream: Upstream
) -> None:
    project.test(TWO).said("--recorder-mode=once", passed=2)
    path = project.pytester.path / "shared.sse.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    header = msgspec.json.decode(first)
    header["session"]["labels"] = '{"tests": ["test_a", "test_b"]}'
    path.write_text(msgspec.json.encode(header).decode() + "\n" + "".join(rest))
    project.said(passed=2)
    project.said("--recorder-mode=rewrite", "-k", "test_a", passed=1)
    project.said(passed=2)


def test_a_test_that_asks_for_nothing_any_more_has_no_cassette(
    project: Project, upstream: Upstream
) -> None:
    for mode, is_left in (("new_episodes", True), ("all", False)):
        project.holds("hi").test("def test_one(recorder_replay): ...")
        result = project.run("--recorder-mode", mode)
        said = str(result.stdout)
        assert (project.pytester.path / ONE_CASSETTE).exists() is is_left
        assert (
            f"recorder: {ONE_CASSETTE} was removed: test_it.py::test_one asked for nothing." in said
        ) is not is_left
    project.said("--recorder-mode=rewrite", passed=1)


def test_a_cassette_from_before_the_redaction_is_one_still(
    project: Project, upstream: Upstream
) -> None:
    project.test(SENDS_WHAT_IS_PRIVATE % {"who": "lovelace"}).said("--recorder-mode=once", passed=1)
    project.pytester.makeini(f"[pytest]\n{REDACTED}")
    project.test(SENDS_WHAT_IS_PRIVATE % {"who": "grace"}).said(passed=1)


def test_a_cassette_that_another_process_has_just_written_does_not_disturb(
    project: Project, upstream: Upstream
) -> None:
    """A test that found none records, whatever comes to be there meanwhile."""
    project.holds("ho", path="other.sse.jsonl").test(f"""
@pytest.fixture
def another(recorder_replay, request):
    folder = request.path.parent / "cassettes" / "test_it"
    folder.mkdir(parents=True)
    (request.path.parent / "other.sse.jsonl").rename(folder / "test_one.sse.jsonl")
    return recorder_replay
{ONE_TEST.replace("recorder_replay", "another")}
""").said("--recorder-mode=once", passed=1)
    assert len(upstream.asked) == 1


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_transports_record_too(project: Project, upstream: Upstream, library: Any) -> None:
    project.test(f"""
def test_one(recorder_replay):
    with {library.__name__}.Client(transport=recorder_replay.transport({library.__name__})) as http:
        assert ask("{upstream.base}/v1", http_client=http) == "Zürich"
    assert recorder_replay.session.text == "Zürich"
""").said("--recorder-mode=once", passed=1)
    [recording] = project.recordings()
    assert recording.exchange.provider == "openai"
    project.said(passed=1)
    assert len(upstream.asked) == 1


def test_an_asynchronous_transport_records_too(project: Project, upstream: Upstream) -> None:
    project.test(f"""
def test_one(recorder_replay):
    async def main():
        async with httpx2.AsyncClient(transport=recorder_replay.async_transport()) as http:
            return (await http.post("{upstream.base}/v1/responses", json={{"input": "hi"}})).text
    assert "Z" in asyncio.run(main())
""").said("--recorder-mode=once", passed=1)
    project.said(passed=1)
    assert len(upstream.asked) == 1


def test_once_leaves_a_cassette_that_is_there_alone(project: Project, upstream: Upstream) -> None:
    project.holds("ho").test(ONE_TEST)
    said = project.said("--recorder-mode=once", failed=1)
    assert f"recorder: 1 request was not answered by {ONE_CASSETTE}." in said
    assert not upstream.asked


def test_new_episodes_records_what_the_cassette_does_not_answer(
    project: Project, upstream: Upstream
) -> None:
    project.holds("hi").test("""
def test_one(recorder_replay):
    ask(recorder_replay.base_url(), "hi")
    ask(recorder_replay.base_url(), "ho")
""").said("--recorder-mode=new_episodes", passed=1)
    assert [each["input"] for each in upstream.asked] == ["ho"]
    assert len(project.recordings()) == 2
    project.said(passed=1)


def test_new_episodes_tells_of_old_ones_that_are_not_asked_for(
    project: Project, upstream: Upstream
) -> None:
    said = (
        project.holds("ho").test(ONE_TEST).said("--recorder-mode=new_episodes", passed=1, errors=1)
    )
    assert "1 of 1 recording in" in said
    assert len(project.recordings()) == 2


@pytest.mark.parametrize("mode", ["all", "rewrite"])
def test_all_is_recorded_anew(project: Project, upstream: Upstream, mode: str) -> None:
    project.holds("hi", "ho", body=stream("Bern")).test(ONE_TEST).said(
        "--recorder-mode", mode, passed=1
    )
    assert [each["input"] for each in upstream.asked] == ["hi"]
    [recording] = project.recordings()
    assert "Zürich".encode() in b"".join(piece.raw for piece in recording.pieces)


def test_a_test_that_fails_leaves_no_cassette(project: Project, upstream: Upstream) -> None:
    said = project.test(ONE_TEST.replace("Zürich", "Bern")).said("--recorder-mode=once", failed=1)
    assert "Nothing was saved: the test failed." in said
    assert not (project.pytester.path / ONE_CASSETTE).exists()


def test_a_test_with_a_fault_is_not_recorded(project: Project, upstream: Upstream) -> None:
    said = project.test(f'@pytest.mark.recorder(fault="cut@2")\n{ONE_TEST}').said(
        "--recorder-mode=once", errors=1
    )
    assert "Record it from the real upstream, without the fault in its marker:" in said
    assert not upstream.asked


def test_a_cassette_that_cannot_be_written_fails_the_test(
    project: Project, upstream: Upstream
) -> None:
    (project.pytester.path / "cassettes").write_text("in the way")
    said = project.test(ONE_TEST).said("--recorder-mode=once", passed=1, errors=1)
    assert "test_one.sse.jsonl cannot be written: " in said


@pytest.mark.slow
def test_runs_in_processes_at_once_and_leaves_nothing_open(
    project: Project, upstream: Upstream
) -> None:
    project.test("\n".join(ONE_TEST.replace("one", name) for name in ("one", "two", "three")))
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "pytest",
        *LOADED,
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
    ]
    runs = [
        subprocess.Popen(
            [*command, "--recorder-mode=once", f"test_it.py::test_{name}"], stdout=subprocess.PIPE
        )
        for name in ("one", "two", "three")
    ]
    said = [run.communicate()[0].decode() for run in runs]
    assert ["1 passed" in each and "warning" not in each for each in said] == [True] * 3, said
    project.said(passed=3)
