"""The key for an upstream: the value of a variable of the environment, and nothing else."""

from __future__ import annotations

import os
import re

from recorder.errors import UsageError


def key_of(variable: str | None) -> str | None:
    """Return the key in a variable; None if no variable is named.

    Raise `UsageError` if there is none in it.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"The variable {variable} is not set: set it to the key of the gateway, or name another one."
        )
    if not re.fullmatch(r"[\x21-\x7e]+", key):
        raise UsageError(f"The value of {variable} is not a key: a key is one word of plain ASCII.")
    return key
