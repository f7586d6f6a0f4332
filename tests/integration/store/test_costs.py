"""The view `costs`: to the last decimal what genai-prices computes, and what a change of prices
leaves as it was.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from genai_prices.data import providers
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.model.prices import PriceRow
from recorder.prices.genai import package_prices
from recorder.prices.own_file import OwnPrices
from recorder.prices.table import update
from recorder.projections.rows import ExchangeRow, IterationRow, ParametersRow, UsageRow
from recorder.store.location import database_url
from recorder.store.queries.usage import COSTS as USAGE_COSTS
from recorder.store.queries.usage import Summed, usage
from recorder.store.write.writer import Store
from tests.support.corpus import CORPUS, needs_corpus
from tests.support.empty_log import empty
from tests.support.facts import captured, folded
from tests.support.rows import an_exchange, make_id, price_rows, put, row, written
from tests.support.server import run
from tests.support.superuser import asked
from tests.unit.projections.test_usage_corpus import APIS, DIFFERENCES, EXTRACTORS, USUAL, reporting

AT_NS = 1_795_000_000 * 10**9  # a fixed day in November 2026
COSTS = "SELECT exchange_id, cost_picousd, no_price, price_model, price_tier FROM costs"


# A report without input tokens: to genai-prices they are 0, here they are unknown.
WITHOUT_INPUT = (
    "gemini/openinference__openinference-instrumentation-google-genai.test_instrume"
    "ntation.test_generate_content_.0.sse"
)


@pytest.fixture
def database(tmp_path: Path) -> URL:
    """A log in a file: `test_contract.py` and the decimals of this module are on a server too."""
    return database_url(empty(tmp_path / "log.db"))


def used(
    connection: Any, number: int, model: str, usage: dict[str, Any], tier: str = "", **fields: Any
) -> str:
    """An exchange of a model, with the tokens it used. Return its id."""
    exchange = an_exchange(connection, number, **{"started_ns": AT_NS, **fields})
    put(connection, row(ExchangeRow, exchange, request_model=model, status="completed"))
    put(connection, row(UsageRow, exchange, **{"usage_raw": "{}", **usage}))
    put(connection, row(ParametersRow, exchange, response_service_tier=tier or None))
    return exchange.exchange_id


def costs(database: Path | URL) -> dict[str, tuple[Any, ...]]:
    return {str(id): tuple(rest) for id, *rest in asked(database, COSTS)}


@pytest.mark.long
@needs_corpus
def test_all_usage_of_the_corpus_costs_what_genai_prices_computes(tmp_path: Path) -> None:
    path, expected, models = tmp_path / "log.db", {}, set()
    by_id = {each.id: each for each in providers}
    entries = [each for each in reporting(*APIS) if each["file"] not in DIFFERENCES]
    with written(path) as connection:
        for number, entry in enumerate(entries, 1):
            api = APIS[entry["provider"]]
            name, flavor = EXTRACTORS.get((api, entry["vendor"]), USUAL[api])
            facts = folded(*captured((CORPUS / entry["file"]).read_bytes(), api))
            model = facts["exchanges"][0].response_model or entry.get("model") or "none"
            counts = {
                each: getattr(facts["usage"][0], each)
                for each in UsageRow.__struct_fields__
                if each not in ("session_id", "exchange_id")
            }
            id = used(connection, number, model, counts, provider=name)
            raw = {"usageMetadata" if api == "gemini" else "usage": entry["usage_raw"]}
            usage = by_id[name].extract_usage(raw, api_flavor=flavor)[1]
            expected[id] = entry["file"], calculated(by_id[name], model, usage)
            models.add((name, model))
        put(connection, *package_prices([], models, {}).rows)
    found = costs(path)
    different = {
        file: (theirs, found[id])
        for id, (file, theirs) in expected.items()
        if not equal(theirs, found[id])
    }
    assert {file: (theirs, ours[1]) for file, (theirs, ours) in different.items()} == {
        WITHOUT_INPUT: (Decimal("0.000225"), "usage"),
    }
    assert sum(isinstance(theirs, Decimal) for _, theirs in expected.values()) > 100


def calculated(provider: Any, model: str, usage: Any) -> Decimal | str:
    """The price that genai-prices computes, or the reason why it computes none."""
    known = provider.find_model(model, all_providers=providers)
    try:
        at = datetime.fromtimestamp(AT_NS / 10**9, UTC)
        price: Decimal = known.calc_price(usage, provider, genai_request_timestamp=at).total_price
    except ValueError:
        return "counts"
    except AttributeError:
        return "model"
    return price


def equal(theirs: Decimal | str, ours: tuple[Any, ...]) -> bool:
    cost, reason = ours[:2]
    return (
        reason == theirs
        if isinstance(theirs, str)
        else cost is not None and Decimal(cost).scaleb(-12) == theirs
    )


def prices_toml(database: Path | URL, at_ns: int, **usd: str) -> None:
    rows = price_rows("m-%", "openai", -1_000_000, **usd)
    own = OwnPrices(change(rows, source="prices.toml"), {})
    with Store(database) as store:
        update(store, own, [], at_ns)


TOKENS = {
    "input_tokens": 1000,
    "cache_read_input_tokens": 400,
    "output_tokens": 100,
    "reasoning_output_tokens": 60,
}


@pytest.mark.long
def test_a_price_that_changes_changes_nothing_before_it(database: URL) -> None:
    with written(database) as connection:
        before = used(connection, 1, "m-1", TOKENS)
        after = used(connection, 2, "m-1", TOKENS, started_ns=AT_NS + 10)
    prices_toml(database, AT_NS, input="2", cache_read="0.5", output="10")
    first = costs(database)
    assert (
        first[before][:3]
        == first[after][:3]
        == (600 * 2_000_000 + 400 * 500_000 + 100 * 10_000_000, None, "m-%")
    )
    prices_toml(database, AT_NS + 5, input="4", cache_read="1", output="20")
    assert costs(database)[before] == first[before]
    assert costs(database)[after][0] == 2 * first[before][0]
    there = asked(database, "SELECT * FROM prices ORDER BY 1, 2, 3, 4, 5, 6, 7, 9")
    prices_toml(database, AT_NS + 99, input="4", cache_read="1", output="20")
    assert asked(database, "SELECT * FROM prices ORDER BY 1, 2, 3, 4, 5, 6, 7, 9") == there


def test_the_reason_of_a_cost_that_is_unknown(database: URL) -> None:
    with written(database) as connection:
        put(connection, *price_rows("m-%", input="1", output="1"))
        reasons = {
            used(connection, 1, "m-1", {"usage_raw": None}): "usage",
            used(connection, 2, "m-1", TOKENS, provider="chatgpt"): "subscription",
            used(connection, 3, "m-1", TOKENS, provider="elsewhere"): "provider",
            used(connection, 4, "other", TOKENS): "model",
            used(connection, 5, "m-1", {**TOKENS, "cache_read_input_tokens": 1001}): "counts",
            used(connection, 6, "m-1", {**TOKENS, "output_tokens": 2**39}): "counts",
            used(connection, 7, "m-1", {**TOKENS, "input_tokens": None}): "usage",
        }
    assert {id: each[1] for id, each in costs(database).items()} == reasons


def change(rows: list[PriceRow], **to: Any) -> list[PriceRow]:
    return [msgspec.structs.replace(each, **to) for each in rows]


def test_tiers_sizes_and_hours_have_their_own_prices(database: URL) -> None:
    standard, flex = (
        price_rows("m-%", input="1", output="1"),
        price_rows("m-%", input="3", output="3"),
    )
    large, night = (
        price_rows("m-%", input="5", output="5"),
        price_rows("n-%", input="7", output="7"),
    )
    second = AT_NS // 10**9 % 86_400
    with written(database) as connection:
        put(
            connection,
            *standard,
            *change(flex, service_tier="flex"),
            *change(large, above_input_tokens=1000),
        )
        put(connection, *change(night, daily_from_s=second, daily_to_s=second + 1))
        small = {"input_tokens": 1000, "output_tokens": 0}
        expected = {
            used(connection, 1, "m-1", small): 1_000 * 1_000_000,
            used(connection, 2, "m-1", small, "flex"): 1_000 * 3_000_000,
            used(connection, 3, "m-1", small, "scale"): 1_000 * 1_000_000,
            used(connection, 4, "m-1", {**small, "input_tokens": 1001}): 1_001 * 5_000_000,
            used(connection, 5, "n-1", small): 1_000 * 7_000_000,
            used(connection, 6, "n-1", small, started_ns=AT_NS + 10**9): None,
        }
    assert {id: each[0] for id, each in costs(database).items()} == expected


def test_sums_of_costs_are_exact_decimals(shared_database: URL) -> None:
    database = shared_database
    reports = (
        "0.123456789012345678901234567891",
        "0.123456789012345678901234567891",
        "999999999",
        "1",
    )
    with written(database) as connection:
        put(connection, *price_rows("m-%", input="0.000001", output="25000"))
        for number, reported in enumerate(reports, 1):
            tokens = {"input_tokens": 1, "output_tokens": 10**8, "reported_cost_usd": reported}
            used(connection, number, "m-1", {**tokens, "partial": number == 1})
    found = json.loads(run(database, "usage", "--cost", "--json").out)
    assert [{name: each[name] for name in USAGE_COSTS} for each in found] == [
        {
            "cost_usd": "10000000.000000000004",
            "reported_cost_usd": "1000000000.246913578024691357802469135782",
            "priced": 4,
            "partial": 1,
        }
    ]


async def test_tokens_are_summed_of_the_exchanges_that_are_named(database: URL) -> None:
    with written(database) as connection:
        for number in (1, 2, 3):
            used(connection, number, "m-1", {"input_tokens": 10**number, "output_tokens": 1})
    async with await open_log(database) as log:
        (all_of_them,) = await usage(log, ("model",))
        wanted = Summed(exchange_ids=[make_id(1), make_id(3)])
        (some,) = await usage(log, ("model",), wanted)
        assert await usage(log, ("model",), Summed(exchange_ids=[])) == []
    assert (all_of_them.input_tokens, some.input_tokens) == (1110, 1010)


def test_a_price_begins_and_ends_at_its_nanosecond(database: URL) -> None:
    old, new = price_rows("m-%", input="1", output="1"), price_rows("m-%", input="3", output="3")
    one = {"input_tokens": 1, "output_tokens": 0}
    with written(database) as connection:
        put(
            connection,
            *change(old, valid_to_ns=AT_NS),
            *change(new, valid_from_ns=AT_NS, valid_to_ns=AT_NS + 5),
        )
        expected = {
            used(connection, 1, "m-1", one, started_ns=AT_NS - 1): (1_000_000, None),
            used(connection, 2, "m-1", one, started_ns=AT_NS): (3_000_000, None),
            used(connection, 3, "m-1", one, started_ns=AT_NS + 4): (3_000_000, None),
            used(connection, 4, "m-1", one, started_ns=AT_NS + 5): (None, "model"),
            used(connection, 5, "m-1", {**one, "input_tokens": 0}, started_ns=AT_NS): (0, None),
        }
    assert {id: each[:2] for id, each in costs(database).items()} == expected


def iteration(type: str, input: int, output: int, **fields: Any) -> dict[str, Any]:
    return {"type": type, "input_tokens": input, "output_tokens": output, **fields}


MESSAGE = iteration("message", 1000, 100)
COMPACTION = iteration("compaction", 50, 8, cache_read_input_tokens=4000)
ADVISOR = iteration("advisor_message", 2000, 10, model="n-1")
MESSAGE_COSTS = 1000 * 1_000_000 + 100 * 5_000_000


@pytest.mark.long
@pytest.mark.parametrize(
    ("usage", "costs_picousd", "billed"),
    [
        ({}, MESSAGE_COSTS, (1000, 100)),
        ({"iterations": [MESSAGE]}, MESSAGE_COSTS, (1000, 100)),
        (
            {"iterations": [COMPACTION, MESSAGE]},
            MESSAGE_COSTS + 50 * 1_000_000 + 4000 * 100_000 + 8 * 5_000_000,
            (5050, 108),
        ),
        (
            {"iterations": [MESSAGE, ADVISOR]},
            MESSAGE_COSTS + 2000 * 3_000_000 + 10 * 20_000_000,
            (3000, 110),
        ),
        ({"iterations": [MESSAGE, {**ADVISOR, "model": "unheard of"}]}, "model", (3000, 110)),
        ({"iterations": [MESSAGE, {**ADVISOR, "output_tokens": "many"}]}, "usage", (3000, None)),
        (
            {"iterations": [MESSAGE, {**ADVISOR, "input_tokens": 10**8}]},
            "counts",
            (10**8 + 1000, 110),
        ),
        ({"iterations": [COMPACTION] * 1001}, "counts", (None, None)),
        ({"inference_geo": "us"}, MESSAGE_COSTS * 11 // 10, (1000, 100)),
        ({"inference_geo": "global"}, MESSAGE_COSTS, (1000, 100)),
    ],
)
def test_what_a_response_takes_beside_its_message_costs_too(
    database: URL,
    usage: dict[str, Any],
    costs_picousd: int | str,
    billed: tuple[int | None, int | None],
) -> None:
    report = {"input_tokens": 1000, "output_tokens": 100, **usage}
    message = {"type": "message", "id": "msg_1", "model": "m-1", "content": [], "usage": report}
    with written(database) as connection:
        put(connection, *price_rows("m-%", "anthropic", input="1", cache_read="0.1", output="5"))
        put(connection, *price_rows("n-%", "anthropic", 1, input="3", output="20"))
        exchange = an_exchange(
            connection, 1, started_ns=AT_NS, provider="anthropic", api="anthropic"
        )
        body = json.dumps(message).encode()
        rows = folded(
            *captured(body, "anthropic", content_type="application/json", exchange=exchange)
        )
        put(connection, *rows["exchanges"], *rows["usage"], *rows["iterations"])
    [(cost, reason, *_)] = costs(database).values()
    assert (reason or cost) == costs_picousd
    assert asked(database, "SELECT input_tokens FROM usage") == [(1000,)], "the size of the context"
    assert asked(database, "SELECT billed_input_tokens, billed_output_tokens FROM usage") == [
        billed
    ]


def test_a_transcription_costs_what_its_own_model_takes_for_sound(database: URL) -> None:
    counts = {"input_tokens": 20, "input_audio_tokens": 18, "output_tokens": 5}
    with written(database) as connection:
        put(connection, *price_rows("m-%", "openai", input="1", output="5"))
        put(connection, *price_rows("n-%", "openai", 1, input="2", output="10", input_audio="6"))
        exchange = an_exchange(connection, 1, started_ns=AT_NS)
        billed = {"billed_input_tokens": 20, "billed_output_tokens": 5}
        given = {"model": "m-1", "usage_raw": "{}", "input_tokens": 0, "output_tokens": 0}
        put(connection, row(ExchangeRow, exchange, request_model="m-1", status="completed"))
        put(connection, row(UsageRow, exchange, **given, **billed))
        put(connection, row(IterationRow, exchange, type="transcription", model="n-1", **counts))
    [(cost, reason, *_)] = costs(database).values()
    assert (cost, reason) == (2 * 2_000_000 + 18 * 6_000_000 + 5 * 10_000_000, None)


def test_an_interaction_costs_its_thoughts_and_what_tools_read(database: URL) -> None:
    usage = {"total_input_tokens": 1000, "total_cached_tokens": 400, "total_tool_use_tokens": 50}
    usage |= {"total_output_tokens": 100, "total_thought_tokens": 60}
    document = {
        "id": "v1_a",
        "object": "interaction",
        "status": "completed",
        "model": "m-1",
        "usage": usage,
    }
    completed = {"event_type": "interaction.completed", "interaction": document}
    with written(database) as connection:
        put(connection, *price_rows("m-%", "google", input="1", cache_read="0.1", output="5"))
        for number, body, content_type in (
            (1, json.dumps(document).encode(), "application/json"),
            (2, b"data: %b\n\n" % json.dumps(completed).encode(), "text/event-stream"),
        ):
            api = "gemini-interactions"
            exchange = an_exchange(connection, number, started_ns=AT_NS, provider="google", api=api)
            rows = folded(*captured(body, api, content_type=content_type, exchange=exchange))
            put(connection, *rows["exchanges"], *rows["usage"])
    cost = 650 * 1_000_000 + 400 * 100_000 + 160 * 5_000_000
    assert [each[:2] for each in costs(database).values()] == [(cost, None)] * 2


def test_a_price_of_ones_own_counts_as_it_stands_wherever_the_model_ran(database: URL) -> None:
    tokens = {"input_tokens": 1000, "output_tokens": 0, "inference_geo": "us"}
    with written(database) as connection:
        id = used(connection, 1, "m-1", tokens)
    prices_toml(database, AT_NS, input="2", output="10")
    assert costs(database)[id][0] == 1000 * 2_000_000
