"""One request about to be answered: what every wire format needs to know of it, and how it reads a conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from recorder.demo.background import Background
from recorder.demo.dice import Dice
from recorder.demo.reply import DemoReply, DemoRequest
from recorder.demo.scripts import Asked, Script, Usage

Json = dict[str, Any]


class Play(NamedTuple):
    request: DemoRequest
    name: str  # what the path names: a model, a response
    body: Json
    script: Script
    usage: Usage
    dice: Dice
    background: Background

    def required(self, field: str) -> Any:
        """A field of the body; ValueError if it is missing."""
        if field not in self.body:
            raise ValueError(f"Missing required parameter: '{field}'.")
        return self.body[field]


class Dialect(NamedTuple):
    """How a vendor's requests are read, and how it refuses: (dice, HTTP status, message)."""

    asked: Callable[[Json], Asked]
    refuse: Callable[[Dice, int, str | None], DemoReply]


def compact(value: object) -> str:
    """JSON as the services write it: no spaces, no escapes that are not needed."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def listed(value: object) -> list[Json]:
    """The objects in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(content: object) -> list[str]:
    """The texts of a message's content: a string, or parts of which some have a `text`."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in listed(content) if isinstance(part.get("text"), str)]


def last_text(content: object) -> str:
    """The last text part: agents put reminders before what the user typed."""
    return next(reversed(texts(content)), "")
