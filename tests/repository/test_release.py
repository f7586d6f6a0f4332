"""The workflow of a release and the action: pinned, without passwords, with no more rights than a job needs."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tests.support.corpus import ROOT

FILES = (ROOT / ".github" / "workflows" / "release.yml", ROOT / "action.yml")
RELEASE: dict[Any, Any] = yaml.safe_load(FILES[0].read_text())
JOBS: dict[str, dict[str, Any]] = RELEASE["jobs"]
SCRIPTS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_an_action_of_others_is_pinned_to_a_commit_whose_version_is_said(file: Any) -> None:
    used = re.findall(r"uses: (.*)", file.read_text())
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used), used


def test_both_files_use_the_same_commit_of_an_action() -> None:
    used = dict[str, set[str]]()
    for file in FILES:
        for name, commit in re.findall(r"uses: (.*)@(\w+)", file.read_text()):
            used.setdefault(name, set()).add(commit)
    assert all(len(commits) == 1 for commits in used.values()), used


def test_only_two_jobs_may_ask_for_an_identity_and_none_may_write_to_the_repository() -> None:
    assert RELEASE["permissions"] == {}
    identified = {name for name, job in JOBS.items() if job["permissions"].get("id-token") == "write"}
    assert identified == {"attest", "publish"}
    assert not [name for name, job in JOBS.items() if job["permissions"].get("contents") == "write"]


def test_what_is_published_was_built_once_and_tested_and_attested_before() -> None:
    assert {name: job.get("needs") for name, job in JOBS.items()} == {
        "build": None,
        "test": "build",
        "attest": "test",
        "publish": "attest",
    }
    assert all("tag" in JOBS[name]["if"] for name in ("attest", "publish"))


def test_no_job_runs_code_of_the_repository_where_it_may_publish() -> None:
    assert [step["uses"].partition("@")[0] for step in JOBS["publish"]["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


def test_there_is_no_password() -> None:
    assert not re.search(r"secrets\.|password:|api-token", FILES[0].read_text())


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_bash_without_pasted_values(script: str) -> None:
    assert "${{" not in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_wheel_is_tested_in_the_file_that_a_release_builds() -> None:
    [script] = [script for script in SCRIPTS if "pytest" in script]
    [named] = re.findall(r"(\w+)=\$\(echo", script)
    assert named == "RECORDER_TEST_WHEEL"
    assert all((ROOT / path).is_file() for path in re.findall(r"tests/\S+\.py", script))
