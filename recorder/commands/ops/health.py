"""The checks of `recorder doctor` outside of the database: this machine, and the files beside the
database.

Each check is a generator of lines, and waits for nothing. A check changes nothing.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib import metadata
from pathlib import Path

from recorder import __version__
from recorder.commands.ops.journals import journal_bytes, journals, killed, state
from recorder.commands.serving.health_snapshot import LAG_S, MARK_BYTES
from recorder.journal.held_files import Damage, damage_of
from recorder.journal.reader import waiting
from recorder.journal.unreadable import LIMIT_BYTES, folder, unreadable_files
from recorder.model.text import counted
from recorder.proxy.http.server_capacity import capacity
from recorder.shipping.bucket import edges_root
from recorder.shipping.status import read_status
from recorder.store.duckdb.connection import extension_mismatch
from recorder.store.maintain.upkeep import CheckResult

# an hour of a busy gateway without its database: `recorder.journal.writer.LIMIT_BYTES`
LOW_BYTES = 2**30
WAITING_BYTES = 64 * 2**20  # in a journal whose recorder runs: its ingester is behind
SILENT_S = 60.0  # a collector leaves a word every second, but not while a large commit runs
YEARS = range(2025, 2100)
STEP_NS = 50_000_000  # how far wall and monotonic clock may part within a look
FEW_STREAMS = 200  # at once: a team with its agents
PORT = 8787  # of `recorder serve`

LIBRARIES = ("sqlalchemy", "aiosqlite", "alembic", "httptools", "uvloop")

NETWORK = {
    *(
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ncpfs",
        "lustre",
        "ceph",
        "glusterfs",
        "beegfs",
        "gpfs",
    ),
    *(
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.glusterfs",
        "fuse.gcsfuse",
        "fuse.cephfs",
        "davfs",
        "fuse.davfs",
    ),
}
VOLATILE = {"tmpfs", "ramfs"}


def python() -> Iterator[CheckResult]:
    """Yield the versions, for bug reports; the proxy's figures were measured with uvloop."""
    found = [f"{name} {version}" for name in LIBRARIES if (version := _version(name))]
    yield CheckResult(
        "ok",
        "python",
        f"Python {sys.version.split()[0]}, recorder {__version__}, {', '.join(found)}.",
    )
    if _version("uvloop") is None and sys.platform != "win32":
        yield CheckResult(
            "warn",
            "python",
            "uvloop is not installed, so the proxy is slower: `pip install uvloop`.",
        )
    if mismatch := extension_mismatch():
        yield CheckResult(
            "warn", "python", f"Archives, Parquet and `--engine duckdb` do not work. {mismatch}"
        )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def descriptors() -> Iterator[CheckResult]:
    """Check the limit of open files, which limits the concurrent streams of a recorder."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    served = capacity(hard).served
    message = f"A recorder may open {hard} files (it raises its soft limit, {soft} here): {served} streams at once."
    if served < FEW_STREAMS:
        yield CheckResult(
            "warn",
            "files",
            f"{message} Raise the hard limit: `ulimit -Hn`, or LimitNOFILE= of systemd.",
        )
    else:
        yield CheckResult("ok", "files", message)


def clock() -> Iterator[CheckResult]:
    """Check the wall clock, by which ids and sessions sort; times within an exchange are monotonic."""
    wall_ns, monotonic_ns = time.time_ns(), time.monotonic_ns()
    year = time.gmtime(wall_ns / 1e9).tm_year
    time.sleep(0.01)
    apart_ns = abs((time.time_ns() - wall_ns) - (time.monotonic_ns() - monotonic_ns))
    if year not in YEARS:
        yield CheckResult(
            "bad",
            "clock",
            f"The clock says it is {year}: set it, or sessions will not sort by time.",
        )
    elif apart_ns > STEP_NS:
        yield CheckResult(
            "warn", "clock", "The clock was set just now: new sessions may sort before older ones."
        )
    else:
        yield CheckResult(
            "ok",
            "clock",
            f"The clock runs evenly; it is {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC.",
        )


def port(number: int = PORT) -> Iterator[CheckResult]:
    """Check whether the default port of `recorder serve` is free."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError:
            message = f"Port {number} is taken: by a recorder that runs, or give `recorder serve` another with --port."
            yield CheckResult("ok", "port", message)
        else:
            yield CheckResult(
                "ok", "port", f"Port {number}, where `recorder serve` listens, is free."
            )


# -- the files


def modes(files: Sequence[Path], root: Path) -> Iterator[CheckResult]:
    """Check that only the owner can read the recordings."""
    found = list(
        _loose(
            [
                *files,
                root,
                *journals(root),
                folder(root),
                *(each.path for each in unreadable_files(root)),
            ]
        )
    )
    yield from found
    if not found:
        of = "the database and what belongs to it" if files else "the journals"
        yield CheckResult("ok", "modes", f"Nobody but you can read {of}.")


def _loose(paths: list[Path]) -> Iterator[CheckResult]:
    for path in paths:
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            right = "700" if stat.S_ISDIR(status.st_mode) else "600"
            yield CheckResult(
                "warn",
                "modes",
                f"Others may read {path} ({mode:04o}): run `chmod {right} '{path}'`.",
            )
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            message = f"{path} belongs to user {status.st_uid}, not to you ({os.geteuid()}): run recorder as its owner."
            yield CheckResult("warn", "modes", message)


def filesystem(database: Path, mounts: Path = Path("/proc/mounts")) -> Iterator[CheckResult]:
    """Check the type of the filesystem: locks of SQLite and recorder do not work on a network
    filesystem.
    """
    kind = filesystem_of(database, mounts)
    if kind is None:
        yield CheckResult(
            "ok",
            "filesystem",
            "The type of the filesystem is unknown here: keep the database on a local disk.",
        )
    elif kind in NETWORK:
        message = f"The database is on {kind}, a network filesystem, where locks do not hold: move it to a local disk."
        yield CheckResult("bad", "filesystem", message)
    elif kind in VOLATILE:
        yield CheckResult(
            "warn", "filesystem", f"The database is on {kind}, in memory: a restart deletes it."
        )
    else:
        yield CheckResult("ok", "filesystem", f"The database is on a local filesystem ({kind}).")


def filesystem_of(path: Path, mounts: Path) -> str | None:
    """Return the type of the filesystem of a path; None if the system does not report it."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    resolved = path.resolve()
    found: tuple[int, str] | None = None
    for fields in (line.split(" ") for line in lines):
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " ").replace("\\011", "\t"))
        if resolved.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            # of several at one place, the last covers the others
            found = len(point.parts), fields[2]
    return found[1] if found else None


def space(path: Path, what: str = "the database") -> Iterator[CheckResult]:
    """Check the free disk space: on a full disk a recorder forwards, and counts what it cannot
    keep.
    """
    there = next((each for each in (path.parent, *path.parent.parents) if each.exists()), Path("/"))
    free = shutil.disk_usage(there).free
    state = f"{free / 2**30:.1f} GiB are free for {what}"
    if free < MARK_BYTES:
        yield CheckResult(
            "bad",
            "space",
            f"Only {free // 2**20} MiB are free for {what}: free some, or gaps will follow.",
        )
    elif free < LOW_BYTES:
        yield CheckResult(
            "warn", "space", f"{state}, less than a journal may need: free some disk space."
        )
    else:
        yield CheckResult("ok", "space", f"{state}.")


def journal(root: Path) -> Iterator[CheckResult]:
    """Check the journals of recorders that run, and of those that were killed."""
    alive = 0
    yield from _unreadable(root)
    for directory in journals(root):
        if state(directory) != "alive":
            yield CheckResult("warn", "journal", killed(directory))
            continue
        alive += 1
        yield from _damaged(directory)
        waits = waiting(directory)
        since_s = waits.since_s or 0.0
        if waits.size_bytes > WAITING_BYTES or since_s > LAG_S:
            size = f"{waits.size_bytes / 2**20:.1f} MiB"
            why = "the database is slow, locked, or refuses, or the processor is busy"
            message = (
                f"{size} wait in {directory} for the log, the oldest for {since_s:.0f} s: {why}."
            )
            yield CheckResult("warn", "journal", message)
    running = "1 recorder runs" if alive == 1 else f"{alive} recorders run"
    yield CheckResult("ok", "journal", f"{running} just now.")


def edges() -> Iterator[CheckResult]:
    """Check the journals of this machine that are shipped and not ingested: of recorders without a
    database.
    """
    for root in journals(edges_root()):
        for directory in journals(root):
            if state(directory) != "alive":
                size = f"{journal_bytes(directory):,} bytes"
                remedy = "`recorder serve --ship` ships them, with the URL that it had"
                message = f"{size} wait in {directory}: {remedy}."
                yield CheckResult("warn", "edge", message)
                continue
            yield from _damaged(directory)
            waits = waiting(directory)
            since_s = waits.since_s or 0.0
            if since_s > LAG_S:
                message = f"{waits.size_bytes / 2**20:.1f} MiB wait in {directory}, the oldest for {since_s:.0f} s: the"
                yield CheckResult(
                    "warn", "edge", f"{message} object store is away, slow, or refuses."
                )


def collector(root: Path) -> Iterator[CheckResult]:
    """Check the last collector of this machine, by what it left."""
    status = read_status(root)
    if status is None:
        return
    silent_s = time.time() - status.noted_s
    if silent_s > SILENT_S:
        yield CheckResult(
            "warn",
            "collector",
            f"The collector of {status.url} has said nothing for {silent_s:.0f} s.",
        )
        return
    found = f"{counted(status.recorders, 'edge')} of {status.url}, {status.lag_s:.1f} s behind."
    yield CheckResult("warn" if status.lag_s > LAG_S else "ok", "collector", found)
    for name, problem in status.problems.items():
        yield CheckResult("warn", "collector", f"{name}: {problem}")


def _damaged(directory: Path) -> Iterator[CheckResult]:
    """Yield a finding for a journal whose files were deleted or cut while its recorder ran."""
    damage = damage_of(directory)
    if damage != Damage():
        message = (
            f"Another program deleted or cut files of {directory} while its recorder runs: they were put back "
            f"{counted(damage.times, 'time')}, {damage.lost_bytes:,} bytes are lost. Keep whatever cleans up "
            "(`git clean`, a cleaner of temporary folders) away from it, or give the database another place (--db)."
        )
        yield CheckResult("warn", "journal", message)


def _unreadable(root: Path) -> Iterator[CheckResult]:
    """Yield a finding for the unreadable parts of journals that were moved into a folder."""
    files = unreadable_files(root)
    if files:
        size_bytes = sum(each.size_bytes for each in files)
        what = "1 piece of a journal" if len(files) == 1 else f"{len(files):,} pieces of journals"
        message = (
            f"{what} could not be read ({size_bytes:,} bytes, counted as gaps) and wait in {folder(root)}: report what "
            "the recorder's log says of them, then delete them."
        )
        yield CheckResult("warn", "journal", message)
        if size_bytes > LIMIT_BYTES // 2:
            yield CheckResult(
                "warn",
                "journal",
                f"{folder(root)} holds {LIMIT_BYTES >> 20} MiB at most: delete some of it.",
            )
