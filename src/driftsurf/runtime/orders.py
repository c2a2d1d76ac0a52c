"""What an operator asks of a run: small files beside its checkpoints, carried out in their order, each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from driftsurf._options import choice
from driftsurf.errors import StateError
from driftsurf.runtime import files

__all__ = ["KINDS", "Order", "give", "waiting"]

KINDS = "pin", "unpin", "reset", "rollback"
FOLDER = "orders"


class Order(NamedTuple):
    """One thing to do."""

    number: int
    kind: str
    to: int | None = None
    """For "rollback": the checkpoint whose model to return to."""


def give(folder: Path, kind: str, to: int | None = None) -> Order:
    """Leave an order for the run with this checkpoint folder, running or not."""
    choice("order", kind, KINDS)
    place = folder / FOLDER
    files.make_folder(place)
    number = max([0, *_numbers(place)]) + 1
    while True:
        order = Order(number, kind, to)
        try:
            files.write_new(place / f"{number:06d}.json", json.dumps({"order": kind, "to": to}).encode())
        except FileExistsError:  # somebody else was faster
            number += 1
            continue
        files.sync_folder(place)
        return order


def waiting(folder: Path, done: int) -> list[Order]:
    """The orders with a number above ``done``."""
    place = folder / FOLDER
    if not files.is_folder(place):
        return []
    found = []
    for number in _numbers(place):
        if number <= done:
            continue
        try:
            said = json.loads(files.read_bytes(place / f"{number:06d}.json"))
            kind, to = said["order"], said["to"]
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(f"order {number} in {place} cannot be read ({error}); remove the file") from error
        choice("order", kind, KINDS)
        if kind == "rollback" and type(to) is not int:
            raise StateError(f"order {number} in {place} is a rollback to {to!r}, no checkpoint; remove the file")
        found.append(Order(number, kind, to))
    return found


def _numbers(place: Path) -> list[int]:
    return [int(name[:-5]) for name in files.names(place) if name.endswith(".json") and name[:-5].isdigit()]
