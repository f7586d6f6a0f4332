"""A `prices.toml`: what it says, and the line and key of what is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.errors import UsageError
from recorder.prices import own_file
from recorder.prices.catalog import DATED_RANK, OWN_RANK
from recorder.prices.schedule import changes

PRICE = '[[price]]\nprovider = "openai"\nmodel = "gpt-5*"\ninput = 1.10\noutput = 8\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prices.toml"


def test_prices_are_exact_and_in_the_order_of_the_file(file: Path) -> None:
    file.write_text(
        f'{PRICE}web_search = 12.5\n{PRICE.replace("gpt-5*", "GPT_#%")}[providers]\ngw = "openai"\n'
    )
    found = own_file.read(file)
    assert found.providers == {"gw": "openai"}
    assert {(row.model, row.unit, row.usd_per_million, row.picousd) for row in found.rows} == {
        ("gpt-5%", "input", "1.1", 1_100_000),
        ("gpt-5%", "output", "8", 8_000_000),
        ("gpt-5%", "web_search", "12500", 12_500_000_000),
        (r"gpt\_#\%", "input", "1.1", 1_100_000),
        (r"gpt\_#\%", "output", "8", 8_000_000),
    }
    assert {row.rank for row in found.rows} == {OWN_RANK}


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (PRICE.replace("1.10", '"x"'), 4, "input"),
        (PRICE.replace("1.10", "-1"), 4, "input"),
        (PRICE.replace("1.10", "nan"), 4, "input"),
        (PRICE.replace("1.10", "99999"), 4, "input"),
        (PRICE.replace("1.10", "1e-999999"), 4, "input"),
        (PRICE.replace("gpt-5*", "m" * 201), 3, "model"),
        (PRICE.replace("output", "outptu"), 5, "outptu"),
        (PRICE.replace("output = 8\n", ""), 1, "output"),
        (PRICE + PRICE.replace('"openai"', "3"), 7, "provider"),
        (PRICE + PRICE, 8, "model"),
        (PRICE + 'from = "soon"\n', 6, "from"),
        (PRICE + "from = 2026-01-01\nto = 2026-01-01\n", 7, "to"),
        (PRICE + "above_input_tokens = -1\n", 6, "above_input_tokens"),
        (PRICE + "above_input_tokens = 99999999999999999999\n", 6, "above_input_tokens"),
        (PRICE + "from = 9999-12-31\n", 6, "from"),
        (
            PRICE + "above_input_tokens = 1\n" + PRICE + 'service_tier = "flex"\n',
            6,
            "above_input_tokens",
        ),
        ("\n[price]\n", 2, "price"),
        ("a = 1\n", 1, "a"),
    ],
)
def test_an_error_names_the_line_and_the_key(file: Path, text: str, line: int, key: str) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=f"prices.toml, line {line}: `{key}`: "):
        own_file.read(file)


def test_what_is_no_toml_is_named_with_its_line(file: Path) -> None:
    file.write_text("[[price]]\nmodel =\n")
    with pytest.raises(UsageError, match="line 2"):
        own_file.read(file)


def test_a_dated_price_counts_in_the_past_before_undated_ones_of_an_earlier_file(
    file: Path,
) -> None:
    file.write_text(PRICE)
    there = own_file.read(file).rows
    dated = PRICE.replace("gpt-5*", "gpt-5.1*").replace("1.10", "7") + "from = 2020-01-01\n"
    file.write_text(dated + PRICE)
    made = changes(there, own_file.read(file).rows, [own_file.SOURCE], 2 * 10**18)
    past = [
        row
        for row in [*there, *made.added]
        if row.unit == "input" and row.valid_from_ns < 17 * 10**17
    ]
    assert min(past, key=lambda row: (row.rank, row.model)).usd_per_million == "7"


def test_a_dated_price_stays_behind_an_undated_one_that_is_before_it(file: Path) -> None:
    text = PRICE + PRICE.replace("gpt-5*", "gpt-5.1*") + "from = 2020-01-01\n"
    file.write_text(text + PRICE.replace("gpt-5*", "o3") + "to = 2020-01-01\n")
    expected = {"gpt-5%": OWN_RANK, "gpt-5.1%": OWN_RANK + 1, "o3": DATED_RANK}
    assert {row.model: row.rank for row in own_file.read(file).rows} == expected


def test_a_date_is_of_utc_and_a_time_of_its_own_zone(file: Path) -> None:
    file.write_text(PRICE + "from = 2026-01-01\nto = 2026-07-01T02:00:00+02:00\n")
    [span] = {(row.valid_from_ns, row.valid_to_ns) for row in own_file.read(file).rows}
    assert span == (1_767_225_600 * 10**9, 1_782_864_000 * 10**9)
