"""Models that are compared: those of :mod:`driftsurf.assembly.models` as the evaluation runs them, and those of others.

Names are read there. Added are the evaluation's own strategies (``aware``, ``no-greedy``, ``aue-2`` ...), the budget
that all models of a strategy share, and the peers that are run as they are: ``capymoa:ARF10``, ``capymoa:SRP10``,
``capymoa:CLASS(...)``, ``river:ARF10``, ``river:tree.HoeffdingTreeClassifier(...)``, ``majority`` for classes, ``mean``
for values, and ``persistence``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from driftsurf.assembly.models import make_learner, read_model, read_part, strategy_around, with_options
from driftsurf.base import Learner, Strategy
from driftsurf.errors import CapabilityError, Option, OptionError
from driftsurf.experiments import peers
from driftsurf.experiments.algorithms import ALGORITHMS, Setting
from driftsurf.runtime.session import Session
from driftsurf.runtime.target import Task
from driftsurf.strategies import BudgetRule

__all__ = ["Model", "Situation", "model"]


@dataclass(frozen=True)
class Situation:
    """What a model has to be made for."""

    n_classes: int
    """0 where values are predicted."""
    batch_size: int = 1000
    seed: int = 0
    drift_steps: tuple[int, ...] | None = None
    """Where an oracle is told of drifts; None where nobody knows."""
    gradients_per_row: float | None = None
    """A budget for all models of a strategy together; None leaves each learner its own."""
    asked: Task | None = None
    """The task, where it is not to go by the number of classes."""

    @property
    def task(self) -> Task:
        """As asked, or by the number of classes."""
        found: dict[int, Task] = {0: "regression", 2: "binary"}
        return self.asked or found.get(self.n_classes, "multiclass")

    @property
    def learnt(self) -> peers.Learnt:
        """What is predicted."""
        return "classes" if self.n_classes else "values"


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
        """The package and its version; of a module of the user's own, the digest of its source."""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            found = find_spec(self.package)
            source = None if found is None or found.origin is None else Path(found.origin)
            if source is None or not source.is_file():
                return self.package
            return f"{self.package} {hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"


_SHORT: dict[str, tuple[str, dict[str, dict[peers.Learnt, str]]]] = {
    "capymoa": (
        "ensemble_size",
        {
            "ARF": {"classes": "AdaptiveRandomForestClassifier", "values": "AdaptiveRandomForestRegressor"},
            "SRP": {"classes": "StreamingRandomPatches"},
        },
    ),
    "river": (
        "n_models",
        {
            "ARF": {"classes": "forest.ARFClassifier", "values": "forest.ARFRegressor"},
            "SRP": {"classes": "ensemble.SRPClassifier", "values": "ensemble.SRPRegressor"},
        },
    ),
}
_SEEDS = {"capymoa": "random_seed", "river": "seed"}
_PLAIN: dict[str, type[peers.Peer]] = {
    "majority": peers.Majority,
    "mean": peers.Mean,
    "persistence": peers.Persistence,
}


_PEERS = *_PLAIN, "capymoa:ARF10", "capymoa:SRP10", "river:ARF10"


def model(text: str) -> Model:
    """The model of this name.

    >>> model("driftsurf( threshold=0.2 ):logistic").name
    'driftsurf(threshold=0.2):logistic'
    >>> model("persistense")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: model is 'persistense'; did you mean 'persistence'? choices: driftsurf, ...
    """
    head, colon, rest = text.strip().partition(":")
    if not colon and head in _PLAIN:
        return Model(head, lambda at: _plain(head, at), lambda at: False)
    if colon and head in _SHORT:
        return _peer(head, rest, text)
    return _adaptive(text)


def _plain(name: str, at: Situation) -> peers.Peer:
    if at.learnt not in _PLAIN[name].learns:
        choices = [other for other, kind in _PLAIN.items() if at.learnt in kind.learns]
        raise CapabilityError(f"{name} does not predict {at.learnt}; choices: {', '.join(choices)}")
    return _PLAIN[name]()


def _adaptive(text: str) -> Model:
    found = read_model(text, more=ALGORITHMS, others=_PEERS)
    strategy = found.strategy.name

    def template(at: Situation) -> Learner:
        made = make_learner(found.learner_for(at.task), at.task)
        return made if at.gradients_per_row is None else _budgeted(made, at.gradients_per_row, text)

    def make(at: Situation) -> Session:
        made = with_options(_evaluated(strategy, template(at), at, text), found.strategy.options, strategy)
        return Session(made, classes=range(at.n_classes) if at.n_classes else None)

    return Model(found.text, make, lambda at: template(at).capabilities.sparse, found.package)


def _evaluated(name: str, learner: Learner, at: Situation, text: str) -> Strategy:
    """A strategy as the evaluation runs it."""
    budget: BudgetRule = "each" if at.gradients_per_row is None else "divided"
    setting = Setting(at.drift_steps or (), at.batch_size, budget, seed=at.seed)
    if name not in ALGORITHMS:
        return strategy_around(name, learner, **setting.common)
    if ALGORITHMS[name].kind == "oracle" and at.drift_steps is None:
        raise OptionError(f"{text!r} has to be told of the drifts, and nobody knows those of this source")
    return ALGORITHMS[name].make(learner, setting)


def _budgeted(learner: Learner, gradients_per_row: float, text: str) -> Learner:
    known = learner.get_params() if hasattr(learner, "get_params") else {}
    for option in ("steps_per_row", "passes"):
        if option in known:
            same: Learner = type(learner)(**(learner.get_params(deep=False) | {option: gradients_per_row}))
            return same
    raise OptionError(f"the learner of {text!r} has no budget to set; leave ", Option("gradients_per_row"), " out")


def _peer(package: str, rest: str, text: str) -> Model:
    part = read_part(rest, text)
    count, short = _SHORT[package]
    found = re.fullmatch(r"([A-Z]+)(\d*)", part.name)
    ensemble = short.get(found[1]) if found is not None else None
    known = dict(part.options)
    if found is not None and ensemble is not None and found[2]:
        known |= {count: int(found[2])}

    def make(at: Situation) -> peers.Peer:
        if ensemble is not None and at.learnt not in ensemble:
            choices = ", ".join(f"{package}:{name}10" for name, forms in short.items() if at.learnt in forms)
            raise CapabilityError(f"{package}:{part} does not predict {at.learnt}; choices: {choices}")
        full = part.name if ensemble is None else ensemble[at.learnt]
        # Those that draw nothing take no seed; the ensembles that have a short name all do.
        options = known if ensemble is None else known | {_SEEDS[package]: at.seed}
        return peers.CapyMOA(full, options) if package == "capymoa" else peers.River(full, options, at.learnt)

    return Model(f"{package}:{part}", make, lambda at: False, package)
