"""Parameters as text that is the same in every process: to be kept beside a state and compared."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np

from driftsurf import detectors
from driftsurf.errors import StateError

__all__ = ["described", "described_option", "plain"]


class Parameterised(Protocol):
    """A learner, a detector, a model of scikit-learn."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        ...


def described(part: Parameterised) -> str:
    """Its parameters, and those of a model inside it: numbers and text in full, functions and classes by name."""
    return json.dumps(part.get_params(), sort_keys=True, default=_named)


def described_option(value: Any) -> str:
    """One option of a strategy; of a part with parameters of its own what it is, and these.

    >>> from driftsurf.detectors import DDM
    >>> described_option(0.1), described_option(DDM())[:4]
    ('0.1', 'DDM(')
    """
    if hasattr(value, "get_params"):
        return f"{type(value).__name__}({described(value)})"
    return json.dumps(value, sort_keys=True, default=_named)


def _named(value: Any) -> Any:
    if hasattr(value, "get_params"):
        return f"a {type(value).__name__}"  # its own parameters follow one by one
    if hasattr(value, "_get_params"):  # river's
        return repr(value)
    if callable(value):
        return f"the function {getattr(value, '__name__', type(value).__name__)}"
    return plain(value)


def plain(value: Any) -> Any:
    """What JSON has no form for as what it has one for; StateError if that cannot be."""
    if getattr(detectors, type(value).__name__, None) is type(value):
        return {"detector": type(value).__name__, "options": value.get_params()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset | range):
        return sorted(value)
    raise StateError(f"a parameter is {value!r}, which cannot be saved; use numbers, text or lists")
