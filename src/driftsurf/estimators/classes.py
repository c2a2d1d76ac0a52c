"""Estimator classes of strategies: the generated ones by name, and classes made for strategies of other packages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Literal, overload

from driftsurf import registry
from driftsurf.core.changes import RenewedLock
from driftsurf.core.contracts import Strategy
from driftsurf.core.frames import LearnerLike
from driftsurf.core.options import choice
from driftsurf.errors import CapabilityError
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
from driftsurf.estimators.docstrings import docstring, learning_example
from driftsurf.estimators.saved import SUFFIXES, EstimatorTask

_HERE = "driftsurf.estimators"

if TYPE_CHECKING:

    class _AnyClassifier(AdaptiveClassifier):
        """A classifier whose options a type checker does not know."""

        def __init__(self, learner: LearnerLike | None = None, **options: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    class _AnyRegressor(AdaptiveRegressor):
        """A regressor whose options a type checker does not know."""

        def __init__(self, learner: LearnerLike | None = None, **options: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


@overload
def estimator_class(
    strategy: str | type[Strategy], task: Literal["classification"] = "classification"
) -> type[_AnyClassifier]: ...
@overload
def estimator_class(strategy: str | type[Strategy], task: Literal["regression"]) -> type[_AnyRegressor]: ...
@overload
def estimator_class(
    strategy: str | type[Strategy], task: EstimatorTask
) -> type[_AnyClassifier] | type[_AnyRegressor]: ...
def estimator_class(
    strategy: str | type[Strategy], task: EstimatorTask = "classification"
) -> type[_AnyClassifier] | type[_AnyRegressor]:
    """Return the scikit-learn estimator class of a strategy.

    Its parameters are ``learner``, the options of the strategy, ``batch_size``, ``guard``, ``classes`` (of a
    classifier) and ``random_state``. The class of a registered strategy is also an attribute of
    :mod:`driftsurf.estimators`, where pickle finds it.

    Parameters
    ----------
    strategy
        The name of a registered strategy, or a class that implements :class:`driftsurf.core.contracts.Strategy`.
    task
        "classification" or "regression". CapabilityError if the strategy is registered without this task.

    Examples
    --------
    >>> estimator_class("sliding-window")(window=500)
    SlidingWindowClassifier(window=500)
    >>> from driftsurf.strategies import SlidingWindow
    >>> class NewestRows(SlidingWindow):
    ...     pass
    >>> estimator_class(NewestRows, "regression")(window=50)
    NewestRowsRegressor(window=50)
    """
    choice("task", task, tuple(SUFFIXES))
    entry = registry.get("strategy", strategy) if isinstance(strategy, str) else registry.find("strategy", strategy)
    part: Any = strategy if entry is None else entry.part
    if entry is not None and not _has_task(entry, task):
        raise CapabilityError(
            f"the strategy {entry.name!r} is for the tasks {', '.join(sorted(entry.tasks))}, not for {task}"
        )
    here, name = import_module(_HERE), f"{part.__name__}{SUFFIXES[task]}"
    made: type[_AnyClassifier] | type[_AnyRegressor]
    if entry is not None and part.__module__.startswith("driftsurf.") and name in vars(here)["_HOMES"]:
        made = getattr(here, name)
    else:
        made = _made(part, task, "" if entry is None else entry.title)
    return made


def find_estimator(name: str) -> type[AdaptiveEstimator] | None:
    """Return the estimator class of a registered strategy by the name of the class, or None.

    >>> find_estimator("AUEClassifier").__name__, find_estimator("OakClassifier")
    ('AUEClassifier', None)
    """
    for task, suffix in SUFFIXES.items():
        stem = name.removesuffix(suffix)
        entry = registry.find("strategy", stem) if stem != name else None
        if entry is not None and _has_task(entry, task):
            return estimator_class(entry.name, task)
    return None


def _has_task(entry: registry.Entry, task: EstimatorTask) -> bool:
    return bool(entry.tasks & (registry.REGRESSION if task == "regression" else registry.CLASSIFICATION))


_lock = RenewedLock()


def _made(strategy: Any, task: EstimatorTask, title: str) -> Any:
    """Return the estimator class of a strategy, the same one in all threads: pickle compares classes by identity."""
    with _lock:
        return _make(strategy, task, title)


@functools.cache
def _make(strategy: Any, task: EstimatorTask, title: str) -> Any:
    """Make the estimator class of a strategy from its constructor and docstring; ``title`` is empty without a name."""
    base = AdaptiveRegressor if task == "regression" else AdaptiveClassifier
    full = _signature(strategy, base)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = full.bind(self, *args, **kwargs)
        given.apply_defaults()
        for name, value in given.arguments.items():
            if name != "self":
                setattr(self, name, value)

    __init__.__signature__ = full  # type: ignore[attr-defined]
    name = f"{strategy.__name__}{SUFFIXES[task]}"
    common = signature(base.__init__).parameters
    options = [option for option in full.parameters if option not in common]
    example = learning_example(SUFFIXES[task], name) if title else ""  # only a registered one can be imported
    members = {
        "__init__": __init__,
        "__doc__": docstring(strategy, title or strategy.__name__, SUFFIXES[task], options, example),
        # pickle looks a class up by module and name; the module's __getattr__ finds registered strategies.
        "__module__": _HERE if title else strategy.__module__,
        "_strategy_class": staticmethod(strategy),
    }
    return type(name, (base,), members)


def _signature(strategy: Callable[..., Strategy], base: type[AdaptiveEstimator]) -> Signature:
    """Return the constructor's signature: that of the base class with the options of the strategy after ``learner``."""
    this, learner, *common = signature(base.__init__).parameters.values()
    options = [
        option.replace(kind=Parameter.KEYWORD_ONLY, default=None if option.name == "detector" else option.default)
        for option in signature(strategy).parameters.values()
        if option.name not in ("learner", "seed")
    ]
    return Signature([this, learner, *options, *common])
