"""Rows that wait for their labels: their keys, what is saved of them, and how it is checked when it is loaded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from driftsurf.core.fields import FieldRule, Fields, Json, Real, Values
from driftsurf.core.frames import unmasked
from driftsurf.errors import InputError, ShapeError
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.label_joiner import LEARNED, LOST

Key: TypeAlias = str | int
"""Key under which a row waits: the only types that a saved state can hold."""


class Waiting(NamedTuple):
    """A row that waits for its label."""

    row: int
    """Number of the row, in the order in which rows came."""
    predicted: Any
    """Prediction that was made when the row came; None if there was no model yet."""
    version: int
    """Number of time steps that the model behind the prediction had learned."""
    time: float
    """When the row came."""


def _read_waiting(saved: Any) -> OrderedDict[Key, Waiting]:
    """Return the saved waiting rows by key; ValueError if they are not valid."""
    waiting = OrderedDict((key, Waiting(*rest)) for key, *rest in saved)
    for one in waiting.values():
        if not (type(one.row) is int and type(one.version) is int and one.version >= 0 and type(one.time) is float):
            raise ValueError(f"{one!r} is not a row that waits")
        if not isinstance(one.predicted, str | int | float | None):
            raise ValueError(f"{one.predicted!r} is not a prediction")
    _check_keys(waiting, len(saved))
    return waiting


def _read_known_keys(saved: Any, became: int) -> OrderedDict[Key, int]:
    """Return saved keys with what became of their rows; ValueError if they are not valid."""
    keys = OrderedDict.fromkeys(saved, became)
    _check_keys(keys, len(saved))
    return keys


def _read_held(saved: Any) -> OrderedDict[Key, Any]:
    """Return saved labels by key; ValueError if they are not valid."""
    held = OrderedDict((key, label) for key, label in saved)
    _check_keys(held, len(saved))
    if not all(isinstance(label, str | int | float) for label in held.values()):
        raise ValueError("labels must be text or numbers")
    return held


def _check_keys(keys: Iterable[Any], count: int) -> None:
    if not all(type(key) in (str, int) for key in keys) or len(list(keys)) != count:
        raise ValueError("keys must be text or integers, and distinct")


def _are_stored(known: Values) -> bool:
    """Return whether the waiting rows are in the store, in the order of their arrival."""
    rows, stored = [one.row for one in known["waiting"].values()], known["stored"]
    return rows == sorted(set(rows)) and (not rows or (stored.lo <= rows[0] and rows[-1] < stored.hi))


FIELDS = Fields(
    {
        "now": Real(finite=False),
        "counts": Json(LabelCounts.from_saved),
        "waiting": Json(_read_waiting),
        "learned": Json(partial(_read_known_keys, became=LEARNED)),
        "lost": Json(partial(_read_known_keys, became=LOST)),
        "early": Json(_read_held),
        "ready": Json(_read_held),
    },
    optional=["early", "ready"],  # states of earlier versions do not have them
    parts=["schema", "samples", "model"],
    rules=[
        FieldRule(
            "counts",
            "must have errors exactly for classes",
            lambda known: (known["counts"].errors is not None) == known["counted"],
        ),
        FieldRule("waiting", "must be rows of the store, in order", _are_stored),
        FieldRule(
            "early",
            "must be labels of no row that waits",
            lambda known: not known.get("early", {}).keys() & known["waiting"].keys(),
        ),
        FieldRule(
            "ready",
            "must be labels of rows that wait",
            lambda known: known.get("ready", {}).keys() <= known["waiting"].keys(),
        ),
    ],
)
"""Saved entries of late labels."""


def read_keys(keys: Iterable[Any], count: int | None) -> list[Key]:
    """Return keys as text or integers, the only types that a saved state can hold."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise InputError(f"keys is {keys!r}; pass a list with one key for each row")
    read: list[Key] = []
    for key in unmasked(keys, "keys"):
        plain: Hashable = key.item() if isinstance(key, np.generic) else key
        if isinstance(plain, bool) or not isinstance(plain, str | int):
            raise InputError(f"the key {key!r} is neither text nor an integer")
        read.append(str(plain) if isinstance(plain, str) else int(plain))
    if count is not None and len(read) != count:
        raise ShapeError(f"there are {len(read)} keys for {count} rows; pass one key for each row.")
    return read
