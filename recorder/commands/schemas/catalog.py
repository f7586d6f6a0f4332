"""The JSON Schemas of what commands write with `--json`, made of structs: `--schema` prints them.

Schemas only grow: a property keeps its name and its type, and new ones may come. Tests compare them with what commands
really write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from recorder.commands.schemas import conversations, judgements, logs, upkeep
from recorder.commands.schemas.form import Form, meanings
from recorder.projections.views.columns import MEANINGS

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Written(NamedTuple):
    """What a command writes: after what it is called, what it is, and its type."""

    title: str
    description: str
    type: Any


FORMS: Mapping[str, Written] = {
    "sessions": Written("sessions --json", "The sessions, the last used first.", list[logs.ListedSession]),
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
    "events": Written(
        "events --json", "The rows of the log, exchange by exchange, as they were written.", list[logs.Event]
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
    "probe": Written("probe --json", "The cases of a probe, each streamed and plain.", list[judgements.ProbedCase]),
    "torture": Written("torture --json", "The faults, each with its verdict.", list[judgements.JudgedFault]),
    "resend": Written(
        "resend --json", "What was sent again, and how the answers differ: one object.", judgements.ResentRequests
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
    "prices-list": Written(
        "prices list --json",
        "The prices that are valid now, in the order in which they are looked up.",
        list[upkeep.PriceCard],
    ),
    "import": Written("import --json", "The files that were imported.", list[upkeep.ImportedFile]),
    "export": Written("export --to --json", "What the collector has taken: one object.", list[upkeep.Push]),
    "verify": Written(
        "verify --json",
        "What was verified: a row for each session; damage of a database as a whole comes first, without an id.",
        list[upkeep.VerifiedSession],
    ),
    "doctor": Written("doctor --json", "The results of the checks.", list[upkeep.Check]),
    "db-archive": Written("db archive --json", "What was archived, by month.", list[upkeep.ArchivedMonth]),
    "db-archive-list": Written(
        "db archive --list --json",
        "The archives that are read together with the log.",
        list[upkeep.AttachedArchive],
    ),
    "db-copy": Written("db copy --json", "What was copied, by session.", list[upkeep.CopiedSession]),
    "db-purge": Written(
        "db purge --json",
        "The sessions that were deleted, or would be with `--dry-run`.",
        list[upkeep.PurgedSession],
    ),
}
"""By the words of the command, and of the option that gives it another form."""


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a form, of JSON Schema 2020-12, without references."""
    written = FORMS[name]
    [stated], components = msgspec.json.schema_components([written.type], ref_template="{name}")
    forms = {form.__name__: form for form in _forms(Form)}
    about = {"title": f"recorder {written.title}", "description": written.description}
    return {"$schema": DRAFT, **_plain(stated, components, forms), **about}


def _forms(base: type[Form]) -> Iterator[type[Form]]:
    for form in base.__subclasses__():
        yield form
        yield from _forms(form)


def _plain(stated: Any, components: Mapping[str, Any], forms: Mapping[str, type[Form]]) -> dict[str, Any]:
    """Return a part of a schema as people read it: whole, with the meaning of each property, and open for more."""
    if "$ref" in stated:
        found, form = components[stated["$ref"]], forms[stated["$ref"]]
        texts = meanings(form)
        properties = {}
        for key, value in found["properties"].items():
            text = texts.get(key) or _of_views(key)
            properties[key] = {**_plain(value, components, forms), "description": text}
        return {
            "type": "object",
            "description": found["description"],
            "required": form.required(),
            "properties": properties,
            "additionalProperties": True,
        }
    if "anyOf" in stated:
        return _choice([_plain(choice, components, forms) for choice in stated["anyOf"]])
    plain = {name: value for name, value in stated.items() if name != "default"}
    for kind, inner, anything in (("array", "items", {}), ("object", "additionalProperties", True)):
        if plain.get("type") == kind:
            plain[inner] = _plain(plain[inner], components, forms) if inner in plain else anything
    if "enum" in plain:
        plain["type"] = "string"
    return plain


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
