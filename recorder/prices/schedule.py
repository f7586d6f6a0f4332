"""The changes of the table that a new price list makes: rows to delete, and rows to add.

Rules of this file:

* Pure: the rows that there are, the new list, and the time from which it counts.
* What an exchange has cost stays what it is. Before that time a new list only prices what had no
  price: everything of an upstream that has no prices, and of others a pattern that the list did not
  have, ranked after all others.
* From that time on the new list counts, with the dates that its own prices have. A card that
  continues unchanged keeps its rows. So the same list again changes nothing.
* Entries of one's own that have a date count as they stand, also for the past: their owner has
  chosen it.
* A row is closed by deleting it and adding it with another end, in one transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from recorder.model.prices import PriceRow
from recorder.prices.catalog import FILLER_RANK, OWN_RANK


class Changes(NamedTuple):
    """The rows to delete, and then those to add."""

    deleted: list[PriceRow]
    added: list[PriceRow]


def changes(
    there: Sequence[PriceRow], new: Sequence[PriceRow], sources: Sequence[str], at_ns: int
) -> Changes:
    """Return the changes that the new rows of some sources make from a time on.

    Other sources keep their rows.
    """
    wanted = [row for row in there if row.source not in sources]
    for provider in dict.fromkeys(row.provider for row in (*there, *new)):
        old, fresh = ([row for row in rows if row.provider == provider] for rows in (there, new))
        base = FILLER_RANK * (1 + max((max(0, row.rank) // FILLER_RANK for row in old), default=0))
        for number, source in enumerate(sources):
            now, then = ([row for row in rows if row.source == source] for rows in (old, fresh))
            wanted += _timelines(now, then, at_ns, base + number * FILLER_RANK) if old else then
    before, after = set(there), set(wanted)
    return Changes(
        [row for row in there if row not in after], [row for row in wanted if row not in before]
    )


def _timelines(
    old: Sequence[PriceRow], new: Sequence[PriceRow], at_ns: int, filler: int
) -> list[PriceRow]:
    """Return the rows of one provider and source: the old ones up to a time, the new ones from then
    on.
    """
    known = {row.model for row in old}
    olds, news = _grouped(old), _grouped(new)
    found: list[PriceRow] = []
    for group in {**olds, **news}:
        before, after = olds.get(group, []), news.get(group, [])
        start_ns = 0 if _have_dates(after) else at_ns
        found += _joined(before, after, start_ns)
        if not before and after[0].model not in known:
            for row in _clipped(after, 0, start_ns):
                rank = row.rank if row.rank >= 0 else row.rank - OWN_RANK
                found.append(msgspec.structs.replace(row, rank=filler + rank))
    return found


def _have_dates(rows: Sequence[PriceRow]) -> bool:
    """Return whether all of some entries of one's own have a date."""
    return bool(rows) and all(
        row.rank < 0 and (row.valid_from_ns > 0 or row.valid_to_ns is not None) for row in rows
    )


def _joined(before: Sequence[PriceRow], after: Sequence[PriceRow], at_ns: int) -> list[PriceRow]:
    """Return the cards before and after a time; one that continues unchanged is not cut in two."""
    past, future = _clipped(before, 0, at_ns), _clipped(after, at_ns, None)
    last = [row for row in past if row.valid_to_ns == at_ns]
    first = [row for row in future if row.valid_from_ns == at_ns]
    if last and _card(last) == _card(first):
        past = [row for row in past if row not in last]
        past += [msgspec.structs.replace(row, valid_to_ns=first[0].valid_to_ns) for row in last]
        future = [row for row in future if row not in first]
    there = {_content(row): row for row in before}
    return [there.get(_content(row), row) for row in past + future]


def _card(rows: Iterable[PriceRow]) -> set[Hashable]:
    return {(row.unit, row.rank, row.usd_per_million) for row in rows}


def _content(row: PriceRow) -> PriceRow:
    """Return a row without the version of its source: a newer one with the same price changes
    nothing.
    """
    return msgspec.structs.replace(row, source_version="")


def _clipped(rows: Iterable[PriceRow], start_ns: int, end_ns: int | None) -> list[PriceRow]:
    """Return the parts of rows in a span of time."""
    found = []
    for row in rows:
        begin = max(row.valid_from_ns, start_ns)
        end = min((each for each in (row.valid_to_ns, end_ns) if each is not None), default=None)
        if end is None or begin < end:
            found.append(msgspec.structs.replace(row, valid_from_ns=begin, valid_to_ns=end))
    return found


def _grouped(rows: Iterable[PriceRow]) -> Mapping[Hashable, list[PriceRow]]:
    """Return rows by what those have in common that follow one another in time."""
    found: defaultdict[Hashable, list[PriceRow]] = defaultdict(list)
    for row in rows:
        found[
            row.model, row.service_tier, row.above_input_tokens, row.daily_from_s, row.daily_to_s
        ].append(row)
    return found
