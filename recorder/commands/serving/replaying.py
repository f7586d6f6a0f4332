"""A command whose clients are answered from recordings: where they are pointed, and what they may
not reach.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from recorder.commands.clients.codex import Doors, pointed
from recorder.commands.clients.presets import (
    BASES,
    CODEX,
    OWN_BASES,
    assigned,
    codex_place,
    environment,
    keys_of,
    of_companies,
)
from recorder.commands.clients.shim import read, shim
from recorder.commands.serving.listening import listening
from recorder.model.events import Recording
from recorder.proxy.app import Proxy
from recorder.proxy.routing import recorded_upstreams
from recorder.replay.egress_guard import RefusingProxy
from recorder.wire.upstreams import UPSTREAMS

MISMATCH = 5  # the exit code, where a client asked for what was not recorded
GRACE_S = 2.0  # for clients that the command has started, which end with it, but a moment later


class ReadyCommand(NamedTuple):
    """A command that can be started: its words, and its environment."""

    words: Sequence[str]
    environment: Mapping[str, str]


class ReplayTerms(NamedTuple):
    """What a command may reach in a replay, and the names of the servers of Codex."""

    names: dict[str, str]
    allow_network: bool = False
    websocket: bool = True


@contextlib.contextmanager
def ready(words: Sequence[str], given: dict[str, str], doors: Doors) -> Iterator[ReadyCommand]:
    """Point the clients of a command at a server; Codex, which reads no variable, by arguments."""
    place = codex_place(words)
    command, variables = list(words), dict[str, str]()
    if place is not None:
        found = pointed(words[place:], assigned(words[:place], given), doors, read)
        command, variables = [*words[:place], *found.arguments], found.variables
    with shim(doors, {**environment(given, doors.url), **variables}) as whole:
        yield ReadyCommand(command, whole)


@contextlib.asynccontextmanager
async def replaying(
    words: Sequence[str], held: Sequence[Recording], proxy: Proxy, terms: ReplayTerms
) -> AsyncIterator[tuple[ReadyCommand, RefusingProxy]]:
    """Listen with a proxy that answers from `held`; give the command, and what refuses its other
    requests.
    """
    async with listening(proxy, GRACE_S) as base, _refusing() as refusing:
        recorded = {each.request.upstream for each in held}
        given = {
            **os.environ,
            **{name: "none" for name in keys_of(recorded) if not os.environ.get(name)},
        }
        for variable, name in OWN_BASES.items():
            if name in recorded and not given.get(variable):
                # any address, so that it is replaced as the others
                given[variable] = f"http://{name}.invalid"
        given |= of_companies(recorded, base)
        given |= {} if terms.allow_network else refusing.variables(given)
        with ready(
            words, given, Doors(base, terms.names, _codex_upstreams(held), terms.websocket)
        ) as command:
            yield command, refusing


@contextlib.asynccontextmanager
async def _refusing() -> AsyncIterator[RefusingProxy]:
    """Run a proxy that refuses everything.

    It knows the API hosts of this environment's variables.
    """
    refusing = RefusingProxy(_had())
    await refusing.start()
    try:
        yield refusing
    finally:
        refusing.stop()


def _had() -> Iterator[tuple[str, str]]:
    """Yield the hosts in the variables of clients, each with its upstream."""
    for variable, name in {**BASES, **OWN_BASES}.items():
        with contextlib.suppress(ValueError):  # no address, which a replay does not need
            if host := urlsplit(os.environ.get(variable, "")).hostname:
                yield host, name


def _codex_upstreams(held: Sequence[Recording]) -> list[str]:
    """Return the upstreams that Codex used, as far as an address can name them: recordings may be
    foreign.
    """
    names = {
        each.request.upstream for each in held if (each.exchange.client or "").startswith(CODEX)
    }
    return sorted(name for name in names if name in UPSTREAMS or any(recorded_upstreams([name])))
