"""A run as a picture: `python -m benchmarks.chart bench.json docs/performance.svg`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import click
import msgspec

from benchmarks.__main__ import Report
from benchmarks.figures import Summary, Table, cell

WIDTH, BAR, GAP, LEFT, RIGHT = 760, 18, 6, 110, 190  # pixels
COLOURS = {"recording": "#0b7285", "strict": "#66a9b5", "proxy": "#3bc9db"}
OTHERS = "#adb5bd"


class Panel(NamedTuple):
    """A figure of a benchmark, a bar for each that was measured."""

    title: str
    benchmark: str
    key: str
    unit: str
    hidden: tuple[str, ...] = ("direct",)


# beside a wait for the disk, or a core that is full, others are not seen
OFF_SCALE = ("direct", "strict", "mitmproxy")

PANELS = (
    Panel(
        "CPU per event, 100 streams as fast as events arrive, against a raw relay",
        "closed100",
        "cpu_us/relay",
        "x",
    ),
    Panel("CPU per request of 20 events, against a raw relay", "short", "request_us/relay", "x"),
    Panel(
        "added latency, 100 streams of 50 events/s, median",
        "paced100",
        "p50_us-direct",
        "µs",
        OFF_SCALE,
    ),
    Panel(
        "added latency, 500 streams of 50 events/s, p99",
        "paced500",
        "p99_us-direct",
        "µs",
        OFF_SCALE,
    ),
)


@click.command()
@click.argument("run", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
def main(run: Path, picture: Path) -> None:
    """Draw what RUN found, the JSON of `python -m benchmarks`, into PICTURE, an SVG."""
    report = msgspec.json.decode(run.read_bytes(), type=Report)
    picture.write_text("\n".join(drawn(report.benchmarks)) + "\n")


def drawn(benchmarks: Mapping[str, Table]) -> Iterator[str]:
    """The lines of the picture: medians as bars, minimum to maximum as a line over each."""
    panels = [
        (panel, _bars(panel, benchmarks[panel.benchmark]))
        for panel in PANELS
        if panel.benchmark in benchmarks
    ]
    height = sum(46 + len(bars) * (BAR + GAP) for _, bars in panels)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    yield ' font-family="system-ui, sans-serif" font-size="12" fill="#212529">'
    yield f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    top = 24
    for panel, bars in panels:
        yield f'<text x="8" y="{top}" font-weight="600">{escape(panel.title)} ({panel.unit})</text>'
        scale = (WIDTH - LEFT - RIGHT) / max(
            (summary.max for summary in bars.values()), default=1.0
        )
        for at, (name, summary) in enumerate(bars.items()):
            yield from _bar(name, summary, scale, top + 12 + at * (BAR + GAP))
        top += 46 + len(bars) * (BAR + GAP)
    yield "</svg>"


def _bars(panel: Panel, found: Table) -> Mapping[str, Summary]:
    return {
        name: row[panel.key]
        for name, row in found.rows.items()
        if panel.key in row and name not in panel.hidden
    }


def _bar(name: str, summary: Summary, scale: float, y: int) -> Iterator[str]:
    width, middle = max(1.0, summary.median * scale), y + BAR / 2
    low, high = LEFT + max(0.0, summary.min * scale), LEFT + summary.max * scale
    yield f'<text x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
    yield f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS.get(name, OTHERS)}"/>'
    yield f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}" stroke="#495057"/>'
    yield f'<text x="{max(high, LEFT + width) + 6:.1f}" y="{middle + 4}">{cell(summary)}</text>'


if __name__ == "__main__":
    main()
