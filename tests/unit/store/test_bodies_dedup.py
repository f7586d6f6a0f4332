"""What a body has in common with earlier ones comes out as it went in."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recorder.model.shared_body import RUNS, SOURCES, VERSION, Recipe, read_recipe, write_recipe
from recorder.store.bodies import dedup
from recorder.store.bodies.dedup import BodyDeduplicator
from tests.support.agents import AGENTS, bodies
from tests.support.rows import make_id
from tests.support.tables import table


class Rows:
    """What stands in the rows of a session."""

    def __init__(self) -> None:
        self.sharing = BodyDeduplicator()
        self.literals: dict[tuple[str, int], bytes] = {}
        self.recipes: list[Recipe | None] = []
        self.size_bytes = 0

    def add(self, body: bytes, *, pos: int = 1, session_id: str = "s") -> None:
        exchange_id = make_id(len(self.recipes))
        raw = self.sharing.row(session_id, exchange_id, pos, body)
        recipe = None if raw is None else read_recipe(raw)
        if recipe is not None:
            assert recipe.body([self.literals[place] for place in recipe.places()]) == body
        self.literals[exchange_id, pos] = body if recipe is None else recipe.literal
        self.recipes.append(recipe)
        self.size_bytes += len(raw or body)


@contextmanager
def limits(**small: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in small.items():
            patch.setattr(dedup, name, value)
        yield


# So that little is needed to reach them.
SMALL = {
    **dict.fromkeys(("RUN_BYTES", "ID_BYTES"), 0),
    **dict.fromkeys(("COMMON_BYTES", "ITEM_BYTES", "ITEM_RUNS", "SOURCES"), 3),
    "RUNS": 12,
    "LEAST_BYTES": 1,
    "SOURCE_BYTES": 400,
    "SESSION_BYTES": 3000,
    "KNOWN_BYTES": 9000,
}

parts = st.one_of(
    st.sampled_from([b"},{", b"}, {", b'"},\n{"', b"{}", b"\\n"]), st.binary(max_size=12)
)
edits = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8), st.lists(parts, max_size=4)), max_size=3
)


@given(first=st.lists(parts, min_size=1, max_size=60), turns=st.lists(edits, max_size=25))
def test_what_went_in_comes_out(
    first: list[bytes], turns: list[list[tuple[int, int, list[bytes]]]]
) -> None:
    rows, told = Rows(), first
    with limits(**SMALL):
        for changes in turns:
            for at, length, new in changes:
                told[at : at + length] = new
            rows.add(b"".join(told) or b"-")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), st.binary(max_size=200)), max_size=30)
)
def test_sessions_and_positions_do_not_mix(told: list[tuple[int, int, bytes]]) -> None:
    sessions = [Rows() for _ in range(3)]
    shared = BodyDeduplicator()
    for rows in sessions:
        rows.sharing = shared
    for session, pos, body in told:
        sessions[session].add(body * 30 + bytes(1024), pos=pos, session_id=str(session))


@pytest.mark.parametrize("api", AGENTS)
def test_a_history_is_stored_once(api: str) -> None:
    rows, told = Rows(), bodies(api)
    for body in told:
        rows.add(body)
    assert rows.size_bytes < 1.5 * len(told[-1]) < sum(map(len, told)) / 15
    assert [recipe is None for recipe in rows.recipes] == [True] + [False] * (len(told) - 1)


def changed(body: bytes, how: str) -> bytes:
    """A body as a client may have sent it before, or next."""
    value = json.loads(body)
    told = value["input"]
    if how == "an edit in the middle":
        told[60]["output"] = "other"
    elif how == "a secret that was taken out":
        told[62]["arguments"] = "<REDACTED openai-key, 164 bytes>"
    elif how == "a field in front":
        value = {"temperature": 0.25, **value}
    elif how == "a field behind":
        value["metadata"] = {"turn": "a longer one"}
    elif how == "a compaction":
        del told[1:100]
    elif how == "the order of the tools":
        value["tools"].reverse()
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("how", "new_bytes"),
    [
        ("a field in front", 100),
        ("a field behind", 600),
        ("an edit in the middle", 700),
        ("a compaction", 1500),
        ("a secret that was taken out", 1500),
        ("the order of the tools", 2500),
    ],
)
def test_what_has_not_changed_is_found_again(how: str, new_bytes: int) -> None:
    rows, told = Rows(), bodies("openai-responses")[-1]
    for body in (told, changed(told, how), told):
        rows.add(body)
    assert [len(recipe.literal) < new_bytes if recipe else None for recipe in rows.recipes] == [
        None,
        True,
        True,
    ]


def test_bytes_that_are_no_json_are_shared_too() -> None:
    rows, noise = Rows(), random.Random(1).randbytes(20_000)
    for body in (noise, b"in front" + noise, b"in front" + noise + b"behind"):
        rows.add(body)
    assert [recipe and recipe.literal for recipe in rows.recipes] == [None, b"in front", b"behind"]


def test_a_long_session_stays_within_the_limits_of_a_recipe() -> None:
    rows, told = Rows(), bodies("anthropic", 100)
    for body in told:
        rows.add(body)
    recipes = [recipe for recipe in rows.recipes if recipe is not None]
    assert max(len(recipe.sources) for recipe in recipes) <= SOURCES
    assert max(len(recipe.runs) for recipe in recipes) <= RUNS
    assert rows.size_bytes < 2 * len(told[-1])


def test_the_least_recently_used_session_is_forgotten() -> None:
    rows, body, known_bytes = Rows(), bodies("gemini", 20)[-1], 500_000
    with limits(KNOWN_BYTES=known_bytes):
        for number in range(known_bytes // len(body) + 10):
            rows.add(body, session_id=str(number))
            rows.add(body, session_id="often")
        assert rows.sharing.row("0", make_id(0), 1, body) is None
    assert sum(known.size_bytes for known in rows.sharing._sessions.values()) <= known_bytes
    assert None not in rows.recipes[3::2]


def test_an_exchange_with_another_kind_of_id_is_stored_whole() -> None:
    shared, body = BodyDeduplicator(), bodies("gemini", 1)[0]
    for exchange_id in ("x", make_id(1).upper(), make_id(1).replace("-", "")):
        assert [shared.row("s", exchange_id, 1, body) for _ in range(2)] == [None, None]


TOO_SMALL = bytes(1023)
LARGER_THAN_IS_CUT = bytes(2**18 + 1)
NOT_REPEATED = [random.Random(seed).randbytes(5_000) for seed in range(5)]


@table("bodies", [[TOO_SMALL] * 3, [LARGER_THAN_IS_CUT] * 3, NOT_REPEATED])
def test_what_is_too_small_too_large_or_not_repeated_is_stored_whole(bodies: list[bytes]) -> None:
    rows = Rows()
    for body in bodies:
        rows.add(body)
    assert rows.recipes == [None] * len(bodies)


# -- recipes


SOURCE = (bytes(16), 1)


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(VERSION, [], [(0, 0, 3)], b"ab"),
        Recipe(VERSION, [], [(0, 1, 2)], b"ab"),
        Recipe(VERSION, [SOURCE], [(2, 0, 1)], b"ab"),
        Recipe(VERSION, [SOURCE], [(-1, 0, 1)], b"ab"),
        Recipe(VERSION, [SOURCE], [(1, 0, 2**60)], b"ab"),
        Recipe(VERSION, [SOURCE], [(1, 3, 1)], b"ab"),
        Recipe(VERSION, [], [(0, 0, 2**19)] * 3, bytes(2**19)),
    ],
)
def test_a_recipe_that_takes_what_is_not_there_is_refused(recipe: Recipe) -> None:
    with pytest.raises(ValueError, match="a recipe"):
        read_recipe(write_recipe(recipe)).body([b"abc"] * len(recipe.sources))


@given(st.binary(max_size=60))
@example(write_recipe(Recipe(2, [], [], b"")))  # of another version
@example(write_recipe(Recipe(VERSION, [SOURCE] * 33, [], b"")))  # of more sources than the limit
def test_what_is_no_recipe_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match="a recipe is not valid"):
        read_recipe(raw)
