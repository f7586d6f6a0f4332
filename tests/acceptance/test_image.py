"""The image, as far as no engine is needed: what it copies is enough to build the wheel, and its
commands are run here.

The base image, the user and the volume are only read.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from recorder.proxy.app import HEALTH
from tests.acceptance.docs.test_docs import free_port
from tests.support.corpus import ROOT
from tests.support.server import STARTED_S, environment
from tests.support.wheel import built, with_libraries

TOKEN = "t" * 22


class Instruction(NamedTuple):
    """A line of the file: `COPY recorder recorder` is the word COPY with its text."""

    word: str
    text: str


def stages() -> list[list[Instruction]]:
    """Return the instructions of each stage; each begins with its FROM."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace(
        "\\\n", " "
    )
    found: list[list[Instruction]] = []
    for word, rest in re.findall(r"^([A-Z]+) (.*)$", text, re.MULTILINE):
        found += [[]] if word == "FROM" else []
        found[-1].append(Instruction(word, rest))
    return found


BUILD, FINAL = stages()


def texts(word: str) -> list[str]:
    return [each.text for each in FINAL if each.word == word]


def variables() -> dict[str, str]:
    [text] = texts("ENV")
    return dict(pair.split("=", 1) for pair in shlex.split(text))


class Container(NamedTuple):
    """The program of the image with its variables, at home in a folder."""

    bin: Path
    env: dict[str, str]

    def health(self, **more: str) -> int:
        """Return the exit code of the health check."""
        [check] = texts("HEALTHCHECK")
        command = json.loads(check.partition(" CMD ")[2])
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            env={**self.env, **more},
            capture_output=True,
        ).returncode


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Container:
    """The wheel, built of what the image copies, in an environment of its own."""
    home = tmp_path_factory.mktemp("image")
    source = home / "source"
    source.mkdir()
    for each in BUILD:
        if each.word == "COPY":
            *names, target = each.text.split()
            for name in names:
                place = (
                    source / target / name
                    if target.endswith("/") and Path(name).parent == Path()
                    else source / name
                )
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
                copy(ROOT / name, place)
    wheel = built(home / "dist", source)
    venv.create(home / "venv", with_pip=False, symlinks=True)
    bin = home / "venv" / "bin"
    env = {
        **with_libraries(environment(home)),
        **variables(),
        "RECORDER_DB": str(home / "recorder.db"),
    }
    pip = [sys.executable, "-m", "pip", "--python", str(bin / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    return Container(bin, {**env, "PATH": f"{bin}:{env['PATH']}"})


@contextlib.contextmanager
def started(container: Container, **more: str) -> Iterator[subprocess.Popen[str]]:
    [entry], [command] = texts("ENTRYPOINT"), texts("CMD")
    words = [*json.loads(entry), *json.loads(command)]
    program = [str(container.bin / words[0]), *words[1:]]
    env = {**container.env, **more}
    process = subprocess.Popen(
        program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_container_is_healthy_while_it_serves_and_ends_in_order(container: Container) -> None:
    port = str(free_port())
    container.env["RECORDER_SERVE_PORT"] = port
    assert container.health() == 1, "nothing listens yet"
    with started(container, RECORDER_SERVE_TOKEN=TOKEN) as process:
        deadline = time.monotonic() + STARTED_S
        while container.health(RECORDER_SERVE_TOKEN=TOKEN) != 0:
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
        assert container.health() == 0, "a token that the check does not know is an answer"
        [stop] = texts("STOPSIGNAL")
        process.send_signal(signal.Signals[stop])
        assert process.wait(STARTED_S) == 0


@pytest.mark.slow
def test_a_container_without_a_token_ends_and_says_so(container: Container) -> None:
    """Its port is for other machines."""
    with started(container) as process:
        said, _ = process.communicate(timeout=STARTED_S)
    assert process.returncode == 2
    assert "--token" in said


def test_nobody_in_it_is_root() -> None:
    [user] = texts("USER")
    made = " ".join(texts("RUN"))
    assert re.search(rf"useradd .*\b{user}\b", made)
    words = [each.word for each in FINAL]
    assert words.index("USER") > max(number for number, word in enumerate(words) if word == "RUN")


def test_the_recordings_are_in_the_volume_of_that_user() -> None:
    [volume], [user] = texts("VOLUME"), texts("USER")
    assert Path(variables()["RECORDER_DB"]).parent == Path(volume)
    assert re.search(
        rf"install --directory --owner {user} --mode 0700 {volume}", " ".join(texts("RUN"))
    )


def test_the_health_check_asks_the_page_that_only_says_that_the_proxy_answers() -> None:
    [check], [port] = texts("HEALTHCHECK"), texts("EXPOSE")
    assert HEALTH in check
    assert variables()["RECORDER_SERVE_PORT"] == port
