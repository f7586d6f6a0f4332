"""The scripted provider as a separate process: `python -m tests.support.provider --port 8900`.

Prints its base URL on one line when it listens; ends at SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable

from recorder.proxy.http.server import run
from recorder.proxy.http.server_capacity import raise_limit
from tests.support.provider.server import start


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.provider", description="A built-in upstream on loopback."
    )
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument(
        "--pace", type=float, default=1.0, help="multiplies every pause; 0 sends without any"
    )
    parser.add_argument(
        "--linger",
        type=float,
        default=0.0,
        help="seconds from the last event of a stream to its end",
    )
    return parser.parse_args()


async def serve(port: int, pace: float, linger_s: float, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called with the base URL."""
    raise_limit()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with await start(port=port, pace=pace, linger_s=linger_s) as demo:
        ready(demo.base_url)
        await stopped.wait()


def _say(base_url: str) -> None:
    sys.stdout.write(f"{base_url}\n")
    sys.stdout.flush()


def main() -> None:
    options = _options()
    run(serve(options.port, options.pace, options.linger, _say))


if __name__ == "__main__":
    main()
