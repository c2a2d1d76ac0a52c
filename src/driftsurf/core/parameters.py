"""Constructor arguments as parameters: read them, change them, show them."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Self

from driftsurf.core.options import safe_repr
from driftsurf.errors import OptionError

__all__ = ["Parameterised", "parameter_names"]


@functools.cache
def parameter_names(kind: type) -> tuple[str, ...]:
    """Names of the constructor's arguments, in order.

    >>> from driftsurf.detectors import FHDDM
    >>> parameter_names(FHDDM)
    ('window', 'delta')
    """
    return tuple(inspect.signature(kind).parameters)


class Parameterised:
    """Base class of parts whose constructor stores its arguments under their own names, as in scikit-learn.

    >>> from driftsurf.detectors import FHDDM
    >>> FHDDM(window=50).set_params(delta=0.01)
    FHDDM(window=50, delta=0.01)
    """

    def __repr__(self) -> str:
        given = (f"{name}={safe_repr(value)}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({', '.join(given)})"

    @property
    def _parameter_names(self) -> tuple[str, ...]:
        return parameter_names(type(self))  # type: ignore[arg-type]  # a class is hashable

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name. ``deep`` is accepted for scikit-learn and has no effect."""
        return {name: getattr(self, name) for name in self._parameter_names}

    def set_params(self, **params: Any) -> Self:
        """Change some of the constructor's arguments; OptionError for an unknown name."""
        known = self._parameter_names
        for name, value in params.items():
            if name not in known:
                raise OptionError(f"{type(self).__name__} has no parameter {name!r}; choices: {', '.join(known)}")
            setattr(self, name, value)
        return self
