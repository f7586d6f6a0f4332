"""Faults as they are written on a command line or in a marker: `cut@12`, `stall@3:2s`, `status:429:retry-after=1`.

A form is a name, where it strikes after `@`, and options after `:`. `FORMS` has all of them, as shown to users, with
their allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from recorder.replay.faults.kinds import (
    ALTERED,
    Altered,
    CutAfter,
    CutAt,
    Delay,
    Drip,
    Fragmented,
    Pinged,
    Reordered,
    Slice,
    Stall,
    Status,
    Which,
)
from recorder.replay.faults.transport import Fault
from recorder.wire.websocket_endpoint import UNSENDABLE

FORMS: Mapping[str, str] = {
    "cut": "cut@EVENT or cut@SECONDSs, with :reset for a reset connection",
    "close": "close@EVENT:CODE for a WebSocket",
    "stall": "stall@EVENT or stall@EVENT:SECONDSs",
    "delay": "delay:SECONDSs",
    "slice": "slice, slice:BYTES or slice:utf8",
    "drop": "drop@EVENT or drop:SHARE%",
    "repeat": "repeat@EVENT or repeat:SHARE%",
    "reorder": "reorder@EVENT or reorder:SHARE%",
    "corrupt": "corrupt@EVENT or corrupt:SHARE%",
    "status": "status:CODE, with :retry-after=SECONDS and :times=N",
    "drip": "drip:BYTES for so many a second",
    "fragment": "fragment@EVENT or fragment@EVENT:N for a WebSocket",
    "ping": "ping@EVENT for a WebSocket",
}
"""What there is. Events count from 1; `cut@0` and `stall@0` are before the first."""

SECONDS_LIMIT = 86_400  # a day: who waits longer wants a stall without an end

RANGES = (
    "EVENT counts from 1, for cut, close and stall from 0: before the first. BYTES and N are 1 or more, SHARE 0 to "
    f"100, CODE 400 to 599, of close 1000 to 4999, SECONDS 0 to {SECONDS_LIMIT}; ms may stand for s"
)
"""What may stand in them, for people."""

_FORM = re.compile(r"(?P<name>[a-z]+)(?:@(?P<place>[^:]+))?(?P<options>(?::[^:]+)*)")
_DURATION = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|)")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")
_WHOLE_LIMIT = 999_999_999
_UNITS = {"s": 1.0, "ms": 0.001}


class _InvalidFault(Exception):
    """The form is right, but a value in it is not: the message, if there is one, has the reason."""


def parse_fault(text: str) -> Fault:
    """Parse a fault. Raises `ValueError` with one sentence for a person."""
    form = _FORM.fullmatch(text)
    name = form["name"] if form else re.split("[@:]", text)[0]
    if name not in _PARSERS:
        raise ValueError(f"{text!r} is not a fault: there are {', '.join(FORMS)}.")
    try:
        if form is None:
            raise _InvalidFault
        fault = _PARSERS[name](form["place"], form["options"].split(":")[1:])
    except _InvalidFault as nonsense:
        why = f"{nonsense}; " if str(nonsense) else ""
        raise ValueError(f"{text!r} is not a fault: {why}write {FORMS[name]}.") from None
    return msgspec.structs.replace(fault, form=text)


def _cut(place: str | None, options: list[str]) -> Fault:
    if options not in ([], ["reset"]) or place is None:
        raise _InvalidFault
    outcome = "upstream_reset" if options else "truncated"
    return CutAfter(_whole(place), outcome) if re.fullmatch("-?[0-9]+", place) else CutAt(_seconds(place), outcome)


def _close(place: str | None, options: list[str]) -> Fault:
    code = _whole(_only(options), 1000, 4999)
    if code in UNSENDABLE:
        raise _InvalidFault(f"no Close frame has the code {code}")
    return CutAfter(_whole(place), code=code)


def _fragment(place: str | None, options: list[str]) -> Fault:
    event = _whole(place, least=1)
    return Fragmented(event, _whole(_only(options), least=1)) if options else Fragmented(event)


def _ping(place: str | None, options: list[str]) -> Fault:
    if options:
        raise _InvalidFault
    return Pinged(_whole(place, least=1))


def _stall(place: str | None, options: list[str]) -> Fault:
    event = _whole(place)
    return Stall(event, _seconds(_only(options))) if options else Stall(event)


def _delay(place: str | None, options: list[str]) -> Fault:
    _nowhere(place)
    return Delay(_seconds(_only(options)))


def _slice(place: str | None, options: list[str]) -> Fault:
    _nowhere(place)
    if options == ["utf8"]:
        return Slice(in_characters=True)
    return Slice(_whole(_only(options), least=1)) if options else Slice()


def _altered(how: str, place: str | None, options: list[str]) -> Fault:
    return Altered(_which(place, options), how)


def _reordered(place: str | None, options: list[str]) -> Fault:
    return Reordered(_which(place, options))


def _status(place: str | None, options: list[str]) -> Fault:
    _nowhere(place)
    status = _whole(options[0] if options else None, 400, 599)
    named = dict(option.partition("=")[::2] for option in options[1:])
    if len(named) < len(options) - 1 or not named.keys() <= {"retry-after", "times"}:
        raise _InvalidFault
    times = _whole(named["times"], least=1) if "times" in named else None
    after = [("retry-after", _number(named["retry-after"]))] if "retry-after" in named else []
    return Status(status, tuple(after), times)


def _drip(place: str | None, options: list[str]) -> Fault:
    _nowhere(place)
    return Drip(_whole(_only(options), least=1))


def _which(place: str | None, options: list[str]) -> Which:
    if place is not None:
        if options:
            raise _InvalidFault
        return Which(_whole(place, least=1))
    share = _SHARE.fullmatch(_only(options))
    if share is None:
        raise _InvalidFault
    if float(share[1]) > 100:
        raise _InvalidFault(f"{share[0]} is more than all")
    return Which(share=float(share[1]) / 100)


def _nowhere(place: str | None) -> None:
    if place is not None:
        raise _InvalidFault


def _only(options: list[str]) -> str:
    if len(options) != 1:
        raise _InvalidFault
    return options[0]


def _whole(text: str | None, least: int = 0, most: int = _WHOLE_LIMIT) -> int:
    if text is None or not re.fullmatch("-?[0-9]+", text):
        raise _InvalidFault
    if text.startswith("-") or len(text) > 9 or not least <= int(text) <= most:
        raise _InvalidFault(f"{text} is not between {least} and {most}")
    return int(text)


def _number(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text):
        raise _InvalidFault
    return text


def _seconds(text: str) -> float:
    duration = _DURATION.fullmatch(text)
    if duration is None:
        raise _InvalidFault
    if not duration[2]:
        raise _InvalidFault(f"{text} has no unit, s or ms")
    seconds = float(duration[1]) * _UNITS[duration[2]]
    if not 0 <= seconds <= SECONDS_LIMIT:
        raise _InvalidFault(f"{text} is {'less than nothing' if seconds < 0 else 'over a day'}")
    return seconds


_PARSERS: Mapping[str, Callable[[str | None, list[str]], Fault]] = {
    "cut": _cut,
    "close": _close,
    "stall": _stall,
    "delay": _delay,
    "slice": _slice,
    **{how: partial(_altered, how) for how in ALTERED},
    "reorder": _reordered,
    "status": _status,
    "drip": _drip,
    "fragment": _fragment,
    "ping": _ping,
}
