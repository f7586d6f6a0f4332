"""What the `recorder.toml` of a project may set, and the projects whose file may set everything.

Who clones a repository gets its `recorder.toml`, and has not read it. So such a file sets nothing
that sends, listens, or writes outside of its folder, until `recorder trust` was run on it.

Rules of this file:

* `ALLOWED` is a list of what is harmless. An option that nobody has put there needs trust.
* The tables `[match]`, `[redact]` and `[dialect]` are harmless: they choose among recordings, take
  more out, and say how to read.
* Trust is for a path and a content: a file that changes is as unknown as a new one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from hashlib import sha256
from pathlib import Path

import platformdirs

from recorder.errors import RecorderError
from recorder.program import load

FORMS = frozenset({"format", "json", "jsonl", "csv", "raw", "wait"})
"""The options of any verb that a project's file may set: in which form it answers, and after what
time.
"""

ALLOWED: Mapping[str, Set[str]] = {
    "serve": {"no-websocket", "max-body"},
    "run": {"speed", "strict", "no-websocket"},
    "sessions": {
        "limit",
        "model",
        "client",
        "owner",
        "status",
        "since",
        "until",
        "query",
        "probes",
        "columns",
    },
    "show": {"at", "at-event", "request"},
    "events": {"exchange", "limit"},
    "tail": {"session", "limit"},
    "mcp": {"max-answer"},
    "replay": {"speed", "exchange"},
    "mock": {"speed", "strict", "fault", "seed", "max-body"},
    "diff": {"only", "exact", "tolerance", "all", "stat"},
    "lint": {"profile", "list", "ignore", "fail-on"},
    "probe": {"only", "timeout", "dry-run", "ignore", "fail-on"},
    "torture": {"speed", "timeout", "jobs"},
    "bisect": {"dry-run", "speed"},
    "resend": {"dry-run"},
    "usage": {"by", "cost", "since", "until"},
    "import": {"dialect"},
    "export": {"convention"},
}
"""The further options of each verb that it may set. `db` is allowed too, where
`recorder.commands.terminal.project_database` says so."""


def is_allowed(verb: str, option: str) -> bool:
    """Return whether a project's file may set this option, spelled with dashes or not, to any
    value.
    """
    return option.replace("_", "-") in FORMS | ALLOWED.get(verb, set())


def is_trusted(path: Path, content: bytes) -> bool:
    """Return whether `trust` was called for this file with this content."""
    try:
        return _record(path).read_bytes() == _line(path, content)
    except OSError:
        return False


def trust(path: Path, content: bytes) -> Path:
    """Trust a file for as long as it has this content.

    Return the file that says so. Raise `RecorderError`.
    """
    record = _record(path)
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        load("recorder.files:save")(record, [_line(path, content)])
    except OSError as error:
        raise RecorderError(f"{record} cannot be written: {error.strerror}.") from error
    return record


def _record(path: Path) -> Path:
    folder = platformdirs.user_state_path("recorder", appauthor=False) / "trusted"
    return folder / sha256(os.fsencode(path)).hexdigest()


def _line(path: Path, content: bytes) -> bytes:
    """Return a line as `sha256sum` writes it, for people who look at the records."""
    return f"{sha256(content).hexdigest()}  ".encode() + os.fsencode(path) + b"\n"
