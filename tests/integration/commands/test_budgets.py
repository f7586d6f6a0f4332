"""Budgets of owners and teams: what was spent, and how they are set."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import URL

from recorder.model.attribution import Attribution
from recorder.store.queries.costs import Spent, spent_since
from recorder.store.queries.reader import LogReader
from tests.support.conversations import Conversations, S, asking, message, response
from tests.support.rows import START_NS, put_prices
from tests.support.server import run

GPT, OTHER = response(*message("Hi.")), response(*message("Hi."), model="nobody's")
# picodollars: 210 tokens of input, 1,024 from the cache, 264 of output, 192 of reasoning
COST = 4_950_500_000


async def test_what_was_spent_since_a_time_is_summed_by_owner_and_team(database: URL) -> None:
    session = Conversations(database).session("run")
    ann, bob = Attribution("ann", "search"), Attribution("bob")
    session.exchange(GPT, asking("Hello?"), at_s=1, attribution=ann)  # before
    session.exchange(GPT, asking("Hello?"), at_s=5)  # of nobody
    for at_s, attribution in ((5, ann), (6, ann), (7, bob), (8, Attribution("ann", "other"))):
        session.exchange(GPT, asking("Hello?"), at_s=at_s, attribution=attribution)
    session.exchange(OTHER, asking("Hello?"), at_s=9, attribution=bob)
    put_prices(database, input="1.25", cache_read="0.125", output="10")
    async with await LogReader.open(database) as log:
        found = await spent_since(log, START_NS + 5 * S)
    assert sorted(found, key=str) == [
        Spent("ann", "other", COST, 0),
        Spent("ann", "search", 2 * COST, 0),
        Spent("bob", None, COST, 1),
    ]


WRONG = {
    "[budget]\ndefault = '50'": "`default` in [budget] is USD for a month, from 0 to 1,000,000: default = 50.",
    "[budget]\ndefault = true": "`default` in [budget] is USD for a month",
    "[budget]\ndefault = nan": "`default` in [budget] is USD for a month",
    "[budget.owner]\nann = -1": "`ann` in [budget] is USD for a month",
    "[budget.team]\nsearch = 1e9": "`search` in [budget] is USD for a month",
    "[budget]\nann = 50": "there is no setting 'ann' in [budget]; there are `default`, `refuse`",
    "[budget]\nowner = 50": "`owner` in [budget] is a table: [budget.owner], with names and amounts.",
    "[budget]\nrefuse = 1": "`refuse` in [budget] is true or false.",
    "budget = 50": "`budget` is a table: [budget]",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_budget_is_one_sentence_before_anything_is_recorded(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "recorder").mkdir()
    (tmp_path / "recorder" / "recorder.toml").write_text(text)
    ran = run(tmp_path / "log.db", "serve", "--tokens", tmp_path / "tokens.json")
    assert (ran.code, len(ran.err.splitlines()), WRONG[text] in ran.err) == (2, 1, True), ran.err


def test_the_file_of_a_project_sets_no_budget(tmp_path: Path) -> None:
    (tmp_path / "recorder.toml").write_text("[budget]\nrefuse = true\n")
    ran = run(tmp_path / "log.db", "serve", "--tokens", tmp_path / "tokens.json", cwd=tmp_path)
    assert (ran.code, "sets `refuse` in [budget]" in ran.err) == (2, True)
