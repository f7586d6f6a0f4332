"""Sessions of real clients with a planted change: `recorder show --cache` and the view name it, and
nothing where there was a hit. They are recorded here, or were, against the demo upstream, whose
cached tokens are those that are really common.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.support.planted_changes import OF_AGENTS, PLANTED, RECORDED
from tests.support.provider.server import start
from tests.support.server import everywhere, run, serving

MISS = re.compile(r"(?!first|hit)")


async def record(db: Path) -> None:
    """Record the sessions of the SDKs, one after another."""
    async with await start(pace=0) as demo, await start(pace=0, cache_lifetime_s=0) as forgetful:
        upstreams = [*everywhere(demo.base_url), "--upstream", f"forgetful={forgetful.base_url}"]
        with serving(db, *upstreams) as serve:
            for name, session in PLANTED.items():
                await asyncio.to_thread(session.play, f"{serve.base}/s/{name}")


def unpacked(folder: Path) -> list[Path]:
    """Unpack the sessions of Codex and Claude Code into a folder; return the files for
    `recorder import`.
    """
    paths = []
    for packed in sorted(RECORDED.glob("*.jsonl.gz")):
        paths.append(folder / packed.name.removesuffix(".gz"))
        paths[-1].write_bytes(gzip.decompress(packed.read_bytes()))
    return paths


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """The log in which the sessions of the SDKs were recorded, and the exports of those of all
    clients.
    """
    folder = tmp_path_factory.mktemp("cached")
    db = folder / "recorded.db"
    asyncio.run(record(db))
    files = unpacked(folder)
    for name in PLANTED:
        files.append(folder / f"{name}.jsonl")
        files[-1].write_bytes(run(db, "export", name, "--wait", 60).out)
    return db, files


OF_SDKS = {name: session.turns for name, session in PLANTED.items()}
EXPECTED = {**OF_SDKS, **OF_AGENTS}


def turns(db: Path | URL, name: str) -> tuple[str, ...]:
    """The turns of a session by `recorder show --cache`, whose exit code says whether a miss could
    be avoided.
    """
    ran = run(db, "show", name, "--cache", "--json")
    rows = json.loads(ran.out)["turns"]
    assert ran.code == (4 if any(row["is_avoidable"] for row in rows) else 0)
    return tuple(f"{row['class']} {row['path']}" if row["path"] else row["class"] for row in rows)


def test_every_recorded_session_is_known() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in RECORDED.iterdir()} == OF_AGENTS.keys()


def test_a_planted_change_is_found_and_nothing_else(
    sessions: tuple[Path, list[Path]], shared_database: URL
) -> None:
    assert run(shared_database, "import", *sessions[1]).code == 0
    assert {name: turns(shared_database, name) for name in EXPECTED} == EXPECTED
    asked = "SELECT session_name, class FROM cache_misses ORDER BY started_ns, exchange_id"
    found: dict[str, list[str]] = {}
    for row in json.loads(run(shared_database, "query", asked, "--json").out):
        found.setdefault(row["session_name"], []).append(row["class"])
    misses = {
        name: [turn.partition(" ")[0] for turn in each if MISS.match(turn)]
        for name, each in EXPECTED.items()
    }
    assert found == {name: classes for name, classes in misses.items() if classes}


def test_a_log_that_was_recorded_has_what_one_that_was_imported_has(
    sessions: tuple[Path, list[Path]],
) -> None:
    assert {name: turns(sessions[0], name) for name in OF_SDKS} == OF_SDKS


def test_nothing_of_the_machine_is_in_the_recorded_sessions() -> None:
    for path in RECORDED.iterdir():
        text = gzip.decompress(path.read_bytes()).decode()
        assert not re.search(
            r'(?<![\w/.])/(?:work|home|Users|opt)/\w|"authorization","(?!REDACTED)|sk-(?:none|ant)-',
            text,
        )
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 1_500_000
