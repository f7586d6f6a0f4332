"""An object store of Azure in place of S3: Azurite, from npm, which has the conditional PUT."""

from __future__ import annotations

import base64
import hmac
import subprocess
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from recorder.journal.writer import Journal
from recorder.shipping.bucket import Bucket, parse_prefix
from recorder.shipping.shipper import ship_rest
from recorder.store.write.writer import Store
from tests.acceptance.docs.test_docs import free_port
from tests.integration.shipping.test_collector import ID, Collecting, names, told
from tests.support.empty_log import empty
from tests.support.logbook import entries
from tests.support.node import installed
from tests.support.server import wait_until

ACCOUNT = "devstoreaccount1"  # of every Azurite, with this key
KEY = base64.b64decode(
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
VERSION = "2021-08-06"  # of its protocol
CONTAINER = "segments"


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A place in an empty container."""
    base = f"http://127.0.0.1:{(port := free_port())}"
    words = [
        "azurite-blob",
        "--silent",
        "--disableTelemetry",
        "--inMemoryPersistence",
        "--blobPort",
        str(port),
    ]
    with subprocess.Popen(words, env=installed(["azurite"]), cwd=tmp_path) as program:
        try:
            wait_until(lambda: _makes_container(base))
            monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
            monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", base)
            yield Bucket(parse_prefix(f"az://{CONTAINER}/edges"), "collect")
        finally:
            program.terminate()


def _makes_container(base: str) -> bool:
    """Make the container, which a bucket does not: whether the server has done it."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    signed = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    text = "\n".join([*signed, f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}", "restype:container"])
    signature = base64.b64encode(hmac.new(KEY, text.encode(), sha256).digest()).decode()
    headers["authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    try:
        made = httpx.put(f"{base}/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
    except httpx.TransportError:
        return False
    assert made.status_code == 201, made.text
    return True


@pytest.mark.slow
def test_what_an_edge_ships_to_azure_is_collected_once_and_gone(
    azure: Bucket, tmp_path: Path
) -> None:
    with closing(Journal(tmp_path / "edge", ID, segment_bytes=800)) as journal:
        exchanges = told(journal)
    assert ship_rest(azure, journal.directory)
    [first, *_] = sorted(names(azure))
    assert not azure.put(first, b"other")
    with Store(empty(tmp_path / "collected.db"), host=azure.url) as store:
        Collecting(azure, store, tmp_path / "one").drain()
    assert [entry.body for entry in entries(tmp_path / "collected.db")] == [
        each.received for each in exchanges
    ]
    assert names(azure) == set()
