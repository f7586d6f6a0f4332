"""Which requests only ask whether somebody is there, and which of those need no answer."""

from __future__ import annotations

from recorder.replay.matching import Matcher, MatchRequest, Miss
from recorder.wire.grouping.probes import is_optional
from tests.support.recordings import record
from tests.support.tables import table


@table(
    ("method", "target", "verdict"),
    [
        ("HEAD", "/anthropic/api/hello", True),
        ("HEAD", "/", True),
        ("GET", "/api/hello", True),
        ("GET", "/openai/v1/models?client_version=0.169.0", True),
        ("GET", "/v1/models", False),
        ("GET", "/v1/models/gpt-5?client_version=1", False),
        ("POST", "/api/hello", False),
        ("GET", "/v1/responses/resp_1", False),
    ],
)
def test_a_client_goes_on_without_an_answer_to_some_probes(
    method: str, target: str, verdict: bool
) -> None:
    assert is_optional(method, target) is verdict


def test_a_probe_is_not_missed_when_it_is_not_recorded() -> None:
    matcher = Matcher([])
    assert isinstance(matcher.match(MatchRequest("HEAD", "/api/hello", "anthropic", [], b"")), Miss)
    assert isinstance(
        matcher.match(MatchRequest("POST", "/v1/messages", "anthropic", [], b"{}")), Miss
    )
    assert [seen.how for seen in matcher.seen()] == ["probe", "miss"]


def test_a_probe_that_was_recorded_need_not_come_again() -> None:
    probe = record(MatchRequest("HEAD", "/api/hello", "anthropic", [], b""))
    turn = record(MatchRequest("POST", "/v1/messages", "anthropic", [], b"{}"))
    assert Matcher([probe, turn]).unused() == [turn]
