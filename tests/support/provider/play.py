"""One request about to be answered, with what every wire format needs for its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.provider.background import BackgroundResponses
from tests.support.provider.continued import ContinuedResponses
from tests.support.provider.dice import Dice
from tests.support.provider.hosted_sessions import HostedSessions
from tests.support.provider.prompt_cache import PromptPiece, RenderedPrompt
from tests.support.provider.reply import DemoReply, DemoRequest
from tests.support.provider.scripts import Prompt, Script, Usage

Json = dict[str, Any]


class Play(NamedTuple):
    request: DemoRequest
    name: str  # what the path names: a model, a response
    body: Json
    script: Script
    usage: Usage
    dice: Dice
    background: BackgroundResponses
    continued: ContinuedResponses
    hosted: HostedSessions

    def required(self, field: str) -> Any:
        """Return a field of the body. Raises `ValueError` if it is missing."""
        if field not in self.body:
            raise ValueError(f"Missing required parameter: '{field}'.")
        return self.body[field]


class Dialect(NamedTuple):
    """The reading of one vendor's requests, and its refusals: (dice, HTTP status, message).

    `render` returns the prompt as the model gets it; `input` of its body is whole. The scope is
    left to the caller.
    """

    prompt_of: Callable[[Json], Prompt]
    refuse: Callable[[Dice, int, str | None], DemoReply]
    render: Callable[[Json], RenderedPrompt]


def compact(value: object) -> str:
    """Encode JSON as the services write it: no spaces, no escapes that are not needed."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def piece(value: object, mark: int = 0) -> PromptPiece:
    """Return a piece of a prompt: a value as JSON, whatever spaces and escapes the client has used."""
    return PromptPiece(compact(value).encode(errors="surrogatepass"), mark)


def listed(value: object) -> list[Json]:
    """Return the objects in a list; none if it is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def conversation(body: Json, name: str) -> Any:
    """Return the field of a body that has the conversation.

    Raises `ValueError` if that is not a list and no text.
    """
    found = body.get(name)
    if found is not None and not isinstance(found, list | str):
        raise ValueError(
            f"Invalid type for '{name}': it must be a list, and is {compact(found)[:40]}."
        )
    return found


def number(value: object) -> int | None:
    """Return a limit on tokens; None if there is none.

    Raises `ValueError` if it is not a positive number.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(
            f"A limit on tokens must be a positive integer, and is {compact(value)[:40]}."
        )
    return value


def texts(content: object) -> list[str]:
    """Return the texts of a message's content: a string, or parts of which some have a `text`."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in listed(content) if isinstance(part.get("text"), str)]


def last_text(content: object) -> str:
    """Return the last text part: agents put reminders before what the user typed, and Kilo an
    element after it.
    """
    found = texts(content)
    typed = [text for text in found if not text.lstrip().startswith("<environment_details>")]
    return next(reversed(typed or found), "")
