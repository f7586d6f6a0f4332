"""The JSON Schemas of what commands write with `--json`, made of structs: `--schema` prints them.

Schemas only grow: a property keeps its name and its type, and new ones may come. Tests compare them
with what commands really write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import inspect

from recorder.archive.archiver import MonthReport
from recorder.commands.schemas import conversations, judgements, logs, upkeep
from recorder.commands.schemas.form import meanings, required
from recorder.commands.serving.tokens import NamedToken
from recorder.projections.views.columns import MEANINGS
from recorder.store.maintain.upkeep import CheckResult
from recorder.store.queries.retention import SessionSize
from recorder.store.queries.session_list import SessionRow

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Written(NamedTuple):
    """What a command writes: after what it is called, what it is, and its type."""

    title: str
    description: str
    type: Any


FORMS: Mapping[str, Written] = {
    "sessions": Written("sessions --json", "The sessions, the last used first.", list[SessionRow]),
    "show": Written(
        "show --json",
        "A session as a conversation. Keys that do not apply are absent.",
        conversations.Conversation,
    ),
    "show-request": Written(
        "show --request --json",
        "The requests of a session as the model saw them, each with all that it continues.",
        conversations.RequestedSession,
    ),
    "show-cache": Written(
        "show --cache --json",
        "The requests of a session that a model answered, and what the prompt cache gave.",
        conversations.CachedSession,
    ),
    "show-chain": Written(
        "show --chain --json",
        "The streams of models, and what the apps or gateways in front of them passed on.",
        conversations.ChainedSession,
    ),
    "events": Written(
        "events --json",
        "The rows of the log, exchange by exchange, as they were written.",
        list[logs.Event],
    ),
    "tail": Written("tail --jsonl", "One line: an event that was just recorded.", logs.TailedEvent),
    "usage": Written(
        "usage --json",
        "The sums: a row for each key of `--by`. It has only the columns of the keys that were asked for, those of "
        "calls by tool, those of costs with `--cost`.",
        list[logs.UsageSum],
    ),
    "diff": Written("diff --json", "How B differs from A.", judgements.Comparison),
    "lint": Written("lint --json", "The findings.", list[judgements.Judgement]),
    "lint-list": Written("lint --list --json", "The rules.", list[judgements.Rule]),
    "probe": Written(
        "probe --json",
        "The cases of a probe, each streamed and plain.",
        list[judgements.ProbedCase],
    ),
    "bisect": Written(
        "bisect --json",
        "The recorded answer that makes a check fail: one object.",
        judgements.Bisected,
    ),
    "torture": Written(
        "torture --json", "The faults, each with its verdict.", list[judgements.JudgedFault]
    ),
    "resend": Written(
        "resend --json",
        "What was sent again, and how the answers differ: one object.",
        judgements.ResentRequests,
    ),
    "query-list": Written(
        "query --list --json",
        "The views, with the meaning of their rows and columns.",
        list[judgements.ListedView],
    ),
    "query": Written(
        "query --json",
        "The rows of the statement: the keys are its columns. Bytes that are no UTF-8 are an object with `base64`.",
        list[dict[str, Any]],
    ),
    "token-list": Written(
        "token list --json", "The tokens of a shared recorder.", list[NamedToken]
    ),
    "prices-list": Written(
        "prices list --json",
        "The prices that are valid now, in the order in which they are looked up.",
        list[upkeep.PriceCard],
    ),
    "import": Written("import --json", "The files that were imported.", list[upkeep.ImportedFile]),
    "export": Written(
        "export --to --json", "What the collector has taken: one object.", list[upkeep.Push]
    ),
    "verify": Written(
        "verify --json",
        "What was verified: a row for each session; damage of a database as a whole comes first, without an id.",
        list[upkeep.VerifiedSession],
    ),
    "doctor": Written("doctor --json", "The results of the checks.", list[CheckResult]),
    "db-archive": Written("db archive --json", "What was archived, by month.", list[MonthReport]),
    "db-archive-list": Written(
        "db archive --list --json",
        "The archives that are read together with the log.",
        list[upkeep.AttachedArchive],
    ),
    "db-copy": Written(
        "db copy --json", "What was copied, by session.", list[upkeep.CopiedSession]
    ),
    "db-purge": Written(
        "db purge --json",
        "The sessions that were deleted, or would be with `--dry-run`.",
        list[SessionSize],
    ),
}
"""By the words of the command, and of the option that gives it another form."""


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a form, of JSON Schema 2020-12, without references."""
    written = FORMS[name]
    about = {"title": f"recorder {written.title}", "description": written.description}
    return {"$schema": DRAFT, **_schema(inspect.type_info(written.type)), **about}


_NAMES: Mapping[type[inspect.Type], str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
    inspect.NoneType: "null",
}


def _schema(kind: inspect.Type) -> dict[str, Any]:
    """Return the schema of a type as people read it: whole, with the meaning of each property, and
    open for more.
    """
    match kind:
        case inspect.StructType():
            return _object(kind)
        case inspect.ListType() | inspect.VarTupleType():
            return {"type": "array", "items": _schema(kind.item_type)}
        case inspect.TupleType():
            return {"type": "array", "items": {"type": _schema(kind.item_types[-1])["type"]}}
        case inspect.NamedTupleType():
            return {"type": "array", "items": {"type": _schema(kind.fields[-1].type)["type"]}}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _schema(kind.value_type) or True}
        case inspect.UnionType():
            return _choice([_schema(each) for each in kind.types])
        case inspect.LiteralType():
            return {"enum": list(kind.values), "type": "string"}
        case inspect.AnyType():
            return {}
    return {"type": _NAMES[type(kind)]}


def _object(kind: inspect.StructType) -> dict[str, Any]:
    texts = meanings(kind.cls)
    properties = {}
    for field in kind.fields:
        key = field.encode_name
        properties[key] = {**_schema(field.type), "description": texts.get(key) or _of_views(key)}
    return {
        "type": "object",
        "description": kind.cls.__doc__,
        "required": required(kind.cls),
        "properties": properties,
        "additionalProperties": True,
    }


def _of_views(column: str) -> str:
    """Return the meaning of a column in the views, as a sentence."""
    meaning = MEANINGS[column]
    return f"{meaning[0].upper()}{meaning[1:]}."


def _choice(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one of several schemas, if it can be in a list of types."""
    larger = [choice for choice in choices if choice.keys() != {"type"}]
    if len(larger) > 1 or any("properties" in choice for choice in larger):
        return {"anyOf": choices}
    merged = larger[0] if larger else {}
    return {**merged, "type": [choice["type"] for choice in choices]}
