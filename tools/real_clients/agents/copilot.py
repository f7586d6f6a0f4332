"""Copilot CLI with a provider of its own (BYOK), over the Responses API and the Messages API."""

from __future__ import annotations

from tools.real_clients.client import PROMPT, SLOW_PROMPT, Client, Said

_VERSION = "1.0.102"
_PROMPTED = ("copilot", "--allow-all-tools", "-s", "-p")


def read(stdout: str, stderr: str) -> Said:
    """With `-s` it prints the answer only."""
    return Said(stdout.strip())


COPILOT = (
    Client(
        "Copilot CLI, own provider",
        _VERSION,
        (f"@github/copilot@{_VERSION}",),
        loop=(*_PROMPTED, PROMPT),
        slow=(*_PROMPTED, SLOW_PROMPT),
        read=read,
        env={
            "COPILOT_PROVIDER_BASE_URL": "{demo}/v1",
            "COPILOT_PROVIDER_TYPE": "openai",
            "COPILOT_PROVIDER_API_KEY": "sk-mine",
            "COPILOT_MODEL": "gpt-5.5",
            "COPILOT_OFFLINE": "true",
        },
        wiring=("copilot",),
        is_told_upstreams=False,
    ),
)
