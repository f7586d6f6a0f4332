"""What a test says of its recordings: its markers, the command line and the ini file → settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.errors import UsageError
from recorder.matching.noise import DEFAULT_RULES, Rules
from recorder.routing import Upstream, parse_upstream
from recorder.transports.fault_forms import parse_fault
from recorder.transports.faults import Fault

SUFFIX = ".sse.jsonl"
NAME_LIMIT = 120  # characters of a file's name: some file systems take 143 bytes

_KEYWORDS = ("cassette", "session", "speed", "fault", "upstream", "match")
_SOURCES = frozenset({"cassette", "session"})
_UNFIT = re.compile(r"[^\w.\[\]=+-]", re.ASCII)


class Settings(NamedTuple):
    """Of one test."""

    test: str  # its node id
    mode: str
    cassette: Path
    shown: str  # the path of the cassette, as a person calls it
    session: str | None
    speed: float | None
    faults: list[Fault]
    upstreams: list[Upstream]
    rules: Rules

    @property
    def source(self) -> str:
        """What answers, for a message."""
        return f"session {self.session}" if self.session is not None else self.shown

    @property
    def may_record(self) -> bool:
        """Sessions are recorded by other means, and a stream with a fault is not what the upstream sent."""
        return self.mode != "none" and self.session is None and not self.faults

    @property
    def replays(self) -> bool:
        """Whether what the cassette holds is given as an answer."""
        return not self.may_record or self.mode in ("once", "new_episodes")

    @property
    def records(self) -> bool:
        """Whether what is not answered is asked of the upstream."""
        return self.may_record and not (self.mode == "once" and self.cassette.exists())

    def how_to(self, mode: str) -> str:
        """The command that records it."""
        return f"pytest --recorder-mode {mode} {shlex.quote(self.test)}"


def settings(item: pytest.Item, mode: str) -> Settings:
    """Raises `UsageError` for what makes no sense."""
    told = _told(item)
    cassette = _cassette(item, told.get("cassette"))
    session = told.get("session")
    if session is not None and not isinstance(session, str):
        raise UsageError(f"session={session!r} of the recorder marker is no name or id of a session.")
    return Settings(
        test=item.nodeid,
        mode=mode,
        cassette=cassette,
        shown=_shown(cassette, item.config.rootpath),
        session=session,
        speed=_speed(told.get("speed", item.config.getoption("recorder_speed"))),
        faults=_faults(_texts(told, "fault")),
        upstreams=[
            parse_upstream(each) for each in (*item.config.getini("recorder_upstream"), *_texts(told, "upstream"))
        ],
        rules=_rules(told.get("match", DEFAULT_RULES)),
    )


def _told(item: pytest.Item) -> Mapping[str, Any]:
    """The keywords of all markers of a test; what stands nearer to it counts."""
    told: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("recorder"))):
        odd = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in _KEYWORDS)]
        if odd:
            raise UsageError(f"The recorder marker takes no {', '.join(odd)}: its keywords are {', '.join(_KEYWORDS)}.")
        if marker.kwargs.keys() >= _SOURCES:
            raise UsageError("The recorder marker takes a cassette or a session, not both.")
        if marker.kwargs.keys() & _SOURCES:
            told = {name: value for name, value in told.items() if name not in _SOURCES}
        told |= marker.kwargs
    return told


def _cassette(item: pytest.Item, named: Any) -> Path:
    """A path, beside the test file unless it is absolute."""
    if named is None:
        folder = Path(item.config.getini("recorder_cassette_dir"))
        return item.path.parent / folder / item.path.stem / f"{_file_name(item)}{SUFFIX}"
    if not isinstance(named, str | Path):
        raise UsageError(f"cassette={named!r} of the recorder marker is no path.")
    return item.path.parent / named


def _file_name(item: pytest.Item) -> str:
    """The name of a test, its classes included, that every file system takes and no other test has."""
    name = ".".join(item.nodeid.removeprefix(item.nodeid.split("::")[0])[2:].split("::"))
    fit = _UNFIT.sub("-", name)
    if fit == name and len(name) <= NAME_LIMIT:
        return name
    return f"{fit[:NAME_LIMIT]}-{sha256(name.encode()).hexdigest()[:8]}"


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _speed(told: Any) -> float | None:
    if told in ("max", None):
        return None
    try:
        speed = float(told)
    except (TypeError, ValueError):
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(f"{told!r} is no speed: give 1 for the recorded one, a factor, or max for no pauses.")
    return speed


def _texts(told: Mapping[str, Any], keyword: str) -> list[str]:
    """One text or several."""
    given = told.get(keyword, [])
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise UsageError(f"{keyword}={given!r} of the recorder marker is no text or list of texts.")
    return list(texts)


def _faults(texts: list[str]) -> list[Fault]:
    try:
        return [parse_fault(text) for text in texts]
    except ValueError as error:
        raise UsageError(str(error)) from None


def _rules(told: Any) -> Rules:
    if not isinstance(told, Rules):
        raise UsageError(f"match={told!r} of the recorder marker is no recorder.matching.noise.Rules.")
    return told
