"""A served model that is fed by a built-in stream with drifts, for a first look."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from driftsurf.core.changes import Background
from driftsurf.data.tables import Column, Table
from driftsurf.errors import DriftsurfError
from driftsurf.service.settings import ServedOptions
from driftsurf.streams import Mixed

if TYPE_CHECKING:
    from driftsurf.service.opening import Served


log: logging.Logger = logging.getLogger("driftsurf.service")
NAMES = "switch", "valve", "pressure", "level"
DEMO_MODEL: Final = ServedOptions(
    label="failed",
    task="binary",
    model="driftsurf",
    columns={"switch": "boolean", "valve": "boolean", "pressure": "number", "level": "number"},
    classes=("no", "yes"),
    batch_size=100,
    parameters={"threshold": 0.3},  # the risk of a batch of 100 rows is noisy; a reversal raises it by more than 1
)
"""What the demo serves: four columns, and whether a machine fails."""
ROWS = 100
"""Rows of each request."""
ROWS_OF_A_STREAM = 20_000
"""The concept changes four times within this many rows."""
LATE = 3
"""Labels come this many requests after their rows."""


class Demo(Background):
    """Context in which rows come several times a second, their labels a little later, and drifts every half minute.

    Parameters
    ----------
    served
        The model.
    seconds
        Time between two requests.
    """

    def __init__(self, served: Served, seconds: float = 0.5) -> None:
        super().__init__("demo")
        self.served = served
        self.seconds = seconds

    def _work(self) -> None:
        waiting: deque[dict[str, Any]] = deque()
        for number, (table, labels) in enumerate(batches()):
            if self._ended.wait(self.seconds):
                return
            ids = [f"row-{number * ROWS + row}" for row in range(len(table))]
            try:
                self.served.predict(table, ids)
                waiting.append(dict(zip(ids, labels, strict=True)))
                if len(waiting) > LATE:
                    self.served.label(waiting.popleft()).result()
            except DriftsurfError as error:
                log.warning("the demo could not send its rows: %s", error)


def batches() -> Iterator[tuple[Table, list[str]]]:
    """Yield rows of the demo and their labels, without end."""
    for seed in count():
        for X, y in Mixed(n_rows=ROWS_OF_A_STREAM, seed=seed).batches(ROWS):
            kinds = DEMO_MODEL.columns.values()
            columns = {
                name: Column(kind, np.ascontiguousarray(values))  # type: ignore[arg-type]
                for name, kind, values in zip(NAMES, kinds, X.T, strict=True)
            }
            yield Table(columns), ["yes" if label > 0 else "no" for label in y]
