"""Cassettes in a git repository, with the settings that docs/cassettes.md shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.conversations import Conversations, asking, message, response
from tests.support.corpus import ROOT
from tests.support.server import environment, run

PAGE = (ROOT / "docs" / "cassettes.md").read_text()
SETTINGS = re.findall(r"^git config .*$", PAGE, re.MULTILINE)
DIFFTOOL = re.findall(r"^git difftool .*$", PAGE, re.MULTILINE)
ATTRIBUTES = re.findall(r"^\*\.sse\.jsonl .*\n", PAGE, re.MULTILINE)
NAME = "weather.sse.jsonl"


class Repository:
    """A repository with a committed cassette, of which another answer is in the working tree."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "project"
        self._folder.mkdir()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        names = {
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@x",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@x",
        }
        self._environment = {
            **environment(folder),
            **names,
            "PATH": path,
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        for line in ("git init --quiet", *SETTINGS):
            self.sh(line)
        (self._folder / ".gitattributes").write_text("".join(ATTRIBUTES))
        self._record(folder / "first.db", "It is sunny.")
        self.sh("git add --all")
        self.sh("git commit --quiet --message first")
        self._record(folder / "second.db", "It is rainy.")

    def sh(self, line: str) -> str:
        done = subprocess.run(
            line,
            shell=True,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        return done.stdout

    def _record(self, db: Path, answer: str) -> None:
        recorded = Conversations(db)
        recorded.session("weather").exchange(
            response(*message(answer), id="resp_1"), asking("What is the weather?")
        )
        (self._folder / NAME).write_bytes(run(db, "export", "weather", "--format", "cassette").out)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("git"))


@pytest.mark.long
def test_git_shows_what_changed_in_the_conversation_and_no_ids(repository: Repository) -> None:
    changed = [
        line for line in repository.sh("git diff").splitlines() if re.match(r"[-+](?![-+])", line)
    ]
    assert changed == ["-It is sunny.", "+It is rainy."]


@pytest.mark.long
def test_the_difftool_says_which_word_differs(repository: Repository) -> None:
    [line] = DIFFTOOL
    assert "It is [-sunny-]{+rainy+}." in repository.sh(line)
