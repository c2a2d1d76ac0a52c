"""Adapter of river drift detectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import check_contract, missing_members
from driftsurf.core.contracts import Detection, Detector, State
from driftsurf.core.frames import RiverDriftDetector
from driftsurf.errors import CapabilityError

if TYPE_CHECKING:  # scikit-learn has no type annotations
    from driftsurf.core.frames import ScikitLearnBase as BaseEstimator
else:
    from sklearn.base import BaseEstimator


@runtime_checkable
class RiverWarningDetector(Protocol):
    """A river detector with a warning zone."""

    @property
    def warning_detected(self) -> bool:
        """Whether the last value was in the warning zone."""
        ...


class RiverDetector(BaseEstimator):
    """A river detector with the interface of this package, fed row by row with errors (1 = wrong).

    Values that are not finite are ignored, since several of river's detectors would never signal again. The state
    cannot be saved exactly; pickle the whole model instead.

    Parameters
    ----------
    detector
        Template, never changed.
    inverted
        Whether the detector waits for a fall of its values and must be fed 1 for a right prediction. "auto" is True for
        river's FHDDM, whatever its documentation says about errors, and else False.

    Examples
    --------
    >>> from river.drift import ADWIN
    >>> detector = RiverDetector(ADWIN())
    >>> detector.update([0] * 500 + [1] * 500)
    Detection(consumed=512, drift=True)
    """

    _live: Any = None
    """Clone of the template that is fed; None before the first value."""

    def __init__(self, detector: Any, *, inverted: bool | Literal["auto"] = "auto") -> None:
        self.detector = detector
        self.inverted = inverted

    @property
    def drift(self) -> bool:
        """Whether the last update ended with a drift signal."""
        return self._live is not None and bool(self._live.drift_detected)

    @property
    def warning(self) -> bool:
        """Whether the last update ended in the warning zone, for detectors that have one."""
        return isinstance(self._live, RiverWarningDetector) and bool(self._live.warning_detected) and not self.drift

    def check(self) -> None:
        """Raise OptionError unless the template is a drift detector of river."""
        remedy = "a drift detector of river, such as river.drift.ADWIN()"
        check_contract(self.detector, RiverDriftDetector, "detector", remedy)

    def fresh(self) -> Self:
        """Return a new detector with the same parameters."""
        return type(self)(self.detector, inverted=self.inverted)

    def update(self, values: npt.ArrayLike) -> Detection:
        """Consume one error, or several up to the first signal; the result is true only if there was a signal."""
        array = np.atleast_1d(np.asarray(values, np.float64))
        live = self._live
        if live is None or self.drift:
            self.check()
            live = self._live = self.detector.clone()
        inverted = type(self.detector).__name__ == "FHDDM" if self.inverted == "auto" else self.inverted
        for taken, value in enumerate((1.0 - array if inverted else array).tolist(), start=1):
            if np.isfinite(value):
                live.update(value)
                if live.drift_detected:
                    return Detection(taken, drift=True)
        return Detection(len(array), drift=False)

    def reset(self) -> None:
        """Forget all values."""
        self._live = None

    def state(self) -> State:
        """Raise CapabilityError: the state of a foreign detector is not known."""
        raise CapabilityError(f"{self!r} has no exact state to save; pickle the whole model")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raise CapabilityError: the state of a foreign detector is not known."""
        raise CapabilityError(f"{self!r} has no exact state to load")

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Raise CapabilityError: the state of a foreign detector is not known."""
        raise CapabilityError(f"{template!r} has no exact state to load")


def as_detector(detector: Any) -> Detector:
    """Return ``detector`` if it implements the contract, else the adapter for its kind around it.

    >>> from river.drift import ADWIN
    >>> as_detector(ADWIN(delta=0.01))
    RiverDetector(detector=ADWIN (
      delta=0.01...
    """
    if not isinstance(detector, type) and not missing_members(detector, RiverDriftDetector):
        return RiverDetector(detector)
    check_contract(detector, Detector, "detector", "one of driftsurf.detectors, or a detector of river")
    own: Detector = detector
    return own
