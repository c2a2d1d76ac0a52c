"""Operator orders: small files beside the checkpoints of a run, each carried out once, in the order of numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from driftsurf.core import drifts, files
from driftsurf.core.files import parse_json
from driftsurf.core.options import choice
from driftsurf.errors import StateError

KINDS = "pin", "unpin", "reset", "rollback", "mark"
FOLDER = "orders"

Outcome: TypeAlias = Literal["done", "refused"]
Refusal: TypeAlias = Literal[
    "", "late-labels", "nothing-learned", "no-checkpoints", "no-such-model", "no-such-drift", "cannot-learn"
]
"""Why an order was refused: a model whose labels come late cannot be pinned, one that has learned nothing cannot be
reset, a run without checkpoints cannot be rolled back; a challenger or a drift may be missing, or a challenger fail at
the rows."""
MARKS = *drifts.MARKS, "none"
"""What an order may say about a drift; "none" takes back what was said."""


class PendingOrder(NamedTuple):
    """An order that waits to be carried out."""

    number: int
    kind: str
    to: int | None = None
    """For "rollback": the number of the checkpoint whose model to return to."""
    mark: str = ""
    """For "mark": what is said about a drift, one of ``MARKS``."""
    drift: int | None = None
    """For "mark": the number of the drift; None for the newest one."""


@dataclass(frozen=True, slots=True)
class OrderRecord:
    """An order and its outcome, as a line of the journal.

    >>> OrderRecord.from_dict(parse_json(OrderRecord(1, "pin", 20, "done", pinned=True).line())).pinned
    True
    """

    number: int
    kind: str
    step: int
    """The first step after the order."""
    outcome: Outcome
    reason: Refusal = ""
    """Why the order was refused; empty if it was carried out."""
    pinned: bool = False
    """Whether the model is pinned after the order."""
    to: int | None = None
    """For "rollback": the number of the checkpoint."""
    text: str = ""
    """The outcome as a sentence. Nothing may be decided by it."""
    model: str = ""
    """The challenger that the order is about, if it is about one."""
    by: str = ""
    """Who gave the order, if that is known."""
    mark: str = ""
    """For "mark": what was said about a drift."""
    drift: int | None = None
    """For "mark": the number of the drift."""

    def line(self) -> str:
        """Return the line of the journal."""
        optional = "model", "by", "mark", "drift"
        fields = {
            name: value for name, value in asdict(self).items() if value not in ("", None) or name not in optional
        }
        record = {"type": "order", "order": fields.pop("kind"), **fields}
        return json.dumps(record, separators=(",", ":")) + "\n"

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the record that a parsed line of the journal holds."""
        fields = {key: value for key, value in record.items() if key not in ("type", "order")}
        return cls(kind=record["order"], **fields)


OrderReport: TypeAlias = Callable[[OrderRecord], None]
"""Called with an order and its outcome."""


def read_records(journal: str) -> list[OrderRecord]:
    """Return the orders among the lines of a journal."""
    # Most lines are steps, which need not be parsed for this.
    records = [parse_json(line) for line in journal.splitlines() if '"order"' in line]
    return [OrderRecord.from_dict(record) for record in records if record["type"] == "order"]


def submit(
    folder: str | Path, kind: str, to: int | None = None, *, mark: str = "", drift: int | None = None
) -> PendingOrder:
    """Write an order for the run with this checkpoint folder, whether it is running or not."""
    choice("order", kind, KINDS)
    if kind == "mark":
        choice("mark", mark, MARKS)
    place = Path(folder) / FOLDER
    files.make_folder(place)
    number = max([0, *_numbers(place)]) + 1
    while True:
        order = PendingOrder(number, kind, to, mark, drift)
        record = {"order": kind, "to": to} | ({"mark": mark, "drift": drift} if kind == "mark" else {})
        try:
            files.write_new(place / f"{number:06d}.json", json.dumps(record).encode())
        except FileExistsError:  # another operator took the number in the meantime
            number += 1
            continue
        files.sync_folder(place)
        return order


def clear(folder: Path) -> None:
    """Remove all orders: they were given to a run that is replaced by another."""
    place = folder / FOLDER
    for number in _numbers(place) if files.is_folder(place) else ():
        files.remove(place / f"{number:06d}.json")


def waiting(folder: Path, done: int) -> list[PendingOrder]:
    """Return the orders with a number above ``done``."""
    place = folder / FOLDER
    if not files.is_folder(place):
        return []
    found = []
    for number in _numbers(place):
        if number <= done:
            continue
        try:
            record = parse_json(files.read_bytes(place / f"{number:06d}.json"))
            kind, to = record["order"], record["to"]
            mark, drift = (record["mark"], record["drift"]) if kind == "mark" else ("", None)
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"order {number} in {place} cannot be read ({error}); remove the file") from error
        choice("order", kind, KINDS)
        if kind == "rollback" and type(to) is not int:
            raise StateError(
                f"order {number} in {place} is a rollback to {to!r}, which is not the number of a checkpoint; "
                "remove the file"
            )
        if kind == "mark":
            choice("mark", mark, MARKS)
        found.append(PendingOrder(number, kind, to, mark, drift))
    return found


def _numbers(place: Path) -> list[int]:
    return [int(name[:-5]) for name in files.names(place) if name.endswith(".json") and name[:-5].isdigit()]
