"""Findings as lines for people, in commands that verify what they read."""

from __future__ import annotations

from recorder.store.maintain.verify.log import LogFinding


def bad_line(session_id: str, finding: LogFinding) -> str:
    """Return a finding with its place. Ids in it may be anything: whoever changed them wrote what he liked."""
    exchange = f"/{finding.exchange_id}" if finding.exchange_id else ""
    pos = "" if finding.pos is None else f" @{finding.pos}"
    return f"bad     {session_id}{exchange}{pos}: {finding.message}"
