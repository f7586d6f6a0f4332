"""An exchange of the log as it stands, or stood: folded on the fly with the functions that fill the projections."""

from __future__ import annotations

from recorder.errors import RecorderError
from recorder.model.events import Exchange
from recorder.projections.fold import Folding, Rows
from recorder.store.reader import LogReader


async def folded(log: LogReader, exchange: Exchange, *, at_pos: int | None = None, at_ns: int | None = None) -> Rows:
    """The events of an exchange, up to a position or a time since it began if one is given.

    Raises `RecorderError` if a fold fails, which is a fault of this program: `recorder events` still shows the log.
    """
    folding = Folding(exchange)
    earlier = await log.earlier_events(exchange)
    try:
        for event in earlier:
            folding.recall(event)
        async for event in log.events(exchange.session_id, exchange.exchange_id):
            if (at_pos is not None and event.pos > at_pos) or (at_ns is not None and event.t_ns > at_ns):
                break
            folding.tell(event)
        return folding.rows()
    except RecorderError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        message = f"recorder cannot make sense of exchange {exchange.exchange_id}, please report it: {reason}"
        raise RecorderError(message) from error
