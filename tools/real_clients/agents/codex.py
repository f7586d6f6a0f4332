"""Codex CLI: with a key, logged in, with a provider of its own, and with sub-agents of both kinds."""

from __future__ import annotations

import json

from tools.real_clients.client import AGENT_PROMPT, PROMPT, SLOW_PROMPT, SUB_PROMPT, Client, Said

_VERSION = "0.171.0"
_PACKAGES = (f"@openai/codex@{_VERSION}",)
_EXEC = ("codex", "exec", "--json", "--skip-git-repo-check")
_AGAIN = (
    "codex",
    "exec",
    "resume",
    "--last",
    "--json",
    "--skip-git-repo-check",
    "And now a greeting.",
)
_OWN_PROVIDER = """\
model_provider = "mine"
[model_providers.mine]
name = "mine"
base_url = "{demo}/v1"
wire_api = "responses"
env_key = "MY_KEY"
http_headers = { "x-mine" = "yes" }
"""


def read(stdout: str, stderr: str) -> Said:
    """The lines of `codex exec --json`.

    Its tokens are those of its own thread, not of sub-agents.
    """
    events = [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    text = [item["text"] for item in items if item["type"] == "agent_message"][-1]
    usage = [event["usage"] for event in events if event["type"] == "turn.completed"][-1]
    thread = next(event["thread_id"] for event in events if event["type"] == "thread.started")
    return Said(text, usage["input_tokens"], usage["output_tokens"], f"thread_id = '{thread}'")


def _client(
    name: str, *, model: str = "", prompt: str = PROMPT, websocket: bool = True, **more: object
) -> Client:
    chosen = ("-m", model) if model else ()
    return Client(
        f"Codex CLI, {name}",
        _VERSION,
        _PACKAGES,
        loop=(*_EXEC, *chosen, prompt),
        slow=(*_EXEC, *chosen, SLOW_PROMPT),
        prompt=prompt,
        read=read,
        wiring=("codex",),
        websocket=websocket,
        has_http=websocket,
        **more,  # type: ignore[arg-type]
    )


_NO_KEY = {"OPENAI_API_KEY": ""}
_INTERRUPTED_ONCE = {"interrupted": "as in the first row"}


def _own(name: str, *, websocket: bool) -> Client:
    setting = f"supports_websockets = {str(websocket).lower()}\n"
    return _client(
        name,
        again=_AGAIN,
        env={**_NO_KEY, "MY_KEY": "sk-mine"},
        files={".codex/config.toml": _OWN_PROVIDER + setting},
        is_told_upstreams=False,
        served={"codex-mine": "{demo}/v1"},  # as `recorder env codex` says
        websocket=websocket,
    )


CODEX = (
    _client("key", again=_AGAIN),
    _client(
        "logged in by key",
        again=_AGAIN,
        env=_NO_KEY,
        login=(("codex", "login", "--with-api-key"), "sk-login\n"),
    ),
    _own("own provider", websocket=False),
    _own("own provider, WebSocket", websocket=True),
    _client(
        "sub-agent, default model",
        prompt=AGENT_PROMPT,
        shows=("spawn_agent", f"› {SUB_PROMPT}"),
        waived=_INTERRUPTED_ONCE,
    ),
    _client(
        "sub-agent, gpt-5",
        model="gpt-5",
        prompt=AGENT_PROMPT,
        shows=("spawn_agent", f"› {SUB_PROMPT}"),
        waived=_INTERRUPTED_ONCE,
    ),
    _client(
        "broken turns",
        again=_AGAIN,
        is_broken=True,
        waived={"cassette": "one is replaced only if no exchange broke off", **_INTERRUPTED_ONCE},
    ),
)
