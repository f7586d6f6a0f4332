"""Budgets: what an owner of tokens, or a team, may spend in a month (UTC), and what they have
spent.

Rules of this file:

* No request waits: it looks into a dict. What stands there is asked of the database in a thread,
  every few seconds.
* What is spent is what the log knows: the costs of exchanges that have ended. Those without a price
  count as nothing, and a warning says so.
* A budget that is spent is a warning, and a note in the log: once a month, whoever sees it first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import URL

from recorder.commands.serving.meter import Worker
from recorder.commands.terminal.settings import BUDGET, refusal, settings_files
from recorder.errors import StoreError, UsageError
from recorder.ingest.budget_note import note_spent
from recorder.model.facts import BudgetSpent
from recorder.model.text import counted, safe_text
from recorder.proxy.admission import Overspent
from recorder.proxy.http.server_exchange import Bearer
from recorder.store.queries.costs import PICO, Spent, spent_since
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store

log = logging.getLogger(__name__)

LOOK_S = 5.0  # between two questions: so long, and until its end, a request is not counted
# of a large log an answer takes seconds: then it is asked less often, for at most a 20th of the
# time
REST = 20
ANSWER_S = 60.0  # 100,000 exchanges in a file take three; a server may hang
AMOUNT_LIMIT = 10**6  # USD: sums of whole picodollars fit a bigint up to nine times that

Kind = Literal["owner", "team"]
_KINDS: tuple[Kind, ...] = get_args(Kind)


class Budgets(msgspec.Struct, frozen=True):
    """The amounts of `[budget]`, in picodollars for a month."""

    default: int | None = None  # of an owner that has none of its own
    of: Mapping[tuple[str, str], int] = {}  # by kind, `owner` or `team`, and name
    refuses: bool = False

    def limit(self, kind: str, name: str) -> int | None:
        """Return the budget of an owner or a team, if it has one."""
        return self.of.get((kind, name), self.default if kind == "owner" else None)


def read_budgets() -> Budgets | None:
    """Return `[budget]` of both files, in which single amounts of the project's count first; None
    if neither has it.
    """
    found: Budgets | None = None
    for file in settings_files():
        if (table := file.given.get(BUDGET)) is None:
            continue
        if names := file.refused(BUDGET, table):
            raise UsageError(refusal(file.path, f"in [{BUDGET}]", names))
        found = _with(found or Budgets(), table, file.path)
    return found


def _with(budgets: Budgets, table: Mapping[str, Any], path: Path) -> Budgets:
    if unknown := sorted(table.keys() - {"default", "refuse", *_KINDS}):
        raise UsageError(
            f"{path}: there is no setting {unknown[0]!r} in [{BUDGET}]; there are `default`, `refuse`, and the tables "
            f"[{BUDGET}.owner] and [{BUDGET}.team] with an amount for each name."
        )
    refuses = table.get("refuse", budgets.refuses)
    if not isinstance(refuses, bool):
        raise UsageError(f"{path}: `refuse` in [{BUDGET}] is true or false.")
    default = _amount(path, "default", table["default"]) if "default" in table else budgets.default
    of = dict(budgets.of)
    for kind in _KINDS:
        amounts = table.get(kind, {})
        if not isinstance(amounts, dict):
            raise UsageError(
                f"{path}: `{kind}` in [{BUDGET}] is a table: [{BUDGET}.{kind}], with names and amounts."
            )
        for name, value in amounts.items():
            of[kind, name] = _amount(path, name, value)
    return Budgets(default, of, refuses)


def _amount(path: Path, name: str, value: Any) -> int:
    """Return an amount in picodollars."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= AMOUNT_LIMIT:
        raise UsageError(
            f"{path}: `{name}` in [{BUDGET}] is USD for a month, from 0 to {AMOUNT_LIMIT:,}: {name} = 50."
        )
    return int(Decimal(str(value)).scaleb(PICO))


class Spending:
    """What was spent of budgets in this month. `run` keeps it up to date."""

    def __init__(self, budgets: Budgets, url: URL) -> None:
        self._budgets, self._url = budgets, url
        self._month = ""
        self._spent: Counter[tuple[Kind, str]] = Counter()  # picodollars, by kind and name
        self._said: set[str] = set()  # of this month
        self._noted: set[str] = set()  # in the log

    def overspent(self, bearer: Bearer) -> Overspent | None:
        """Return the budget that a token has nothing left of: that of its owner, else that of its
        team.
        """
        whose: tuple[tuple[Kind, str | None], ...] = (
            ("owner", bearer.owner),
            ("team", bearer.team),
        )
        for kind, name in whose:
            if name is not None and (found := self._overspent(kind, name)) is not None:
                return found
        return None

    async def run(self) -> None:
        """Ask the database every few seconds, for ever."""
        worker = Worker()
        try:
            while True:
                began_s = time.monotonic()
                await self._look(worker)
                await asyncio.sleep(max(LOOK_S, REST * (time.monotonic() - began_s)))
        finally:
            worker.stop()

    async def _look(self, worker: Worker) -> None:
        now = datetime.now(UTC)
        began = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if self._month != f"{now:%Y-%m}":
            self._month, self._spent, self._said = f"{now:%Y-%m}", Counter(), set()
        since_ns = int(began.timestamp()) * 10**9
        try:
            found = await worker.submit(lambda: asyncio.run(_spent(self._url, since_ns)))
        except Exception as error:
            # who only counts must not end what is counted; the last sums stay
            self._say(f"What is spent of budgets is not known, and they stay as they are: {error}")
            return
        self._count(found)
        for record in self._to_note():
            try:
                await worker.submit(partial(_note, self._url, record, since_ns))
                self._noted.add(record.about)
            except Exception as error:
                self._say(f"That a budget is spent is not in the log yet: {error}")

    def _to_note(self) -> Iterator[BudgetSpent]:
        """Yield the budgets that are spent, and which the log was not told of yet."""
        for (kind, name), spent in self._spent.items():
            limit = self._budgets.limit(kind, name)
            if limit is not None and spent >= limit:
                record = BudgetSpent(kind, name, self._month, _usd(spent), _usd(limit))
                if record.about not in self._noted:
                    yield record

    def _count(self, found: Iterable[Spent]) -> None:
        spent: Counter[tuple[Kind, str]] = Counter()
        unpriced = 0
        for row in found:
            unpriced += row.unpriced
            spent["owner", row.owner] += row.picousd
            if row.team is not None:
                spent["team", row.team] += row.picousd
        self._spent = spent
        if unpriced:
            self._say(
                f"{counted(unpriced, 'exchange')} of {self._month} or more have no price, and count as 0 USD in "
                "budgets: `recorder usage --cost` names their models, and prices those that are new.",
                key="unpriced",
            )
        for kind, name in spent:
            if (passed := self._overspent(kind, name)) is not None:
                self._say(passed.sentence, key=f"{kind} {name}")

    def _overspent(self, kind: Kind, name: str) -> Overspent | None:
        limit, spent = self._budgets.limit(kind, name), self._spent[kind, name]
        if limit is None or spent < limit:
            return None
        amounts = f"{_usd(spent)} of {_usd(limit)} USD"
        sentence = f"The {kind} {name} has spent {amounts} in {self._month} (UTC): ask for a larger budget."
        note = f'{kind};spent_usd={_usd(spent)};budget_usd={_usd(limit)};month="{self._month}"'
        return Overspent(note.encode(), sentence, self._budgets.refuses)

    def _say(self, sentence: str, key: str | None = None) -> None:
        """Write a warning, once in a month."""
        if (key or sentence) not in self._said:
            self._said.add(key or sentence)
            log.warning("%s", safe_text(sentence))


def _usd(picousd: int) -> str:
    # a number of structured headers has three decimals
    return f"{Decimal(picousd).scaleb(-PICO):.3f}"


def _note(url: URL, record: BudgetSpent, since_ns: int) -> None:
    with Store(url) as store:
        note_spent(store, record, since_ns)


async def _spent(url: URL, since_ns: int) -> list[Spent]:
    try:
        async with asyncio.timeout(ANSWER_S), await LogReader.open(url) as reader:
            return await spent_since(reader, since_ns)
    except TimeoutError:
        raise StoreError(f"the database has not answered for {ANSWER_S:g} s.") from None
