"""Level `usage`: the tokens as each side reports them at its end, and on the way there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.diff.compared import NOT_JSON, ComparedRecording, json_of
from recorder.diff.noise import in_usage
from recorder.diff.noise_filter import Hush
from recorder.diff.report import Difference, LevelReport, Measure, Terms, found, ratio
from recorder.diff.request import compared
from recorder.model.facts import Usage


def usage(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Counts by their common names; then what else the provider's own report says."""
    measures = [_measure(name, getattr(a.usage, name), getattr(b.usage, name)) for name in Usage.__struct_fields__]
    known = [each for each in measures if each.a is not None or each.b is not None]
    differing = {(str(each.a), str(each.b)) for each in known if each.differs}
    further = list(_further(a, b, differing, terms))
    if not differing and not further:
        further = list(_earlier(a, b, terms))
    return found("usage", further, known)


def _measure(name: str, a: int | None, b: int | None) -> Measure:
    return Measure(name.removesuffix("_tokens"), "tokens", a, b, ratio(a, b), a != b)


def _further(
    a: ComparedRecording, b: ComparedRecording, told: set[tuple[str, str]], terms: Terms
) -> Iterator[Difference]:
    """Less the fields that say in the provider's words what was counted already."""
    for each in compared("", *(_report(side, side.usage.usage_raw, terms) for side in (a, b))):
        if (str(each.a), str(each.b)) not in told:
            yield each


def _earlier(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    """Reports before the last; of streams that are cut otherwise there are more or fewer of them."""
    if len(a.reports) != len(b.reports):
        return
    pairs = [
        (number, *pair) for number, pair in enumerate(zip(a.reports, b.reports, strict=True)) if pair[0] != pair[1]
    ]
    for number, one, other in pairs:
        yield from compared(f"report {number}", _report(a, one, terms), _report(b, other, terms))


def _report(side: ComparedRecording, raw: str | None, terms: Terms) -> Any:
    value = json_of(None if raw is None else raw.encode("utf-8", "surrogatepass"))
    return {} if value is NOT_JSON else Hush(in_usage(side.exchange.api), exact=terms.exact).quiet(value, (), ()).value
