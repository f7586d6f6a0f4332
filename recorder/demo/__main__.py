"""The demo upstream as a process of its own, for benchmarks: `python -m recorder.demo --port 8900`.

Prints its base URL on one line when it listens; ends at SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from recorder.demo.server import start


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m recorder.demo", description="A built-in upstream on loopback.")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--pace", type=float, default=1.0, help="multiplies every pause; 0 sends without any")
    return parser.parse_args()


async def _serve(port: int, pace: float) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with await start(port=port, pace=pace) as demo:
        sys.stdout.write(f"{demo.base_url}\n")
        sys.stdout.flush()
        await stopped.wait()


def main() -> None:
    options = _options()
    if sys.platform == "win32":
        asyncio.run(_serve(options.port, options.pace))
    else:
        import uvloop

        uvloop.run(_serve(options.port, options.pace))


if __name__ == "__main__":
    main()
