"""The `recorder.toml` of a repository that somebody cloned: it does nothing that its user has not
agreed to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from recorder.archive.place import database_url
from recorder.archive.registry import register
from recorder.commands.terminal.project import ALLOWED
from recorder.store.write.writer import Store
from tests.support.commands import COMMANDS
from tests.support.empty_log import empty
from tests.support.server import Ran, run

SET = [
    ("serve", 'upstream = "openai=http://127.0.0.1:1"'),
    ("serve", 'upstream-proxy = "http://127.0.0.1:1"'),
    ("serve", 'no-proxy = "api.openai.com"'),
    ("serve", 'ca-file = "ca.pem"'),
    ("serve", 'client-cert = "cert.pem"'),
    ("serve", 'client-key = "key.pem"'),
    ("serve", f'host = "0.0.0.0"\ntoken = "{"a" * 22}"'),
    ("serve", "port = 1"),
    ("serve", "admin-port = 1"),
    ("serve", "ui-port = 1"),
    ("serve", 'ready-file = "mine"'),
    ("serve", 'ready_file = "mine"'),
    ("serve", 'allow-origin = "http://a.test"'),
    ("serve", 'allow-host = "a.test"'),
    ("serve", 'durability = "journal"'),
    ("run -- true", 'upstream = "openai=http://127.0.0.1:1"'),
    ("run -- true", 'cassette = "../x.sse.jsonl"'),
    ("run -- true", "allow-network = true"),
    ("run -- true", 'replay = "latest"'),
    ("mock", 'otherwise = "forward"'),
    ("mock", 'cassette = "/x.sse.jsonl"'),
    ("mock", 'host = "0.0.0.0"'),
    ("env openai", 'url = "http://a.test"'),
    ("probe http://127.0.0.1:1 --api openai-chat", 'key-env = "HOME"'),
    ("probe http://127.0.0.1:1 --api openai-chat", 'junit = "../x.xml"'),
    ("torture -- true", 'cassettes = "../x"'),
    ("torture -- true", 'junit = "../x.xml"'),
    ("bisect latest -- true", 'check = "touch ../x"'),
    ("bisect latest --check true -- true", 'upstream = "openai=http://127.0.0.1:1"'),
    ("export --to http://127.0.0.1:1", 'header = "x=y"'),
    ("export", 'to = "http://a.test"'),
    ("prices update", 'file = "x.toml"'),
    ("ui", "port = 1"),
    ("ui", 'host = "0.0.0.0"'),
    ("ui", 'tokens = "mine.json"'),
    ("demo", "port = 1"),
    ("export latest", "content = true"),
    ("verify", 'against = "mine"'),
    ("replay latest", "allow-gaps = true"),
]
OUTSIDE = [
    *(
        "{outside}/x.db",
        "../x.db",
        "a/../../x.db",
        "~/x.db",
        "sqlite:///{outside}/x.db",
        "sqlite:///../x.db",
    ),
    *(
        "sqlite+pysqlite:////x.db",
        "postgresql://a.test/x",
        "postgres://a.test/x",
        "ducklake:x.db",
        "ducklake:sqlite:x",
    ),
    *(
        "ducklake:postgresql://a.test/x",
        "ducklake:postgres:dbname=x",
        "folder/x.db",
        "file.db",
        "loop/x.db",
        ".",
    ),
    *(
        "with-journal.db",
        "with-lock.db",
        "sqlite:///x.db?mode=rwc",
        "mysql://a.test/x",
        "a\\u0000b",
    ),
]


class Project(NamedTuple):
    folder: Path
    outside: Path

    def sets(self, text: str) -> None:
        (self.folder / "recorder.toml").write_text(text)

    def run(self, *words: str) -> Ran:
        return run(self.outside / "recorder.db", *words, cwd=self.folder)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A folder with links that lead out of it, and a user at home outside of it."""
    folder, outside = tmp_path / "cloned", tmp_path / "home"
    folder.mkdir()
    outside.mkdir()
    for name, target in {
        "folder": outside,
        "file.db": outside / "x.db",
        "loop": folder / "loop",
        "with-journal.db.journal": outside,
        "with-lock.db.lock": outside / "lock",
    }.items():
        (folder / name).symlink_to(target)
    (folder / "mine").write_text("http://a.test\n")
    monkeypatch.setenv("XDG_STATE_HOME", str(outside / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(outside))
    return Project(folder, outside)


def assert_refused(project: Project, ran: Ran, *names: str) -> None:
    assert (ran.code, ran.out) == (2, b"")
    assert len(ran.err.splitlines()) == 1
    assert ran.err.startswith(
        f"Error: {project.folder}/recorder.toml sets {', '.join(f'`{name}`' for name in names)}"
    )
    assert "`recorder trust`" in ran.err
    assert sorted(path.name for path in project.outside.iterdir()) == []
    assert (project.folder / "mine").read_text() == "http://a.test\n"


def test_a_projects_file_can_neither_send_nor_listen_nor_write(project: Project) -> None:
    for command, setting in SET:
        words = command.split()
        project.sets(f"[{words[0]}]\n{setting}\n")
        names = [line.partition(" ")[0] for line in setting.splitlines()]
        # if it were obeyed, a server would not end
        ran = project.run(words[0], "--nosuch", *words[1:])
        assert_refused(project, ran, *names)


def test_a_projects_file_does_not_choose_what_is_kept_as_a_name(project: Project) -> None:
    """The value of a header is not kept otherwise, if nobody knows that it is harmless."""
    for name, names in (("headers", "X-Customer"), ("fields", "metadata.user")):
        project.sets(f'[sessions]\n{name} = ["{names}"]\n')
        assert_refused(project, project.run("run", "--", "true"), name)


@pytest.mark.parametrize("table", ["", "[sessions]\n"])
def test_a_projects_database_is_below_its_folder(project: Project, table: str) -> None:
    for place in OUTSIDE:
        project.sets(f'{table}db = "{place.format(outside=project.outside)}"\n')
        assert_refused(project, project.run("sessions"), "db")


def test_a_database_below_the_folder_needs_no_trust(project: Project) -> None:
    for place in ("x.db", "a/b/../x.db", "sqlite:///x.db", f"{project.folder}/x.db", "..x.db"):
        project.sets(f'db = "{place}"\n')
        assert project.run("db", "path").code == 0, place


def test_a_database_that_reads_archives_elsewhere_needs_trust(project: Project) -> None:
    """A repository can have a log in it, and that can name a server."""
    with Store(database_url(empty(project.folder / "x.db"))) as store:
        register(store, database_url("ducklake:postgresql://a.test/x"), 0)
    project.sets('db = "x.db"\n')
    assert_refused(project, project.run("sessions"), "db")


def test_the_file_of_another_user_places_no_database(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns the folder could read it."""
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    project.sets('db = "x.db"\n[doctor]\njson = true\n')
    assert_refused(project, project.run("sessions"), "db")


@pytest.mark.parametrize(
    "text", ['RECORDER_DB = "/x.db"', '[serve]\nRECORDER_SERVE_UPSTREAM = "a=http://a"']
)
def test_names_of_variables_are_no_settings(project: Project, text: str) -> None:
    project.sets(f"{text}\n")
    ran = project.run("serve", "--nosuch")
    assert (ran.code, "RECORDER_" in ran.err) == (2, True)


@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "recorder.toml", "large"])
def test_what_is_not_a_file_of_settings_is_refused_at_once(project: Project, target: str) -> None:
    os.mkfifo(project.folder / "pipe")
    (project.folder / "large").write_text("#" * 2**20 + "#")
    (project.folder / "recorder.toml").symlink_to(target)
    ran = project.run("sessions")
    assert (ran.code, "move it away" in ran.err) == (2, True)


def test_a_link_to_a_file_elsewhere_is_judged_as_well(project: Project) -> None:
    own = project.folder / "elsewhere.toml"
    own.write_text("[ui]\nport = 1\n")
    (project.folder / "recorder.toml").symlink_to(own)
    assert_refused(project, project.run("ui", "--nosuch"), "port")


def test_trust_is_for_one_file_until_it_changes(project: Project, tmp_path: Path) -> None:
    text = 'db = "../x.db"\n[env]\nurl = "http://a.test"\n[match]\nfields = ["x"]\n'
    project.sets(text)
    trusting = project.run("trust")
    assert trusting.code == 0
    assert "  [env] url, db\n" in trusting.err
    assert b"export OPENAI_BASE_URL=http://a.test/v1\n" in project.run("env", "openai").out

    other = Project(tmp_path / "other", project.outside)
    other.folder.mkdir()
    other.sets(text)
    assert other.run("env", "openai").code == 2

    project.sets(f"{text}# changed\n")
    assert project.run("env", "openai").code == 2
    assert other.run("trust", str(project.folder / "recorder.toml")).code == 0
    assert project.run("env", "openai").code == 0
    [record] = (project.outside / "state" / "recorder" / "trusted").iterdir()
    assert (record.stat().st_mode & 0o777, str(project.folder) in record.read_text()) == (
        0o600,
        True,
    )
    record.unlink()
    assert project.run("env", "openai").code == 2


def test_only_a_file_with_settings_can_be_trusted(project: Project) -> None:
    assert project.run("trust").code == 3
    assert project.run("trust", "mine").code == 2


def test_every_setting_that_needs_no_trust_is_an_option() -> None:
    def options(verb: str) -> set[str]:
        below = [command for name, command in COMMANDS.items() if name.split()[0] == verb]
        names = {option for command in below for param in command.params for option in param.opts}
        return {name.removeprefix("--") for name in names}

    assert {verb: sorted(names - options(verb)) for verb, names in ALLOWED.items()} == {
        verb: [] for verb in ALLOWED
    }
