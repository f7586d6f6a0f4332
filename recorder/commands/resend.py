"""`recorder resend`: the requests of a recording once more, as a session that can be compared with
it.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from hashlib import sha256

import click
import msgspec
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url, database_of, is_missing
from recorder.commands.ops.recover import recover_left
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.recording import departures
from recorder.commands.serving.resend_report import (
    Control,
    Resent,
    Shares,
    compared,
    document,
    lines,
)
from recorder.commands.serving.resending import (
    DRAIN_S,
    Budget,
    Sending,
    asked_model,
    prices_of,
    send,
)
from recorder.commands.terminal.behind import wait_for
from recorder.commands.terminal.keys import key_of
from recorder.commands.terminal.options import database_option, flag, format_option
from recorder.commands.terminal.output import (
    FOUND,
    dollars,
    echo,
    log_to_stderr,
    write_document,
    write_line,
)
from recorder.commands.terminal.recordings import loader
from recorder.commands.terminal.rules import match_rules
from recorder.commands.terminal.session_names import new_name
from recorder.diff import Terms
from recorder.diff.drift import shares
from recorder.errors import NotFoundError, UsageError
from recorder.model.events import LATEST, Recording
from recorder.model.fork import ResentFrom, resend_labels, resent_from
from recorder.model.text import counted, safe_text
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.routing import Routes, Upstream, parse_upstream
from recorder.recordings.loader import load_session
from recorder.recordings.names import is_file
from recorder.recordings.session import RecordedSession
from recorder.replay.resend import Resend, answered, missing, resend_of, why_not
from recorder.store.engine import schema_of, writing_of
from recorder.store.location import journal_root
from recorder.wire.providers import BY_NAME
from recorder.wire.upstreams import KNOWN

TIMES_LIMIT = 1_000  # of a request: more says no more about a model
LOCK_S = 2.0  # a server takes a moment to see that a process was killed
NAME_LIMIT = 120  # characters of the parent's name in that of the session


@click.command()
@click.argument("source", metavar="SESSION|FILE")
@click.option(
    "--to",
    metavar="URL",
    help="The base URL of another server; only the key of --key-env goes there.",
)
@click.option("--model", metavar="NAME", help="The model to ask, in place of the recorded ones.")
@click.option(
    "--times",
    type=click.IntRange(1, TIMES_LIMIT),
    default=1,
    help="How often each request is sent, with what the session has already.",
)
@click.option(
    "--limit",
    metavar="USD",
    type=click.FloatRange(min=0),
    help="Send nothing that is likely to bring the cost of the session above this.",
)
@click.option(
    "--key-env",
    metavar="NAME",
    help="The variable that has the key. [default: that of the company, as OPENAI_API_KEY; with --to none]",
)
@click.option(
    "--session",
    metavar="NAME",
    help="Record into the session of this name. [default: one for this recording, address and model]",
)
@flag("--dry-run", help="Only print what would be sent, and what it may cost.")
@format_option("json", json="one object")
@network_settings
@database_option
def command(
    db: str | None,
    network: Network,
    source: str,
    to: str | None,
    model: str | None,
    times: int,
    limit: float | None,
    key_env: str | None,
    session: str | None,
    dry_run: bool,
    format: str,
) -> None:
    """Send the requests of a recording again, as they were recorded, and record the answers as a
    session.

    Nothing is sent twice: the same command goes on where it was interrupted, killed or stopped by
    its limit, and a higher --times adds to what is there. The model is asked; no tool is run.

    The answers are compared with the recorded ones, and with those of a control: the recorded
    model, asked again before, without --model. The exit code is 4 if they differ more than the
    control does.

    \b
    recorder resend latest --dry-run
    recorder resend latest:1 --model gpt-5-mini --times 5 --dry-run
    recorder resend latest --to http://127.0.0.1:4000 --dry-run
    """
    log_to_stderr()
    if model is not None and not model.strip():
        raise UsageError(
            "--model needs the name of a model: leave it out to keep that of the requests."
        )
    url = chosen_url(db)
    parent = _parent(db, source)
    upstreams = _upstreams(parent, to)
    if to is None:
        _require_one(upstreams, {"--model": model, "--key-env": key_env})
    labels = ResentFrom(
        parent.name, None if is_file(source) else parent.session.session_id, to, model
    )
    name = _name(labels) if session is None else new_name(session)
    say = write_line if dry_run and format == "table" else echo
    with ExitStack() as held:
        if not dry_run:
            held.enter_context(_alone(url, name))
            # What was sent before the recorder was killed counts; its ingester may still be at
            # work.
            wait_for(journal_root(database_of(url)), time.monotonic() + DRAIN_S)
            recover_left(url)
        requests = _requests(parent, model, upstreams)
        wanted = missing(requests, times, server.run(_there(url, name, labels)))
        prices = server.run(prices_of(url, [each.recorded for each in wanted], model))
        budget = Budget(None if limit is None else Decimal(str(limit)), prices, model)
        resent = Resent(name, labels, len(wanted), _estimate(wanted, budget), dry_run)
        for line in (*_announcement(resent, wanted, budget), *departures(upstreams, network)):
            say(line)
        if wanted and not dry_run:
            keys = {each.upstream: _key(each, to, key_env) for each in wanted if each.has_key}
            server.run(
                send(
                    url,
                    Sending(name, resend_labels(labels), wanted, upstreams, keys, budget),
                    network,
                )
            )
            echo(
                f"Recorded as session {safe_text(name)}: `recorder diff` compares it with {safe_text(parent.name)}."
            )
    control = None if dry_run else _control(url, labels, parent, upstreams)
    levels = [] if dry_run else compared(_shares(url, name, labels, requests), control)
    if format == "json":
        write_document(document(resent, levels, control))
    elif not dry_run:
        for line in lines(levels, control):
            write_line(line)
    sys.exit(FOUND if any(each.is_claim for each in levels) else 0)


def _parent(db: str | None, source: str) -> RecordedSession:
    """Return the recording. Raises `UsageError` if it is not the one that was meant."""
    parent: RecordedSession = server.run(loader(db).find(source))
    if source.partition(":")[0] == LATEST and (first := resent_from(parent.session)) is not None:
        raise UsageError(
            f"latest is now {safe_text(parent.name)}, which was sent again already: name {safe_text(first.name)}."
        )
    return parent


def _alone(url: URL, name: str) -> AbstractContextManager[None]:
    """Return the lock of a session: two of these commands would each send what neither finds there
    yet.
    """
    if is_missing(url):
        schema_of(url).upgrade(url)  # a lock is beside the file
    database = database_of(url)
    task = f"resend-{sha256(name.encode()).hexdigest()[:16]}"
    refusal = (
        f"Another `recorder resend` sends into session {safe_text(name)}: wait until it has ended. The same command "
        "then sends what is missing."
    )
    return writing_of(database).task_lock(database, task, LOCK_S, refusal)


def _shares(url: URL, name: str, labels: ResentFrom, requests: Sequence[Resend]) -> Shares:
    there = server.run(_there(url, name, labels, keeps_events=True))
    return shares(answered(requests, there), Terms(rules=match_rules()))


def _control(
    url: URL, labels: ResentFrom, parent: RecordedSession, upstreams: Sequence[Upstream]
) -> Control | None:
    """Return how the recorded model differs from itself: asked again at the same address, or else
    at its own.

    None without such a session, and for one that is such a session.
    """
    requests = _requests(parent, None, upstreams, says=False)
    asked = msgspec.structs.replace(labels, model=None)
    for each in (asked, msgspec.structs.replace(asked, to=None)):
        if each != labels and (found := _shares(url, _name(each), each, requests))["shape"].answers:
            return Control(_name(each), found)
    return None


def _upstreams(parent: RecordedSession, to: str | None) -> list[Upstream]:
    """Return where the requests go. Raises `UsageError` where that is not known."""
    found = []
    for name in dict.fromkeys(each.request.upstream for each in parent.recordings):
        if to is None and name not in KNOWN:
            raise UsageError(
                f"The recording is of the upstream {safe_text(name)}, whose address is not known here: give --to URL."
            )
        found.append(Upstream(name, KNOWN[name]) if to is None else parse_upstream(f"{name}={to}"))
    return found


def _require_one(upstreams: Sequence[Upstream], options: Mapping[str, str | None]) -> None:
    """Raise `UsageError` if what belongs to one company would go to several."""
    for option, value in options.items():
        if value is not None and len(upstreams) > 1:
            names = " and ".join(safe_text(each.name) for each in upstreams)
            raise UsageError(
                f"{option} is for one company, and these requests go to {names}: name one exchange, as SESSION:1, or a "
                "gateway with --to."
            )


def _name(labels: ResentFrom) -> str:
    """Return the name of the session for one recording, address and model: the same command finds
    it again.
    """
    digest = sha256(
        "\n".join(
            [labels.session_id or "", labels.name, labels.to or "", labels.model or ""]
        ).encode()
    )
    return f"{labels.name[:NAME_LIMIT]}-resent-{digest.hexdigest()[:6]}"


def _requests(
    parent: RecordedSession, model: str | None, upstreams: Sequence[Upstream], *, says: bool = True
) -> list[Resend]:
    """Return what can be sent again; say what cannot."""
    routes = Routes(upstreams)
    reasons = Counter[str]()
    found = []
    for each in parent.recordings:
        reason = why_not(each)
        if reason is None:
            try:
                found.append(resend_of(each, model, routes))
            except NotFoundError:
                reason = "its path is not of a known API"
        if reason is not None:
            reasons[reason] += 1
    for reason, count in reasons.items() if says else ():
        echo(f"{counted(count, 'exchange')} left out: {reason}.")
    if not found:
        raise NotFoundError(f"Nothing of {safe_text(parent.name)} can be sent again.")
    return found


async def _there(
    url: URL, name: str, labels: ResentFrom, *, keeps_events: bool = False
) -> Sequence[Recording]:
    """Return what a session has already. Raises `UsageError` if it is another one."""
    try:
        async with await open_log(url) as log:
            found = await load_session(log, name, keeps_events=keeps_events)
    except NotFoundError:
        return []
    if resent_from(found.session) != labels:
        raise UsageError(
            f"There is a session {safe_text(name)} that is not of these requests, this address and this model: give "
            "another --session."
        )
    return found.recordings


def _estimate(wanted: Iterable[Resend], budget: Budget) -> Decimal | None:
    """Return what answers as long as the recorded ones cost; None if that of one is not known."""
    total = Decimal()
    for each in wanted:
        cost = budget.cost(each.recorded)
        if cost is None:
            return None
        total += cost
    return total


def _announcement(resent: Resent, wanted: Sequence[Resend], budget: Budget) -> Iterator[str]:
    """Yield what is to be sent, and what that may cost."""
    name, estimated_usd = safe_text(resent.session), resent.estimated_usd
    if not wanted:
        yield f"All of it is in session {name} already: --times N asks for more answers."
        return
    if budget.limit_usd is not None and estimated_usd is None:
        raise UsageError(
            "--limit needs the price of each model and the tokens of each recorded answer: `recorder prices update` "
            "brings in prices, `recorder prices list` shows them."
        )
    price = "the price of some of it is not known (`recorder prices update`)"
    if estimated_usd is not None:
        price = f"about {dollars(str(estimated_usd), is_partial=False)}, if the answers are as long as before"
    models = ", ".join(
        sorted({budget.model or asked_model(each.recorded) or "?" for each in wanted})
    )
    yield f"{counted(len(wanted), 'request')} for {safe_text(models)}, into session {name}: {price}."


def _key(request: Resend, to: str | None, variable: str | None) -> str:
    """Return the key for an upstream.

    No key of a company goes to an address that it was not chosen for.
    """
    if variable is not None:
        return key_of(variable) or ""
    if to is not None:
        return "none"
    provider = BY_NAME[request.upstream]
    names = [name for name in (provider.key_variable, *provider.other_key_variables) if name]
    for name in names:
        if os.environ.get(name):
            return key_of(name) or ""
    if (provider.base_url or "").startswith("http://"):  # a server of one's own
        return "none"
    raise UsageError(
        f"Set {' or '.join(names)} to a key of {request.upstream}, or name another variable: --key-env."
    )
