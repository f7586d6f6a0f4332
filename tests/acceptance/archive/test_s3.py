"""An archive whose files are in S3: written, read back, purged, and never in a place that has other
objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("duckdb", reason="no duckdb: pip install '.[archive]'")

from sqlalchemy import URL

from recorder.archive.archiver import open_archive
from recorder.archive.place import database_url
from recorder.archive.schema import PACKED
from recorder.archive.upkeep import purge_archive
from recorder.errors import UsageError
from tests.acceptance.archive.test_archiver import recorded, stored, without_hashes
from tests.acceptance.store.test_purge import rest, session_id
from tests.support.archives import archived
from tests.support.rows import START_NS

pytestmark = pytest.mark.slow
BUCKET = "recordings"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of a server with an empty bucket, which the variables of AWS name."""
    boto3 = pytest.importorskip("boto3")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    try:
        _, port = server.get_host_and_port()
        values = {
            "ACCESS_KEY_ID": "a",
            "SECRET_ACCESS_KEY": "b",
            "REGION": "us-east-1",
            "DEFAULT_REGION": "us-east-1",
        }
        for name, value in {**values, "ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        client = boto3.client("s3")
        # one state for a process
        urlopen(Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")).close()
        client.create_bucket(Bucket=BUCKET)
        yield client
    finally:
        server.stop()


def objects(s3: Any) -> dict[str, bytes]:
    """All objects of the bucket, by key."""
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return {key: s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys}


@pytest.fixture
def archive(tmp_path: Path) -> URL:
    return database_url(f"ducklake:{tmp_path / 'catalog.db'}")


def test_sessions_are_archived_and_purged(s3: Any, archive: URL, tmp_path: Path) -> None:
    database = database_url(tmp_path / "log.db")
    recorded(database, tmp_path / "journals", "a", "b")
    before = {session_id(database, name): rest(database, name) for name in "ab"}
    open_archive(archive, f"s3://{BUCKET}/lake")
    archived(database, archive)
    assert stored(archive, before) == {id: without_hashes(rows) for id, rows in before.items()}
    gone, other = before
    full = objects(s3)
    purge_archive(archive, [gone], "a secret", START_NS)
    assert stored(archive, before) == {
        gone: {name: [] for name in PACKED},
        other: without_hashes(before[other]),
    }
    # files that held both sessions are not there any more, only new ones
    assert not [key for key in full.keys() & objects(s3).keys() if "month=" in key]


def test_a_place_with_other_objects_is_refused_each_time(
    s3: Any, archive: URL, tmp_path: Path
) -> None:
    """An archive deletes the files in its place that it does not know."""
    s3.put_object(Bucket=BUCKET, Key="mine/x.parquet", Body=b"mine")
    for _ in range(2):  # the first has left a catalog without tables
        with pytest.raises(UsageError, match="is not empty"):
            open_archive(archive, f"s3://{BUCKET}/mine")
    assert objects(s3) == {"mine/x.parquet": b"mine"}
    open_archive(database_url(f"ducklake:{tmp_path / 'outer.db'}"), f"s3://{BUCKET}/outer")
    with pytest.raises(
        UsageError,
        match=f"is inside of s3://{BUCKET}/outer, which has the files of another archive",
    ):
        open_archive(
            database_url(f"ducklake:{tmp_path / 'inner.db'}"), f"s3://{BUCKET}/outer/inner"
        )
