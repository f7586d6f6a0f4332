"""The wheel that users install, in an environment of its own, far from the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.corpus import ROOT
from tests.support.server import environment
from tests.support.wheel import built
from tools import man_pages, wheel_hook

PAGE_FILES = {".html", ".js", ".css", ".svg", ".toml"}  # of the viewer


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel, and of the libraries of this one those that it
    asks for.
    """
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    scheme = "nt_venv" if os.name == "nt" else "posix_venv"
    paths = sysconfig.get_paths(scheme, {"base": str(folder), "platbase": str(folder)})
    target, bin = Path(paths["purelib"]), Path(paths["scripts"])
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(bin / "python"),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True)
    for each in needed():
        for top in {
            file.parts[0]
            for file in metadata.files(each) or []
            if file.parts[0] not in ("..", "__pycache__")
        }:
            _link(Path(str(metadata.distribution(each).locate_file(top))), target / top)
    return bin


def needed() -> set[str]:
    """The distributions that the wheel asks for, and those that they ask for: nothing of its
    extras, nothing else.
    """
    wanted, seen = [("sse-recorder", "")], set[tuple[str, str]]()
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, metadata.requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                wanted += [
                    (canonicalize_name(requirement.name), each)
                    for each in ("", *requirement.extras)
                ]
    return {name for name, _ in seen} - {"sse-recorder"}


def _link(there: Path, here: Path) -> None:
    """A package of several distributions has a folder for each of its parts."""
    if not here.exists():
        here.symlink_to(there)


def run(bin: Path, home: Path, *command: object) -> subprocess.CompletedProcess[bytes]:
    env = {**environment(home), "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        list(map(str, command)), capture_output=True, cwd=home, env=env, timeout=60
    )


def test_the_wheel_carries_the_program_its_migrations_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {
        name.split("/")[0] for name in names if ".dist-info/" not in name and ".data/" not in name
    } == {"recorder"}
    assert {name.split("/")[-1] for name in names if ".data/data/share/man/man1/" in name} == set(
        man_pages.pages()
    )
    migrations = {str(path.relative_to(ROOT)) for path in (ROOT / "migrations").rglob("*.py")}
    assert {f"recorder/{name}" for name in migrations} <= set(names)
    pages = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "recorder" / "ui").rglob("*")
        if path.suffix in PAGE_FILES
    }
    assert (
        {"recorder/ui/static/index.html", "recorder/ui/vendor/uPlot.esm.js"} <= pages <= set(names)
    )
    assert "recorder/ui/vendor/LICENSE" in names
    assert not [name for name in names if "__pycache__" in name]


def test_a_bill_of_materials_that_a_release_has_made_goes_into_the_wheel(tmp_path: Path) -> None:
    for name in ("recorder", "tools"):
        (tmp_path / name).symlink_to(ROOT / name)
    added: dict[str, Any] = {"shared_data": {}, "sbom_files": []}
    wheel_hook.add(tmp_path, added)
    assert added == {"shared_data": {wheel_hook.MAN_PAGES: "share/man/man1"}, "sbom_files": []}
    (tmp_path / wheel_hook.BILL).write_text("{}")
    wheel_hook.add(tmp_path, added)
    assert added["sbom_files"] == [wheel_hook.BILL]


def test_the_wheel_names_the_pythons_that_a_release_is_tested_on(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        [about] = [
            opened.read(name).decode()
            for name in opened.namelist()
            if name.endswith(".dist-info/METADATA")
        ]
    release = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    classified = re.findall(
        r"^Classifier: Programming Language :: Python :: (3\.\d+)$", about, re.MULTILINE
    )
    assert set(classified) <= set(release["jobs"]["test"]["strategy"]["matrix"]["python"])
    assert f"Requires-Python: >={classified[0]}" in about


@pytest.mark.parametrize("library", ["pytest", "openai", "psycopg", "hypothesis", "tests", "pip"])
def test_nothing_is_there_that_the_wheel_does_not_ask_for(
    installed: Path, tmp_path: Path, library: str
) -> None:
    asked = run(installed, tmp_path, installed / "python", "-c", f"import {library}")
    assert f"No module named '{library}'".encode() in asked.stderr


def test_the_wheel_records_and_replays(installed: Path, tmp_path: Path) -> None:
    where = run(
        installed, tmp_path, installed / "python", "-c", "import recorder; print(recorder.__file__)"
    )
    assert where.stdout.decode().startswith(str(installed.parent)), where
    migrations = "from recorder.store.maintain import migrate; print(migrate.migrations())"
    where = run(installed, tmp_path, installed / "python", "-c", migrations)
    assert where.stdout.decode().startswith(str(installed.parent)), where
    db = tmp_path / "new" / "demo.db"
    # as `uvx sse-recorder demo` does
    demo = run(installed, tmp_path, installed / "sse-recorder", "demo", "--db", db)
    assert demo.returncode == 0, demo.stderr
    assert b"byte for byte what the client received" in demo.stderr
    listed = run(installed, tmp_path, installed / "recorder", "sessions", "--db", db, "--json")
    [row] = json.loads(listed.stdout)
    assert (row["exchanges"], row["status"], row["open"]) == (9, "completed", 0)
    replayed = run(
        installed,
        tmp_path,
        installed / "recorder",
        "replay",
        "latest",
        "--speed",
        "max",
        "--db",
        db,
    )
    assert replayed.returncode == 0
    # those of a WebSocket are written as events
    messages = row["bytes"] + 100 * replayed.stdout.count(b"event: ")
    assert row["bytes"] < len(replayed.stdout) < messages
    assert (
        run(installed, tmp_path, installed / "python", "-m", "recorder", "--version").returncode
        == 0
    )
    assert (installed.parent / "share" / "man" / "man1" / "recorder.1").exists()
    assert json.loads(
        run(installed, tmp_path, installed / "recorder", "sessions", "--schema").stdout
    )["title"]
    without = run(installed, tmp_path, installed / "recorder", "mcp")
    assert (
        "needs the extra mcp: run `pip install '.[mcp]'` in a checkout" in without.stderr.decode()
    )


def test_the_wheel_serves_the_viewer_and_writes_its_page(
    installed: Path, demo_db: Path, tmp_path: Path
) -> None:
    page = run(
        installed,
        tmp_path,
        installed / "recorder",
        "export",
        "latest",
        "--db",
        demo_db,
        "--format",
        "html",
    )
    assert page.stdout.startswith(b"<!doctype html>"), page.stderr
    assert b"class FileSource" in page.stdout
    command = [
        str(installed / "recorder"),
        "ui",
        "latest",
        "--port",
        "0",
        "--no-open",
        "--db",
        str(demo_db),
    ]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(tmp_path)
    )
    try:
        assert started.stdout is not None
        base, _, token = started.stdout.readline().partition("#")[0].strip().partition("?token=")
        for path in (
            "",
            "static/app.js",
            "static/player/player.js",
            "vendor/uPlot.esm.js",
            "api/about",
        ):
            asked = urllib.request.Request(base + path, headers={"X-Recorder-Token": token})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert answer.read(), path
    finally:
        started.kill()
        started.communicate()


FIRST_REPLAY_S = 60


@pytest.mark.slow  # it asks a registry for twenty packages
@pytest.mark.timed
def test_an_empty_environment_shows_a_replay_within_a_minute(wheel: Path, tmp_path: Path) -> None:
    """From the wheel, pip and nothing else to the first replay on the screen."""
    venv.create(tmp_path / "empty", with_pip=True, symlinks=True)
    bin = tmp_path / "empty" / "bin"
    registry = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))
    }
    env = {**environment(tmp_path), **registry, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    begun = time.monotonic()
    pip = subprocess.run(
        [bin / "python", "-m", "pip", "install", "--quiet", wheel],
        env=env,
        capture_output=True,
        text=True,
    )
    if "No matching distribution" in pip.stderr or "connection" in pip.stderr:
        pytest.skip(f"no registry can be reached: {pip.stderr.splitlines()[-1]}")
    assert pip.returncode == 0, pip.stderr
    demo = subprocess.run(
        [bin / "sse-recorder", "demo"], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    took_s = time.monotonic() - begun
    assert demo.returncode == 0, demo.stderr
    assert "byte for byte what the client received" in demo.stderr
    assert took_s < FIRST_REPLAY_S, f"{took_s:.0f} s"
