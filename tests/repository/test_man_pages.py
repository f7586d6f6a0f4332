"""The man pages and the reference of the command line: all that `--help` says, readable by `man`
and by Markdown.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from recorder.commands.verbs import VERBS
from tests.support.commands import COMMANDS
from tools import cli_docs, man_pages
from tools.man_pages import escaped

needs_groff = pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
needs_man = pytest.mark.skipif(shutil.which("lexgrog") is None, reason="there is no man-db here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pages."""
    made = tmp_path_factory.mktemp("man")
    man_pages.write(made)
    return made


def test_every_verb_has_a_page_with_its_options(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "recorder.1",
        *(f"recorder-{verb}.1" for verb in VERBS),
    }
    serve = (folder / "recorder-serve.1").read_text()
    assert r"\fB\-\-allow\-origin" in serve


@needs_groff
def test_no_page_makes_groff_warn(folder: Path) -> None:
    pages = sorted(folder.iterdir())
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Tutf8", "-z", *pages], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@needs_man
def test_every_page_has_a_line_that_apropos_finds(folder: Path) -> None:
    pages = sorted(folder.iterdir())
    done = subprocess.run(["lexgrog", *pages], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"\.1: \"recorder\S* - \w", done.stdout)) == len(pages)


@needs_man
def test_man_shows_the_options_of_a_command_as_they_are_typed(folder: Path) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "MANWIDTH": "100",
        "LC_ALL": "C.UTF-8",
        "MANPAGER": "cat",
    }
    command = ["man", "--warnings", "-l", str(folder / "recorder-serve.1")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    shown = re.sub(r".\x08|\x1b\[[\d;]*m", "", done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    for each in COMMANDS["serve"].params:
        if isinstance(each, click.Option) and not each.hidden:
            assert re.search(rf"^ +{each.opts[-1]}\b", shown, re.MULTILINE), each.opts


def test_the_reference_has_every_option_of_a_command() -> None:
    page, missing = cli_docs.page(), []
    for name, command in COMMANDS.items():
        section = re.split(rf"^##+ recorder {name}$", page, flags=re.MULTILINE)[1].partition(
            "\n##"
        )[0]
        for each in command.params:
            is_shown = isinstance(each, click.Option) and not each.hidden
            if is_shown and not re.search(
                rf"^\* `(\S+, )?{each.opts[-1]}\b", section, re.MULTILINE
            ):
                missing.append((name, each.opts))
    assert missing == []


def test_roff_takes_no_text_for_a_macro() -> None:
    assert escaped(".SH 'x' -y \\z …") == r"\&.SH \[aq]x\[aq] \-y \[rs]z \[u2026]"


def test_every_link_of_the_reference_leads_to_a_heading() -> None:
    text = cli_docs.page()
    headings = {
        each.replace(" ", "-") for each in re.findall(r"^##+ (recorder .*)$", text, re.MULTILINE)
    }
    assert set(re.findall(r"\(#([\w-]+)\)", text)) <= headings
