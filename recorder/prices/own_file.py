"""The prices of one's own, in a file `prices.toml`: negotiated prices, and models that no list has.

    [providers]
    my-gateway = "openai"            # an upstream with the prices of a provider of the package

    [[price]]
    provider = "openai"              # the name of the upstream, as `recorder serve --upstream` has it
    model = "gpt-5.1*"               # `*` is any text, `#` one digit; the first entry that matches a model counts
    input = 1.10                     # USD for a million tokens
    cache_read = 0.11
    output = 8.80
    service_tier = "flex"            # optional, as the three below
    above_input_tokens = 200_000
    from = 2026-01-01
    to = 2026-07-01                  # the first day on which it is no longer valid

Rules of this file:

* A price of `web_search` or `request` is for 1,000 of them, as price lists have it; all others for
  a million tokens.
* Prices are read as decimals, never as floats.
* An error names the line and the key. A key that nobody knows is an error: a price that is misspelt
  would not count.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import platformdirs

from recorder.errors import UsageError
from recorder.model.prices import UNITS, PriceRow, Unit
from recorder.prices.catalog import (
    DATED_RANK,
    NAME_LIMIT,
    NS,
    OWN_RANK,
    Amount,
    Period,
    amount,
    literal,
    may_overlap,
    ranks,
    rows_of,
)

SOURCE = "prices.toml"
SIZE_LIMIT = 2**20  # bytes: some ten thousand prices, far above any contract
TOKENS_LIMIT = 10**8  # of one exchange: as in the view `costs`
SECONDS_LIMIT = 9_214_646_400  # 2262-01-01: nanoseconds since 1970 fit a bigint

_OPTIONAL = ("service_tier", "above_input_tokens", "from", "to")


class OwnPrices(NamedTuple):
    """The content of the file: its rows, and the package's provider of upstreams whose names do not
    say it.
    """

    rows: list[PriceRow]
    providers: Mapping[str, str]


def default_path() -> Path:
    """Return the place of the file: beside the user's own `recorder.toml`."""
    return platformdirs.user_config_path("recorder") / SOURCE


def read(path: Path) -> OwnPrices:
    """Read a file.

    Raise `UsageError`, which names the line and the key, if it is not one of prices.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"Prices cannot be read from {path}: {error.strerror}.") from error
    if len(data) > SIZE_LIMIT:
        raise UsageError(f"{path} is larger than {SIZE_LIMIT:,} bytes: it is not a list of prices.")
    try:
        text = data.decode()
        given = tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML ({error}).") from error
    return _File(path, text).prices(given)


class _Entry(NamedTuple):
    provider: str
    pattern: str
    period: Period
    number: int

    @property
    def is_dated(self) -> bool:
        return self.period.valid_from_ns > 0 or self.period.valid_to_ns is not None


def _ranks(entries: Sequence[_Entry]) -> Mapping[str, int]:
    """Return the ranks of the patterns, in their order.

    Dated ones also count for the past, in which the ranks are those of earlier files: so they come
    before all others, unless the file has an undated one before them that may match the same model.
    """
    patterns = list(dict.fromkeys(each.pattern for each in entries))
    late = {each.pattern for each in entries if not each.is_dated}
    found: dict[str, int] = {}
    for pattern, rank in zip(patterns, ranks(patterns), strict=True):
        if any(other in late and may_overlap(pattern, other) for other in found):
            late.add(pattern)
        found[pattern] = rank + (OWN_RANK if pattern in late else DATED_RANK)
    return found


def _pattern(model: str) -> str:
    """Return the pattern for a name in which `*` is any text and `#` one digit."""
    parts = re.split("([*#])", model)
    wild = {"*": "%", "#": "#"}
    return "".join(wild.get(part) or literal(part) for part in parts)


class _File:
    """One file while it is read."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._lines = path, text.splitlines()
        self._version = hashlib.sha256(text.encode()).hexdigest()[:12]

    def prices(self, given: Mapping[str, Any]) -> OwnPrices:
        for key in given:
            if key not in ("providers", "price"):
                raise self._error(0, key, "there are [providers] and [[price]] only")
        providers = given.get("providers", {})
        if not isinstance(providers, dict) or not all(
            isinstance(each, str) for each in providers.values()
        ):
            raise self._error(0, "providers", 'a table of names: my-gateway = "openai"')
        tables = given.get("price", [])
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise self._error(0, "price", "write [[price]] above each price")
        entries = [self._entry(number, table) for number, table in enumerate(tables, 1)]
        self._check(entries)
        return OwnPrices(list(self._rows(entries)), providers)

    def _rows(self, entries: list[_Entry]) -> Iterator[PriceRow]:
        """Yield the rows, with ranks in the order of the patterns in the file."""
        for provider in dict.fromkeys(each.provider for each in entries):
            own = [each for each in entries if each.provider == provider]
            rank = _ranks(own)
            for each in own:
                yield from rows_of(
                    provider, rank[each.pattern], each.pattern, each.period, SOURCE, self._version
                )

    def _entry(self, number: int, table: Mapping[str, Any]) -> _Entry:
        for key in table:
            if key not in (*UNITS, *_OPTIONAL, "provider", "model"):
                raise self._error(
                    number, key, f"there is no such key: units are {', '.join(UNITS)}"
                )
        provider, model = (self._text(number, table, key) for key in ("provider", "model"))
        card = {unit: self._amount(number, unit, table[unit]) for unit in UNITS if unit in table}
        for unit in ("input", "output"):
            if unit not in card:
                raise self._error(
                    number, unit, "a price needs `input` and `output`: 0 for what costs nothing"
                )
        above = table.get("above_input_tokens", 0)
        if type(above) is not int or not 0 <= above <= TOKENS_LIMIT:
            raise self._error(
                number, "above_input_tokens", f"a number of tokens, 0 to {TOKENS_LIMIT:,}"
            )
        tier = self._text(number, table, "service_tier") if "service_tier" in table else ""
        begin, end = (self._time_ns(number, key, table.get(key)) for key in ("from", "to"))
        if end is not None and end <= (begin or 0):
            raise self._error(number, "to", "it is not after `from`")
        return _Entry(
            provider,
            _pattern(model),
            Period(card, tier, above, valid_from_ns=begin or 0, valid_to_ns=end),
            number,
        )

    def _check(self, entries: list[_Entry]) -> None:
        """Raise if two entries have prices of the same models for the same time: only one can be
        right.

        Raise also if there are prices of large requests only: small ones would have none, not those
        of the package.
        """
        places = [
            ((e.provider, e.pattern, e.period.service_tier, e.period.above_input_tokens), e)
            for e in entries
        ]
        places.sort(key=lambda each: (each[0], each[1].period.valid_from_ns))
        for (key, one), (other_key, other) in pairwise(places):
            end = one.period.valid_to_ns
            if key == other_key and (end is None or end > other.period.valid_from_ns):
                raise self._error(
                    max(one.number, other.number),
                    "model",
                    "another entry has prices for it at that time",
                )

        sizes = {(*key[:3], 0) for key, each in places if not each.period.above_input_tokens}
        for key, each in places:
            if (*key[:3], 0) not in sizes:
                raise self._error(
                    each.number,
                    "above_input_tokens",
                    "add an entry without it, which is for smaller requests",
                )

    def _text(self, number: int, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not 0 < len(value) <= NAME_LIMIT or "\0" in value:
            raise self._error(number, key, f"a text in quotes, of up to {NAME_LIMIT} characters")
        return value

    def _amount(self, number: int, unit: Unit, value: Any) -> Amount:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self._error(number, unit, "a number of USD")
        try:
            return amount(unit, Decimal(value))
        except ValueError as error:
            raise self._error(number, unit, str(error)) from None

    def _time_ns(self, number: int, key: str, value: Any) -> int | None:
        if value is None:
            return None
        if type(value) is date:
            value = datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, datetime):
            raise self._error(number, key, "a date without quotes: 2026-01-31")
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        if aware.timestamp() > SECONDS_LIMIT:
            raise self._error(number, key, "a date before 2262; leave it out for no end")
        return max(0, int(aware.timestamp())) * NS

    def _error(self, number: int, key: str, message: str) -> UsageError:
        return UsageError(f"{self._path}, line {self._line(number, key)}: `{key}`: {message}.")

    def _line(self, number: int, key: str) -> int:
        """Return the line of a key in the entry of that number, else that of the entry; 0 is
        outside of entries.
        """
        heads = [
            n for n, line in enumerate(self._lines) if re.match(r"\s*\[\[\s*price\s*\]\]", line)
        ]
        first = heads[number - 1] if 0 < number <= len(heads) else 0
        last = heads[number] if 0 < number < len(heads) else len(self._lines)
        written = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*(=|\.|\])")
        return next((n + 1 for n in range(first, last) if written.match(self._lines[n])), first + 1)
