"""The request of an exchange for a reader: what is new in it, and what differs from the request
before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import URL

from recorder.store.queries.reader import LogReader
from recorder.ui import asked
from tests.support.conversations import (
    USAGE,
    Conversations,
    answering,
    asking,
    call,
    message,
    response,
)
from tests.support.pictures import about, png, shown
from tests.support.rows import put_prices

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
FILE = {
    "type": "input_file",
    "filename": "report.pdf",
    "file_data": "data:application/pdf;base64,JVBERi0xLjcK",
}
OTHER = {**TOOL, "description": "Tell the weather."}


def body(items: list[Any], **fields: Any) -> dict[str, Any]:
    return {
        "model": "gpt-5",
        "stream": True,
        "instructions": "Be brief.",
        "tools": [TOOL],
        "input": items,
        **fields,
    }


async def read(path: URL, exchange: int, *, is_brief: bool = False) -> dict[str, Any]:
    async with await LogReader.open(path) as log:
        return await asked.asked(log, "s", str(exchange), is_brief=is_brief)


async def test_a_request_says_what_is_new_in_it(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(*call("get_weather", '{"city":"Paris"}')), body=body(asking("Weather?")))
    again = [*asking("Weather?"), *answering("18 °C")]
    made.exchange(
        response(*message("It is 18 °C."), id="resp_2"),
        body=body(
            again, instructions="Be brief, please.", tools=[OTHER], reasoning={"effort": "low"}
        ),
        at_s=2.0,
    )
    first, second = await read(made.database, 1), await read(made.database, 2)
    assert (first["before"], first["read"]["kept_messages"], first["read"]["changed_tools"]) == (
        None,
        None,
        [],
    )
    found = second["read"]
    assert second["before"] == 1
    assert (found["messages"], found["kept_messages"], found["dropped_messages"]) == (
        len(again),
        1,
        0,
    )
    assert (found["system"]["text"], found["system_differs_at"]) == (
        "Be brief, please.",
        len("Be brief"),
    )
    assert [(tool["name"], tool["state"]) for tool in found["tool_list"]] == [
        ("get_weather", "changed")
    ]
    assert found["tool_list"][0]["description"]["text"] == "Tell the weather."
    assert found["settings"]["reasoning_effort"] == "low"
    assert [part["text"] for each in found["message_list"] for part in each["parts"]][-1] == "18 °C"


async def test_tools_that_an_item_brings_are_among_the_tools(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    brought = {"type": "additional_tools", "role": "developer", "tools": [{**TOOL, "name": "exec"}]}
    made.exchange(response(), body=body([brought, *asking("Weather?")]))
    found = (await read(made.database, 1))["read"]
    assert [tool["name"] for tool in found["tool_list"]] == ["get_weather", "exec"]
    assert (found["tools"], found["messages"]) == (2, 1)


async def test_what_was_said_again_in_other_words_is_new(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(), body=body([*asking("Weather?"), *answering("18 °C")]))
    made.exchange(
        response(id="resp_2"), body=body([*asking("Weather?"), *answering("19 °C")]), at_s=1.0
    )
    found = (await read(made.database, 2))["read"]
    assert (found["messages"], found["kept_messages"], found["dropped_messages"]) == (2, 1, 1)


async def test_only_the_sizes_are_asked_for(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(), body=body(asking("x" * 50_000)))
    brief = (await read(made.database, 1, is_brief=True))["read"]
    assert (brief["system_chars"], brief["tools"], brief["messages"]) == (len("Be brief."), 1, 1)
    assert "message_list" not in brief
    [part] = (await read(made.database, 1))["read"]["message_list"][0]["parts"]
    assert (len(part["text"]), part["chars"]) == (asked.TEXT_CHARS, 50_000)


async def test_the_request_before_is_of_the_same_thread(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    for second, thread in enumerate(["main", "sub", "main"]):
        made.exchange(
            response(id=f"resp_{second}"),
            body=body(asking(thread)),
            at_s=float(second),
            thread_id=thread,
        )
    assert [(await read(made.database, number))["before"] for number in (1, 2, 3)] == [
        None,
        None,
        1,
    ]


async def test_a_request_that_nobody_here_reads(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange([b"data: 1\n\n"], body={"q": 1}, api="other", provider="mine", target="/mine/x")
    assert (await read(made.database, 1))["read"] is None


async def test_a_request_says_what_its_cache_missed_and_what_that_cost(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    stale = {**USAGE, "input_tokens_details": {"cached_tokens": 0}}
    long = asking("Weather? " * 500)
    made.exchange(response(*call("get_weather", "{}")), body=body(long))
    made.exchange(
        response(usage=stale), body=body([*long, *answering("18 °C")], tools=[OTHER]), at_s=9.0
    )
    put_prices(made.database, input="2", cache_read="0.5", output="0")
    cache = (await read(made.database, 2, is_brief=True))["cache"]
    assert (cache["class"], cache["previous_number"]) == ("prefix_changed", 1)
    assert (cache["path"], cache["after"]) == ("tools[0].description", "Tell the weather.")
    assert float(cache["cost_usd"]) == cache["missed_tokens"] * 1.5e-6 > 0


async def test_pictures_and_files_are_told_without_their_bytes(tmp_path: Path) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    made.exchange(response(), body=body([{"role": "user", "content": [shown(png()), FILE]}]))
    picture, file = (await read(made.database, 1))["read"]["message_list"][0]["parts"]
    assert picture["pictures"] == [{"mime_type": "image/png", **about(png())}]
    assert (file["name"], file["text"]) == ("report.pdf", "application/pdf, 9 bytes")


async def test_a_file_inside_of_an_object_of_its_part_is_told_by_its_type_and_size(
    tmp_path: Path,
) -> None:
    made = Conversations(tmp_path / "log.db").session("s")
    given = {"type": "file", "file": {name: FILE[name] for name in ("filename", "file_data")}}
    chat = {"model": "gpt-5", "messages": [{"role": "user", "content": [given]}]}
    made.exchange([], body=chat, api="openai-chat", target="/v1/chat/completions")
    [file] = (await read(made.database, 1))["read"]["message_list"][0]["parts"]
    assert (file["name"], file["text"]) == ("report.pdf", "application/pdf, 9 bytes")
