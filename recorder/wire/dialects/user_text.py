"""The words of a person in a request, apart from what a client puts around them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

INSTRUCTIONS_LIMIT = 8
"""Texts of a system prompt that are looked at: clients send one to three, and their first words say what it is for."""

INSTRUCTION_LIMIT = 400  # characters of each: what is looked for stands in its first sentences

_CLIENTS_ELEMENTS = "|".join(
    (
        *("system-reminder", "session_context", "hook_context", "environment_context", "user_instructions"),
        *("subagent_notification", "task-notification", "turn_aborted", "user_shell_command"),
        *("local-command-caveat", "local-command-stdout", "local-command-stderr", "ide_opened_file", "ide_selection"),
    )
)
"""What clients wrap in a person's message that is their own: `<system-reminder>` of Claude Code, `<session_context>` of
Gemini CLI, `<environment_context>` of Codex, …"""

_CLIENTS_OPENING = re.compile(rf"<({_CLIENTS_ELEMENTS})(?:\s[^<>]*)?>")
_BEHIND = re.compile(
    r"\n\n(?:# \*SEARCH/REPLACE block\* Rules:|# File editing rules:|# V4A Diff Format Rules:"
    r"|To suggest changes to a file you MUST return the entire content)"
)
"""How the rules begin that aider sets behind a prompt."""

_OPENING_TAG = re.compile(r"<([A-Za-z_][\w.:-]*)(?:\s[^<>]*)?>")


def is_element(content: str) -> bool:
    """Return whether a text is one `<environment_context>…</environment_context>` or its like, which a client writes
    itself.
    """
    content = content.strip()
    opening = _OPENING_TAG.match(content)
    closing = f"</{opening[1]}>" if opening else ""
    return opening is not None and content.find(closing) == len(content) - len(closing)


def own_words(content: str) -> str:
    """Return the words of a person in a text, without the elements of clients and what clients set behind it."""
    pieces, at, unclosed = [], 0, set()
    for opening in _CLIENTS_OPENING.finditer(content):
        closing = f"</{opening[1]}>"
        if opening.start() < at or closing in unclosed:
            continue
        end = content.find(closing, opening.end())
        if end < 0:
            unclosed.add(closing)  # nor has a later one: each name is searched for once
            continue
        pieces.append(content[at : opening.start()])
        at = end + len(closing)
    own = "".join([*pieces, content[at:]]).strip() if at else content
    found = _BEHIND.search(own)
    return own[: found.start()] if found else own


def last_words(messages: Sequence[Sequence[str]], last: int) -> tuple[str | None, bool]:
    """Return the last words of a person in a request, and whether it ends with them.

    Of each of the user's messages the texts; one without any is a picture or a file, which a person sends too. The
    request ends with the last so many of them. A text that is one whole element may come from the client: it counts as
    a person's only if there is no other text, because a prompt may be an element, `<article>…</article>`.
    """
    begun, ending = messages[: len(messages) - last], messages[len(messages) - last :]
    ends_with_other = last > 0 and not messages[-1]
    if (words := _words(ending)) is not None:
        return words, True
    return _words(begun), ends_with_other


def _words(messages: Sequence[Sequence[str]]) -> str | None:
    """Return the last own words of some messages: an element only if they have no others."""
    element: str | None = None
    for texts in reversed(messages):
        for own in map(own_words, reversed(texts)):
            if own.strip():
                if not is_element(own):
                    return own
                element = element or own
    return element


def instructions(texts: Iterable[Any]) -> tuple[str, ...]:
    """Return the beginnings of the first texts of a system prompt."""
    found = (each.lstrip()[:INSTRUCTION_LIMIT] for each in texts if isinstance(each, str))
    return tuple(islice(found, INSTRUCTIONS_LIMIT))
