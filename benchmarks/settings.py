"""How much is measured."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True):
    """The sizes of a run; the defaults are those of `make bench`."""

    rounds: int = 5
    warm_up_s: float = 0.3  # of streams, and for how long they are measured then
    window_s: float = 0.9
    flat_events: int = 10_000  # in each of 16 streams
    rows: int = 50_000  # appended, and ingested
    short_exchanges: int = 200  # of twenty events
    replay_s: float = 2.0
    exchanges: int = 10_000  # of the log whose sums are asked for
    exported_events: int = 1_000_000  # of the log that is exported to Parquet
    viewer_events: int = 100_000  # of a session that a browser opens
    viewer_s: float = 3.0  # of a stream that a browser follows
    few: bool = False  # alternatives: not nginx, mitmproxy and `strict`, only the relay and ours


QUICK = Settings(
    warm_up_s=0.05,
    window_s=0.12,
    flat_events=1_600,
    rows=5_000,
    short_exchanges=20,
    replay_s=0.4,
    exchanges=1_000,
    exported_events=20_000,
    viewer_events=10_000,
    viewer_s=0.5,
    few=True,
)
