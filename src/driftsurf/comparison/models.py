"""Models that can be compared: those of :mod:`driftsurf.session.model_names`, and those of other libraries.

An evaluation runs a strategy in its own way (:mod:`driftsurf.comparison.models`) and knows a few more of them:
``aware``, ``no-greedy``, ``aue-2``, ``obl`` and others. Models of other libraries run as they are: ``capymoa:ARF10``,
``capymoa:SRP10``, ``capymoa:CLASS(...)``, ``river:ARF10``, ``river:tree.HoeffdingTreeClassifier(...)``.
``retrained(every=5, window=10):LEARNER`` is fitted from scratch to the last ten batches after every fifth one,
``retrained(every=5, rows=2000):LEARNER`` to the last 2,000 rows, and ``frozen(window=10):LEARNER`` to the first ten
batches and never again. ``best-schedule`` is the best of many schedules, chosen afterwards (:func:`schedules`).
``majority`` (classes), ``mean`` (regression) and ``persistence`` are trivial rules to beat.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from driftsurf import registry
from driftsurf.comparison import peers
from driftsurf.core.contracts import Categories, Learner, Strategy
from driftsurf.core.options import whole
from driftsurf.data.row_encoder import Task
from driftsurf.errors import CapabilityError, Option, OptionError
from driftsurf.session.default_model import has_trees
from driftsurf.session.model_names import (
    ModelName,
    make_learner,
    read_model,
    read_part,
    settable_options,
    strategy_around,
    with_options,
)
from driftsurf.session.session import Session
from driftsurf.strategies import BudgetRule, Variant


@dataclass(frozen=True)
class Situation:
    """Circumstances that a model is made for: the task, the batch size, and what is known about the source."""

    n_classes: int
    """0 for a regression."""
    batch_size: int = 1000
    seed: int = 0
    drift_steps: tuple[int, ...] | None = None
    """Steps at which the source drifts, for an oracle; None if they are unknown."""
    gradients_per_row: float | None = None
    """A budget that all models of a strategy share; None leaves each learner its own budget."""
    asked: Task | None = None
    """The task that the user asked for; None to derive it from the number of classes."""
    categories: Categories = ()
    """Columns of the rows that belong to a category."""

    @property
    def task(self) -> Task:
        """The task: as asked for, or by the number of classes."""
        found: dict[int, Task] = {0: "regression", 2: "binary"}
        return self.asked or found.get(self.n_classes, "multiclass")

    @property
    def target(self) -> peers.TargetKind:
        """Task of the model: classification or regression."""
        return "classes" if self.n_classes else "numbers"


@dataclass(frozen=True)
class ComparedModel:
    """A model by name. ``make`` returns an object that :func:`driftsurf.prequential` can run."""

    name: str
    make: Callable[[Situation], Any]
    sparse: Callable[[Situation], bool]
    """Whether it takes sparse rows."""
    packages: tuple[str, ...] = ()
    """Import names of the packages it is made of, beside driftsurf and what driftsurf requires."""
    seeded: bool = True
    """Whether a seed may change its results; if not, one run is enough."""
    numbered: bool = False
    """Whether it is given each category as one column of numbers, which trees split better than hundreds of columns."""

    @property
    def built_on(self) -> str:
        """The packages with their versions; results of another version are not taken for its own."""
        return ", ".join(map(_versioned, self.packages))


def _versioned(package: str) -> str:
    """Return a package with its version, or with a digest of its source if it is a module that is not installed."""
    package = package.replace("sklearn", "scikit-learn")
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        source = _source(package)
        if source is None or not Path(source).is_file():
            return package
        return f"{package} {hashlib.sha256(Path(source).read_bytes()).hexdigest()[:12]}"


def _source(module: str) -> str | None:
    """Return the file of a module; None if it has none, as a notebook."""
    if module == "__main__":  # a script has no spec
        return getattr(sys.modules[module], "__file__", None)
    found = find_spec(module)
    return None if found is None else found.origin


_SHORT: dict[str, tuple[str, dict[str, dict[peers.TargetKind, str]]]] = {
    "capymoa": (
        "ensemble_size",
        {
            "ARF": {"classes": "AdaptiveRandomForestClassifier", "numbers": "AdaptiveRandomForestRegressor"},
            "SRP": {"classes": "StreamingRandomPatches"},
        },
    ),
    "river": (
        "n_models",
        {
            "ARF": {"classes": "forest.ARFClassifier", "numbers": "forest.ARFRegressor"},
            "SRP": {"classes": "ensemble.SRPClassifier", "numbers": "ensemble.SRPRegressor"},
        },
    ),
}
"""Ensembles of other libraries that have a short name: the option for their size, and their classes."""
_SEEDS = {"capymoa": "random_seed", "river": "seed"}
_TRIVIAL: dict[str, type[peers.Peer]] = {
    "majority": peers.Majority,
    "mean": peers.Mean,
    "persistence": peers.Persistence,
}
_PEERS = *_TRIVIAL, "capymoa:ARF10", "capymoa:SRP10", "river:ARF10"
_SCHEDULES: dict[str, dict[str, int | None]] = {
    "retrained": {"every": 5, "window": 10, "rows": None},
    "frozen": {"window": 10},
}
"""Models that learn at times only: their options, in batches but for the rows, which may stand for the window."""
BEST_SCHEDULE = "best-schedule"
EVERY, ROWS = (1, 5, 20), (500, 2_000, 10_000)
"""Schedules of ``best-schedule``: a fit after so many batches, to so many of the last rows."""
LEARNERS = "lightgbm.LGBM{}(n_jobs=1, verbose=-1)", "sklearn.ensemble.HistGradientBoosting{}"
"""Trees that are retrained as their libraries make them, for "Classifier" and "Regressor", beside a linear model."""


@dataclass(frozen=True)
class Schedule:
    """A schedule of retraining, one of those of ``best-schedule``."""

    model: str
    """Its name as a model."""
    learner: str
    every: int
    """Batches between two fits."""
    rows: int
    """Rows of a fit."""


def model(text: str) -> ComparedModel:
    """Return the model of this name.

    >>> model("driftsurf( threshold=0.2 ):logistic").name
    'driftsurf(threshold=0.2):logistic'
    >>> model("persistense")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: model is 'persistense'; did you mean 'persistence'? choices: aue, ...
    """
    head, colon, rest = text.strip().partition(":")
    if not colon and head in _TRIVIAL:
        return ComparedModel(head, lambda at: _trivial(head, at), lambda at: False, seeded=False)
    if colon and head in _SHORT:
        return _peer(head, rest, text)
    return _adaptive(text)


def _trivial(name: str, at: Situation) -> peers.Peer:
    if at.target not in _TRIVIAL[name].predicts:
        choices = [other for other, kind in _TRIVIAL.items() if at.target in kind.predicts]
        raise CapabilityError(f"{name} does not predict {at.target}; choices: {', '.join(choices)}")
    return _TRIVIAL[name]()


def _adaptive(text: str) -> ComparedModel:
    """Return the model of a strategy around a learner."""
    found = read_model(text, more=(*COMPARED, *_SCHEDULES), others=(*_PEERS, BEST_SCHEDULE))
    if found.strategy.name in _SCHEDULES:
        return _scheduled(found)
    strategy = found.strategy.name

    def template(at: Situation) -> Learner:
        made = make_learner(found.learner_for(at.task), at.task)
        return made if at.gradients_per_row is None else _with_budget(made, at.gradients_per_row, text)

    def make(at: Situation) -> Session:
        chosen = () if found.learner is None else tuple(found.learner.options)
        made = with_options(_strategy(strategy, template(at), at, text, chosen), found.strategy.options, strategy)
        classes = range(at.n_classes) if at.n_classes else None
        return Session(made, classes=classes, categories=lambda: at.categories)

    return ComparedModel(
        found.text, make, lambda at: template(at).capabilities.sparse, found.packages, seeded=_may_draw(found)
    )


def _scheduled(found: ModelName) -> ComparedModel:
    """Return the model that fits a learner from scratch, at times or for some batches only."""
    name, usual = found.strategy.name, _SCHEDULES[found.strategy.name]
    _check_options(found, usual)
    chosen = usual | ({"window": None} if "rows" in found.strategy.options else {}) | dict(found.strategy.options)
    inner = _adaptive(f"oblivious:{found.learner}" if found.learner else "oblivious")

    def make(at: Situation) -> peers.Scheduled:
        if at.gradients_per_row is not None:
            raise OptionError(
                *(f"{name} fits models from scratch, which ", Option("gradients_per_row"), " cannot limit; "),
                "leave the option or the model out",
            )

        def fresh(rows: int) -> Session:
            session: Session = inner.make(at)
            learner: Any = session.strategy.learner
            if "rows" in learner.get_params(deep=False):  # an adapter learns so many of them at most
                learner.set_params(rows=max(rows, learner.rows))
            return session

        return peers.Scheduled(fresh, **chosen)

    return replace(inner, name=found.text, make=make)


def _check_options(found: ModelName, known: Collection[str]) -> None:
    for key in found.strategy.options:
        if key not in known:
            choices = f"{registry.nearest(key, known)}choices: {', '.join(known)}"
            raise OptionError(f"{found.strategy.name} has no option {key!r}; {choices}")


def schedules(text: str, *, regression: bool) -> tuple[str, tuple[Schedule, ...]]:
    """Return the schedules among which ``best-schedule`` is the best, and its name; none for any other model.

    >>> name, found = schedules("best-schedule(every=[2, 9], rows=300):lightgbm", regression=False)
    >>> found[0]
    Schedule(model='retrained(every=2, rows=300):lightgbm', learner='lightgbm', every=2, rows=300)
    """
    if not re.match(rf"\s*{BEST_SCHEDULE}\s*([(:]|$)", text):
        return text, ()
    found = read_model(text, more=[BEST_SCHEDULE])
    options = {"every": EVERY, "rows": ROWS} | dict(found.strategy.options)
    _check_options(found, ("every", "rows"))
    every, rows = (
        [whole(key, one, at_least=1) for one in (value if isinstance(value, (list, tuple)) else [value])]
        for key, value in options.items()
    )
    trees = [one.format("Regressor" if regression else "Classifier") for one in LEARNERS]
    line = f"{'linear' if regression else 'logistic'}(steps_per_row=30.0)"  # its optimum, as far as errors show it
    learners = [str(found.learner)] if found.learner else [*(trees if has_trees() else trees[1:]), line]
    return found.text, tuple(
        Schedule(model(f"retrained(every={n}, rows={m}):{one}").name, one.partition("(")[0].rpartition(".")[2], n, m)
        for one in learners
        for n in every
        for m in rows
    )


def _may_draw(found: ModelName) -> bool:
    """Return whether a strategy or its learner may draw random numbers."""
    outer = registry.lookup(("strategy", "detector"), found.strategy.name)
    inner = None if found.learner is None else registry.lookup("learner", found.learner.name)
    if outer is None or inner is None:
        return True
    return bool(outer.details.get("draws", False)) or bool(inner.details.get("draws", True))


def _strategy(name: str, learner: Learner, at: Situation, text: str, of_learner: tuple[str, ...]) -> Strategy:
    """Make a strategy as the evaluation runs it; ``of_learner`` are the options of the learner that ``text`` has."""
    chosen = algorithm(name)
    if chosen.family == "oracle" and at.drift_steps is None:
        raise OptionError(f"{text!r} needs the steps at which the source drifts, and they are unknown for this source")
    budget: BudgetRule = "each" if at.gradients_per_row is None else "divided"
    return chosen.make(
        learner, Setting(at.drift_steps or (), at.batch_size, budget, seed=at.seed, of_learner=of_learner)
    )


def _with_budget(learner: Learner, gradients_per_row: float, text: str) -> Learner:
    known = learner.get_params(deep=False)
    for option in ("steps_per_row", "passes"):
        if option in known:
            return type(learner)(**(known | {option: gradients_per_row}))
    raise OptionError(
        f"the learner of {text!r} has no option for its budget; leave ", Option("gradients_per_row"), " out"
    )


def _peer(package: str, rest: str, text: str) -> ComparedModel:
    """Return the model of another library."""
    part = read_part(rest, text)
    size_option, ensembles = _SHORT[package]
    short = re.fullmatch(r"([A-Z]+)(\d*)", part.name)
    ensemble = ensembles.get(short[1]) if short is not None else None
    options = dict(part.options)
    if short is not None and ensemble is not None and short[2]:
        options |= {size_option: int(short[2])}

    def make(at: Situation) -> peers.Peer:
        if ensemble is not None and at.target not in ensemble:
            choices = ", ".join(f"{package}:{name}10" for name, classes in ensembles.items() if at.target in classes)
            raise CapabilityError(f"{package}:{part} does not predict {at.target}; choices: {choices}")
        full = part.name if ensemble is None else ensemble[at.target]
        # A model that draws no random numbers takes no seed; every ensemble with a short name takes one.
        complete = options if ensemble is None else options | {_SEEDS[package]: at.seed}
        return peers.CapyMOA(full, complete) if package == "capymoa" else peers.River(full, complete, at.target)

    seeded = ensemble is not None
    return ComparedModel(f"{package}:{part}", make, lambda at: False, (package,), seeded=seeded, numbered=True)


@dataclass(frozen=True)
class Setting:
    """The circumstances in which an evaluation runs an algorithm."""

    aware_steps: tuple[int, ...] = ()
    """Steps of the first batch of each new concept, for an oracle."""
    batch_size: int = 1000
    budget: BudgetRule = "each"
    variant: Variant = "algorithm-1"
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of DriftSurf that an experiment changes."""
    of_learner: Collection[str] = ()
    """Options of the learner that the user chose, which no algorithm replaces."""


Make = Callable[[Learner, Setting], Strategy]
"""Makes a strategy around a learner."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm of an evaluation: its name, its title in tables and figures, and how it is made."""

    name: str
    title: str
    make: Make
    family: str
    """"oracle", "driftsurf", "detector", "ensemble" or "single"."""


def algorithm(name: str) -> Algorithm:
    """Return the algorithm of this name in a comparison; OptionError if there is none.

    >>> algorithm("mddm-g").title, algorithm("no-greedy").family
    ('MDDM-G', 'driftsurf')
    """
    return COMPARED[name] if name in COMPARED else _algorithm(name)


def _algorithm(
    name: str,
    *,
    strategy: str = "",
    title: str = "",
    options: Mapping[str, Any] | None = None,
    adjust: Callable[[dict[str, Any], Setting], None] | None = None,
    template: Callable[[Learner, Setting], Learner] = lambda learner, at: learner,
) -> Algorithm:
    """Make the algorithm that runs a registered strategy, the one of this name unless ``strategy`` names another.

    ``options`` replace the strategy's defaults, ``adjust`` changes them for a setting, and ``template`` changes the
    learner.
    """
    strategy = strategy or name
    entry = registry.lookup(("strategy", "detector"), strategy) or registry.get("strategy", strategy)
    outer = registry.get("strategy", "reset-on-drift") if entry.kind == "detector" else entry
    # Evaluations drop no rows, as in the paper. A strategy of another package need not have a bound at all.
    fixed = {"max_rows": None} if "max_rows" in settable_options(outer.part) else {}

    def make(learner: Learner, at: Setting) -> Strategy:
        chosen: dict[str, Any] = dict(options or {})
        # The parameters of the baselines are their authors' where these give any, else a round number of batches.
        chosen |= {option: count * at.batch_size for option, count in entry.details.get("batches", {}).items()}
        if entry.details.get("shares_budget"):
            chosen["budget"] = at.budget
        if "drift_steps" in entry.needs:
            chosen["drift_steps"] = at.aware_steps
        if adjust is not None:
            adjust(chosen, at)
        named = strategy
        if (strategy, at.variant) == ("driftsurf", "authors"):
            named = "driftsurf-authors"
            chosen.pop("class_share", None)  # the published code has no such rule
        return strategy_around(named, template(learner, at), **chosen, **fixed, seed=at.seed)

    family = "detector" if entry.kind == "detector" else entry.details.get("family", "single")
    return Algorithm(name, title or entry.title, make, family)


# ---------------------------------------------------------------------------- the paper's evaluation


def _adjust_driftsurf(options: dict[str, Any], at: Setting) -> None:
    options.update(at.options)


def _share_equally(options: dict[str, Any], at: Setting) -> None:
    options["budget"] = "equal" if at.budget == "divided" else at.budget


def _drawn_uniformly(learner: Learner, at: Setting) -> Learner:
    """Return the learner as the paper's OBL trains it: every gradient is drawn uniformly from the sample set."""
    options = learner.get_params(deep=False)
    if options.get("optimizer") != "strsaga" or "optimizer" in at.of_learner:
        return learner
    return type(learner)(**(options | {"optimizer": "saga"}))


_PAPER = (
    _algorithm("aware"),
    _algorithm("aware-alternative", strategy="aware", title="Aware (informed late)", options={"informed": "after"}),
    _algorithm("driftsurf", adjust=_adjust_driftsurf),
    _algorithm(
        "no-greedy",
        strategy="driftsurf",
        title="DriftSurf (no-greedy)",
        options={"greedy": False},
        adjust=_adjust_driftsurf,
    ),
    *map(_algorithm, ("mddm-g", "mddm-a", "mddm-e", "ddm", "eddm", "adwin", "fhddm")),
    _algorithm("aue"),
    _algorithm("aue-2", strategy="aue", title="AUE (k=2)", options={"experts": 2}),
    _algorithm("aue-equal", strategy="aue", title="AUE (equal shares)", adjust=_share_equally),
    _algorithm("candor"),
    _algorithm("1pass-sgd", strategy="one-pass", title="1PASS-SGD"),
    _algorithm("oblivious", title="OBL", template=_drawn_uniformly),
    *map(_algorithm, ("perm", "sliding-window", "linear-decay", "exponential-decay")),
    *map(_algorithm, ("paired-learners", "dwm", "learn-nse", "dwmil", "dtel", "diversity-pool")),
)

ALGORITHMS: dict[str, Algorithm] = {one.name: one for one in _PAPER}
"""The algorithms of the paper's evaluation in the order of its tables, then the systems that it builds on."""

COMPARED: dict[str, Algorithm] = {"obl" if name == "oblivious" else name: one for name, one in ALGORITHMS.items()}
"""Strategies by their names in a comparison: "oblivious" keeps the learner as it is, "obl" is the paper's variant."""
