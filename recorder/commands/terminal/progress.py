"""Progress bars on stderr, where they can be redrawn. Elsewhere rich is not loaded, which takes a tenth of a start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from recorder.commands.terminal.output import can_redraw


class Update(Protocol):
    """The means of a command to move its bar, as in `rich.progress.Progress.update`."""

    def __call__(
        self,
        *,
        completed: float | None = None,
        total: float | None = None,
        advance: float | None = None,
        description: str | None = None,
    ) -> None: ...


@contextmanager
def progress_bar(description: str, total: float | None = None) -> Iterator[Update]:
    """Show a bar while the block runs, and remove it at the end. Without a `total` it moves, and says no share."""
    if not can_redraw():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        yield partial(progress.update, progress.add_task(description, total=total))


def _nothing(
    *,
    completed: float | None = None,
    total: float | None = None,
    advance: float | None = None,
    description: str | None = None,
) -> None:
    pass
