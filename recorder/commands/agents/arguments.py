"""The arguments of the tools: their types, limits and descriptions, of which the JSON schemas are made.

The descriptions are for a model that has seen nothing else of recorder. A limit is part of the type, so that a model
reads it before it asks, and the message about a wrong value names it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from recorder.diff import TOLERANCE, Level
from recorder.errors import UsageError
from recorder.lint.linter import PROFILES
from recorder.lint.rule import Profile

Text = Annotated[str, Meta(min_length=1, max_length=1_000)]
Sql = Annotated[str, Meta(min_length=1, max_length=100_000)]
Count = Annotated[int, Meta(ge=1)]
Place = Annotated[int, Meta(ge=0)]
Rows = Annotated[int, Meta(ge=1, le=1_000)]  # more do not fit into any answer

_SESSION = "The session: its id, the beginning of one, its name, or `latest`."
_SIDE = (
    "A session: its id, the beginning of one, its name, or `latest`; with `:N` at its end only its exchange number N."
)
_EXCHANGE = "Only this exchange: its number in the session (1 is the first), or its id."
_MAX_TEXT = "Texts longer than this are cut, and the answer says how much."

MaxText = Annotated[int, Meta(ge=20, le=20_000, description=_MAX_TEXT)]
MAX_TEXT = 1_000  # characters: a paragraph, so that an answer has many rows and not one body


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""


class SessionsArguments(Arguments, frozen=True):
    """The arguments of `sessions`: filters, all of which must hold."""

    limit: Annotated[Rows, Meta(description="At most this many.")] = 20
    model: Annotated[
        Text | UnsetType, Meta(description="Only sessions with an exchange whose model has this in its name.")
    ] = UNSET
    client: Annotated[
        Text | UnsetType, Meta(description="Only sessions with an exchange whose client has this in its name.")
    ] = UNSET
    status: Annotated[
        Text | UnsetType,
        Meta(description="Only sessions with an exchange of this status: completed, failed, truncated, open, …"),
    ] = UNSET
    since: Annotated[
        Text | UnsetType,
        Meta(description="Only what began since then: an age (30m, 12h, 7d), a date, or a date and time."),
    ] = UNSET
    until: Annotated[Text | UnsetType, Meta(description="Only what began before then.")] = UNSET
    query: Annotated[
        Text | UnsetType,
        Meta(
            description="Only sessions with all these words in one prompt, message, piece of reasoning, or the "
            "arguments or the result of one call; `wea*` is any word that begins with wea."
        ),
    ] = UNSET
    probes: Annotated[bool, Meta(description="Only the sessions of probes, which belong to no conversation.")] = False
    after: Annotated[Text | UnsetType, Meta(description="Go on behind an earlier answer, which gives this value.")] = (
        UNSET
    )


class ShowArguments(Arguments, frozen=True):
    """The arguments of `show`."""

    session: Annotated[Text, Meta(description=_SESSION)]
    exchange: Annotated[int | Text | UnsetType, Meta(description=_EXCHANGE)] = UNSET
    from_exchange: Annotated[Count, Meta(description="Begin with the exchange of this number.")] = 1
    at: Annotated[
        Text | UnsetType,
        Meta(
            description="The state at this moment: a time after the first request (350ms, 1.5s, 2m), or a share of the "
            "whole time (50%)."
        ),
    ] = UNSET
    at_event: Annotated[
        Place | UnsetType, Meta(description="The state after the event at this position of the one exchange.")
    ] = UNSET
    request: Annotated[
        bool,
        Meta(
            description="Show the requests instead, each with all that it continues: what the model was sent. Not "
            "together with `at` and `at_event`."
        ),
    ] = False
    max_text: MaxText = MAX_TEXT


class EventsArguments(Arguments, frozen=True):
    """The arguments of `events`."""

    session: Annotated[Text, Meta(description=_SESSION)]
    exchange: Annotated[int | Text | UnsetType, Meta(description=_EXCHANGE)] = UNSET
    after_pos: Annotated[
        Annotated[int, Meta(ge=-1)], Meta(description="Only the events of `exchange` behind this position.")
    ] = -1
    limit: Annotated[Rows, Meta(description="At most this many.")] = 100
    max_text: MaxText = MAX_TEXT


class QueryArguments(Arguments, frozen=True):
    """The arguments of `query`."""

    sql: Annotated[
        Sql | UnsetType,
        Meta(
            description="One read-only statement. Without it, the views are listed with the meaning of their columns."
        ),
    ] = UNSET
    params: Annotated[
        dict[str, int | float | str | None] | UnsetType, Meta(description="The values of `:name` in the SQL.")
    ] = UNSET
    view: Annotated[Text | UnsetType, Meta(description="Describe only this view. Not together with `sql`.")] = UNSET
    limit: Annotated[Rows, Meta(description="At most this many rows.")] = 100
    max_text: MaxText = MAX_TEXT


class LintArguments(Arguments, frozen=True):
    """The arguments of `lint`."""

    session: Annotated[Text, Meta(description=_SIDE)]
    profile: Annotated[
        Profile | UnsetType,
        Meta(
            description=f"Whose rules, of {', '.join(PROFILES)}: `openai` is the Responses API as OpenAI speaks it, "
            "`codex` and `sdk` what Codex CLI and the OpenAI SDKs need of it. Without it, each exchange is judged by "
            "the profile of its own API."
        ),
    ] = UNSET
    skip: Annotated[Place, Meta(description="Leave out this many findings at the beginning.")] = 0
    max_text: MaxText = MAX_TEXT


class DiffArguments(Arguments, frozen=True):
    """The arguments of `diff`."""

    a: Annotated[Text, Meta(description=_SIDE)]
    b: Annotated[Text, Meta(description="The other side, in the same way.")]
    only: Annotated[
        list[Level] | UnsetType, Meta(description="Compare only these levels. Without it, all but `bytes`.")
    ] = UNSET
    exact: Annotated[bool, Meta(description="Nothing is noise: ids, times and padding count.")] = False
    tolerance: Annotated[Annotated[float, Meta(ge=1)], Meta(description="By what factor times may differ.")] = TOLERANCE
    differences: Annotated[
        Rows, Meta(description="List at most this many differences of each level and pair; all are counted.")
    ] = 10
    from_pair: Annotated[Count, Meta(description="Begin with this pair of exchanges; 1 is the first.")] = 1
    max_text: MaxText = MAX_TEXT


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool."""
    _, components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components[arguments.__name__]
    return {name: value for name, value in schema.items() if name not in ("title", "description")}


def arguments_from(given: object, arguments: type[Arguments]) -> Arguments:
    """Return the arguments of a call. Raise `UsageError` with what is wrong, and where."""
    try:
        return msgspec.convert(given or {}, arguments)
    except msgspec.ValidationError as error:
        names = ", ".join(arguments.__struct_fields__)
        raise UsageError(f"These arguments cannot be used: {error}. There are: {names}.") from error
