"""Every exception that recorder raises on purpose.

    RecorderError              exit 1: something failed; the message says what to do next
    ├── UsageError             exit 2: the call makes no sense
    ├── NotFoundError          exit 3: the session, file or exchange does not exist
    ├── StoreError             exit 1: the database refused (not writable, newer, foreign, full)
    │   ├── StoreBusyError             another process holds it; the same call may succeed later
    │   ├── StoreLostError             its file was deleted or replaced while it was open: open it again
    │   └── StoreConflictError         the log has other content at that position
    ├── BucketError            exit 1: an object store refused or is away: the same call may succeed later
    └── UpstreamError          exit 1: the upstream could not be reached, or broke off

Foreign exceptions are translated into these in one place per library.
"""


class RecorderError(Exception):
    """A failure. Its message is one sentence for a person, with what to do next."""

    exit_code = 1


class UsageError(RecorderError):
    """A call that makes no sense: an ambiguous name, options that exclude each other."""

    exit_code = 2


class NotFoundError(RecorderError):
    """A session, file or exchange that does not exist."""

    exit_code = 3


class StoreError(RecorderError):
    """A refusal of the database. Nothing was written."""


class StoreBusyError(StoreError):
    """A database that is locked or full. The same call may succeed later."""


class StoreLostError(StoreError):
    """A database file that was deleted or replaced while it was open.

    Open it again and repeat the transaction.
    """


class StoreConflictError(StoreError):
    """A position of the log that has other content already, or that would leave a hole before it."""


class BucketError(RecorderError):
    """An object store that refused, or that is away. The same call may succeed later."""


class UpstreamError(RecorderError):
    """An upstream that could not be reached, or that broke off in mid-response.

    `outcome` is the end of the exchange, a `recorder.model.events.Outcome`. `status` is for a
    client without a response yet: 502, or 503 if it may retry. `close` is the Close frame that
    ended a WebSocket connection: code and reason.
    """

    def __init__(
        self, message: str, outcome: str, *, status: int = 502, close: tuple[int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.outcome, self.status, self.close = outcome, status, close


def missing_extra(what: str, extra: str) -> RecorderError:
    """Return the error for what needs an extra that is not installed: the one place that says how
    to get it.

    The name of the distribution is not registered while there is no release: what works is a
    checkout, or a wheel.
    """
    return RecorderError(
        f"{what} needs the extra {extra}: run `pip install '.[{extra}]'` in a checkout of recorder, "
        f"or `pip install 'PATH[{extra}]'` with the path of its wheel."
    )
