"""Any river drift detector as one of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from driftsurf.adapters._foreign import refuse
from driftsurf.base import Detector, State
from driftsurf.errors import CapabilityError, OptionError

__all__ = ["RiverDetector", "as_detector"]


class RiverDetector(BaseEstimator):  # type: ignore[misc]
    """A river detector, fed row by row with errors: 1 for a wrong prediction and 0 for a right one.

    What is not finite says nothing and is passed over: several of river's detectors would be blind ever after.
    There is no exact state to save, only a pickle of the whole.

    Parameters
    ----------
    detector
        The template, never changed.
    inverted
        Whether it waits for a fall of what it is fed, and must be given 1 for a right prediction. "auto" knows that of
        river's FHDDM, whatever its documentation says of errors.

    Examples
    --------
    >>> from river.drift import ADWIN
    >>> detector = RiverDetector(ADWIN())
    >>> detector.update([0] * 500 + [1] * 500), detector.drift
    (512, True)
    """

    def __init__(self, detector: Any, *, inverted: bool | Literal["auto"] = "auto") -> None:
        self.detector = detector
        self.inverted = inverted

    @property
    def drift(self) -> bool:
        """Whether the last update ended with a signal."""
        return hasattr(self, "_live") and bool(self._live.drift_detected)

    @property
    def warning(self) -> bool:
        """Whether the last update ended in the warning zone, for detectors that have one."""
        return hasattr(self, "_live") and bool(getattr(self._live, "warning_detected", False)) and not self.drift

    def check(self) -> None:
        """Raise OptionError if it is no detector of river."""
        if isinstance(self.detector, type) or not all(
            hasattr(self.detector, name) for name in ("update", "drift_detected", "clone")
        ):
            raise refuse(self.detector, "no drift detector of river, such as river.drift.ADWIN()")

    def fresh(self) -> Self:
        """A new detector with the same parameters."""
        return type(self)(self.detector, inverted=self.inverted)

    def update(self, values: npt.ArrayLike) -> int:
        """Take errors up to the first signal; returns how many, the signalling one included."""
        array = np.atleast_1d(np.asarray(values, np.float64))
        if self.drift or not hasattr(self, "_live"):
            self.check()
            self._live = self.detector.clone()
        inverted = type(self.detector).__name__ == "FHDDM" if self.inverted == "auto" else self.inverted
        for taken, value in enumerate((1.0 - array if inverted else array).tolist(), start=1):
            if np.isfinite(value):
                self._live.update(value)
                if self._live.drift_detected:
                    return taken
        return len(array)

    def reset(self) -> None:
        """Forget all values."""
        if hasattr(self, "_live"):
            del self._live

    def state(self) -> State:
        """Refused: what a detector from elsewhere holds is not known."""
        raise CapabilityError(f"{self!r} has no exact state to save; pickle the whole model")

    def restore(self, state: Mapping[str, Any]) -> None:
        """Refused likewise."""
        raise CapabilityError(f"{self!r} has no exact state to load")

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Refused likewise."""
        raise CapabilityError(f"{template!r} has no exact state to load")


def as_detector(detector: Any) -> Detector:
    """``detector`` if it meets the contract, else in the adapter for its kind.

    >>> from river.drift import ADWIN
    >>> as_detector(ADWIN(delta=0.01))
    RiverDetector(detector=ADWIN (
      delta=0.01...
    """
    if not isinstance(detector, type):
        if all(hasattr(detector, name) for name in ("fresh", "update", "drift", "check")):
            ours: Detector = detector
            return ours
        if hasattr(detector, "drift_detected"):
            return RiverDetector(detector)
    raise OptionError(
        f"detector is {detector!r}, which does not meet driftsurf.base.Detector; use one of driftsurf.detectors, or a "
        "detector of river as it is"
    )
