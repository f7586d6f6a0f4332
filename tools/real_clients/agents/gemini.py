"""Gemini CLI with an API key, chosen as it asks for when it is started for the first time."""

from __future__ import annotations

import json

from tools.real_clients.client import PROMPT, SLOW_PROMPT, Client, Said

_PROMPTED = ("gemini", "--skip-trust", "--yolo", "--output-format", "json")


def read(stdout: str, stderr: str) -> Said:
    """The JSON of `gemini --output-format json`, router requests included."""
    found = json.loads(stdout[stdout.index("{") :])
    tokens = [model["tokens"] for model in found["stats"]["models"].values()]
    return Said(
        found["response"],
        sum(each["prompt"] for each in tokens),
        sum(each["candidates"] + each["thoughts"] for each in tokens),
    )


GEMINI = (
    Client(
        "Gemini CLI",
        "0.61.0",
        ("@google/gemini-cli@0.61.0",),
        loop=(*_PROMPTED, "-p", PROMPT),
        again=(*_PROMPTED, "--resume", "latest", "-p", "And now a greeting."),
        slow=(*_PROMPTED, "-p", SLOW_PROMPT),
        read=read,
        files={
            ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'
        },
        wiring=("gemini",),
    ),
)
