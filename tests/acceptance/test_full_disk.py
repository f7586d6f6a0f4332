"""B6, a disk that is really full: 2 MiB of memory as a filesystem, with the database and the
journal in it.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import scripts
from tests.support.event_loop import eventually, on_uvloop
from tests.support.scripts import Action, Chunk, End, ReadAll, Received, Upstream, ask, body_of
from tests.support.server import Serving, everywhere, serving

KIB = 1024
LEFT_BYTES = 48 * KIB  # too little for what is recorded, in the journal and in the database


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "full"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", where], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


def script_of(id: str) -> list[Action]:
    dice, chunks = random.Random(id), 200 if id.startswith("large") else 10
    return [
        *(Chunk(b"data: %b\n\n" % dice.randbytes(1_000).hex().encode()) for _ in range(chunks)),
        End(),
    ]


def is_ingested(serve: Serving) -> bool:
    """Whether the journal has no more than its newest segment, and nothing much in it."""
    sizes = [path.stat().st_size for path in Path(f"{serve.db}.journal").glob("*/*.seg")]
    return len(sizes) == 1


@pytest.mark.slow
@on_uvloop
async def test_a_full_disk_costs_no_client_anything_and_the_log_a_counted_gap(full: Path) -> None:
    """B6: and what comes when there is room again is whole."""
    async with Upstream(script_of) as upstream:
        with serving(full / "recorder.db", *everywhere(upstream.base)) as serve:

            async def streams(*ids: str) -> list[Received]:
                return await asyncio.gather(*(ask(serve.port, id, ReadAll()) for id in ids))

            first = await streams("small-0")
            filler = full / "filler"
            room = os.statvfs(full).f_bavail * os.statvfs(full).f_frsize
            filler.write_bytes(bytes(room - LEFT_BYTES))
            first += await streams(*(f"large-{number}" for number in range(6)))
            first += await streams(*(f"large-again-{number}" for number in range(2)))
            filler.unlink()
            await eventually(lambda: is_ingested(serve), 60)
            later = await streams("small-1", "small-2")
            await eventually(lambda: is_ingested(serve), 60)
            assert await asyncio.to_thread(serve.stop) == 0
        report = scripts.check(
            full / "recorder.db", [*first, *later], lambda id: body_of(script_of(id))
        )
        whole = scripts.check(full / "recorder.db", later, lambda id: body_of(script_of(id)))
    assert {each.ending for each in [*first, *later]} == {"complete"}
    assert report.findings == []
    assert report.gap_bytes > 0
    assert report.stored_bytes + report.gap_bytes == report.received_bytes
    assert (whole.gap_bytes, whole.stored_bytes) == (0, whole.received_bytes)
    assert "Traceback" not in serve.said
