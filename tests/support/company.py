"""A recorder in the network of a company: a namespace with nothing but loopback, on which a proxy listens.

`python -m tests.support.company SOCKET FOLDER NAME` is the program inside. It hands the listener of the proxy
through the Unix socket to the test outside, whose network the tunnels lead to: no packet can leave by another way. Then
it runs `recorder serve` with and without the proxy, asks it, and prints what it got as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from tools.real_clients.namespace import raise_loopback

KEY = "sk-key-of-the-company"
ASKED = {"model": "gpt-5.5", "input": "hello", "stream": True}
STARTED_S = 60.0  # a busy machine may take that long to start Python


def asked_through(recorder: Sequence[str], folder: Path, name: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """Start `recorder serve`, ask it once, and stop it: status and body of the answer, and what it printed."""
    ready, said = folder / f"{name}.url", folder / f"{name}.said"
    command = [*recorder, "--port", "0", "--db", str(folder / f"{name}.db"), "--ready-file", str(ready)]
    with said.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **settings}, cwd=folder)
        try:
            until_s = time.monotonic() + STARTED_S
            while not ready.exists() and process.poll() is None and time.monotonic() < until_s:
                time.sleep(0.02)
            headers = {"authorization": f"Bearer {KEY}"}
            url = f"{ready.read_text().strip()}/s/{name}/v1/responses"
            answer = httpx.post(url, json=ASKED, headers=headers, trust_env=False, timeout=60)
        finally:
            process.terminate()
            process.wait(60)
    return {"status": answer.status_code, "body": answer.text, "said": said.read_text()}


def main() -> None:
    door, folder, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    raise_loopback()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as outside:
        outside.connect(door)
        socket.send_fds(outside, [b"!"], [listener.fileno()])
        proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    login = os.environ.pop("COMPANY_LOGIN")
    serve = [sys.executable, "-m", "recorder", "serve", "--upstream", f"openai=https://{name}/v1"]
    serve += ["--ca-file", str(folder / "authority.pem")]
    by_proxy = {"RECORDER_SERVE_UPSTREAM_PROXY": proxy.replace("//", f"//{login}@")}
    found = {
        "direct": asked_through(serve, folder, "direct", {"HTTPS_PROXY": proxy}),
        "proxied": asked_through(serve, folder, "proxied", by_proxy),
        "refused": asked_through([*serve, "--upstream-proxy", proxy], folder, "refused", {}),
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
