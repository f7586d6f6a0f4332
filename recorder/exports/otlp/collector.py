"""A collector of OpenTelemetry, to which requests are sent: OTLP over HTTP with JSON and gzip.

Rules of this file (https://opentelemetry.io/docs/specs/otlp/#otlphttp):

* It knows bytes and answers, not spans.
* Repeated are the statuses that the specification names, and connections that fail or break: then
  nobody knows whether the collector has the request. It is repeated as the same bytes. Any other
  status is final.
* A redirect is not followed: the headers are for the host that the user named.
* No message has a header, a password or the query of the URL in it, and none of a header that the
  collector repeats.
"""

from __future__ import annotations

import asyncio
import datetime
import gzip
import re
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, unquote_plus

import httpx

from recorder.errors import RecorderError, UsageError
from recorder.exports.otlp.cursor import Signal
from recorder.model.text import safe_text
from recorder.wire.dialects.json_values import decoded

# https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes
RETRIED = frozenset({429, 502, 503, 504})
PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # the first pause, which doubles, and the last
# also for `Retry-After: 0`: a collector that is full is not asked a thousand times a second
LEAST_PAUSE_S = 0.1
# the longest that a collector may ask for: one with a wrong clock would stop a push for ever
RETRY_AFTER_S = 120.0
ATTEMPTS = 8  # of a push that ends by itself: about a minute and a half
# SDKs wait for 10 s; a batch of a push is larger than theirs
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
GRACE_S = 5.0  # for the answer to a request that is under way at an interruption
ANSWER_BYTES = 64 * 1024  # of an answer: it holds one message
MESSAGE_CHARS = 300  # of it that a person reads
GRPC_PORT = 4317

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e]*")  # section 5.5, without the obsolete bytes
_OURS = {"content-type": "application/json", "content-encoding": "gzip"}
_SECRET_CHARS = 4  # shorter parts of a header are not secrets, but parts of words

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]
Taken = Callable[[], Awaitable[None]]
Say = Callable[[str], None]
"""Shows a person one sentence."""


class CollectorUrl(NamedTuple):
    """The URLs of a collector, and its name without secrets."""

    base: httpx.URL
    # with the fragment, which is never sent: it tells collectors apart that only a header does
    name: str

    def url(self, signal: Signal) -> httpx.URL:
        """Return the URL that takes a signal."""
        return self.base.copy_with(path=f"{self.base.path.rstrip('/')}/v1/{signal}")


class Accepted(NamedTuple):
    """The answer of a collector that took a request: how much of it was rejected, and its remark."""

    rejected: int
    message: str
    size_bytes: int  # of the request, compressed


class Refused(RecorderError):
    """A final answer of a collector. `status` is None if there was no answer."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


def endpoint_of(text: str) -> CollectorUrl:
    """Return the collector at a URL, with or without the path of a signal.

    Raise `UsageError` if it is none.
    """
    try:
        url = httpx.URL(text)
        is_good = url.scheme in ("http", "https") and bool(url.host)
    except (httpx.InvalidURL, ValueError):
        is_good = False
    if not is_good:  # the text is not repeated: it may hold a password
        raise UsageError(
            "That is not the URL of a collector: give one such as http://127.0.0.1:4318."
        )
    path = re.sub(r"/v1/(traces|metrics)/?$", "", url.path).rstrip("/")
    port = f":{url.port}" if url.port else ""
    fragment = f"#{url.fragment}" if url.fragment else ""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return CollectorUrl(
        url.copy_with(path=path or "/", fragment=None),
        f"{url.scheme}://{host}{port}{path}{fragment}",
    )


def headers_of(given: Sequence[str]) -> dict[str, str]:
    """Return headers from `NAME=VALUE`.

    Raise `UsageError` for what is none; it never has the value in it.
    """
    headers: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not _NAME.fullmatch(name):
            raise UsageError("A header is NAME=VALUE, with a name of letters, digits and hyphens.")
        if not _VALUE.fullmatch(value):
            raise UsageError(f"The header {name} has a character that HTTP does not allow in it.")
        headers[name.lower()] = value
    return headers


def headers_of_environment(text: str) -> dict[str, str]:
    """Return headers from the form of `OTEL_EXPORTER_OTLP_HEADERS`: `name=value,name=value`,
    percent-encoded.
    """
    return headers_of([unquote(each) for each in text.split(",") if each.strip()])


class Collector:
    """A collector that takes one request at a time."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        endpoint: CollectorUrl,
        headers: Mapping[str, str],
        *,
        attempts: int | None,
        sleep: Sleep,
        chance: Callable[[], float],
        now_s: Callable[[], float],
        say: Say,
    ) -> None:
        """`attempts` is how often a request is sent before the push fails; None for as often as it
        takes. `chance` returns a number from 0 to 1, `now_s` the wall time for dates in answers.
        """
        self._client, self._endpoint, self._headers = client, endpoint, {**headers, **_OURS}
        self._attempts, self._sleep, self._chance, self._now_s, self._say = (
            attempts,
            sleep,
            chance,
            now_s,
            say,
        )
        self._secrets = sorted(
            _secrets((*headers.values(), *_of_url(endpoint.base))), key=len, reverse=True
        )

    async def send(self, signal: Signal, body: bytes, taken: Taken) -> Accepted:
        """Send a request until the collector has taken it, then wait for `taken`, which records
        that.

        Raise `Refused` if the collector never will, or was away too long. An interruption waits for
        the answer to the request that is under way, and for what follows from it: else it would be
        sent again.
        """
        content = gzip.compress(body, compresslevel=6, mtime=0)
        failures = 0
        while True:
            try:
                response, answer = await _finished(self._attempt(signal, content, taken))
            except httpx.TransportError as error:
                reason, asked_s = self._trouble(error), None
            else:
                if response.is_success:
                    if failures:
                        self._say(f"{self._endpoint.name} takes it again.")
                    return self._accepted(answer, len(content))
                if response.status_code not in RETRIED:
                    raise self._refused(response, answer)
                reason = f"it answers {response.status_code}{self._message(answer)}"
                asked_s = _retry_after(response.headers.get("retry-after"), self._now_s())
            failures += 1
            if failures == self._attempts:
                raise Refused(f"{self._endpoint.name} takes nothing: {reason}. {AGAIN}")
            if failures == 1:
                more = (
                    f"{self._attempts - 1} more times, for a minute or longer"
                    if self._attempts
                    else "again"
                )
                self._say(f"{self._endpoint.name} takes nothing now: {reason}. It is tried {more}.")
            await self._sleep(self._pause_s(failures, asked_s))

    async def _attempt(
        self, signal: Signal, content: bytes, taken: Taken
    ) -> tuple[httpx.Response, bytes]:
        """Send a request once, and wait for `taken` if it is; return the response and the beginning
        of its body.
        """
        url = self._endpoint.url(signal)
        async with self._client.stream(
            "POST", url, content=content, headers=self._headers
        ) as response:
            answer = bytearray()
            try:
                async for piece in response.aiter_bytes(ANSWER_BYTES):
                    answer += piece
                    if len(answer) >= ANSWER_BYTES:
                        break
            except httpx.TransportError:
                if not response.is_success:  # a status that says it is accepted is enough
                    raise
            except httpx.DecodingError:
                answer.clear()
        if response.is_success:
            await taken()
        return response, bytes(answer)

    def _pause_s(self, failures: int, asked_s: float | None) -> float:
        if asked_s is not None:
            return min(RETRY_AFTER_S, max(LEAST_PAUSE_S, asked_s))
        longest_s = min(LONGEST_PAUSE_S, PAUSE_S * 2 ** min(failures - 1, 10))
        # so that many pushers do not come at once
        return float(longest_s * (0.5 + self._chance() / 2))

    def _trouble(self, error: httpx.TransportError) -> str:
        """Return the reason why there was no answer. Raise `Refused` if there never will be one."""
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            raise Refused(
                f"The certificate of {self._endpoint.name} is not valid here: SSL_CERT_FILE names the authorities to "
                "trust."
            ) from error
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            raise Refused(
                f"{self._endpoint.name} cannot be sent to: check the URL and the headers."
            ) from error
        reason = (
            "it does not answer in time"
            if isinstance(error, httpx.TimeoutException)
            else "it cannot be reached"
        )
        if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
            reason = "it breaks off the connection"
        if self._endpoint.base.port == GRPC_PORT:
            reason += f" (port {GRPC_PORT} is that of gRPC as a rule, and 4318 that of HTTP)"
        return reason

    def _refused(self, response: httpx.Response, answer: bytes) -> Refused:
        status, name = response.status_code, self._endpoint.name
        if response.is_redirect:
            to = self._clean(
                safe_text(_host(response.headers.get("location", "")) or "another path")
            )
            return Refused(
                f"{name} sends on to {to} ({status}): give the URL that takes OTLP.", status
            )
        return Refused(
            f"{name} refused it with status {status}{self._message(answer)}. {AGAIN}", status
        )

    def _accepted(self, answer: bytes, size_bytes: int) -> Accepted:
        """Return what an accepting answer says. One that is not JSON, or empty, rejects nothing."""
        partial = _object(answer).get("partialSuccess")
        if not isinstance(partial, dict):
            return Accepted(0, "", size_bytes)
        rejected = 0
        for name in ("rejectedSpans", "rejectedDataPoints"):
            count = str(partial.get(name))
            if re.fullmatch(r"[0-9]{1,18}", count):
                rejected += int(count)
        return Accepted(rejected, self._shown(partial.get("errorMessage")), size_bytes)

    def _message(self, answer: bytes) -> str:
        """Return the message of a refusal after a colon: of a `google.rpc.Status` in JSON, or a
        line of text.
        """
        status = _object(answer)
        text = status.get("message") or status.get("error")
        # no page for a browser
        if not status and answer.isascii() and not answer.lstrip().startswith(b"<"):
            text = answer.decode()
        shown = self._shown(text).rstrip(".")
        return f": {shown}" if shown else ""

    def _shown(self, text: object) -> str:
        """Return a message as one line for a terminal.

        It is cleaned whole: a secret that is cut is none.
        """
        if not isinstance(text, str):
            return ""
        line = safe_text(" ".join(self._clean(text).split()))
        return line if len(line) <= MESSAGE_CHARS else f"{line[:MESSAGE_CHARS]}…"

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text


AGAIN = "What it took before stays taken: run the same command again to go on."


async def _finished(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work.

    If the caller is cancelled, it has a moment to end before it is cancelled too.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=GRACE_S)
        task.cancel()
        raise


def _secrets(values: Iterable[str]) -> Iterator[str]:
    """Yield values, and their parts: `Bearer` and a token are two."""
    for value in values:
        yield from (part for part in (value, *value.split()) if len(part) > _SECRET_CHARS)


def _of_url(url: httpx.URL) -> Iterator[str]:
    """Yield the credentials and the query of a URL, decoded and as they are sent: a collector may
    repeat either.
    """
    user, _, password = url.userinfo.decode().partition(":")
    query = [part.partition("=")[2] or part for part in url.query.decode().split("&")]
    for each in (user, password, *query):
        yield from (each, unquote(each), unquote_plus(each))
    # in the header that is made of them
    yield b64encode(f"{url.username}:{url.password}".encode()).decode()


def _host(location: str) -> str:
    try:
        return httpx.URL(location).host
    except httpx.InvalidURL:
        return ""


def _retry_after(value: str | None, now_s: float) -> float | None:
    """Return the seconds that a `Retry-After` names, as a number or a date; None if it is neither."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or datetime.UTC).timestamp() - now_s


def _object(answer: bytes) -> dict[str, Any]:
    try:
        found = decoded(answer)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
