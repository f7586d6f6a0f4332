"""The settings of the network: one way to give them, in all commands that have them, and what
doctor says of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from recorder.commands.doctor import network as diagnosis
from recorder.commands.serving.network import CONNECTING, NAMES, network_of
from recorder.errors import UsageError
from recorder.proxy.http.network import DIRECT, Endpoint, Network
from recorder.store.maintain.upkeep import CheckResult
from tests.support.commands import COMMANDS
from tests.support.server import run

PASSWORD = "s3cr3t-password"
NOTHING: dict[str, Any] = {name: () if name == "no_proxy" else None for name in NAMES}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without settings of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return tmp_path


def settings(config: Path) -> Path:
    """The user's own file: that of a project may not set these options."""
    path = config / "recorder" / "recorder.toml"
    path.parent.mkdir(parents=True)
    return path


def chosen(environment: dict[str, str], **given: Any) -> Network:
    return network_of(environment, **{**NOTHING, **given})


def way(network: Network, host: str = "api.corp.test") -> str | None:
    proxy = network.proxy_for(Endpoint("https", host, 443))
    return proxy.name if proxy else None


def test_the_commands_with_these_options_are_the_ones_that_doctor_looks_at() -> None:
    having = [
        verb
        for verb, command in COMMANDS.items()
        if {param.name for param in command.params if isinstance(param, click.Option)} >= {*NAMES}
    ]
    assert sorted(having) == sorted(CONNECTING)


def test_no_variable_of_a_proxy_counts_unless_it_is_asked_for() -> None:
    environment = {"HTTPS_PROXY": "http://a:1", "NO_PROXY": "other.test"}
    assert chosen(environment) == DIRECT
    assert way(chosen(environment, upstream_proxy="http://b:2")) == "b:2"
    assert way(chosen(environment, upstream_proxy="http://b:2"), "other.test") == "b:2"
    assert way(chosen(environment, upstream_proxy="env")) == "a:1"
    assert way(chosen(environment, upstream_proxy="env"), "other.test") is None


def test_exceptions_are_added_to_those_of_the_environment() -> None:
    environment = {"ALL_PROXY": "http://a:1", "no_proxy": "one.test", "NO_PROXY": "not.test"}
    network = chosen(
        environment, upstream_proxy="env", no_proxy=("two.test,three.test", "four.test")
    )
    hosts = [f"{name}.test" for name in ("one", "two", "three", "four", "not")]
    assert [way(network, host) for host in hosts] == [None, None, None, None, "a:1"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"no_proxy": ("x",)}, "no-proxy makes exceptions from upstream-proxy"),
        ({"client_key": Path("x")}, "client-key belongs to a certificate"),
        (
            {"upstream_proxy": "http://a:1", "no_proxy": ("10.0.0.0/99",)},
            "no-proxy: '10.0.0.0/99' is not a block",
        ),
    ],
)
def test_settings_that_make_no_sense_are_said(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        chosen({}, **given)


def test_who_types_a_setting_is_told_where_it_belongs_and_no_password_is_shown(
    tmp_path: Path,
) -> None:
    for verb in CONNECTING:
        ran = run(tmp_path / "x.db", verb, "--upstream-proxy", f"http://me:{PASSWORD}@proxy:1")
        assert (ran.code, ran.err) == (
            2,
            f"Error: --upstream-proxy is a setting: write `upstream-proxy = …` below [{verb}] in your recorder.toml, "
            f"or set the variable RECORDER_{verb.upper()}_UPSTREAM_PROXY.\n",
        )


@pytest.mark.parametrize("verb", ["serve", "mock --otherwise forward", "run -- true"])
def test_a_wrong_proxy_is_a_wrong_use_and_its_password_is_not_shown(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        f"RECORDER_{verb.split()[0].upper()}_UPSTREAM_PROXY", f"socks5://me:{PASSWORD}@proxy:1"
    )
    ran = run(tmp_path / "x.db", *verb.split())
    assert (ran.code, ran.out) == (2, b"")
    assert (
        ran.err
        == "Error: upstream-proxy is a proxy with HTTP, http://HOST:PORT: SOCKS is not supported.\n"
    )


@pytest.mark.parametrize("verb", ["serve", "run -- true"])
def test_a_file_that_cannot_be_used_ends_a_command_at_its_start(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"RECORDER_{verb.split()[0].upper()}_CA_FILE", "/nowhere/ca.pem")
    ran = run(tmp_path / "x.db", *verb.split())
    assert (ran.code, ran.err) == (
        2,
        "Error: /nowhere/ca.pem cannot be read: No such file or directory.\n",
    )
    assert not (tmp_path / "x.db").exists()


def lines() -> list[CheckResult]:
    return list(diagnosis())


def test_doctor_says_how_upstreams_are_reached_without_the_password(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(here / "config").write_text(
        f'[serve]\nupstream-proxy = "http://me:{PASSWORD}@proxy:3128"\n'
    )
    monkeypatch.setenv("RECORDER_RUN_UPSTREAM_PROXY", "env")
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@other:3128")
    assert [line.message.split(": upstreams are reached ") for line in lines()] == [
        ["`recorder serve`", "by the proxy proxy:3128 (with user and password)."],
        ["`recorder run`", "by the proxy other:3128 (with user and password) for https."],
        ["`recorder mock, probe, resend, bisect`", "directly."],
    ]
    assert {(line.state, line.check) for line in lines()} == {("ok", "network")}


def test_doctor_names_variables_that_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@other:3128")
    assert [line.message for line in lines()] == [
        "`recorder serve, run, mock, probe, resend, bisect`: upstreams are reached directly.",
        'HTTPS_PROXY is not looked at: the setting `upstream-proxy = "env"` uses it.',
    ]


def test_doctor_finds_what_would_end_a_command(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDER_SERVE_CA_FILE", "/nowhere/ca.pem")
    monkeypatch.setenv("RECORDER_RUN_UPSTREAM_PROXY", f"ftp://me:{PASSWORD}@proxy:1")
    settings(here / "config").write_text('[mock]\nclient-key = "x"\n')
    found = lines()
    assert [(line.state, line.message.split(":")[0]) for line in found] == [
        *(("bad", f"`recorder {verb}`") for verb in ("serve", "run", "mock")),
        ("ok", "`recorder probe, resend, bisect`"),
    ]
    assert PASSWORD not in str(found)
