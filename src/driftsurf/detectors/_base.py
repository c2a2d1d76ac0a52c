"""Base classes of the detectors: reading values, stopping at a signal, state."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from driftsurf.core.changes import ChangeLock
from driftsurf.core.contracts import Detection, FloatArray, State
from driftsurf.core.fields import Array, Choice, FieldRule, Fields, Real
from driftsurf.core.options import Parameterised, number, whole
from driftsurf.errors import OptionError, ShapeError, ValueTypeError
from driftsurf.native import maths
from driftsurf.native.detectors import DRIFT, STEADY, WARNING, sliding_mean

Method = TypeVar("Method", bound=Callable[..., Any])
Numbers = tuple[float, ...]
LEVEL = Choice((STEADY, WARNING, DRIFT))
LARGEST = 1e15
"""Values beyond it are treated as missing."""
MOST_ROWS = 1_000_000
"""Longest window, which bounds the memory, whatever a saved state asks for."""


def in_turn(method: Method) -> Method:
    """Return a method of a detector that holds its lock, so that calls of such methods take turns."""

    @functools.wraps(method)
    def call(self: BaseDetector, *arguments: Any, **named: Any) -> Any:
        with self.lock:
            return method(self, *arguments, **named)

    return cast("Method", call)


class BaseDetector(Parameterised):
    """A detector around one compiled loop. Its state is a few numbers and, for some, a window.

    Several threads may use a detector: updates, and calls that save, copy or reset, take turns, and all see whole
    updates.
    """

    NUMBERS: ClassVar[dict[str, float]]
    """Numbers that the loop takes and returns, with their initial values; the first one is the level."""
    RULES: ClassVar[Sequence[FieldRule]] = ()
    """Rules between the saved numbers, beyond which the loop would divide by zero or signal no more."""
    _numbers: Numbers = ()
    """Empty until the parameters have been checked."""

    __slots__ = ("lock",)  # not among the attributes, which are the parameters and the state
    lock: ChangeLock
    """Held by every call that changes, saves or copies the detector."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make the detector with a lock of its own."""
        made = super().__new__(cls)
        made.lock = ChangeLock()
        return made

    def fresh(self) -> Self:
        """Return a new detector with the same parameters."""
        return type(self)(**self.get_params())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy three times as fast as the default, which looks for shared objects; there are none."""
        made = type(self).__new__(type(self))
        vars(made).update(self.__getstate__())
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied or pickled: everything but the lock, as of one update."""
        with self.lock:
            return {name: _copied(value) for name, value in vars(self).items()}

    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        raise NotImplementedError

    # -------------------------------------------------------------------- values

    @property
    def drift(self) -> bool:
        """Whether the last update ended with a drift signal."""
        return self._level == DRIFT

    @property
    def warning(self) -> bool:
        """Whether the last update ended in the warning zone, for detectors that have one."""
        return self._level == WARNING

    @property
    def _level(self) -> float:
        numbers = self._numbers  # read once: another thread may replace them
        return float(numbers[0]) if numbers else STEADY

    def update(self, values: npt.ArrayLike) -> Detection:
        """Consume one error (1 = wrong, 0 = right), or several one by one up to the first signal.

        The result is true only if there was a signal, and ``consumed`` is the number of values up to and including it.
        Pass the rest to the next update, which starts without the signal. NaN, infinity and values beyond +-1e15 are
        consumed and ignored.

        >>> from driftsurf.detectors import DDM
        >>> detector = DDM()
        >>> for place, error in enumerate([0] * 100 + [1] * 100):
        ...     if detector.update(error):
        ...         print("drift at", place)
        drift at 100
        """
        array = read_values(values)
        with self.lock:
            self._make_ready()
            if self._numbers[0] == DRIFT:
                self._after_signal()
            consumed = self._run(array)
            return Detection(consumed, self._numbers[0] == DRIFT)

    @in_turn
    def reset(self) -> None:
        """Forget all values."""
        self._numbers = ()

    def _make_ready(self) -> None:
        if not self._numbers:
            self.check()
            self._begin()

    def _begin(self) -> None:
        self._numbers = tuple(self.NUMBERS.values())

    def _after_signal(self) -> None:
        """Prepare for the values after a signal; by default start over."""
        self._begin()

    def _run(self, values: FloatArray) -> int:
        """Consume values up to the first signal; return how many."""
        raise NotImplementedError

    # -------------------------------------------------------------------- state

    @in_turn
    def state(self) -> State:
        """Return everything that values change."""
        self._make_ready()
        return dict(zip(self.NUMBERS, map(float, self._numbers), strict=True))

    @in_turn
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` of a detector with the same parameters returned."""
        self.check()
        known = self._fields().read(state)
        self._numbers = tuple(known[name] for name in self.NUMBERS)

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the detector that ``state()`` was called on; ``template`` has its parameters."""
        made = template.fresh()
        made.restore(state)
        return made

    def _fields(self) -> Fields:
        """Return the declaration of the saved entries."""
        kind: Any = type(self)
        return number_fields(kind)


@functools.cache
def number_fields(kind: type[BaseDetector]) -> Fields:
    """Return the declaration of a detector whose state is its numbers; the first one is the level."""
    level, *others = kind.NUMBERS
    return Fields({level: LEVEL} | dict.fromkeys(others, Real()), rules=kind.RULES)


class WindowDetector(BaseDetector):
    """Base class of MDDM and FHDDM: the weighted share of right predictions in a window, against its best so far."""

    NUMBERS: ClassVar[dict[str, float]] = {"level": STEADY, "filled": 0.0, "best": 0.0}
    window: int
    delta: float
    _buffer: FloatArray
    _rule: tuple[FloatArray, float]

    def check(self) -> None:
        """Raise OptionError if a parameter is invalid."""
        whole("window", self.window, at_least=1, at_most=MOST_ROWS)
        number("delta", self.delta, above=0.0, below=1.0)
        if self.threshold >= 1.0:
            raise OptionError(
                f"with window={self.window!r} and delta={self.delta!r} the mean, from 0 to 1, would have to fall by "
                f"more than {self.threshold:.3g}; use a longer window or a larger delta"
            )

    @property
    def threshold(self) -> float:
        """epsilon, by which the mean has to fall below its best for a signal."""
        return math.sqrt(0.5 * float(np.square(self._weights()).sum()) * maths.log(1.0 / self.delta))

    def _weights(self) -> FloatArray:
        """Return one weight for each row of a full window, oldest first, non-decreasing, with sum 1."""
        raise NotImplementedError

    def _begin(self) -> None:
        super()._begin()
        self._buffer = np.zeros(2 * self.window)
        self._rule = self._weights(), self.threshold

    def _run(self, values: FloatArray) -> int:
        consumed, self._numbers = sliding_mean(values, self._numbers, self._buffer, *self._rule)
        return int(consumed)

    @in_turn
    def state(self) -> State:
        """Return everything that values change; the window holds 1 for a right prediction, oldest first."""
        state = super().state()
        filled = int(self._numbers[1])
        del state["filled"]
        return state | {"window": self._buffer[max(0, filled - self.window) : filled].copy()}

    @in_turn
    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` of a detector with the same parameters returned."""
        self.check()
        known = self._fields().read(state)
        self._begin()
        self._buffer[: known["filled"]] = known["window"]
        self._numbers = known["level"], float(known["filled"]), known["best"]

    def _fields(self) -> Fields:
        return window_fields(int(self.window))


@functools.lru_cache(maxsize=64)
def window_fields(window: int) -> Fields:
    """Return the declaration of a detector with a window of at most this many values."""
    return Fields(
        {"level": LEVEL, "best": Real(least=0.0), "window": Array(np.float64, ("filled",), least=0.0, most=1.0)},
        rules=[FieldRule("window", f"must have at most {window} values", lambda known: known["filled"] <= window)],
    )


def _copied(value: Any) -> Any:
    """Return a copy of an attribute of a detector; numbers and text are shared."""
    kind = type(value)
    if kind is np.ndarray:
        return value.copy()
    if kind is tuple:
        return tuple(map(_copied, value))
    return value if kind in (float, int, bool, str) else copy.deepcopy(value)


def read_values(values: npt.ArrayLike) -> FloatArray:
    """Return values as an array of float64; missing and extreme ones become NaN.

    >>> read_values([True, False, None])
    array([ 1.,  0., nan])
    """
    if type(values) in (float, int, bool) and -LARGEST <= values <= LARGEST:  # type: ignore[operator]
        return np.array((values,), np.float64)
    if type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == 1:
        return _possible(values)
    try:
        if isinstance(values, np.ma.MaskedArray):
            values = np.ma.filled(values.astype(np.float64), np.nan)
        array = np.atleast_1d(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"type {array.dtype}")
        if array.dtype != np.float64:
            with np.errstate(over="ignore"):  # too large for float64 becomes infinite
                array = array.astype(np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueTypeError(
            f"the values of an update must be numbers ({error}); pass an array or list of errors, 1 = wrong, 0 = right"
        ) from error
    if array.ndim != 1:
        raise ShapeError(f"the values of an update have shape {array.shape}; pass one dimension: values.ravel()")
    return _possible(array)


def _possible(array: FloatArray) -> FloatArray:
    possible = np.abs(array) <= LARGEST
    return np.ascontiguousarray(array if possible.all() else np.where(possible, array, np.nan))
