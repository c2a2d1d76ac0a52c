"""Plan of a run over a built-in stream: DriftSurf with the paper's settings, beside an oracle that knows the drifts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from driftsurf import __version__
from driftsurf.core.contracts import Strategy
from driftsurf.core.option_fields import check_bounds, options_given
from driftsurf.data import catalogue
from driftsurf.evaluation.columns import ColumnMoves
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LinearRegression, LogisticRegression, paper_learner
from driftsurf.runs.folder import COLUMNS, SCORES
from driftsurf.runs.options import RunOptions
from driftsurf.runs.plan import RunPlan
from driftsurf.runs.predictions import shown_classes
from driftsurf.runs.source import StreamBatches
from driftsurf.session.session import Session
from driftsurf.strategies import Aware, DriftSurf
from driftsurf.streams.base import Stream

__all__ = ["MODEL", "ORACLE", "driftsurf_session", "plan_stream"]

MODEL = "driftsurf"
ORACLE = "aware"
"""Name of the model that knows the true drifts."""
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
PaperLearner: TypeAlias = LogisticRegression | LinearRegression


def plan_stream(name: str, options: RunOptions) -> RunPlan:
    """Plan a run over a stream of the catalogue, such as "sea10".

    Of the options of the model, those that are not given have the values of the paper.

    Examples
    --------
    >>> plan = plan_stream("sea10", RunOptions.of(rows=2_000))
    >>> list(plan.models), plan.n_steps
    (['driftsurf', 'aware'], 100)
    """
    for group in (options.model, options.output, options.watch):
        check_bounds(group)
    model, given = options.model, options.model.all_parameters()
    entry = catalogue.get(name)
    asked = {"seed": model.stream_seed, "n_rows": options.reading.rows}
    stream = entry.make(**{key: value for key, value in asked.items() if value is not None})
    default = entry.batch_size if options.reading.rows is None else max(1, stream.n_rows // STEPS)
    size = default if model.batch_size is None else int(model.batch_size)
    learner = _learner(entry, {key: given.pop(key) for key in LEARNER_PARAMETERS if key in given})
    strategy = STRATEGY_DEFAULTS | given
    models = {
        MODEL: driftsurf_session(learner, seed=model.seed, **strategy),
        ORACLE: _aware_session(learner, stream.drift_steps(size), seed=model.seed),
    }
    _warm_up(learner, stream)
    warmup = 1 if entry.regression else 0
    return RunPlan(
        name=name,
        source=StreamBatches(stream, size),
        models=models,
        recorder=TraceRecorder(stream, size, warmup_steps=warmup),
        about=_about(name, stream, size, learner, model.seed, strategy, options_given(model)),
        label_type="value" if entry.regression else "integer",
        sidecars={
            COLUMNS: ColumnMoves(models[MODEL]),
            SCORES: ScoreRecorder(lambda: models[MODEL].targets.labels, warmup),
        },
        shown_classes=shown_classes(learner, stream.classes) if options.output.all_classes else (),
        n_steps=-(-stream.n_rows // size),
        oracle=ORACLE,
    )


def _learner(entry: catalogue.StreamEntry, options: Mapping[str, Any]) -> PaperLearner:
    """Return the paper's learner for a stream; for regression, which the paper does not have, linear regression."""
    if entry.paper_settings is None:
        return LinearRegression(**options)
    step_size, l2 = entry.paper_settings
    settings: dict[str, Any] = {"step_size": step_size, "l2": l2, "scale": "auto", **options}
    return paper_learner(**settings)


def driftsurf_session(learner: PaperLearner, *, seed: int = 0, **options: Any) -> Session:
    """Return DriftSurf as the paper runs it: labels -1 and +1, all rows kept, no guard against extreme rows."""
    return _session(DriftSurf(learner, **({"class_share": 0.0, "max_rows": None, "seed": seed} | options)))


def _aware_session(learner: PaperLearner, drift_steps: tuple[int, ...], *, seed: int) -> Session:
    # A fresh regression model predicts zero for the first batch, so it learns of a drift after that batch.
    informed: Literal["before", "after"] = "after" if learner.capabilities.regression else "before"
    return _session(Aware(learner, drift_steps, informed=informed, max_rows=None, seed=seed))


def _session(strategy: Strategy) -> Session:
    return Session(strategy, classes=None if strategy.learner.capabilities.regression else (-1, 1), guard=None)


def _about(
    name: str,
    stream: Stream,
    batch_size: int,
    learner: PaperLearner,
    seed: int,
    strategy: Mapping[str, Any],
    given: Mapping[str, Any],
) -> str:
    about = {
        "driftsurf": __version__,
        "name": name,
        "stream": repr(stream),
        "batch_size": batch_size,
        "seed": seed,
        "learner": learner.get_params(),
        "strategy": dict(strategy),
        "made": {"strategy": DriftSurf.__name__, "learner": type(learner).__name__},
        "given": dict(given),
    }
    return json.dumps(about, indent=2, default=str) + "\n"


def _warm_up(learner: PaperLearner, stream: Stream) -> None:
    """Load the compiled loops for rows like those of the stream, so that measured times are times of learning."""
    X, _ = next(stream.batches(2))
    session = driftsurf_session(learner, threshold=0.0, reactive_length=2)
    for y in ([-1, 1], [1, -1], [-1, 1]):
        session.observe(X, y[: X.shape[0]])
