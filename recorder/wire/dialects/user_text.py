"""The words of a person in a request, apart from what a client puts around them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

INSTRUCTIONS_LIMIT = 8
"""Texts of a system prompt that are looked at: clients send one to three, and their first words say
what it is for.
"""

INSTRUCTION_LIMIT = 400  # characters of each: what is looked for stands in its first sentences

_CLIENTS_ELEMENTS = "|".join(
    (
        *(
            "system-reminder",
            "session_context",
            "hook_context",
            "environment_context",
            "user_instructions",
        ),
        *("subagent_notification", "task-notification", "turn_aborted", "user_shell_command"),
        *(
            "local-command-caveat",
            "local-command-stdout",
            "local-command-stderr",
            "ide_opened_file",
            "ide_selection",
        ),
    )
)
"""What clients wrap in a person's message that is their own: `<system-reminder>` of Claude Code,
`<session_context>` of Gemini CLI, `<environment_context>` of Codex, …"""

_CLIENTS_OPENING = re.compile(rf"<({_CLIENTS_ELEMENTS})(?:\s[^<>]*)?>")
_BEHIND = re.compile(
    r"\n\n(?:# \*SEARCH/REPLACE block\* Rules:|# File editing rules:|# V4A Diff Format Rules:"
    r"|To suggest changes to a file you MUST return the entire content)"
)
"""How the rules begin that aider sets behind a prompt."""

OUTER_LIMIT = 8  # elements on each side of a text that are left out: clients write one or two

_CLOSING_TAG = re.compile(r"</([A-Za-z_][\w.:-]*)>")
_OPENING_TAG = re.compile(r"<([A-Za-z_][\w.:-]*)(?:\s[^<>]*)?>")


def is_element(content: str) -> bool:
    """Return whether a text is one `<environment_context>…</environment_context>` or its like,
    which a client writes itself.
    """
    content = content.strip()
    opening = _OPENING_TAG.match(content)
    closing = f"</{opening[1]}>" if opening else ""
    return opening is not None and content.find(closing) == len(content) - len(closing)


def own_words(content: str) -> str:
    """Return the words of a person in a text, without the elements of clients and what clients set
    behind it.
    """
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


def without_outer_elements(text: str) -> str:
    """Return a text without the elements on lines of their own at its beginning and its end, if
    other words are left.

    Any name counts: clients that are not known here write `<environment_details>` or
    `<current_datetime>` there. So it may be a person's own `<article>`, and this is for comparisons
    that say what they leave out.
    """
    for _ in range(OUTER_LIMIT):
        inner = _without_last(_without_first(text))
        if inner == text or not inner.strip():
            break
        text = inner
    return text


def _without_first(text: str) -> str:
    start = len(text) - len(text.lstrip())
    opening = _OPENING_TAG.match(text, start)
    if opening is None:
        return text
    closing = f"</{opening[1]}>"
    end = text.find(closing, opening.end())
    rest = text[end + len(closing) :].lstrip(" \t\r")
    return rest if end >= 0 and rest.startswith("\n") else text


def _without_last(text: str) -> str:
    text = text.rstrip()
    closing = _CLOSING_TAG.fullmatch(text, max(text.rfind("</"), 0))
    if closing is None:
        return text
    own_line = re.compile(rf"\n[ \t]*(?=<{re.escape(closing[1])}(?:\s[^<>]*)?>)")
    opening = max((match.start() for match in own_line.finditer(text)), default=-1)
    return text[:opening] if opening >= 0 else text


def last_words(messages: Sequence[Sequence[str]], last: int) -> tuple[str | None, bool]:
    """Return the last words of a person in a request, and whether it ends with them.

    Of each of the user's messages the texts; one without any is a picture or a file, which a person
    sends too. The request ends with the last so many of them. A text that is one whole element may
    come from the client: it counts as a person's only if there is no other text, because a prompt
    may be an element, `<article>…</article>`.
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
