"""The pictures of a terminal in README and docs/: `python -m tools.terminal_pictures`, or
`make pictures`.

Each shows what real commands print in a terminal, colours included, about the session that the
pictures of the viewer show too, whose answers and times are always the same.
"""

from __future__ import annotations

import html
import io
import re
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from tests.support.console import SIZE, Command
from tests.support.corpus import ROOT
from tests.support.server import environment
from tools.viewer_pictures import SESSION, draw_session

FOLDER = ROOT / "docs" / "pictures"
LIMIT_BYTES = 60_000  # of a picture, in a repository
CUT = "cut.sse"
CUT_EVENTS = 60  # of a stream that has more
PICTURES = {
    "show": (f"recorder show {SESSION}",),
    "lint": (f"recorder lint {CUT}",),
    "count": (
        f"recorder replay {SESSION} --exchange 2 --speed max --format text",
        "recorder usage",
        'recorder query "select name, calls, failed, latency_avg_ns / 1000000 as latency_ms from tool_stats"',
    ),
}

_WEB_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def path_of(name: str) -> Path:
    """Return where a picture is."""
    return FOLDER / f"{name}.svg"


def drawn(name: str, folder: Path) -> str:
    """Return a picture as SVG; `folder` has the recording."""
    console = Console(
        record=True,
        width=SIZE[1],
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    for line in PICTURES[name]:
        console.print(Text(f"$ {line}", style="bold"), soft_wrap=False)
        console.print(Text.from_ansi(_printed(line, folder)))
    svg = console.export_svg(title="recorder", unique_id=f"recorder-{name}")
    # nothing is loaded from a network
    return _WEB_FONTS.sub("", svg).replace("Fira Code", "ui-monospace")


def texts_of(svg: str) -> list[str]:
    """Return what a picture says, piece by piece."""
    found = re.findall(r"<text [^>]*>(.*?)</text>", svg, re.DOTALL)
    return [text for piece in found if (text := html.unescape(piece).replace("\xa0", " ").strip())]


def record(folder: Path) -> None:
    """Write the recording that the commands read, and a stream that was cut off."""
    draw_session(folder / "recorder.db")
    command = f"recorder replay {SESSION} --exchange 3 --speed max --format sse > whole.sse"
    _printed(command, folder)
    events = (folder / "whole.sse").read_bytes().split(b"\n\n")
    (folder / CUT).write_bytes(b"\n\n".join(events[:CUT_EVENTS]) + b"\n\n")


def _printed(line: str, folder: Path) -> str:
    variables = {
        **environment(folder),
        "PATH": f"{Path(sys.executable).parent}:{environment(folder)['PATH']}",
        "RECORDER_DB": str(folder / "recorder.db"),
        "TERM": "xterm-256color",
        "TZ": "UTC",
    }
    command = Command(line, folder, variables)
    command.wait(lambda: False)
    code = command.end()
    if code not in (0, 4):
        raise RuntimeError(f"{line}: exit code {code}\n{command.text}")
    return command.text.replace("\r\n", "\n")


def draw() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="recorder-pictures-") as name:
        folder = Path(name)
        record(folder)
        for picture in PICTURES:
            path_of(picture).write_text(drawn(picture, folder))
            click.echo(
                f"{path_of(picture).relative_to(ROOT)}: {path_of(picture).stat().st_size:,} bytes"
            )


if __name__ == "__main__":
    draw()
