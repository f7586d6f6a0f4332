"""The sessions whose prompt cache is known: the class of each turn in order, and the path of what has changed.

The sessions of SDKs are those of `tests.support.planted_changes`. Those of Codex and Claude Code were recorded by
`python -m tools.real_clients.cached` into `cached_sessions`; its scripts say what was planted.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

from tests.support.corpus import DATA

Turns = tuple[str, ...]  # `class`, or `class path`

FOLDER = DATA / "cached_sessions"

OF_SDKS: Mapping[str, Turns] = {
    "responses-none": ("first", "hit", "hit", "hit"),
    "responses-tool-reordered": ("first", "hit", "prefix_changed tools[1].name", "hit"),
    "responses-model": ("first", "hit", "other_model model", "hit"),
    "responses-effort": ("first", "hit", "other_parameters reasoning.effort", "hit"),
    "responses-tool-choice": ("first", "hit", "hit", "hit"),
    "responses-forgetful": ("first", "provider_miss"),
    "responses-two-agents": ("first", "first", "hit", "hit"),
    "responses-chain": ("first", "hit", "prefix_changed instructions"),
    "chat-tool-described": ("first", "hit", "prefix_changed tools[1].function.description", "hit"),
    "chat-date": ("first", "hit", "prefix_changed messages[0].content", "hit"),
    "chat-temperature": ("first", "hit", "hit", "hit"),
    "chat-shortened": ("first", "hit", "history_shortened messages[1].content", "hit"),
    "chat-small": ("first", "below_minimum"),
    "chat-retried": ("first", "hit"),
    "messages-none": ("first", "hit", "hit", "hit"),
    "messages-tool-described": ("first", "hit", "prefix_changed tools[1].description", "hit"),
    "messages-compacted": ("first", "hit", "history_shortened messages[0].content[0].text", "hit"),
    "messages-other-mark": ("first", "hit", "not_marked messages[2].content[0].cache_control", "below_minimum"),
    "messages-no-marks": ("first", "not_marked"),
    "messages-temperature": ("first", "hit", "hit", "hit"),
    "messages-tool-choice": ("first", "hit", "other_parameters tool_choice", "hit"),
    "gemini-none": ("first", "hit", "hit", "hit"),
    "gemini-edited": ("first", "hit", "prefix_changed contents[0].parts[0].text", "hit"),
    "gemini-date": ("first", "hit", "prefix_changed systemInstruction.parts[0].text", "hit"),
}

OF_AGENTS: Mapping[str, Turns] = {
    "claude-none": ("first", "hit", "hit", "hit"),
    "claude-claude-md": ("first", "hit", "hit"),  # it adds the new text behind the history, and so the one below
    "claude-system": ("first", "hit", "hit"),
    "claude-model": ("first", "hit", "other_model model"),
    "claude-effort": ("first", "hit", "other_parameters output_config.effort"),
    "claude-no-marks": ("first", "not_marked", "not_marked"),
    "claude-compact": ("first", "hit", "hit", "hit", "hit"),  # tools and system, all that the summary has left
    "claude-lapse": ("first", "hit", "lapsed"),
    "codex-none": ("first", "hit", "hit", "hit"),
    "codex-agents-md": ("first", "hit", "hit"),  # it adds the new text behind the history
    "codex-compact": ("first", "hit", "hit", "hit"),
    "codex-model": ("first", "hit", "other_model model"),
    "codex-effort": ("first", "hit", "other_parameters reasoning.effort"),
    "codex-mcp": ("first", "hit", "prefix_changed tools[2].name"),
    # After five minutes; the model's prefixes live for 30. The demo upstream has one life time for all.
    "codex-lapse": ("first", "hit", "provider_miss"),
}


def recorded(folder: Path) -> list[Path]:
    """Unpack the sessions of Codex and Claude Code into a folder; return the files for `recorder import`."""
    paths = []
    for packed in sorted(FOLDER.glob("*.jsonl.gz")):
        paths.append(folder / packed.name.removesuffix(".gz"))
        paths[-1].write_bytes(gzip.decompress(packed.read_bytes()))
    return paths
