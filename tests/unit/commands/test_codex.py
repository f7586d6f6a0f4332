"""What Codex would ask, by its arguments, environment and files, as measured with Codex CLI
0.169.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from recorder.commands.clients.codex import (
    CHATGPT,
    PUBLIC,
    UNKNOWN,
    Doors,
    Provider,
    configured,
    effective,
    named,
    override,
    own_name,
    pointed,
)
from recorder.errors import UsageError
from recorder.proxy.routing import Routes, Upstream

HOME = Path("/home/me/.codex")
ENVIRONMENT = {"HOME": "/home/me"}
MINE = '[model_providers.mine]\nbase_url = "https://gateway/v1/"\nenv_key = "MY_KEY"\n'
CONFIG = "config.toml"
LOCAL = "http://localhost:11434/v1"

Files = Mapping[str, str]


def login(mode: str | None = None, **held: object) -> Files:
    return {"auth.json": json.dumps({**({"auth_mode": mode} if mode else {}), **held})}


def asked(words: str, files: Files, **variables: str) -> Provider | None:
    def read(path: Path) -> bytes | None:
        name = path.name if path.parent == HOME else str(path)
        return files[name].encode() if name in files else None

    return effective(words.split(), {**ENVIRONMENT, **variables}, read)


@pytest.mark.parametrize(
    ("words", "files", "variables", "base", "how"),
    [
        ("exec hi", {}, {}, PUBLIC, "none"),
        ("exec hi", login("apikey"), {}, PUBLIC, "api"),
        ("exec hi", login(OPENAI_API_KEY="k"), {}, PUBLIC, "api"),
        ("exec hi", login("chatgpt"), {}, CHATGPT, "chatgpt"),
        (
            "exec hi",
            login(tokens={"access_token": "t"}, OPENAI_API_KEY=None),
            {},
            CHATGPT,
            "chatgpt",
        ),
        ("exec hi", login("chatgpt"), {"OPENAI_API_KEY": "k"}, CHATGPT, "chatgpt"),
        ("exec hi", login("chatgpt"), {"CODEX_API_KEY": "k"}, PUBLIC, "api"),
        # exec alone reads that key
        ("resume", login("chatgpt"), {"CODEX_API_KEY": "k"}, CHATGPT, "chatgpt"),
        ("-m login exec hi", login("chatgpt"), {"CODEX_API_KEY": "k"}, PUBLIC, "api"),
        ("exec hi", {}, {"CODEX_ACCESS_TOKEN": "t"}, UNKNOWN, "unknown"),
        ("exec hi", login("agentIdentity"), {}, UNKNOWN, "unknown"),
        ("exec hi", {"auth.json": "{"}, {}, UNKNOWN, "unknown"),
        ("exec hi", {"auth.json": "[]"}, {}, UNKNOWN, "unknown"),
        ("exec hi", login(), {}, PUBLIC, "none"),
        ("-c cli_auth_credentials_store=keyring", login("apikey"), {}, UNKNOWN, "unknown"),
        ("-c cli_auth_credentials_store=auto", login("apikey"), {}, PUBLIC, "api"),
        ("-c cli_auth_credentials_store=auto", {}, {}, UNKNOWN, "unknown"),
        ("-c cli_auth_credentials_store=ephemeral", login("chatgpt"), {}, PUBLIC, "none"),
    ],
)
def test_a_login_says_which_of_openais_addresses(
    words: str, files: Files, variables: dict[str, str], base: str, how: str
) -> None:
    found = asked(words, files, **variables)
    assert found is not None
    assert (found.base, found.login, found.kind) == (base, how, "openai")


GATEWAY = ("mine", "https://gateway/v1", "own")
ELSEWHERE = '-c model_providers.mine.base_url="http://other"'
WITH_LOGIN = "[model_providers.mine]\nrequires_openai_auth = true"


@pytest.mark.parametrize(
    ("words", "files", "expected"),
    [
        ("", {CONFIG: 'model_provider = "mine"\n' + MINE}, GATEWAY),
        ("-c model_provider=mine", {CONFIG: MINE}, GATEWAY),
        ("--config=model_provider=mine", {CONFIG: MINE}, GATEWAY),
        ("-cmodel_provider=mine", {CONFIG: MINE}, GATEWAY),
        ("-c model_provider=x exec -c model_provider='mine'", {CONFIG: MINE}, GATEWAY),
        ("exec hi -- -c model_provider=mine", {CONFIG: MINE}, ("openai", PUBLIC, "openai")),
        ("", {"/etc/codex/config.toml": 'model_provider = "mine"\n' + MINE}, GATEWAY),
        ("-p fast", {CONFIG: MINE, "fast.config.toml": 'model_provider = "mine"'}, GATEWAY),
        ("--profile=no", {CONFIG: MINE}, ("openai", PUBLIC, "openai")),
        (
            "--ignore-user-config",
            {CONFIG: 'model_provider = "mine"\n' + MINE},
            ("openai", PUBLIC, "openai"),
        ),
        (f"{ELSEWHERE} -c model_provider=mine", {CONFIG: MINE}, ("mine", "http://other", "own")),
        ("", {CONFIG: 'openai_base_url = "http://h/v1"'}, ("openai", "http://h/v1", "openai")),
        (
            "-c model_provider=mine",
            {CONFIG: WITH_LOGIN, **login("chatgpt")},
            ("mine", CHATGPT, "own"),
        ),
        ("--oss --local-provider ollama", {}, ("ollama", LOCAL, "local")),
        (
            "--oss",
            {CONFIG: 'oss_provider = "lmstudio"'},
            ("lmstudio", "http://localhost:1234/v1", "local"),
        ),
        ("-c model_provider=ollama", {}, ("ollama", LOCAL, "local")),
        (
            "",
            {"project/.codex/config.toml": 'model_provider = "mine"'},
            ("openai", PUBLIC, "openai"),
        ),
    ],
)
def test_the_provider_is_the_one_that_codex_takes(
    words: str, files: Files, expected: tuple[str, str, str]
) -> None:
    found = asked(words, files)
    assert found is not None
    assert (found.id, found.base, found.kind) == expected


@pytest.mark.parametrize(
    ("words", "files", "said"),
    [
        ("", {CONFIG: "model_provider = ["}, "cannot be read"),
        ("-c model_provider=nosuch", {CONFIG: MINE}, "'nosuch' is not in its settings"),
        ("-c model_provider=3", {CONFIG: MINE}, "3 is not in its settings"),
        (
            "",
            {CONFIG: 'model_provider = "a.b"\n[model_providers."a.b"]\nbase_url = "http://x"'},
            "that -c cannot take",
        ),
        (
            "",
            {CONFIG: 'model_provider = "mine"\n[model_providers.mine]\nname = "m"'},
            "has no base_url",
        ),
        ("", {CONFIG: 'model_provider = "amazon-bedrock"'}, "signs its requests"),
        (
            "",
            {CONFIG: 'model_provider = "mine"\n[model_providers.mine]\naws = {}'},
            "signs its requests",
        ),
        (
            "",
            {"/etc/codex/managed_config.toml": 'model_provider = "x"'},
            "sets the provider of Codex",
        ),
        (
            "",
            {"cloud-config-bundle-cache.json": '{"toml": "openai_base_url = 1"}'},
            "sets the provider of Codex",
        ),
        (
            "",
            {CONFIG: 'profile = "x"\n[profiles.x]\nmodel_provider = "mine"\n' + MINE},
            "move it to x.config.toml",
        ),
        (
            "-p x",
            {CONFIG: '[profiles.x]\nmodel_provider = "mine"\n' + MINE},
            "move it to x.config.toml",
        ),
        ("--oss", {}, "add --local-provider"),
        ("--remote ws://h:1", {}, "another process"),
    ],
)
def test_what_cannot_be_known_is_refused(words: str, files: Files, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(words, files)


@pytest.mark.parametrize(
    "words", ["login", "-c a=1 logout", "--version", "mcp add x -- codex", "-m a features"]
)
def test_what_asks_no_model_is_left_alone(words: str) -> None:
    broken = {CONFIG: "["}
    assert asked(words, broken) is None
    assert (
        pointed(words.split(), ENVIRONMENT, Doors("http://r", {}), lambda _: b"[").arguments
        == words.split()
    )


def at(
    words: Sequence[str], files: Files, doors: Doors, **variables: str
) -> tuple[list[str], dict[str, str]]:
    def read(path: Path) -> bytes | None:
        return files[path.name].encode() if path.parent == HOME and path.name in files else None

    found = pointed(words, {**ENVIRONMENT, **variables}, doors, read)
    return found.arguments, found.variables


NAMES = {PUBLIC: "openai", CHATGPT: "chatgpt", "https://gateway/v1": "codex-mine", LOCAL: "local"}
DOORS = Doors("http://r/s/n", NAMES)
TABLE = 'model_providers.recorder={{name="recorder", base_url="http://r/s/n/{}", wire_api="responses", {}, '
TABLE += "supports_websockets=true}}"
KEYED, LOGGED_IN = 'env_key="OPENAI_API_KEY"', "requires_openai_auth=true"


def test_openai_is_asked_by_login_or_key() -> None:
    expected = [
        "-c",
        "model_provider=recorder",
        "-c",
        TABLE.format("openai/v1", LOGGED_IN),
        "exec",
        "hi",
    ]
    assert at(["exec", "hi"], login("apikey"), DOORS, OPENAI_API_KEY="k") == (expected, {})
    expected[3] = TABLE.format("openai/v1", KEYED)
    assert at(["exec", "hi"], {}, DOORS, OPENAI_API_KEY="k") == (expected, {})
    expected[3] = TABLE.format("chatgpt", LOGGED_IN)
    assert at(["exec", "hi"], login("chatgpt"), DOORS, OPENAI_API_KEY="k") == (expected, {})
    without = at(["exec", "hi"], login("chatgpt"), msgspec.structs.replace(DOORS, websocket=False))
    assert without[0][3] == expected[3].replace(", supports_websockets=true", "")
    elsewhere = override(
        Provider("openai", "http://own", "openai"), "http://r", {"OPENAI_API_KEY": "k"}
    )
    assert LOGGED_IN in elsewhere.arguments[1], "the key is not for an address that is not OpenAI's"


def test_settings_stand_where_none_comes_after_them() -> None:
    ours = ["-c", 'model_providers.mine.base_url="http://r/s/n/codex-mine"']
    first, last = ["-c", "model_provider=x", "exec"], ["--config", "model_provider=mine"]
    assert at([*first, *last, "hi"], {CONFIG: MINE}, DOORS)[0] == [*first, *last, *ours, "hi"]
    assert at(["exec", "-cmodel_provider=mine", "--", "-c", "a=b"], {CONFIG: MINE}, DOORS)[0] == [
        *("exec", "-cmodel_provider=mine", *ours, "--", "-c", "a=b"),
    ]


def test_a_local_server_is_put_elsewhere_by_its_variable() -> None:
    words = ["exec", "--oss", "--local-provider", "ollama", "hi"]
    assert at(words, {}, DOORS) == (words, {"CODEX_OSS_BASE_URL": "http://r/s/n/local/v1"})


def test_what_is_pointed_here_already_is_left_alone() -> None:
    for files in (login("apikey"), {CONFIG: 'model_provider = "mine"\n' + MINE}):
        once, _ = at(["exec", "hi"], files, DOORS)
        assert at(once, files, DOORS) == (once, {})
    with pytest.raises(UsageError, match="not known"):
        at(["-c", 'openai_base_url="http://r/s/nobody"'], {}, DOORS)


def test_a_replay_asks_what_was_recorded_without_a_key() -> None:
    doors = Doors("http://r", {PUBLIC: "openai"}, ["codex-mine"])
    found = at(["exec", "hi"], {CONFIG: 'model_provider = "mine"\n' + MINE}, doors)
    assert found == (
        ["-c", 'model_providers.mine.base_url="http://r/codex-mine"', "exec", "hi"],
        {"MY_KEY": "none"},
    )
    assert "http://r/codex-mine" in at(["exec", "hi"], {"auth.json": "?"}, doors)[0][3]
    assert doors.name(Provider("openai", PUBLIC, "openai")) == "codex-mine"
    assert Doors("http://r", {}, []).name(Provider("x", "http://x", "own")) == "openai", (
        "as it used to be recorded"
    )


def provider(id: str, base: str) -> Provider:
    return Provider(id, base, "own")


def test_each_address_has_an_upstream_that_takes_it_as_it_is() -> None:
    local = Provider("ollama", LOCAL, "local")
    names, added = named(
        [], [], [provider("My_Own", "https://h/x"), provider("my-own", "https://h/y/v1"), local]
    )
    own = {"https://h/x": "codex-my-own", "https://h/y/v1": "codex-my-own-2", LOCAL: "codex-ollama"}
    assert names == {PUBLIC: "openai", CHATGPT: "chatgpt", **own}
    routes = Routes(added)
    assert routes.route("/codex-my-own/responses?a=1", []).url == "https://h/x/responses?a=1"
    assert routes.route("/codex-my-own-2/responses", []).url == "https://h/y/v1/responses"
    assert routes.route("/codex-ollama/v1/responses", []).url == f"{LOCAL}/responses"
    assert routes.route("/codex-ollama/api/tags", []).url == "http://localhost:11434/api/tags"
    assert routes.route("/chatgpt/responses", []).url == f"{CHATGPT}/responses"


def test_an_upstream_that_was_given_stands_for_what_it_names() -> None:
    given = [Upstream("openai", "http://o"), Upstream("gw", "https://gateway/v1")]
    names, added = named(given, [], [provider("mine", "https://gateway/v1")])
    assert (names[PUBLIC], names[CHATGPT], names[UNKNOWN]) == ("openai", "openai", "openai")
    assert (names["https://gateway/v1"], added) == ("gw", [])


def test_no_two_addresses_have_one_upstream() -> None:
    asked_for = (
        provider("a-2", "https://h/x"),
        provider("a", "https://h/y"),
        provider("a", "https://h/z"),
    )
    names, added = named([], [], [*asked_for])
    assert [(each.name, each.base) for each in added] == [
        (name, f"{base}/") for base, name in names.items()
    ][-3:]


def test_an_upstream_that_was_given_stands_for_no_address_that_it_would_change() -> None:
    names, added = named(
        [Upstream("gw", "https://gateway")], [], [provider("mine", "https://gateway")]
    )
    assert (
        Routes(added).route(f"/{names['https://gateway']}/responses", []).url
        == "https://gateway/responses"
    )


def test_an_address_can_end_no_string_of_the_settings() -> None:
    for each in (provider("mine", "h"), Provider("openai", PUBLIC, "openai")):
        (*_, setting) = override(each, 'http://r/"', {}).arguments
        assert r'base_url="http://r/\""' in setting


def test_the_address_in_a_variable_of_other_clients_is_not_for_codex() -> None:
    public = Provider("openai", PUBLIC, "openai")
    names, added = named([], [Upstream("openai", "http://gateway/")], [public])
    assert (names[PUBLIC], added) == ("codex-openai", [Upstream("codex-openai", f"{PUBLIC}/")])
    assert Doors("http://r", names).base_url(public) == "http://r/codex-openai"


def test_all_that_a_script_may_ask_is_known() -> None:
    files = {
        CONFIG: MINE
        + '[model_providers.signed]\naws = {}\n[model_providers.odd]\nbase_url = "unix:///x"\n',
        "fast.config.toml": '[model_providers.mine]\nbase_url = "http://fast"\n',
        "broken.config.toml": "[",
    }

    def read(path: Path) -> bytes | None:
        return files[path.name].encode() if path.parent == HOME and path.name in files else None

    bases = {each.base for each in configured(ENVIRONMENT, read, ["fast", "broken"])}
    assert bases == {PUBLIC, LOCAL, "http://localhost:1234/v1", "https://gateway/v1", "http://fast"}


@pytest.mark.parametrize(
    ("base", "name"),
    [
        (PUBLIC, "openai"),
        (CHATGPT, "chatgpt"),
        ("http://x", "codex-a-b"),
        ("http://y", "codex-a-b"),
    ],
)
def test_a_provider_has_one_name(base: str, name: str) -> None:
    assert own_name(Provider("A_b", base, "own")) == name
