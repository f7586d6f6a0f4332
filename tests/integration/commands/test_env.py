"""`recorder env`: what a shell evaluates, and what belongs into the file of a client."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from recorder.commands.clients.files import FILES
from recorder.commands.clients.presets import ALIASES, CODEX, VARIABLES
from recorder.proxy.routing import Routes
from tests.support.server import Ran, run

NONE = Path("/none/recorder.db")


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the proxies of whoever runs the tests."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def env(client: str, *options: str) -> Ran:
    return run(NONE, "env", client, *options)


def printed(client: str, *options: str) -> str:
    return env(client, *options).out.decode()


def test_it_is_what_a_shell_can_evaluate() -> None:
    script = ""
    for client in (*VARIABLES, CODEX):
        ran = env(client, "--url", "http://127.0.0.1:9000/", "--session", "a b/c")
        text = ran.out.decode()
        assert ran.code == 0, client
        assert text.startswith(("export ", "codex() {")), client
        assert "http://127.0.0.1:9000/s/a%20b%2Fc" in text, client
        script += text
    subprocess.run(["bash", "-ec", script], check=True)


def test_it_says_what_the_recorder_needs_for_a_company() -> None:
    start = "Start `recorder serve` with --upstream "
    assert (
        env("openrouter").err
        == f"{start}openrouter, and put the key into OPENAI_API_KEY or ANTHROPIC_API_KEY.\n"
    )
    assert env("azure").err == f"{start}azure=URL, and put the key into AZURE_OPENAI_API_KEY.\n"
    assert env("openai").err == ""


def test_it_knows_the_names_that_people_type() -> None:
    assert [name for name, client in ALIASES.items() if printed(name) != printed(client)] == []


@pytest.mark.parametrize("client", FILES)
def test_it_says_what_belongs_into_the_file_of_a_client(client: str) -> None:
    ran = env(client, "--url", "http://127.0.0.1:9000", "--session", "a b")
    text, place = ran.out.decode(), FILES[client].place
    assert (ran.code, place in ran.err) == (0, True)
    assert re.search(r"http://127\.0\.0\.1:9000/s/a%20b/(?:v1|bedrock)", text)
    if place.endswith((".json", ".jsonc")):
        json.loads(text)
    if place.endswith(".toml"):
        tomllib.loads(text)


def test_it_points_what_reads_either_variable_of_openai() -> None:
    """LlamaIndex reads the older one, and asks the provider itself without it."""
    assert "export OPENAI_API_BASE=http://127.0.0.1:8787/v1\n" in printed("llamaindex")
    assert "export OPENAI_BASE_URL=http://127.0.0.1:8787/v1\n" in printed("openai")


@pytest.mark.parametrize(
    ("url", "excepted", "exports"),
    [
        ("http://127.0.0.1:1", None, ["NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"]),
        ("http://[::1]:1", None, ["NO_PROXY=::1", "no_proxy=::1"]),
        ("http://127.0.0.1:1", "{a}, b c", ["NO_PROXY='{a}, b c,127.0.0.1'", "no_proxy=127.0.0.1"]),
        ("http://127.0.0.1:1", "a, 127.0.0.1", ["no_proxy=127.0.0.1"]),
    ],
)
@pytest.mark.parametrize("proxy", ["HTTP_PROXY", "all_proxy"])
def test_it_leads_past_the_proxy_of_a_company(
    url: str, excepted: str | None, exports: list[str], proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(proxy, "http://proxy:3128")
    if excepted is not None:
        monkeypatch.setenv("NO_PROXY", excepted)
    lines = printed("openai", "--url", url).splitlines()
    assert [line.removeprefix("export ") for line in lines[2:]] == exports


@pytest.mark.parametrize("client", ["anthropic", "claude", "vercel", "litellm"])
def test_it_names_the_upstream_that_a_probe_is_for(client: str) -> None:
    """A path that no API has says nothing of where it goes."""
    (base,) = re.findall(r"ANTHROPIC_\w+=(\S+)", printed(client))
    path = base.removeprefix("http://127.0.0.1:8787").removesuffix("/v1")
    assert Routes().route(f"{path}/api/hello", []).upstream == "anthropic"


@pytest.mark.parametrize(
    "shell", [shell for shell in ("bash", "zsh", "dash") if shutil.which(shell)]
)
def test_that_of_codex_works_on_the_line_that_evaluates_it(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    (tmp_path / "codex").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "codex").chmod(0o755)
    (tmp_path / "printed").write_text(run(tmp_path / "none.db", "env", "codex").out.decode())
    line = f'eval "$(cat {tmp_path}/printed)" && codex exec "a  prompt"'
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [shell, "-c", line], capture_output=True, text=True, env=environment, check=True
    )
    given = done.stdout.splitlines()
    assert given[-2:] == ["exec", "a  prompt"]
    assert given[:3:2] == ["-c", "-c"]
    assert tomllib.loads(given[3])["model_providers"]["recorder"] == {
        "name": "recorder",
        "base_url": "http://127.0.0.1:8787/v1",
        "wire_api": "responses",
        "env_key": "OPENAI_API_KEY",
        "supports_websockets": True,
    }
