"""The folds of the projections by name, in the order in which they make their rows.

A further projection is a module with a fold, its line here, and its row and its table in `recorder.projections.rows`.
"""

from __future__ import annotations

from collections.abc import Mapping

from recorder.projections.exchanges import Exchanges
from recorder.projections.history import History
from recorder.projections.items import Items
from recorder.projections.iterations import Iterations
from recorder.projections.parameters import Parameters
from recorder.projections.phases import Phases
from recorder.projections.projection import Make
from recorder.projections.prompts import Prompts
from recorder.projections.requests import Requests
from recorder.projections.results import Results
from recorder.projections.usage import UsageFold
from recorder.projections.user_texts import UserTexts

FOLDS: Mapping[str, Make] = {
    "exchanges": Exchanges,
    "items": Items,
    "phases": Phases,
    "usage": UsageFold,
    "results": Results,
    "history": History,
    "requests": Requests,
    "user_texts": UserTexts,
    "parameters": Parameters,
    "prompts": Prompts,
    "iterations": Iterations,
}
"""Those of timing and anomalies are not here: other folds report to them, so `recorder.projections.fold` makes them."""
