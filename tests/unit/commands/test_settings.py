"""`recorder.commands.terminal.settings`: one name for a setting, from flag, environment and file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from recorder.commands import recorder
from recorder.commands.serving.recording import session_places
from recorder.commands.terminal.options import Setting
from recorder.commands.terminal.project import trust
from recorder.commands.terminal.rules import match_rules
from recorder.commands.verbs import VERBS
from recorder.errors import UsageError
from recorder.proxy.routing import SessionPlaces
from recorder.replay.matching.noise import DEFAULT_RULES
from tests.support.corpus import ROOT
from tests.support.server import run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def taken(*arguments: str) -> dict[str, Any]:
    """The parameters that a command would run with."""
    with click.Context(recorder, info_name="recorder", auto_envvar_prefix="RECORDER") as context:
        command: click.Command = recorder
        rest = list(arguments)
        while isinstance(command, click.Group):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            if isinstance(found, click.Group):
                context = click.Context(found, context, name)
            command = found
        with command.make_context(name, rest, parent=context) as made:
            return made.params


def commands(*path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that can be run, with the words that name it."""
    with click.Context(recorder) as context:
        for verb in VERBS:
            command = recorder.get_command(context, verb)
            assert command is not None
            if isinstance(command, click.Group):
                yield from (((verb, name), sub) for name, sub in command.commands.items())
            else:
                yield (verb,), command


OPTIONS = [
    (words, option, command)
    for words, command in commands()
    for option in command.params
    if isinstance(option, click.Option) and option.expose_value
]
VALUES = {
    "gone_after": "2h",
    "upstream": "a=http://a b=http://b",
    "url": "http://x",
    "host": "::1",
    "allow_origin": "http://localhost:1",
    "at": "3s",
    "content": "shape",
    "dialect": "mcp",
    "since": "3d",
    "until": "3d",
    "param": "a 1",
    "token": "a" * 22,
    "only": "usage",
    "older_than": "3d",
    "valid_from": "3d",
    **dict.fromkeys(("keep", "ship", "prefix"), "s3://bucket"),
}


def another(option: click.Option) -> str:
    """A value that is not the default."""
    if option.is_flag:
        return "0" if option.default is True else "1"
    if isinstance(option.type, click.Choice):
        return next(str(choice) for choice in option.type.choices if choice != option.default)
    if isinstance(option.type, click.IntRange):
        return str((option.type.min or 0) + 3)
    return VALUES.get(str(option.name), "3")


def test_every_variable_has_the_name_of_the_long_option(here: Path) -> None:
    wrong = []
    for words, option, command in OPTIONS:
        [long] = [name.removeprefix("--") for name in option.opts if name.startswith("--")]
        name = long.replace("-", "_")
        if option.name != name or not is_set_by_its_variable(words, option, command, name):
            wrong.append((words, long))
    assert len(OPTIONS) > 150
    assert wrong == []


def is_set_by_its_variable(
    words: tuple[str, ...], option: click.Option, command: click.Command, name: str
) -> bool:
    """Whether the variable of that name gives the option another value than the one it has without."""
    required = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    arguments = [VALUES.get(str(parameter.name), "openai") for parameter in required]
    for each in command.params:
        if isinstance(each, click.Option) and each.required and each is not option:
            arguments += [each.opts[0], another(each)]
    before = None if option.required else taken(*words, *arguments)[name]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("_".join(("RECORDER", *words, name)).upper(), another(option))
        return bool(taken(*words, *arguments)[name] != before)


def test_several_values_of_a_variable_are_separated_by_spaces(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORDER_SERVE_UPSTREAM", "a=http://a  b=http://b")
    assert [upstream.name for upstream in taken("serve")["upstream"]] == ["a", "b"]


def own(here: Path, text: str) -> Path:
    """The user's own file, with this text."""
    path = here / "config" / "recorder" / "recorder.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_flags_win_over_the_environment_and_that_over_files(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "recorder.toml").write_text(
        'db = "from-file.db"\n[serve]\nno-websocket = true\nmax-body = 3\n'
    )
    assert (taken("serve")["no_websocket"], taken("serve")["max_body"]) == (True, 3)
    with pytest.raises(
        UsageError, match=r"--max-body is a setting: .* \[serve\] .* RECORDER_SERVE_MAX_BODY"
    ):
        taken("serve", "--max-body", "1")
    assert taken("sessions")["db"] == taken("db", "path")["db"] == str(here / "from-file.db")
    monkeypatch.setenv("RECORDER_DB", "from-environment.db")
    monkeypatch.setenv("RECORDER_SERVE_MAX_BODY", "2")
    assert (taken("sessions")["db"], taken("serve")["max_body"]) == ("from-environment.db", 2)
    assert taken("sessions", "--db", "from-flag.db")["db"] == "from-flag.db"


def test_the_page_of_settings_has_those_that_are_not_typed() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (`.*?`) \|", page, re.MULTILINE)
    shown = {
        (verb.strip("`"), name.replace("-", "_"))
        for name, verbs in rows
        for verb in verbs.split(", ")
    }
    assert shown == {
        (words[0], option.name) for words, option, _ in OPTIONS if isinstance(option, Setting)
    }


def test_the_file_here_wins_over_the_users_own(here: Path) -> None:
    path = own(here, 'db = "own.db"\n[serve]\nport = 1\nmax-body = 2\n')
    assert taken("sessions")["db"] == str(path.parent / "own.db")
    (here / "recorder.toml").write_text('db = "here.db"\n[serve]\nmax-body = 3\n')
    assert taken("sessions")["db"] == str(here / "here.db")
    assert (taken("serve")["port"], taken("serve")["max_body"]) == (1, 3)


def test_the_users_own_file_is_their_own_in_its_folder_too(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own(here, '[serve]\nport = 1\n[mock]\nfault = "cut@12"\n').parent)
    assert taken("serve")["port"] == 1
    assert taken("mock")["fault"] == ("cut@12",), "a text is a list of one"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.db", "{here}/a.db"),
        ("sqlite:///a.db", "sqlite:///{here}/a.db"),
        ("/x/a.db", "/x/a.db"),
        ("sqlite:////x/a.db", "sqlite:////x/a.db"),
        ("postgresql://x/y", "postgresql://x/y"),
        ("ducklake:a.db", "ducklake:{here}/a.db"),
        ("ducklake:sqlite:a.db", "ducklake:sqlite:{here}/a.db"),
        ("ducklake:postgresql://x/y", "ducklake:postgresql://x/y"),
        ("ducklake:postgres:dbname=x", "ducklake:postgres:dbname=x"),
        (":memory:", ":memory:"),
    ],
)
def test_a_relative_database_is_beside_its_file(here: Path, written: str, meant: str) -> None:
    path = own(here, f'db = "{written}"')
    assert taken("sessions")["db"] == meant.format(here=path.parent)


WRONG = [
    ("serve", "[serve]\nprot = 1", "`recorder serve` has no option --prot"),
    ("env openai", '[env]\ndb = "x"', "`recorder env` has no option --db"),
    ("sessions", "prot = 1", "there is no setting 'prot'"),
    ("sessions", "[server]\nport = 1", "there is no setting 'server'"),
    ("sessions", "[otlp]\nfollow = true", "there is no table [otlp] any more"),
    ("sessions", "serve = 3", "`serve` is a table"),
    ("sessions", "db = 3", "`db` is a path or a URL in quotes"),
    ("sessions", '[db]\ndb = "x"', "`db` is a path or a URL in quotes"),
    ("sessions", "[sessions]\ndb = 3", "`db` is a text in quotes"),
    ("sessions", '[sessions]\njson = "yes"', "`json` is true or false"),
    ("serve", "[serve]\nport = true", "`port` is one value"),
    ("serve", "[serve]\nport = 99999", "`port`: 99999 is not in the range"),
    ("serve", "[serve]\nport = [1]", "`port` is one value"),
    ("serve", "[serve]\nupstream = [1]", "`upstream` is a text in quotes"),
    ("replay x", '[replay]\nspeed = "fast"', "`speed`: fast is not a speed"),
    ("sessions", "port = = 1", "is not valid TOML"),
]


@pytest.mark.parametrize(("command", "text", "sentence"), WRONG)
def test_what_is_wrong_in_a_file_is_named_with_the_file(
    here: Path, command: str, text: str, sentence: str
) -> None:
    (here / "recorder.toml").write_text(text)
    with pytest.raises(UsageError) as refusal:
        taken(*command.split())
    assert str(refusal.value).startswith(str(here / "recorder.toml"))
    assert sentence in str(refusal.value)


def test_help_and_version_read_no_file(tmp_path: Path) -> None:
    (tmp_path / "recorder").mkdir()
    (tmp_path / "recorder" / "recorder.toml").write_text("port = = 1")
    db = tmp_path / "none.db"
    for arguments in (("-h",), ("--version",), ("serve", "--help"), ("db", "path", "--help")):
        ran = run(db, *arguments)
        assert (ran.code, ran.err) == (0, "")
    ran = run(db, "sessions")
    assert (ran.code, "is not valid TOML" in ran.err) == (2, True)


def test_places_of_session_names_stand_in_both_files(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(here / "state"))
    content = b'[sessions]\nheaders = ["X-Run-Id"]\nfields = "metadata.run"\nprobes = true\n'
    (here / "recorder.toml").write_bytes(content)
    trust(here / "recorder.toml", content)
    own(here, '[sessions]\nheaders = ["X-Job"]\n')
    assert session_places() == SessionPlaces((b"x-run-id", b"x-job"), ("metadata.run",))
    assert taken("sessions")["probes"]


@pytest.mark.parametrize("written", ["headers = 7", 'headers = ["a b"]', "fields = [7]"])
def test_a_wrong_place_is_named_with_the_file(here: Path, written: str) -> None:
    (here / "recorder.toml").write_text(f"[sessions]\n{written}\n")
    with pytest.raises(
        UsageError, match=r"recorder\.toml: `(headers|fields)` in \[sessions\] is a list of names"
    ):
        session_places()


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "X-Goog-Api-Key", "Cookie"])
def test_no_session_is_named_by_a_header_with_a_secret(here: Path, header: str) -> None:
    own(here, f'[sessions]\nheaders = ["{header}"]\n')
    with pytest.raises(UsageError, match=f"the value of {header} is a secret"):
        session_places()


def test_rules_of_matching_stand_in_a_file(here: Path) -> None:
    (here / "recorder.toml").write_text('db = "x.db"\n[match]\nfields = ["seed"]\n')
    asked = [{"model": "m", "seed": seed} for seed in (1, 2)]
    assert len({repr(DEFAULT_RULES.quiet(body)) for body in asked}) == 2
    assert len({repr(match_rules().quiet(body)) for body in asked}) == 1
    assert str(taken("sessions")["db"]).endswith("x.db")


def test_a_wrong_rule_of_matching_is_named_with_the_file(here: Path) -> None:
    (here / "recorder.toml").write_text('[match]\nfeilds = ["seed"]\n')
    with pytest.raises(UsageError) as refusal:
        match_rules()
    assert str(refusal.value).startswith(str(here / "recorder.toml"))
    assert "feilds" in str(refusal.value)
