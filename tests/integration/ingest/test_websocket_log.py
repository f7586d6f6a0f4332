"""A WebSocket connection in the log: the same rows however often it is fed, and every command that
reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from recorder.ingest import ingester as ingest
from recorder.ingest.ingester import Ingester, recover_one
from recorder.ingest.recovery import end_open
from recorder.ingest.session_lookup import SENT_ROWS
from recorder.ingest.websocket_capture import WebSocketCapture
from recorder.journal.format import Mark
from recorder.journal.writer import ExchangeWriter, Journal
from recorder.model.events import WEBSOCKET
from recorder.store.location import database_url
from recorder.store.maintain.purge.delete import purge
from recorder.store.search import INDEX_NAMES
from recorder.store.write.writer import Store
from recorder.wire.framing.websocket import Message, MessageParser, encode_frame
from recorder.wire.redaction.bodies import Redactor
from tests.integration.ingest.test_ingester import never
from tests.support.empty_log import empty
from tests.support.server import run
from tests.support.superuser import asked, dumped, matching
from tests.support.websocket import (
    MASK,
    Connection,
    Step,
    create,
    needs_transcripts,
    response,
    transcript,
    write,
)

CONVERSATION = (
    Connection()
    .client(create("warm up", generate=False))
    .answer("resp_0")
    .client(create("first question", previous_response_id="resp_0"))
    .answer("resp_1", "Hello ", "there")
    .client({"type": "response.processed", "response_id": "resp_1"})
    .server({"type": "codex.rate_limits"})
    .client(create("second question", previous_response_id="resp_1"))
    .server(*response("resp_2", "Never")[:3])
    .client({"type": "response.cancel", "response_id": "resp_2"})
)


def closed() -> list[Step]:
    """The conversation with its end."""
    end = [
        step._replace(t_ns=CONVERSATION.t_ns + step.t_ns)
        for step in Connection().close(1000, "bye").steps[3:]
    ]
    return [*CONVERSATION.steps, *end]


def ingested(url: URL, root: Path, steps: Iterable[Step]) -> URL:
    """Ingest all at once, as a recovery does."""
    journal = Journal(root, "recorder-1")
    write(journal, steps)
    journal.close()
    with Store(url) as store:
        assert recover_one(store, root / "recorder-1", never)
    return url


def fed(
    url: URL,
    root: Path,
    steps: Sequence[Step],
    stops: Iterable[int],
    redactors: Sequence[Redactor] = (),
) -> URL:
    """Ingest by a new ingester after each of these numbers of records, as after a crash there."""
    journal, writers = Journal(root, "recorder-1", segment_bytes=3000), dict[int, ExchangeWriter]()
    with Store(url) as store:
        done = 0
        for number, stop in enumerate(stops):
            write(journal, steps[done:stop], writers)
            done = stop
            redactor = redactors[number % len(redactors)] if redactors else Redactor()
            Ingester(store, root / "recorder-1", never, redactor).drain()
        journal.close()
        assert recover_one(store, root / "recorder-1", never)
    return url


def test_a_steered_successor_is_a_turn_that_continues_the_steered_one(
    sqlite_database: URL, tmp_path: Path
) -> None:
    steer = {"type": "response.steer", "input": "shorter, please", "previous_response_id": "resp_1"}
    first, *others = response("resp_2", "Short")
    first = {**first, "response": {**first["response"], "previous_response_id": "resp_1"}}
    begun, *_, ended = response("resp_1", "Long")
    made = (
        Connection()
        .client(create("go"))
        .server(begun)
        .client(steer)
        .server(ended, first, *others)
        .close()
    )
    url = ingested(sqlite_database, tmp_path / "journal", made.steps)
    linked = """SELECT r.previous_exchange_id = (SELECT exchange_id FROM p_exchanges_v1 WHERE response_id = 'resp_1'),
        p.user_text, p.status FROM p_exchanges_v1 AS p JOIN p_requests_v1 AS r USING (session_id, exchange_id)
        WHERE p.response_id = 'resp_2'"""
    assert asked(url, linked) == [(1, "shorter, please", "completed")]
    assert asked(url, "SELECT count(DISTINCT session_id) FROM exchanges") == [(1,)]


def content(url: URL) -> dict[str, list[Any]]:
    """The log and its projections, request bodies as they are."""
    tables = {name: rows for name, rows in dumped(url).items() if name != "ingest_offsets"}
    return {name: rows for name, rows in tables.items() if rows}


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> URL:
    """The conversation, ingested at once. It is not to be changed."""
    folder = tmp_path_factory.mktemp("measure")
    return ingested(
        database_url(empty(folder / "measure.db")), folder / "measure.journal", closed()
    )


@pytest.mark.long
def test_a_restart_after_each_record_gives_the_same_rows(
    measure: URL, database: URL, tmp_path: Path
) -> None:
    steps = closed()
    fed(database, tmp_path / "journal", steps, range(1, len(steps) + 1))
    assert engine_free(content(database)) == engine_free(content(measure))
    assert run(database, "verify").code == 0


def engine_free(tables: dict[str, list[Any]]) -> dict[str, Any]:
    """Return rows as both engines have them; words to search for each keeps in its own way."""
    return {
        name: [_bare(row) for row in rows]
        for name, rows in tables.items()
        if name not in INDEX_NAMES
    }


def _bare(row: Iterable[Any]) -> list[Any]:
    return [bytes(value) if isinstance(value, memoryview) else value for value in row]


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 5, 11])
def test_any_batches_give_the_same_rows(
    measure: URL, sqlite_database: URL, tmp_path: Path, size: int
) -> None:
    steps = closed()
    url = fed(
        sqlite_database, tmp_path / "journal", steps, [*range(size, len(steps), size), len(steps)]
    )
    assert content(url) == content(measure)


def test_an_open_connection_is_carried_over_with_its_turns(
    measure: URL, sqlite_database: URL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "CARRY_SEGMENTS", 0)
    steps = closed()
    url = fed(sqlite_database, tmp_path / "journal", steps, range(3, len(steps) + 3, 3))
    assert content(url) == content(measure)


def test_what_was_recorded_stays_when_other_values_become_secrets(
    sqlite_database: URL, tmp_path: Path
) -> None:
    steps = closed()
    both = [Redactor(), Redactor(["response.processed", "second question"])]
    url = fed(sqlite_database, tmp_path / "journal", steps, range(1, len(steps) + 1), both)
    assert run(url, "verify").code == 0
    assert asked(url, "SELECT status, count(*) FROM p_exchanges_v1 GROUP BY 1 ORDER BY 1") == [
        ("client_disconnect", 1),
        ("completed", 3),
    ]


def test_a_connection_that_is_over_stays_as_it_was_recorded_while_an_older_one_is_open(
    sqlite_database: URL, tmp_path: Path
) -> None:
    older, made = Connection(number=2), Connection("/v1/realtime")
    for number in range(SENT_ROWS + 6):
        made.client({"type": "session.update", "text": f"my dear recorder {number}"})
    made.client(raw=encode_frame("ping", b"my dear recorder", mask=MASK)).close(
        1000, "bye, my dear recorder"
    )
    steps = [*older.steps, *made.steps, *older.client({"type": "later"}).end("eof").steps[3:]]
    stops, both = (
        range(len(steps) - 4, len(steps) + 1),
        [Redactor(), Redactor(["my dear recorder"])],
    )
    url = fed(sqlite_database, tmp_path / "journal", steps, stops, both)
    assert run(url, "verify").code == 0
    ends = asked(url, "SELECT raw FROM events WHERE kind = 'end' ORDER BY length(raw)")
    assert [json.loads(raw)["outcome"] for (raw,) in ends] == ["eof", "eof"]
    assert json.loads(ends[-1][0])["close"]["reason"] == "bye, my dear recorder"
    assert asked(url, "SELECT count(*) FROM events WHERE kind = 'sent'") == [(SENT_ROWS + 7,)]


def test_a_purge_takes_a_connection_with_its_turns_for_good(database: URL, tmp_path: Path) -> None:
    other, steps = Connection(number=2).client(create("goes on")).steps, closed()
    root = tmp_path / "journal"
    journal = Journal(root, "recorder-1")
    write(journal, [*other, *steps])
    journal.close()
    with Store(database) as store:
        Ingester(store, root / "recorder-1", never).drain()
        [(session_id,)] = asked(
            database, "SELECT session_id FROM exchanges WHERE exchange_id = ?", exchange_id(steps)
        )
        assert purge(store, session_id, "a test", 1, {"recorder-1"}, lambda name: False) is not None
        # which begins where the other connection does
        Ingester(store, root / "recorder-1", never).drain()
    assert asked(database, "SELECT count(*) FROM exchanges") == [(2,)]
    assert asked(database, "SELECT count(*) FROM events WHERE session_id = ?", session_id) == [(0,)]


def exchange_id(steps: Sequence[Step]) -> str:
    return str(json.loads(steps[0].payload)["exchange_id"])


# -- readers


def test_sessions_count_turns_and_no_prewarm(measure: URL) -> None:
    [row] = json.loads(run(measure, "sessions", "--json").out)
    assert (row["exchanges"], row["turns"], row["status"]) == (4, 2, "client_disconnect")
    assert (row["title"], row["open"], row["errors"]) == ("first question", 0, 1)
    assert asked(measure, "SELECT purpose FROM p_exchanges_v1 ORDER BY exchange_id") == [
        (None,),
        ("prewarm",),
        ("turn",),
        ("turn",),
    ]


def test_views_count_turns_and_neither_connection_nor_prewarm(measure: URL) -> None:
    assert asked(measure, "SELECT sum(exchanges) FROM latency_by_day") == [(2,)]
    assert asked(measure, "SELECT sum(exchanges) FROM latency_by_model") == [(2,)]
    assert asked(measure, "SELECT generates FROM latency ORDER BY exchange_id") == [
        (0,),
        (0,),
        (1,),
        (1,),
    ]
    assert asked(measure, "SELECT exchanges, answers FROM session_summary") == [(4, 2)]


def test_show_has_the_turns_and_who_closed_the_connection(measure: URL) -> None:
    shown = run(measure, "show", "latest").out.decode()
    assert "WebSocket · 6 frames of the client" in shown
    assert "› response.processed" in shown
    assert "‹ codex.rate_limits" in shown
    assert "closed by the client: 1000 bye" in shown
    assert "Hello there" in shown
    document = json.loads(run(measure, "show", "latest", "--json").out)
    assert document["exchanges"][0]["connection"]["close"] == {
        "by": "client",
        "code": 1000,
        "reason": "bye",
    }


def test_show_of_a_moment_has_the_turn_as_it_was(measure: URL) -> None:
    shown = run(measure, "show", "latest", "3", "--at-event", "5").out.decode()
    assert "Hello" in shown
    assert "there" not in shown


def test_events_lists_every_kind(measure: URL) -> None:
    listed = run(measure, "events", "latest").out.decode()
    assert re.search(r"sent response\.processed", listed)
    assert re.search(r"control close.*client 1000 bye", listed)
    kinds = {
        json.loads(line)["kind"]
        for line in run(measure, "events", "latest", "--jsonl").out.splitlines()
    }
    assert kinds == {"request", "response", "frame", "sent", "control", "frames", "reads", "end"}
    raw = run(measure, "events", "latest", "--exchange", "2", "--raw").out
    assert raw == b"".join(
        json.dumps(each, separators=(",", ":")).encode() for each in response("resp_0")
    )


def test_usage_and_times_are_those_of_turns(measure: URL) -> None:
    [row] = json.loads(run(measure, "usage", "--json").out)
    assert (row["exchanges"], row["reported"], row["output_tokens"]) == (3, 2, 2)
    times = "SELECT ttft_ns, events FROM p_timing_v1 ORDER BY exchange_id"
    assert asked(measure, times)[2] == (3_000_000, 6)


def test_lint_judges_turns_by_rules_that_hold_for_messages(measure: URL) -> None:
    found = json.loads(run(measure, "lint", "latest", "--json").out)
    rules = {finding["rule"] for row in found for finding in [row]}
    assert not [rule for rule in rules if str(rule).startswith(("HT", "ST"))]
    assert "RS011" not in rules


def test_diff_compares_turns(measure: URL) -> None:
    same = run(measure, "diff", "latest:3", "latest:3")
    assert same.code == 0
    other = run(measure, "diff", "latest:2", "latest:3")
    assert b"Hello there" in other.out


def test_an_export_comes_back_as_it_was(measure: URL, sqlite_database: URL, tmp_path: Path) -> None:
    exported = tmp_path / "run.jsonl"
    exported.write_bytes(run(measure, "export", "latest").out)
    assert run(sqlite_database, "import", exported).code == 0
    assert run(sqlite_database, "verify").code == 0
    columns = "SELECT pos, kind, t_ns, type, raw FROM events AS e JOIN exchanges USING (exchange_id) WHERE "
    where = f"method = '{WEBSOCKET}' AND kind <> 'request' ORDER BY started_ns, pos"
    assert read(sqlite_database, columns + where) == read(measure, columns + where)
    assert len(run(measure, "export", "latest", "--format", "payloads").out.splitlines()) == 14


def read(url: URL, sql: str) -> list[Any]:
    return [_bare(row) for row in asked(url, sql)]


@pytest.mark.long
def test_a_copy_a_backup_and_a_rebuild_have_the_same(measure: URL, tmp_path: Path) -> None:
    backup, copy = (database_url(tmp_path / name) for name in ("backup.db", "copy.db"))
    assert run(measure, "db", "backup", backup.database).code == 0
    assert run(backup, "db", "rebuild").code == 0
    assert content(backup) == content(measure)
    assert run(measure, "db", "copy", measure.database, copy.database).code == 0
    assert content(copy)["events"] == content(measure)["events"]
    assert [run(each, "verify").code for each in (backup, copy)] == [0, 0]


def test_search_finds_what_a_turn_said(measure: URL) -> None:
    assert matching(measure, "there") == ["message"]
    assert len(json.loads(run(measure, "sessions", "-q", "there", "--json").out)) == 1


def test_views_have_turns_as_exchanges(measure: URL) -> None:
    sql = "SELECT method, http_status, status, messages FROM exchange_summary ORDER BY exchange_id"
    found = json.loads(run(measure, "query", sql, "--json").out)
    assert [tuple(row.values()) for row in found] == [
        ("GET", 101, "completed", 0),
        (WEBSOCKET, 101, "completed", 1),
        (WEBSOCKET, 101, "completed", 1),
        (WEBSOCKET, 101, "client_disconnect", 1),
    ]


@pytest.mark.long
@needs_transcripts
@pytest.mark.parametrize(
    "name", ["codex-0.169", "codex-0.169-spawn", "codex-0.169-midclose", "codex-0.169-errframe"]
)
def test_real_clients_leave_one_session_that_can_be_verified(
    name: str, sqlite_database: URL, tmp_path: Path
) -> None:
    ingested(sqlite_database, tmp_path / "journal", transcript(name))
    assert run(sqlite_database, "verify").code == 0
    [row] = json.loads(run(sqlite_database, "sessions", "--json").out)
    # What a sub-agent does is of the turn that began it.
    asked_for = {"codex-0.169": (1, 2527), "codex-0.169-spawn": (1, None)}
    if name in asked_for:
        turns, tokens = asked_for[name]
        assert (row["turns"], row["open"]) == (turns, 0)
        assert tokens is None or row["total_tokens"] == tokens
    found = run(sqlite_database, "lint", "latest", "--profile", "codex").out.decode()
    assert set(re.findall(r"[A-Z]{2}\d{3}", found)) <= {"RS002"}


# -- trouble


@pytest.mark.parametrize("is_new", [False, True])
def test_what_comes_after_the_log_has_ended_a_connection_is_counted(
    sqlite_database: URL, tmp_path: Path, is_new: bool
) -> None:
    root, steps = tmp_path / "journal", closed()
    half = (
        next(number for number, step in enumerate(steps) if b"second question" in unmasked(step))
        + 2
    )
    journal, writers = Journal(root, "recorder-1"), dict[int, ExchangeWriter]()
    with Store(sqlite_database) as store:
        ingester = Ingester(store, root / "recorder-1", never)
        write(journal, steps[:half], writers)
        ingester.drain()
        with store.transaction():
            end_open(store, "recorder-1")
        write(journal, steps[half:], writers)
        (Ingester(store, root / "recorder-1", never) if is_new else ingester).drain()
        journal.close()
    assert asked(sqlite_database, "SELECT count(*) FROM events WHERE kind = 'note'") == [(2,)]
    assert asked(
        sqlite_database, "SELECT status, count(*) FROM p_exchanges_v1 GROUP BY 1 ORDER BY 1"
    ) == [
        ("completed", 2),
        ("recorder_crash", 2),
    ]
    assert run(sqlite_database, "verify").code == 0


def unmasked(step: Step) -> bytes:
    """Return the payload of the one message of the client that a record has, if it has one."""
    if step.mark != Mark.CLIENT_CHUNK or not step.payload:
        return b""
    parts = MessageParser(from_client=True).feed(step.payload)
    return b"".join(part.payload for part in parts if isinstance(part, Message))


@pytest.mark.long
@pytest.mark.parametrize("poison", ["second question", "rate_limits", "Never"])
def test_a_fault_of_ours_is_counted_whenever_it_is_fed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poison: str
) -> None:
    take = WebSocketCapture._take

    def faulty(self: WebSocketCapture, side: Any, t_ns: int, parts: Any, events: Any) -> None:
        parts = list(parts)
        if any(poison.encode() in getattr(part, "payload", b"") for part in parts):
            raise TypeError("a fault of ours")
        take(self, side, t_ns, parts, events)

    monkeypatch.setattr(WebSocketCapture, "_take", faulty)
    steps = closed()
    once = ingested(database_url(empty(tmp_path / "once.db")), tmp_path / "once.journal", steps)
    again = fed(
        database_url(tmp_path / "again.db"),
        tmp_path / "again.journal",
        steps,
        range(1, len(steps) + 1),
    )
    assert content(again) == content(once)
    assert run(again, "verify").code == 0
    [end] = [
        json.loads(raw)
        for (raw,) in asked(
            once,
            "SELECT raw FROM events JOIN exchanges USING (exchange_id) WHERE kind = 'end' AND method = 'GET'",
        )
    ]
    received = sum(len(step.payload) for step in steps if step.mark == Mark.CHUNK)
    assert end["gap_chunks"] > 0
    assert end["wire_bytes"] >= received
    assert "a fault of ours" in end["error"]
    assert asked(once, "SELECT count(*) FROM p_exchanges_v1 WHERE status IS NULL") == [(0,)]
