"""A gateway that nobody here wrote: LiteLLM's proxy in front of the demo upstream, proved by
`recorder probe`.

`python -m tools.litellm_probe [ROUTE...]` installs it into the cache of `tools.real_clients`,
starts it and the demo, and prints the report of each route; a minute, once it is installed. With
`--write` the reports in `tests/data/litellm` are replaced. `docs/probe-litellm.md` explains them by
hand.

A route is an API that LiteLLM offers, and another that it asks: what it translates is what can go
wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.corpus import DATA, ROOT
from tests.support.server import environment
from tools.real_clients import installing

PACKAGES = ("litellm[proxy]==1.106.2",)
PAGE = ROOT / "docs" / "probe-litellm.md"
KEY = "sk-of-the-gateway"
STARTED_S = 120.0  # LiteLLM imports for half a minute on a busy machine
REPORT_S = 600.0


class Route(NamedTuple):
    """What a client speaks, and the provider that LiteLLM asks for it: the name of a model of
    `_models`.
    """

    api: str
    backend: str


ROUTES: Mapping[str, Route] = {
    "responses-to-chat": Route("openai-responses", "chat"),
    "chat-to-anthropic": Route("openai-chat", "anthropic"),
    "messages-to-chat": Route("anthropic", "chat"),
    "gemini-to-chat": Route("gemini", "chat"),
}


def report_of(name: str) -> Path:
    """Return where the report of a route is."""
    return DATA / "litellm" / f"{name}.txt"


def _models(demo: str) -> list[dict[str, Any]]:
    """The models of LiteLLM's config, by the API that is asked for them."""
    params: dict[str, dict[str, Any]] = {
        "chat": {
            "model": "openai/gpt-5.5",
            "api_base": f"{demo}/v1",
            "use_chat_completions_api": True,
        },
        "anthropic": {"model": "anthropic/claude-opus-5", "api_base": demo},
    }
    return [
        {"model_name": name, "litellm_params": {**each, "api_key": "sk-of-the-provider"}}
        for name, each in params.items()
    ]


def config(demo: str) -> str:
    """LiteLLM's config; it is YAML, and so is JSON.

    After an error a model is asked again at once.
    """
    settings = {
        "model_list": _models(demo),
        "general_settings": {"master_key": KEY},
        "router_settings": {"disable_cooldowns": True, "num_retries": 0},
    }
    return json.dumps(settings, indent=2)


@contextlib.contextmanager
def _started(
    *words: str | Path, log: Path, home: Path, env: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as errors:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdout=subprocess.PIPE if words[1] == "-m" else errors,
            stderr=errors,
            env={**environment(home), **env},
            cwd=home,
            text=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextlib.contextmanager
def gateway(folder: Path) -> Iterator[str]:
    """LiteLLM in front of the demo upstream, while it runs; its base URL."""
    installing.install(PACKAGES)
    program, port = installing.folder(PACKAGES) / "bin" / "litellm", _free_port()
    path = {"PYTHONPATH": str(ROOT)}
    provider = (sys.executable, "-m", "tests.support.provider")
    with _started(*provider, log=folder / "demo.log", home=folder, env=path) as demo:
        assert demo.stdout is not None
        (folder / "config.yaml").write_text(config(demo.stdout.readline().strip()))
        words = (
            program,
            "--config",
            folder / "config.yaml",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        )
        # it asks nobody for prices
        env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PATH": installing.path(PACKAGES)}
        with _started(*words, log=folder / "litellm.log", home=folder, env=env) as litellm:
            base = f"http://127.0.0.1:{port}"
            _wait(litellm, f"{base}/health/liveliness", folder / "litellm.log")
            yield base


def _wait(process: subprocess.Popen[str], url: str, log: Path) -> None:
    """Wait until LiteLLM answers."""
    deadline = time.monotonic() + STARTED_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.2)
    raise SystemExit(f"LiteLLM did not start: {log.read_text()[-2_000:]}")


def report(base: str, route: Route, folder: Path) -> str:
    """What `recorder probe` prints of a route."""
    words = (
        "probe",
        base,
        "--api",
        route.api,
        "--model",
        route.backend,
        "--key-env",
        "GATEWAY_KEY",
    )
    done = subprocess.run(
        [sys.executable, "-m", "recorder", *words, "--db", str(folder / "probe.db")],
        env={**environment(folder), "PYTHONPATH": str(ROOT), "GATEWAY_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=REPORT_S,
    )
    assert done.returncode in (0, 4), done.stderr
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.litellm_probe", description=__doc__)
    parser.add_argument(
        "names", metavar="ROUTE", nargs="*", help=f"of {', '.join(ROUTES)}; default: all"
    )
    parser.add_argument(
        "--write", action="store_true", help="replace the reports in tests/data/litellm"
    )
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder,
        gateway(Path(folder)) as base,
    ):
        for name in options.names or ROUTES:
            text = report(base, ROUTES[name], Path(folder))
            sys.stdout.write(f"<!-- report of {name} -->\n\n```text\n{text}```\n\n")
            if options.write:
                report_of(name).write_text(text)


if __name__ == "__main__":
    main()
