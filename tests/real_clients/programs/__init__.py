"""Programs over SDKs and frameworks, one short file for each row of the table."""

from __future__ import annotations

from tests.real_clients.program import Program

PROGRAMS: tuple[Program, ...] = ()
