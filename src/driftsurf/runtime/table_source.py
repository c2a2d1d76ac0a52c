"""Tables as the source of a run: encoded by a layout that the first batch fixes, with their labels beside them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.base import CSR, State
from driftsurf.encoding import TableEncoder
from driftsurf.errors import LabelError, Option, StateError
from driftsurf.runtime.feed import Feed
from driftsurf.runtime.source import Position
from driftsurf.runtime.target import Target
from driftsurf.state import nest, pick
from driftsurf.tables import Table

__all__ = ["Encoded", "TableSource", "kept_rows"]


@dataclass(slots=True)
class Encoded:
    """What makes rows of numbers of tables, and is saved with a run: the encoder and the target."""

    encoder: TableEncoder
    target: Target
    hidden: Collection[str] = ()
    """Columns beside the target that the model does not see."""

    def rows(self, table: Table) -> Any:
        """The rows of a table; the first one fixes the layout."""
        seen = table.without(self.target.column, *self.hidden)
        return self.encoder.partial_fit(seen).transform(seen)

    def state(self) -> State:
        """The layout, once there is one, and the target."""
        state: State = {"target": self.target.to_json()}
        return state | nest("encoder", self.encoder.state() if self.encoder.fitted else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self.target = Target.from_json(str(state["target"]))
        saved = pick("encoder", state)
        if saved:
            self.encoder = TableEncoder.from_state(saved)


class TableSource:
    """Labelled rows from tables. A row without a label is a bad row.

    Parameters
    ----------
    feed
        Where the tables come from.
    encoded
        How they become rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from driftsurf.runtime.target import find_target
    >>> from driftsurf.sources import Source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,city,sold\\n1.5,Rome,yes\\n2,Oslo,no\\n3,Rome,yes\\n")
    >>> feed = Feed(Source(path, batch_size=2))
    >>> source = TableSource(feed, Encoded(TableEncoder(), find_target("sold", "auto", feed.first())))
    >>> [(X.shape, y.tolist(), place["rows"]) for X, y, place in source.batches()]
    [((2, 13), ['yes', 'no'], 2), ((1, 13), ['yes'], 3)]
    """

    labels: tuple[Any, ...] = ()

    def __init__(self, feed: Feed, encoded: Encoded) -> None:
        self.feed = feed
        self.encoded = encoded
        self.skipped = 0
        """Bad rows that were told: those before a batch that nobody took, as a signal came, are read again."""

    def batches(self, position: Position = None) -> Iterator[tuple[Any, Any, Position]]:
        """Rows, their labels, and the place after them."""
        for table, place in self.feed.tables(position):
            labelled = self._labelled(table, place)
            if len(labelled):
                yield self.encoded.rows(labelled), self.encoded.target.read(labelled), place

    def _labelled(self, table: Table, place: Mapping[str, Any]) -> Table:
        missing = self.encoded.target.missing(table)
        if not missing.any():
            return table
        column, first = self.encoded.target.column, place["rows"] - len(table)
        for row in np.flatnonzero(missing).tolist():
            reason = f"the label {column!r} is missing"
            if self.feed.source.on_bad_row == "fail":
                raise LabelError(
                    f"{place['file']}, row {first + row}: {reason} ({int(missing.sum())} such rows in this batch). "
                    "Leave them out with ",
                    Option("on_bad_row", "skip"),
                    ", or give the labels in a file of their own.",
                )
            self.feed.skip({"file": place["file"], "row": first + row, "reason": reason})
        return kept_rows(table, ~missing)

    def bad_rows(self) -> str:
        """Lines of JSON for the bad rows since the last call; from now on they count."""
        self.skipped = self.feed.skipped
        return self.feed.bad_rows()

    def state(self) -> State:
        """The encoder, the target, and the number of bad rows."""
        return self.encoded.state() | {"skipped": self.skipped}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        try:
            self.encoded.restore(state)
            self.skipped = self.feed.skipped = int(state["skipped"])
        except KeyError as error:
            raise StateError(f"the checkpoint is not one of a run over tables: it has no {error}") from error


def kept_rows(table: Table, kept: npt.NDArray[np.bool_]) -> Table:
    """The rows of a table for which ``kept`` is true."""
    features = table.features
    if features is not None:
        a, b = int(features.indptr[0]), int(features.indptr[-1])
        lengths = np.diff(features.indptr)
        entries = np.repeat(kept, lengths)
        ends = np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int64)
        features = CSR(features.data[a:b][entries], features.indices[a:b][entries], ends, features.n_features)
    return Table({name: column[kept] for name, column in table.columns.items()}, features)
