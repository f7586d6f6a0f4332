"""The colours of the pages have the contrast of WCAG 2.2 AA in both themes: 4.5 for text, 3 for
controls and charts.
"""

from __future__ import annotations

import re
from itertools import product

import pytest

from tests.support.corpus import ROOT

STYLE = ROOT / "recorder" / "ui" / "static" / "style.css"
BEHIND = ("ground", "raised", "chosen", "hover")
TEXT = (
    "text",
    "quiet",
    "accent",
    "good",
    "warning",
    "error",
    "message",
    "reasoning",
    "tool_call",
    "other",
    "client",
)
DRAWN = ("edge", *(f"series-{number}" for number in range(1, 7)))


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of both themes by the name of the property."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)
    )
    return {"light": light, "dark": {**light, **dark}}


def luminance(color: str) -> float:
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_wherever_it_stands(theme: str) -> None:
    colors = themes()[theme]
    pairs = [*product(TEXT, BEHIND), ("on-accent", "accent"), ("text", "wrote"), ("ground", "text")]
    low = {pair: round(contrast(*(colors[name] for name in pair)), 2) for pair in pairs}
    assert {pair: value for pair, value in low.items() if value < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_drawn_can_be_seen(theme: str) -> None:
    colors = themes()[theme]
    low = {name: round(contrast(colors[name], colors["ground"]), 2) for name in DRAWN}
    assert {name: value for name, value in low.items() if value < 3} == {}


def test_both_themes_have_all_colors() -> None:
    found = themes()
    blocks = re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    assert set(re.findall(r"--([\w-]+): #", blocks[1])) == set(found["light"])
