"""The state of the recorder that wrote an exchange, from its journal and from the server's last
sign of life.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from sqlalchemy import URL

from recorder.archive.place import database_of, is_archive
from recorder.commands.ops.journals import GONE_NS, state
from recorder.shipping.status import collected_root
from recorder.store.engine import address_of
from recorder.store.location import journal_root
from recorder.store.maintain.upkeep import opened
from recorder.store.maintain.verify.log import Writer
from recorder.store.sql import FORMS, Statement

_SILENCE = Statement(
    lambda engine: (
        f"SELECT {FORMS[engine].silence_ns.format(heard='coalesce(seen_ns, 0)')} FROM ingest_offsets "
        "WHERE recorder_id = :recorder_id"
    )
)


def writer_of(root: Path) -> Callable[[str], Writer]:
    """Return a function from recorder id to state, from the journals in `root`.

    Each journal is read once.
    """
    return cache(lambda name: state(root / name) if name and Path(name).name == name else "gone")


def writer_at(url: URL) -> Callable[[str], Writer]:
    """Return such a function for a database; on a server it knows recorders of other machines, too."""
    root = journal_root(database_of(url))
    journal, collected = writer_of(root), writer_of(collected_root(root))

    def here(name: str) -> Writer:
        return collected(name) if journal(name) == "gone" else journal(name)

    if is_archive(url) or address_of(url).is_local:
        return here
    return cache(lambda name: _elsewhere(url, name) if here(name) == "gone" else here(name))


def _elsewhere(url: URL, recorder_id: str) -> Writer:
    with opened(url) as reader:
        for (silent_ns,) in reader.ask(_SILENCE, {"recorder_id": recorder_id}):
            return "alive" if silent_ns <= GONE_NS else "left"
    return "gone"
