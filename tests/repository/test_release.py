"""The workflows and the action: pinned, without passwords, with no more rights than a job needs."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.support.corpus import ROOT
from tools.wheel_hook import BILL

FILES = (*sorted((ROOT / ".github" / "workflows").iterdir()), ROOT / "action.yml")
CHECKS: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
RELEASE: dict[Any, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "release.yml").read_text()
)
JOBS: dict[str, dict[str, Any]] = RELEASE["jobs"]
SCRIPTS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_an_action_of_others_is_pinned_to_a_commit_whose_version_is_said(file: Any) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used), used


def test_all_files_use_the_same_commit_of_an_action() -> None:
    used = dict[str, set[str]]()
    for file in FILES:
        for name, commit in re.findall(r"uses: (.*)@(\w+)", file.read_text()):
            used.setdefault(name, set()).add(commit)
    assert all(len(commits) == 1 for commits in used.values()), used


def test_only_two_jobs_may_ask_for_an_identity_and_none_may_write_to_the_repository() -> None:
    assert RELEASE["permissions"] == {}
    identified = {
        name for name, job in JOBS.items() if job["permissions"].get("id-token") == "write"
    }
    assert identified == {"attest", "publish"}
    assert not [name for name, job in JOBS.items() if job["permissions"].get("contents") == "write"]


def test_what_is_published_was_built_once_and_tested_and_attested_before() -> None:
    expected = {"build": None, "test": "build", "attest": "test", "publish": "attest"}
    assert {name: job.get("needs") for name, job in JOBS.items()} == expected
    assert all("tag" in JOBS[name]["if"] for name in ("attest", "publish"))


def test_no_job_runs_code_of_the_repository_where_it_may_publish() -> None:
    expected = ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
    assert [step["uses"].partition("@")[0] for step in JOBS["publish"]["steps"]] == expected


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_there_is_no_password(file: Any) -> None:
    assert not re.search(r"secrets\.|password:|api-token", file.read_text())


def test_a_pull_request_may_only_read() -> None:
    """`pull_request_target` would run it with the rights of the repository."""
    assert set(CHECKS[True]) == {"pull_request", "push"}, "YAML reads `on` as true"
    assert CHECKS["permissions"] == {}
    assert [job["permissions"] for job in CHECKS["jobs"].values()] == [{"contents": "read"}] * len(
        CHECKS["jobs"]
    )


def test_a_pull_request_is_tested_where_a_release_is() -> None:
    assert CHECKS["jobs"]["test"]["strategy"] == JOBS["test"]["strategy"]


def test_a_pull_request_has_to_pass_what_can_be_run_at_home() -> None:
    commands = [
        step["run"] for job in CHECKS["jobs"].values() for step in job["steps"] if "run" in step
    ]
    targets = [command.removeprefix("make ") for command in commands if command.startswith("make ")]
    assert set(commands) == {".ci/run", *(f"make {target}" for target in targets)}
    assert (ROOT / ".ci" / "run").is_file()
    subprocess.run(["make", "-C", ROOT, "-n", *targets], capture_output=True, check=True)


def test_scripts_are_bash_without_pasted_values() -> None:
    for script in SCRIPTS:
        assert "${{" not in script
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_wheel_is_tested_in_the_file_that_a_release_builds() -> None:
    [script] = [script for script in SCRIPTS if "pytest" in script]
    [named] = re.findall(r"(\w+)=\$\(echo", script)
    assert named == "RECORDER_TEST_WHEEL"
    assert all((ROOT / path).is_file() for path in re.findall(r"tests/\S+\.py", script))


def test_the_bill_of_materials_is_made_before_the_wheel_and_attested_as_it_was_made() -> None:
    """By a generator of others, of what users install; the hook of the build puts it into the
    wheel.
    """
    steps = JOBS["build"]["steps"]
    made, built = (
        next(number for number, step in enumerate(steps) if text in step.get("run", ""))
        for text in ("cyclonedx-py", "python -m build")
    )
    assert made < built
    assert f"--output-file {BILL}" in steps[made]["run"]
    [kept] = [step for step in steps if step.get("with", {}).get("path") == BILL]
    [attested] = [
        step["with"] for step in JOBS["attest"]["steps"] if "sbom-path" in step.get("with", {})
    ]
    assert attested["sbom-path"].rpartition("/")[2] == BILL.rpartition("/")[2]
    [taken] = [
        step["with"]
        for step in JOBS["attest"]["steps"]
        if step.get("with", {}).get("path") == "bill/"
    ]
    assert taken["name"] == kept["with"]["name"]
