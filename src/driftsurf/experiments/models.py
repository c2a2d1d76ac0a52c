"""Models by name: strategies times learners, and what others make; every command takes its names from here.

``STRATEGY:LEARNER`` is one of the strategies of the evaluation around a learner, both perhaps with options:
``driftsurf:logistic``, ``driftsurf(threshold=0.2):lightgbm``, ``sliding-window:sklearn.tree.DecisionTreeClassifier``. A
learner with a dot in its name is imported from there. ``capymoa:ARF10``, ``capymoa:SRP10``, ``capymoa:CLASS(...)``,
``river:ARF10``, ``river:tree.HoeffdingTreeClassifier(...)``, ``majority`` and ``persistence`` are run as they are.
``recommended`` and ``recommended-linear`` are those of :func:`driftsurf.recommended`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from driftsurf.base import Learner, Strategy
from driftsurf.errors import MissingExtraError, OptionError
from driftsurf.experiments import peers
from driftsurf.experiments.algorithms import ALGORITHMS, Setting
from driftsurf.learners import LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.runtime.session import Session
from driftsurf.strategies import BudgetRule

__all__ = ["LEARNERS", "Model", "Situation", "model", "names"]


@dataclass(frozen=True)
class Situation:
    """What a model has to be made for."""

    n_classes: int
    batch_size: int = 1000
    seed: int = 0
    drift_steps: tuple[int, ...] | None = None
    """Where an oracle is told of drifts; None where nobody knows."""
    gradients_per_row: float | None = None
    """A budget for all models of a strategy together; None leaves each learner its own."""


@dataclass(frozen=True)
class Model:
    """A model by name. ``make`` gives something that :func:`driftsurf.prequential` can run."""

    name: str
    make: Callable[[Situation], Any]
    sparse: Callable[[Situation], bool]
    """Whether it takes sparse rows."""
    package: str = "scikit-learn"
    """What it stands on beside numpy, scipy and numba."""

    @property
    def built_on(self) -> str:
        """The package and its version."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package


def _linear(n_classes: int, **options: Any) -> Learner:
    return LogisticRegression(**options) if n_classes == 2 else SoftmaxRegression(**options)


def _softmax(n_classes: int, **options: Any) -> Learner:
    return SoftmaxRegression(**options)


def _svm(n_classes: int, **options: Any) -> Learner:
    return LinearSVM(**options)


def _boosted(n_classes: int, **options: Any) -> Learner:
    trees: Learner = import_module("driftsurf.adapters").BoostedTrees(**options)
    return trees


LEARNERS: dict[str, tuple[str, Callable[..., Learner], str]] = {
    "logistic": ("logistic regression by STRSAGA; of more than two classes softmax regression", _linear, "numba"),
    "softmax": ("softmax regression by STRSAGA, for any number of classes", _softmax, "numba"),
    "svm": ("a linear support vector machine, for two classes", _svm, "numba"),
    "lightgbm": ("boosted trees, sized by the number of classes", _boosted, "lightgbm"),
}
"""By name: what it is, who makes it for so many classes, and the package it needs."""

RECOMMENDED = {
    "recommended": "driftsurf:lightgbm",
    "recommended-linear": "driftsurf(judge='prequential'):softmax(steps_per_row=8.0)",
}
"""What :func:`driftsurf.recommended` gives, by name."""

_SHORT = {
    "capymoa": ("ensemble_size", {"ARF": "AdaptiveRandomForestClassifier", "SRP": "StreamingRandomPatches"}),
    "river": ("n_models", {"ARF": "forest.ARFClassifier", "SRP": "ensemble.SRPClassifier"}),
}
_SEEDS = {"capymoa": "random_seed", "river": "seed"}
_PLAIN = {"majority": peers.Majority, "persistence": peers.Persistence}


def model(text: str) -> Model:
    """The model of this name.

    >>> model("driftsurf( threshold=0.2 ):logistic").name
    'driftsurf(threshold=0.2):logistic'
    >>> model("driftsurf:forest")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no learner 'forest' in 'driftsurf:forest'; choices: logistic, softmax, ...
    """
    if text.strip() in RECOMMENDED:
        return replace(model(RECOMMENDED[text.strip()]), name=text.strip())
    head, colon, rest = text.strip().partition(":")
    if not colon:
        if head not in _PLAIN:
            raise OptionError(f"no model {head!r}; give STRATEGY:LEARNER, such as driftsurf:logistic, or {_others()}")
        return Model(head, lambda at: _PLAIN[head](), lambda at: False)
    if head in _SHORT:
        return _peer(head, rest, text)
    return _adaptive(head, rest, text)


def names(text: str) -> list[str]:
    """A list of models, separated by commas that are not in brackets.

    >>> names("driftsurf:logistic, oblivious:sklearn.svm.SVC(C=2, gamma=0.1)")
    ['driftsurf:logistic', 'oblivious:sklearn.svm.SVC(C=2, gamma=0.1)']
    """
    return [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]


# -------------------------------------------------------------------- strategies and learners


def _adaptive(head: str, rest: str, text: str) -> Model:
    strategy, options = _read(head, text)
    learner, learner_options = _read(rest.replace(":", ".", 1), text)  # module:Class is module.Class
    if strategy not in ALGORITHMS:
        raise OptionError(f"no strategy {strategy!r} in {text!r}; choices: {', '.join(ALGORITHMS)}, or {_others()}")
    if learner not in LEARNERS and "." not in learner:
        remedy = "a class by its import path, such as sklearn.tree.DecisionTreeClassifier"
        raise OptionError(f"no learner {learner!r} in {text!r}; choices: {', '.join(LEARNERS)}, or {remedy}")

    def template(at: Situation) -> Learner:
        made = _learner(learner, learner_options, at.n_classes)
        return made if at.gradients_per_row is None else _budgeted(made, at.gradients_per_row, text)

    def make(at: Situation) -> Session:
        if ALGORITHMS[strategy].kind == "oracle" and at.drift_steps is None:
            raise OptionError(f"{text!r} has to be told of the drifts, and nobody knows those of this source")
        budget: BudgetRule = "each" if at.gradients_per_row is None else "divided"
        setting = Setting(at.drift_steps or (), at.batch_size, budget, seed=at.seed)
        return Session(
            _with_options(ALGORITHMS[strategy].make(template(at), setting), options, text), classes=range(at.n_classes)
        )

    package = LEARNERS[learner][2] if learner in LEARNERS else learner.partition(".")[0]
    name = f"{_written(strategy, options)}:{_written(learner, learner_options)}"
    return Model(name, make, lambda at: template(at).capabilities.sparse, package.replace("sklearn", "scikit-learn"))


def _learner(name: str, options: Mapping[str, Any], n_classes: int) -> Learner:
    try:
        if name in LEARNERS:
            return LEARNERS[name][1](n_classes, **options)
        made: Learner = import_module("driftsurf.adapters").as_learner(_imported(name)(**options))
        return made
    except TypeError as error:
        raise OptionError(f"{name} does not take the options {dict(options)}: {error}") from error


def _imported(path: str) -> Any:
    module, _, kind = path.rpartition(".")
    try:
        return getattr(import_module(module), kind)
    except (ImportError, AttributeError) as error:
        raise MissingExtraError(f"{path} cannot be imported ({error}); install its package, or correct it") from error


def _budgeted(learner: Learner, gradients_per_row: float, text: str) -> Learner:
    known = learner.get_params() if hasattr(learner, "get_params") else {}
    for option in ("steps_per_row", "passes"):
        if option in known:
            same: Learner = type(learner)(**(learner.get_params(deep=False) | {option: gradients_per_row}))
            return same
    raise OptionError(f"the learner of {text!r} has no budget to set; leave gradients_per_row out")


def _with_options(strategy: Strategy, options: Mapping[str, Any], text: str) -> Strategy:
    """A strategy stores its arguments under their names, and nothing else before it begins."""
    known = [name for name in inspect.signature(type(strategy).__init__).parameters if name not in ("self", "learner")]
    for option, value in options.items():
        if option not in known:
            raise OptionError(f"no option {option!r} in {text!r}; choices: {', '.join(known)}")
        setattr(strategy, option, value)
    return strategy


# -------------------------------------------------------------------- what others make


def _peer(package: str, rest: str, text: str) -> Model:
    name, options = _read(rest, text)
    count, short = _SHORT[package]
    found = re.fullmatch(r"([A-Z]+)(\d*)", name)
    full, known = name, dict(options)
    if found is not None and found[1] in short:
        full = short[found[1]]
        known |= {count: int(found[2])} if found[2] else {}
    kind = peers.CapyMOA if package == "capymoa" else peers.River

    def make(at: Situation) -> peers.Peer:
        # Those that draw nothing take no seed; the ensembles that have a short name all do.
        return kind(full, known | ({_SEEDS[package]: at.seed} if full != name else {}))

    return Model(f"{package}:{_written(name, options)}", make, lambda at: False, package)


def _others() -> str:
    return f"{', '.join(RECOMMENDED)}, majority, persistence, capymoa:ARF10, capymoa:SRP10, river:ARF10"


# -------------------------------------------------------------------- names with options


def _read(text: str, whole: str) -> tuple[str, dict[str, Any]]:
    """``name(option=value, ...)`` taken apart; values are literals of Python."""
    found = re.fullmatch(r"\s*([\w.+-]+)\s*(?:\((.*)\))?\s*", text)
    try:
        if found is None:
            raise ValueError(text)
        call: Any = ast.parse(f"f({found[2] or ''})", mode="eval").body
        if call.args or any(word.arg is None for word in call.keywords):
            raise ValueError(text)
        return found[1], {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    except (ValueError, SyntaxError):
        raise OptionError(
            f"{text!r} in {whole!r} cannot be read; give a name, or name(option=value, ...) with plain values"
        ) from None


def _written(name: str, options: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})" if options else name
