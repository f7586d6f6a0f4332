"""The product, broken on purpose in one place after another: for each place there is a test that
must notice.

    python -m tools.mutants            # all of them, ten minutes
    python -m tools.mutants B7 strict  # those whose name has one of these words in it
    python -m tools.mutants recorder/wire/framing/sse.py  # those of a file; `make mutants` of what has changed

A mutant is a line of the table: a text of a file, what stands there instead, and the test that must
go red, for the reason that is given. It must fail as a claim that does not hold: a program that
cannot be imported, a fixture that raises or a time-out prove nothing.
`tests/repository/test_mutants.py` runs them: a few in `make test-all`, all in `make test-slow`.

The tree is copied for it, and the tests run with an interpreter of their own, to which only the
copy is `recorder`, also in the processes that they start.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    "recorder",
    "migrations",
    "tests",
    "tools",
    "docs",
    "cli.py",
    "alembic.ini",
    "pyproject.toml",
    "README.md",
)
SEED = "4"  # of tests that throw dice: a mutant is seen each time, or never
LIMIT_S = 240.0  # of a test, broken or not

# what the message of a failed claim begins with
_CLAIMS = re.compile(r"AssertionError|assert |Failed: (?!Timeout)")


class Mutant(NamedTuple):
    """One place that is broken.

    `name` begins with the promise of docs/guarantees.md that is, if it is one of those.
    """

    name: str
    file: str
    old: str  # stands once in the file
    new: str
    test: str
    # stands in what the failed test says: its last line of ours, or the comparison
    reason: str = "assert "
    # seconds, and the promise is one against loss: a part of `make test-all`
    is_quick: bool = False


class Broken(NamedTuple):
    """A test that failed, of those that ran."""

    claim: bool  # whether it was a claim that did not hold
    message: str
    report: str


MUTANTS: list[Mutant] = [
    # -- A. Fidelity
    Mutant(
        "A1: of headers with one name the last is passed on",
        "recorder/proxy/http/server_exchange.py",
        ('*[b"%b: %b\\r\\n" % header for header in headers],\n        ]'),
        '*[b"%b: %b\\r\\n" % header for header in dict(headers).items()]]',
        "tests/integration/proxy/test_app.py::test_status_reason_and_headers_keep_value_order_and_repeats",
    ),
    Mutant(
        "A2: the digest of a coded body is that of its wire",
        "recorder/ingest/capture.py",
        "(self._wire if self._decoder.coding is None else self._body).hexdigest()",
        "self._wire.hexdigest()",
        "tests/unit/ingest/test_capture.py::test_a_coded_body_is_recorded_decoded",
        "sha256",
    ),
    Mutant(
        "A3: a blank line across two reads is seen at the end only",
        "recorder/wire/framing/sse.py",
        "scan = max(0, len(self._held) - _LONGEST_BLANK_LINE + 1)",
        "scan = len(self._held)",
        "tests/unit/wire/framing/test_sse.py::test_a_block_leaves_with_its_last_byte",
        "whole.feed",
    ),
    Mutant(
        "A4: all spaces around a value are cut off, not the first",
        "recorder/wire/framing/sse.py",
        'value = value.removeprefix(b" ")',
        "value = value.strip()",
        "tests/unit/wire/framing/test_sse.py::test_parse_reads_the_fields",
    ),
    Mutant(
        "A5: NULs are cut out of what is recorded",
        "recorder/wire/framing/sse.py",
        "raw = bytes(data[start:end])",
        'raw = bytes(data[start:end]).replace(b"\\0", b"")',
        "tests/integration/security/test_odd_streams.py::test_what_was_recorded_comes_out_as_it_came_in",
        "assert b'data: ",
    ),
    Mutant(
        "A7: what cannot be decoded is not kept",
        "recorder/ingest/capture.py",
        "self._keep(error.rest, events)",
        "pass",
        "tests/unit/ingest/test_capture.py::test_what_cannot_be_decoded_is_kept_as_it_was_sent_and_flagged",
    ),
    Mutant(
        "A7: a WebSocket message is inflated without those that it refers to",
        "recorder/wire/framing/websocket.py",
        "if not self._keeps_context:",
        "if True:",
        "tests/unit/wire/framing/test_websocket.py::test_a_message_refers_to_those_before_it",
        "assert not",
    ),
    Mutant(
        "A7: a WebSocket message is inflated with what it does not refer to",
        "recorder/wire/framing/websocket.py",
        "if self._is_lost:",
        "if False:",
        "tests/unit/wire/framing/test_websocket.py::test_with_context_takeover_nothing_is_inflated_behind_damage",
    ),
    Mutant(
        "A7: a WebSocket message inflates without a bound",
        "recorder/wire/framing/websocket.py",
        "if len(payload) > MESSAGE_LIMIT:",
        "if False:",
        "tests/unit/wire/framing/test_websocket.py::test_a_bomb_is_damage",
        "a message of more than the bound",
    ),
    Mutant(
        "A7: a WebSocket frame is waited for whatever its length",
        "recorder/wire/framing/websocket.py",
        "if end - at > MESSAGE_LIMIT or (",
        "if end - at < 0 or (",
        "tests/unit/wire/framing/test_websocket.py::test_broken_rules_are_faults_or_damage",
    ),
    Mutant(
        "A8: events are timed by the wall clock",
        "recorder/proxy/recording.py",
        "clock_ns: Callable[[], int] = time.monotonic_ns",
        "clock_ns: Callable[[], int] = time.time_ns",
        "tests/integration/security/test_odd_streams.py::test_times_are_those_of_the_clock_that_nobody_can_set",
        "before_ns, \\*times, after_ns",
    ),
    Mutant(
        "A10: messages over WebSocket lose their last byte",
        "recorder/ingest/websocket_capture.py",
        "events += turn.capture.message(t_ns, payload, keys)",
        "events += turn.capture.message(t_ns, payload[:-1], keys)",
        "tests/unit/ingest/test_websocket_capture.py::test_messages_are_recorded_exactly_whatever_they_are",
    ),
    Mutant(
        "A10: a turn gets another id when it is fed again",
        "recorder/ingest/turn_ids.py",
        "own_id = _turn_id(connection.exchange_id, number, started_ns)",
        "own_id = uuid7(started_ns, __import__('os').urandom(10))",
        "tests/integration/ingest/test_websocket_log.py::test_any_batches_give_the_same_rows[5]",
    ),
    Mutant(
        "A10: a gap of one direction is read over",
        "recorder/ingest/websocket_capture.py",
        "self._parsers[side] = UnreadableDirection(LOST)",
        "pass",
        "tests/unit/ingest/test_websocket_capture.py::test_a_gap_in_one_direction_makes_what_follows_it_unreadable",
    ),
    # -- B. Durability
    Mutant(
        "B1: the journal is written late",
        "recorder/journal/writer.py",
        "            written = self._writev(self._fd, buffers)\n            if written != size:",
        "            self._late = getattr(self, '_late', []) + buffers\n"
        "            written = size\n"
        "            if sum(map(len, self._late)) > 65536:\n"
        "                self._writev(self._fd, self._late)\n"
        "                self._late = []\n"
        "            if written != size:",
        "tests/acceptance/test_crash.py::test_what_a_client_had_survives_a_kill",
        r"the log has|report.findings == \[\]",
    ),
    Mutant(
        "B1: what a client sends through a tunnel goes on without the journal",
        "recorder/proxy/recording.py",
        "            self._recorder.client_chunk(chunk)\n            yield chunk",
        "            yield chunk",
        "tests/integration/proxy/test_tunnel.py::test_both_directions_pass_and_are_in_the_journal",
    ),
    Mutant(
        "B2: clients of tunnels are not asked to connect again",
        "recorder/proxy/tunnel.py",
        "                self._incoming.write(SERVICE_RESTART)",
        '                self._incoming.write(b"\\x88\\x02\\x03\\xe8")',
        "tests/integration/proxy/test_tunnel.py::test_a_tunnel_that_outlives_the_grace_ends_as_a_shutdown",
    ),
    Mutant(
        "B2: open streams end as if their clients had left",
        "recorder/proxy/app.py",
        'exchange.request.extensions["outcome"] = "recorder_shutdown"',
        'exchange.request.extensions["outcome"] = "client_disconnect"',
        "tests/acceptance/test_stopping.py::test_a_signal_ends_streams_after_their_grace",
        "recorder_shutdown",
    ),
    Mutant(
        "B3: commits do not wait for the disk",
        "recorder/store/sqlite/connection.py",
        '"synchronous": 2,',
        '"synchronous": 1,',
        "tests/acceptance/test_power_cut.py::test_what_was_acknowledged_survives_a_power_cut",
    ),
    Mutant(
        "B3: durability strict is wired as journal",
        "recorder/commands/serving/recording.py",
        'if durability == "strict":',
        'if durability == "never":',
        "tests/acceptance/proxy/test_durable.py::test_serve_syncs_what_it_hands_on_if_it_is_told_to",
        r"in_journal\(\) <= synced\(\)",
    ),
    Mutant(
        "B5: the proxy waits for the database",
        "recorder/journal/writer.py",
        "            written = self._writev(self._fd, buffers)\n            if written != size:",
        "            import sqlite3\n"
        "            db = sqlite3.connect(str(self.directory.parent).removesuffix('.journal'), timeout=60)\n"
        "            db.execute('BEGIN IMMEDIATE')\n"
        "            db.close()\n"
        "            written = self._writev(self._fd, buffers)\n"
        "            if written != size:",
        "tests/acceptance/test_store_trouble.py::test_no_chunk_is_late_because_the_database_is_locked[transaction-2]",
        "ms later than without a recorder",
    ),
    Mutant(
        "B6: what a disk refuses is dropped",
        "recorder/journal/writer.py",
        "loss.add(t_ns, payload)",
        "pass",
        "tests/acceptance/test_io_faults.py::test_a_disk_that_refuses_some_calls_makes_no_hole",
    ),
    Mutant(
        "B7: what does not fit is dropped",
        "recorder/journal/writer.py",
        "loss.add(t_ns, payload)",
        "pass",
        "tests/integration/proxy/test_overflow.py::test_what_does_not_fit_into_the_journal_is_counted_and_said",
        r"report.findings == \[\]",
        is_quick=True,
    ),
    Mutant(
        "B7: a journal takes all of the disk",
        "recorder/journal/writer.py",
        "FREE_SHARE = 0.10",
        "FREE_SHARE = 1.0",
        "tests/unit/journal/test_writer.py::test_a_journal_takes_a_gigabyte_or_a_tenth_of_the_free_disk",
        "assert is_full",
    ),
    Mutant(
        "B7: a journal has no bound",
        "recorder/journal/writer.py",
        "LIMIT_BYTES = 2**30",
        "LIMIT_BYTES = 2**40",
        "tests/unit/journal/test_writer.py::test_a_journal_takes_a_gigabyte_or_a_tenth_of_the_free_disk",
        "assert is_full",
    ),
    Mutant(
        "B8: the place in the journal is committed by itself",
        "recorder/ingest/ingester.py",
        "            if place is not None:\n                self._store.set_offset(self._recorder_id, *place)\n\n"
        "        try:\n            self._retry(write)",
        "        if place is not None:\n"
        "            self._retry(lambda: self._store.set_offset(self._recorder_id, *place))\n"
        "        try:\n            self._retry(write)",
        "tests/integration/ingest/test_ambiguous_commits.py::test_after_1000_commits_in_doubt_t"
        "here_is_neither_a_hole_nor_a_copy",
    ),
    Mutant(
        "B10: the checkpoint that a reader was in the way of waits for an hour",
        "recorder/store/sqlite/writer.py",
        "CHECKPOINT_AGAIN_S = 30.0",
        "CHECKPOINT_AGAIN_S = 3600.0",
        "tests/integration/store/test_sqlite_writer.py::test_a_checkpoint_that_a_reader_was_in_"
        "the_way_of_is_made_within_a_minute",
        r"wal_bytes\(store\) == 0",
    ),
    Mutant(
        "B11: a backup is not compared with what was copied",
        "recorder/store/sqlite/upkeep.py",
        'if found != [("ok",)] or contents_of(connection) != contents:',
        'if found != [("ok",)]:',
        "tests/integration/store/test_backup.py::test_a_copy_that_is_not_what_was_copied_is_found_out",
        "DID NOT RAISE",
    ),
    Mutant(
        "B12: a hash does not cover the bytes of its event",
        "recorder/model/chain.py",
        "digest.update(previous + _header(fields) + raw)",
        "digest.update(previous + _header(fields))",
        "tests/integration/commands/test_verify.py::test_the_chain_holds_what_no_sum_does",
        '"hash" in findings',
    ),
    Mutant(
        "B12: the chain is not followed",
        "recorder/store/maintain/verify/chain.py",
        "if due and event.hash not in due:",
        "if due and event.hash is None:",
        "tests/integration/commands/test_verify.py::test_every_column_of_every_event_is_held",
    ),
    Mutant(
        "B13: chunks after an invalid record are not counted",
        "recorder/ingest/assembler.py",
        "            exchange.capture.chunk(record.t_ns, record.payload)\n        if record.mark == Mark.END:",
        "            pass\n        if record.mark == Mark.END:",
        "tests/unit/journal/test_unreadable.py::test_a_fault_of_ours_loses_nothing_uncounted",
    ),
    Mutant(
        "B13: the body of a request that cannot be read is overwritten, though no log has it",
        "recorder/ingest/assembler.py",
        "            if exchange.begun is None:\n                self._rejected",
        "            if False:\n                self._rejected",
        "tests/integration/ingest/test_rereading.py::test_whatever_dies_and_wherever_the_log_is_the_same",
    ),
    Mutant(
        "B7: lost bytes of a tunnel's client have no gap",
        "recorder/proxy/recording.py",
        "                (Mark.CLIENT_CHUNK, self._lost_client_chunks, self._lost_client_bytes),\n",
        "",
        "tests/unit/proxy/test_exchange_recorder.py::test_what_comes_after_a_lost_chunk_is_counted_with_it[client]",
    ),
    Mutant(
        "B7: a tunnel's client is recorded on behind lost bytes",
        "recorder/proxy/recording.py",
        "        if self._lost_client_chunks or not self._write(",
        "        if not self._write(",
        "tests/unit/proxy/test_exchange_recorder.py::test_what_comes_after_a_lost_chunk_is_counted_with_it[client]",
    ),
    Mutant(
        "B7: the last chunk is written behind lost ones",
        "recorder/proxy/recording.py",
        "        if last and self._lost_chunks:",
        "        if False:",
        "tests/unit/proxy/test_exchange_recorder.py::test_the_last_chunk_is_not_written_after_lost_ones[last]",
    ),
    Mutant(
        "B7: chunks behind a fault of ours are recorded before their gap",
        "recorder/proxy/recording.py",
        "later = self._count  # what comes now",
        "pass  # what comes now",
        "tests/unit/proxy/test_exchange_recorder.py::test_what_a_sink_gets_after_a_lost_chunk_is_counted_with_it",
    ),
    Mutant(
        "B7: a sink begins behind lost chunks",
        "recorder/proxy/recording.py",
        "if self._writer is None or self._lost_chunks else",
        "if self._writer is None else",
        "tests/unit/proxy/test_exchange_recorder.py::test_the_last_chunk_is_not_written_after_lost_ones[]",
    ),
    Mutant(
        "B7: chunks that wait are dropped by a fault of ours",
        "recorder/journal/writer.py",
        "                    exchange.lose(t_ns, payload, error)",
        "                    pass",
        "tests/unit/journal/test_writer.py::test_chunks_that_a_fault_of_ours_keeps_out_are_a_gap_before_what_follows",
    ),
    Mutant(
        "B14: a segment that is missing is skipped",
        "recorder/journal/reader.py",
        "        if self._may_come_back(writer_is_dead):\n            return False\n        if is_there",
        "        if is_there",
        "tests/unit/journal/test_held_files.py::test_a_segment_that_does_not_come_back_is_a_damage",
        "its writer lives",
    ),
    Mutant(
        "B14: nobody looks after the files",
        "recorder/journal/held_files.py",
        "        gone = [name for name in self._descriptors if not self._is_there(name)]\n",
        "        gone = []\n",
        "tests/unit/journal/test_held_files.py::test_what_is_deleted_in_the_last_second_is_put_back_at_the_end",
        is_quick=True,
    ),
    Mutant(
        "B16: the records of open exchanges are not put into the bucket before the place that needs them",
        "recorder/shipping/collection.py",
        "            self._bucket.put(self._object(path), path.read_bytes())\n",
        "            pass\n",
        "tests/integration/shipping/test_collector.py::test_a_second_collector_goes_on_where_one_died",
    ),
    Mutant(
        "B16: a segment of another version is taken",
        "recorder/shipping/segments.py",
        "if data[: len(MAGIC)] not in READABLE:",
        "if not data:",
        "tests/integration/shipping/test_collector.py::"
        "test_a_segment_that_cannot_be_taken_stays_and_keeps_no_other_recorder_waiting",
        is_quick=True,
    ),
    Mutant(
        "B16: who sees a free lease takes it, made or not",
        "recorder/shipping/lease.py",
        (
            "if not self._bucket.put(_name(recorder_id, number), self._me) and not self._is_ours(\n"
            "            recorder_id, number\n"
            "        ):"
        ),
        "if self._bucket.put(_name(recorder_id, number), self._me) is None:",
        "tests/unit/shipping/test_lease.py::test_of_two_that_saw_the_same_one_has_it",
    ),
    Mutant(
        "B16: a segment is deleted though a stream that began in it is open",
        "recorder/shipping/collection.py",
        "if each.number < place.segment]",
        "if each.number < self._newest]",
        "tests/integration/shipping/test_collector.py::test_segments_of_open_streams_stay_until_these_are_carried_over",
        is_quick=True,
    ),
    Mutant(
        "B15: a line is passed on before it is in the journal",
        "recorder/commands/serving/tapping.py",
        "                self._record(data)\n                _write_all(self._sink, data)\n",
        "                _write_all(self._sink, data)\n                self._record(data)\n",
        "tests/unit/commands/test_tapping.py::test_each_read_is_recorded_before_it_is_passed_on",
        is_quick=True,
    ),
    # -- C. Event store and projections
    Mutant(
        "C1: other content takes a position",
        "recorder/store/sqlite/schema.py",
        'return [*plain, f"{written} OR {is_shared}"]',
        "return plain",
        "tests/integration/store/test_schema.py::test_a_row_that_differs_in_one_column_is_refused",
        "DID NOT RAISE|assert ",
    ),
    Mutant(
        "C2: an index that is declared is not made",
        "recorder/store/schema.py",
        '_index("results", "exchange", ',
        '_index("results", "exchanges", ',
        "tests/integration/store/test_schema.py::test_the_migrated_schema_is_the_declared_one",
    ),
    Mutant(
        "C3: of a result that several requests carry, the one that was told first stands",
        "recorder/store/write/projector.py",
        "tuple_(new.started_ns, new.exchange_id) < tuple_(",
        "tuple_(new.started_ns, new.exchange_id) > tuple_(",
        "tests/integration/store/test_projector.py::test_a_result_is_the_first_request_s_in_wha"
        "tever_order_they_are_told",
    ),
    Mutant(
        "C4: a transaction that fails is committed as far as it came",
        "recorder/store/sqlite/writer.py",
        "                self._numbers = Numbers(self._driver, self.path)\n                yield\n",
        "                self._numbers = Numbers(self._driver, self.path)\n                try:\n"
        "                    yield\n                except BaseException:\n"
        "                    self.connection.commit()\n                    raise\n",
        "tests/integration/store/test_projector.py::test_end_and_rows_are_committed_together_or_not_at_all[sqlite]",
        r"== \[\(0, 0\)\]",
    ),
    Mutant(
        "C7: an unknown event is not counted",
        "recorder/projections/exchange_facts.py",
        'self.note("unknown_type", fact.type, event)',
        "None",
        "tests/unit/projections/test_projections.py",
        "unknown_type",
    ),
    Mutant(
        "C8: a file is not written again after a purge",
        "recorder/store/sqlite/writer.py",
        'INDEXES]\n    connection.execute("VACUUM")',
        'INDEXES]\n    connection.execute("SELECT 1")',
        "tests/acceptance/store/test_purge.py::test_only_a_new_file_has_no_copies_of_what_was_moved_in_it",
    ),
    Mutant(
        "C8: the types of a purged session stay",
        "recorder/store/sqlite/writer.py",
        "            _forget_types(connection)\n",
        "",
        "tests/acceptance/store/test_purge.py::test_of_types_and_items_only_those_that_another_session_has_are_left",
    ),
    Mutant(
        "C8: what is deleted is not overwritten",
        "recorder/store/sqlite/connection.py",
        '"secure_delete": 1,',
        '"secure_delete": 0,',
        "tests/integration/store/test_sqlite_writer.py::test_what_is_deleted_is_overwritten_where_it_stood",
        "canary not in",
    ),
    Mutant(
        "C10: nobody waits for the write lock",
        "recorder/store/sqlite/connection.py",
        "fcntl.LOCK_EX | fcntl.LOCK_NB",
        "fcntl.LOCK_SH | fcntl.LOCK_NB",
        "tests/integration/store/test_sqlite_writer.py::test_only_one_store_writes_at_a_time_and_both_may",
        "Another recorder is writing|DID NOT RAISE",
    ),
    Mutant(
        "C11: a database of another program is taken",
        "recorder/store/sqlite/connection.py",
        "if application_id(path) != APPLICATION_ID:",
        "if application_id(path) is None:",
        "tests/integration/store/test_migrate.py::test_a_database_of_another_program_is_refused_and_untouched",
        "assert |DID NOT RAISE|Regex",
    ),
    # -- D. Proxy
    Mutant(
        "D1: whoever leaves is done",
        "recorder/wire/conclusion.py",
        'outcome == "client_disconnect" and self._is_over and',
        'outcome == "client_disconnect" and',
        "tests/unit/wire/test_conclusion.py::test_who_leaves_before_has_broken_off",
        "client_disconnect",
        is_quick=True,
    ),
    Mutant(
        "D1: who leaves behind the last event has broken off",
        "recorder/wire/conclusion.py",
        'outcome == "client_disconnect" and self._is_over and',
        'outcome == "no such outcome" and self._is_over and',
        "tests/acceptance/proxy/test_leaving.py::test_clients_that_leave_behind_the_last_event_"
        "are_recorded_again_and_replayed",
        "broke off",
    ),
    Mutant(
        "D1: a client that leaves is not noticed",
        "recorder/proxy/http/server_exchange.py",
        "            self._task.cancel()\n\n    async def answer",
        "            pass\n\n    async def answer",
        "tests/integration/proxy/test_endings.py::test_client_leaves[idle-closes]",
        "upstream.gone",
        is_quick=True,
    ),
    Mutant(
        "D2: a broken stream ends well",
        "recorder/proxy/http/client_response.py",
        "elif self._started and self._ends_with_connection:",
        "elif self._started:",
        "tests/integration/proxy/test_endings.py::test_upstream_breaks",
        "response.ending",
    ),
    Mutant(
        "D3: Retry-After is taken for a header of one connection",
        "recorder/proxy/app.py",
        'b"proxy-authenticate proxy',
        'b"retry-after proxy-authenticate proxy',
        "tests/integration/proxy/test_app.py::test_a_429_is_passed_on_and_asked_for_once",
    ),
    Mutant(
        "D5: nothing holds an upstream back",
        "recorder/proxy/http/client_connection.py",
        "        self._transport.pause_reading()",
        "        pass",
        "tests/integration/proxy/test_endings.py::test_a_slow_client_slows_the_upstream_and_not_our_memory",
        r"upstream.sent_bytes < limit",
    ),
    Mutant(
        "D5: nothing holds an upstream back in strict durability",
        "recorder/proxy/http/client_response.py",
        "        if self._held_bytes >= HELD_BYTES:",
        "        if False:",
        "tests/integration/proxy/test_endings.py::test_a_slow_client_slows_the_upstream_and_not_our_memory[strict]",
        r"upstream.sent_bytes < limit",
    ),
    Mutant(
        "D7: connections are never let go of",
        "recorder/proxy/http/client_response.py",
        (
            "if the body was read to its end, else\n"
            "        closed.\n"
            '        """\n'
            "        self.close()"
        ),
        'if the body was read to its end, else closed."""\n        vars(errno).setdefault("kept", []).append(self)',
        "tests/integration/proxy/test_endings.py::test_after_300_cancels_nothing_is_leaked_and_requests_succeed",
        r"<= before \+ kept",
    ),
    Mutant(
        "D8: a resumed response is told without its beginning",
        "recorder/projections/fold.py",
        "        self._apply(self._recall_handlers, facts, event)",
        "        _ = facts",
        "tests/unit/projections/test_fold.py::test_a_resumed_response_is_the_uncut_one",
    ),
    Mutant(
        "D9: chunks that a failing journal did not take are not counted",
        "recorder/proxy/recording.py",
        "self._lost_bytes += len(data)",
        "self._lost_bytes += 0",
        "tests/unit/proxy/test_recording.py::test_store_fails",
        "size_bytes",
    ),
    Mutant(
        "D9: a fault in the way of a chunk reaches the upstream's connection",
        "recorder/proxy/recording.py",
        (
            "except Exception as error:\n"
            "                # store fails, by a fault of ours; `sink` does not have the chunk yet"
        ),
        "except MemoryError as error:",
        "tests/integration/proxy/test_tap_faults.py::test_a_fault_while_chunks_pass_costs_clien"
        "ts_nothing_and_is_counted",
        "a client was cut off",
    ),
    Mutant(
        "D10: a request that two readers read differently is forwarded",
        "recorder/proxy/http/server_connection.py",
        'return not codings or (codings == [b"chunked"] and version == "1.1")',
        "return True",
        "tests/integration/security/test_request_heads.py::test_no_malformed_request_gets_past_a_400",
    ),
    Mutant(
        "D11: a connection that is not read waits for its next request",
        "recorder/proxy/http/client_response.py",
        "is_taken = not self._held and not self._paused",
        "is_taken = True",
        "tests/integration/proxy/http/test_client_pool.py::test_a_response_that_nobody_took_lea"
        "ves_no_connection_that_is_not_read",
        "a request waits for ever",
    ),
    Mutant(
        "D12: what came on an idle connection is not looked for",
        "recorder/proxy/upstream.py",
        "if connection.is_silent():",
        "if True:",
        "tests/integration/proxy/http/test_client_pool.py::test_what_nobody_asked_for_is_found_"
        "before_a_connection_is_used_again",
    ),
    Mutant(
        "D12: connections are shared whatever the credentials",
        "recorder/proxy/upstream.py",
        'return text == "key" or NEVER.search(text) is not None',
        "return False",
        "tests/integration/proxy/http/test_client_pool.py::test_a_connection_is_used_again_for_"
        "the_same_credentials_only",
    ),
    Mutant(
        "D13: requests are answered ahead of a client that takes nothing",
        "recorder/proxy/http/server_connection.py",
        (
            "self._answering is None\n"
            "            and not self.write_paused\n"
            "            and not self.transport.is_closing()"
        ),
        "self._answering is None and not self.transport.is_closing()",
        "tests/integration/proxy/http/test_server_connection.py::test_requests_wait_until_the_c"
        "lient_takes_the_answers_before_them",
    ),
    Mutant(
        "D14: the limit of open files stays as it is",
        "recorder/proxy/http/server.py",
        "    raise_limit()\n",
        "",
        "tests/acceptance/proxy/http/test_server_capacity.py::test_the_soft_limit_is_raised_to_the_hard_one",
    ),
    Mutant(
        "D14: the others are accepted without end",
        "recorder/proxy/http/server_connection.py",
        "self._is_refused = not self._connections.add(self)",
        "self._connections.add(self)",
        "tests/acceptance/proxy/http/test_server_capacity.py::test_who_comes_when_there_is_no_r"
        "oom_is_told_and_streams_go_on",
        "a client was reset, or waits",
    ),
    Mutant(
        "D15: a path that nobody has goes to the first API",
        "recorder/proxy/routing.py",
        "if not self._any_path and not _API_PATH.match(path):",
        "if False:",
        "tests/unit/proxy/test_routing.py::test_a_path_that_belongs_to_nobody_goes_nowhere",
        r"goes to https://api\.openai\.com",
    ),
    Mutant(
        "D16: an id that was split is put whole into each part",
        "recorder/replay/matching/client_ids.py",
        "new[first - span[0] : None if last == span[1] else last - span[0]]",
        "new",
        "tests/unit/replay/matching/test_client_ids.py::test_an_agent_is_waited_for_under_the_i"
        "d_that_it_has_in_this_run",
    ),
    Mutant(
        "D16: parts of a text are told from those of another by nothing but their place",
        "recorder/replay/matching/client_ids.py",
        "numbers + own, member",
        "numbers, member",
        "tests/unit/replay/matching/test_client_ids.py::test_texts_of_two_calls_at_once_are_not_one_text",
    ),
    Mutant(
        "D16: a position is answered once, strict or not",
        "recorder/replay/matching/__init__.py",
        "candidate = members[0] if len(members) == 1 else self._resembled.get(key)",
        "candidate = None",
        "tests/unit/replay/matching/test_matching.py::TestUse::test_without_strictness_an_agent"
        "_that_runs_again_is_answered_by_position_again",
    ),
    Mutant(
        "D16: a rule sees what others left of a text",
        "recorder/replay/matching/noise.py",
        """        return _without(text, sorted(self._found(text), key=lambda each: (each[0], -each[1])))
""",
        """        for rule, pattern in self._texts:
            text = pattern.sub(f"<{rule.name}>", text)
        return text
""",
        "tests/unit/replay/matching/test_noise.py::test_rules_of_the_user_see_the_text_as_it_was_sent",
    ),
    Mutant(
        "D17: a test is answered by the position of its request",
        "recorder/replay/matching/noise.py",
        'until: How = "noise", redactor',
        'until: How = "position", redactor',
        "tests/unit/replay/matching/test_matching.py::TestNoise::test_what_differs_beyond_noise"
        "_is_a_miss_that_names_the_place",
    ),
    Mutant(
        "idle: a connection to an upstream is kept for an hour",
        "recorder/proxy/upstream.py",
        "IDLE_S = 15.0",
        "IDLE_S = 3600.0",
        "tests/integration/proxy/http/test_client_pool.py::test_an_idle_connection_is_kept_for_"
        "some_seconds_and_no_minute",
        "not within",
    ),
    # -- E. Security
    Mutant(
        "E1: headers that nobody knows are kept",
        "recorder/wire/redaction/headers.py",
        "redacted.append((name, _counted(value) if harmless is None else harmless))",
        "redacted.append((name, value if harmless is None else harmless))",
        "tests/acceptance/test_secrets.py::test_secrets_are_found_nowhere",
    ),
    Mutant(
        "E2: an Origin is let in",
        "recorder/proxy/admission.py",
        'return b"origin" in headers or headers',
        "return headers",
        "tests/integration/security/test_doors.py::test_only_what_no_web_page_can_send_gets_through",
    ),
    Mutant(
        "E3: a path that is a URL is asked for where it says",
        "recorder/wire/upstreams.py",
        '    if base.endswith("/"):\n        return base[:-1] + rest\n',
        '    if "http://" in rest:\n        return rest[rest.index("http://") :]\n',
        "tests/integration/security/test_doors.py::test_no_request_reaches_an_address_that_is_not_configured",
    ),
    Mutant(
        "E9: the file of tokens is read once",
        "recorder/commands/serving/tokens.py",
        "if seen != self._seen:",
        "if self._seen is None:",
        "tests/integration/security/test_named_tokens.py"
        "::test_a_token_that_was_revoked_is_refused_with_the_next_request",
    ),
    Mutant(
        "E4: recorder query may do everything that the database lets it",
        "recorder/store/sqlite/query.py",
        "        else sqlite3.SQLITE_DENY\n    )",
        "        else sqlite3.SQLITE_OK\n    )",
        "tests/integration/security/test_sql.py::test_nothing_is_changed_and_nothing_is_made",
        "assert |DID NOT RAISE",
    ),
    Mutant(
        "E4: a query may compute for two hours",
        "recorder/store/queries/query.py",
        "TIMEOUT_S = 60.0",
        "TIMEOUT_S = 6000.0",
        "tests/integration/security/test_sql.py::test_what_never_ends_is_stopped_after_a_minute"
        "_if_nothing_else_was_said",
        "gave no row for 60 s",
    ),
    Mutant(
        "E4: the process of a statement is never killed",
        "recorder/store/queries/query_process.py",
        "        self._process.kill()\n\n    def _close_stdin",
        "        pass\n\n    def _close_stdin",
        "tests/acceptance/commands/test_query.py::test_one_step_of_an_engine_has_a_limit_of_time_too[sqlite]",
        "DID NOT RAISE|gave no row",
    ),
    Mutant(
        "E4: the process of a statement lives longer than its command",
        "recorder/store/queries/query_process.py",
        "    time.sleep(GRACE_S / 2)\n    _end(folder, 1)",
        "    time.sleep(GRACE_S * 10_000)",
        "tests/acceptance/commands/test_query.py::test_a_statement_ends_with_its_command[SIGKILL-one step]",
        "not within",
    ),
    Mutant(
        "E4: the process of a statement may take any memory",
        "recorder/store/queries/query_process.py",
        "    _limit(resource.RLIMIT_DATA, MEMORY_BYTES)",
        "    _limit(resource.RLIMIT_DATA, 2**40)",
        "tests/acceptance/commands/test_query.py::test_a_statement_has_a_limit_of_memory[five values]",
        "This takes more",
    ),
    Mutant(
        "E4: a row may have any size",
        "recorder/store/queries/query_process.py",
        "if len(answer) <= ANSWER_BYTES:",
        "if True:",
        "tests/acceptance/commands/test_query.py::test_a_row_has_a_limit",
        "DID NOT RAISE",
    ),
    Mutant(
        "E4: the page takes all rows of a statement",
        "recorder/ui/sql.py",
        "if len(held) == MOST_ROWS or size_bytes",
        "if size_bytes",
        "tests/integration/ui/test_api.py::test_an_answer_has_no_more_rows_and_bytes_than_a_page_can_hold",
    ),
    Mutant(
        "E4: the page takes rows of any size",
        "recorder/ui/sql.py",
        "size_bytes > MOST_BYTES or ",
        "",
        "tests/integration/ui/test_api.py::test_an_answer_has_no_more_rows_and_bytes_than_a_page_can_hold",
    ),
    Mutant(
        "E5: everybody may read the database",
        "recorder/store/sqlite/connection.py",
        "os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600",
        "os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644",
        "tests/acceptance/test_secrets.py::test_every_file_is_for_its_owner_alone",
    ),
    Mutant(
        "E6: C1 controls are printed",
        "recorder/model/text.py",
        "*range(0x7F, 0xA0)",
        "*range(0x7F, 0x80)",
        "tests/acceptance/security/test_printed_text.py::test_no_command_prints_what_a_terminal_would_obey",
    ),
    Mutant(
        "E7: a recorded text may end the script of an HTML file",
        "recorder/ui/html_file.py",
        ('written.replace("<", "\\\\u003c")\n            .replace('),
        "written.replace(",
        "tests/integration/ui/test_html_file.py::test_hostile_texts_stay_data",
    ),
    Mutant(
        "E8: a claude-tap file may have any size",
        "recorder/cassettes/calls.py",
        "    if len(data) > limit_bytes:",
        "    if False:",
        "tests/unit/cassettes/test_budget.py::test_a_file_has_a_limit",
        "MiB",
    ),
    Mutant(
        "E8: bodies may have any size together",
        "recorder/cassettes/calls.py",
        "            budget.take(each.size_bytes)\n",
        "",
        "tests/unit/cassettes/test_budget.py::test_bodies_are_counted_in_every_format[claude-tap.jsonl]",
        "DID NOT RAISE",
    ),
    Mutant(
        "E8: a value that is stored once is written out before it is counted",
        "recorder/cassettes/claude_tap.py",
        "        budget.take(self._sizes[name])\n",
        "",
        "tests/acceptance/cassettes/test_budget.py::test_a_bundle_that_expands_takes_little_memory",
    ),
    Mutant(
        "E8: a document may have any number of values",
        "recorder/cassettes/calls.py",
        "        if values > VALUES_LIMIT:",
        "        if False:",
        "tests/unit/cassettes/test_budget.py::test_values_have_a_limit",
        "over 10,000 values|DID NOT RAISE",
    ),
    Mutant(
        "E8: a file may have any size",
        "recorder/recordings/files.py",
        "if size > SIZE_LIMIT:",
        "if size > SIZE_LIMIT * 2**20:",
        "tests/acceptance/security/test_hostile_files.py::test_ten_gigabytes_are_refused_unread",
    ),
    Mutant(
        "E9: every address is listened to without a token",
        "recorder/commands/serving/listening.py",
        "if not is_loopback(host) and not is_guarded:",
        "if not host:",
        "tests/integration/security/test_token.py::test_no_other_machine_is_listened_to_without_a_token",
        "DID NOT RAISE",
    ),
    Mutant(
        "E10: what a project's file sets is never refused",
        "recorder/commands/terminal/settings.py",
        'if self.is_trusted or load("recorder.commands.terminal.project:is_allowed")(verb, name):',
        "if True:",
        "tests/unit/security/test_cloned_projects.py::test_a_projects_file_can_neither_send_nor_listen_nor_write",
        "assert",
    ),
    Mutant(
        "E10: a file that was trusted once stays so when it changes",
        "recorder/commands/terminal/project.py",
        "return _record(path).read_bytes() == _line(path, content)",
        "return _record(path).exists()",
        "tests/unit/security/test_cloned_projects.py::test_trust_is_for_one_file_until_it_changes",
        "assert 0 == 2",
    ),
    Mutant(
        "E11: a text that is no piece of another stays in an anonymous export",
        "recorder/wire/content/shape.py",
        "        fill = self._whole\n",
        "        fill = None\n",
        "tests/integration/commands/test_export.py"
        "::test_no_five_words_and_no_id_are_in_an_anonymous_export_of_any_format",
    ),
    Mutant(
        "E13: rows of what belongs to no exchange of one's own are seen",
        "recorder/store/postgres/rights.py",
        'return f"EXISTS (SELECT FROM {SCHEMA}.{other} AS o WHERE {is_same})"',
        'return f"EXISTS (SELECT FROM {SCHEMA}.{other} AS o WHERE {is_same}) OR true"',
        "tests/integration/store/test_rights.py::test_a_login_never_gets_a_row_of_another_owner",
        "foreign_in",
    ),
    Mutant(
        "E13: exchanges of all teams are seen",
        "recorder/store/postgres/rights.py",
        "{_of_reader('owner')} OR {_of_reader('team')}",
        "{_of_reader('owner')} OR team IS NOT NULL",
        "tests/integration/store/test_rights.py::test_a_login_never_gets_a_row_of_another_owner",
        "foreign_in",
    ),
    Mutant(
        "E13: views have the rights of their owner",
        "recorder/store/postgres/rights.py",
        "SET (security_invoker = true)",
        "SET (security_invoker = false)",
        "tests/integration/store/test_rights.py::test_a_login_never_gets_a_row_of_another_owner",
        "foreign_in",
    ),
    Mutant(
        "E13: views that are made again have lost the rights of who asks",
        "recorder/store/postgres/schema.py",
        "return [*RECREATION, rights.INVOKER]",
        "return RECREATION",
        "tests/integration/store/test_rights.py::test_views_that_are_made_again_keep_the_rights_of_who_asks",
    ),
    Mutant(
        "E13: all people share the log that was opened first",
        "recorder/ui/owners.py",
        "kept = self._kept.pop(owner, None) or",
        "kept = next(iter(self._kept.values()), None) or",
        "tests/integration/security/test_shared_viewer.py::test_nobody_gets_a_row_of_another_who_looks_at_the_same",
    ),
    Mutant(
        "E13: a viewer for all reads as a login that sees all",
        "recorder/store/postgres/reading.py",
        "    if may_see_all:",
        "    if False:",
        "tests/integration/security/test_shared_viewer.py::test_a_login_that_may_see_more_than_its_own_rows_is_refused",
    ),
    Mutant(
        "E13: a login may take a role that sees all",
        "recorder/store/postgres/rights.py",
        "pg_has_role(session_user, r.oid, 'MEMBER')",
        "pg_has_role(session_user, r.oid, 'USAGE')",
        "tests/integration/security/test_shared_viewer.py::test_a_login_that_may_see_more_than_its_own_rows_is_refused",
    ),
    Mutant(
        "E13: a page goes on after its token was revoked",
        "recorder/ui/app.py",
        "            doubted = invalid\n",
        "",
        "tests/integration/security/test_shared_viewer.py::test_what_follows_ends_when_its_token_is_revoked",
        "Timeout|REVOKED_S|_more",
    ),
    Mutant(
        "viewer: for all it is open without TLS",
        "recorder/ui/app.py",
        'if self._is_for_all and forwarded != [b"https"]:',
        "if False:",
        "tests/integration/security/test_shared_viewer.py::test_no_page_and_no_answer_without_tls_and_a_token",
    ),
    Mutant(
        "E12: messages of a WebSocket connection are written as they are at the level shape",
        "recorder/proxy/content_level.py",
        "encode_frame(part.opcode, self._filled(part), mask=mask)",
        "encode_frame(part.opcode, part.payload, mask=mask)",
        "tests/unit/proxy/test_content_level.py"
        "::test_messages_keep_types_and_sizes_however_they_are_compressed_and_cut",
    ),
    # -- what docs/guarantees.md does not number
    Mutant(
        "timing: the 99th percentile is the 95th",
        "recorder/projections/timing.py",
        "gap_p99_ns=_percentile(gaps, 99)",
        "gap_p99_ns=_percentile(gaps, 95)",
        "tests/unit/projections/test_projections.py::test_of_a_hundred_silences_each_percentile_is_the_one_of_its_rank",
        "gap_p99_ns",
    ),
    # -- What is replaced or deleted
    Mutant(
        "an archive is not compared with the log before that loses its rows",
        "recorder/archive/archiver.py",
        "            lost = new - same_in(connection, month, pack, new)\n",
        "            lost = set[str]()\n",
        "tests/acceptance/archive/test_archiver.py::test_what_the_archive_does_not_give_back_stays_in_the_log",
        "DID NOT RAISE",
    ),
    Mutant(
        "a cassette is replaced in pieces",
        "recorder/files.py",
        '    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)\n',
        "    descriptor, temporary = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), path\n",
        "tests/unit/cassettes/test_sse_jsonl.py::test_a_file_is_replaced_as_a_whole_while_others_read_it",
        is_quick=True,
    ),
    # -- The door of the viewer
    Mutant(
        "viewer: the API is open",
        "recorder/ui/app.py",
        "bearer = self.guard.bearer(incoming.headers)",
        "bearer = self.guard.bearer(incoming.headers) or Bearer()",
        "tests/integration/ui/test_security.py::test_nobody_reads_the_api_without_the_token",
    ),
    Mutant(
        "viewer: one of several tokens is enough",
        "recorder/ui/app.py",
        "return self._bearer_of(shown[0]) if len(shown) == 1 else None",
        "return next(filter(None, map(self._bearer_of, shown)), None)",
        "tests/integration/ui/test_security.py::test_nobody_reads_the_api_without_the_token",
    ),
    Mutant(
        "viewer: the beginning of a token is enough",
        "recorder/ui/app.py",
        "compare_digest(token, self.token.encode())",
        "self.token.encode().startswith(token)",
        "tests/integration/ui/test_security.py::test_nobody_reads_the_api_without_the_token",
    ),
    Mutant(
        "viewer: the token is always the same",
        "recorder/ui/app.py",
        "self.token = secrets.token_urlsafe(TOKEN_BYTES)",
        'self.token = "viewer"',
        "tests/integration/ui/test_security.py::test_each_viewer_has_a_token_of_its_own",
    ),
    Mutant(
        "viewer: any Host is one of ours",
        "recorder/ui/app.py",
        "        if not is_local(hosts[0], (ANY_HOST,) if self._is_for_all else ()):",
        "        if False:",
        "tests/integration/ui/test_security.py::test_a_name_that_others_can_point_here_is_refused_even_with_the_token",
    ),
    Mutant(
        "viewer: of two Hosts the first counts",
        "recorder/ui/app.py",
        "        if len(hosts) != 1:",
        "        if not hosts:",
        "tests/integration/ui/test_security.py::test_a_name_that_others_can_point_here_is_refused_even_with_the_token",
        "two names",
    ),
    Mutant(
        "viewer: any Origin is let in",
        "recorder/ui/app.py",
        "        if not origins <= {scheme + hosts[0]}:",
        "        if False:",
        "tests/integration/ui/test_security.py::test_no_other_page_reads_the_api_by_get_or_post",
    ),
    Mutant(
        "viewer: an Origin at another port is let in",
        "recorder/ui/app.py",
        "{scheme + hosts[0]}",
        '{scheme + hosts[0], b"http://127.0.0.1:1"}',
        "tests/integration/ui/test_security.py::test_no_other_page_reads_the_api_by_get_or_post",
    ),
    Mutant(
        "viewer: other pages may read by GET",
        "recorder/ui/app.py",
        '        if path != b"/" and not sites',
        '        if method == "POST" and not sites',
        "tests/integration/ui/test_security.py::test_no_other_page_reads_the_api_by_get_or_post",
    ),
    Mutant(
        "viewer: pages of the same site are let in",
        "recorder/ui/app.py",
        '(b"none", b"same-origin")',
        '(b"none", b"same-origin", b"same-site")',
        "tests/integration/ui/test_security.py::test_no_other_page_reads_the_api_by_get_or_post",
    ),
    Mutant(
        "viewer: a link to it is refused",
        "recorder/ui/app.py",
        '        if path != b"/" and not sites',
        "        if not sites",
        "tests/integration/ui/test_security.py::test_no_other_page_reads_the_api_by_get_or_post",
        "a link to it",
    ),
    Mutant(
        "viewer: any method is answered",
        "recorder/ui/app.py",
        '    if method not in ("GET", "HEAD", "POST"):',
        "    if False:",
        "tests/integration/ui/test_security.py::test_only_the_methods_that_read_are_answered",
    ),
    Mutant(
        "viewer: a GET may have a body",
        "recorder/ui/app.py",
        "if has_body else None",
        "if False else None",
        "tests/integration/ui/test_security.py::test_only_the_methods_that_read_are_answered",
        "a GET with a body",
    ),
    Mutant(
        "viewer: a form of another page is a question",
        "recorder/ui/app.py",
        '.strip().lower() != b"application/json":',
        '.strip().lower() == b"application/xml":',
        "tests/integration/ui/test_security.py::test_a_body_is_json_and_no_longer_than_its_limit",
    ),
    Mutant(
        "viewer: a body in chunks has no limit",
        "recorder/ui/app.py",
        "        if len(data) > BODY_LIMIT_BYTES:",
        "        if False:",
        "tests/integration/ui/test_security.py::test_a_body_is_json_and_no_longer_than_its_limit",
        "nobody said",
    ),
    Mutant(
        "viewer: answers have no policy",
        "recorder/ui/app.py",
        "incoming.respond(status, [*headers, *HEADERS], body)",
        "incoming.respond(status, headers, body)",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: streams have no policy",
        "recorder/ui/app.py",
        (
            "NO_STORE,\n"
            "                    *answer.headers,\n"
            "                    *HEADERS,\n"
            "                ]"
        ),
        "NO_STORE, *answer.headers]",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: an unchanged file has no policy",
        "recorder/ui/app.py",
        "incoming.start(304, [*headers, *HEADERS])",
        "incoming.start(304, headers)",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: scripts in the text of a page run",
        "recorder/ui/app.py",
        "script-src 'self';",
        "script-src 'self' 'unsafe-inline';",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: a page may send to any host",
        "recorder/ui/app.py",
        "connect-src 'self';",
        "connect-src *;",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: any page may frame it",
        "recorder/ui/app.py",
        '    (b"x-frame-options", b"DENY"),\n',
        "",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: any page may load its files",
        "recorder/ui/app.py",
        '    (b"cross-origin-resource-policy", b"same-origin"),\n',
        "",
        "tests/integration/ui/test_security.py::test_every_answer_has_the_headers_and_none_is_for_other_origins",
    ),
    Mutant(
        "viewer: the token stays in the address",
        "recorder/ui/static/source.js",
        '  history.replaceState(null, "", location.pathname + (inHash ? "" : location.hash));\n',
        "",
        "tests/acceptance/ui/test_browser_security.py::test_a_server_at_another_port_sees_nothi"
        "ng_that_opens_the_viewer",
        "assert |AssertionError",
    ),
    Mutant(
        "viewer: the token is in a cookie, which all ports get",
        "recorder/ui/static/source.js",
        "    localStorage.setItem(TOKEN, given);",
        "    localStorage.setItem(TOKEN, given);\n    document.cookie = `token=${given}`;",
        "tests/acceptance/ui/test_browser_security.py::test_a_server_at_another_port_sees_nothi"
        "ng_that_opens_the_viewer",
        "assert |AssertionError",
    ),
    Mutant(
        "indexes are not compared with their tables",
        "recorder/store/sqlite/verify.py",
        '"PRAGMA integrity_check(20)"',
        '"PRAGMA quick_check(20)"',
        "tests/acceptance/store/test_bit_flips.py",
        r"== \[\]",
    ),
    Mutant(
        "a connection of DuckDB is left open to all files",
        "recorder/store/duckdb/connection.py",
        '    connection.execute("SET enable_external_access = false")\n',
        "",
        "tests/acceptance/security/test_duckdb.py::test_no_connection_reaches_another_file",
        r"== \[\]",
    ),
    Mutant(
        "a name in DuckDB is folded by another rule than DuckDB's",
        "recorder/store/duckdb/query.py",
        'name.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")',
        "name.lower()",
        "tests/acceptance/security/test_duckdb.py::test_what_recorder_did_not_open_is_refused",
        r"== \[\]",
    ),
]


class Copy:
    """A copy of the tree, and an interpreter for which it is the program."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        for name in COPIED:
            is_folder = (ROOT / name).is_dir()
            (shutil.copytree if is_folder else shutil.copy2)(ROOT / name, self.tree / name)
        venv.create(folder / "venv", symlinks=True)
        self._python = folder / "venv" / "bin" / "python"
        scheme = sysconfig.get_path(
            "purelib", vars={"base": str(folder / "venv"), "platbase": str(folder / "venv")}
        )
        (Path(scheme) / "copy.pth").write_text(f"{self.tree}\n{sysconfig.get_path('purelib')}\n")

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        """The copy with that mutant in it."""
        path, original = self.tree / mutant.file, ROOT / mutant.file
        path.write_text(broken_text(mutant))
        try:
            yield
        finally:
            shutil.copy2(original, path)

    def run(self, tests: Sequence[str]) -> list[Broken]:
        """Run tests, up to the first that fails; returns that one."""
        report = self.tree / "report.xml"
        report.unlink(missing_ok=True)
        command = [
            str(self._python),
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            f"--timeout={LIMIT_S}",
        ]
        environment = {**os.environ, "RECORDER_SEED": SEED}
        done = subprocess.run(
            [*command, f"--junitxml={report}", *tests],
            cwd=self.tree,
            env=environment,
            capture_output=True,
            text=True,
        )
        self._end_what_is_left()
        if done.returncode not in (0, 1):
            return [Broken(False, "the tests could not be run", done.stdout + done.stderr)]
        found = ElementTree.parse(report).getroot().iter("testcase")
        return [
            _judged(failed)
            for case in found
            for failed in (*case.iter("failure"), *case.iter("error"))
        ]

    def _end_what_is_left(self) -> None:
        """End what a broken program left behind: where nobody ends a statement, it is computed for
        ever.
        """
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it has ended meanwhile
                if path.read_bytes().startswith(bytes(self._python)):
                    os.kill(int(path.parent.name), signal.SIGKILL)


def _judged(failed: ElementTree.Element) -> Broken:
    message = failed.get("message", "")
    is_claim = failed.tag == "failure" and _CLAIMS.match(message) is not None
    return Broken(is_claim, message, failed.text or "")


def broken_text(mutant: Mutant) -> str:
    """The file with the mutant in it.

    Raises `ValueError` unless what is to be replaced stands there once.
    """
    text = (ROOT / mutant.file).read_text()
    if text.count(mutant.old) != 1 or mutant.old == mutant.new:
        raise ValueError(
            f"{mutant.name}: {mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}."
        )
    return text.replace(mutant.old, mutant.new)


def survived(copy: Copy, mutant: Mutant) -> str | None:
    """Why a mutant counts as not seen; `None` if its test went red for the reason that it should."""
    with copy.broken(mutant):
        failed = copy.run([mutant.test])
    if not failed:
        return f"{mutant.test} is green"
    # A broken program may fail the end of a fixture, too.
    found = next((each for each in failed if each.claim), failed[0])
    if not found.claim:
        return f"it is not a claim that failed: {found.message}\n{found.report[-3000:]}"
    if not re.search(mutant.reason, found.report):
        return f"it failed for another reason than {mutant.reason!r}: {found.message}\n{found.report[-3000:]}"
    return None


def chosen(words: Sequence[str]) -> list[Mutant]:
    """The mutants that have one of these words in their names, or are of one of these files; all
    without words.
    """
    if not words:
        return list(MUTANTS)
    return [
        mutant
        for mutant in MUTANTS
        if any(word in mutant.name or word == mutant.file for word in words)
    ]


def main(words: Sequence[str]) -> int:
    """Run mutants, and say of each whether it was seen."""
    mutants, alive = chosen(words), 0
    if not mutants:
        sys.stderr.write(
            f"No mutant has a name or a file like {', '.join(words)}: nothing was tried.\n"
        )
        return 2
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for mutant in mutants:
            why = survived(copy, mutant)
            alive += why is not None
            sys.stdout.write(f"{mutant.name}: {why or 'seen'}\n")
            sys.stdout.flush()
    return min(alive, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
