"""`recorder.cassettes.transcripts.opencode`: what opencode keeps in its database, as exchanges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recorder.cassettes.transcripts import Transcript
from recorder.cassettes.transcripts.opencode import OpenCode
from recorder.errors import RecorderError
from recorder.model.events import Recording
from tests.support.transcripts import kept_by_opencode, kept_in_files
from tests.unit.cassettes.test_cassettes import imported, recordings


@pytest.fixture
def sessions(tmp_path: Path) -> list[Transcript]:
    with kept_by_opencode(tmp_path / "opencode.db").open("rb") as file:
        return OpenCode(file).parts()


def read(session: Transcript) -> list[Recording]:
    return recordings(imported(session))


def answer(each: Recording) -> Any:
    return json.loads(each.body)


def test_each_session_is_a_transcript_with_its_sub_agents(sessions: list[Transcript]) -> None:
    assert {each.name: len(each.ids) for each in sessions} == {"ses_1": 3, "ses_3": 1}
    headers = [dict(each.request.headers) for each in read(sessions[0])]
    assert [each.get("x-parent-session-id") for each in headers] == [None, None, "ses_1"]


def test_calls_and_results_are_those_of_chat_completions(sessions: list[Transcript]) -> None:
    first, second, _ = read(sessions[0])
    [choice] = answer(first)["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert call["function"] == {"name": "bash", "arguments": '{"command":"echo 42"}'}
    repeated, result = json.loads(second.request_body)["messages"]
    assert repeated["tool_calls"] == [call]
    assert result == {"role": "tool", "tool_call_id": call["id"], "content": "42"}


def test_tokens_are_counted_as_the_api_counts_them(sessions: list[Transcript]) -> None:
    usage = answer(read(sessions[1])[0])["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (213 + 7168 + 10, 19 + 64)


def test_the_files_of_an_older_version_have_the_same(
    sessions: list[Transcript], tmp_path: Path
) -> None:
    """That a newer one has copied them into its database changes nothing."""
    found: dict[str, set[str]] = {}
    for path in (kept_in_files(tmp_path / "storage") / "session" / "global").iterdir():
        with path.open("rb") as file:
            [part] = OpenCode(file).parts()
        found.setdefault(part.name, set()).update(part.ids)
    assert found == {each.name: {*each.ids} for each in sessions}


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_bytes(b"SQLite format 3\0")
    with path.open("rb") as file, pytest.raises(RecorderError, match="not a database of opencode"):
        OpenCode(file)
