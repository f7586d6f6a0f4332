"""Numbers and times as the pages write them."""

from __future__ import annotations

from tests.support.browser import IN_A_BROWSER, Tab

pytestmark = IN_A_BROWSER

CALL = "async ([name, value]) => (await import('/static/format.js'))[name](value)"


VALUES = [
    ("duration", 1_499, "1 µs"),
    ("duration", 1_500_000, "1.5 ms"),
    ("duration", 999_960_000, "1.00 s"),
    ("duration", 179_600_000_000, "3 min 0 s"),
    ("clockTime", 1_500_000_000, "1.500 s"),
    ("clockTime", 59_999_900_000, "1:00.000"),
    ("clockTime", 119_999_900_000, "2:00.000"),
    ("clockTime", 3_599_999_900_000, "1:00:00.000"),
    ("size", 1, "1 byte"),
    ("size", 9_999, "9,999 bytes"),
    ("size", 1_048_575, "1.0 MiB"),
    ("compact", 1_234, "1.2K"),
]


async def test_values_are_written_for_people(tab: Tab) -> None:
    await tab.open("#/sql")
    found = [
        (name, value, await tab.page.evaluate(CALL, [name, value])) for name, value, _ in VALUES
    ]
    assert found == VALUES
