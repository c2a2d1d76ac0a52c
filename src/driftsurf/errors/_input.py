"""Errors about what was passed: rows, labels, requests, options, and parts that cannot do what is asked."""

from __future__ import annotations

from typing import Any

from driftsurf.errors._message import DriftsurfError


class InputError(DriftsurfError, ValueError):
    """The rows or labels of a batch cannot be used; the model has not changed.

    Attributes say what is wrong, where it is known: ``row`` (counted in the array that was passed), ``column``,
    ``value``, and ``reason``, a short code such as "continuous" for labels that are fractions.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> try:
    ...     DriftSurfClassifier().partial_fit({"price": [1.5, float("inf")]}, ["yes", "no"])
    ... except InputError as error:
    ...     print(error.row, error.column, error, sep="\\n")
    1
    price
    the column 'price' contains infinity (inf) in row 1; correct it or drop the column
    """

    def __init__(
        self, *parts: object, row: int | None = None, column: str | None = None, value: Any = None, reason: str = ""
    ) -> None:
        super().__init__(*parts)
        self.row = row
        self.column = column
        self.value = value
        self.reason = reason


class ShapeError(InputError):
    """An array has the wrong number of dimensions, rows or columns.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> DriftSurfClassifier().partial_fit([[0.0], [1.0]], [0, 1, 1])
    Traceback (most recent call last):
        ...
    driftsurf.errors.ShapeError: X has 2 rows and y has 3 labels; pass one label for each row.
    """


class NonFiniteError(InputError):
    """The data contain NaN or infinity.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> DriftSurfClassifier().partial_fit([[0.0], [float("nan")]], [0, 1])
    Traceback (most recent call last):
        ...
    driftsurf.errors.NonFiniteError: Input X contains NaN in row 1, column 0 ... pass tables instead of arrays: ...
    """


class ValueTypeError(InputError, TypeError):
    """A column or an array holds values that are not numbers.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> DriftSurfClassifier().partial_fit([["cheap"], ["dear"]], [0, 1])
    Traceback (most recent call last):
        ...
    driftsurf.errors.ValueTypeError: 'cheap' in row 0, column 0 is not a number ... pass tables instead of arrays: ...
    """


class LabelError(InputError):
    """A label is not one of the known classes, or the labels are of the wrong kind for the task.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> DriftSurfClassifier(classes=["no", "yes"]).partial_fit([[0.0], [1.0]], ["no", "maybe"])
    Traceback (most recent call last):
        ...
    driftsurf.errors.LabelError: y contains the unknown label 'maybe'; the classes of this model are 'no', 'yes'. ...
    """


class SchemaError(InputError):
    """The columns differ from those of the first batch: added, removed, or of another type.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> model = DriftSurfClassifier().partial_fit({"price": [1.5, 2.0], "city": ["Rome", "Oslo"]}, [0, 1])
    >>> model.predict({"price": [1.0], "town": ["Rome"]})
    Traceback (most recent call last):
        ...
    driftsurf.errors.SchemaError: the columns differ from those of the first batch (added: 'town'; removed: 'city'). ...
    """


class BadRowError(InputError):
    """A row of a source cannot be read, or more rows were skipped than allowed.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data import open_source
    >>> path = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = path.write_text("price,sold\\n1.5,yes\\n2.5\\n")
    >>> next(open_source(path).tables())
    Traceback (most recent call last):
        ...
    driftsurf.errors.BadRowError: ...sales.csv, line 3: ... wrong number of cells: 1 instead of 2. ...
    """


class IdempotencyError(InputError):
    """An idempotency key was used before with another body.

    Examples
    --------
    >>> import hashlib, tempfile
    >>> from contextlib import closing
    >>> from pathlib import Path
    >>> from driftsurf.service.contract import Request
    >>> from driftsurf.service.model import open_model
    >>> from driftsurf.service.settings import ModelSettings
    >>> with closing(open_model(Path(tempfile.mkdtemp()) / "sales", ModelSettings(label="sold"))) as model:
    ...     ready = model.wait_ready()
    ...     for label in ("yes", "no"):
    ...         request = Request("key-1", hashlib.sha256(label.encode()).digest())
    ...         receipt = model.label({"o-17": label}, request).result()
    Traceback (most recent call last):
        ...
    driftsurf.errors.IdempotencyError: the idempotency key 'key-1' was used before with another body; use a new key
    """


class AnswerGoneError(IdempotencyError):
    """A request was carried out before under its idempotency key, and its answer is no longer stored.

    Examples
    --------
    >>> from driftsurf.service.http.problems import problem_of
    >>> problem, headers = problem_of(AnswerGoneError("the log no longer has the answer; use a new key"))
    >>> problem.status, problem.title
    (410, 'The answer to a repeated request is no longer stored')
    """


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
