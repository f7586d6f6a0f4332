"""The rules of a probe: what an answer must be beyond its protocol, who breaks if it is not. Data.

`recorder.lint` judges the form of an answer, whatever was asked. These rules know what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from recorder.lint import Severity


class ProbeRule(NamedTuple):
    """One rule. Its fields mean what they do in `recorder.lint.Rule`."""

    id: str  # PR…, never given to another rule
    severity: Severity
    meaning: str
    why: str
    source: str


RULES: tuple[ProbeRule, ...] = (
    ProbeRule(
        "PR001",
        "error",
        "There is no answer: the connection was refused, or it ended before the response.",
        "Every SDK raises an APIConnectionError, after two retries that fail in the same way.",
        "RFC 9112, 9.3 Persistence",
    ),
    ProbeRule(
        "PR002",
        "error",
        "The gateway fell silent: nothing came for as long as the probe waits.",
        "The official SDKs wait ten minutes; an agent hangs, and its user stops it.",
        "openai-python 3.52, _constants.py: DEFAULT_TIMEOUT",
    ),
    ProbeRule(
        "PR003",
        "error",
        "The answer does not end, or is far larger than the request allows.",
        "A client that collects the answer runs out of memory, and one that shows it never comes to an end.",
        "the limits of this probe: docs/probe.md",
    ),
    ProbeRule(
        "PR004",
        "error",
        "The answer broke off before its end.",
        "The SDKs raise an APIConnectionError in the middle of the answer; the official ones do not retry there.",
        "RFC 9112, 8 Handling Incomplete Messages",
    ),
    ProbeRule(
        "PR010",
        "error",
        "A request that the API takes was refused.",
        "Every client of the API: the SDKs raise an APIStatusError.",
        "the reference of the API",
    ),
    ProbeRule(
        "PR011",
        "error",
        "A stream was requested, and something else came.",
        "SDKs that read a stream yield no event and raise no error: the answer is empty.",
        "the reference of the API: streaming",
    ),
    ProbeRule(
        "PR012",
        "error",
        "No stream was requested, and a stream came.",
        "SDKs try to read it as one JSON document: a text in place of an object, or a JSONDecodeError.",
        "the reference of the API",
    ),
    ProbeRule(
        "PR020",
        "error",
        "The answer says nothing: it has no text.",
        "`output_text`, `message.content` and the like are empty, and an agent shows an empty answer.",
        "the reference of the API",
    ),
    ProbeRule(
        "PR030",
        "warning",
        "The answer does not report its tokens, although the API does.",
        "Costs, budgets and the compaction of a conversation count nothing: Codex and Claude Code show 0 tokens.",
        "the reference of the API: usage",
    ),
)

BY_ID: Mapping[str, ProbeRule] = {rule.id: rule for rule in RULES}
