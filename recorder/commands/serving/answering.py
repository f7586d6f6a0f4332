"""A proxy that answers from recordings, and its reports for people."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from recorder.model.events import Recording
from recorder.model.text import enumerated, safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.http.messages import Transport
from recorder.proxy.routing import Routes, Upstream, recorded_upstreams
from recorder.replay.faults.transport import Fault, FaultTransport
from recorder.replay.matching import Match, Matcher, MatchRequest, Miss, Seen
from recorder.replay.matching.noise import Rules
from recorder.replay.matching.rules import How
from recorder.replay.transport import MISS_STATUS, ReplayTransport
from recorder.replay.websocket.transport import WebSocketTransport

log = logging.getLogger(__name__)

LINE_LIMIT = 600  # characters of a message about a miss: the answer has the whole
WARNED_LIMIT = 1000  # misses whose repetitions are counted: a mock server may run for days
REPEATED = 5  # of them at the end
PLACES = 8  # where requests differed that were answered nevertheless

_RESEMBLED: Mapping[How, tuple[str, str]] = {
    "stamps": (
        "1 request was answered although times or UUIDs in it differ",
        "{} requests were answered although times or UUIDs in them differ",
    ),
    "position": (
        "1 request was answered by its position, although this differs",
        "{} requests were answered by their position, although this differs",
    ),
}


def _bare(transport: Transport) -> Transport:
    return transport


class Answering:
    """A proxy that answers with `held`; `seen`, `unused` and `idle` report how it went."""

    def __init__(
        self,
        held: Sequence[Recording],
        rules: Rules,
        *,
        upstreams: Iterable[Upstream] = (),
        make_proxy: Callable[[Transport, Routes], Proxy] = Proxy,
        speed: float | None = 1.0,
        strict: bool = False,
        otherwise: Transport | int = MISS_STATUS,
        faults: Sequence[Fault] = (),
        seed: int = 0,
        wrap: Callable[[Transport], Transport] = _bare,
    ) -> None:
        """`wrap` wraps what answers a request, and over WebSocket each turn."""
        self._forwards = not isinstance(otherwise, int)
        self._matcher = _LoggingMatcher(held, rules, strict=strict, forwards=self._forwards)
        replay = ReplayTransport(self._matcher, speed=speed, otherwise=otherwise)
        transport = FaultTransport(replay, faults, seed=seed)
        routes = Routes(
            [*recorded_upstreams(each.request.upstream for each in held), *upstreams],
            any_path=not self._forwards,
        )
        answers = WebSocketTransport(wrap(transport if faults else replay), replay)
        self.proxy = make_proxy(answers, routes)
        self.aclose, self.idle = transport.aclose, transport.idle
        self.unused = self._matcher.unused

    def seen(self) -> list[Seen]:
        """Return the requests and how each was answered, in order."""
        seen = self._matcher.seen()
        if not self._forwards:
            return seen
        found = []
        for each in seen:
            found.append(
                msgspec.structs.replace(each, how="forwarded")
                if each.how in ("miss", "probe")
                else each
            )
        return found

    def summary(self) -> list[str]:
        """Return lines on the use of the recordings, repeated misses, and faults without effect."""
        seen = Counter(each.how for each in self.seen())
        counts = [f"Requests: {seen.total()}"]
        counts += [f"answered by a fault: {seen['fault']}"] if seen["fault"] else []
        counts += [f"probes: {seen['probe']}"] if seen["probe"] else []
        counts += (
            [f"forwarded: {seen['forwarded']}"]
            if self._forwards
            else [f"not recorded: {seen['miss']}"]
        )
        return [
            f"{', '.join(counts)}. Recordings not used: {len(self.unused())}.",
            *resembled(self.seen()),
            *self._matcher.repeated(),
            *(f"--fault {each.form} did nothing: {each.unmet}." for each in self.idle()),
        ]


def resembled(seen: Sequence[Seen]) -> Iterator[str]:
    """Yield lines on requests that were answered by a recording that is not the same, and what in
    them differed.
    """
    for how, (one, several) in _RESEMBLED.items():
        answered = [each for each in seen if each.how == how]
        if not answered:
            continue
        which = one if len(answered) == 1 else several.format(len(answered))
        places: list[str] = []
        for each in answered:
            places += [place for place in each.differing if place not in places]
        yield safe_text(f"{which} from the recording: {enumerated(places, PLACES)}.")


class _LoggingMatcher(Matcher):
    """A matcher that logs each miss once."""

    def __init__(
        self, held: Sequence[Recording], rules: Rules, *, strict: bool, forwards: bool
    ) -> None:
        super().__init__(held, rules, strict=strict)
        self._forwards = forwards
        self._warned: Counter[str] = Counter()

    def match(self, request: MatchRequest) -> Match | Miss:
        found = super().match(request)
        if isinstance(found, Miss) and (self._forwards or not found.is_optional):
            self._warn(f"Forwarded. {found.line}" if self._forwards else found.line)
        return found

    def repeated(self) -> list[str]:
        """Return the misses that were repeated, the most frequent first."""
        often = [(line, times) for line, times in self._warned.most_common(REPEATED) if times > 1]
        return [f"{times} times: {safe_text(line)}" for line, times in often]

    def _warn(self, line: str) -> None:
        line = line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]}…"
        if line not in self._warned:
            log.warning("%s", line)
        if line in self._warned or len(self._warned) < WARNED_LIMIT:
            self._warned[line] += 1
