"""Run real clients through the recorder, and table what happened:
`python -m tools.real_clients [NAME...] [--write]`.

Installs them first, with the network; then runs them without one, in a network namespace. Exit
codes: 0 if no cell is a no, 1 if one is, 2 if there can be no namespace.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from recorder.errors import RecorderError
from tools.real_clients import checks, installing, namespace, table
from tools.real_clients.client import COLUMNS, Client
from tools.real_clients.clients import CLIENTS, copy_programs

AT_ONCE = 2  # clients: most of their time they start, which takes a core


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.real_clients", description=__doc__)
    parser.add_argument(
        "names", metavar="NAME", nargs="*", help="clients whose name has this in it; default: all"
    )
    parser.add_argument("--write", action="store_true", help="put the rows into docs/clients.md")
    parser.add_argument(
        "--no-namespace", action="store_true", help="run them with the network that is here"
    )
    return parser.parse_args()


def _chosen(names: Sequence[str]) -> list[Client]:
    return [
        each
        for each in CLIENTS
        if not names or any(name.lower() in each.name.lower() for name in names)
    ]


def _install(clients: Sequence[Client]) -> None:
    wanted = dict.fromkeys([(installing.NODE,), *(client.packages for client in clients)])
    for packages in wanted:
        installing.install(packages)


def _run(clients: Sequence[Client], folder: Path, *, writes: bool) -> bool:
    """Run the clients, print and write their rows as they come; whether no cell is a no."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    is_good = True
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            pool.submit(checks.results, client, folder / f"{number:02}"): client
            for number, client in enumerate(clients)
        }
        for done in as_completed(running):
            client, results = running[done], done.result()
            is_good = is_good and not any(result.startswith("no") for result in results.values())
            if writes:
                table.save(CLIENTS, {client.name: table.row(client, results, date)})
            _say(f"{client.name} {client.version}")
            for column in COLUMNS:
                _say(f"    {column:12} {results[column]}")
    return is_good


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    options = _options()
    # a job in the background ignores it, and clients with it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    clients = _chosen(options.names)
    if not clients:
        _say(
            f"No client has such a name. There are: {', '.join(client.name for client in CLIENTS)}."
        )
        return 2
    if namespace.is_inside():
        namespace.raise_loopback()
    else:
        if not options.no_namespace and not namespace.can_be_made():
            _say(
                "No network namespace can be made here (unshare --map-root-user --net): --no-namespace does without."
            )
            return 2
        try:
            _install(clients)
        except RecorderError as error:
            _say(str(error))
            return 2
        if not options.no_namespace:
            return namespace.enter(sys.argv[1:])
    for client in clients:
        copy_programs(client)
    folder = Path(tempfile.mkdtemp(prefix="clients-"))
    if not _run(clients, folder, writes=options.write):
        _say(f"What the clients said, and what was recorded: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
