"""The schema that recorder declares, compared with the one that a log has.

Rules of this file:

* A revision says what a recorder made. It does not say what is there now: whoever may write to a
  log can drop a guard, change a view, or add a trigger. So the texts themselves are compared.
* What belongs to the user is let be: tables, indexes and views of other names. They only read, or
  are only read.
* A unique index is none of these: it refuses rows, and an exchange that the log refuses is recorded
  nowhere.
* What runs by itself when a row is written or read is never the user's on a table of recorder: it
  may drop or change what is recorded, or hide it.
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, NamedTuple

from sqlalchemy import URL

from recorder.store.engine import Objects, ReadSchema, schema_of

RUNS_BY_ITSELF = ("trigger", "rule", "policy", "unique index")

REMEDY = "`recorder db copy` into a new database has all that was recorded, and the schema as it is declared"

_SAYS = {"missing": "is missing", "changed": "was changed", "added": "was added"}


class SchemaDifference(NamedTuple):
    """An object of a schema that is not as it is declared."""

    kind: str
    name: str
    difference: Literal["missing", "changed", "added"]

    @property
    def may_lose(self) -> bool:
        """Whether what is recorded from now on may not arrive as it is, or not at all."""
        return self.kind in RUNS_BY_ITSELF and self.difference != "missing"

    def __str__(self) -> str:
        return f"the {self.kind} {self.name} {_SAYS[self.difference]}"


def schema_differences(url: URL, read: ReadSchema | None = None) -> list[SchemaDifference]:
    """Return how the schema of a log differs from the declared one, in the order of kinds and
    names; no row of the log is read.

    `read` is for who has a file open. Raise `NotFoundError` or `StoreError` if there is none that
    can be read here.
    """
    schema = schema_of(url)
    if read is not None:
        return differences(*schema.schema_objects(read))
    with schema.schema_reader(url) as read:
        return differences(*schema.schema_objects(read))


def differences(declared: Objects, found: Objects) -> list[SchemaDifference]:
    result = [SchemaDifference(*key, "missing") for key in declared.keys() - found.keys()]
    for key in found.keys() - declared.keys():
        if key[0] in RUNS_BY_ITSELF:
            result.append(SchemaDifference(*key, "added"))
    for key in declared.keys() & found.keys():
        if declared[key] != found[key]:
            result.append(SchemaDifference(*key, "changed"))
    return sorted(result)


def sentence(found: list[SchemaDifference]) -> str:
    """Return what differs, in one sentence."""
    named = ", ".join(map(str, islice(found, _NAMED)))
    more = f", and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return f"The schema is not as recorder made it: {named}{more}. {REMEDY}."


_NAMED = 5  # a line that is longer is not read
