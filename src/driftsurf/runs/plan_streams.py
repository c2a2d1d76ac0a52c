"""Plan of a run over a built-in stream: DriftSurf with the paper's settings, or a named model, beside an oracle."""

from __future__ import annotations

import json
from typing import Any, Literal

from driftsurf import __version__
from driftsurf.core.abilities import work_of
from driftsurf.core.contracts import Learner, Strategy
from driftsurf.core.options import check_bounds
from driftsurf.data import catalogue
from driftsurf.data.row_encoder import Task
from driftsurf.evaluation.column_moves import ColumnMoves
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LinearRegression, paper_learner
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.folder import COLUMNS, SCORES
from driftsurf.runs.options import ModelOptions, RunOptions
from driftsurf.runs.plan import NO_CHECKPOINTS, ORACLE, RunPlan
from driftsurf.runs.predictions import shown_classes
from driftsurf.session.model_names import make_strategy, require_exact_state
from driftsurf.session.session import Session
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.strategies._base import saved_class, saved_params
from driftsurf.streams.base import Stream

MODEL = "driftsurf"
STEPS = 100
"""Number of time steps that the paper divides a stream into."""
STRATEGY_DEFAULTS: dict[str, Any] = {
    "threshold": 0.1,
    "stable_threshold": None,
    "reactive_length": 4,
    "greedy": True,
    "variant": "algorithm-1",
}
LEARNER_PARAMETERS = "step_size", "l2", "steps_per_row"


def plan_stream(name: str, options: RunOptions) -> RunPlan:
    """Plan a run over a stream of the catalogue, such as "sea10".

    The model is DriftSurf with the values of the paper for all options that are not given; or any other that is named,
    made as for tables. The oracle beside it has the same learner and knows the drifts.

    Examples
    --------
    >>> plan = plan_stream("sea10", RunOptions.of(rows=2_000))
    >>> list(plan.models), plan.n_steps
    (['driftsurf', 'aware'], 100)
    >>> list(plan_stream("sea10", RunOptions.of(rows=2_000, model="ddm:svm")).models)
    ['ddm:svm', 'aware']
    """
    check_bounds(options)
    entry = catalogue.get(name)
    asked = {"seed": options.stream_seed, "n_rows": options.rows}
    stream = entry.make(**{key: value for key, value in asked.items() if value is not None})
    default = entry.batch_size if options.rows is None else max(1, stream.n_rows // STEPS)
    size = default if options.batch_size is None else int(options.batch_size)
    leading = _papers_model(entry, options) if options.is_papers else _named_model(entry, options)
    leading.watch(options.monitor(regression=entry.regression))
    named, learner = MODEL if options.is_papers else options.model or MODEL, leading.strategy.learner
    models = {named: leading, ORACLE: _aware_session(learner, stream.drift_steps(size), like=leading)}
    if options.is_papers:
        _warm_up(learner, stream)
    warmup = 1 if entry.regression else 0
    return RunPlan(
        name=name,
        source=StreamBatches(stream, size),
        models=models,
        recorder=TraceRecorder(stream, size, warmup_steps=warmup, estimated=True),
        about=_about(name, stream, size, leading.strategy, options),
        label_type="value" if entry.regression else "integer",
        sidecars={
            COLUMNS: ColumnMoves(leading),
            SCORES: ScoreRecorder(lambda: leading.targets.labels, warmup),
        },
        shown_classes=shown_classes(learner, stream.classes) if options.all_classes else (),
        n_steps=-(-stream.n_rows // size),
        batch_rows=size,
        oracle=ORACLE,
    )


def _papers_model(entry: catalogue.StreamEntry, options: ModelOptions) -> Session:
    """Return DriftSurf around the paper's learner; for regression, which the paper does not have, linear regression."""
    given = options.all_parameters()
    of_learner = {key: given.pop(key) for key in LEARNER_PARAMETERS if key in given}
    learner: Learner
    if entry.paper_settings is None:
        learner = LinearRegression(**of_learner)
    else:
        step_size, l2 = entry.paper_settings
        settings: dict[str, Any] = {"step_size": step_size, "l2": l2, "scale": "auto", **of_learner}
        learner = paper_learner(**settings)
    return driftsurf_session(learner, seed=options.seed, **(STRATEGY_DEFAULTS | given))


def _named_model(entry: catalogue.StreamEntry, options: RunOptions) -> Session:
    """Return the model that was named, as a run over tables makes it."""
    task: Task = "regression" if entry.regression else "binary"
    named = options.model or MODEL
    strategy = make_strategy(named, options.learner, task, options.all_parameters(), seed=options.seed)
    if options.checkpoint is not None:
        require_exact_state(strategy, named, options.learner, task, NO_CHECKPOINTS)
    return Session(strategy, classes=_classes(strategy), owner=named)


def driftsurf_session(learner: Learner, *, seed: int = 0, **options: Any) -> Session:
    """Return DriftSurf as the paper runs it: labels -1 and +1, all rows kept, no guard against extreme rows."""
    strategy = DriftSurf(learner, **({"class_share": 0.0, "max_rows": None, "seed": seed} | options))
    return Session(strategy, classes=_classes(strategy), guard=None)


def _aware_session(learner: Learner, drift_steps: tuple[int, ...], *, like: Session) -> Session:
    """Return the oracle with the seed and the guard of the model beside it."""
    # A fresh regression model predicts zero for the first batch, so it learns of a drift after that batch.
    informed: Literal["before", "after"] = "after" if learner.capabilities.regression else "before"
    seed = like.strategy.get_params(deep=False)["seed"]
    strategy = Aware(learner, drift_steps, informed=informed, max_rows=None, seed=seed)
    return Session(strategy, classes=_classes(strategy), guard=like.guard_factor)


def _classes(strategy: Strategy) -> tuple[int, int] | None:
    return None if strategy.learner.capabilities.regression else (-1, 1)


def _about(name: str, stream: Stream, batch_size: int, strategy: Strategy, options: RunOptions) -> str:
    learner, of_drifts = strategy.learner, options.of_drifts
    given = options.given("watch")
    made = {"strategy": saved_class(strategy).__name__, "learner": type(learner).__name__}
    about: dict[str, Any] = {
        "driftsurf": __version__,
        "name": name,
        "stream": repr(stream),
        "batch_size": batch_size,
        "seed": options.seed,
        "learner": learner.get_params(),
        "strategy": STRATEGY_DEFAULTS | options.all_parameters(),
        **of_drifts,
        "made": made,
        "given": options.given("model") | {name: one for name, one in given.items() if name in of_drifts},
    }
    if options.is_papers:
        about["strategy"] = {key: value for key, value in about["strategy"].items() if key not in LEARNER_PARAMETERS}
    else:
        own = saved_params(strategy)
        about["model"] = options.model or MODEL
        about["strategy"] = {key: value for key, value in own.items() if key not in ("learner", "seed")}
        about["made"] = made | {"work": work_of(strategy)}
    return json.dumps(about, indent=2, default=str) + "\n"


def _warm_up(learner: Learner, stream: Stream) -> None:
    """Load the compiled loops for rows like those of the stream, so that measured times are times of learning."""
    X, _ = next(stream.batches(2))
    session = driftsurf_session(learner, threshold=0.0, reactive_length=2)
    for y in ([-1, 1], [1, -1], [-1, 1]):
        session.observe(X, y[: X.shape[0]])
