"""Errors as problem details (RFC 9457): what is wrong, the value, the row and the remedy, as data."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from driftsurf.core.options import shown
from driftsurf.errors import (
    AnswerGoneError,
    BadRowError,
    CapabilityError,
    DriftsurfError,
    IdempotencyError,
    InputError,
    LabelError,
    MissingExtraError,
    NameTakenError,
    NonFiniteError,
    NotLeadingError,
    OptionError,
    OverloadedError,
    SchemaError,
    ShapeError,
    StateError,
    StorageFullError,
    UnavailableError,
    ValueTypeError,
)
from driftsurf.service.wire.rows import TooManyRowsError

PREFIX = "urn:driftsurf:problem:"


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is wrong with a request, as RFC 9457 defines it, with the place and the remedy."""

    type: str
    """Kind of the problem, such as "urn:driftsurf:problem:bad-row"; programs decide by it."""
    title: str
    status: int
    detail: str = ""
    row: int | None = None
    """Number of the row in the request, from 0."""
    column: str | None = None
    value: str | None = None
    rows_taken: int | None = None
    """Rows of a streamed body that were learned before the problem."""


class InferenceError(Problem, kw_only=True, omit_defaults=True):
    """A problem as clients of the Open Inference Protocol expect it: they show ``error``."""

    error: str

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return a problem in this form; the protocol has no other status than 400 for a request with a fault."""
        values = {name: getattr(problem, name) for name in problem.__struct_fields__}
        values["status"] = 400 if problem.status == 422 else problem.status
        return cls(**values, error=problem.detail or problem.title)


class HttpProblem(DriftsurfError):
    """A request that cannot be answered, with the kind of its problem."""

    def __init__(self, kind: str, *parts: object, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(*parts)
        self.kind = kind
        self.headers: Mapping[str, str] = {} if headers is None else headers


KINDS: Final[Mapping[str, tuple[int, str]]] = {
    "bad-request": (400, "The request cannot be read"),
    "unauthenticated": (401, "A key is needed"),
    "forbidden": (403, "The request is not allowed"),
    "not-found": (404, "There is nothing at this address"),
    "no-method": (405, "The address does not have this method"),
    "not-acceptable": (406, "No answer in an accepted format"),
    "timeout": (408, "The request came too slowly"),
    "under-way": (409, "A request with the same key is under way"),
    "name-taken": (409, "Another challenger has this name"),
    "not-yet": (409, "The model cannot do this yet"),
    "answer-gone": (410, "The answer to a repeated request is no longer stored"),
    "no-length": (411, "The length of the body is missing"),
    "too-large": (413, "The request is too large"),
    "no-format": (415, "The format of the body is not known"),
    "bad-row": (422, "A row cannot be used"),
    "bad-label": (422, "A label cannot be used"),
    "bad-columns": (422, "The columns are not those of the model"),
    "bad-input": (422, "The request cannot be used"),
    "bad-option": (422, "An option has a value that cannot be used"),
    "key-reused": (422, "The idempotency key was used with another body"),
    "not-leading": (421, "Another replica takes this"),
    "too-many-requests": (429, "Too many requests"),
    "overloaded": (429, "Too many rows wait to be learned"),
    "head-too-large": (431, "The headers are too large"),
    "failed": (500, "An error of the service"),
    "unavailable": (503, "The model takes nothing now"),
    "busy": (503, "Too much is under way"),
    "disk-full": (507, "The disk is nearly full"),
}
"""Status and title of each kind of problem."""

_KIND_OF: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (TooManyRowsError, "too-large"),
    (AnswerGoneError, "answer-gone"),
    (IdempotencyError, "key-reused"),
    (BadRowError, "bad-row"),
    (LabelError, "bad-label"),
    (SchemaError, "bad-columns"),
    (ShapeError, "bad-columns"),
    (ValueTypeError, "bad-row"),
    (NonFiniteError, "bad-row"),
    (InputError, "bad-input"),
    (OptionError, "bad-option"),
    (NameTakenError, "name-taken"),
    (MissingExtraError, "bad-option"),
    (CapabilityError, "not-yet"),
    (StateError, "not-yet"),
    (OverloadedError, "overloaded"),
    (StorageFullError, "disk-full"),
    (NotLeadingError, "not-leading"),
    (UnavailableError, "unavailable"),
)
"""The kind of problem of each error, the first that fits."""
NO_ROOM: Final = errno.ENOSPC, errno.EDQUOT
FULL: Final = "the disk of the service is full; free some of it, then send the request again"


def problem_of(error: BaseException) -> tuple[Problem, dict[str, str]]:
    """Return an error as a problem, with headers that belong to it. An unexpected error tells nothing of itself.

    >>> problem_of(LabelError("the label 'perhaps' is new", row=3, value="perhaps"))[0].status
    422
    """
    if isinstance(error, HttpProblem):
        kind, headers = error.kind, dict(error.headers)
    else:
        kind = next((name for own, name in _KIND_OF if isinstance(error, own)), "failed")
        if kind == "failed" and _is_full(error):
            kind = "disk-full"
        headers = {}
    if isinstance(error, OverloadedError):
        headers["retry-after"] = str(max(1, round(error.retry_after)))
    elif kind in ("busy", "unavailable"):
        headers.setdefault("retry-after", "1")
    status, title = KINDS[kind]
    detail = "The log of the service has the details." if kind == "failed" else str(error)
    if kind == "disk-full" and not isinstance(error, StorageFullError):
        detail = FULL
    place: dict[str, Any] = {}
    if isinstance(error, InputError):
        place = {"row": error.row, "column": error.column}
        if error.value is not None:
            place["value"] = error.value if isinstance(error.value, str) else shown(error.value)
    return Problem(type=PREFIX + kind, title=title, status=status, detail=detail, **place), headers


def _is_full(error: BaseException) -> bool:
    """Return whether a write failed because there is no room: by itself, or as the cause of another error."""
    return any(isinstance(one, OSError) and one.errno in NO_ROOM for one in (error, error.__cause__))
