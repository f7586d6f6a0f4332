"""The API of the viewer: a table of URLs and the functions that answer them. `docs/formats.md`
documents it.

Rules of this file:

* A pattern is a method and the path with `{names}`, then `?` and the names of its query, with `&`
  between; another name is an error.
* A handler takes the context of the viewer and the values of its pattern. It returns an object,
  which becomes JSON; or a `Streamed`, whose parts are sent as they are.
* A failure is an exception of recorder: its class decides the status (`recorder.ui.app`).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from sqlalchemy import URL

from recorder import __version__
from recorder.diff import TOLERANCE, Level, Terms, diff
from recorder.diff.report import document, levels_in
from recorder.errors import NotFoundError, UsageError
from recorder.model.text import safe_text
from recorder.recordings.loader import find_session
from recorder.recordings.selection import select_exchanges
from recorder.recordings.session import RecordedSession
from recorder.replay.matching.noise import DEFAULT_RULES, Rules
from recorder.store.queries.outlines import outlines
from recorder.store.queries.reader import LogReader
from recorder.store.queries.session_list import (
    ListPlace,
    SessionFilter,
    list_sessions,
    session_page,
)
from recorder.store.queries.session_named import session_named
from recorder.ui import follow
from recorder.ui.asked import asked
from recorder.ui.copies import recorder_line
from recorder.ui.find import events_with
from recorder.ui.lanes import timeline
from recorder.ui.marks import marks_aside
from recorder.ui.pictures import picture
from recorder.ui.raw import (
    details,
    exchange_body,
    in_parts,
    listed,
    model_request,
    raw_exchange,
    sliced,
)
from recorder.ui.sql import Questions, checked_question, examples, home, views
from recorder.ui.track import TrackCache, segment
from recorder.ui.turns import Turn, turns

Json = dict[str, Any]

PAGE_SESSIONS = 100
MOST_SESSIONS = 500
HOME_DAYS = 30
MOST_DAYS = 3_660  # ten years: more days than a chart has pixels
PAGE_EVENTS = 500
ANSWER_BYTES = 8 * 2**20
"""Bytes of differences in one answer: more is not a page that somebody reads. All are counted; of a
pair that is compared alone there are as many as `recorder diff` lists."""


JUDGED = 2  # sessions at once: each takes a process of some 100 MB, of a machine that also records


@dataclass(slots=True)
class Context:
    """The log of a viewer, and all that lives as long as the viewer does."""

    log: LogReader
    url: URL
    questions: Questions
    rules: Rules = DEFAULT_RULES  # of requests that are compared
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while whole sessions are: each may take all the memory that there is for them, so one
    answer at a time.
    """
    judging: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JUDGED))
    """Held while a process looks for findings."""
    tracks: TrackCache = field(default_factory=TrackCache)


class Streamed(NamedTuple):
    """An answer whose length nobody knows yet."""

    content_type: bytes
    chunks: AsyncGenerator[bytes]
    headers: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of a request: of the names in its path, of its query, and its JSON body if it is a
    POST.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Any = None

    def __getitem__(self, name: str) -> str:
        """Return a value of the path."""
        return self.path[name]

    @property
    def exchange(self) -> tuple[str, str]:
        """Return the session and the exchange in the path."""
        return self["session"], self["exchange"]

    def text(self, name: str) -> str | None:
        """Return a value of the query; None if it is absent or empty."""
        return self.query.get(name) or None

    def number(self, name: str, default: int, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return a whole number of the query or path.

        Raise `UsageError` if it is none, or out of bounds.
        """
        given = self.path.get(name) or self.query.get(name)
        if not given:
            return default
        try:
            number = int(given)
        except ValueError:
            raise UsageError(f"{name} is not a whole number.") from None
        if not least <= number <= most:
            raise UsageError(f"{name} must be {least} to {most}.")
        return number

    def optional_number(self, name: str) -> int | None:
        """Return a whole number of the query, as a wall time in nanoseconds since the epoch; None
        if it is absent.
        """
        return self.number(name, 0) if self.text(name) else None

    def flag(self, name: str) -> bool:
        """Return whether a flag is set: 1 or true."""
        return self.query.get(name, "").lower() in ("1", "true")


Handler = Callable[[Context, Parameters], Awaitable[Any]]


async def _about(context: Context, _: Parameters) -> Json:
    log = context.log
    return {
        "version": __version__,
        "database": log.name,
        "engine": log.engine,
        "is_stale": await log.rebuild_is_due(),
        "now_ns": time.time_ns(),
    }


async def _sessions(context: Context, parameters: Parameters) -> Json:
    limit = parameters.number("limit", PAGE_SESSIONS, 1, MOST_SESSIONS)
    wanted = SessionFilter(
        model=parameters.text("model"),
        client=parameters.text("client"),
        status=parameters.text("status"),
        since_ns=parameters.optional_number("since"),
        until_ns=parameters.optional_number("until"),
        words=parameters.text("q"),
        probes=parameters.flag("probes"),
    )
    cursor = parameters.text("before")
    page = await session_page(
        context.log, limit, wanted, ListPlace.parse(cursor) if cursor else None
    )
    return {"sessions": page.rows, "next": page.next and page.next.cursor()}


async def session_outline(log: LogReader, ref: str) -> Json:
    """Return a session with a summary of each of its exchanges."""
    session, numbered = await select_exchanges(log, ref, None)
    summary = next(
        iter(await list_sessions(log, 1, SessionFilter(session_id=session.session_id))), None
    )
    if summary is None:  # it was purged between the two questions
        raise NotFoundError(f"Session {session.name} was purged.")
    found = {row.exchange_id: row for row in await outlines(log, session.session_id)}
    agents = {id for id, row in found.items() if row.purpose == "subagent"}
    lines = await turns(log, session.session_id, [each for _, each in numbered], agents)
    began_ns = min((each.started_ns for _, each in numbered), default=session.created_ns)
    exchanges = []
    for number, each in numbered:
        outline = found.get(each.exchange_id)
        if outline is None:
            continue
        exchanges.append(
            {
                "number": number,
                "exchange_id": each.exchange_id,
                "offset_ns": each.started_ns - began_ns,
                **{name: getattr(each, name) for name in _OF_EXCHANGE},
                **{name: getattr(outline, name) for name in _OF_OUTLINE},
                **msgspec.structs.asdict(lines.get(each.exchange_id, Turn())),
            }
        )
    return {"session": summary, "title": summary.title, "exchanges": exchanges}


_OF_EXCHANGE = ("started_ns", "provider", "api", "method", "target", "client", "thread_id")
_OF_OUTLINE = ("purpose", "status", "has_ended", "events", "duration_ns")


async def _diff(context: Context, parameters: Parameters) -> Json:
    # Only sessions of the log are compared, not files: a URL must not choose what is read from the
    # disk.
    a, b = parameters.text("a"), parameters.text("b")
    terms = terms_of(parameters.text("tolerance"), context.rules, exact=parameters.flag("exact"))
    async with context.loading:
        return await comparison(
            context.log, context.url, a, b, levels_in(parameters.text("only") or ""), terms
        )


def terms_of(tolerance: str | None, rules: Rules, *, exact: bool) -> Terms:
    """Return the terms of a comparison; `rules` are those of requests. Raise `UsageError`."""
    try:
        factor = float(tolerance) if tolerance else TOLERANCE
    except ValueError:
        factor = 0.0
    if not 1 <= factor < float("inf"):
        raise UsageError("The tolerance is a factor of 1 or more, as 1.25.")
    return Terms(exact, factor, rules)


async def comparison(
    log: LogReader, url: URL, a: str | None, b: str | None, only: Sequence[Level], terms: Terms
) -> Json:
    """Return the object of `recorder diff --json` for two sessions, or `SESSION:N` for one
    exchange, and `sessions`.

    Raises `NotFoundError` for a reference that leads nowhere or to no exchange, `RecorderError` if
    a side is too large.
    """
    if not a or not b:
        raise UsageError(
            "Name two sessions, a and b: each by its id, its name, or latest; SESSION:N is one exchange."
        )
    one, other = await find_session(log, a), await find_session(log, b)
    for side in (one, other):
        if not side.recordings:
            raise NotFoundError(f"{safe_text(side.name)} has no exchanges.")
    found = await asyncio.to_thread(_compared, one, other, only, terms)
    command = recorder_line(url, "diff", a, b, *_options(only, terms))
    return {**found, "sessions": {"a": _side(one), "b": _side(other)}, "command": command}


def _compared(
    one: RecordedSession, other: RecordedSession, only: Sequence[Level], terms: Terms
) -> Json:
    report = diff(one.recordings, other.recordings, only, terms, (one.continued, other.continued))
    answer = document(one.name, other.name, report)
    left_bytes = ANSWER_BYTES
    for level in chain.from_iterable(pair["levels"] for pair in answer["pairs"]):
        listed = []
        for difference in level["differences"]:
            left_bytes -= len(msgspec.json.encode(difference))
            if left_bytes < 0:
                break
            listed.append(difference)
        level["differences"] = listed
    return answer


def _side(side: RecordedSession) -> Json:
    session = side.session
    return {
        "session_id": session.session_id,
        "name": session.name,
        "exchanges": len(side.recordings),
    }


def _options(only: Sequence[Level], terms: Terms) -> list[str]:
    options = ["--only", ",".join(only)] if only else []
    options += ["--tolerance", f"{terms.tolerance:g}"] if terms.tolerance != TOLERANCE else []
    return [*options, "--exact"] if terms.exact else options


async def _model(context: Context, parameters: Parameters) -> Json:
    async with context.loading:
        return await model_request(context.log, *parameters.exchange)


async def _asked(context: Context, parameters: Parameters) -> Json:
    async with context.loading:
        return await asked(context.log, *parameters.exchange, is_brief=parameters.flag("brief"))


async def _body(context: Context, parameters: Parameters) -> Streamed:
    """Return bytes that no browser takes for a page, whatever was recorded."""
    which, start, limit = (
        parameters.text("of"),
        parameters.number("from", 0),
        parameters.optional_number("limit"),
    )
    async with context.loading if which == "model" else nullcontext():
        saved_as, chunks = await exchange_body(context.log, *parameters.exchange, which)
    disposition = (b"content-disposition", f'attachment; filename="{saved_as}"'.encode())
    return Streamed(b"text/plain; charset=utf-8", sliced(chunks, start, limit), (disposition,))


async def _picture(context: Context, parameters: Parameters) -> Streamed:
    which, digest = parameters.text("of"), parameters.text("sha256")
    async with context.loading:
        content_type, content = await picture(context.log, *parameters.exchange, which, digest)
    return Streamed(content_type, in_parts(content))


async def _views(context: Context, _: Parameters) -> list[Json]:
    return views(context.url)


async def _examples(context: Context, _: Parameters) -> list[Json]:
    return examples(context.url)


async def _follow_session(context: Context, parameters: Parameters) -> Streamed:
    session = await session_named(context.log, parameters["session"])
    return Streamed(follow.CONTENT_TYPE, follow.growth(context.log, session.session_id))


async def _follow(context: Context, _: Parameters) -> Streamed:
    return Streamed(follow.CONTENT_TYPE, follow.changes(context.log))


SESSION = "GET /api/sessions/{session}"
EXCHANGE = f"{SESSION}/exchanges/{{exchange}}"


async def _marks(context: Context, parameters: Parameters) -> Any:
    async with context.judging:
        return await marks_aside(context.url, parameters["session"])


ROUTES: dict[str, Handler] = {
    "GET /api/about": _about,
    "GET /api/sessions?limit&before&q&model&client&status&since&until&probes": _sessions,
    f"{EXCHANGE}/raw?at": lambda context, parameters: raw_exchange(
        context.log, context.url, *parameters.exchange, parameters.optional_number("at")
    ),
    f"{EXCHANGE}/model": _model,
    f"{EXCHANGE}/asked?brief": _asked,
    f"{EXCHANGE}/body?of&from&limit": _body,
    f"{EXCHANGE}/picture?of&sha256": _picture,
    "GET /api/diff?a&b&only&tolerance&exact": _diff,
    SESSION: lambda context, parameters: session_outline(context.log, parameters["session"]),
    f"{SESSION}/lanes?exchange&after": lambda context, parameters: timeline(
        context.log,
        parameters["session"],
        parameters.text("exchange"),
        parameters.number("after", -1, -1),
    ),
    f"{SESSION}/marks": _marks,
    f"{SESSION}/find?text": lambda context, parameters: events_with(
        context.log, parameters["session"], parameters.text("text")
    ),
    f"{SESSION}/follow": _follow_session,
    f"{EXCHANGE}/track?at": lambda context, parameters: segment(
        context.log, *parameters.exchange, parameters.number("at", 0), context.tracks
    ),
    f"{EXCHANGE}/events?from&limit": lambda context, parameters: listed(
        context.log,
        *parameters.exchange,
        parameters.number("from", 0),
        parameters.number("limit", PAGE_EVENTS, 1, PAGE_EVENTS),
    ),
    f"{EXCHANGE}/events/{{pos}}": lambda context, parameters: details(
        context.log, *parameters.exchange, parameters.number("pos", 0)
    ),
    "GET /api/home?days": lambda context, parameters: home(
        context.questions, context.log, parameters.number("days", HOME_DAYS, 1, MOST_DAYS)
    ),
    "GET /api/views": _views,
    "GET /api/examples": _examples,
    "GET /api/follow": _follow,
    "POST /api/query": lambda context, parameters: context.questions.ask(
        *checked_question(parameters.body)
    ),
}
"""All of the API. A POST takes a JSON body."""


class Endpoint(NamedTuple):
    """A pattern of the table, taken apart."""

    method: str
    path: re.Pattern[bytes]
    names: frozenset[str]  # of the query
    handler: Handler


def _endpoint(route: str, handler: Handler) -> Endpoint:
    method, _, pattern = route.partition(" ")
    path, _, names = pattern.partition("?")
    named = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path).encode())
    return Endpoint(method, named, frozenset(filter(None, names.split("&"))), handler)


ENDPOINTS = [_endpoint(route, handler) for route, handler in ROUTES.items()]


def find(path: bytes) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint of a path, as it came, with the values in it.

    Raise `NotFoundError` if there is none.
    """
    for endpoint in ENDPOINTS:
        match = endpoint.path.fullmatch(path)
        if match is not None:
            named = match.groupdict().items()
            return endpoint, {
                name: unquote_to_bytes(value).decode("utf-8", "replace") for name, value in named
            }
    raise NotFoundError("There is nothing of that name in the API: docs/formats.md has all of it.")


def query_of(endpoint: Endpoint, query: bytes) -> dict[str, str]:
    """Return the values of a query.

    Raise `UsageError` for a name that the route does not have, or has twice.
    """
    values: dict[str, str] = {}
    for name, value in parse_qsl(
        query.decode("latin-1"), keep_blank_values=True, encoding="utf-8", errors="replace"
    ):
        if name not in endpoint.names:
            known = ", ".join(sorted(endpoint.names)) or "none"
            raise UsageError(f"There is no parameter {name!r} here: there is {known}.")
        if name in values:
            raise UsageError(f"The parameter {name} was given twice.")
        values[name] = value
    return values


def body_of(data: bytes) -> Any:
    """Return the JSON value of a body. Raise `UsageError` if it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UsageError("The body is not JSON.") from None
