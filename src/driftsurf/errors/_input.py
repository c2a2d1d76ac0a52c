"""Errors about rows, labels and requests that cannot be used."""

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
    """A request was carried out before under its idempotency key, and its answer is no longer kept.

    Examples
    --------
    >>> from driftsurf.service.http.problems import problem_of
    >>> problem, headers = problem_of(AnswerGoneError("the log no longer has the answer; use a new key"))
    >>> problem.status, problem.title
    (410, 'The answer to a repeated request is no longer kept')
    """
