"""A conversation that a request of a helper quotes in one message, as Open WebUI asks for titles and tags. Pure.

The quoted turns are read as if the request had them, so it joins the session that they are of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recorder.wire.dialects.conversation import Message, ModelAnswer, canonical_message

_HISTORY = re.compile(r"<chat_history>\n?(.*?)\n?</chat_history>", re.DOTALL)
_SPEAKER = re.compile(r"^(USER|ASSISTANT): ", re.MULTILINE)


def may_quote(content: str) -> bool:
    """Return False if a message quotes nothing, as most do not."""
    return "<chat_history>" in content


def quoted_turns(content: str) -> Iterator[Message | ModelAnswer]:
    """Yield the turns that a message quotes."""
    found = _HISTORY.search(content)
    if found is None:
        return
    _, *pieces = _SPEAKER.split(found[1])
    for speaker, text in zip(pieces[::2], pieces[1::2], strict=True):
        said = text.removesuffix("\n")
        if speaker == "USER":
            yield Message(canonical_message("user", said), content=said)
        else:
            yield ModelAnswer([said])
