"""YAML for vcrpy and pytest-recording."""

from __future__ import annotations

from recorder.cassettes.vcr import writer as vcr
from recorder.commands.formats.exchanges import ExportSource, readable
from recorder.commands.terminal.output import echo, write_bytes
from recorder.errors import NotFoundError
from recorder.wire.turns import is_connection


async def write(source: ExportSource) -> None:
    session = source.session
    opening = vcr.OPENING
    async for recording in source.recordings():
        if lost := vcr.inexpressible(readable(recording)):
            echo(f"Exchange {recording.number} {lost}.")
        if recording.response is not None and not is_connection(recording):
            write_bytes(
                opening + vcr.interaction(recording, was_imported=session.origin == "import")
            )
            opening = b""
    if opening:
        raise NotFoundError(
            f"There is no exchange with a response in session {session.name}: VCR knows no others."
        )
    write_bytes(vcr.CLOSING)
