"""Kilo CLI over the Gemini API, whose address stands in its own file."""

from __future__ import annotations

import json

from tools.real_clients.agents.opencode import read
from tools.real_clients.client import PROMPT, SLOW_PROMPT, Client

_VERSION = "7.7.7"
_RUN = (
    "kilo",
    "run",
    "--format",
    "json",
    "--auto",
    "--title",
    "bottles",
    "-m",
    "google/gemini-2.5-flash",
)
_GOOGLE = {"baseURL": "{env:GOOGLE_GEMINI_BASE_URL}/v1beta", "apiKey": "{env:GEMINI_API_KEY}"}
_SETTINGS = {"provider": {"google": {"options": _GOOGLE}}}

KILO = (
    Client(
        "Kilo CLI, Gemini without ids",
        _VERSION,
        (f"@kilocode/cli@{_VERSION}",),
        loop=(*_RUN, PROMPT),
        prompt=f'"{PROMPT}"',  # as opencode does, of which it is made
        slow=(*_RUN, SLOW_PROMPT),
        read=read,
        files={".config/kilo/kilo.jsonc": json.dumps(_SETTINGS)},
        env={"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""},
        wiring=("gemini",),
        note="Its title is given, since it is chance whether it asks for one before it ends.",
    ),
)
