"""Declared entries of the files of a checkpoint, and growing arrays joined from their segments."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import AppendOnlyArray, IntArray
from driftsurf.core.fields import AnyArray, Array, Choice, Fields, Json, Misfit, Rule, Text, Truth, Values, Whole
from driftsurf.core.state import DTYPES, pick

__all__ = ["HEAD_FIELDS", "SEGMENT_FIELDS", "assembled"]


def assembled(
    log: Mapping[str, Any], segments: list[tuple[int, dict[str, Any]]]
) -> tuple[npt.NDArray[Any], deque[tuple[int, int]]]:
    """Return an array, put together from the segments, and which segments hold its pieces."""
    first, stop = log["first"], log["stop"]
    parts = [(number, PIECE_FIELDS.read(pick(log["id"], segment))) for number, segment in segments]
    if stop - first > sum(len(part["new"]) for _, part in parts if "new" in part):
        raise ValueError(f"the segments have fewer than {stop - first} entries")
    known: IntArray = np.zeros(stop - first, np.int64)
    pieces: deque[tuple[int, int]] = deque()
    entries = np.zeros((len(known), *log["shape"]), log["dtype"])
    for number, part in parts:
        if "new" in part:
            start, new = part["from"], part["new"]
            if start <= first:  # older entries were dropped, or are rewritten in this segment
                pieces.clear()
            if new.dtype != entries.dtype or new.shape[1:] != entries.shape[1:]:
                raise ValueError(f"segment {number} has entries of another type or shape")
            a, b = max(start, first), min(start + len(new), stop)
            if a < b:
                entries[a - first : b - first] = new[a - start : b - start]
                known[a - first : b - first] += 1
            if start + len(new) > first:
                pieces.append((start + len(new), number))
        if "at" in part:
            at, values = part["at"], part["values"]
            if values.dtype != entries.dtype or values.shape != (len(at), *entries.shape[1:]):
                raise ValueError(f"segment {number} has changed entries of another type or shape")
            live = (at >= first) & (at < stop)
            entries[at[live] - first] = values[live]
    if not known.all():
        raise ValueError("the segments do not hold all entries")
    return AppendOnlyArray(None, first, stop, lambda lo, hi: entries, ends=log["ends"]).array(), pieces


# ---------------------------------------------------------------------------- declarations


def _read_outputs(saved: Any) -> dict[str, tuple[int, str]]:
    """Return size and digest of each output file; ValueError if that is not what was saved."""
    outputs = {name: (size, expected) for name, (size, expected) in saved.items()}
    for name, (size, expected) in outputs.items():
        if not (
            Path(name).name == name and name not in ("", "..") and len(os.fsencode(name)) < 200 and "\0" not in name
        ):
            raise ValueError(f"{name!r} is not the name of a file in this folder")
        if type(size) is not int or not isinstance(expected, str):
            raise ValueError(f"{name!r} has no size and digest")
    return outputs


def _read_logs(saved: Any) -> list[dict[str, Any]]:
    """Return what is known of each growing array; StateError or ValueError if that is not what was saved."""
    logs = [LOG_FIELDS.read(log) for log in saved]
    if len({log["key"] for log in logs}) < len(logs):
        raise ValueError("two arrays have the same name")
    return logs


class _Sizes:
    """The shape of the entries of an array: a list of numbers."""

    def read(self, value: Any, known: Values) -> list[int]:
        """Return the list."""
        if not (
            isinstance(value, list)
            and len(value) <= 3
            and all(type(size) is int and 0 <= size < 2**31 for size in value)
        ):
            raise Misfit("must be a list of sizes")
        return value


LOG_FIELDS = Fields(
    {
        "key": Text(),
        "id": Text(),
        "first": Whole(),
        "stop": Whole(),
        "patched": Whole(),
        "dtype": Choice(tuple(DTYPES)),
        "shape": _Sizes(),
        "ends": Truth(),
    },
    rules=[Rule("stop", "must be at least first", lambda known: known["first"] <= known["stop"])],
)
HEAD_FIELDS = Fields(
    {
        "kind": Text(),
        "number": Whole(),
        "segment": Whole(-1),
        "segment_digest": Text(),
        "oldest": Whole(),
        "logs": Json(_read_logs),
        "outputs": Json(_read_outputs),
    },
    parts=["state"],
)
SEGMENT_FIELDS = Fields(
    {"kind": Text(), "previous": Whole(-1, "number-1"), "previous_digest": Text(), "number": Whole()}, parts=["*"]
)
PIECE_FIELDS = Fields(
    {"from": Whole(), "new": AnyArray(), "at": Array(np.int64, ("*",), least=0), "values": AnyArray()},
    optional=["from", "new", "at", "values"],
    rules=[
        Rule("new", "must be there with from", lambda known: ("new" in known) == ("from" in known)),
        Rule("values", "must be there with at", lambda known: ("at" in known) == ("values" in known)),
    ],
)
"""Saved entries of a growing array in a head, of a head, of a segment, and of a growing array in a segment."""
