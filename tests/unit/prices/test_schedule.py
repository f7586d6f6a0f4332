"""What a new price list changes in the table, and what it never changes."""

from __future__ import annotations

import msgspec

from recorder.model.prices import PriceRow, Unit
from recorder.prices.catalog import FILLER_RANK, OWN_RANK, Amount, Period, rows_of
from recorder.prices.schedule import changes

SOURCES = ["list"]


def rows(
    usd: str, model: str = "m", rank: int = 0, begin: int = 0, end: int | None = None
) -> list[PriceRow]:
    card: dict[Unit, Amount] = {"input": Amount(usd, 1), "output": Amount("9", 9)}
    period = Period(card, valid_from_ns=begin, valid_to_ns=end)
    return rows_of("openai", rank, model, period, "list", "1")


def updated(
    there: list[PriceRow], new: list[PriceRow], at_ns: int, sources: list[str] = SOURCES
) -> list[PriceRow]:
    changed = changes(there, new, sources, at_ns)
    assert set(changed.deleted) <= set(there)
    return [row for row in there if row not in changed.deleted] + changed.added


def spans(found: list[PriceRow], model: str = "m") -> list[tuple[int, int | None, str | None, int]]:
    return sorted(
        (row.valid_from_ns, row.valid_to_ns, row.usd_per_million, row.rank)
        for row in found
        if row.model == model and row.unit == "input"
    )


def test_the_first_list_counts_for_all_time() -> None:
    assert updated([], rows("1"), 100) == rows("1")


def test_the_same_list_again_changes_nothing() -> None:
    dated = [*rows("1", end=50), *rows("2", begin=50, end=500), *rows("3", begin=500)]
    for list_ in (rows("1"), dated):
        for at_ns in (10, 50, 100, 500, 900):
            assert not any(changes(updated([], list_, 10), list_, SOURCES, at_ns))


def test_a_newer_version_with_the_same_price_changes_nothing() -> None:
    newer = [msgspec.structs.replace(row, source_version="2") for row in rows("1")]
    assert not any(changes(rows("1"), newer, SOURCES, 100))


def test_another_price_counts_from_the_update_on() -> None:
    found = updated(rows("1"), rows("2"), 100)
    assert spans(found) == [(0, 100, "1", 0), (100, None, "2", 0)]
    assert spans(updated(found, rows("1"), 200)) == [
        (0, 100, "1", 0),
        (100, 200, "2", 0),
        (200, None, "1", 0),
    ]


def test_a_price_that_the_list_dates_begins_on_its_date() -> None:
    found = updated(rows("1"), [*rows("1", end=500), *rows("2", begin=500)], 100)
    assert spans(found) == [(0, 500, "1", 0), (500, None, "2", 0)]


def test_a_model_that_the_list_did_not_have_is_priced_for_the_past_after_all_others() -> None:
    found = updated(rows("1"), [*rows("1"), *rows("5", "new%", 3)], 100)
    assert spans(found) == [(0, None, "1", 0)]
    assert spans(found, "new%") == [(0, 100, "5", FILLER_RANK + 3), (100, None, "5", 3)]
    assert not any(changes(found, [*rows("1"), *rows("5", "new%", 3)], SOURCES, 200))


def test_a_model_that_the_list_has_no_more_keeps_its_past() -> None:
    assert spans(updated(rows("1"), [], 100)) == [(0, 100, "1", 0)]


def test_an_update_from_an_earlier_time_counts_from_then_on() -> None:
    found = updated(updated(rows("1"), rows("2"), 100), rows("3"), 50)
    assert spans(found) == [(0, 50, "1", 0), (50, None, "3", 0)]


def test_other_sources_keep_their_rows() -> None:
    assert not any(changes(rows("1"), [], ["prices.toml"], 100))


def test_entries_of_ones_own_with_a_date_count_as_they_stand() -> None:
    own = [*rows("4", rank=OWN_RANK, begin=20, end=60)]
    assert spans(updated(rows("1", "other"), own, 100)) == [(20, 60, "4", OWN_RANK)]
    undated = rows("4", rank=OWN_RANK)
    expected = [(0, 100, "4", FILLER_RANK), (100, None, "4", OWN_RANK)]
    assert spans(updated(rows("1", "other"), undated, 100)) == expected
