"""A place in an object store, or a folder, in which segments wait for a collector.

Rules of this file:

* An object is written whole, if there is none of its name (`If-None-Match: *`), and never changes.
* Nothing here waits for a store that is away: whoever calls repeats the call.
* obstore is the library. It has the conditional PUT of S3, of Google's and Azure's stores and of
  folders in one package without others; fsspec has it for some, with a tree of packages for each.
  DuckDB, which writes archives, neither writes on a condition nor deletes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from platformdirs import user_data_path

from recorder.errors import BucketError, UsageError, missing_extra
from recorder.files import sync

if TYPE_CHECKING:
    from obstore.store import ObjectStore

EXTRA = "ship"
FOLDER = "file"
SCHEMES = ("s3", "gs", "az")
TIMEOUT_S = 30  # for a segment of 16 MiB: slower lines are not for streams
# within a call, in some tenths of a second: busy stores refuse now and then. Whoever calls repeats
# it then
RETRIES = 2

_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")


class Prefix(NamedTuple):
    """Where objects are: what a user names with `--ship`."""

    url: str

    @property
    def folder(self) -> Path | None:
        """Return the folder, if it is not an object store."""
        scheme, _, path = self.url.partition("://")
        return Path(path) if scheme == FOLDER else None

    @property
    def journal_root(self) -> Path:
        """Return the folder of the journals on this machine whose segments go there, and nowhere
        else.
        """
        name = _OTHERS.sub("-", self.url).strip("-")
        return edges_root() / f"{name[:80]}-{sha256(self.url.encode()).hexdigest()[:8]}"


def edges_root() -> Path:
    """Return the folder that has a folder of journals for each prefix to which this machine has
    shipped.
    """
    return user_data_path("recorder", appauthor=False) / "edges"


def parse_prefix(text: str) -> Prefix:
    """Return the place that a text names. Raise `UsageError` if it names none."""
    parts = urlsplit(text)
    if parts.scheme == FOLDER and parts.path and not parts.netloc:
        return Prefix(f"{FOLDER}://{Path(parts.path).expanduser().absolute()}")
    if parts.scheme in SCHEMES and parts.netloc and not parts.query:
        return Prefix(text.rstrip("/"))
    raise UsageError(
        f"{text!r} is not a place for segments: give s3://, gs:// or az://BUCKET/PREFIX, or file:FOLDER."
    )


class StoredObject(NamedTuple):
    """An object as a list has it."""

    name: str
    size_bytes: int
    stored_s: float  # when it was written, by the clock of the store


class Bucket:
    """The objects of one place.

    Its methods raise `BucketError` when the store is away, or refuses.
    """

    def __init__(self, prefix: Prefix, command: str) -> None:
        """Raise `UsageError` if the extra is not installed, which `command` needs.

        Nothing is connected to.
        """
        self.url, self._folder = prefix.url, prefix.folder
        # by their names: what was put later is not listed without what was put before
        self.lists_in_order = prefix.folder is None
        try:
            import obstore
            from obstore.exceptions import BaseError
        except ImportError as error:
            raise missing_extra(f"`recorder {command}`", EXTRA) from error
        self._library: Any = obstore
        self._errors = (BaseError, OSError)
        with self._translated():
            self._store = self._open()

    def _open(self) -> ObjectStore:
        from obstore.store import LocalStore, from_url

        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return LocalStore(prefix=self._folder, automatic_cleanup=True)
        # Plain HTTP is for a server that the user named in the environment; the public ones are
        # asked over TLS.
        options: Any = {"allow_http": True, "timeout": f"{TIMEOUT_S}s", "connect_timeout": "5s"}
        return from_url(self.url, client_options=options, retry_config={"max_retries": RETRIES})

    def put(self, name: str, data: bytes) -> bool:
        """Write an object, durably.

        Return whether it is new: else there is one of this name, and it stays as it is.
        """
        from obstore.exceptions import AlreadyExistsError

        with self._translated():
            try:
                self._library.put(self._store, name, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            if self._folder is not None:
                _sync_all(self._folder / name)
        return True

    def get(self, name: str) -> bytes:
        with self._translated():
            return bytes(self._library.get(self._store, name).bytes())

    def list(self) -> Iterator[StoredObject]:
        """Yield all objects, of which others may have written a million here."""
        with self._translated():
            for page in self._library.list(self._store):
                for each in page:
                    stored_s = each["last_modified"].timestamp()
                    yield StoredObject(each["path"], each["size"], stored_s)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects.

        One that is gone already is not an error, but may be the end of the call.
        """
        with self._translated(), suppress(FileNotFoundError):
            if names:
                self._library.delete(self._store, list(names))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            said = str(error).partition("\n")[0].removesuffix(".")
            raise BucketError(f"{self.url} cannot be read or written: {said}.") from error


def _sync_all(path: Path) -> None:
    """Bring a file of a folder onto the disk, with its name; unless it was taken already."""
    with suppress(FileNotFoundError):
        for each in (path, path.parent, path.parent.parent):
            sync(each)
