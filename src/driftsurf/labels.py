"""Labels and their codes: a set of classes is a value, replaced as a whole once a batch has been learnt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf._values import replace
from driftsurf.base import FloatArray, State
from driftsurf.errors import LabelError, ShapeError
from driftsurf.validation import listed

__all__ = ["Classes"]


@dataclass(frozen=True, slots=True)
class Classes:
    """The known class labels in the order of their codes, which never change.

    A closed set is given in advance and sorted; an open one grows in order of appearance.

    >>> classes, codes = Classes().read(["b", "a", "b"], 3)
    >>> classes.labels, codes
    (('b', 'a'), array([0., 1., 0.]))
    """

    labels: tuple[bool | int | float | str, ...] = ()
    closed: bool = False
    limit: int | None = None
    """The most classes that the learner can tell apart."""

    @classmethod
    def given(cls, labels: Iterable[Any], limit: int | None = None) -> Classes:
        """A closed set."""
        array = _label_array(list(labels))
        distinct = tuple(np.unique(array).tolist())
        if not distinct:
            raise LabelError("classes is empty: name every class, or leave it out.")
        _check_limit(distinct, limit)
        return cls(distinct, closed=True, limit=limit)

    @property
    def array(self) -> npt.NDArray[Any]:
        """The labels as an array, by code."""
        return np.array(self.labels) if self.labels else np.zeros(0, np.int64)

    def read(self, y: Any, count: int) -> tuple[Classes, FloatArray]:
        """The codes of ``y``, and the set that includes the labels that are new in it."""
        array = _label_array(y)
        if len(array) != count:
            raise ShapeError(f"X has {count} rows and y has {len(array)} labels: give one label for each row.")
        if not self.labels:
            return self._grown(array).read(array, count) if count else (self, np.zeros(0))
        known = self.array
        array = self._same_kind(array, known)
        if len(known) == 2 and array.dtype.kind in "iubf":
            second = array == known[1]
            if (second | (array == known[0])).all():
                return self, second.astype(np.float64)
        order = np.argsort(known)
        place = np.searchsorted(known, array, sorter=order).clip(max=len(known) - 1)
        codes = order[place]
        strange = known[codes] != array
        if not strange.any():
            return self, codes.astype(np.float64)
        return self._grown(array[strange]).read(array, count)

    def _grown(self, strange: npt.NDArray[Any]) -> Classes:
        distinct, first = np.unique(strange, return_index=True)
        new = tuple(distinct[np.argsort(first)].tolist())
        if self.closed:
            raise LabelError(
                f"y holds the unknown label {new[0]!r}; the classes of this model are {listed(self.labels)}. "
                "Correct the label, or begin a model with classes that include it."
            )
        _check_limit(self.labels + new, self.limit)
        return replace(self, labels=self.labels + new)

    def _same_kind(self, array: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if (array.dtype.kind == "U") != (known.dtype.kind == "U"):
            raise LabelError(
                f"y holds {'text' if array.dtype.kind == 'U' else 'numbers'} ({array[:1].tolist()[0]!r}), but the "
                f"classes of this model are {listed(self.labels)}. Give labels of one kind."
            )
        return array

    def state(self) -> State:
        """As flat entries."""
        limit = -1 if self.limit is None else self.limit
        return {"labels": json.dumps(self.labels), "closed": self.closed, "limit": limit}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Classes:
        """The set that gave ``state``."""
        limit = None if state["limit"] < 0 else int(state["limit"])
        return cls(tuple(json.loads(state["labels"])), bool(state["closed"]), limit)


def _label_array(y: Any) -> npt.NDArray[Any]:
    if y is None:
        raise LabelError("learning requires y to be passed, but the target y is None: give one label for each row.")
    array = np.asarray(y)
    if array.dtype.kind == "U" and isinstance(y, list | tuple):
        array = np.asarray(y, object)  # numpy would write numbers among text as text
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
        else:
            names = listed(sorted(kind.__name__ for kind in kinds))
            raise LabelError(f"Unknown label type: y holds {names}; labels are whole numbers, booleans or text.")
    if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
        raise LabelError(f"the label {array.max()} is too large: class labels are whole numbers below 2**63.")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            bad = int(np.argmax(~np.isfinite(array)))
            raise LabelError(f"Input y contains NaN or infinity: y[{bad}] is {array[bad]}. Drop unlabelled rows.")
        if (array != np.floor(array)).any():
            bad = int(np.argmax(array != np.floor(array)))
            raise LabelError(
                f"Unknown label type: continuous. y[{bad}] is {array[bad]}; class labels are whole numbers, "
                "booleans or text. For values to predict, use a regressor."
            )
    elif array.dtype.kind not in "iubU":
        raise LabelError(f"Unknown label type: {array.dtype}; class labels are whole numbers, booleans or text.")
    return array


def _check_limit(labels: tuple[Any, ...], limit: int | None) -> None:
    if limit is not None and len(labels) > limit:
        raise LabelError(
            f"Only {'binary' if limit == 2 else f'{limit}-class'} classification is supported by this learner: "
            f"{labels[limit]!r} would be class {limit + 1} beside {listed(labels[:limit])}. "
            "Merge classes, or use a learner for more."
        )
