"""The requests of a run, as far as a verdict looks at them; and the answer to one that asks again
for a broken one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from recorder.model.events import Recording
from recorder.proxy.http.messages import Request, Response, Transport
from recorder.replay.matching import Matcher, MatchRequest, request_of
from recorder.replay.transport import MISS_HEADER, ReplayTransport, match_request
from recorder.wire.dialects import by_path
from recorder.wire.dialects.conversation import Conversation
from recorder.wire.dialects.json_values import as_json
from recorder.wire.logical_request import LogicalRequests, links_in
from recorder.wire.turns import as_http

REQUESTS_LIMIT = 1_000
"""Requests of a run that are looked at: a client that asks more often repeats itself."""

_OF_THE_CLIENT = ("user", "tool")


GoesOn = Literal["as recorded", "otherwise"]
"""With the calls of tools that a recorded request has too, or with others: those of half a call."""


class AskedRequest(NamedTuple):
    """A request."""

    results: int = 0  # of tools
    is_missed: bool = False  # nothing recorded answers it
    # it asks for the broken answer again: missed as well, if for one of another form
    is_again: bool = False
    # it was missed, and has results of tools that ran, which the struck one had not
    goes_on: GoesOn | None = None


class _Content(NamedTuple):
    """What tells the requests of a turn from others; nothing of a format that nobody here knows."""

    said: int | None = None  # messages of the client
    calls: frozenset[str] = frozenset()  # names and arguments
    results: int = 0
    refusals: int = 0  # of the results: those which say that a call failed, or could not be read

    def says_no_more(self, other: _Content) -> bool:
        """Return whether the client has said the same, whatever of the answer it repeats."""
        return (self.said, self.results) == (other.said, other.results)

    @property
    def successes(self) -> int:
        return self.results - self.refusals


class NotingTransport:
    """A transport that notes the requests that pass to `inner`.

    Some clients ask again with the items that had come before their answer broke off: Codex does
    with its reasoning. No recording is equal to that. As nothing in it is new of the client,
    `struck`, the recording of the answer that broke off, answers it.

    Claude Code asks for a document in place of a stream that broke off. That is noted, but nothing
    recorded answers.
    """

    def __init__(
        self, inner: Transport, struck: Recording | None, held: Sequence[Recording] = ()
    ) -> None:
        """`held` are all recordings that answer.

        Requests that say only what is new since one of them go on from it.
        """
        self._inner, self._struck, self._held = inner, struck, held
        self._logical = LogicalRequests(held)
        self._replay = ReplayTransport(Matcher([]))
        self.requests: list[AskedRequest] = []

    async def handle_async_request(self, request: Request) -> Response:
        asked = match_request(request, await request.aread())
        response = await self._inner.handle_async_request(request)
        content = self._content(asked)
        noted = AskedRequest(content.results, is_missed=MISS_HEADER in response.headers)
        if noted.is_missed and content.said is not None and self._struck is not None:
            struck = request_of(self._struck)
            if asked.target == struck.target and content.says_no_more(self._content(struck)):
                noted = noted._replace(is_again=True)
                if self._wants_stream(asked) == self._wants_stream(struck):
                    await response.stream.aclose()
                    response = await self._replay.replay(request, as_http(self._struck))
                    noted = noted._replace(is_missed=False)
            elif content.successes > self._content(struck).successes:
                noted = noted._replace(goes_on=self._goes_on(content))
        if len(self.requests) < REQUESTS_LIMIT:
            self.requests.append(noted)
        return response

    def _goes_on(self, content: _Content) -> GoesOn:
        recorded = [self._content(request_of(each)).calls for each in self._held]
        return "as recorded" if any(content.calls <= calls for calls in recorded) else "otherwise"

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _content(self, asked: MatchRequest) -> _Content:
        conversation = self._conversation(asked)
        if conversation is None:
            return _Content()
        said = [message for message in conversation.messages if message.role in _OF_THE_CLIENT]
        calls: set[str] = set()
        for message in conversation.messages:
            calls.update(
                as_json([part.name, part.value]) for part in message.parts if part.kind == "call"
            )
        results = list(conversation.results())
        refusals = [result for result in results if result.failed]
        return _Content(len(said), frozenset(calls), len(results), len(refusals))

    def _wants_stream(self, asked: MatchRequest) -> bool:
        conversation = self._conversation(asked)
        return conversation is not None and bool(conversation.stream)

    def _conversation(self, asked: MatchRequest) -> Conversation | None:
        path, body = asked.target.partition("?")[0], asked.body
        if any(links_in(asked.target, body, asked.method)):
            body = self._logical.of_body(asked.target, body).encoded()
        return by_path(asked.method, path).read_request(path, body)
