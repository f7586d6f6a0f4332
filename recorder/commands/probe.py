"""`recorder probe`: proves that a gateway speaks an API, by a fixed set of requests that are
recorded and judged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path

import click
from sqlalchemy import URL

from recorder.archive.opening import open_log
from recorder.archive.place import chosen_url
from recorder.commands.serving.listening import listening
from recorder.commands.serving.network import network_settings
from recorder.commands.serving.recording import Ending, departures, recording
from recorder.commands.terminal.keys import key_of
from recorder.commands.terminal.lenience import lenience_options
from recorder.commands.terminal.options import FILE, database_option, flag, format_option
from recorder.commands.terminal.output import (
    FOUND,
    dollars,
    echo,
    log_to_stderr,
    terminal_width,
    write_json,
    write_line,
)
from recorder.errors import RecorderError, UsageError
from recorder.lint.report import WIDTH, Lenience
from recorder.model.events import Recording
from recorder.model.text import counted, safe_text
from recorder.prices.table import list_price, valid_prices
from recorder.probe.apis import APIS
from recorder.probe.cases import Bound, Case, Mode, ProbeApi, bound
from recorder.probe.judge import judge
from recorder.probe.report import is_faulty, junit_of_none, lines, rows
from recorder.probe.report import junit as junit_text
from recorder.probe.runner import SILENCE_S, Plan, Sent, send_all
from recorder.probe.sdks import reader_for
from recorder.proxy.http import server
from recorder.proxy.http.network import Network
from recorder.proxy.recording import new_id
from recorder.proxy.routing import parse_upstream
from recorder.recordings.loader import load_session
from recorder.wire.dialects import by_name
from recorder.wire.dialects.json_values import decoded

DRAIN_S = 60.0  # for the database to have all of it: the verdict is on what it has


@click.command()
@click.argument("url")
@click.option(
    "--api",
    type=click.Choice(list(APIS)),
    metavar="API",
    required=True,
    help=f"The API that the gateway is to speak: {', '.join(APIS)}.",
)
@click.option(
    "--key-env",
    metavar="NAME",
    help="The variable that has the key for the gateway. Without it a request has no key but the word none: no key of "
    "yours goes to an address that you have not chosen it for.",
)
@click.option(
    "--model",
    metavar="MODEL",
    help="The model to ask for. [default: a small one of the API's provider]",
)
@click.option("--only", metavar="CASE", multiple=True, help="Send only this case. Repeatable.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=SILENCE_S,
    metavar="SECONDS",
    help="Give up on a request if nothing comes for so long. A request may take five times that.",
)
@click.option(
    "--junit",
    metavar="FILE",
    type=FILE,
    help="Also write the result as JUnit's XML, for a CI.",
)
@lenience_options
@flag("--dry-run", help="Only print what would be sent, and what it may cost.")
@format_option(
    *("json", "jsonl"),
    json="an array of cases: session, case, title, mode, state (passed, faulty, unsupported), exchanges, seconds, "
    "remark and findings",
)
@network_settings
@database_option
def command(
    db: str | None,
    network: Network,
    url: str,
    api: str,
    key_env: str | None,
    model: str | None,
    only: Sequence[str],
    timeout: float,
    junit: Path | None,
    lenience: Lenience,
    dry_run: bool,
    format: str,
) -> None:
    """Prove that a gateway speaks an API: send it a fixed set of requests, record and judge the
    answers.

    URL is the base URL of the gateway, as clients are given it. Each answer is judged by the rules
    of `recorder lint` and by what was requested. All of it is in the log, as a session of its own.

    The exit code is 4 if there is an error or a warning (or what --fail-on names), 0 if there is
    none, 1 if the gateway cannot be reached.

    \b
    recorder probe http://127.0.0.1:8900 --api openai-responses
    recorder probe http://127.0.0.1:4000/v1 --api openai-chat --key-env GATE_KEY
    recorder probe http://127.0.0.1:8900 --api openai-chat --dry-run
    """
    log_to_stderr()
    plan = _plan(APIS[api], url, key_of(key_env), model, only, timeout)
    for line in (*_announcement(plan, chosen_url(db)), *departures((), network)):
        (write_line if dry_run else echo)(line)
    if dry_run:
        return
    name = f"probe-{time.strftime('%Y%m%d-%H%M%S')}-{new_id()[-4:]}"
    database = chosen_url(db)
    try:
        sent = server.run(_send(database, name, plan, network))
        recordings = server.run(_recorded(database, name, len(sent)))
    except RecorderError as error:
        if junit is not None:
            _save(junit, junit_of_none(plan.api.name, name, str(error)))
        raise
    reader = reader_for(plan.api)
    if reader is None:
        echo(f"{plan.api.sdk} is not installed: no answer is read by the official SDK.")
    verdicts = judge(sent, recordings, reader, lenience)
    if junit is not None:
        _save(junit, junit_text(plan.api.name, name, verdicts))
    if format != "table":
        write_json(rows(name, verdicts), format)
    else:
        for line in lines(verdicts, min(WIDTH, terminal_width() or WIDTH)):
            write_line(safe_text(line))
        echo(f"Recorded as session {name}: `recorder show {name}`, `recorder lint {name}`.")
    sys.exit(FOUND if is_faulty(verdicts) else 0)


def _plan(
    api: ProbeApi,
    url: str,
    key: str | None,
    model: str | None,
    only: Sequence[str],
    silence_s: float,
) -> Plan:
    names = [case.name for case in api.cases]
    for name in only:
        if name not in names:
            raise UsageError(f"{api.name} has no case {name!r}: there are {', '.join(names)}.")
    if key is None and any(case.needs_key and case.name in only for case in api.cases):
        raise UsageError("The case wrong-key needs a key: name its variable with --key-env.")
    upstream = parse_upstream(f"{by_name(api.name).upstream}={url}")
    chosen: list[tuple[Case, Mode]] = []
    for case in api.cases:
        if (not only or case.name in only) and (key is not None or not case.needs_key):
            chosen += [(case, mode) for mode in case.modes]
    return Plan(api, upstream, model or api.model, key, chosen, silence_s)


def _announcement(plan: Plan, database: URL) -> Iterable[str]:
    """Yield what is to be sent, and what that may cost."""
    most = bound(plan.cases, plan.model)
    usd = server.run(_usd(database, plan, most))
    price = f", {dollars(str(usd), is_partial=False)}" if usd is not None else ""
    yield (
        f"{counted(most.requests, 'request')} to {plan.upstream.base} for {safe_text(plan.model)}: about "
        f"{most.input_tokens:,} input tokens, at most {most.output_tokens:,} output tokens{price}."
    )
    if plan.key is None:
        yield "No key is given: the case wrong-key is left out. --key-env NAME is the variable that has one."


async def _usd(database: URL, plan: Plan, most: Bound) -> Decimal | None:
    """Return the most that a run costs by the prices of the log (`recorder prices update`); None if
    there are none.
    """
    try:
        log = await open_log(database)
    except RecorderError:
        # there is none, or it cannot be read now: what is wrong with it is said when it is used
        return None
    async with log:
        prices = await valid_prices(log, time.time_ns(), plan.model)
    price = list_price(prices, plan.upstream.name)
    return None if price is None else price.usd(most.input_tokens, most.output_tokens)


async def _send(database: URL, name: str, plan: Plan, network: Network) -> list[Sent]:
    """Send all requests through a recorder of our own.

    Raises `RecorderError` if the gateway cannot be reached.
    """
    async with recording(
        database, [plan.upstream], ending=Ending(DRAIN_S), network=network
    ) as proxy:
        async with listening(proxy) as base:
            return await send_all(f"{base}/s/{name}", plan, _reporter())


def _reporter() -> Callable[[Sent], None]:
    """Return what says on stderr how a request went.

    It raises `RecorderError` at the first without a gateway.
    """
    is_first = True

    def report(sent: Sent) -> None:
        nonlocal is_first
        if is_first and (message := _unreachable(sent)):
            raise RecorderError(message)
        is_first = False
        step = f", request {sent.number}" if len(sent.case.steps) > 1 else ""
        ended = sent.trouble or f"status {sent.status}"
        echo(
            f"  {sent.case.name} {sent.mode}{step}: {ended}, {len(sent.body):,} bytes in {sent.seconds:.1f} s"
        )

    return report


def _unreachable(sent: Sent) -> str | None:
    """Return why the gateway cannot be reached, as the recorder says it to its client; None if it
    can.
    """
    try:
        error = decoded(sent.body)["error"]
        return str(error["message"]) if error["type"] == "upstream_unreachable" else None
    except (ValueError, LookupError, TypeError):
        return None


async def _recorded(database: URL, name: str, count: int) -> Sequence[Recording]:
    async with await open_log(database) as log:
        found = (await load_session(log, name)).recordings
    if len(found) != count:
        raise RecorderError(
            f"{counted(count, 'request')} were sent, and {counted(len(found), 'exchange')} of session {name} are in "
            "the log: `recorder db recover` brings in the rest, `recorder lint` judges it."
        )
    return found


def _save(path: Path, text: bytes) -> None:
    try:
        path.write_bytes(text)
    except OSError as error:
        raise RecorderError(
            f"{path} cannot be written: {error.strerror}. Give another file with --junit."
        ) from error
