"""Progress bars on stderr, where they can be redrawn. Elsewhere rich is not loaded, which takes a
tenth of a start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from recorder.commands.terminal.output import is_dumb

Update = Callable[..., None]
"""Move a bar, by arguments of `rich.progress.Progress.update`: completed, total, advance,
description.
"""


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator[Update]:
    """Show a bar while the block runs, and remove it at the end.

    Without a `total` it moves, and says no share.
    """
    if is_dumb() or not sys.stderr.isatty():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield partial(progress.update, progress.add_task(description, total=total))
