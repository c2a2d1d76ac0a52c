"""Models by name: a strategy, a detector where it needs one, and a learner, with their parameters."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from driftsurf import detectors, learners, strategies
from driftsurf.base import Learner, Strategy
from driftsurf.errors import CapabilityError, OptionError
from driftsurf.runtime.target import Task

__all__ = ["DETECTORS", "LEARNERS", "STRATEGIES", "make_strategy", "read_value"]

STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "driftsurf": strategies.DriftSurf,
    "oblivious": strategies.Oblivious,
    "one-pass": strategies.OnePass,
    "sliding-window": strategies.SlidingWindow,
    "linear-decay": strategies.LinearDecay,
    "exponential-decay": strategies.ExponentialDecay,
    "aue": strategies.AUE,
    "dwm": strategies.DWM,
    "learn-nse": strategies.LearnNSE,
    "paired-learners": strategies.PairedLearners,
    "candor": strategies.Candor,
    "perm": strategies.PERM,
}
DETECTORS: dict[str, Callable[..., Any]] = {
    "adwin": detectors.ADWIN,
    "ddm": detectors.DDM,
    "eddm": detectors.EDDM,
    "fhddm": detectors.FHDDM,
    "mddm": detectors.MDDM,
    "page-hinkley": detectors.PageHinkley,
}
"""Each is a model too: one that begins anew when the detector signals."""
LEARNERS: dict[str, Callable[..., Learner]] = {
    "logistic": learners.LogisticRegression,
    "softmax": learners.SoftmaxRegression,
    "svm": learners.LinearSVM,
    "linear": learners.LinearRegression,
}
USUAL: dict[Task, str] = {"binary": "logistic", "multiclass": "softmax", "regression": "linear"}
"""The learner where none is named."""


def make_strategy(
    model: str, learner: str | None, task: Task, parameters: Mapping[str, Any] | None = None, *, seed: int = 0
) -> Strategy:
    """A strategy for a task.

    Parameters
    ----------
    model
        A name of ``STRATEGIES``, or of ``DETECTORS``; with a learner in one word ``"aue:softmax"``.
    learner
        A name of ``LEARNERS``; ``"module:Class"`` or ``"module.Class"`` for one from elsewhere, such as
        ``"sklearn.linear_model:SGDClassifier"``; None for the usual one of the task.
    task
        What is predicted.
    parameters
        Of the strategy, the detector or the learner, whoever has one of that name, in this order.
    seed
        Fixes every random number.

    Examples
    --------
    >>> make_strategy("driftsurf", None, "multiclass", {"threshold": 0.05, "l2": 1e-3}).learner.l2
    0.001
    >>> make_strategy("ddm", None, "binary", {"l2x": 1})
    Traceback (most recent call last):
    driftsurf.errors.OptionError: ddm with logistic has no parameter 'l2x'; did you mean 'l2'? choices: max_rows, ...
    """
    if learner is None and ":" in model:
        model, _, learner = model.partition(":")
    known = {**STRATEGIES, **DETECTORS}
    if model not in known:
        raise OptionError(f"model is {model!r}; {_near(model, known)}choices: {', '.join(known)}")
    detector = DETECTORS.get(model)
    make: Callable[..., Strategy] = strategies.ResetOnDrift if detector is not None else STRATEGIES[model]
    name = USUAL[task] if learner is None else learner
    makers = [make, *([] if detector is None else [detector])]
    template, adapter = _learner_of(name)
    names = [_parameters(maker) for maker in makers] + [_parameters(template)]
    if adapter is not None:
        names.append(_parameters(type(adapter)))
    given: list[dict[str, Any]] = [{} for _ in names]
    for key, value in (parameters or {}).items():
        owner = next((place for place, own in enumerate(names) if key in own), None)
        if owner is None:
            every = list(dict.fromkeys(one for own in names for one in own))
            raise OptionError(
                f"{model} with {name} has no parameter {key!r}; {_near(key, every)}choices: {', '.join(every)}"
            )
        given[owner][key] = value
    of_learner, of_adapter = (given[-1], {}) if adapter is None else (given[-2], given[-1])
    built = _built(template, name, of_learner, of_adapter, foreign=adapter is not None)
    if task not in built.capabilities.tasks:
        raise CapabilityError(
            f"the learner {name} is for the task {' or '.join(sorted(built.capabilities.tasks))}, not for {task}; "
            f"choose another task, or the learner {USUAL[task]}"
        )
    parts: list[Any] = [built] if detector is None else [built, detector(**given[1])]
    strategy: Strategy = make(*parts, **given[0], seed=seed)
    strategy.check()
    return strategy


def _learner_of(name: str) -> tuple[Callable[..., Any], Any]:
    """Who makes a learner, and for one from elsewhere the adapter of one with its usual parameters."""
    if name in LEARNERS:
        return LEARNERS[name], None
    module, _, attribute = name.partition(":") if ":" in name else name.rpartition(".")
    if not (module and attribute):
        raise OptionError(
            f"learner is {name!r}; {_near(name, LEARNERS)}choices: {', '.join(LEARNERS)}, or module:Class, such as "
            "sklearn.linear_model:SGDClassifier"
        )
    from driftsurf.adapters import as_learner

    try:
        maker = getattr(importlib.import_module(module), attribute)
        return maker, as_learner(maker())
    except Exception as error:  # whatever it raises
        raise OptionError(f"learner is {name!r}, which cannot be made: {error}") from error


def _built(
    make: Callable[..., Any], name: str, own: Mapping[str, Any], of_adapter: Mapping[str, Any], *, foreign: bool
) -> Learner:
    if not foreign:
        learner: Learner = make(**own)
        learner.fresh(0, 1, learner.capabilities.least_classes)  # where its parameters are checked
        return learner
    from driftsurf.adapters import as_learner

    try:
        adapter = as_learner(make(**own))
    except Exception as error:  # whatever it raises
        raise OptionError(f"learner is {name!r}, which cannot be made: {error}") from error
    for key, value in of_adapter.items():
        setattr(adapter, key, value)
    return adapter


def _parameters(make: Callable[..., Any]) -> list[str]:
    """What can be set; the parts themselves and the seed are not."""
    own = inspect.signature(make).parameters.values()
    parts = "learner", "detector", "estimator", "model", "seed", "random_state"
    return [one.name for one in own if one.name not in parts and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]


def _near(name: str, choices: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(choices), n=1)
    return f"did you mean {found[0]!r}? " if found else ""


def read_value(text: str) -> Any:
    """A value as it is written on a command line: a number, true, false, none, or text.

    >>> [read_value(text) for text in ("4", "1e-3", "true", "none", "auto")]
    [4, 0.001, True, None, 'auto']
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
