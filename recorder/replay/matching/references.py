"""References: ids by which one part of a request refers to another, such as that which joins a call
and its result.

Rules of this file:

* Whoever made an id, only which of them are equal counts: each is replaced by a number, in the
  order in which they stand.
* An id that is not there has the number that it would have. A call without one has a number of its
  own, and a result without one that of the first call of its name that has no result yet. So a
  client that makes ids and one that leaves them out ask the same.
* Pure; never raises on what a client sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple


class ReferencePath(NamedTuple):
    """Where ids stand."""

    path: Sequence[str]
    beside: frozenset[str]  # members that stand there too
    found_by: str = ""  # a member: equal ones find the call of a result without an id


class _Holder(NamedTuple):
    """An object at the end of a path, before its last step."""

    value: dict[str, Any]
    key: str  # of the member that it is: `functionCall`, `functionResponse`
    name: str  # of the id in it


class _Numbers:
    """The numbers that were given, and the calls that have no result yet, by what finds them."""

    def __init__(self) -> None:
        self._by_id: dict[str, int] = {}
        self._last = -1
        self._waiting: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)

    def of_id(self, id: str) -> int:
        """Return the number of an id."""
        if id not in self._by_id:
            self._by_id[id] = self._next()
        return self._by_id[id]

    def of_absent(self, holder: _Holder, member: str) -> int:
        """Return the number that an absent id would have."""
        for key, number in self._waiting[member]:
            if key != holder.key:
                return number
        return self._next()

    def note(self, holder: _Holder, member: str, number: int) -> None:
        """Note a call, or that the call of a result is no longer to be found."""
        others = [each for each in self._waiting[member] if each[1] != number]
        if len(others) == len(self._waiting[member]):
            others.append((holder.key, number))
        self._waiting[member] = others

    def _next(self) -> int:
        self._last += 1
        return self._last


def number_references(body: Any, paths: Iterable[ReferencePath]) -> None:
    """Put numbers in the place of ids that refer to each other, in the order in which they stand."""
    numbers = _Numbers()
    for each in paths:
        for holder in _holders(body, each.path):
            if each.beside <= holder.value.keys():
                _number(holder, numbers, holder.value.get(each.found_by) if each.found_by else None)


def _number(holder: _Holder, numbers: _Numbers, member: Any) -> None:
    id = holder.value.get(holder.name)
    if isinstance(id, str) and id:
        number = numbers.of_id(id)
    elif not id and isinstance(member, str):
        number = numbers.of_absent(holder, member)
    else:
        return
    if isinstance(member, str):
        numbers.note(holder, member, number)
    holder.value[holder.name] = f"<reference {number}>"


def _holders(value: Any, path: Sequence[str], key: str = "") -> Iterator[_Holder]:
    """Yield the objects that may have a member at `path`."""
    step, *rest = path
    if not rest:
        if isinstance(value, dict):
            yield _Holder(value, key, step)
    elif step == "*" and isinstance(value, list):
        for each in value:
            yield from _holders(each, rest, key)
    elif isinstance(value, dict):
        for name, member in value.items() if step == "*" else [(step, value.get(step))]:
            yield from _holders(member, rest, name)
