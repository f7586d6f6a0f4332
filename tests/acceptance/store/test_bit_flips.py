"""One flipped bit in each page of a log: `verify` says it, or everything that is asked is answered
as before.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from recorder.errors import RecorderError
from recorder.ingest.ingester import Ingester
from recorder.journal.writer import Journal
from recorder.projections.views.contract import VIEWS
from recorder.store.location import database_url
from recorder.store.maintain.verify.log import LogVerifier
from recorder.store.search import INDEXES
from recorder.store.write.writer import Store
from tests.integration.ingest.test_ingester import COMPLETED, Exchange, never

REQUEST = b'{"model":"gpt-5","input":[{"role":"user","content":"Roll the dice"}]}'
DELTA = (
    b'data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"m","output_index":0,'
    b'"delta":"word%d "}\n\n'
)
PAGE = 4096


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sessions of several exchanges, so that most tables and indexes have rows; in one file,
    without a WAL.
    """
    folder = tmp_path_factory.mktemp("flips")
    journal = Journal(folder / "journals", "recorder-1")
    with Store(folder / "log.db") as store:
        for number in range(8):
            exchange = Exchange(
                journal, REQUEST, session=f"run {number % 3}", session_source="header"
            )
            for step in range(6):
                exchange.chunk(DELTA % (step, number * step))
            exchange.chunk(COMPLETED).end()
        Ingester(store, journal.directory, never).drain()
    journal.close()
    with closing(sqlite3.connect(folder / "log.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return folder / "log.db"


def answers(path: Path) -> object:
    """What the views give, and the search; or why they give nothing."""
    found: dict[str, object] = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = bytes
        questions = {view.name: f"SELECT * FROM {view.name}" for view in VIEWS}
        for index in INDEXES:
            questions[index.name] = (
                f"SELECT rowid FROM {index.name} WHERE {index.name} MATCH 'word5 OR dice OR roll'"
            )
        for name, sql in questions.items():
            try:
                found[name] = sorted(connection.execute(sql).fetchall(), key=repr)
            except sqlite3.Error as error:
                found[name] = str(error)
    return found


def said(path: Path) -> list[str]:
    """What `recorder verify` says is wrong."""
    try:
        with LogVerifier.open(database_url(path), lambda _: "gone") as verifier:
            if found := verifier.whole_damage():
                return found
            reports = [
                verifier.verify(session_id, lambda _: None) for session_id in verifier.session_ids()
            ]
            return [finding.message for report in reports for finding in report.findings]
    except RecorderError as error:
        return [str(error)]


@pytest.mark.parametrize("part", range(4))
def test_no_flipped_bit_changes_an_answer_without_a_word(
    log: Path, tmp_path: Path, part: int
) -> None:
    expected, whole = answers(log), log.read_bytes()
    assert said(log) == []
    chance = random.Random(part)
    pages = range(part, len(whole) // PAGE, 4)
    silent, reported = [], 0
    for page in pages:
        data = bytearray(whole)
        used = [place for place in range(page * PAGE, (page + 1) * PAGE) if data[place]]
        place = chance.choice(used or [page * PAGE])
        data[place] ^= 1 << chance.randrange(8)
        path = tmp_path / "log.db"
        path.write_bytes(data)
        if said(path):
            reported += 1
        elif answers(path) != expected:
            silent.append((page + 1, place % PAGE))
    assert silent == []
    assert reported > len(pages) // 2
