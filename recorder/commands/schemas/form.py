"""The struct of a value that a command writes as JSON: the names and types are a promise, and the
texts say what it is.

The text after a field is its meaning; a field without has that of its column in the views. The text
is read from the source, which is there wherever the program is.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import get_args

import msgspec
from msgspec import UnsetType

TextIfAny = str | UnsetType
IntIfAny = int | UnsetType
"""Of a field that is absent if there is no value."""
TextOrNull = TextIfAny | None
IntOrNull = IntIfAny | None
"""Of a field that may be absent, and may be null."""


class Form(msgspec.Struct, rename=lambda name: name.rstrip("_")):
    """A JSON object that is put together where it is written: of one that is written as it is, its
    own struct says the same.
    """


def required(struct: type[msgspec.Struct]) -> list[str]:
    """Return the names in JSON of the fields that are never absent."""
    has_all = not struct.__struct_config__.omit_defaults
    names = []
    for field in msgspec.structs.fields(struct):
        if UnsetType not in get_args(field.type) and (has_all or field.required):
            names.append(field.encode_name)
    return names


def meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the texts after fields, by the name of the field in JSON; those of the structs that it
    extends, too.
    """
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(declared, ast.ClassDef)
    found: dict[str, str] = {}
    for base in struct.__bases__:
        if base is not msgspec.Struct:
            found |= meanings(base)
    for field, text in zip(declared.body, declared.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
        ):
            assert isinstance(text.value, ast.Constant), field.target.id
            found[field.target.id.rstrip("_")] = " ".join(str(text.value.value).split())
    return found
