"""A log of one file, in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import URL

from recorder.recordings.files import load_file
from recorder.recordings.session import RecordedSession
from recorder.store.location import database_url
from recorder.store.write.writer import Store


@contextmanager
def file_log(path: Path) -> Iterator[tuple[URL, str]]:
    """Make a log of a file of any format; give its URL and the id of its session. It is deleted at the end.

    Raises `RecorderError` if the file cannot be read.
    """
    found = load_file(path)
    with TemporaryDirectory(prefix="recorder-file-") as folder:  # for the user alone: mkdtemp makes it 0700
        url = database_url(Path(folder) / "log.db")
        _write(url, found)
        yield url, found.session.session_id


def _write(url: URL, found: RecordedSession) -> None:
    exchanges = [each.exchange for each in found.recordings]
    with Store(url) as store, store.transaction():
        store.add_session(found.session)
        store.add_exchanges(exchanges)
        is_new = store.append(found.events)
        keys = [(each.session_id, each.exchange_id) for each in exchanges]
        store.projector.project_all(keys, in_order=True, is_new=is_new)
