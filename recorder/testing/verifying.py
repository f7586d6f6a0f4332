"""Mode `verify`: what the upstream answers now, compared with what a cassette has. Nothing is written.

Rules of this file:

* Both sides are redacted before they are compared: a message is in logs of CI, and has no private value.
* Two runs of a model never say the same: what is compared is chosen by levels of `recorder.diff`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recorder.diff import Report, Terms, diff
from recorder.diff.rendering import Rendering
from recorder.model.recording import Recording
from recorder.model.text import safe_text
from recorder.recordings.session import RecordedSession
from recorder.testing.clearing import redacted_rows
from recorder.testing.saving import is_shared, of_test
from recorder.testing.settings import Settings
from recorder.wire.recording import recording_of

LINES = 60  # of a message: a provider that changed its format differs in every exchange


def deviations(chosen: Settings, there: RecordedSession, recorded: Sequence[Recording]) -> list[str]:
    """Return a message on how the upstream's answers differ from a cassette; nothing if they do not.

    Raises `RecorderError` if one of the two cannot be redacted.
    """
    report = _compared(chosen, there, recorded)
    if report.is_equal:
        return []
    lines = [safe_text(line.plain) for line in Rendering().lines(report)]
    more = [f"  and {len(lines) - LINES} lines more"] if len(lines) > LINES else []
    return [
        f"recorder: the upstream does not answer as {chosen.source} does. "
        f"A is what was recorded, B what came now; compared: {', '.join(report.levels)}.",
        *lines[:LINES],
        *more,
        *_advice(chosen),
    ]


def _compared(chosen: Settings, there: RecordedSession, recorded: Sequence[Recording]) -> Report:
    own = of_test(there, chosen)
    one, other = (_redacted(chosen, there, each) for each in (own, recorded))
    continued = (there.continued, ())
    report = diff(one, other, chosen.levels, Terms(rules=chosen.rules), continued)
    others_may_ask = len(own) == len(there.recordings) and is_shared(there, chosen)
    return msgspec.structs.replace(report, missing=[]) if others_may_ask else report


def _redacted(chosen: Settings, there: RecordedSession, recordings: Sequence[Recording]) -> list[Recording]:
    if chosen.redactions.are_none:
        return list(recordings)
    rows = redacted_rows(there.session, recordings, chosen.redactions)
    return [recording_of(*row, number=each.number) for row, each in zip(rows, recordings, strict=True)]


def _advice(chosen: Settings) -> list[str]:
    if chosen.session is not None:
        return []
    return ["If that is how it is now, record it again:", f"  {chosen.how_to('rewrite')}"]
