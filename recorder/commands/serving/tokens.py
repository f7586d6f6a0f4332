"""Named tokens: a file with the hash of each, whose token it is, and what may be done with it.

Rules of this file:

* The file has no token, only its SHA-256: who reads it can use none.
* A server looks at the file with each request, so that a token which was revoked is refused with
  the next one, and from time to time for what is open. A file that is gone or cannot be read lets
  nobody in.
* A token is found by its hash, so how long that takes says nothing about the tokens that there are.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
import platformdirs

from recorder.errors import RecorderError, UsageError
from recorder.files import save
from recorder.proxy.http.server_exchange import Bearer
from recorder.wire.content import Level

log = logging.getLogger(__name__)

TOKEN_BYTES = 24  # of chance in a token that is made here
PREFIX = "rec_"  # so that a token is no option of a command, and who finds one knows what it is
NAME_LIMIT = 64  # characters: a name in a table
SIZE_LIMIT = 2**20  # bytes of a file: thousands of tokens, and it is read when it changes


class NamedToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """A token, as the file has it."""

    name: str
    "Name of the token, by which it is revoked."
    sha256: str
    "Digest of the token, in hexadecimal."
    owner: str | None = None
    "Who uses it."
    team: str | None = None
    "The team of the owner."
    tags: tuple[str, ...] = ()
    "Tags of each request that shows it."
    upstreams: tuple[str, ...] = ()
    "Names of the upstreams that it may use; none: all."
    content: Level = "full"
    "What is kept of bodies, at most: full, shape or none."


_decode = msgspec.json.Decoder(list[NamedToken]).decode


def default_path() -> Path:
    """Return the place of the user's own file."""
    return platformdirs.user_config_path("recorder") / "tokens.json"


def read_tokens(path: Path) -> list[NamedToken]:
    """Return the tokens of a file, in its order; none of a file that is not there.

    Raises `UsageError`.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(SIZE_LIMIT + 1)
        if len(content) > SIZE_LIMIT:
            raise UsageError(
                f"{path} has more than {SIZE_LIMIT:,} bytes: it is not a file of `recorder token`."
            )
        return _decode(content)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is not a file of `recorder token` ({error}): move it away."
        ) from error


def write_tokens(path: Path, tokens: list[NamedToken]) -> None:
    """Replace the tokens of a file. Raises `RecorderError`."""
    content = msgspec.json.format(msgspec.json.encode(tokens))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        save(path, [content, b"\n"])
    except OSError as error:
        raise RecorderError(f"{path} cannot be written: {error.strerror}.") from error


def new_token() -> tuple[str, str]:
    """Return a token, and the digest that stands for it in the file."""
    token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    return token, digest_of(token.encode())


def digest_of(token: bytes) -> str:
    return sha256(token).hexdigest()


class TokenFile:
    """The tokens of a file, as it is now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._bearers: Mapping[str, Bearer] = {}

    def bearer(self, token: bytes) -> Bearer | None:
        """Return who has a token; None if nobody has."""
        return self._now().get(digest_of(token))

    def _has(self, digest: str) -> bool:
        return digest in self._now()

    def _now(self) -> Mapping[str, Bearer]:
        """Return the bearers by the digests of their tokens."""
        seen = self._state()
        if seen != self._seen:
            self._bearers, self._seen = self._read(), seen
        return self._bearers

    def _state(self) -> tuple[int, ...] | None:
        """Return what differs once the file is replaced or written; it takes two microseconds."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self) -> dict[str, Bearer]:
        try:
            tokens = read_tokens(self._path)
        except UsageError as error:
            log.error("%s Until then no token is valid.", error)
            return {}
        bearers = {}
        for token in tokens:
            is_valid = partial(self._has, token.sha256)
            bearers[token.sha256] = Bearer(
                token.owner, token.team, token.tags, token.upstreams, token.content, is_valid
            )
        return bearers
