"""Sessions of Codex and Claude Code in which the prompt cache hits, or misses for a planted reason.

`python -m tools.real_clients.cached [NAME...]` records them again into
`tests/data/cached_sessions`, a quarter of an hour for all; `tests.support.planted_changes` says
what has to be found in each.

Rules of this file:

* A session is one shell script under `recorder run`, in a network namespace, against the demo
  upstream.
* What is planted is planted by the means of a user: a file, an option, a command of the client,
  time.
* Everybody's paths are the same: `/tmp/cached/NAME/home` and `work`.
"""

from __future__ import annotations

import gzip
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.corpus import DATA
from tools.real_clients import installing, namespace
from tools.real_clients.agents.claude import CLAUDE
from tools.real_clients.agents.codex import CODEX
from tools.real_clients.client import PROMPT, TALK_PROMPT, Client
from tools.real_clients.stage import Stage

RECORDED = DATA / "cached_sessions"
FOLDER = Path("/tmp/cached")
LAPSE_S = 310  # the providers forget after five minutes
COMMAND_S = 900.0  # of one script: it waits for a lapse

_CODEX = "codex exec --json --skip-git-repo-check"
_CODEX_AGAIN = "codex exec resume --last --json --skip-git-repo-check"
_CLAUDE = "claude -p --output-format json --allowedTools Bash,Agent"
_LOOP = f"'{PROMPT}'"
_TALK = f"'{TALK_PROMPT}'"
_MORE = "'And now a greeting.'"

# A server of the Model Context Protocol with one tool, in as few words as clients accept.
_MCP_SERVER = """\
import json, sys
TOOL = {"name": "ring", "description": "Ring the bell.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    version = (asked.get("params") or {}).get("protocolVersion")
    answers = {
        "initialize": {"protocolVersion": version, "capabilities": {"tools": {}},
                       "serverInfo": {"name": "bell", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""
_WITH_MCP = "-c mcp_servers.bell.command=python3 -c 'mcp_servers.bell.args=[\"{home}/bell.py\"]'"
SCRIPTS: Mapping[str, str] = {
    "codex-none": f"{_CODEX} {_LOOP}; {_CODEX_AGAIN} {_MORE}; {_CODEX_AGAIN} {_TALK}",
    "codex-agents-md": (
        f"echo 'Be brief.' > AGENTS.md; {_CODEX} {_LOOP}; echo 'Be long.' > AGENTS.md; {_CODEX_AGAIN} {_MORE}"
    ),
    "codex-model": f"{_CODEX} -m gpt-5.5 {_LOOP}; {_CODEX_AGAIN} -m gpt-5 {_MORE}",
    "codex-effort": f"{_CODEX} {_LOOP}; {_CODEX_AGAIN} -c model_reasoning_effort=high {_MORE}",
    "codex-mcp": f"{_CODEX} -m gpt-5.5 {_LOOP}; {_CODEX_AGAIN} -m gpt-5.5 {_WITH_MCP} {_MORE}",
    "codex-compact": f"{_CODEX} {_LOOP}; {_CODEX_AGAIN} -c model_auto_compact_token_limit=1000 {_MORE}",
    "codex-lapse": f"{_CODEX} {_LOOP}; sleep {LAPSE_S}; {_CODEX_AGAIN} {_MORE}",
    "claude-none": f"{_CLAUDE} -- {_LOOP}; {_CLAUDE} -c -- {_MORE}; {_CLAUDE} -c -- {_TALK}",
    "claude-claude-md": (
        f"echo 'Be brief.' > CLAUDE.md; {_CLAUDE} -- {_LOOP}; echo 'Be long.' > CLAUDE.md; {_CLAUDE} -c -- {_MORE}"
    ),
    "claude-model": f"{_CLAUDE} --model sonnet -- {_LOOP}; {_CLAUDE} --model opus -c -- {_MORE}",
    "claude-system": (
        f"{_CLAUDE} --system-prompt 'Be brief. It is Monday.' -- {_LOOP}; "
        f"{_CLAUDE} --system-prompt 'Be brief. It is Tuesday.' -c -- {_MORE}"
    ),
    "claude-no-marks": (
        f"export DISABLE_PROMPT_CACHING=1; {_CLAUDE} -- {_LOOP}; {_CLAUDE} -c -- {_MORE}"
    ),
    "claude-effort": f"{_CLAUDE} --effort low -- {_LOOP}; {_CLAUDE} --effort high -c -- {_MORE}",
    "claude-compact": f"{_CLAUDE} -- {_LOOP}; {_CLAUDE} -c -- /compact; {_CLAUDE} -c -- {_MORE}",
    "claude-lapse": f"{_CLAUDE} -- {_LOOP}; sleep {LAPSE_S}; {_CLAUDE} -c -- {_MORE}",
}

OVER_HTTP = ("codex-model", "codex-mcp")
"""Sessions without WebSocket, over which Codex first sends tools and instructions alone, whose
tokens are not counted: whatever a change of those costs is paid there."""


def _client(name: str) -> Client:
    client = CODEX[0] if name.startswith("codex") else CLAUDE[0]
    return replace(client, files={**client.files, "bell.py": _MCP_SERVER})


def record(name: str) -> str:
    """Record a session into its file; return how it went."""
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stage = Stage(_client(name), folder)
    try:
        http = ("--no-websocket",) if name in OVER_HTTP else ()
        done = stage.record(
            "--session", name, *http, command=("bash", "-c", SCRIPTS[name]), within_s=COMMAND_S
        )
    finally:
        stage.close()
    exported = stage.recorder("export", name).expect_success().stdout
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{name}.jsonl.gz"
    path.write_bytes(gzip.compress(exported.encode(), mtime=0))
    return f"exit code {done.code}, {path.stat().st_size:,} bytes"


def main() -> int:
    names = sys.argv[1:] or list(SCRIPTS)
    if not namespace.is_inside():
        for packages in (
            (installing.NODE,),
            *dict.fromkeys(_client(name).packages for name in names),
        ):
            installing.install(packages)
        return namespace.enter(names, "tools.real_clients.cached")
    namespace.raise_loopback()
    for name in names:
        sys.stdout.write(f"{name}: {record(name)}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
