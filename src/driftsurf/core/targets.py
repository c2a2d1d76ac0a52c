"""Targets: class labels with their codes, or numbers for regression.

Learners see codes only. ``ClassTargets`` and ``RegressionTargets`` have the same methods: they turn targets into codes,
and scores into predictions. Both are immutable: a session replaces them once a batch has been learned, so that a failed
batch leaves no new class behind.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import Capabilities, FloatArray, IntArray, State
from driftsurf.core.fields import Converted, FieldRule, Fields, Real, Truth, Whole
from driftsurf.core.frames import plain_column, unmasked
from driftsurf.core.input import listed
from driftsurf.core.options import shown
from driftsurf.errors import LabelError, NonFiniteError, Option, RowIndex, ShapeError, ValueTypeError
from driftsurf.native import maths
from driftsurf.native.columns import all_between, range_of_weighted
from driftsurf.native.labels import LabelCodes
from driftsurf.native.linear import largest
from driftsurf.native.scores import classes_of_margins

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


LARGEST_VALUE = 1e150
"""Largest target of a regression: sums of larger squares would overflow."""
FLOAT = np.dtype(np.float64)
MARGIN = 0.1
"""Predicted numbers stay within the range of the targets learned, widened on both sides by this share of it."""
LABELS = "For class labels, use a classifier (a learner with the task 'binary' or 'multiclass')."


@dataclass(frozen=True)
class ClassTargets:
    """Known class labels; the position of a label is its code, which never changes.

    A closed set is declared in advance and sorted. An open set grows, in order of appearance.

    >>> classes, codes = ClassTargets().read(["b", "a", "b"], 3)
    >>> classes.labels, codes
    (('b', 'a'), array([0., 1., 0.]))
    """

    labels: tuple[bool | int | float | str, ...] = ()
    closed: bool = False
    limit: int | None = None
    """Largest number of classes that the learner supports; None if there is no limit."""

    @classmethod
    def declared(cls, labels: Iterable[Any], limit: int | None = None) -> ClassTargets:
        """Return the closed set of these labels."""
        try:
            array = label_array(list(labels))
        except TypeError as error:  # it is no iterable
            raise LabelError(f"classes is {shown(labels)}; list every class, or omit the argument.") from error
        distinct = tuple(np.unique(array).tolist())
        if not distinct:
            raise LabelError("classes is empty; list every class, or omit the argument.")
        check_limit(distinct, limit)
        return cls(distinct, closed=True, limit=limit)

    def with_classes(self, classes: Iterable[Any] | None, begun: bool) -> ClassTargets:
        """Return the set to use after a call with the argument ``classes``, which may only repeat known classes."""
        if classes is None or ((begun or self.closed) and self._are_known(classes)):
            return self
        given = ClassTargets.declared(classes, self.limit)
        if not begun and not self.closed:
            return given
        if set(given.labels) != set(self.labels):
            raise LabelError(
                f"classes is {list(given.labels)}, but the classes of this model are {list(self.labels)}. "
                "Omit classes after the first call, or create a new model."
            )
        return self

    def _are_known(self, classes: Any) -> bool:
        """Return whether these are the known labels, in any order; false for anything that has to be checked first."""
        if type(classes) is np.ndarray:
            classes = classes.tolist()
        if type(classes) is not list and type(classes) is not tuple:
            return False
        try:
            return frozenset(classes) == self._distinct
        except TypeError:  # lists cannot be in a set
            return False

    @functools.cached_property
    def _distinct(self) -> frozenset[Any]:
        return frozenset(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes that a learner is created for; at least 2."""
        return max(2, len(self.labels))

    @functools.cached_property
    def array(self) -> npt.NDArray[Any]:
        """Labels as a read-only array, in the order of their codes."""
        labels = np.array(self.labels) if self.labels else np.zeros(0, np.int64)
        labels.setflags(write=False)
        return labels

    def read(self, y: Any, count: int) -> tuple[ClassTargets, FloatArray]:
        """Return the codes of ``y``, and the set with the labels of ``y`` that were not known."""
        codes = self._codes.codes(y, count)  # the usual case, without any copy of ``y``
        if codes is None:
            codes = self.known_codes(y, count)
        if codes is not None:
            return self, codes
        array = label_array(y)
        if len(array) != count:
            raise ShapeError(f"X has {count} rows and y has {len(array)} labels; pass one label for each row.")
        if not count:  # an empty list is neither text nor numbers
            return self, np.zeros(0)
        if not self.labels:
            return self._grown(array).read(array, count)
        codes = self.known_codes(np.ascontiguousarray(array), count)
        if codes is not None:
            return self, codes
        known = self.array
        array = self._same_kind(array, known)
        # Codes follow the order of appearance, so ``known`` need not be sorted: search in a sorted view of it.
        order = np.argsort(known)
        place = np.searchsorted(known, array, sorter=order).clip(max=len(known) - 1)
        codes = order[place]  # the code of the nearest known label, which is wrong for an unknown label
        strange = known[codes] != array
        if not strange.any():
            return self, codes.astype(np.float64)
        return self._grown(array[strange]).read(array, count)

    def known_codes(self, y: Any, count: int) -> FloatArray | None:
        """Return the codes if all labels are known and in a plain list or array, the usual case; else None."""
        return self._codes.codes(plain_column(y), count)

    @functools.cached_property
    def _codes(self) -> LabelCodes:
        return _label_codes(self.labels)

    def _grown(self, strange: npt.NDArray[Any]) -> ClassTargets:
        """Return the set with these new labels, in order of appearance; LabelError if the set is closed or full."""
        # ``unique`` sorts; codes must follow the order of appearance, so that they do not depend on later labels.
        distinct, first = np.unique(strange, return_index=True)
        new = tuple(distinct[np.argsort(first)].tolist())
        if self.closed:
            raise LabelError(
                f"y contains the unknown label {new[0]!r}; the classes of this model are {listed(self.labels)}. "
                "Correct the label, or create a model with classes that include it.",
                value=new[0],
                reason="unknown",
            )
        check_limit(self.labels + new, self.limit)
        return replace(self, labels=self.labels + new)

    def _same_kind(self, array: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return ``array``; LabelError if it mixes text and numbers with the known labels, which cannot be compared."""
        if (array.dtype.kind == "U") != (known.dtype.kind == "U"):
            raise LabelError(
                f"y contains {'text' if array.dtype.kind == 'U' else 'numbers'} ({array[:1].tolist()[0]!r}), but the "
                f"classes of this model are {listed(self.labels)}. All labels must be of one kind.",
                row=0,
                value=array[:1].tolist()[0],
            )
        return array

    # -------------------------------------------------------------------- predictions

    def after_batch(self, before: int, codes: FloatArray) -> ClassTargets:
        """Return the classes known after rows with these codes, when ``before`` classes were known before them.

        A batch is read as a whole and may be learned in several time steps. A class becomes known with the step that
        brings its first row, as if the steps had arrived one by one.
        """
        if self.closed or before == len(self.labels):
            return self
        return replace(self, labels=self.labels[: max(before, int(codes.max()) + 1)])

    def after_step(self, codes: FloatArray, weight: FloatArray | None) -> ClassTargets:
        """Return itself: the classes are known when their rows arrive."""
        return self

    def resumed(self, current: ClassTargets) -> ClassTargets:
        """Return itself: the steps since a batch was read add no classes to those of the batch."""
        return self

    def restrict(self, scores: FloatArray, n_classes_learned: int) -> FloatArray:
        """Restrict the scores of a model to the classes that it has learned.

        A class without a time step so far is never predicted. Before the first step only the names are known. The codes
        follow the order of appearance in the batch to be predicted, so they would give away its first label: there, a
        positive margin stands for the larger name, and all of more than two classes have the same probability.
        """
        if scores.ndim == 1 and len(self.labels) > 2:  # a model of two classes, before it has learned the third
            scores = -np.logaddexp(0.0, np.column_stack([scores, -scores]))
        if scores.ndim == 1:
            if n_classes_learned == 0:
                return -scores if self._against_names else scores
            # With one class learned, every margin has to be negative, also one of 0.
            return -np.abs(scores) - np.finfo(np.float64).tiny if n_classes_learned == 1 else scores
        if n_classes_learned == 0:
            return np.full((len(scores), len(self.labels)), -maths.log(len(self.labels)))
        if n_classes_learned == scores.shape[1] == len(self.labels):
            return scores
        if n_classes_learned < scores.shape[1]:
            # Log-probabilities of the learned classes, which have to sum to 1 again.
            scores = scores[:, :n_classes_learned] - np.logaddexp.reduce(
                scores[:, :n_classes_learned], axis=1, keepdims=True
            )
        unknown = np.full((len(scores), len(self.labels) - scores.shape[1]), -np.inf)
        return np.hstack([scores, unknown]) if unknown.size else scores

    def predicted(self, scores: FloatArray) -> IntArray:
        """Return the codes that the scores predict; ties go to the smaller label."""
        if len(self.labels) < 2:
            return np.zeros(len(scores), np.int64)
        if scores.ndim == 1:
            return classes_of_margins(np.ascontiguousarray(scores, np.float64), self._against_names)
        # Ties go to the smaller label and not to the smaller code: codes depend on which row happened to come first.
        if len(self.labels) == 2:
            smaller, larger = (1, 0) if self._against_names else (0, 1)
            return np.asarray(np.where(scores[:, larger] > scores[:, smaller], larger, smaller))
        by_name = np.argsort(self.array)
        return np.asarray(by_name[scores[:, by_name].argmax(axis=1)])

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the labels of codes."""
        labels: npt.NDArray[Any] = self.array[codes.astype(np.int64, copy=False)]
        return labels

    @functools.cached_property
    def _against_names(self) -> bool:
        """Whether the order of the codes, which is that of appearance, is the reverse of that of the labels."""
        if len(self.labels) != 2:
            return False
        first, second = self.labels
        return first > second  # type: ignore[operator]  # labels are all numbers or all text

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return the set as flat entries."""
        limit = -1 if self.limit is None else self.limit
        return {"labels": json.dumps(self.labels), "closed": self.closed, "limit": limit}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> ClassTargets:
        """Return the set that was saved as ``state``."""
        known = CLASS_FIELDS.read(state)
        return cls(known["labels"], known["closed"], None if known["limit"] < 0 else known["limit"])


@dataclass(frozen=True, slots=True)
class RegressionTargets:
    """Targets of a regression: numbers are their own codes, and scores are the predictions.

    Predictions are limited to the range of the targets learned so far, widened on both sides by a tenth of it. A young
    linear model that meets a value it has not seen would otherwise predict far beyond all targets.

    >>> RegressionTargets().read([1, 2.5], 2)[1]
    array([1. , 2.5])
    >>> RegressionTargets().after_step(np.array([10.0, 20.0]), np.ones(2)).restrict(np.array([-300.0, 15.0, 30.0]), 0)
    array([ 9., 15., 21.])
    """

    labels: tuple[float, ...] = ()
    n_classes: int = 0
    low: float = -math.inf
    high: float = math.inf
    """Smallest and largest target learned; infinite before the first."""

    def with_classes(self, classes: Iterable[Any] | None, begun: bool) -> RegressionTargets:
        """Raise LabelError if ``classes`` is not None, since a regression has none."""
        if classes is not None:
            raise LabelError(f"classes is {classes!r}, but a regression has no classes; omit the argument.")
        return self

    def read(self, y: Any, count: int) -> tuple[RegressionTargets, FloatArray]:
        """Return the targets as an array of finite numbers."""
        numbers = self.known_codes(y, count)
        if numbers is not None:
            return self, numbers.copy() if numbers is y else numbers  # the caller may change its array
        if y is None:
            raise LabelError(
                "learning requires y to be passed, but the target y is None. Pass one number for each row."
            )
        array = np.asarray(unmasked(y, "y"))
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1 or len(array) != count:
            raise ShapeError(f"X has {count} rows and y has shape {array.shape}; pass one number for each row.")
        if array.dtype.kind not in "fiubO":
            raise ValueTypeError(f"y has type {array.dtype}, which is not numeric. {LABELS}")
        try:
            numbers = array.astype(np.float64)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueTypeError(f"y contains a value that is not a number ({error}). {LABELS}") from error
        if largest(numbers) <= LARGEST_VALUE:
            return self, numbers
        if not np.isfinite(numbers).all():
            bad = int(np.argmax(~np.isfinite(numbers)))
            raise NonFiniteError(
                "Input y contains NaN or infinity: ",
                RowIndex("y", bad),
                f" is {numbers[bad]}. Drop such rows.",
                row=bad,
                value=float(numbers[bad]),
            )
        bad = int(np.argmax(np.abs(numbers) > LARGEST_VALUE))
        raise LabelError(
            RowIndex("y", bad),
            f" is {numbers[bad]}, whose square overflows; the largest target is {LARGEST_VALUE:g}. "
            "Divide all targets by a constant.",
            row=bad,
            value=float(numbers[bad]),
            reason="too_large",
        )

    def known_codes(self, y: Any, count: int) -> FloatArray | None:
        """Return the numbers in the usual case, in which nothing is wrong with them; None if ``read`` has to check."""
        y = plain_column(y)
        if type(y) is list:
            y = np.asarray(y)
        if type(y) is not np.ndarray or y.shape != (count,) or y.dtype.kind not in "fiub":
            return None
        if not (y.dtype is FLOAT and y.flags.c_contiguous and y.flags.aligned):
            y = y.astype(np.float64, order="C")
        return y if largest(y) <= LARGEST_VALUE else None

    def after_batch(self, before: int, codes: FloatArray) -> RegressionTargets:
        """Return itself: no target can be new."""
        return self

    def after_step(self, codes: FloatArray, weight: FloatArray | None) -> RegressionTargets:
        """Return the targets with the range extended by those of rows that have been learned; without weights, all."""
        low, high = range_of_weighted(codes, weight)
        if low > high or (self.low <= low and high <= self.high < math.inf):
            return self
        if self.bounded:
            low, high = min(low, self.low), max(high, self.high)
        return replace(self, low=low, high=high)

    def resumed(self, current: RegressionTargets) -> RegressionTargets:
        """Return the targets as the steps since a batch was read have left them."""
        return current

    @property
    def bounded(self) -> bool:
        """Whether targets have been learned, whose range limits the predictions."""
        return self.high < math.inf

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest number that is predicted."""
        margin = MARGIN * (self.high - self.low) if self.high < math.inf else 0.0
        return self.low - margin, self.high + margin

    def restrict(self, scores: FloatArray, n_classes_learned: int) -> FloatArray:
        """Return the scores, which are the predictions, within their limits."""
        if self.high == math.inf:
            return scores
        low, high = self.limits
        if len(scores) == 1:  # no call of compiled code for a single row
            within = low <= scores.item() <= high
        else:  # another library may return an array of any kind
            plain = scores.dtype is FLOAT and scores.flags.c_contiguous
            within = plain and all_between(scores, low, high, False)
        if within:
            return scores
        return np.minimum(np.maximum(scores, low), high)  # a quarter of the time of np.clip

    def predicted(self, scores: FloatArray) -> FloatArray:
        """Return the scores, which are the predictions."""
        return scores

    def decode(self, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the codes, which are the targets."""
        return codes

    def state(self) -> State:
        """Return the range of the targets as flat entries."""
        return {"low": self.low, "high": self.high} if self.bounded else {}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RegressionTargets:
        """Return the targets that were saved as ``state``."""
        return cls(**RANGE_FIELDS.read(state))


_label_codes = functools.lru_cache(maxsize=16)(LabelCodes)


@functools.lru_cache(maxsize=16)  # the keys of a run have the same labels
def _read_labels(text: str) -> tuple[Any, ...]:
    """Return saved labels, which are distinct, and all text or all numbers; ValueError if they are not."""
    labels = json.loads(text)
    kinds = {type(label) for label in labels}
    if not (isinstance(labels, list) and len(set(labels)) == len(labels)):
        raise ValueError("the labels must be distinct")
    if not (kinds <= {str} or (kinds <= {bool, int, float} and all(abs(label) < 2**63 for label in labels))):
        raise ValueError("the labels must all be text, or all be numbers")
    return tuple(labels)


CLASS_FIELDS = Fields(
    {"labels": Converted(_read_labels), "closed": Truth(), "limit": Whole(-1)},
    rules=[FieldRule("labels", "must fit the limit", lambda known: not 0 <= known["limit"] < len(known["labels"]))],
)
RANGE_FIELDS = Fields(
    {"low": Real(), "high": Real()},
    optional=["low", "high"],
    rules=[FieldRule("low", "must not be above high", lambda known: not known or known["low"] <= known["high"])],
)
"""Saved entries of a set of classes, and of the range of numbers."""


def targets_of(capabilities: Capabilities, classes: Iterable[Any] | None) -> ClassTargets | RegressionTargets:
    """Return the kind of targets for a learner with these capabilities; ``classes`` make a closed set."""
    if capabilities.regression:
        return RegressionTargets().with_classes(classes, begun=False)
    limit = None if "multiclass" in capabilities.tasks else 2
    return ClassTargets(limit=limit) if classes is None else ClassTargets.declared(classes, limit)
