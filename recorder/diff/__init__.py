"""The comparison of two recordings: their exchanges are paired, and compared level by level.

Must not know: where recordings come from. Pure: recordings with their events in, a report out; no
recording makes it raise.

* Each level owns fields of a recording, so that one change is reported once
  (`recorder.diff.noise_filter`). A change is reported at several levels only if it is several
  changes: a word that comes in more deltas than before is also one event more.
* The rules of noise are data (`recorder.replay.matching.noise` for requests,
  `recorder.diff.noise_filter` for responses). With `exact`, noise counts too. Of ciphertext only
  the length is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from recorder.diff.compared import ComparedRecording, compared_sides
from recorder.diff.levels import TOLERANCE, answer, body, item_pairs, request, timing, tools, usage
from recorder.diff.pairing import pair_exchanges
from recorder.diff.report import ALL, DEFAULT, EXACT, Level, LevelReport, Pair, Report, Terms, Which
from recorder.diff.sequence import events
from recorder.diff.shape import shape
from recorder.model.events import Recording

__all__ = ["ALL", "DEFAULT", "EXACT", "TOLERANCE", "Level", "Report", "Terms", "diff"]

_LEVELS: Mapping[Level, Callable[[ComparedRecording, ComparedRecording, Terms], LevelReport]] = {
    "request": request,
    "answer": answer,
    "tools": tools,
    "usage": usage,
    "timing": timing,
    "events": events,
    "bytes": body,
    "shape": shape,
}

_OF_ITEMS: frozenset[Level] = frozenset({"answer", "tools"})


def diff(
    a: Iterable[Recording],
    b: Iterable[Recording],
    only: Sequence[Level] = (),
    terms: Terms | None = None,
    continued: tuple[Sequence[Recording], Sequence[Recording]] = ((), ()),
) -> Report:
    """Compare B with A, at the levels of `only`; else at all but the shape, the bytes only if
    nothing is noise.

    `continued` are further recordings of each side, which its requests may continue.
    """
    terms = terms or Terms()
    wanted = only or (EXACT if terms.exact else DEFAULT)
    chosen = tuple(level for level in ALL if level in wanted)
    one, other = compared_sides((a, b), continued)
    found = pair_exchanges(one, other, terms.rules)
    has_items = not _OF_ITEMS.isdisjoint(chosen)
    pairs = []
    for a_side, b_side, how in found.pairs:
        levels = [_LEVELS[level](a_side, b_side, terms) for level in chosen]
        items = item_pairs(a_side, b_side) if has_items else []
        pairs.append(Pair(_which(a_side), _which(b_side), how, levels, items))
    return Report(
        chosen,
        pairs,
        [_which(each) for each in found.only_a],
        [_which(each) for each in found.only_b],
    )


def _which(side: ComparedRecording) -> Which:
    exchange = side.exchange
    return Which(
        side.number, exchange.exchange_id, f"{exchange.method} {exchange.target.partition('?')[0]}"
    )
