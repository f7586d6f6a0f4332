"""`--recorder-mode verify`: the upstream is asked and compared with the cassette, which stays as it
is.
"""

from __future__ import annotations

import pytest

from tests.support.projects import ONE_CASSETTE, ONE_TEST, Project, Upstream, stream

pytest_plugins = ["pytester"]

VERIFY = "--recorder-mode=verify"
ASKING_ONLY = "def test_one(recorder_replay):\n    ask(recorder_replay.base_url())\n"
ANOTHER_TOOL = stream().replace(b'"name":"look"', b'"name":"peek"')


def cassette(project: Project) -> bytes:
    return (project.pytester.path / ONE_CASSETTE).read_bytes()


def recorded(project: Project, test: str = ASKING_ONLY) -> bytes:
    """The cassette of a test, as the upstream has answered."""
    project.test(test).said("--recorder-mode=once", passed=1)
    return cassette(project)


def test_the_upstream_is_asked_and_not_the_cassette(project: Project, upstream: Upstream) -> None:
    before = recorded(project)
    project.said(VERIFY, passed=1)
    assert len(upstream.asked) == 2
    assert cassette(project) == before


def test_the_client_gets_what_the_upstream_answers_now(
    project: Project, upstream: Upstream
) -> None:
    recorded(project)
    upstream.answer = stream("Bern")
    project.test(
        "def test_one(recorder_replay):\n"
        "    assert ask(recorder_replay.base_url()) == recorder_replay.session.text == 'Bern'\n"
    ).said(VERIFY, passed=1)


def test_another_tool_fails_the_test_with_level_place_and_both_values(
    project: Project, upstream: Upstream
) -> None:
    before = recorded(project)
    upstream.answer = ANOTHER_TOOL
    said = project.said(VERIFY, passed=1, errors=1)
    assert (
        f"recorder: the upstream does not answer as {ONE_CASSETTE} does. A is what was recorded"
        in said
    )
    lines = [line.strip() for line in said.splitlines()]
    assert "shape  2 differences" in lines
    assert "items missing: tool_call look" in lines
    assert "items added: tool_call peek" in lines
    assert "pytest --recorder-mode rewrite test_it.py::test_one" in lines
    assert "Traceback" not in said
    assert cassette(project) == before


def test_the_ini_file_names_the_levels(project: Project, upstream: Upstream) -> None:
    recorded(project)
    upstream.answer = stream("Bern")
    project.pytester.makeini(
        f"[pytest]\nrecorder_upstream = openai={upstream.base}\nrecorder_verify = usage, answer"
    )
    said = project.said(VERIFY, passed=1, errors=1)
    assert "message 0: [-Zürich-]{+Bern+}" in said
    assert "compared: answer, usage." in said


def test_the_marker_of_a_test_counts_before_the_ini_file(
    project: Project, upstream: Upstream
) -> None:
    recorded(project)
    upstream.answer = stream("Bern")
    for levels in ('"answer"', '"tools,answer"', '["tools", "answer"]'):
        said = project.test(f"@pytest.mark.recorder(verify={levels})\n{ASKING_ONLY}").said(
            VERIFY, passed=1, errors=1
        )
        assert "message 0: [-Zürich-]{+Bern+}" in said, levels


def test_a_request_that_the_cassette_does_not_have_fails_the_test(
    project: Project, upstream: Upstream
) -> None:
    recorded(project)
    said = project.test(ASKING_ONLY + "    ask(recorder_replay.base_url(), 'ho')\n").said(
        VERIFY, passed=1, errors=1
    )
    assert "2  POST /openai/v1/responses  added: only in B" in said


def test_a_recording_that_was_not_asked_for_fails_the_test(
    project: Project, upstream: Upstream
) -> None:
    recorded(project)
    said = project.test("def test_one(recorder_replay): ...").said(VERIFY, passed=1, errors=1)
    assert "1  POST /openai/v1/responses  missing: only in A" in said


def test_of_a_shared_cassette_each_test_verifies_its_own_part(
    project: Project, upstream: Upstream
) -> None:
    marker = '@pytest.mark.recorder(cassette="shared.sse.jsonl")\n'
    two = ASKING_ONLY.replace("_one", "_two").replace("base_url()", "base_url(), 'ho'")
    project.test(f"{marker}{ASKING_ONLY}{marker}{two}").said("--recorder-mode=once", passed=2)
    project.said(VERIFY, passed=2)
    assert [each["input"] for each in upstream.asked] == ["hi", "ho"] * 2
    idle = f"{marker}def test_two(recorder_replay): ...\n"
    said = project.test(f"{marker}{ASKING_ONLY}{idle}").said(VERIFY, passed=2, errors=1)
    assert "2  POST /openai/v1/responses  missing: only in A" in said
    assert "test_one" not in said.split("ERRORS")[1]


def test_without_a_cassette_there_is_nothing_to_verify(
    project: Project, upstream: Upstream
) -> None:
    said = project.test(ONE_TEST).said(VERIFY, errors=1)
    assert (
        f"recorder: There is no cassette {ONE_CASSETTE}. Record it from the real upstream:" in said
    )
    assert upstream.asked == []


def test_a_test_that_fails_by_itself_says_that_nothing_was_compared(
    project: Project, upstream: Upstream
) -> None:
    recorded(project)
    upstream.answer = ANOTHER_TOOL
    said = project.test(ASKING_ONLY + "    assert False\n").said(VERIFY, failed=1)
    assert f"Nothing was compared with {ONE_CASSETTE}: the test failed." in said


def test_a_test_with_a_fault_is_replayed(project: Project, upstream: Upstream) -> None:
    recorded(project)
    project.test(
        "@pytest.mark.recorder(fault='status:429')\n"
        "def test_one(recorder_replay):\n"
        "    with pytest.raises(openai.RateLimitError):\n        ask(recorder_replay.base_url())\n"
    ).said(VERIFY, passed=1)
    assert len(upstream.asked) == 1


def test_a_private_value_is_in_no_message(project: Project, upstream: Upstream) -> None:
    project.pytester.makeini(
        f"[pytest]\nrecorder_upstream = openai={upstream.base}\nrecorder_redact = fields:metadata.email\n"
        "recorder_verify = request, answer, events, bytes"
    )
    test = """
def test_one(recorder_replay):
    json = {"model": "m", "input": "hi", "stream": True, "metadata": {"email": "EMAIL"}}
    assert httpx2.post(recorder_replay.base_url() + "/responses", json=json).text
"""
    upstream.answer = stream().replace(b'"id":"resp_1"', b'"id":"resp_1","user":"ada@example.org"')
    recorded(project, test.replace("EMAIL", "ada@example.org"))
    upstream.answer = upstream.answer.replace(b"ada@", b"bob@").replace("Zürich".encode(), b"Bern")
    said = project.test(test.replace("EMAIL", "bob@example.org")).said(VERIFY, passed=1, errors=1)
    assert "message 0: [-Zürich-]{+Bern+}" in said
    assert "example.org" not in said


def test_a_level_that_does_not_exist_stops_the_run_in_a_sentence(project: Project) -> None:
    project.pytester.makeini("[pytest]\nrecorder_verify = words")
    result = project.test(ONE_TEST).run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert (
        "recorder: recorder_verify names no level 'words': the levels are request, answer"
        in str(result.stderr)
    )


def test_a_level_in_a_marker_that_does_not_exist_fails_in_a_sentence(project: Project) -> None:
    said = (
        project.holds("hi")
        .test(f"@pytest.mark.recorder(verify='words')\n{ONE_TEST}")
        .said(errors=1)
    )
    assert "verify of the recorder marker names no level 'words'" in said
