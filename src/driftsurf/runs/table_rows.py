"""A batch of a table: rows with a label, which are learned, and rows without one, which are only predicted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.json_text import parse_json
from driftsurf.data.tables import Table
from driftsurf.runs.label_places import LabelPlaces
from driftsurf.runs.predictions import Predicted, PredictionBatch

__all__ = ["TableRows", "orphan_labels", "orphan_line", "table_rows", "text_of", "unlabelled_line", "unlabelled_rows"]

UNLABELLED = "unlabelled"
ORPHANS = "orphans"
"""Kind of the lines of a journal that count rows without a label."""


class TableRows(NamedTuple):
    """Encoded rows of a table, in their order."""

    X: Any
    labelled: npt.NDArray[np.bool_]
    """Which rows have a label."""
    ids: list[str] | None = None
    """Ids of the rows, if the run has a column of ids."""
    places: LabelPlaces | None = None
    """Where the labels stand in the source, if it is known."""

    @property
    def to_learn(self) -> Any:
        """The rows with a label."""
        return self.X if self.labelled.all() else self.X[self.labelled]

    @property
    def to_predict(self) -> Any:
        """The rows without a label."""
        return self.X[~self.labelled]

    def predictions(
        self, learned: Predicted, y: npt.NDArray[Any], bare: Predicted | None, *, regression: bool
    ) -> PredictionBatch:
        """Return the predictions of all rows in their order.

        Parameters
        ----------
        learned, y
            Predictions and labels of the rows with a label.
        bare
            Predictions of the rows without one; None if there are none.
        regression
            Whether numbers are predicted, which have no probability.
        """
        count = len(self.labelled)
        order = np.argsort(np.concatenate([np.flatnonzero(self.labelled), np.flatnonzero(~self.labelled)])).tolist()
        parts = [learned] if bare is None else [learned, bare]
        chosen = None if regression else _ordered([part.probability for part in parts], order)
        return PredictionBatch(
            0,
            _ordered([[part.version] * len(part.labels) for part in parts], order),
            _ordered([part.labels for part in parts], order),
            chosen,
            _ordered([y.tolist(), [None] * (count - len(y))], order),
            None if self.ids is None else list(self.ids),
            {name: _ordered([part.by_class[name] for part in parts], order) for name in learned.by_class},
        )


def table_rows(rows: Any, labels: Any) -> TableRows:
    """Return a batch with which of its rows have a label: all of them, unless it says otherwise."""
    return rows if isinstance(rows, TableRows) else TableRows(rows, np.ones(len(labels), bool))


def _ordered(parts: Iterable[Sequence[Any]], order: Iterable[int]) -> list[Any]:
    values = [one for part in parts for one in part]
    return [values[place] for place in order]


def text_of(table: Table, name: str) -> list[str]:
    """Return the cells of a column as text; a missing one is empty."""
    column = table[name].as_text()
    return [column.words[code] if code >= 0 else "" for code in column.values.tolist()]


def unlabelled_line(step: int, rows: int, total: int) -> str:
    """Return a line of the journal: rows of a step that have no label, and how many there are so far."""
    return json.dumps({"type": UNLABELLED, "step": step, "rows": rows, "total": total}, separators=(",", ":")) + "\n"


def unlabelled_rows(journal: str) -> int:
    """Return how many rows without a label a journal counts.

    >>> unlabelled_rows(unlabelled_line(0, 5, 5) + unlabelled_line(3, 2, 7))
    7
    """
    return _last_total(journal, UNLABELLED)


def orphan_line(step: int, total: int) -> str:
    """Return a line at the end of the journal: how many labels have no row."""
    return json.dumps({"type": ORPHANS, "step": step, "total": total}, separators=(",", ":")) + "\n"


def orphan_labels(journal: str) -> int:
    """Return how many labels without a row a journal counts.

    >>> orphan_labels(orphan_line(9, 3))
    3
    """
    return _last_total(journal, ORPHANS)


def _last_total(journal: str, kind: str) -> int:
    lines = [line for line in journal.splitlines() if line.startswith(f'{{"type":"{kind}"')]
    return int(parse_json(lines[-1])["total"]) if lines else 0
