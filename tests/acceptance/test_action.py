"""The action for GitHub: its steps run here as a runner runs them, in bash, and what it declares is
what it uses.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.console import blocks
from tests.support.corpus import ROOT
from tests.support.server import environment, run
from tests.support.wheel import built, with_libraries

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
AFTER = [step for step in STEPS if step.get("id") not in ("python", "install")]
EXPRESSION = re.compile(r"\$\{\{ (.*?) \}\}")

ASK = (
    '{"model": "gpt-demo", "messages": [{"role": "user", "content": "What is a stream?"}], "stream": true,'
    ' "stream_options": {"include_usage": true}}'
)
CALL = f"curl -sS --fail \"$OPENAI_BASE_URL/chat/completions\" -H 'Content-Type: application/json' -d '{ASK}'"


@dataclass
class Runner:
    """A runner for one job: its folders, what steps have written, and whether one has failed."""

    home: Path
    values: dict[str, str]  # of expressions: `inputs.speed`, `runner.temp`
    variables: dict[str, str] = field(default_factory=dict)
    has_failed: bool = False
    said: str = ""
    used: list[dict[str, str]] = field(default_factory=list)  # what other actions were given

    def run(self, steps: Iterable[dict[str, Any]] = AFTER) -> None:
        for step in steps:
            if self._holds(step.get("if", "")):
                given = {
                    name: self._filled(str(value)) for name, value in step.get("with", {}).items()
                }
                self.used += [given] if "uses" in step else []
                if "run" in step:
                    self._type(step)

    def _holds(self, condition: str) -> bool:
        terms = condition.split(" && ") if condition else []
        if "failure()" not in terms and self.has_failed:
            return False
        return all(self._is(term) for term in terms)

    def _is(self, term: str) -> bool:
        return (
            self.has_failed
            if term == "failure()"
            else bool(self._value(term.removesuffix(" != ''")))
        )

    def _value(self, expression: str) -> str:
        values = (
            part[1:-1] if part[0] == "'" else self.values.get(part, "")
            for part in expression.split(" || ")
        )
        return next((value for value in values if value), "")

    def _filled(self, text: str) -> str:
        return EXPRESSION.sub(lambda found: self._value(found[1]), text)

    def _type(self, step: dict[str, Any]) -> None:
        script = self.home / "script.sh"
        script.write_text(step["run"])
        given = {name: self._filled(value) for name, value in step.get("env", {}).items()}
        files = {
            name: self.home / name
            for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")
        }
        for each in files.values():
            each.touch()
        env = {**self.variables, **{name: str(path) for name, path in files.items()}, **given}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        # a file: what stays in the background holds it open
        with (self.home / "said").open("ab") as said:
            done = subprocess.run(
                command, cwd=self.home, env=env, stdout=said, stderr=said, timeout=120
            )
        self.said = (self.home / "said").read_text()
        self.has_failed |= done.returncode != 0
        self.variables |= dict(
            line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines()
        )
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{name}"] = value
        files["GITHUB_OUTPUT"].unlink()


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A runner after the first steps: pip has installed the wheel of this checkout."""
    home = tmp_path_factory.mktemp("installation")
    inputs = {
        f"inputs.{name}": str(each.get("default", "")) for name, each in ACTION["inputs"].items()
    }
    values = {
        "inputs.package": str(built(home)),
        "steps.python.outputs.python-path": sys.executable,
    }
    runner = Runner(
        home, {**inputs, **values}, {**with_libraries(environment(home)), "RUNNER_TEMP": str(home)}
    )
    runner.run([step for step in STEPS if step.get("id") in ("python", "install")])
    assert not runner.has_failed, runner.said
    assert "recorder, version" in runner.said
    return runner


@pytest.fixture
def runner(installation: Runner, demo_recording: Path, tmp_path: Path) -> Iterator[Runner]:
    """A checkout with a cassette, and a runner in it with the defaults of the action."""
    place = tmp_path / "temp" / "recorder"
    place.mkdir(parents=True)
    (place / "venv").symlink_to(installation.home / "recorder" / "venv")
    (tmp_path / "tests" / "cassettes").mkdir(parents=True)
    cassette = run(demo_recording, "export", "latest", "--format", "cassette").out
    (tmp_path / "tests" / "cassettes" / "test_a[one].sse.jsonl").write_bytes(cassette)
    values = {**installation.values, "runner.temp": str(tmp_path / "temp")}
    variables = {
        **installation.variables,
        **environment(tmp_path),
        "RUNNER_TEMP": str(tmp_path / "temp"),
    }
    yield Runner(tmp_path, {**values, "inputs.cassette": "tests/**/*.sse.jsonl"}, variables)
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(int((place / "pid").read_text()), signal.SIGTERM)


@pytest.mark.slow
def test_a_command_that_passes_is_answered_from_the_cassette(runner: Runner) -> None:
    runner.values["inputs.run"] = f"{CALL} > answer.sse"
    runner.variables["OPENAI_API_KEY"] = "sk-of-the-job"
    runner.run()
    assert not runner.has_failed, runner.said
    assert b"[DONE]" in (runner.home / "answer.sse").read_bytes()
    url = runner.values["steps.mock.outputs.url"]
    assert runner.variables["OPENAI_BASE_URL"] == f"{url}/v1"
    assert runner.variables["ANTHROPIC_BASE_URL"] == f"{url}/anthropic"
    keys = {name: value for name, value in runner.variables.items() if name.endswith("_KEY")}
    assert keys == {
        "OPENAI_API_KEY": "sk-of-the-job",
        "ANTHROPIC_API_KEY": "none",
        "GEMINI_API_KEY": "none",
    }
    assert not runner.used, "nothing is attached"


@pytest.mark.slow
def test_of_a_command_that_fails_the_requests_and_the_recordings_are_attached(
    runner: Runner,
) -> None:
    runner.values["inputs.run"] = CALL.replace("What is a stream?", "What is a river?")
    runner.run()
    assert runner.has_failed
    [attached] = runner.used
    report = Path(attached["path"])
    asked = json.loads((report / "requests.json").read_bytes())
    assert [each["how"] for each in asked["requests"]] == ["miss"]
    assert b"What is a stream?" in (report / "1-test_a[one].html").read_bytes()
    assert "Listening on" in (report / "mock.log").read_text()


@pytest.mark.slow
def test_a_path_without_a_cassette_is_an_error_that_names_it(runner: Runner) -> None:
    runner.values["inputs.cassette"] = "tests/cassettes/test_b.sse.jsonl"
    runner.run()
    assert runner.has_failed
    assert (
        "::error title=recorder::There is no cassette tests/cassettes/test_b.sse.jsonl:"
        in runner.said
    )
    assert "OPENAI_BASE_URL" not in runner.variables
    assert not runner.used, "there is nothing to attach"


@pytest.mark.slow
def test_a_mock_that_does_not_start_is_an_error_that_says_why(runner: Runner) -> None:
    runner.values["inputs.options"] = "--fault nonsense"
    runner.run()
    assert runner.has_failed
    assert re.search(r"::error title=recorder::The mock did not start: .*nonsense", runner.said)


def test_the_inputs_are_those_that_are_used() -> None:
    text = yaml.safe_dump(ACTION["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == ACTION["inputs"].keys()
    assert all(
        each["description"] for each in (*ACTION["inputs"].values(), *ACTION["outputs"].values())
    )


def test_every_step_that_is_named_is_one() -> None:
    named = set(re.findall(r"steps\.([\w-]+)\.", yaml.safe_dump(ACTION)))
    assert named <= {step["id"] for step in STEPS if "id" in step}


@pytest.mark.parametrize(
    "step", [step for step in STEPS if "run" in step], ids=lambda step: str(step["name"])
)
def test_no_input_is_pasted_into_a_script(step: dict[str, Any]) -> None:
    """A script gets them as variables: no text of an input is run."""
    assert "${{" not in step["run"]
    assert step["shell"] == "bash"
    subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


def test_the_examples_of_the_page_give_inputs_that_there_are() -> None:
    page = (ROOT / "docs" / "how-to" / "github-actions.md").read_text()
    given = {
        name
        for block in blocks(page, "yaml")
        for name in re.findall(r"^ {10}([\w-]+): ", block, re.MULTILINE)
    }
    assert given
    assert given <= ACTION["inputs"].keys()
    named = set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE))
    assert named == {*ACTION["inputs"], *ACTION["outputs"]}
