"""`client.responses.connect()` in tests with the fixture: recorded from an upstream, then answered
without it.
"""

from __future__ import annotations

from tests.acceptance.testing.test_pytest_sdks import Demo
from tests.support.projects import ONE_CASSETTE, Project

pytest_plugins = ["pytester"]

CONNECTING = '''
def text_of(event):
    return event.delta if event.type == "response.output_text.delta" else ""

def say(base, *prompts):
    """What the model says to each prompt, in one conversation over WebSocket."""
    said, more = [], {}
    with openai.OpenAI(base_url=base, api_key="sk-secret", max_retries=0) as client:
        with client.responses.connect() as connection:
            for prompt in prompts:
                connection.response.create(model="m", input=prompt, **more)
                said.append("")
                for event in connection:
                    said[-1] += text_of(event)
                    if event.type in ("response.completed", "error"):
                        break
                if event.type == "error":
                    return said, event
                more = {"previous_response_id": event.response.id}
    return said, None
'''
TWO_TURNS = """
def test_one(recorder_replay):
    said, _ = say(recorder_replay.base_url(), "hello", "search")
    assert all(said)
    assert recorder_replay.session.text == "\\n".join(said)
"""
ONE_TURN = """
def test_one(recorder_replay):
    said, error = say(recorder_replay.base_url(), "hi")
    assert error is None and said == ["Zürich"]
"""


def from_(project: Project, base: str) -> Project:
    project.pytester.makeini(f"[pytest]\nrecorder_upstream = openai={base}")
    return project


NOBODY = "http://127.0.0.1:9"


def test_a_conversation_is_recorded_and_replayed_from_then_on(project: Project) -> None:
    project.test(CONNECTING + TWO_TURNS)
    with Demo() as base:
        from_(project, base).said("--recorder-mode=once", passed=1)
    assert [each.exchange.method for each in project.recordings()] == [
        "GET",
        "WEBSOCKET",
        "WEBSOCKET",
    ]
    assert b"sk-secret" not in (project.pytester.path / ONE_CASSETTE).read_bytes()
    from_(project, NOBODY).said(passed=1)


def test_a_recording_over_websocket_answers_over_http(project: Project) -> None:
    project.test(
        CONNECTING
        + "def test_one(recorder_replay):\n    say(recorder_replay.base_url(), 'hello')\n"
    )
    with Demo() as base:
        from_(project, base).said("--recorder-mode=once", passed=1)
    project.test(
        "def test_one(recorder_replay):\n    assert ask(recorder_replay.base_url(), 'hello')\n"
    )
    from_(project, NOBODY).said(passed=1)


def test_a_recording_over_http_answers_over_websocket(project: Project) -> None:
    project.holds("hi").test(CONNECTING + ONE_TURN).said(passed=1)


def test_a_message_that_was_not_recorded_fails_the_test(project: Project) -> None:
    said = project.holds("hallo").test(CONNECTING + ONE_TURN).said(failed=1)
    assert "1 request was not answered by cassettes/test_it/test_one.sse.jsonl." in said
    assert 'input: recorded "hallo", asked "hi"' in said


def test_a_turn_that_was_not_asked_for_fails_the_test(project: Project) -> None:
    project.holds("hi", "more").test(CONNECTING + ONE_TURN)
    assert "1 of 2 recordings in" in project.said(passed=1, errors=1)


def test_a_fault_closes_the_connection(project: Project) -> None:
    project.holds("hi").test(
        CONNECTING
        + """
from websockets.exceptions import ConnectionClosedError

@pytest.mark.recorder(fault="close@2:1011")
def test_one(recorder_replay):
    with pytest.raises(ConnectionClosedError) as closed:
        say(recorder_replay.base_url(), "hi")
    assert closed.value.rcvd.code == 1011
"""
    ).said(passed=1)


def test_a_cassette_is_recorded_anew(project: Project) -> None:
    project.test(
        CONNECTING
        + "def test_one(recorder_replay):\n    say(recorder_replay.base_url(), 'hello')\n"
    )
    with Demo() as base:
        from_(project, base).said("--recorder-mode=once", passed=1)
        project.test(CONNECTING + TWO_TURNS)
        from_(project, base).said("--recorder-mode=rewrite", passed=1)
    assert len(project.recordings()) == 3
