"""The settings of a test: its markers, the command line, the ini file, and the `[match]` table of
the project.

The table is that of `recorder.toml` in pytest's root directory, which `recorder mock` reads when it
is run there, or of the file that the ini key `recorder_match` names. A user's own settings do not
count: a test is the same for everybody. Nothing but this table is read of such a file, which needs
no trust: it sends, listens and writes nowhere.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recorder.cassettes import SUFFIX
from recorder.diff import Level
from recorder.diff.report import levels_in
from recorder.errors import UsageError
from recorder.proxy.routing import Upstream, parse_upstream
from recorder.replay.faults.forms import parse_fault
from recorder.replay.faults.transport import Fault
from recorder.replay.matching.noise import Rules, rules_from
from recorder.testing.redactions import Redactions
from recorder.wire.dialects import DIALECTS, declare
from recorder.wire.dialects.declared import parse

MATCH_FILE = "recorder.toml"
VERIFY = "verify"  # the mode
STABLE: Sequence[Level] = ("shape",)  # between two runs of a model
NAME_LIMIT = 120  # characters of a file's name: some file systems take 143 bytes

KEYWORDS = ("cassette", "session", "speed", "fault", "upstream", "match", "allow_network", "verify")
_SOURCES = frozenset({"cassette", "session"})
_UNFIT = re.compile(r"[^\w.\[\]=+-]", re.ASCII)


class Settings(NamedTuple):
    """The settings of one test."""

    test: str  # its node id
    name: str  # its short name
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
    levels: Sequence[Level]  # at which mode `verify` compares
    # the marker, of a class or a module, or the ini file: a test of them may ask for nothing
    is_of_many: bool

    @property
    def names(self) -> frozenset[str]:
        """Return the names that it may have in a cassette: cassettes without a label have the short
        one.
        """
        return frozenset({self.test, self.name})

    @property
    def source(self) -> str:
        """Return what answers, for a message."""
        return f"session {self.session}" if self.session is not None else self.shown

    @property
    def may_record(self) -> bool:
        """Return True if a cassette may be recorded: no session, which others record, and no stream
        with a fault.
        """
        return self.mode not in ("none", VERIFY) and self.session is None and not self.faults

    @property
    def verifies(self) -> bool:
        """Return True if the upstream answers, and is compared with the cassette."""
        return self.mode == VERIFY and not self.faults

    @property
    def replays(self) -> bool:
        """Return True if the cassette answers, or is what the upstream is compared with."""
        return not self.may_record or self.mode in ("once", "new_episodes")

    @property
    def records(self) -> bool:
        """Return True if requests that the cassette does not answer go to the upstream."""
        return self.may_record and not (self.mode == "once" and self.is_there)

    def how_to(self, mode: str) -> str:
        """Return the command that records it."""
        return f"pytest --recorder-mode {mode} {shlex.quote(self.test)}"


def check(config: pytest.Config) -> None:
    """Raise `UsageError` if the command line, the ini file or `recorder.toml` make no sense."""
    _speed(config.getoption("recorder_speed"))
    _upstreams(config, ())
    _rules(config, {})
    Redactions(config.getini("recorder_redact"))
    _levels_of_project(config)


def settings(item: pytest.Item, mode: str, began_ns: int, *, is_of_many: bool) -> Settings:
    """Return the settings of a test. Raises `UsageError` for a value that makes no sense."""
    keywords = _keywords(item)
    folder = Path(item.config.getini("recorder_cassette_dir"))
    own = item.path.parent / folder / item.path.stem / f"{_file_name(item)}{SUFFIX}"
    cassette = (
        _cassette(item, keywords["cassette"]) if keywords.get("cassette") is not None else own
    )
    session = keywords.get("session")
    if session is not None and not isinstance(session, str):
        raise UsageError(
            f"session={session!r} of the recorder marker is not a name or id of a session."
        )
    allows_network = keywords.get("allow_network", item.config.getini("recorder_allow_network"))
    if not isinstance(allows_network, bool):
        raise UsageError(
            f"allow_network={allows_network!r} of the recorder marker is neither True nor False."
        )
    return Settings(
        test=item.nodeid,
        name=item.name,
        began_ns=began_ns,
        mode=mode,
        cassette=cassette,
        is_own=cassette == own,
        is_there=cassette.exists(),
        shown=_shown(cassette, item.config.rootpath),
        session=session,
        speed=_speed(keywords.get("speed", item.config.getoption("recorder_speed"))),
        faults=_faults(_texts(keywords, "fault")),
        upstreams=_upstreams(item.config, _texts(keywords, "upstream")),
        rules=_rules(item.config, keywords.get("match", {})),
        redactions=Redactions(item.config.getini("recorder_redact")),
        allows_network=allows_network,
        levels=levels_in(
            ",".join(_texts(keywords, "verify")), "verify of the recorder marker names"
        )
        or _levels_of_project(item.config)
        or STABLE,
        is_of_many=is_of_many,
    )


def _upstreams(config: pytest.Config, own: Sequence[str]) -> list[Upstream]:
    return [parse_upstream(each) for each in (*config.getini("recorder_upstream"), *own)]


def _keywords(item: pytest.Item) -> Mapping[str, Any]:
    """Return the keywords of all markers of a test; the nearest marker counts.

    Raises `UsageError`.
    """
    found: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("recorder"))):
        odd = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in KEYWORDS)]
        if odd:
            raise UsageError(
                f"The recorder marker takes no {', '.join(odd)}: its keywords are {', '.join(KEYWORDS)}."
            )
        if marker.kwargs.keys() >= _SOURCES:
            raise UsageError("The recorder marker takes a cassette or a session, not both.")
        if marker.kwargs.keys() & _SOURCES:
            found = {name: value for name, value in found.items() if name not in _SOURCES}
        found |= marker.kwargs
    return found


def _cassette(item: pytest.Item, named: Any) -> Path:
    """Return a path, beside the test file unless it is absolute. Raises `UsageError`."""
    if not isinstance(named, str | Path):
        raise UsageError(f"cassette={named!r} of the recorder marker is not a path.")
    return item.path.parent / named


def _file_name(item: pytest.Item) -> str:
    """Return a file name for a test, its classes included, that every file system takes and no
    other test has.
    """
    name = ".".join(item.nodeid.removeprefix(item.nodeid.split("::")[0])[2:].split("::"))
    fit = _UNFIT.sub("-", name)
    if fit == name and len(name) <= NAME_LIMIT:
        return name
    return f"{fit[:NAME_LIMIT]}-{sha256(name.encode()).hexdigest()[:8]}"


def _speed(given: Any) -> float | None:
    if given in ("max", None):
        return None
    try:
        speed = float(given)
    except (TypeError, ValueError):
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise UsageError(
            f"{given!r} is not a speed: give 1 for the recorded one, a factor, or max for no pauses."
        )
    return speed


def _texts(keywords: Mapping[str, Any], keyword: str) -> list[str]:
    """Return the one text or several of a keyword. Raises `UsageError`."""
    given = keywords.get(keyword, [])
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise UsageError(
            f"{keyword}={given!r} of the recorder marker is not text or list of texts."
        )
    return list(texts)


def _levels_of_project(config: pytest.Config) -> Sequence[Level]:
    return levels_in(",".join(config.getini("recorder_verify")), "recorder_verify names")


def _faults(texts: list[str]) -> list[Fault]:
    try:
        return [parse_fault(text) for text in texts]
    except ValueError as error:
        raise UsageError(str(error)) from None


def _rules(config: pytest.Config, given: Any) -> Rules:
    """Return the rules of a marker; keys that its table lacks are those of the project.

    Raises `UsageError`.
    """
    if isinstance(given, Rules):
        return given
    if not isinstance(given, Mapping):
        raise UsageError(
            f"match={given!r} of the recorder marker is no [match] table: write a dict like "
            '{"fields": ["metadata.run"]}, or give what recorder.testing.rules_from returns.'
        )
    where, table = _match_table(config)
    found = _parsed_rules(where, table)
    return _parsed_rules("The recorder marker", {**table, **given}) if given else found


def _shown(path: Path, root: Path) -> str:
    """Return a path as a person calls it."""
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _parsed_rules(where: str, table: Mapping[str, Any]) -> Rules:
    try:
        return rules_from(table)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None


def _match_table(config: pytest.Config) -> tuple[str, Mapping[str, Any]]:
    """Return the path of the file, as a person calls it, and its table.

    The dialects of the file are declared.

    Raises `UsageError`.
    """
    named = config.getini("recorder_match")
    path = config.rootpath / (named or MATCH_FILE)
    where = _shown(path, config.rootpath)
    if not named and not path.is_file():
        return where, {}
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"recorder_match: {where} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UsageError(f"{where} is not valid TOML ({error}): mend it.") from None
    _declare(where, given.get("dialect", {}))
    table = given.get("match")
    if isinstance(table, dict):
        return where, table
    if table is None and not named:
        return where, {}
    raise UsageError(f"{where} has no table [match], where recorder_match looks for one.")


def _declare(where: str, tables: Mapping[str, Any]) -> None:
    """Take the dialects that a project declares. Raises `UsageError`."""
    if not tables:
        return
    taken = [dialect.name for dialect in DIALECTS]
    try:
        declare({name: parse(name, table, taken) for name, table in tables.items()})
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
