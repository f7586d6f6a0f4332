"""A program that takes its settings and credentials as Codex CLI 0.169.0 was seen to, and asks what
Codex would.

It knows nothing of the recorder: tests call it `codex` and look at what it asks where.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import tomllib
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

HOSTS = {"chatgpt": "https://chatgpt.com/backend-api/codex", "apikey": "https://api.openai.com/v1"}


def merge(into: dict[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in layer.items():
        into[name] = merge(dict(into.get(name, {})), value) if isinstance(value, dict) else value
    return into


def settings(home: Path, arguments: list[str]) -> dict[str, Any]:
    pairs = list(itertools.pairwise(arguments))
    found: dict[str, Any] = {}
    for name in (
        "config",
        *(f"{value}.config" for option, value in pairs if option in ("-p", "--profile")),
    ):
        path = home / f"{name}.toml"
        merge(found, tomllib.loads(path.read_text()) if path.exists() else {})
    for setting in (value for option, value in pairs if option in ("-c", "--config")):
        path_, _, text = setting.partition("=")
        try:
            value: Any = tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            value = text
        for key in reversed(path_.split(".")):
            value = {key: value}
        merge(found, value)
    return found


def login(home: Path) -> tuple[str, dict[str, str]]:
    """Who it is to OpenAI: the kind of login, and its headers."""
    if key := os.environ.get("CODEX_API_KEY"):
        return "apikey", {"Authorization": f"Bearer {key}"}
    if not (home / "auth.json").exists():
        return "apikey", {}
    held = json.loads((home / "auth.json").read_text())
    if held["auth_mode"] == "apikey":
        return "apikey", {"Authorization": f"Bearer {held['OPENAI_API_KEY']}"}
    return "chatgpt", {
        "Authorization": f"Bearer {held['tokens']['access_token']}",
        "ChatGPT-Account-Id": "account",
    }


def main() -> None:
    arguments = sys.argv[1:]
    home = Path(os.environ.get("CODEX_HOME") or Path(os.environ["HOME"]) / ".codex")
    found = settings(home, arguments)
    id, (mode, headers) = found.get("model_provider", "openai"), login(home)
    openai = {"base_url": found.get("openai_base_url", HOSTS[mode]), "requires_openai_auth": True}
    provider = {"openai": openai, **found.get("model_providers", {})}[id]
    if not provider.get("requires_openai_auth"):
        headers = {}
    if variable := provider.get("env_key"):
        if not os.environ.get(variable):
            sys.exit(f"ERROR: Missing environment variable: `{variable}`.")
        headers = {"Authorization": f"Bearer {os.environ[variable]}"}
    url = provider["base_url"] + "/responses"
    if parameters := provider.get("query_params"):
        url += f"?{urlencode(parameters)}"
    if not re.match(r"http://127\.0\.0\.1:", url):
        sys.exit(f"it would ask {url}")
    body = {"model": "gpt-demo", "input": arguments[-1], "stream": True}
    headers |= {
        "Content-Type": "application/json",
        "User-Agent": "codex_exec/0.169.0",
        **provider.get("http_headers", {}),
    }
    with urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(body).encode(), headers)
    ) as response:
        sys.stdout.buffer.write(response.read())


if __name__ == "__main__":
    main()
