"""Streams in which one field is wrong, and what an SDK and the rules of its format say of each."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.support.recordings import Json

Path = tuple[Any, ...]


class Judged(NamedTuple):
    """What a program that uses the SDK makes of a stream."""

    said: Any  # None: it stopped
    error: Exception | None
    is_declared: bool  # the types of the SDK take each event as what it says it is


class Comparison(NamedTuple):
    """Where the rules and the SDK differ, by the fault."""

    stopped: int  # faults that stop the program
    missed: list[str]  # of those, the ones that no rule finds
    undeclared: list[str]  # faults that no rule finds, and that the types of the SDK exclude
    false: list[tuple[str, list[str]]]  # findings of what the SDK takes, as if nothing were wrong


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """The way to each value within JSON."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def set_at(value: Any, path: Path, new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


_OTHERS: dict[type, Any] = {str: 7, int: "x", dict: [], list: {}, bool: "x"}


def planted(events: Sequence[Json]) -> Iterator[tuple[str, list[Json]]]:
    """Each field of each event: left out, null, of another kind."""
    for number, event in enumerate(events):
        for path in paths(event):
            where = f"{number} {event.get('type') or event.get('event_type')} {'.'.join(map(str, path))}"
            for fault in ("missing", "null", "another kind"):
                changed = copy.deepcopy(list(events))
                _plant(changed[number], path, fault)
                yield f"{where} {fault}", changed


def _plant(holder: Any, path: Path, fault: str) -> None:
    for key in path[:-1]:
        holder = holder[key]
    if fault == "missing":
        del holder[path[-1]]
    else:
        holder[path[-1]] = None if fault == "null" else _OTHERS.get(type(holder[path[-1]]))


def compared(
    events: Sequence[Json],
    judged: Callable[[Sequence[Json]], Judged],
    found: Callable[[Sequence[Json]], list[str]],
    unjudged: re.Pattern[str] = re.compile("(?!)"),
) -> Comparison:
    """All faults of one field, fed to the SDK and to the rules; places that nobody judges may
    differ.
    """
    good = judged(events)
    told = Comparison(0, [], [], [])
    for where, changed in planted(events):
        sdk, findings = judged(changed), found(changed)
        if sdk.error is not None:
            told = told._replace(stopped=told.stopped + 1)
        if findings:
            if sdk.is_declared and sdk.said == good.said:
                told.false.append((where, findings))
        elif sdk.error is not None:
            told.missed.append(where)
        elif not sdk.is_declared and not unjudged.search(where):
            told.undeclared.append(where)
    return told
