"""`recorder run`: how clients are found in a command and pointed at a recorder, before anything
starts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from recorder.commands.clients.presets import (
    BASES,
    LOGIN,
    assigned,
    codex_place,
    keys_of,
    of_companies,
    program,
    refuse_undecided,
)
from recorder.commands.clients.presets import environment as pointed
from recorder.commands.serving.network import network_of
from recorder.commands.serving.recording import departures
from recorder.commands.serving.running import inherited_upstreams
from recorder.errors import UsageError
from recorder.proxy.routing import Routes, parse_upstream

URL = "http://127.0.0.1:1"


def test_copilot_without_a_provider_of_its_own_stays_with_its_service() -> None:
    assert "COPILOT_PROVIDER_BASE_URL" not in pointed({}, URL)


def test_the_sdk_of_a_named_company_is_pointed_here() -> None:
    assert of_companies(["openai", "groq", "openrouter", "mine"], URL) == {
        "GROQ_BASE_URL": f"{URL}/groq"
    }
    assert keys_of({"groq", "mine"}) == [*keys_of(()), "GROQ_API_KEY"]


@pytest.mark.parametrize(
    "command", [("gemini", "-p", "hi"), ("npx", "-y", "@google/gemini-cli@0.61.0", "-p", "hi")]
)
def test_gemini_is_not_started_to_fail_for_want_of_a_setting(
    tmp_path: Path, command: Sequence[str]
) -> None:
    home = {
        "GEMINI_CLI_HOME": str(tmp_path),
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "none"),
    }
    with pytest.raises(
        UsageError, match=r'put \{"security": .* into \S+/\.gemini/settings\.json, and its key into'
    ):
        refuse_undecided(command, home)
    refuse_undecided(command, {**home, "GOOGLE_GENAI_USE_GCA": "true"})
    refuse_undecided(("env", "GOOGLE_GENAI_USE_GCA=true", *command), home)
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(f"// mine\n{LOGIN}")
    refuse_undecided(command, home)


def test_other_commands_need_no_setting_of_gemini(tmp_path: Path) -> None:
    home = {
        "GEMINI_CLI_HOME": str(tmp_path),
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(tmp_path / "none"),
    }
    for command in (("python", "gemini"), ("gemini", "--version"), ("env", "python", "gemini.py")):
        refuse_undecided(command, home)


@pytest.mark.parametrize(
    "command",
    [
        ("codex", "exec", "hi"),
        ("/usr/local/bin/codex", "exec", "hi"),
        ("npx", "@openai/codex", "exec", "hi"),
        ("npm", "exec", "--", "@openai/codex@0.169.0", "exec", "hi"),
        (
            "env",
            "-u",
            "RUST_LOG",
            "RUST_LOG=debug",
            "timeout",
            "-s",
            "INT",
            "5m",
            "codex",
            "exec",
            "hi",
        ),
        ("yarn", "codex", "exec", "hi"),
        ("npx", "-y", "-p", "@openai/codex@latest", "codex", "exec", "hi"),
        ("npm", "exec", "--package=@openai/codex", "--", "codex", "exec", "hi"),
    ],
)
def test_codex_is_found_in_a_command(command: Sequence[str]) -> None:
    assert codex_place(command) == len(command) - 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3", "app.py"], "python3"),
        (["timeout", "-k", "5", "90", "opencode", "run", "hi"], "opencode"),
        (["env", "A=b", "nice", "-n", "5", "/opt/claude", "-p", "hi"], "claude"),
        (["npx", "-y", "@openai/codex@0.169.0", "exec"], "codex"),
        (["timeout", "90"], "timeout"),
        (["npm", "run", "build"], "npm"),
        (["env", "EDITOR=/usr/bin/vi", "git", "commit"], "git"),
    ],
)
def test_a_session_is_named_after_the_program_and_not_after_its_launcher(
    command: Sequence[str], name: str
) -> None:
    assert program(command) == name


def test_other_commands_are_not_codex() -> None:
    assert codex_place(("python", "app.py", "codex.txt", "x", "codex")) is None
    assert codex_place(("env", "CODEX_PATH=/usr/bin/codex", "python", "app.py")) is None
    assert codex_place(("npx", "-p", "@openai/codex", "-c", "codex exec hi")) is None


def test_what_a_launcher_sets_counts() -> None:
    given = {"HOME": "/home/me", "CODEX_HOME": "/other"}
    assert assigned(("env", "-i", "CODEX_HOME=/mine", "codex"), given) == {
        "HOME": "/home/me",
        "CODEX_HOME": "/mine",
    }


def test_a_command_goes_past_the_proxy_of_its_environment() -> None:
    assert "NO_PROXY" not in pointed({}, URL)
    given = {"HTTP_PROXY": "http://proxy:3128", "no_proxy": "internal"}
    assert pointed(given, URL)["NO_PROXY"] == "127.0.0.1"
    assert pointed(given, URL)["no_proxy"] == "internal,127.0.0.1"


def test_a_variable_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://user:canary@nowhere/v1")
    with pytest.raises(
        UsageError, match="The address in OPENAI_BASE_URL cannot be recorded from"
    ) as caught:
        inherited_upstreams([])
    assert "canary" not in str(caught.value)
    assert inherited_upstreams(["openai"]) == []


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
@pytest.mark.parametrize(
    "base", ["http://h/gw", "http://h", "http://h/v1beta/openai/", "http://h/v1"]
)
def test_a_client_keeps_its_own_paths(
    variable: str, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in BASES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, base)
    asked = pointed(os.environ, "")[variable] + "/chat/completions"
    route = Routes(inherited_upstreams([])).route(asked, [])
    assert (route.upstream, route.url) == ("openai", base.rstrip("/") + "/chat/completions")


def test_a_client_without_an_address_is_given_one_with_its_version() -> None:
    assert pointed({}, URL)["OPENAI_BASE_URL"] == f"{URL}/openai/v1"
    assert pointed({}, URL)["ANTHROPIC_BASE_URL"] == f"{URL}/anthropic"


def test_litellm_has_variables_of_its_own() -> None:
    assert pointed({}, URL)["ANTHROPIC_API_BASE"] == f"{URL}/anthropic"
    assert pointed({}, URL)["GEMINI_API_BASE"] == f"{URL}/gemini/v1beta"
    assert (
        pointed({"GEMINI_API_BASE": "http://h/v1beta"}, URL)["GEMINI_API_BASE"] == f"{URL}/gemini"
    )
    assert (
        pointed({"GOOGLE_GEMINI_BASE_URL": "http://h"}, URL)["GEMINI_API_BASE"]
        == f"{URL}/gemini/v1beta"
    )


def test_keys_go_nowhere_but_where_their_client_goes() -> None:
    """Paths that look like those of another API."""
    routes, child = Routes(), pointed({}, "")
    assert routes.route(child["ANTHROPIC_BASE_URL"] + "/v1/complete", []).upstream == "anthropic"
    assert routes.route(child["OPENAI_BASE_URL"] + "/messages", []).upstream == "openai"


PLAIN = "http://generativelanguage.googleapis.com"  # without TLS


@pytest.mark.parametrize(
    ("upstream", "said"),
    [
        ("openai=https://api.openai.com/v1", []),
        (f"openai={URL}/v1", [f"Upstream openai is {URL}/v1"]),
        (f"mine={URL}", [f"Upstream mine is {URL}"]),
        (
            "openai=https://api.openai.com.a.test",
            ["Upstream openai is https://api.openai.com.a.test"],
        ),
        (f"gemini={PLAIN}", [f"Upstream gemini is {PLAIN}"]),
    ],
)
def test_who_else_gets_the_keys_is_said(upstream: str, said: list[str]) -> None:
    nothing = {"no_proxy": (), "ca_file": None, "client_cert": None, "client_key": None}
    direct = network_of({}, upstream_proxy=None, **nothing)  # type: ignore[arg-type]
    assert departures([parse_upstream(upstream)], direct) == said
