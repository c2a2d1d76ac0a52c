"""How the parts of a served model are made from its settings: strategies, sessions, targets and the plan of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driftsurf import __version__
from driftsurf.core.contracts import Strategy
from driftsurf.core.options import shown
from driftsurf.core.targets import ClassTargets, RegressionTargets, targets_of
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.log.records import ColumnKind
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.row_encoder import FrameEncoder, Target, Task
from driftsurf.errors import LabelError, Message, Option, OptionError
from driftsurf.evaluation.column_moves import ColumnMoves
from driftsurf.evaluation.scores import ScoreRecorder
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.evaluation.trace import open_labels
from driftsurf.runs.folder import COLUMNS, SCORES
from driftsurf.runs.output import Rotation
from driftsurf.runs.plan import RunPlan
from driftsurf.runs.predictions import LabelType
from driftsurf.runs.start import FinishedRun
from driftsurf.service.replayed_state import LeadingSession, ReplayedState
from driftsurf.service.settings import ModelSettings
from driftsurf.session.default_model import choose_model
from driftsurf.session.model_names import make_strategy, require_exact_state
from driftsurf.session.session import Session

GUARD = 2.0
"""Factor of the guard against rows that are much larger than usual."""
CHALLENGER_OPTIONS = ("model", "learner", "parameters", "seed")
STEP_ROWS = 100
"""Labelled rows of a time step, unless the settings or the run with which the model begins say otherwise."""
MOST_CLASSES = 50
"""Classes that the trace counts one by one from the beginning."""


@dataclass(frozen=True, slots=True)
class _ModelDescription:
    """What the trace says about the model."""

    name: str
    classes: tuple[Any, ...]
    drifts: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Makes the parts of a served model.

    Parameters
    ----------
    name
        Name of the model.
    settings
        What is served.
    start
        The finished run whose model it begins with; None for a fresh one.
    """

    name: str
    settings: ModelSettings
    start: FinishedRun | None = None

    @classmethod
    def of(cls, name: str, settings: ModelSettings, start: FinishedRun | None) -> Blueprint:
        """Return the blueprint, with the settings of the finished run where none are given."""
        if start is not None:
            settings = _inherited(settings, start)
        settings.check()
        return cls(name, settings, start)

    @property
    def model(self) -> str:
        """Name of the leading model at the beginning."""
        asked = self.settings
        return asked.model or choose_model(asked.learner, asked.parameters).name

    @property
    def batch_size(self) -> int:
        """Number of labelled rows of a time step."""
        return self.settings.batch_size or STEP_ROWS

    @property
    def task(self) -> Task | None:
        """What is predicted, if it is known before the first label."""
        return None if self.settings.task == "auto" else self.settings.task

    def task_of(self, labels: Any) -> Task:
        """Return the task that the first labels decide; LabelError for numbers, which may be classes or amounts."""
        if labels.dtype.kind in "Ub":
            return "multiclass"
        raise LabelError(
            f"the first labels are numbers ({labels[:1].tolist()[0]!r}), which may be classes or amounts; say it with ",
            Option("task"),
            ": binary, multiclass or regression",
        )

    @property
    def columns(self) -> tuple[ColumnKind, ...]:
        """The columns, if they are known before the first rows."""
        return tuple(ColumnKind(name, kind) for name, kind in self.settings.columns.items())

    def strategy(self, task: Task, options: Mapping[str, Any] | None = None) -> Strategy:
        """Return the strategy of the leading model, or of a challenger with these options."""
        asked = self.settings
        model, learner, parameters, seed = self.model, asked.learner, asked.parameters, asked.seed
        if options is not None:
            unknown = [name for name in options if name not in CHALLENGER_OPTIONS]
            if unknown:
                raise OptionError(
                    f"a challenger has no option {unknown[0]!r}; choices: {', '.join(CHALLENGER_OPTIONS)}"
                )
            learner, parameters = options.get("learner"), options.get("parameters") or {}
            if learner is not None and not isinstance(learner, str):
                raise OptionError(Option("learner"), f" is {shown(learner)}; it must be a text such as 'logistic'")
            if not isinstance(parameters, Mapping):
                raise OptionError(
                    Option("parameters"), f" is {shown(parameters)}; it must be a table such as {{'threshold': 0.2}}"
                )
            model = options.get("model") or choose_model(learner, parameters).name
            seed = options.get("seed", seed)
        strategy = make_strategy(model, learner, task, parameters, seed=seed)
        why = Message("so a served model cannot recover it after a crash; choose another ", Option("learner"))
        require_exact_state(strategy, model, learner, task, why)
        return strategy

    def targets(self, task: Task) -> ClassTargets | RegressionTargets:
        """Return the classes that are known before the first label."""
        can = self.strategy(task).learner.capabilities
        known = self.settings.classes or None
        if self.start is not None and not can.regression:
            # The task of a run is "binary" where its first batch had two classes; others may have come later.
            classes = tuple(self.start.classes)
            two = "multiclass" not in can.tasks or (task == "binary" and len(classes) <= 2)
            return ClassTargets(classes, limit=2 if two else None)
        targets = targets_of(can, known)
        return replace(targets, limit=2) if isinstance(targets, ClassTargets) and task == "binary" else targets

    def session(
        self, name: str, task: Task, replayed: ReplayedState, options: Mapping[str, Any] | None = None
    ) -> Session:
        """Return a session that has learned nothing: that of the leading model, or of a challenger with options."""
        closed = self.settings.classes or None
        return Session(
            self.strategy(task, options),
            classes=None if task == "regression" else closed,
            guard=GUARD,
            owner=name,
            categories=lambda: replayed.encoder.categories(),
            names=lambda: replayed.encoder.feature_names(),
            monitor=self.settings.monitor(regression=task == "regression"),
        )

    def encoder(self, task: Task) -> TableEncoder:
        """Return the encoder: that of the finished run, or one that the first rows are to fit."""
        if self.start is not None:
            return self.start.frames.encoder
        sparse = self.strategy(task).learner.capabilities.sparse
        return TableEncoder(categorical=self.settings.categorical, sparse="auto" if sparse else False)

    def plan(
        self,
        replayed: ReplayedState,
        models: Mapping[str, Session],
        labels: Sequence[Any],
        rotation: Rotation,
        history: Rotation | None = None,
    ) -> RunPlan:
        """Return the plan of the run. ``labels`` are the classes known when the model began.

        ``rotation`` is that of the journal, ``history`` that of the trace and the files beside it.
        """
        leading: Any = LeadingSession(replayed)
        regression = replayed.task == "regression"
        classes = () if regression else open_labels(sorted(labels)[:MOST_CLASSES])
        warmup = 0 if self.start is not None else 1
        described = _ModelDescription(self.name, classes)
        return RunPlan(
            traces_leading=True,
            name=self.name,
            source=replayed,
            models=models,
            recorder=TraceRecorder(described, self.batch_size, warmup, time=replayed.step_moment, estimated=True),
            about=self._about(replayed, labels),
            label_type=label_type(replayed.task, labels),
            sidecars={
                COLUMNS: ColumnMoves(
                    leading,
                    names=lambda: replayed.encoder.feature_names(),
                    calendar=lambda: replayed.encoder.calendar_columns(),
                ),
                SCORES: ScoreRecorder(leading.labels, warmup),
            },
            every=1,
            rotation=rotation,
            history=Rotation() if history is None else history,
            has_ids=True,
            continues=self.start is not None,
            frames=lambda: FrameEncoder(replayed.encoder, (self.settings.label,), ReadingOptions()),
        )

    def _about(self, replayed: ReplayedState, labels: Sequence[Any]) -> str:
        """Return what is served as JSON, which every checkpoint holds."""
        target = Target(self.settings.label or "label", replayed.task)
        decided = {
            "target": target.to_json(),
            "classes": sorted(labels)[:MOST_CLASSES],
            "label_type": label_type(replayed.task, labels),
            "time": None,
        }
        about = {
            "driftsurf": __version__,
            "source": self.name,
            **json.loads(self.settings.to_json()),
            "model": self.model,
            "decided": decided,
        }
        return json.dumps(about | {"columns": [list(one) for one in replayed.columns]}, indent=2) + "\n"


def _inherited(settings: ModelSettings, start: FinishedRun) -> ModelSettings:
    """Return settings with those of a finished run, which decide what is served."""
    about = start.about
    target = Target.from_json(about["decided"]["target"])
    encoder = start.frames.encoder
    given: dict[str, Any] = {
        "task": target.task,
        "model": settings.model or about.get("model"),
        "learner": settings.learner or about.get("learner"),
        "parameters": {**start.parameters, **settings.parameters},
        "label": settings.label or target.column,
        "batch_size": settings.batch_size or start.batch_rows,
        "categorical": tuple(encoder.categorical),
        "columns": {one.name: one.kind for one in encoder.layout.columns},
    }
    return replace(settings, **given)


def label_type(task: Task, labels: Sequence[Any]) -> LabelType:
    """Return the type of predictions, by the labels that are known."""
    if task == "regression":
        return "value"
    first = next(iter(labels), 0)
    return "boolean" if isinstance(first, bool) else "text" if isinstance(first, str) else "integer"
