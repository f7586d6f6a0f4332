"""Metrics of sessions, read by the official protobuf definitions."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from recorder.exports.otlp.spans import Measurements
from recorder.exports.otlp.telemetry import convention_of
from tests.support.conversations import MS, Conversations, S, asking, message, response
from tests.support.otlp import attributes_of, exported, metrics_request, spans
from tests.support.rows import START_NS

DELTA = 1


@pytest.fixture
def log(tmp_path: Path) -> Conversations:
    return Conversations(tmp_path / "log.db")


def metrics(log: Conversations) -> dict[str, list[Any]]:
    """The points of each metric."""
    [line] = exported(log.path, "--metrics")
    [of] = metrics_request(line).resource_metrics
    [scope] = of.scope_metrics
    assert {each.histogram.aggregation_temporality for each in scope.metrics} == {DELTA}
    return {each.name: list(each.histogram.data_points) for each in scope.metrics}


def counted_tokens(found: dict[str, list[Any]]) -> Counter[str]:
    """How often tokens of a type were counted, whatever the model."""
    counts = Counter[str]()
    for each in found["gen_ai.client.token.usage"]:
        counts[attributes_of(each)["gen_ai.token.type"]] += each.count
    return counts


def test_tokens_are_counted_by_type(log: Conversations) -> None:
    session = log.session("talk")
    session.exchange(response(*message("Yes.")), asking("Go"))
    usage = {"input_tokens": 4, "output_tokens": 5, "total_tokens": 9}
    session.exchange(response(*message("Yes."), id="resp_2", usage=usage), asking("Go on"), at_s=5)
    points = {
        attributes_of(each)["gen_ai.token.type"]: each
        for each in metrics(log)["gen_ai.client.token.usage"]
    }
    assert points.keys() == {"input", "output"}
    found = points["input"]
    assert (found.count, found.sum, found.min, found.max) == (2, 1238, 4, 1234)
    assert dict(enumerate(found.bucket_counts)) | {1: 1, 6: 1} == dict(
        enumerate(found.bucket_counts)
    )
    assert sum(found.bucket_counts) == 2
    assert len(found.bucket_counts) == len(found.explicit_bounds) + 1
    assert (found.start_time_unix_nano, found.time_unix_nano) == (
        START_NS,
        START_NS + 5 * S + 800 * MS,
    )


def test_a_value_on_a_bound_is_in_the_bucket_below_and_one_above_all_in_the_last(
    log: Conversations,
) -> None:
    session = log.session("talk")
    for number, tokens in enumerate((1, 2, 67108864, 67108865)):
        usage = {"input_tokens": tokens}
        frames = response(*message("Yes."), id=f"resp_{number}", usage=usage)
        session.exchange(frames, asking("Go"), at_s=5 * number)
    [found] = metrics(log)["gen_ai.client.token.usage"]
    assert list(found.bucket_counts) == [1, 1, *[0] * 11, 1, 1]


def test_durations_of_failures_are_apart(log: Conversations) -> None:
    session = log.session("talk")
    session.exchange(response(*message("Yes.")), asking("Go"))
    failed = json.dumps({"error": {"code": "overloaded"}}).encode()
    session.exchange(
        [failed], asking("Go"), at_s=5, http_status=503, content_type="application/json"
    )
    good, bad = metrics(log)["gen_ai.client.operation.duration"]
    assert "error.type" not in attributes_of(good)
    assert attributes_of(bad)["error.type"] == "overloaded"
    assert (good.sum, bad.sum) == (0.8, 0.2)
    [first] = metrics(log)["gen_ai.client.operation.time_to_first_chunk"]
    assert (first.count, first.sum) == (1, 0.1)  # an error in place of the stream has no chunk


def test_a_retrieved_response_counts_once(log: Conversations) -> None:
    session = log.session("talk")
    session.exchange(response(*message("Yes.")), asking("Go"))
    again: Any = {
        "method": "GET",
        "target": "/v1/responses/resp_1",
        "resumes_response_id": "resp_1",
    }
    session.exchange(response(*message("Yes.")), body={"x": 1}, at_s=5, **again)
    found = metrics(log)
    assert counted_tokens(found) == {"input": 1, "output": 1}
    assert [each.count for each in found["gen_ai.client.operation.duration"]] == [1]
    first, second = (attributes_of(span) for span in spans(log.path))
    assert (first["gen_ai.usage.input_tokens"], second["recorder.retrieval"]) == (1234, True)
    assert not [name for name in second if name.startswith("gen_ai.usage.")]


def test_tokens_that_only_the_retrieval_reports_are_its_own(log: Conversations) -> None:
    session = log.session("talk")
    session.exchange(response(*message("Yes."))[:-1], asking("Go"), outcome="upstream_reset")
    again: Any = {
        "method": "GET",
        "target": "/v1/responses/resp_1",
        "resumes_response_id": "resp_1",
    }
    session.exchange(response(*message("Yes.")), body={"x": 1}, at_s=5, **again)
    assert counted_tokens(metrics(log)) == {"input": 1, "output": 1}


def test_without_a_measurement_there_is_not_a_metric() -> None:
    assert Measurements(convention_of()).metrics() == []
