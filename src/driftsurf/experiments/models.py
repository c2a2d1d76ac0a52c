"""Models that are compared: those of :mod:`driftsurf.assembly.models` as the evaluation runs them, and those of others.

Names are read there. Added are the evaluation's own strategies (``aware``, ``no-greedy``, ``aue-2`` ...), the budget
that all models of a strategy share, and the peers that are run as they are: ``capymoa:ARF10``, ``capymoa:SRP10``,
``capymoa:CLASS(...)``, ``river:ARF10``, ``river:tree.HoeffdingTreeClassifier(...)``, ``majority`` and ``persistence``.
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
from driftsurf.errors import Option, OptionError
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
    batch_size: int = 1000
    seed: int = 0
    drift_steps: tuple[int, ...] | None = None
    """Where an oracle is told of drifts; None where nobody knows."""
    gradients_per_row: float | None = None
    """A budget for all models of a strategy together; None leaves each learner its own."""

    @property
    def task(self) -> Task:
        """By the number of classes."""
        return "binary" if self.n_classes == 2 else "multiclass"


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


_SHORT = {
    "capymoa": ("ensemble_size", {"ARF": "AdaptiveRandomForestClassifier", "SRP": "StreamingRandomPatches"}),
    "river": ("n_models", {"ARF": "forest.ARFClassifier", "SRP": "ensemble.SRPClassifier"}),
}
_SEEDS = {"capymoa": "random_seed", "river": "seed"}
_PLAIN = {"majority": peers.Majority, "persistence": peers.Persistence}


_PEERS = "majority", "persistence", "capymoa:ARF10", "capymoa:SRP10", "river:ARF10"


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
        return Model(head, lambda at: _PLAIN[head](), lambda at: False)
    if colon and head in _SHORT:
        return _peer(head, rest, text)
    return _adaptive(text)


def _adaptive(text: str) -> Model:
    found = read_model(text, more=ALGORITHMS, others=_PEERS)
    strategy = found.strategy.name

    def template(at: Situation) -> Learner:
        made = make_learner(found.learner_for(at.task), at.task)
        return made if at.gradients_per_row is None else _budgeted(made, at.gradients_per_row, text)

    def make(at: Situation) -> Session:
        made = with_options(_evaluated(strategy, template(at), at, text), found.strategy.options, strategy)
        return Session(made, classes=range(at.n_classes))

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
    full, known = part.name, dict(part.options)
    if found is not None and found[1] in short:
        full = short[found[1]]
        known |= {count: int(found[2])} if found[2] else {}
    kind = peers.CapyMOA if package == "capymoa" else peers.River

    def make(at: Situation) -> peers.Peer:
        # Those that draw nothing take no seed; the ensembles that have a short name all do.
        return kind(full, known | ({_SEEDS[package]: at.seed} if full != part.name else {}))

    return Model(f"{package}:{part}", make, lambda at: False, package)
