"""What several test modules need and takes seconds to make."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import certifi
import pytest
from hypothesis import settings
from sqlalchemy import URL

from recorder.store.location import database_url
from recorder.store.write.writer import Store
from tests.support import postgres
from tests.support.empty_log import empty
from tests.support.server import run

# How long an example takes says something of the machine, and of what else runs on it. What fails
# is printed with what repeats it.
settings.register_profile("recorder", deadline=None, max_examples=30, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=500, print_blob=True)
settings.load_profile("recorder")

TRUSTED = "SSL_CERT_FILE"

MEMORY = Path("/dev/shm")
MEMORY_FREE = 4 * 2**30  # a run of the quick tests needs less than half of it


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files where a new database needs an eighth of the time: in memory, if TMPDIR
    names no other place.

    And let HTTP clients trust one authority, even where SSL_CERT_FILE names the usual 150: each
    client of an SDK reads all that it trusts when it is made, which takes 20 ms for those. No test
    connects to a host that they vouch for, but a slow one by pip, which goes on trusting them.

    And hear Ctrl-C, where a shell started this behind the line and let it ignore that: tests
    interrupt programs.

    The processes of xdist inherit this. The tests of power cuts and of syncing see each sync that a
    program requests.
    """
    if (
        "TMPDIR" not in os.environ
        and MEMORY.is_dir()
        and shutil.disk_usage(MEMORY).free >= MEMORY_FREE
    ):
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        if TRUSTED in os.environ:
            os.environ.setdefault("PIP_CERT", os.environ[TRUSTED])
        authority, end, _ = certifi.contents().partition("-----END CERTIFICATE-----\n")
        descriptor, path = tempfile.mkstemp(suffix=".pem")
        config.add_cleanup(lambda: os.unlink(path))
        os.write(descriptor, (authority + end).encode())
        os.close(descriptor)
        os.environ[TRUSTED] = path


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without collecting garbage, and leave what is there then out of every
    collection of garbage.

    Modules and 16,000 tests are some millions of objects that stay to the end: looking through them
    again and again was an eighth of the processor time of a whole run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture
def seed() -> int:
    """Another one each time; that of a failure is in what the failure prints, and may be given to
    repeat it.
    """
    chosen = int(os.environ.get("RECORDER_SEED", random.randrange(2**32)))
    sys.stdout.write(f"RECORDER_SEED={chosen}\n")
    return chosen


class Demo(NamedTuple):
    """A run of `recorder demo --db PATH`: what it left, and what it said."""

    path: Path
    said: str


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, once for all tests, those in other processes of xdist included: it takes ten
    seconds.

    Its database is not to be written: `demo_db` is a copy.
    """
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "demo"
    path, said = folder / "a demo.db", folder / "said"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            ran = run(path, "demo", "--db", path)
            assert ran.code == 0
            said.write_text(ran.err)
    return Demo(path, said.read_text())


@pytest.fixture(scope="session")
def demo_recording(demo: Demo) -> Path:
    """The database that the demo left."""
    return demo.path


@pytest.fixture
def demo_db(demo_recording: Path, tmp_path: Path) -> Path:
    """A database with the recording of the demo, for one test."""
    return Path(shutil.copy(demo_recording, tmp_path / "demo.db"))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A PostgreSQL, if there is one to be had."""
    if not postgres.is_there():
        pytest.skip(postgres.MISSING)
    with postgres.server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: postgres.Server) -> str:
    """The name of an empty log, to be copied: faster than making each anew."""
    url = postgres_server.create()
    Store(url).close()
    return str(url.database)


@pytest.fixture
def postgres_database(postgres_server: postgres.Server, postgres_template: str) -> Iterator[URL]:
    """A log on PostgreSQL, for one test."""
    url = database_url(postgres_server.create(postgres_template))
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[URL]:
    """An empty log of each engine, for all tests of a module."""
    if request.param == "sqlite":
        yield database_url(empty(tmp_path_factory.mktemp("shared") / "log.db"))
        return
    server: postgres.Server = request.getfixturevalue("postgres_server")
    url = database_url(server.create(request.getfixturevalue("postgres_template")))
    yield url
    server.drop(url)


@pytest.fixture
def sqlite_database(tmp_path: Path) -> URL:
    """An empty log in a file, for one test."""
    return database_url(empty(tmp_path / "log.db"))


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> URL:
    """An empty log of each engine, for what the engines do each in its own way."""
    url: URL = request.getfixturevalue(
        "sqlite_database" if request.param == "sqlite" else "postgres_database"
    )
    return url


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    if shutil.which("openssl") is None:
        pytest.skip("There is no openssl to make a certificate with.")
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return both
