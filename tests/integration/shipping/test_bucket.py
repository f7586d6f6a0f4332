"""A bucket as its library has it: what this project counts on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from recorder.shipping.bucket import Bucket, parse_prefix
from tests.support.server import wait_until

LIFE = timedelta(seconds=30)  # the library asks again some minutes before the end


class MachineWithRole(ThreadingHTTPServer):
    """The store, and beside it the metadata of a machine whose credentials are short-lived."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.given = 0
        self.used: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    server: MachineWithRole

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        found = re.search(r"Credential=([^/]+)", self.headers.get("authorization", ""))
        if found is not None:
            self.server.used.append(found[1])
        self._answer(b"a token of the session")

    def do_GET(self) -> None:
        if self.path.endswith("/role"):
            self.server.given += 1
            name = f"KEY{self.server.given}"
            end = (datetime.now(UTC) + LIFE).strftime("%Y-%m-%dT%H:%M:%SZ")
            given = {"AccessKeyId": name, "SecretAccessKey": "s", "Token": "t", "Expiration": end}
            self._answer(json.dumps(given).encode())
        else:
            self._answer(b"role")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("etag", '"1"')
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[MachineWithRole]:
    with MachineWithRole() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", base)
        monkeypatch.setenv("AWS_ENDPOINT_URL", base)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield server
        server.shutdown()
        thread.join()


def test_credentials_of_a_role_are_asked_for_again_before_they_expire(
    machine: MachineWithRole,
) -> None:
    bucket = Bucket(parse_prefix("s3://bucket/edges"), "serve --ship")
    assert bucket.put("000001", b"data")
    wait_until(lambda: bucket.put("000002", b"data") and len({*machine.used}) == 2)
