"""The files of deploy/: their commands are ones of the program, and what they name is there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.commands import parse
from tests.support.corpus import ROOT
from tools.parts import DEPLOY, services, substituted, variables

KUBERNETES, SYSTEMD = DEPLOY / "kubernetes", DEPLOY / "systemd"
EXPOSED = 20  # of 100, as systemd counts what a unit may do

COMPOSE = services(substituted((DEPLOY / "compose.yaml").read_text(), variables()))
MANIFESTS = [
    each
    for path in sorted(KUBERNETES.glob("*.yaml"))
    for each in yaml.safe_load_all(path.read_text())
]
OF_IMAGE = re.compile(r"^recorder\b")


def assigned(path: Path) -> dict[str, str]:
    """Return what a file of variables sets."""
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", path.read_text(), re.MULTILINE))


def pods() -> Iterator[dict[str, Any]]:
    for each in MANIFESTS:
        if "template" in each.get("spec", {}):
            yield each["spec"]["template"]["spec"]


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods() for container in pod["containers"]]


def commands() -> list[list[str]]:
    """Return the words after `recorder` of each command."""
    found = [
        shlex.split(each["command"]) for each in COMPOSE.values() if OF_IMAGE.match(each["image"])
    ]
    bucket = assigned(KUBERNETES / "settings.env")["BUCKET"]
    for container in containers():
        if OF_IMAGE.match(container["image"]):
            found.append([word.replace("$(BUCKET)", bucket) for word in container["args"]])
    for path in SYSTEMD.glob("*.env"):
        found.append(shlex.split(assigned(path)["ARGUMENTS"]))
    for path in SYSTEMD.glob("*.service"):
        [line] = re.findall(r"^ExecStart=\S+/recorder (.*)$", path.read_text(), re.MULTILINE)
        if line != "$ARGUMENTS":
            found.append(shlex.split(line))
    return found


def test_every_command_is_one() -> None:
    found = commands()
    for words in found:
        parse(words)
    assert {words[0] for words in found} == {"serve", "collect", "ui", "db"}
    assert len(found) == 13


def test_the_image_installs_what_its_commands_need_in_the_versions_of_the_tests() -> None:
    """Each requirement of the extras has its version in constraints.txt, which pip is given."""
    dockerfile = (ROOT / "Dockerfile").read_text()
    [extras] = re.findall(r"--constraint /wheels/constraints\.txt .*\[([\w,]+)\]", dockerfile)
    assert set(extras.split(",")) == {"postgres", "ship"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"]]
    for extra in extras.split(","):
        wanted += project["optional-dependencies"][extra]
    names = {re.split(r"[^\w.-]", each)[0].lower() for each in wanted}
    pinned = {
        line.partition("==")[0].lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    assert names - pinned == set()


def test_compose_names_only_what_is_there() -> None:
    for name, service in COMPOSE.items():
        assert set(service.get("depends_on", {})) <= set(COMPOSE), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).is_file(), source
    assert COMPOSE["viewer"]["network_mode"] == "service:tls"


def test_kustomize_makes_what_pods_name() -> None:
    [kustomization] = [each for each in MANIFESTS if each["kind"] == "Kustomization"]
    manifests = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == manifests
    configs = {each["name"] for each in kustomization["configMapGenerator"]}
    secrets = {each["name"]: each["envs"] for each in kustomization["secretGenerator"]}
    sources = [source for container in containers() for source in container["envFrom"]]
    assert {
        source["configMapRef"]["name"] for source in sources if "configMapRef" in source
    } <= configs
    assert {source["secretRef"]["name"] for source in sources if "secretRef" in source} == set(
        secrets
    )
    told = re.findall(r"^# (\w+\.env):", (KUBERNETES / "example.env").read_text(), re.MULTILINE)
    assert secrets == {name.removesuffix(".env"): [name] for name in told}
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {f"/deploy/kubernetes/{env}" for env in told} <= {*ignored}


def test_no_pod_may_more_than_it_must() -> None:
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_units_and_finds_them_closed(tmp_path: Path) -> None:
    for path in SYSTEMD.glob("*.service"):
        text = re.sub(
            r"^ExecStart=\S+/recorder", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE
        )
        (tmp_path / path.name.replace("@", "@edge")).write_text(text)
    units = sorted(map(str, tmp_path.iterdir()))
    verified = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    system = [unit for unit in units if "@" in unit]
    closed = ["systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSED}", *system]
    assert subprocess.run(closed, capture_output=True).returncode == 0
