"""The shell completion of session names, the newest first.

Nothing is ever printed: a shell shows the output of a completion between two keys.
"""

from __future__ import annotations

import asyncio
import shlex

import click

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.errors import RecorderError
from recorder.model.events import LATEST
from recorder.store.queries.session_named import names_beginning

MOST = 100  # names: more than anyone looks through


def session_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names that begin so, and `latest`; without names that a shell would have to quote."""
    try:
        names = asyncio.run(_names(ctx.params.get("db"), incomplete))
    except (RecorderError, OSError):
        names = []
    found = [name for name in dict.fromkeys(names) if shlex.quote(name) == name]
    return [*([LATEST] if LATEST.startswith(incomplete) else []), *found]


async def _names(db: str | None, beginning: str) -> list[str]:
    async with await open_log(chosen_url(db)) as log:
        return await names_beginning(log, beginning, MOST)
