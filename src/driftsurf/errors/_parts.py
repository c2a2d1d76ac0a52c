"""Errors about options, and about what learners, strategies and saved states can do."""

from __future__ import annotations

from driftsurf.errors._message import DriftsurfError


class OptionError(DriftsurfError, ValueError):
    """A parameter or command-line option has a value that cannot be used.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> DriftSurfClassifier(threshold=-1).partial_fit([[0.0], [1.0]], [0, 1])
    Traceback (most recent call last):
        ...
    driftsurf.errors.OptionError: threshold is -1; it must be a number of at least 0
    """


class CapabilityError(DriftsurfError, ValueError):
    """A learner, detector or strategy lacks a capability that is needed.

    Examples
    --------
    >>> from driftsurf import DriftSurfRegressor
    >>> from driftsurf.learners import NaiveBayes
    >>> DriftSurfRegressor(NaiveBayes()).partial_fit([[0.0], [1.0]], [0.5, 1.5])
    Traceback (most recent call last):
        ...
    driftsurf.errors.CapabilityError: learner is NaiveBayes(...), whose tasks are binary, multiclass; ...
    """


class CheckError(DriftsurfError, AssertionError):
    """A component fails a conformance check; the message names the check and the failure.

    Examples
    --------
    >>> from driftsurf.checks import check_detector
    >>> from driftsurf.detectors import DDM
    >>> class Forgetful(DDM):
    ...     def state(self):
    ...         return {}
    >>> check_detector(Forgetful())
    Traceback (most recent call last):
        ...
    driftsurf.errors.CheckError: Forgetful(...) fails state_is_exact: ... the saved entry 'level' is missing: ...
    """


class DivergenceError(DriftsurfError, ArithmeticError):
    """An update produced weights that are not finite; the update has been undone.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf import DriftSurfRegressor
    >>> from driftsurf.learners import LinearRegression
    >>> X = 1e6 * np.random.default_rng(0).normal(size=(100, 2))
    >>> try:
    ...     DriftSurfRegressor(LinearRegression(step_size=10.0)).partial_fit(X, X[:, 0])
    ... except DivergenceError as error:
    ...     print(error)
    training diverged: ... Lower step_size or scale the columns. The update was undone.
    """


class StateError(DriftsurfError, ValueError):
    """Saved bytes are damaged, are not a saved state, or belong to another object.

    ``entry`` is the full name of the entry of the state that cannot be used, where it is one.

    Examples
    --------
    >>> from driftsurf.detectors import ADWIN
    >>> from driftsurf.saving import dumps, loads
    >>> loads(dumps(ADWIN())[:-1])  # the last byte is missing
    Traceback (most recent call last):
        ...
    driftsurf.errors.StateError: the checksum does not match: the saved state is damaged or cut off
    """

    def __init__(self, *parts: object, entry: str = "") -> None:
        super().__init__(*parts)
        self.entry = entry


class StateVersionError(StateError):
    """An intact saved state has a format that this version of the package does not read.

    Examples
    --------
    >>> import hashlib
    >>> from driftsurf.detectors import ADWIN
    >>> from driftsurf.saving import dumps, loads
    >>> data = dumps(ADWIN())
    >>> later = data[:7] + bytes([9]) + data[8:-32]  # as a later version might write it
    >>> loads(later + hashlib.sha256(later).digest())
    Traceback (most recent call last):
        ...
    driftsurf.errors.StateVersionError: this state ... needs a reader of format 9; this is driftsurf ...
    """


class StepInProgressError(DriftsurfError, RuntimeError):
    """A model was called from inside its own step, such as by a signal handler; nothing has changed.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.session import Session
    >>> from driftsurf.strategies import DriftSurf
    >>> class Impatient(LogisticRegression):
    ...     def update(self, samples, new, steps):
    ...         return session.learn([[0.0]], [0])
    >>> session = Session(DriftSurf(Impatient()), classes=(0, 1))
    >>> session.learn([[0.0], [1.0]], [0, 1])
    Traceback (most recent call last):
        ...
    driftsurf.errors.StepInProgressError: Session is in the middle of a step of this thread; ...
    """


class MissingExtraError(DriftsurfError, ImportError):
    """An optional dependency is not installed; the message gives the command that installs it.

    Examples
    --------
    >>> from driftsurf.registry import Entry
    >>> entry = Entry("learner", "forest", dict, "Forest", requires=("unheard_of",), install="pip install unheard-of")
    >>> entry.make()
    Traceback (most recent call last):
        ...
    driftsurf.errors.MissingExtraError: the learner 'forest' needs unheard_of: pip install unheard-of
    """
