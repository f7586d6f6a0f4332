"""The command: `python -m benchmarks`."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from benchmarks import (
    exchange,
    followed,
    log,
    machine,
    mocks,
    parquet,
    postgres,
    projections,
    replay,
    requests,
    start,
    streams,
    viewer,
)
from benchmarks.figures import Column, Round, Table, lines, table
from benchmarks.settings import QUICK, Settings


class Benchmark(NamedTuple):
    title: str
    columns: Sequence[Column]
    rounds: Callable[[Settings], list[Round]]


class Report(msgspec.Struct, frozen=True):
    """What a run writes: `version` is of this form."""

    version: int
    started: str
    machine: dict[str, str]
    settings: Settings
    benchmarks: dict[str, Table]


BENCHMARKS = {
    **{
        name: Benchmark(
            scenario.title, scenario.columns, functools.partial(streams.rounds, scenario)
        )
        for name, scenario in streams.SCENARIOS.items()
    },
    "append": Benchmark("100 exchanges, 500 rows a commit", log.APPEND_COLUMNS, log.append_rounds),
    "append_pg": Benchmark(
        "the same on two engines", postgres.APPEND_COLUMNS, postgres.append_rounds
    ),
    "read_pg": Benchmark("the same rows, read back", postgres.READ_COLUMNS, postgres.read_rounds),
    "ingest": Benchmark("journal → log, 100 exchanges", log.INGEST_COLUMNS, log.ingest_rounds),
    "exchange": Benchmark(
        "journal → log, exchanges of twenty events", exchange.COLUMNS, exchange.rounds
    ),
    "requests": Benchmark(
        "an agent's 50 requests, each with all before it", requests.COLUMNS, requests.rounds
    ),
    "fold": Benchmark(
        "events → rows of projections", projections.FOLD_COLUMNS, projections.fold_rounds
    ),
    "rebuild": Benchmark(
        "log → projections", projections.REBUILD_COLUMNS, projections.rebuild_rounds
    ),
    "ask": Benchmark(
        "sums over a log of many exchanges", projections.ASK_COLUMNS, projections.ask_rounds
    ),
    "start": Benchmark(
        "a command, from its start to its first output", start.COLUMNS, start.rounds
    ),
    "parquet": Benchmark(
        "sums over a log of 1,000,000 events, and over its export", parquet.COLUMNS, parquet.rounds
    ),
    "replay": Benchmark("one stream at its original speed", replay.COLUMNS, replay.rounds),
    "mock1": Benchmark(
        "`recorder mock`, one client", mocks.COLUMNS, functools.partial(mocks.rounds, 1)
    ),
    "mock100": Benchmark(
        "`recorder mock`, 100 clients at once", mocks.COLUMNS, functools.partial(mocks.rounds, 100)
    ),
    "viewer": Benchmark(
        "100,000 events in a browser: opened, and dragged along", viewer.COLUMNS, viewer.rounds
    ),
    "followed": Benchmark(
        "one stream, 500 events/s, and a browser on its session", followed.COLUMNS, followed.rounds
    ),
}

BY_NAME = ("paced1", "paced10")  # only: how few streams cost is for who wants to see how it grows


@click.command()
@click.option(
    "--quick", is_flag=True, help="Shorter, and fewer alternatives: under two minutes for all."
)
@click.option(
    "--only",
    type=click.Choice(list(BENCHMARKS)),
    multiple=True,
    help="This one; can be given many times.",
)
@click.option("--rounds", type=click.IntRange(min=5), default=5, show_default=True)
@click.option(
    "--json",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="[default: bench-DATE.json]",
)
def main(quick: bool, only: tuple[str, ...], rounds: int, path: Path | None) -> None:
    """Measure: medians of rounds, with minimum and maximum; ratios are taken within a round.

    \b
    direct      no proxy: what the load itself costs
    nginx       if it is installed, with proxy_buffering off
    relay       bytes to and fro on uvloop: the floor for an event loop in Python
    proxy       ours, recording off
    recording   ours, with journal and ingester as `recorder serve` runs them
    shape       the same with `--content shape`
    strict      the same with durability = "strict"
    """
    now = datetime.datetime.now(datetime.UTC)
    settings = msgspec.structs.replace(QUICK if quick else Settings(), rounds=rounds)
    found: dict[str, Table] = {}
    for name in only or [name for name in BENCHMARKS if name not in BY_NAME]:
        benchmark = BENCHMARKS[name]
        found[name] = table(name, benchmark.title, benchmark.columns, benchmark.rounds(settings))
        print(*lines(found[name]), "", sep="\n", flush=True)
    report = Report(1, now.isoformat(timespec="seconds"), machine.description(), settings, found)
    path = path or Path(f"bench-{now:%Y-%m-%d}.json")
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    print(f"Written to {path}")


if __name__ == "__main__":
    main()
