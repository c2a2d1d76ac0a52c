"""Labels of classes as they are given: lists, arrays and columns of integers, booleans or text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.frames import unmasked
from driftsurf.core.input import listed
from driftsurf.core.options import shown
from driftsurf.errors import LabelError, Option, RowIndex, ShapeError

__all__ = ["check_limit", "label_array"]

NAMED = 12
"""Largest number of classes that a message lists."""


def _missing_label(row: int, value: float | None) -> LabelError:
    what = "Input y contains NaN or infinity: " if value is not None else "Input y contains a missing label: "
    end = f" is {value}. Drop unlabelled rows."
    return LabelError(what, RowIndex("y", row), end, row=row, value=value, reason="not_finite")


def label_array(y: Any) -> npt.NDArray[Any]:
    """Return labels as an array of integers, booleans or text; InputError if they are not valid."""
    if y is None:
        raise LabelError("learning requires y to be passed, but the target y is None. Pass one label for each row.")
    array = np.asarray(unmasked(y, "y"))
    if array.dtype.kind == "U" and isinstance(y, list | tuple):
        array = np.asarray(y, object)  # numpy would convert numbers among text to text
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"y must be one label for each row, but has shape {array.shape}.")
    if array.dtype.kind in "OT":
        kinds = {type(value) for value in array.tolist()}
        if all(issubclass(kind, str) for kind in kinds):
            array = array.astype(str)
        elif all(issubclass(kind, bool | int | float | np.number | np.bool_) for kind in kinds):
            array = np.array(array.tolist())
            if array.dtype.kind == "O":
                large = shown(max(array.tolist(), key=abs))
                raise LabelError(f"the label {large} is too large; class labels must be integers below 2**63.")
        else:
            for row, label in enumerate(array.tolist()):
                if label is None or (isinstance(label, float) and math.isnan(label)):
                    raise _missing_label(row, label)
            names = listed(sorted(kind.__name__ for kind in kinds))
            labels = array.tolist()
            other = next((k for k, one in enumerate(labels) if isinstance(one, str) != isinstance(labels[0], str)), 0)
            raise LabelError(
                f"Unknown label type: y contains {names}; labels must be integers, booleans or text.",
                row=other,
                value=labels[other],
            )
    if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
        raise LabelError(f"the label {array.max()} is too large; class labels must be integers below 2**63.")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            bad = int(np.argmax(~np.isfinite(array)))
            raise _missing_label(bad, float(array[bad]))
        if (array != np.floor(array)).any():
            bad = int(np.argmax(array != np.floor(array)))
            raise LabelError(
                "Unknown label type: continuous; ",
                RowIndex("y", bad),
                f" is {array[bad]}. Class labels must be integers, booleans or text. "
                "To predict numbers, use a regressor, or a learner with ",
                Option("task", "regression"),
                ".",
                row=bad,
                value=float(array[bad]),
                reason="continuous",
            )
    elif array.dtype.kind not in "iubU":
        raise LabelError(f"Unknown label type: {array.dtype}; class labels must be integers, booleans or text.")
    return array


def check_limit(labels: tuple[Any, ...], limit: int | None) -> None:
    """Raise LabelError if there are more classes than a learner supports."""
    if limit is not None and len(labels) > limit:
        raise LabelError(
            f"Only {'binary' if limit == 2 else f'{limit}-class'} classification is supported by this learner: "
            f"{labels[limit]!r} would be class {limit + 1} after {listed(labels[:limit])}. "
            "Merge classes, or use a learner with the task 'multiclass', such as SoftmaxRegression "
            f"(on the command line: --task multiclass, or with --key: --classes {','.join(map(str, labels[:NAMED]))}).",
            value=labels[limit],
            reason="too_many_classes",
        )
