"""Start what deploy/compose.yaml describes as processes of this machine, where there is no Docker.

    python -m tools.parts        # until Ctrl-C; it says where the edges and the viewer are

Commands, variables and Caddyfile are those of deploy/ and of the Dockerfile. Names of its network
become ports of 127.0.0.1, and volumes become folders. A PostgreSQL and a Caddy of this machine and
the S3 server of moto take the place of three images.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import yaml

from tests.support.corpus import ROOT
from tests.support.postgres import Cluster, programs

DEPLOY = ROOT / "deploy"
STARTED_S = 120.0  # on a machine that has other things to do
STOPPED_S = 15.0  # as `stop_grace_period`
RUNNING = ("edge-1", "edge-2", "collector", "viewer")


class MissingError(RuntimeError):
    """A program that is not on this machine."""


class Parts(NamedTuple):
    """Where things are while they run."""

    edges: str  # the URL of both, over TLS, with the token of clients
    viewer: str  # the URL that a person opens, over TLS
    authority: Path  # who signed the certificate
    folder: Path  # `NAME.log` is what each part says


def variables() -> dict[str, str]:
    """Return a value for each variable that deploy/example.env asks for."""
    names = re.findall(r"^([A-Z_]+)=$", (DEPLOY / "example.env").read_text(), re.MULTILINE)
    return {**{name: secrets.token_hex(24) for name in names}, "RECORDER_HOST": "localhost"}


def substituted(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of `${NAME:?}` and `${NAME:-DEFAULT}`, as Compose reads it."""
    return re.sub(r"\$\{([A-Z_]+)(?::[?-][^}]*)?\}", lambda match: values[match[1]], text)


def services(text: str) -> dict[str, Any]:
    """Return the services of a file for Compose."""
    found: dict[str, Any] = yaml.safe_load(text)["services"]
    return found


def image_variables() -> dict[str, str]:
    """Return the variables that the image sets."""
    [line] = re.findall(r"^ENV (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    return dict(pair.split("=", 1) for pair in shlex.split(line))


class _Machine:
    """The processes, and the ports that stand for the names of the network."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack, more: Mapping[str, str]) -> None:
        self.folder, self._stack, self._more = folder, stack, more
        self.ports: dict[str, int] = {}
        self.values = variables()
        text = substituted((DEPLOY / "compose.yaml").read_text(), self.values)
        self.services = services(self.here(text))

    def port(self, address: str) -> int:
        """Return the port of 127.0.0.1 that stands for an address."""
        if address not in self.ports:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self.ports[address] = listener.getsockname()[1]
        return self.ports[address]

    def here(self, text: str) -> str:
        """Return a text with the addresses of this machine."""
        text = re.sub(
            r"\b(?:database|store|edge-\d):\d+\b",
            lambda name: f"127.0.0.1:{self.port(name[0])}",
            text,
        )
        return text.replace("8788", str(self.port("viewer")))

    def recorder(self, name: str) -> subprocess.Popen[bytes]:
        """Start a command of the image."""
        service, data = self.services[name], self.folder / name
        env = {
            **image_variables(),
            **{key: str(value) for key, value in service["environment"].items()},
            "RECORDER_SERVE_HOST": "127.0.0.1",
            "RECORDER_SERVE_PORT": str(self.port(f"{name}:8787")),
            "XDG_DATA_HOME": str(data),
            "HOME": str(data),
            "PATH": os.environ["PATH"],
            **self._more,
        }
        data.mkdir()
        return self.start(
            name, [sys.executable, "-m", "recorder", *shlex.split(service["command"])], env
        )

    def start(
        self, name: str, command: list[str], env: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command,
                env=dict(env),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._stack.callback(_stop, process)
        return process

    def said(self, name: str, pattern: str, process: subprocess.Popen[bytes]) -> re.Match[str]:
        """Wait for what a part says. Raise `RuntimeError` if it ends without."""
        deadline_s = time.monotonic() + STARTED_S
        while True:
            ended, text = process.poll() is not None, (self.folder / f"{name}.log").read_text()
            found = re.search(pattern, text)
            if found is not None:
                return found
            if ended or time.monotonic() > deadline_s:
                raise RuntimeError(f"{name} does not start: {text}")
            time.sleep(0.05)

    def database(self) -> None:
        folder, directory = (
            programs(),
            Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="parts-"))),
        )
        if folder is None:
            raise MissingError("There is no PostgreSQL here: Debian has it as postgresql.")
        port = str(self.port("database:5432"))
        self._stack.enter_context(
            Cluster(folder, directory, listen_addresses="127.0.0.1", port=port)
        )
        psql = [
            "psql",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            "--host=127.0.0.1",
            f"--port={port}",
            "--username=postgres",
        ]
        name = self.services["database"]["environment"]["POSTGRES_DB"]
        subprocess.run([*psql, f"--command=CREATE DATABASE {name}"], check=True)
        subprocess.run(
            [*psql, f"--file={DEPLOY / 'logins.sql'}"],
            env={**os.environ, **self.values},
            check=True,
        )

    def store(self) -> None:
        try:
            from moto.server import ThreadedMotoServer
        except ImportError as error:
            raise MissingError("There is no moto here: pip install '.[slow]'.") from error
        port = self.port("store:9000")
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        server.start()
        self._stack.callback(server.stop)
        urlopen(Request(f"http://127.0.0.1:{port}/segments", method="PUT")).close()

    def tls(self) -> Path:
        """Start Caddy on free ports; return the certificate of its authority."""
        caddy = shutil.which("caddy")
        if caddy is None:
            raise MissingError("There is no Caddy here: Debian has it as caddy.")
        text = self.here((DEPLOY / "Caddyfile").read_text())
        for port in ("443", "8787"):
            text = text.replace(f":{port} {{", f":{self.port(port)} {{")
        text = text.replace("{\n", "{\n\tdefault_bind 127.0.0.1\n", 1)
        data, config = self.folder / "tls", self.folder / "Caddyfile"
        config.write_text(text)
        env = {
            "HOME": str(data),
            "XDG_DATA_HOME": str(data),
            "RECORDER_HOST": self.values["RECORDER_HOST"],
        }
        process = self.start(
            "tls", [caddy, "run", "--adapter", "caddyfile", "--config", str(config)], env
        )
        self.said("tls", "serving initial configuration", process)
        return data / "caddy/pki/authorities/local/root.crt"


@contextlib.contextmanager
def started(folder: Path, more: Mapping[str, str]) -> Iterator[Parts]:
    """Run all parts during the block.

    Each `recorder` gets the variables of `more` too. Raise `MissingError`.
    """
    with contextlib.ExitStack() as stack:
        machine = _Machine(folder, stack, more)
        machine.database()
        machine.store()
        if machine.recorder("schema").wait(STARTED_S) != 0:
            raise RuntimeError((folder / "schema.log").read_text())
        processes = {name: machine.recorder(name) for name in RUNNING}
        authority = machine.tls()
        for name in ("edge-1", "edge-2"):
            machine.said(name, "Listening on", processes[name])
        token = machine.said("viewer", r"\?token=(\S+)", processes["viewer"])[1]
        host, entrance = machine.values["RECORDER_HOST"], f"/t/{machine.values['RECORDER_TOKEN']}"
        edges = f"https://{host}:{machine.port('8787')}{entrance}"
        yield Parts(
            edges, f"https://{host}:{machine.port('443')}/?token={token}", authority, folder
        )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOPPED_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="recorder-parts-") as folder,
        started(Path(folder), {}) as parts,
    ):
        print(
            f"Edges   {parts.edges}\nViewer  {parts.viewer}\nTrust   {parts.authority}\nLogs    {parts.folder}"
        )
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
