"""Every exception that recorder raises on purpose.

    RecorderError              exit 1: something failed; the message says what to do next
    ├── UsageError             exit 2: the request itself makes no sense as it stands
    ├── NotFoundError          exit 3: what was asked for is not there
    ├── StoreError             exit 1: the database refused (not writable, newer, foreign, full)
    │   ├── StoreBusyError             another process holds it; the same call may succeed later
    │   ├── StoreLostError             its file was deleted or replaced while it was open: open it again
    │   └── StoreConflictError         other content stands at that position of the log
    └── UpstreamError          exit 1: the upstream could not be reached, or broke off

Foreign exceptions are translated into these in one place per library.
"""


class RecorderError(Exception):
    """Something failed. The message is one sentence for a person and says what to do next."""

    exit_code = 1


class UsageError(RecorderError):
    """The request makes no sense as it stands: an ambiguous name, a combination that cannot be."""

    exit_code = 2


class NotFoundError(RecorderError):
    """What was asked for is not there."""

    exit_code = 3


class StoreError(RecorderError):
    """The database refused. Nothing was written."""


class StoreBusyError(StoreError):
    """The database is locked or full just now. The same call may succeed later."""


class StoreLostError(StoreError):
    """The database file was deleted or replaced while it was open. Open it again and repeat the transaction."""


class StoreConflictError(StoreError):
    """Other content already stands at that position of the log, or a position would be skipped."""


class UpstreamError(RecorderError):
    """The upstream could not be reached, or broke off in mid-response.

    `outcome` is how the exchange ended, in the words of `recorder.model.events.Outcome`; `status` what a client is
    answered that has no response yet (502, or 503 where it may try again).
    """

    def __init__(self, message: str, outcome: str, *, status: int = 502) -> None:
        super().__init__(message)
        self.outcome, self.status = outcome, status
