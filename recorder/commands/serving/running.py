"""A command that is recorded: where its clients are pointed, and the upstreams that their requests
go on to.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from sqlalchemy import URL

from recorder.commands.clients.codex import Doors, named
from recorder.commands.clients.presets import BASES, OWN_BASES, of_companies
from recorder.commands.clients.shim import codex_provider, codex_providers
from recorder.commands.serving.listening import listening
from recorder.commands.serving.recording import Ending, departures, recording
from recorder.commands.serving.replaying import GRACE_S, ReadyCommand, ready
from recorder.commands.serving.run_report import say
from recorder.errors import UsageError
from recorder.model.text import safe_text
from recorder.proxy.app import Proxy
from recorder.proxy.http.messages import Transport
from recorder.proxy.http.network import Network
from recorder.proxy.recording import ExchangeJournal
from recorder.proxy.routing import Upstream, parse_upstream

# for the database to have all of it: the command has ended, nothing waits but what reads the
# session
DRAIN_S = 60.0


class Destinations(NamedTuple):
    """Where requests of a command go on to."""

    names: dict[str, str]  # of the servers of Codex
    upstreams: Sequence[Upstream]
    lines: Sequence[str]  # on those that a person is to see


def destinations(
    words: Sequence[str], upstream: Sequence[Upstream], network: Network
) -> Destinations:
    """Return where the requests of a command go on to: as its options say, its environment, and the
    settings of Codex.

    Raises `UsageError` if the address in a variable cannot be recorded from.
    """
    inherited = inherited_upstreams({each.name for each in upstream})
    names, added = named(upstream, inherited, codex_providers(words))
    if (provider := codex_provider(words)) is not None and Doors("", names).name(
        provider
    ) != "openai":
        say(
            f"Codex is recorded from {safe_text(provider.base)}, the server that it uses by itself."
        )
    lines = departures([*inherited, *upstream], network)  # those of Codex are in its own settings
    return Destinations(names, [*inherited, *added, *upstream], lines)


def inherited_upstreams(named: Iterable[str]) -> list[Upstream]:
    """Return the upstreams of this environment's variables, unless an option overrides them."""
    found = dict[str, Upstream]()
    for variable, upstream in {**BASES, **OWN_BASES}.items():
        if upstream not in (*named, *found) and (base := os.environ.get(variable)):
            try:
                found[upstream] = Upstream(
                    upstream, parse_upstream(f"{upstream}={base}").base + "/"
                )
            except UsageError as error:
                raise UsageError(
                    f"The address in {variable} cannot be recorded from. {error}"
                ) from None
    return list(found.values())


class PointedCommand(NamedTuple):
    """A command that can be started, and the proxy that records what it asks."""

    proxy: Proxy
    command: ReadyCommand


@asynccontextmanager
async def recorded_command(
    url: URL,
    words: Sequence[str],
    session: str,
    places: Destinations,
    *,
    websocket: bool,
    recorded: Callable[[Transport, ExchangeJournal], Transport],
    before: Sequence[str] = (),
    **options: Any,
) -> AsyncIterator[PointedCommand]:
    """Listen, and give the command whose requests are recorded as a session; at the end all of it
    is in the log.

    The lines `before` are said when nothing can be refused any more.
    """
    make_proxy = partial(Proxy, websocket=websocket)
    options = {"ending": Ending(DRAIN_S), "make_proxy": make_proxy, "recorded": recorded, **options}
    async with recording(url, places.upstreams, **options) as proxy:
        for line in before:
            say(line)
        async with listening(proxy, GRACE_S) as base:
            base = f"{base}/s/{quote(session, safe='')}"
            given = {**os.environ, **of_companies((name for name, _ in places.upstreams), base)}
            with ready(words, given, Doors(base, places.names, websocket=websocket)) as command:
                yield PointedCommand(proxy, command)
