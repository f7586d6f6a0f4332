from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from recorder.errors import UsageError
from recorder.store.location import database_name, database_path, database_url, default_url


@pytest.mark.parametrize(
    "value",
    [
        "/d/log.db",
        Path("/d/log.db"),
        "sqlite:////d/log.db",
        "sqlite+aiosqlite:////d/log.db",
        make_url("sqlite:////d/log.db"),
    ],
    ids=str,
)
def test_a_path_and_a_url_mean_the_same_file(value: str) -> None:
    assert database_url(value).render_as_string() == "sqlite:////d/log.db"
    assert database_path(database_url(value)) == Path("/d/log.db")


def test_a_relative_path_stands_for_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in ("log.db", "./log.db", "sqlite:///log.db"):
        assert database_path(database_url(value)) == tmp_path / "log.db"


def test_a_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert database_path(database_url("~/log.db")) == Path("/home/someone/log.db")


@pytest.mark.parametrize("name", ["a b.db", "what?.db", "100%.db", "a#b.db", "ä.db", "a:b.db"])
def test_a_name_may_hold_any_character(name: str) -> None:
    assert database_path(database_url(f"/d/{name}")) == Path("/d") / name


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            "mysql+pymysql://db/log",
            "recorder cannot record into mysql: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE.",
        ),
        (
            "sqlite:////d/log.db?mode=ro",
            "The URL of a database file takes no options: recorder sets them itself.",
        ),
        ("sqlite://", "The log needs a database file: give a path, or sqlite:///PATH."),
        ("sqlite:///:memory:", "The log needs a database file: give a path, or sqlite:///PATH."),
        ("", "The log needs a database file: give a path, or sqlite:///PATH."),
        (
            "://nothing",
            "That is not a database URL: give a path, sqlite:///PATH, or postgresql://USER@HOST/DATABASE.",
        ),
    ],
)
def test_what_is_no_database_file_is_refused_in_one_sentence(value: str, sentence: str) -> None:
    with pytest.raises(UsageError) as refusal:
        database_url(value)
    assert str(refusal.value) == sentence


def test_the_default_is_in_the_data_directory_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_DATA_HOME", "/home/someone/data")
    path = database_path(default_url())
    assert path.parts[-2:] == ("recorder", "recorder.db")
    assert path.is_relative_to("/home/someone")


def test_a_database_on_a_server_has_a_name_and_no_path() -> None:
    url = database_url("postgresql://me:secret@db:5433/log")
    assert database_name(url) == "postgresql://db:5433/log"
    with pytest.raises(UsageError, match="is not a file"):
        database_path(url)
    with pytest.raises(UsageError, match="names no database"):
        database_url("postgresql://me@db")
