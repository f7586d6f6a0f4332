"""What a test says of its recordings: its markers, the command line and the ini file → settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.errors import UsageError
from recorder.proxy.routing import Upstream, parse_upstream
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import Fault
from recorder.replay.matching.noise import Rules
from recorder.testing.match_config import rules, shown
from recorder.testing.redacting import Redactions

SUFFIX = ".sse.jsonl"
NAME_LIMIT = 120  # characters of a file's name: some file systems take 143 bytes

KEYWORDS = ("cassette", "session", "speed", "fault", "upstream", "match", "allow_network")
_SOURCES = frozenset({"cassette", "session"})
_UNFIT = re.compile(r"[^\w.\[\]=+-]", re.ASCII)


class Settings(NamedTuple):
    """Of one test."""

    test: str  # its node id
    name: str  # of it alone
    began_ns: int  # when the run of pytest did, in whatever process
    mode: str
    cassette: Path
    is_own: bool  # the cassette: where that of this test is, if no marker says another
    is_there: bool  # the cassette; looked for once, since another process may be about to write it
    shown: str  # its path, as a person calls it
    session: str | None
    speed: float | None
    faults: list[Fault]
    upstreams: list[Upstream]
    rules: Rules
    redactions: Redactions
    allows_network: bool  # else clients that go past a replay are refused, and named

    @property
    def names(self) -> frozenset[str]:
        """What it may be called in a cassette: cassettes without a label have the short one."""
        return frozenset({self.test, self.name})

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
        return self.may_record and not (self.mode == "once" and self.is_there)

    def how_to(self, mode: str) -> str:
        """The command that records it."""
        return f"pytest --recorder-mode {mode} {shlex.quote(self.test)}"


def check(config: pytest.Config) -> None:
    """Raises `UsageError` for what makes no sense of the command line, the ini file and `recorder.toml`."""
    _speed(config.getoption("recorder_speed"))
    _upstreams(config, ())
    rules(config, {})
    Redactions(config.getini("recorder_redact"))


def settings(item: pytest.Item, mode: str, began_ns: int) -> Settings:
    """Raises `UsageError` for what makes no sense."""
    told = _told(item)
    own = _own_cassette(item)
    cassette = _cassette(item, told["cassette"]) if told.get("cassette") is not None else own
    session = told.get("session")
    if session is not None and not isinstance(session, str):
        raise UsageError(f"session={session!r} of the recorder marker is no name or id of a session.")
    return Settings(
        test=item.nodeid,
        name=item.name,
        began_ns=began_ns,
        mode=mode,
        cassette=cassette,
        is_own=cassette == own,
        is_there=cassette.exists(),
        shown=shown(cassette, item.config.rootpath),
        session=session,
        speed=_speed(told.get("speed", item.config.getoption("recorder_speed"))),
        faults=_faults(_texts(told, "fault")),
        upstreams=_upstreams(item.config, _texts(told, "upstream")),
        rules=rules(item.config, told.get("match", {})),
        redactions=Redactions(item.config.getini("recorder_redact")),
        allows_network=_switch(told.get("allow_network", item.config.getini("recorder_allow_network"))),
    )


def _upstreams(config: pytest.Config, own: Sequence[str]) -> list[Upstream]:
    return [parse_upstream(each) for each in (*config.getini("recorder_upstream"), *own)]


def _told(item: pytest.Item) -> Mapping[str, Any]:
    """The keywords of all markers of a test; what stands nearer to it counts."""
    told: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("recorder"))):
        odd = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in KEYWORDS)]
        if odd:
            raise UsageError(f"The recorder marker takes no {', '.join(odd)}: its keywords are {', '.join(KEYWORDS)}.")
        if marker.kwargs.keys() >= _SOURCES:
            raise UsageError("The recorder marker takes a cassette or a session, not both.")
        if marker.kwargs.keys() & _SOURCES:
            told = {name: value for name, value in told.items() if name not in _SOURCES}
        told |= marker.kwargs
    return told


def _own_cassette(item: pytest.Item) -> Path:
    folder = Path(item.config.getini("recorder_cassette_dir"))
    return item.path.parent / folder / item.path.stem / f"{_file_name(item)}{SUFFIX}"


def _cassette(item: pytest.Item, named: Any) -> Path:
    """A path, beside the test file unless it is absolute."""
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


def _speed(told: Any) -> float | None:
    if told in ("max", None):
        return None
    try:
        speed = float(told)
    except (TypeError, ValueError):
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(f"{told!r} is not a speed: give 1 for the recorded one, a factor, or max for no pauses.")
    return speed


def _switch(told: Any) -> bool:
    if not isinstance(told, bool):
        raise UsageError(f"allow_network={told!r} of the recorder marker is neither True nor False.")
    return told


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
