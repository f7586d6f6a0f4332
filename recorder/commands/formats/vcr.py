"""YAML for vcrpy and pytest-recording."""

from __future__ import annotations

from recorder.archive.opening import open_log
from recorder.cassettes.vcr import writer as vcr
from recorder.commands.formats.exchanges import one_by_one, readable
from recorder.commands.terminal.catch_up import current_url
from recorder.commands.terminal.output import echo, write_bytes
from recorder.commands.terminal.selection import select
from recorder.errors import NotFoundError
from recorder.wire.turns import is_connection


async def write(db: str | None, session: str, exchange: str | None) -> None:
    async with await open_log(current_url(db)) as log:
        found, chosen = await select(log, session, exchange)
        opening = vcr.OPENING
        async for each in one_by_one(log, found, chosen):
            if lost := vcr.inexpressible(readable(each)):
                echo(f"Exchange {each.number} {lost}.")
            if each.response is not None and not is_connection(each):
                write_bytes(opening + vcr.interaction(each, was_imported=found.origin == "import"))
                opening = b""
        if opening:
            raise NotFoundError(f"There is no exchange with a response in session {found.name}: VCR knows no others.")
        write_bytes(vcr.CLOSING)
