"""Recordings to answer with: each can be an answer, and none has a gap unless that is allowed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from recorder.errors import RecorderError
from recorder.recordings.loader import Loader
from recorder.store.location import database_url
from recorder.store.queries.reader import LogReader
from recorder.store.write.writer import Store
from tests.support.conversations import Conversations, response
from tests.support.facts import captured
from tests.support.projects import stream
from tests.support.rows import add, make_exchange, make_session


@pytest.mark.parametrize("allow_gaps", [False, True])
async def test_what_cannot_be_an_answer_is_refused_also_where_gaps_are_allowed(
    tmp_path: Path, allow_gaps: bool
) -> None:
    url = database_url(tmp_path / "recorder.db")
    session = make_session(name="demo")
    exchange, (request, *rest) = captured(stream("word"), exchange=make_exchange(session))
    with Store(url) as store:
        with store.transaction():
            store.add_session(session)
            store.add_exchange(exchange)
        add(store, [msgspec.structs.replace(request, raw=b"{}"), *rest])
    loader = Loader(lambda: LogReader.open(url))
    with pytest.raises(
        RecorderError, match=r"^Exchange 1 of session demo cannot be an answer: event 0 of exchange"
    ):
        await loader.answers(["demo"], [], allow_gaps=allow_gaps)


async def test_one_exchange_comes_with_those_that_it_continues(tmp_path: Path) -> None:
    session = Conversations(tmp_path / "recorder.db").session("run")
    for number in range(4):
        link = {"previous_response_id": f"resp_{number - 2}"} if number > 1 else {}
        session.exchange(
            response(id=f"resp_{number}"), body={"model": "m", "input": "x", **link}, at_s=number
        )
    loader = Loader(lambda: LogReader.open(session.database))
    found = await loader.find("run:4")
    assert (
        [each.number for each in found.recordings],
        [each.number for each in found.continued],
    ) == ([4], [2])
    assert (await loader.find("run:2")).continued == (await loader.find("run")).continued == []
