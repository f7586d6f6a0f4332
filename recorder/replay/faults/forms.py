"""Faults as they are written on a command line or in a marker: `cut@12`, `stall@3:2s`,
`status:429:retry-after=1`.

A form is a name, where it strikes after `@`, and options after `:`. `FORMS` has all of them, as
shown to users, with their allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from recorder.replay.faults.kinds import (
    ALTERED,
    Altered,
    CutAfter,
    CutAt,
    Delay,
    Drip,
    EndAfter,
    ErrorAfter,
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
    "end": "end@EVENT for a clean end",
    "error": "error@EVENT:CODE for an error in the stream",
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
"""What there is. Events count from 1; `cut@0`, `end@0`, `error@0` and `stall@0` are before the
first.
"""

SECONDS_LIMIT = 86_400  # a day: who waits longer wants a stall without an end

RANGES = (
    "EVENT counts from 1, for cut, close, end, error and stall from 0: before the first. BYTES and N are "
    f"1 or more, SHARE 0 to 100, CODE 400 to 599, of close 1000 to 4999, SECONDS 0 to {SECONDS_LIMIT}; ms may "
    "stand for s"
)
"""What may stand in them, for people."""

_FORM = re.compile(r"(?P<name>[a-z]+)(?:@(?P<place>[^:]+))?(?P<options>(?::[^:]+)*)")
_DURATION = re.compile(r"(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|)")
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")
_WHOLE_LIMIT = 999_999_999
_UNITS = {"s": 1.0, "ms": 0.001}


class _InvalidFault(Exception):
    """The form is right, but a value in it is not: the message, if there is one, has the reason."""


class _Form(NamedTuple):
    """A fault as it is written, after its name."""

    place: str | None
    options: list[str]

    def event(self, least: int = 0) -> int:
        return _whole(self.place, least)

    def placeless(self) -> _Form:
        if self.place is not None:
            raise _InvalidFault
        return self

    def up_to(self, limit: int) -> list[str]:
        """Return the options, if they are not more than that."""
        if len(self.options) > limit:
            raise _InvalidFault
        return self.options

    def only(self) -> str:
        """Return the one option."""
        if len(self.options) != 1:
            raise _InvalidFault
        return self.options[0]

    def which(self) -> Which:
        if self.place is not None:
            self.up_to(0)
            return Which(self.event(1))
        share = _SHARE.fullmatch(self.only())
        if share is None:
            raise _InvalidFault
        if float(share[1]) > 100:
            raise _InvalidFault(f"{share[0]} is more than all")
        return Which(share=float(share[1]) / 100)


def parse_fault(text: str) -> Fault:
    """Parse a fault. Raises `ValueError` with one sentence for a person."""
    form = _FORM.fullmatch(text)
    name = form["name"] if form else re.split("[@:]", text)[0]
    if name not in _PARSERS:
        raise ValueError(f"{text!r} is not a fault: there are {', '.join(FORMS)}.")
    try:
        if form is None:
            raise _InvalidFault
        fault = _PARSERS[name](_Form(form["place"], form["options"].split(":")[1:]))
    except _InvalidFault as nonsense:
        why = f"{nonsense}; " if str(nonsense) else ""
        raise ValueError(f"{text!r} is not a fault: {why}write {FORMS[name]}.") from None
    return msgspec.structs.replace(fault, form=text)


def _cut(form: _Form) -> Fault:
    if form.options not in ([], ["reset"]) or form.place is None:
        raise _InvalidFault
    outcome = "upstream_reset" if form.options else "truncated"
    if re.fullmatch("-?[0-9]+", form.place):
        return CutAfter(form.event(), outcome)
    return CutAt(_seconds(form.place), outcome)


def _close(form: _Form) -> Fault:
    code = _whole(form.only(), 1000, 4999)
    if code in UNSENDABLE:
        raise _InvalidFault(f"no Close frame has the code {code}")
    return CutAfter(form.event(), code=code)


def _end(form: _Form) -> Fault:
    form.up_to(0)
    return EndAfter(form.event())


def _error(form: _Form) -> Fault:
    return ErrorAfter(form.event(), _whole(form.only(), 400, 599))


def _slice(form: _Form) -> Fault:
    if form.placeless().options == ["utf8"]:
        return Slice(in_characters=True)
    return Slice(_count(form.only())) if form.options else Slice()


def _ping(form: _Form) -> Fault:
    form.up_to(0)
    return Pinged(form.event(1))


def _altered(how: str, form: _Form) -> Fault:
    return Altered(form.which(), how)


def _status(form: _Form) -> Fault:
    options = form.placeless().options
    status = _whole(options[0] if options else None, 400, 599)
    named = dict(option.partition("=")[::2] for option in options[1:])
    if len(named) < len(options) - 1 or not named.keys() <= {"retry-after", "times"}:
        raise _InvalidFault
    times = _count(named["times"]) if "times" in named else None
    after = [("retry-after", _number(named["retry-after"]))] if "retry-after" in named else []
    return Status(status, tuple(after), times)


def _whole(text: str | None, least: int = 0, most: int = _WHOLE_LIMIT) -> int:
    if text is None or not re.fullmatch("-?[0-9]+", text):
        raise _InvalidFault
    if text.startswith("-") or len(text) > 9 or not least <= int(text) <= most:
        raise _InvalidFault(f"{text} is not between {least} and {most}")
    return int(text)


def _count(text: str) -> int:
    return _whole(text, least=1)


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


_PARSERS: Mapping[str, Callable[[_Form], Fault]] = {
    "cut": _cut,
    "close": _close,
    "end": _end,
    "error": _error,
    "stall": lambda form: Stall(form.event(), *map(_seconds, form.up_to(1))),
    "delay": lambda form: Delay(_seconds(form.placeless().only())),
    "slice": _slice,
    **{how: partial(_altered, how) for how in ALTERED},
    "reorder": lambda form: Reordered(form.which()),
    "status": _status,
    "drip": lambda form: Drip(_count(form.placeless().only())),
    "fragment": lambda form: Fragmented(form.event(1), *map(_count, form.up_to(1))),
    "ping": _ping,
}
