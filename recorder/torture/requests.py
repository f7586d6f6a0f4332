"""The requests of a run, as far as a verdict looks at them; and the answer to one that asks again for a broken one."""

from __future__ import annotations

from typing import NamedTuple

from recorder.model.recording import Recording
from recorder.proxy.http.messages import Request, Response, Transport
from recorder.replay.matching import Matcher, MatchRequest, request_of
from recorder.replay.transport import MISS_HEADER, ReplayTransport, match_request
from recorder.wire.dialects import by_path

REQUESTS_LIMIT = 1_000
"""Requests of a run that are looked at: a client that asks more often repeats itself."""

_OF_THE_CLIENT = ("user", "tool")


class AskedRequest(NamedTuple):
    """A request."""

    results: int = 0  # of tools
    is_missed: bool = False  # nothing recorded answers it
    is_again: bool = False  # it has what came of a broken answer, and got the recorded one
    goes_on: bool = False  # it was missed, and says something else of the client than the one that was struck


class NotingTransport:
    """A transport that notes the requests that pass to `inner`.

    Some clients ask again with the items that had come before their answer broke off: Codex does with its reasoning.
    No recording is equal to that. As nothing in it is new of the client, `struck`, the recording of the answer that
    broke off, answers it.
    """

    def __init__(self, inner: Transport, struck: Recording | None) -> None:
        self._inner, self._struck = inner, struck
        self._replay = ReplayTransport(Matcher([]))
        self.requests: list[AskedRequest] = []

    async def handle_async_request(self, request: Request) -> Response:
        asked = match_request(request, await request.aread())
        said, results = _counted(asked)
        response = await self._inner.handle_async_request(request)
        noted = AskedRequest(results, is_missed=MISS_HEADER in response.headers)
        if noted.is_missed and said is not None and self._struck is not None:
            struck = request_of(self._struck)
            is_again = asked.target == struck.target and said == _counted(struck)[0]
            noted = AskedRequest(results, not is_again, is_again, not is_again)
            if is_again:
                await response.stream.aclose()
                response = await self._replay.replay(request, self._struck)
        if len(self.requests) < REQUESTS_LIMIT:
            self.requests.append(noted)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _counted(asked: MatchRequest) -> tuple[int | None, int]:
    """Return the number of messages of the client in a request, None if nobody here knows them, and of results."""
    path = asked.target.partition("?")[0]
    conversation = by_path(asked.method, path).read_request(path, asked.body)
    if conversation is None:
        return None, 0
    said = [message for message in conversation.messages if message.role in _OF_THE_CLIENT]
    return len(said), sum(1 for _ in conversation.results())
