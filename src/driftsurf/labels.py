"""What is predicted: classes and their codes, or values. Both read targets and say what scores mean.

A set of classes is a value, replaced as a whole once a batch has been learnt.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf import _kernels
from driftsurf.base import Capabilities, FloatArray, IntArray, State
from driftsurf.errors import LabelError, NonFiniteError, ShapeError, ValueTypeError
from driftsurf.validation import listed

__all__ = ["Classes", "Values", "targets_of"]

PLAIN = int, str, bool, float
"""Types of labels that can be compared with any other."""
NAMED = 12
LARGEST_VALUE = 1e150
"""Squares of larger values, summed, leave all numbers."""
"""Classes that a remedy names."""
LABELS = "for labels, use a classifier (a learner with the task 'binary' or 'multiclass')."


@dataclass(frozen=True)
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

    def agreed(self, classes: Any, begun: bool) -> Classes:
        """The set to go on with where a call names its classes (None: it does not)."""
        if classes is None:
            return self
        given = Classes.given(classes, self.limit)
        if not begun and not self.closed:
            return given
        if set(given.labels) != set(self.labels):
            raise LabelError(
                f"classes is {list(given.labels)}, but this model began with {list(self.labels)}. "
                "Leave classes out after the first call, or begin a new model."
            )
        return self

    @property
    def n_classes(self) -> int:
        """For how many classes a model is made."""
        return max(2, len(self.labels))

    @functools.cached_property
    def array(self) -> npt.NDArray[Any]:
        """The labels as an array, by code."""
        labels = np.array(self.labels) if self.labels else np.zeros(0, np.int64)
        labels.setflags(write=False)
        return labels

    def read(self, y: Any, count: int) -> tuple[Classes, FloatArray]:
        """The codes of ``y``, and the set that includes the labels that are new in it."""
        codes = self._read_two(y, count)
        if codes is not None:
            return self, codes
        array = _label_array(y)
        if len(array) != count:
            raise ShapeError(f"X has {count} rows and y has {len(array)} labels: give one label for each row.")
        if not self.labels:
            return self._grown(array).read(array, count) if count else (self, np.zeros(0))
        known = self.array
        array = self._same_kind(array, known)
        if len(known) == 2 and array.dtype.kind in "iubf":
            second = array == known[1]
            if np.count_nonzero(second | (array == known[0])) == count:
                return self, second.astype(np.float64)
        order = np.argsort(known)
        place = np.searchsorted(known, array, sorter=order).clip(max=len(known) - 1)
        codes = order[place]
        strange = known[codes] != array
        if not strange.any():
            return self, codes.astype(np.float64)
        return self._grown(array[strange]).read(array, count)

    def _read_two(self, y: Any, count: int) -> FloatArray | None:
        """The codes of whole numbers that are one of two known ones: the usual case, in one pass; else None."""
        if not (type(y) is np.ndarray and y.dtype == np.int64 and y.shape == (count,) and y.flags.c_contiguous):
            return None
        if not self._two_whole:
            return None
        codes = np.empty(count)
        first, second = self.labels
        return codes if _kernels.binary_codes(y, first, second, codes) else None

    @functools.cached_property
    def _two_whole(self) -> bool:
        return len(self.labels) == 2 and all(isinstance(label, int) for label in self.labels)

    def code_of(self, y: Any) -> float | None:
        """The code of a single known label in a list or an array; None where ``read`` has to look closer.

        >>> Classes(("b", "a")).code_of(["a"])
        1.0
        """
        if len(y := _listed(y)) != 1 or type(y[0]) not in PLAIN or y[0] not in self.labels:
            return None
        return float(self.labels.index(y[0]))

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

    # -------------------------------------------------------------------- predictions

    def met(self, before: int, codes: FloatArray) -> Classes:
        """The classes as they are once rows with these codes have been taken; so many were known ``before``."""
        if self.closed or before == len(self.labels):
            return self
        return replace(self, labels=self.labels[: max(before, int(codes.max()) + 1)])

    def meant(self, scores: FloatArray, taught: int) -> FloatArray:
        """What the scores of a model mean, given how many of the classes it has been taught.

        A class that no time step has brought yet is not predicted. Before the first step nothing but the
        names is known, and the codes, which go by appearance, would give a label away: there a positive
        margin speaks for the larger name, and of more classes none has more than its share.
        """
        if scores.ndim == 1:
            if taught == 0:
                return -scores if self._against_names else scores
            return -np.abs(scores) - np.finfo(np.float64).tiny if taught == 1 else scores
        if taught == 0:
            return np.full((len(scores), len(self.labels)), -np.log(len(self.labels)))
        if taught == scores.shape[1] == len(self.labels):
            return scores
        if taught < scores.shape[1]:
            scores = scores[:, :taught] - np.logaddexp.reduce(scores[:, :taught], axis=1, keepdims=True)
        unknown = np.full((len(scores), len(self.labels) - scores.shape[1]), -np.inf)
        return np.hstack([scores, unknown]) if unknown.size else scores

    def chosen(self, scores: FloatArray) -> IntArray:
        """The codes that such scores mean. Ties go to the smaller name."""
        if len(self.labels) < 2:
            return np.zeros(len(scores), np.int64)
        if scores.ndim == 1:
            return (scores >= 0.0 if self._against_names else scores > 0.0).astype(np.int64)
        if len(self.labels) == 2:
            smaller, larger = (1, 0) if self._against_names else (0, 1)
            return np.asarray(np.where(scores[:, larger] > scores[:, smaller], larger, smaller))
        by_name = np.argsort(self.array)
        return np.asarray(by_name[scores[:, by_name].argmax(axis=1)])

    def decoded(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The labels of codes."""
        labels: npt.NDArray[Any] = self.array[codes.astype(np.int64, copy=False)]
        return labels

    @functools.cached_property
    def _against_names(self) -> bool:
        """Whether the codes, which go by appearance, run against the order of the names."""
        if len(self.labels) != 2:
            return False
        first, second = self.labels
        return first > second  # type: ignore[operator]  # all are numbers, or all are text

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """As flat entries."""
        limit = -1 if self.limit is None else self.limit
        return {"labels": json.dumps(self.labels), "closed": self.closed, "limit": limit}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Classes:
        """The set that gave ``state``."""
        limit = None if state["limit"] < 0 else int(state["limit"])
        return cls(tuple(json.loads(state["labels"])), bool(state["closed"]), limit)


@dataclass(frozen=True, slots=True)
class Values:
    """Targets that are numbers: they are their own codes, and scores are predictions.

    >>> Values().read([1, 2.5], 2)[1]
    array([1. , 2.5])
    """

    labels: tuple[float, ...] = ()
    n_classes: int = 0

    def agreed(self, classes: Any, begun: bool) -> Values:
        """There are no classes to agree on."""
        if classes is not None:
            raise LabelError(f"classes is {classes!r}, but values are predicted here: leave classes out.")
        return self

    def read(self, y: Any, count: int) -> tuple[Values, FloatArray]:
        """Checked targets."""
        if y is None:
            raise LabelError("learning requires y to be passed, but the target y is None: give one value for each row.")
        array = np.asarray(y)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1 or len(array) != count:
            raise ShapeError(f"X has {count} rows and y has shape {array.shape}: give one value for each row.")
        if array.dtype.kind not in "fiubO":
            raise ValueTypeError(f"y holds {array.dtype}, not numbers: {LABELS}")
        try:
            numbers = array.astype(np.float64)
        except (ValueError, TypeError) as error:
            raise ValueTypeError(
                f"y holds a value that is no number ({error}): for labels, use a classifier."
            ) from error
        if not np.isfinite(numbers).all():
            bad = int(np.argmax(~np.isfinite(numbers)))
            raise NonFiniteError(f"Input y contains NaN or infinity: y[{bad}] is {numbers[bad]}. Drop such rows.")
        if len(numbers) and np.abs(numbers).max() > LARGEST_VALUE:
            bad = int(np.argmax(np.abs(numbers) > LARGEST_VALUE))
            raise LabelError(
                f"y[{bad}] is {numbers[bad]}, whose square is beyond all numbers: give values up to {LARGEST_VALUE:g}, "
                "divided by a unit."
            )
        return self, numbers

    def code_of(self, y: Any) -> float | None:
        """A single finite number in a list or an array; None where ``read`` has to look closer."""
        if len(y := _listed(y)) != 1 or type(y[0]) not in (int, float) or not abs(y[0]) <= LARGEST_VALUE:
            return None
        return float(y[0])

    def met(self, before: int, codes: FloatArray) -> Values:
        """Nothing to learn about them."""
        return self

    def meant(self, scores: FloatArray, taught: int) -> FloatArray:
        """Scores are predictions."""
        return scores

    def chosen(self, scores: FloatArray) -> FloatArray:
        """Scores are predictions."""
        return scores

    def decoded(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """They are themselves."""
        return codes

    def state(self) -> State:
        """There is none."""
        return {}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Values:
        """As ever."""
        return cls()


def targets_of(capabilities: Capabilities, classes: Iterable[Any] | None) -> Classes | Values:
    """What a learner of such capabilities predicts; ``classes`` make a closed set."""
    if capabilities.values:
        return Values().agreed(classes, begun=False)
    limit = None if "multiclass" in capabilities.tasks else 2
    return Classes(limit=limit) if classes is None else Classes.given(classes, limit)


def _listed(y: Any) -> list[Any]:
    """A list or a plain array of one dimension as a list, anything else as an empty one."""
    if type(y) is np.ndarray and y.ndim == 1:
        return list(y.tolist())
    return y if type(y) is list else []


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
                "booleans or text. For values to predict, use a regressor (a learner with the task 'regression')."
            )
    elif array.dtype.kind not in "iubU":
        raise LabelError(f"Unknown label type: {array.dtype}; class labels are whole numbers, booleans or text.")
    return array


def _check_limit(labels: tuple[Any, ...], limit: int | None) -> None:
    if limit is not None and len(labels) > limit:
        raise LabelError(
            f"Only {'binary' if limit == 2 else f'{limit}-class'} classification is supported by this learner: "
            f"{labels[limit]!r} would be class {limit + 1} beside {listed(labels[:limit])}. "
            "Merge classes, or use a learner with the task 'multiclass', such as SoftmaxRegression "
            f"(in a command: --task multiclass; with --key: --classes {','.join(map(str, labels[:NAMED]))})."
        )
