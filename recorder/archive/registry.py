"""The archives of a log: the URLs in its table `archives`.

Rules of this file:

* An archive is one of DuckLake, or another log. Nothing here opens one, or imports what opens one.
* A stored URL has no password: all who may read the log may read the table.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy import URL

from recorder.archive.place import database_name, database_url, is_archive
from recorder.errors import RecorderError, UsageError
from recorder.store.location import is_same_database
from recorder.store.maintain.upkeep import opened
from recorder.store.sql import ATTACHED_ARCHIVES, Statement

if TYPE_CHECKING:
    from recorder.store.write.writer import Store

_log = logging.getLogger(__name__)

_PASSWORDS = ("password", "sslpassword")  # as libpq names them; the second is that of a key

_ATTACHED = Statement(ATTACHED_ARCHIVES)
_OF_URL = Statement("SELECT url FROM archives WHERE url = :url")
_ATTACH = Statement(
    "INSERT INTO archives (url, attached_ns) VALUES (:url, :attached_ns) ON CONFLICT DO NOTHING"
)
_DETACH = Statement("DELETE FROM archives WHERE url = :url")


def archives_of(log: URL) -> list[URL]:
    """Return the archives of a log; an archive has none.

    Raise `NotFoundError` or `StoreError` if there is no log that can be read.
    """
    if is_archive(log):
        return []
    with (
        opened(log) as connection,
        connection.transaction(),
        closing(connection.ask(_ATTACHED, {})) as rows,
    ):
        return [database_url(url) for (url,) in rows]


def register(store: Store, archive: URL, now_ns: int) -> bool:
    """Attach an archive to a log, in a transaction of its own.

    Return whether it was not attached before.

    Raise `UsageError` if the archive is the log itself.
    """
    if not is_archive(archive) and is_same_database(archive, store.url):
        raise UsageError(
            f"{database_name(archive)} is the log itself: an archive is another database."
        )
    return _change(store, archive, _ATTACH, now_ns)


def unregister(store: Store, archive: URL) -> bool:
    """Detach an archive from a log, in a transaction of its own. Return whether it was attached."""
    return _change(store, archive, _DETACH, 0)


def warn_left_out(archive: URL, error: RecorderError) -> None:
    """Warn that an archive cannot be read: what follows is about the rest."""
    _log.warning("The archive %s is left out: %s", database_name(archive), error)


def _change(store: Store, archive: URL, statement: Statement, now_ns: int) -> bool:
    values = {"url": _stored(archive), "attached_ns": now_ns}
    with store.transaction():
        before = list(store.ask(_OF_URL, values))
        store.run(statement, values)
        return before != list(store.ask(_OF_URL, values))


def _stored(archive: URL) -> str:
    """Return a URL as text, without its passwords. (`URL.set` takes `None` for a part that does not
    change.)
    """
    return archive.difference_update_query(_PASSWORDS)._replace(password=None).render_as_string()
