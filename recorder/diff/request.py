"""Level `request`: method, path, query and headers, and the body path by path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from recorder.diff.compared import ComparedRecording
from recorder.diff.pairing import directories_of
from recorder.diff.report import DIFFERENCES_LIMIT, Change, Difference, LevelReport, Terms, found, unknown
from recorder.replay.matching.fingerprint import NO_JSON, Fingerprint, json_value, parameters, place
from recorder.replay.matching.miss import differences
from recorder.wire.dialects.canonical import canonical
from recorder.wire.redaction.headers import REDACTED


def request(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> LevelReport:
    """Compare the requests. A stream that was stored alone has none."""
    lacking = [name for name, side in (("A", a), ("B", b)) if _is_unknown(side)]
    if lacking:
        verb = "does" if len(lacking) == 1 else "do"
        return unknown("request", f"{' and '.join(lacking)} {verb} not say what was asked")
    return found("request", _differences(a, b, terms))


def _is_unknown(side: ComparedRecording) -> bool:
    return side.exchange.method != "GET" and not side.request.headers and not side.request.body


def _differences(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    bodies = _bodies(a, b, terms)
    yield from _heads(a, b, terms)
    if NO_JSON not in bodies:
        yield from compared("", *bodies)
    elif a.request.body != b.request.body:
        one, other = (f"{len(side.request.body):,} bytes" for side in (a, b))
        yield Difference("(the body)", "changed", one, other)


def _heads(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> Iterator[Difference]:
    one, other = (place(side.request, terms.rules) for side in (a, b))
    yield from compared("method", one.method, other.method)
    if terms.exact:
        yield from compared("path and query", a.request.target, b.request.target)
    else:
        if one.path != other.path:
            yield from compared("path", _path(a), _path(b))
        yield from compared("query", *_queries(a, b, terms))
    one_by_name, other_by_name = (_headers(side, terms) for side in (a, b))
    for name in sorted({*one_by_name, *other_by_name}):
        yield from compared(f"header {name}", one_by_name.get(name), other_by_name.get(name))


def _queries(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters of both. Of one whose value is not kept, only whether it is there is known."""
    one, other = (_parameters(side, terms) for side in (a, b))
    for name in one.keys() & other.keys():
        if REDACTED in one[name] or REDACTED in other[name]:
            one[name] = other[name] = REDACTED
    return one, other


def _parameters(side: ComparedRecording, terms: Terms) -> dict[str, str]:
    query = side.request.target.partition("#")[0].partition("?")[2]
    return joined_by_name(parameters(query, terms.rules))


def joined_by_name(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values of fields by name; of a name that comes several times, all with commas between."""
    found: dict[str, str] = {}
    for name, value in fields:
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _path(side: ComparedRecording) -> str:
    return side.request.target.partition("?")[0]


def _headers(side: ComparedRecording, terms: Terms) -> dict[str, str]:
    headers = side.request.headers if terms.exact else terms.rules.headers(side.request.headers)
    return joined_by_name(sorted((name.lower(), value) for name, value in headers))


def _bodies(a: ComparedRecording, b: ComparedRecording, terms: Terms) -> tuple[Any, Any]:
    if terms.exact:
        return json_value(a.request.body), json_value(b.request.body)
    directories = directories_of((a, b), terms.rules)
    one = Fingerprint(a.compared_request, terms.rules, directories)
    other = Fingerprint(b.compared_request, terms.rules, directories)
    return one.value(), other.value()


def compared(where: str, a: Any, b: Any, a_pos: int | None = None, b_pos: int | None = None) -> Iterator[Difference]:
    """Yield the differences of two JSON values. `None` as a whole is nothing."""
    if canonical(a) == canonical(b):
        return
    for each in differences(a, b, DIFFERENCES_LIMIT):
        one, other = each.recorded, each.requested
        if not each.path:
            one, other = (None if a is None else one), (None if b is None else other)
        change: Change = "changed"
        if one is None:
            change = "added"
        elif other is None:
            change = "missing"
        path = " · ".join(filter(None, (where, _OURS.sub(r"\1", each.path))))
        yield Difference(path or "(the body)", change, one, other, a_pos, b_pos)


_OURS = re.compile(r'\["\(([a-z ]+)\)"\]')
"""Steps of paths that are not members of what was sent: the lines of an event beside its data."""
