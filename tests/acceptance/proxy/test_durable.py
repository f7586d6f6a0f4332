"""Durability `strict` of `recorder serve`: what a client has is on the disk."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.support.proxy import get
from tests.support.server import everywhere, serving
from tests.support.sockets import (
    STREAM_HEAD,
    Action,
    RawClient,
    ScriptedUpstream,
    Send,
    Wait,
    chunked,
)

WATCHED = """
import os, stat, sys
fsync, sizes = os.fsync, sys.argv.pop(1)
def watched(descriptor):
    status = os.fstat(descriptor)
    fsync(descriptor)
    if stat.S_ISREG(status.st_mode):
        with open(sizes, "a") as file:
            file.write(f"{status.st_ino} {status.st_size}\\n")
os.fsync = watched
from recorder.commands import main
main(sys.argv[1:])
"""


async def test_serve_syncs_what_it_hands_on_if_it_is_told_to(tmp_path: Path) -> None:
    """`recorder serve` as it is, but that each sync is noted: which file, and how much of it was
    there.
    """
    sizes, go_on = tmp_path / "synced", [asyncio.Event() for _ in range(3)]
    sizes.touch()
    program = (sys.executable, "-c", WATCHED, str(sizes))

    def synced() -> set[str]:
        return set(sizes.read_text().splitlines())

    def in_journal() -> set[str]:
        segments = (tmp_path / "log.db.journal").glob("*/*.seg")
        return {f"{found.st_ino} {found.st_size}" for found in (path.stat() for path in segments)}

    script: list[Action] = [Send(STREAM_HEAD)]
    for number, event in enumerate(go_on):
        script += [Send(chunked(b"data: %d\n\n" % number)), Wait(event)]
    async with ScriptedUpstream(script) as upstream:
        options, strict = everywhere(upstream.base), {"RECORDER_SERVE_DURABILITY": "strict"}
        with serving(tmp_path / "log.db", *options, program=program, variables=strict) as on:
            async with await RawClient.connect(on.port) as client:
                await client.send(get())
                for number, event in enumerate(go_on):
                    await client.read_until(b"data: %d\n\n" % number)
                    assert len(in_journal()) == 1
                    assert in_journal() <= synced()
                    event.set()
