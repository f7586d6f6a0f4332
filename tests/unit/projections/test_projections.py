"""Exchanges, usage, timing, results, anomalies: what facts come to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from recorder.model.events import Exchange
from recorder.model.facts import (
    CostReported,
    ErrorReported,
    ExchangeEnded,
    Fact,
    Field,
    FirstByte,
    HeadReceived,
    LostBytes,
    MalformedPayload,
    Purpose,
    RequestFacts,
    RequestPurpose,
    ResponseFinished,
    ResponseStarted,
    TextAdded,
    ToolResult,
    UnknownType,
    UnterminatedEvent,
    Usage,
    UsageDetails,
    UsageReported,
)
from recorder.model.text import storable
from recorder.projections import exchange_facts
from recorder.projections.rows import ANOMALIES, EXCHANGES, PROJECTIONS, RESULTS, TIMING, USAGE
from recorder.projections.timing import STALL_NS
from tests.support.facts import EXCHANGE, MS, Told, event, fold
from tests.support.tables import table

COMPLETED = ExchangeEnded("completed", "eof", None, 200, True)
NO_COUNTS = (
    "session_id",
    "exchange_id",
    "partial",
    "started_ns",
    "model",
    "client",
    "outcome",
    "reported",
)
REPORT = UsageReported(Usage(input_tokens=10, output_tokens=5), '{"in": 10}')


def numbered(*numbers: int | None) -> list[Told]:
    return [event(pos, sequence_number=number, type="delta") for pos, number in enumerate(numbers)]


def typed(*types: str, outcome: str = "eof") -> list[str]:
    told: list[Told] = [event(pos, type=type) for pos, type in enumerate(types)]
    ended = ExchangeEnded("completed" if outcome == "eof" else outcome, outcome, frames=len(types))
    return fold(ANOMALIES, [*told, (event(99, kind="end"), [ended])]).kinds


# -- usage


def test_the_last_report_of_usage_stands_as_a_whole() -> None:
    later = UsageReported(Usage(output_tokens=7), '{"out": 7}')
    row = fold(USAGE, [REPORT, later, ResponseFinished("stop"), COMPLETED]).row
    assert (row.input_tokens, row.output_tokens, row.usage_raw, row.partial) == (
        None,
        7,
        '{"out": 7}',
        False,
    )


def test_usage_that_was_not_reported_is_null_and_not_zero() -> None:
    row = fold(USAGE, [COMPLETED]).row
    assert {
        value for name, value in msgspec.structs.asdict(row).items() if name not in NO_COUNTS
    } == {None}


OTHER = msgspec.structs.replace(EXCHANGE, api="other", target="/v1/audio/speech")
CUT, BROKEN = (
    ExchangeEnded("incomplete", "eof", frames=3),
    ExchangeEnded("upstream_reset", "upstream_reset", frames=3),
)


@table(
    ("exchange", "told", "is_partial"),
    [
        (EXCHANGE, (), True),
        (EXCHANGE, (CUT,), True),
        (EXCHANGE, (BROKEN,), True),
        # of one choice, or before the chunk with the usage
        (EXCHANGE, (ResponseFinished("stop"), BROKEN), True),
        (EXCHANGE, (ResponseFinished("max_output_tokens"), CUT), False),
        (EXCHANGE, (ExchangeEnded("completed", "eof"),), False),  # a document
        (EXCHANGE, (ExchangeEnded("completed", "eof", frames=3, said_end=True),), False),
        (EXCHANGE, (ExchangeEnded("completed", "eof", frames=3),), True),
        (EXCHANGE, (ExchangeEnded("incomplete", "eof", frames=3, said_end=True),), True),
        (EXCHANGE, (ExchangeEnded("incomplete", "eof"),), True),
        (
            EXCHANGE,
            (ExchangeEnded("client_disconnect", "client_disconnect", frames=3, said_end=True),),
            True,
        ),
        (EXCHANGE, (ExchangeEnded("error_status", "eof"),), False),
        (EXCHANGE, (ExchangeEnded("failed", "eof"),), False),
        (EXCHANGE, (ExchangeEnded("failed", "eof", frames=3),), True),
        (EXCHANGE, (ExchangeEnded("failed", "eof", frames=3, said_end=True),), True),
        # a format that nobody here knows
        (OTHER, (ExchangeEnded("completed", "eof", frames=3),), False),
        (OTHER, (ExchangeEnded("completed", "eof"),), False),
        (OTHER, (BROKEN,), True),
        (OTHER, (ExchangeEnded("client_disconnect", "client_disconnect", frames=3),), True),
    ],
)
def test_usage_is_partial_until_the_response_has_ended_and_where_something_broke_off(
    exchange: Exchange, told: tuple[Fact, ...], is_partial: bool
) -> None:
    assert fold(USAGE, told, exchange).row.partial == is_partial
    assert fold(USAGE, [REPORT, *told], exchange).row.partial == is_partial


NO_TOKENS = UsageReported(Usage(input_tokens=0, output_tokens=0, total_tokens=0), "{}")


@table(
    ("purpose", "report", "is_counted"),
    [
        ("turn", None, True),
        (None, None, True),
        ("probe", None, False),
        ("probe", REPORT, False),
        ("prewarm", None, False),
        ("prewarm", NO_TOKENS, False),
        ("prewarm", REPORT, True),
    ],
)
def test_sums_count_what_asks_for_an_answer_or_costs_tokens(
    purpose: Purpose | None, report: Fact | None, is_counted: bool
) -> None:
    told = [RequestFacts(model="m"), RequestPurpose(purpose), *([] if report is None else [report])]
    row = fold(USAGE, told).row
    assert (row.model is not None, row.reported) == (is_counted, is_counted and report is not None)


def test_counts_that_cannot_be_are_left_out_and_reported() -> None:
    outcome = fold(
        USAGE, [UsageReported(Usage(input_tokens=5, total_tokens=2**62, output_tokens=-1), "{}")]
    )
    assert (outcome.row.input_tokens, outcome.row.output_tokens, outcome.row.total_tokens) == (
        5,
        None,
        None,
    )
    [anomaly] = outcome.anomalies
    assert (anomaly.kind, anomaly.detail) == ("malformed", "tokens: output_tokens, total_tokens")


def test_usage_that_cannot_be_read_is_reported() -> None:
    unknown = "neither input nor output is known by its name"
    for raw, expected in (('{"prompt_tokens": "ten"}', "prompt_tokens"), ('{"novel": 1}', unknown)):
        [anomaly] = fold(USAGE, [UsageReported(Usage(), raw), COMPLETED]).anomalies
        assert (anomaly.kind, anomaly.detail) == ("malformed", f"tokens: {expected}")


def test_the_details_are_those_of_the_last_report() -> None:
    first = UsageReported(Usage(1), "{}", UsageDetails(web_searches=1, reported_cost_usd="0.1"))
    last = UsageReported(
        Usage(2), "{}", UsageDetails(cache_write_1h_input_tokens=3, output_audio_tokens=-1)
    )
    outcome = fold(USAGE, [first, last])
    row = outcome.row
    assert (row.cache_write_1h_input_tokens, row.output_audio_tokens, row.web_searches) == (
        3,
        None,
        None,
    )
    assert (row.reported_cost_usd, row.reported_cost_source) == (None, None)
    assert [each.detail for each in outcome.anomalies] == ["tokens: output_audio_tokens"]


def test_a_cost_in_the_usage_comes_before_that_in_the_response_head() -> None:
    def cost(*facts: Fact) -> tuple[str, str]:
        row = fold(USAGE, facts).row
        return row.reported_cost_usd, row.reported_cost_source

    head = CostReported("0.3", "x-litellm-response-cost")
    inside = UsageReported(
        Usage(1), "{}", UsageDetails(reported_cost_usd="0.1", reported_cost_source="usage.cost")
    )
    assert cost(head) == cost(head, REPORT) == ("0.3", "x-litellm-response-cost")
    assert cost(head, inside) == ("0.1", "usage.cost")


# -- exchanges


def test_an_exchange_has_the_models_asked_for_and_answered_with() -> None:
    row = fold(
        EXCHANGES, [RequestFacts("gpt-5", True), ResponseStarted("resp_1", "gpt-5-2026"), COMPLETED]
    ).row
    assert (row.request_model, row.response_model, row.response_id) == (
        "gpt-5",
        "gpt-5-2026",
        "resp_1",
    )
    assert (row.stream, row.status, row.error, row.lossless) == (True, "completed", None, True)


def test_the_first_error_is_the_one_told_and_a_broken_connection_is_one_too() -> None:
    row = fold(
        EXCHANGES,
        [ErrorReported("server_error", "500", "It broke."), ErrorReported(None, None, "Failed.")],
    ).row
    assert (row.error_type, row.error_code, row.error) == ("server_error", "500", "It broke.")
    end = ExchangeEnded("upstream_reset", "upstream_reset", "reset by peer", 200)
    row = fold(EXCHANGES, [HeadReceived(200), end]).row
    assert (row.status, row.error, row.http_status) == ("upstream_reset", "reset by peer", 200)


def test_a_title_is_one_line_and_short() -> None:
    row = fold(EXCHANGES, [RequestFacts(text="Why\n\n is  it " + "so " * 200, is_turn=True)]).row
    assert row.user_text.startswith("Why is it so so")
    assert (len(row.user_text), row.user_text[-1], row.is_turn) == (200, "…", True)
    assert fold(EXCHANGES, [RequestFacts(text=" \n")]).row.user_text is None


@pytest.mark.parametrize(
    "text",
    [
        "<current_datetime>2026-11-26T20:29:03.707+00:00</current_datetime>\n\nCount the bottles.",
        "Count the bottles.\n\n<environment_details>\nMessage time: 2026-11-26T20:49:32Z\n</environment_details>",
    ],
    ids=["copilot", "kilo"],
)
def test_what_a_client_puts_around_a_prompt_is_not_in_its_title(text: str) -> None:
    assert (
        fold(EXCHANGES, [RequestFacts(text=text, is_turn=True)]).row.user_text
        == "Count the bottles."
    )


def test_an_open_exchange_has_no_status() -> None:
    assert fold(EXCHANGES, [RequestFacts("m")]).row.status is None


# -- timing


def test_the_first_of_each_kind_of_token_is_timed() -> None:
    def began(field: Field) -> list[Fact]:
        return [TextAdded(field, field, 0, "x")]

    told: list[Told] = [
        (event(1, kind="response", t_ms=10), [HeadReceived(200)]),
        (event(2, t_ms=20), []),
        (event(3, t_ms=30), began("summary")),
        (event(4, t_ms=50), began("arguments")),
        (event(5, t_ms=60), began("text")),
        (event(6, t_ms=70), began("text")),
        (event(7, kind="reads", t_ms=70), [FirstByte(15 * MS)]),
        (event(8, kind="end", t_ms=80), [COMPLETED]),
    ]
    row = fold(TIMING, told).row
    first = (
        row.first_byte_ns,
        row.first_reasoning_ns,
        row.first_arguments_ns,
        row.first_text_ns,
        row.ttft_ns,
    )
    assert first == (15 * MS, 30 * MS, 50 * MS, 60 * MS, 30 * MS)
    assert (row.head_ns, row.duration_ns) == (10 * MS, 80 * MS)


def test_silences_are_measured_between_events() -> None:
    told = [
        event(pos, t_ms=t_ms, raw=b"x" * 100)
        for pos, t_ms in enumerate([5, 5, 15, 15 + STALL_NS / MS + 1])
    ]
    row = fold(TIMING, told).row
    assert (row.events, row.bytes, row.stalls, row.longest_silence_ns) == (4, 400, 1, STALL_NS + MS)
    assert (row.gap_p50_ns, row.gap_p95_ns) == (10 * MS, STALL_NS + MS)
    span_s = (row.last_event_ns - row.first_event_ns) / 1e9
    assert row.events_per_s == pytest.approx(3 / span_s, abs=0.001)
    assert row.bytes_per_s == pytest.approx(400 / span_s, abs=0.001)


def test_of_a_hundred_silences_each_percentile_is_the_one_of_its_rank() -> None:
    # silences of 1 ms, 2 ms … 100 ms
    times_ms = [number * (number + 1) / 2 for number in range(101)]
    row = fold(TIMING, [event(pos, t_ms=t_ms) for pos, t_ms in enumerate(times_ms)]).row
    assert (row.gap_p50_ns, row.gap_p95_ns, row.gap_p99_ns) == (50 * MS, 95 * MS, 99 * MS)


def test_less_than_two_events_have_no_rate_and_no_gaps() -> None:
    row = fold(TIMING, [event(0, t_ms=5)]).row
    assert (row.events, row.events_per_s, row.longest_silence_ns, row.gap_p50_ns) == (
        1,
        None,
        None,
        None,
    )
    row = fold(TIMING, []).row
    assert (row.first_event_ns, row.last_event_ns, row.events, row.bytes) == (None, None, 0, 0)


def test_comments_are_no_events_and_parts_are_one() -> None:
    told: list[Told] = [event(0, kind="comment", t_ms=1)]
    told += [
        event(1, kind="part", t_ms=2),
        event(2, kind="part", type="x", t_ms=4),
        event(3, kind="comment", t_ms=9),
    ]
    told += [event(4, t_ms=10)]
    row = fold(TIMING, told).row
    assert (row.events, row.first_event_ns, row.longest_silence_ns, row.last_event_ns) == (
        2,
        4 * MS,
        6 * MS,
        10 * MS,
    )


def test_a_document_in_several_reads_is_one_event_without_a_rate() -> None:
    row = fold(
        TIMING, [event(pos, kind="body", t_ms=5 * pos, raw=b"x" * 10) for pos in (1, 2, 3)]
    ).row
    assert (row.events, row.first_event_ns, row.last_event_ns, row.gap_p50_ns) == (
        1,
        5 * MS,
        15 * MS,
        None,
    )
    assert (row.events_per_s, row.bytes_per_s) == (None, 3_000.0)


# -- results


def results_of(*told: ToolResult) -> list[tuple[str, str]]:
    return [(row.call_key, row.digest) for row in fold(RESULTS, [RequestFacts(results=told)]).rows]


def test_a_history_that_grows_repeats_its_results() -> None:
    """Also where a client gives two calls one id, and they return the same."""
    first, second = ToolResult("call_0", None, "ok"), ToolResult("call_1", None, "ok")
    [one] = results_of(first)
    three = results_of(first, second, first)
    assert one == three[0]
    assert len(set(three)) == 3


def test_a_result_has_its_call_its_text_and_whether_it_failed() -> None:
    told = RequestFacts(
        results=(ToolResult("call_1", None, "18 °C"), ToolResult("call_2", None, "x", True))
    )
    rows = fold(RESULTS, [told]).rows
    expected = [("call_1", "18 °C", None), ("call_2", "x", True)]
    assert [(row.call_key, row.output, row.failed) for row in rows] == expected
    assert {(row.exchange_id, row.started_ns) for row in rows} == {
        (EXCHANGE.exchange_id, EXCHANGE.started_ns)
    }


def test_results_without_ids_are_numbered_by_name_and_belong_to_their_turn() -> None:
    look, go = ToolResult(None, "look", "a"), ToolResult(None, "go", "b")
    told = [RequestFacts(results=(look, go, look))]
    here = fold(RESULTS, told).rows
    there = fold(RESULTS, told, msgspec.structs.replace(EXCHANGE, exchange_id="e-2")).rows
    assert [row.call_key for row in here] == ["look[0]", "go[0]", "look[1]"]
    assert not {row.digest for row in here} & {row.digest for row in there}


def test_a_result_that_is_no_text_for_a_database_is_mended() -> None:
    assert (
        fold(RESULTS, [RequestFacts(results=(ToolResult("c", None, "a\0\ud800"),))]).row.output
        == "a\ufffd\ufffd"
    )


# -- anomalies


@table(
    ("numbers", "anomalies"),
    [
        ((0, 1, None, 2, 3), []),
        ((0, 1, 4, 5, 7), [("sequence_gap", "2 to 3", 1, 2), ("sequence_gap", "6", 1, 4)]),
        ((0, 1, 1, 0, 2), [("sequence_repeat", "", 2, 2)]),
    ],
)
def test_missing_numbers_are_named_and_repeated_ones_counted(
    numbers: tuple[Any, ...], anomalies: object
) -> None:
    rows = fold(ANOMALIES, numbered(*numbers)).rows
    assert [(row.kind, row.detail, row.count, row.pos) for row in rows] == anomalies


def test_a_resumed_stream_goes_on_with_its_numbers() -> None:
    resumed = msgspec.structs.replace(EXCHANGE, resumes_response_id="resp_1", resumes_after=4)
    assert fold(ANOMALIES, numbered(5, 6), resumed).kinds == []
    assert fold(ANOMALIES, numbered(6), resumed).kinds == ["sequence_gap"]


def test_a_stream_ends_once_and_last() -> None:
    assert typed("response.created", "response.completed") == []
    assert typed("response.created") == ["missing_terminal"]
    assert typed("response.completed", "response.completed") == ["duplicate_terminal"]
    assert typed("response.completed", "response.output_text.delta") == ["after_terminal"]
    # which is the end that the error is the reason for
    assert typed("error", "response.failed") == []


def test_what_the_client_broke_off_needs_no_end() -> None:
    assert typed("response.created", outcome="client_disconnect") == []
    assert typed("response.created", outcome="upstream_reset") == ["missing_terminal"]


def test_where_no_end_is_sent_a_reason_will_do() -> None:
    gemini = msgspec.structs.replace(EXCHANGE, api="gemini")
    frame = event(1, type="GenerateContentResponse")
    end = event(2, kind="end"), [msgspec.structs.replace(COMPLETED, frames=1)]
    assert fold(ANOMALIES, [frame, ResponseFinished("STOP"), end], gemini).kinds == []
    assert fold(ANOMALIES, [frame, end], gemini).kinds == ["missing_terminal"]


def test_another_response_id_is_told() -> None:
    same = [
        ResponseStarted("resp_1"),
        ResponseStarted("resp_1", "gpt"),
        ResponseStarted(None, "gpt"),
    ]
    assert fold(ANOMALIES, same).kinds == []
    assert fold(ANOMALIES, [*same, ResponseStarted("resp_2")]).kinds == ["id_rotation"]


def test_what_nobody_understands_is_counted_by_its_name() -> None:
    unknown = [UnknownType("a"), UnknownType("b"), UnknownType("a")]
    rows = fold(ANOMALIES, [*unknown, MalformedPayload("no JSON"), UnterminatedEvent()]).rows
    assert [(row.kind, row.detail, row.count) for row in rows] == [
        ("unknown_type", "a", 2),
        ("unknown_type", "b", 1),
        ("malformed", "no JSON", 1),
        ("unterminated", "", 1),
    ]


def test_after_a_gap_of_the_recorder_numbers_may_go_on_anywhere() -> None:
    told: list[Told] = [*numbered(0, 1), LostBytes("response", 500), event(9, sequence_number=7)]
    [row] = fold(ANOMALIES, told).rows
    assert (row.kind, row.detail) == ("not_recorded", "500 bytes of the response")


def test_anomalies_of_one_exchange_have_a_bound() -> None:
    told = [UnknownType(str(number)) for number in range(exchange_facts.ANOMALIES_LIMIT + 50)]
    assert len(fold(ANOMALIES, told).rows) == exchange_facts.ANOMALIES_LIMIT


# -- all of them


def test_every_projection_is_keyed_by_its_session_first() -> None:
    for projection in PROJECTIONS:
        fields = [field.name for field in msgspec.structs.fields(projection.row)]
        assert projection.key[0] == fields[0] == "session_id"
        assert set(projection.key) <= set(fields)


def test_text_is_cut_where_a_row_would_be_too_large() -> None:
    assert len(storable("x" * 2**21)) == 2**20
