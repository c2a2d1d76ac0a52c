"""Encode tables as rows of numbers and read their target: the two belong together and are saved together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from driftsurf.core.contracts import State
from driftsurf.core.fields import Converted, Fields, Text
from driftsurf.core.state import nest, pick
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.row_time import first_time
from driftsurf.data.tables import Table
from driftsurf.data.target import Target

__all__ = ["RowEncoder"]


@dataclass(slots=True)
class RowEncoder:
    """The encoder of the columns that a model sees, and the target that it predicts."""

    encoder: TableEncoder
    target: Target
    hidden: Collection[str] = ()
    """Columns besides the target that the model does not see."""
    time: str | None = None
    """Column that dates the rows, if there is one."""
    first_time: str = ""
    """Time of the first row of the last table, in ISO format; "" if it is not known."""

    def rows(self, table: Table) -> Any:
        """Return the rows of a table as numbers, for a session. The first table fixes the layout."""
        seen = table.without(self.target.column, *self.hidden)
        if self.time is not None:
            self.first_time = first_time(table, self.time) or self.first_time
        encoder = self.encoder if self.encoder.fitted else self.encoder.fit(seen)
        return encoder.rows(seen)

    def state(self) -> State:
        """Return the layout, once it is fixed, and the target as a flat state."""
        state: State = {"target": self.target.to_json(), "first_time": self.first_time}
        return state | nest("encoder", self.encoder.state() if self.encoder.fitted else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state()`` returned."""
        known, saved = FIELDS.read(state), pick("encoder", state)
        encoder = TableEncoder.from_state(saved) if saved else self.encoder
        self.target, self.first_time, self.encoder = known["target"], known.get("first_time", ""), encoder


FIELDS = Fields(
    {"target": Converted(Target.from_json), "first_time": Text()}, optional=["first_time"], parts=["encoder"]
)
"""Saved entries of a row encoder."""
