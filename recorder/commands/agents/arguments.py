"""The arguments of the tools: their types, limits and descriptions, of which the JSON schemas are
made.

The descriptions are for a model that has seen nothing else of recorder. A limit is part of the
type, so that a model reads it before it asks, and the message about a wrong value names it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from recorder.commands.schemas.form import meanings
from recorder.diff import TOLERANCE, Level
from recorder.errors import UsageError
from recorder.lint.linter import PROFILES
from recorder.lint.rule import Profile

Text = Annotated[str, Meta(min_length=1, max_length=1_000)]
Sql = Annotated[str, Meta(min_length=1, max_length=100_000)]
Count = Annotated[int, Meta(ge=1)]
Place = Annotated[int, Meta(ge=0)]
Rows = Annotated[int, Meta(ge=1, le=1_000)]  # more do not fit into any answer

Session = Annotated[
    Text, Meta(description="The session: its id, the beginning of one, its name, or `latest`.")
]
Side = Annotated[
    Text,
    Meta(
        description="A session: its id, the beginning of one, its name, or `latest`; with `:N` at its end only its "
        "exchange number N.",
    ),
]
Exchange = Annotated[
    int | Text | UnsetType,
    Meta(description="Only this exchange: its number in the session (1 is the first), or its id."),
]
MaxText = Annotated[
    int,
    Meta(
        ge=20,
        le=20_000,
        description="Texts longer than this are cut, and the answer says how much.",
    ),
]
MAX_TEXT = 1_000  # characters: a paragraph, so that an answer has many rows and not one body


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call. The text after a field is its description, if its type has none."""


class SessionsArguments(Arguments, frozen=True):
    """The arguments of `sessions`: filters, all of which must hold."""

    limit: Rows = 20
    "At most this many."
    model: Text | UnsetType = UNSET
    "Only sessions with an exchange whose model has this in its name."
    client: Text | UnsetType = UNSET
    "Only sessions with an exchange whose client has this in its name."
    status: Text | UnsetType = UNSET
    "Only sessions with an exchange of this status: completed, failed, truncated, open, …"
    since: Text | UnsetType = UNSET
    "Only what began since then: an age (30m, 12h, 7d), a date, or a date and time."
    until: Text | UnsetType = UNSET
    "Only what began before then."
    query: Text | UnsetType = UNSET
    """Only sessions with all these words in one prompt, message, piece of reasoning, or the
    arguments or the result of one call; `wea*` is any word that begins with wea."""
    probes: bool = False
    "Only the sessions of probes, which belong to no conversation."
    after: Text | UnsetType = UNSET
    "Go on behind an earlier answer, which gives this value."


class ShowArguments(Arguments, frozen=True):
    """The arguments of `show`."""

    session: Session
    exchange: Exchange = UNSET
    from_exchange: Count = 1
    "Begin with the exchange of this number."
    at: Text | UnsetType = UNSET
    """The state at this moment: a time after the first request (350ms, 1.5s, 2m), or a share of the
    whole time (50%)."""
    at_event: Place | UnsetType = UNSET
    "The state after the event at this position of the one exchange."
    request: bool = False
    """Show the requests instead, each with all that it continues: what the model was sent. Not
    together with `at` and `at_event`."""
    max_text: MaxText = MAX_TEXT


class EventsArguments(Arguments, frozen=True):
    """The arguments of `events`."""

    session: Session
    exchange: Exchange = UNSET
    after_pos: Annotated[int, Meta(ge=-1)] = -1
    "Only the events of `exchange` behind this position."
    limit: Rows = 100
    "At most this many."
    max_text: MaxText = MAX_TEXT


class QueryArguments(Arguments, frozen=True):
    """The arguments of `query`."""

    sql: Sql | UnsetType = UNSET
    "One read-only statement. Without it, the views are listed with the meaning of their columns."
    params: dict[str, int | float | str | None] | UnsetType = UNSET
    "The values of `:name` in the SQL."
    view: Text | UnsetType = UNSET
    "Describe only this view. Not together with `sql`."
    limit: Rows = 100
    "At most this many rows."
    max_text: MaxText = MAX_TEXT


class LintArguments(Arguments, frozen=True):
    """The arguments of `lint`."""

    session: Side
    profile: Annotated[
        Profile | UnsetType,
        Meta(
            description=f"Whose rules, of {', '.join(PROFILES)}: `openai` is the Responses API as OpenAI speaks it, "
            "`codex` and `sdk` what Codex CLI and the OpenAI SDKs need of it. Without it, each exchange is judged by "
            "the profile of its own API."
        ),
    ] = UNSET
    skip: Place = 0
    "Leave out this many findings at the beginning."
    max_text: MaxText = MAX_TEXT


class DiffArguments(Arguments, frozen=True):
    """The arguments of `diff`."""

    a: Side
    b: Text
    "The other side, in the same way."
    only: list[Level] | UnsetType = UNSET
    "Compare only these levels. Without it, all but `bytes`."
    exact: bool = False
    "Nothing is noise: ids, times and padding count."
    tolerance: Annotated[float, Meta(ge=1)] = TOLERANCE
    "By what factor times may differ."
    differences: Rows = 10
    "List at most this many differences of each level and pair; all are counted."
    from_pair: Count = 1
    "Begin with this pair of exchanges; 1 is the first."
    max_text: MaxText = MAX_TEXT


def schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of the arguments of a tool."""
    _, components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = components[arguments.__name__]
    for name, meaning in meanings(arguments).items():
        schema["properties"][name]["description"] = meaning
    return {name: value for name, value in schema.items() if name not in ("title", "description")}


def arguments_from(given: object, arguments: type[Arguments]) -> Arguments:
    """Return the arguments of a call. Raise `UsageError` with what is wrong, and where."""
    try:
        return msgspec.convert(given or {}, arguments)
    except msgspec.ValidationError as error:
        names = ", ".join(arguments.__struct_fields__)
        raise UsageError(f"These arguments cannot be used: {error}. There are: {names}.") from error
