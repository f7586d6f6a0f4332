"""Sessions of aiohttp with the connector of the fixture: whatever host they ask, the recordings
answer it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

import pytest

from tests.support.projects import ONE_CASSETTE, Project, Upstream, stream

pytest_plugins = ["pytester"]

IMPORTS = "import aiohttp\nCONTENT = " + repr(stream()) + "\n"
ASKING = '''
async def post(recorder_replay, base="https://api.openai.com", prompt="hi", read="read"):
    """What a session gets."""
    async with aiohttp.ClientSession(connector=recorder_replay.aiohttp_connector()) as session:
        json = {"model": "m", "input": prompt, "stream": True}
        async with session.post(f"{base}/v1/responses", json=json) as response:
            if read == "lines":
                return [line async for line in response.content]
            return response.status, await response.read()
'''


def text_of(body: str) -> str:
    test = f"def test_one(recorder_replay):\n    async def main():\n        {body}\n    asyncio.run(main())\n"
    return f"{IMPORTS}{ASKING}\n{test}"


def test_a_cassette_answers_under_the_name_of_any_host(project: Project) -> None:
    bases = ["https://api.openai.com", "https://gateway.example", "http://127.0.0.1:9"]
    body = f"assert [await post(recorder_replay, base) for base in {bases}] == [(200, CONTENT)] * 3"
    project.holds("hi", "hi", "hi").test(text_of(body)).said(passed=1)


def test_lines_come_one_by_one(project: Project) -> None:
    body = "assert await post(recorder_replay, read='lines') == CONTENT.splitlines(keepends=True)"
    project.holds("hi").test(text_of(body)).said(passed=1)


def test_an_event_comes_before_the_next_is_due(project: Project) -> None:
    """The stream stalls for ever behind its first event, which the client has nevertheless."""
    marker = "@pytest.mark.recorder(fault='stall@1')"
    body = """
        async with aiohttp.ClientSession(connector=recorder_replay.aiohttp_connector()) as session:
            json = {"model": "m", "input": "hi", "stream": True}
            async with session.post("https://api.openai.com/v1/responses", json=json) as response:
                assert await response.content.readuntil(b"\\n\\n") == CONTENT.split(b"\\n\\n")[0] + b"\\n\\n"
"""
    text = text_of(body.strip()).replace("def test_one", f"{marker}\ndef test_one")
    project.holds("hi").test(text).said(passed=1)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("cut@1", "ClientPayloadError"),
        ("cut@1:reset", "ClientPayloadError"),
        ("cut@0:reset", "ClientError"),
    ],
)
def test_a_failure_is_an_exception_of_the_library(project: Project, fault: str, error: str) -> None:
    body = f"with pytest.raises(aiohttp.{error}): await post(recorder_replay)"
    text = text_of(body).replace(
        "def test_one", f"@pytest.mark.recorder(fault={fault!r})\ndef test_one"
    )
    project.holds("hi").test(text).said(passed=1)


def test_a_miss_and_an_unused_recording_fail_the_test(project: Project) -> None:
    body = "assert (await post(recorder_replay, prompt='ho'))[0] == 400"
    said = project.holds("hi").test(text_of(body)).said(passed=1, errors=1)
    assert 'input: recorded "hi", asked "ho"' in said
    assert f"1 of 1 recording in {ONE_CASSETTE} was not asked for" in said


def test_it_shares_the_recordings_of_a_test_with_the_server(project: Project) -> None:
    body = "await post(recorder_replay); ask(recorder_replay.base_url(), 'ho')"
    project.holds("hi", "ho").test(text_of(body)).said(passed=1)


def test_what_a_session_asks_is_recorded_from_the_host_that_it_names(
    project: Project, upstream: Upstream
) -> None:
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = local={upstream.base}")
    project.test(
        text_of(f"assert await post(recorder_replay, {upstream.base!r}) == (200, CONTENT)")
    )
    project.said("--recorder-mode=once", passed=1)
    [recording] = project.recordings()
    assert (recording.request.upstream, b"".join(each.raw for each in recording.pieces)) == (
        "local",
        stream(),
    )
    project.said(passed=1)
    assert len(upstream.asked) == 1


def test_a_host_that_nobody_named_is_not_asked_while_recording(
    project: Project, upstream: Upstream
) -> None:
    body = (
        f"status, text = await post(recorder_replay, {upstream.base!r}); assert status == "
        f"404; raise ValueError(text)"
    )
    said = project.test(text_of(body)).said("--recorder-mode=once", failed=1)
    assert "name it as NAME=URL, in the ini file of pytest with recorder_upstream" in said
    assert upstream.asked == []


def test_no_socket_is_left(project: Project) -> None:
    before = {*Path(gettempdir()).glob("recorder-*/s")}
    project.holds("hi").test(text_of("await post(recorder_replay)")).said(passed=1)
    assert {*Path(gettempdir()).glob("recorder-*/s")} <= before
