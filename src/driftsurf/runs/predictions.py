"""Predictions of a run: the columns of their table, and the rows of each batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, Learner
from driftsurf.errors import CapabilityError, Option
from driftsurf.evaluation.trace import OTHER
from driftsurf.session.error_tracker import RowSigns, signs_of
from driftsurf.session.observation import Observation, probability_of_second
from driftsurf.session.session import Session

ByClass: TypeAlias = Mapping[str, Sequence[float | None]]
"""Probabilities of each class, by its name; None for rows that have no prediction."""
LabelType: TypeAlias = Literal["text", "integer", "boolean", "value"]
"""Type of the predicted labels; "value" is a number that regression predicts."""


def prediction_columns(
    label_type: LabelType,
    *,
    has_ids: bool = False,
    has_true: bool = True,
    has_versions: bool = True,
    classes: Sequence[str] = (),
) -> dict[str, LabelType]:
    """Return the columns of a table of predictions with their types, in order.

    Regression has no ``probability``; with ``classes`` there is one for each class. ``id`` is there if the run has a
    column of ids, ``true`` unless labels come late, and ``version`` unless one model predicts all rows.

    >>> list(prediction_columns("text"))
    ['row', 'prediction', 'true', 'probability', 'version']
    """
    ids: dict[str, LabelType] = {"id": "text"} if has_ids else {}
    true: dict[str, LabelType] = {"true": label_type} if has_true else {}
    chances = [class_column(name) for name in classes] or ["probability"] * (label_type != "value")
    probability: dict[str, LabelType] = dict.fromkeys(chances, "value")
    version: dict[str, LabelType] = {"version": "integer"} if has_versions else {}
    return {"row": "integer", **ids, "prediction": label_type, **true, **probability, **version}


def class_column(name: str) -> str:
    """Return the name of the column with the probability of a class.

    >>> class_column("yes")
    'probability:yes'
    """
    return f"probability:{name}"


@dataclass(frozen=True, slots=True)
class PredictionBatch:
    """Predictions of the rows of one batch, as they were made when the rows came.

    >>> list(PredictionBatch(10, [3, 3], ["yes", "no"], [0.9, 0.6], ["no", None]).from_row(11).rows())
    [{'row': 11, 'prediction': 'no', 'true': None, 'probability': 0.6, 'version': 3}]
    """

    first_row: int
    versions: list[int] | None
    """Number of time steps that the model had learned, for each row; None if one model predicts all rows."""
    predictions: list[Any]
    """Predicted labels or numbers; None for rows that came before the model had learned anything."""
    probability: list[float | None] | None = None
    """Probability of each predicted label, None if the model has no probabilities; None for regression."""
    true: list[Any] | None = None
    """True labels, None for a row without a label; None where labels come later than their rows."""
    ids: Sequence[str | int] | None = None
    by_class: ByClass = field(default_factory=dict)
    """Probabilities of each class, instead of that of the predicted one."""

    def __len__(self) -> int:
        return len(self.predictions)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each row, with the columns of :func:`prediction_columns`."""
        columns = {
            "row": range(self.first_row, self.first_row + len(self)),
            "id": self.ids,
            "prediction": self.predictions,
            "true": self.true,
            "probability": None if self.by_class else self.probability,
            **{class_column(name): values for name, values in self.by_class.items()},
            "version": self.versions,
        }
        there = {name: values for name, values in columns.items() if values is not None}
        for record in zip(*there.values(), strict=True):
            yield dict(zip(there, record, strict=True))

    def from_row(self, row: int) -> Self:
        """Return the predictions of the rows with this number and above."""
        start = max(0, row - self.first_row)
        if not start:
            return self
        return replace(
            self,
            first_row=self.first_row + start,
            versions=None if self.versions is None else self.versions[start:],
            predictions=self.predictions[start:],
            probability=None if self.probability is None else self.probability[start:],
            true=None if self.true is None else self.true[start:],
            ids=None if self.ids is None else self.ids[start:],
            by_class={name: values[start:] for name, values in self.by_class.items()},
        )


@dataclass(frozen=True, slots=True)
class Predicted:
    """Predictions of some rows by one version of a model."""

    version: int
    labels: list[Any]
    probability: list[float | None]
    by_class: ByClass = field(default_factory=dict)
    signs: RowSigns | None = None
    """Signs of errors of the rows; None before the model has learned anything, and of rows that were observed."""

    @classmethod
    def of(cls, observation: Observation, version: int, labels: Sequence[Any] = (), shown: Sequence[Any] = ()) -> Self:
        """Return the predictions of rows that were observed, with the probabilities of ``shown`` classes.

        ``labels`` are the classes in the order of their codes.
        """
        chosen = probabilities(observation.scores, observation.predicted, has_probabilities=observation.probabilities)
        classes = by_class(shares(observation.scores), labels, shown) if shown else {}
        return cls(version, observation.labels.tolist(), chosen, classes)


def predict_now(session: Session, X: Any, shown: Sequence[Any] = ()) -> Predicted:
    """Predict rows without a label; they have no prediction if the model has learned nothing yet."""
    if not session.steps:
        unknown: list[float | None] = [None] * X.shape[0]
        return Predicted(0, list(unknown), list(unknown), {label_text(label): list(unknown) for label in shown})
    (scores, disagreement), known = session.scores_and_disagreement(X), session.targets
    codes = known.predicted(scores)
    capabilities = session.strategy.learner.capabilities
    can = capabilities.probabilities
    signs = signs_of(scores, disagreement, regression=capabilities.regression, probabilities=can)
    chosen = probabilities(scores, codes, has_probabilities=can)
    classes = by_class(shares(scores), known.labels, shown) if shown else {}
    return Predicted(session.steps, known.decode(codes).tolist(), chosen, classes, signs)


def shown_classes(learner: Learner, classes: Sequence[Any]) -> tuple[Any, ...]:
    """Return classes of which predictions show the probabilities; CapabilityError if the learner has none."""
    if not learner.capabilities.probabilities:
        raise CapabilityError(
            Option("all_classes"), f" needs probabilities of classes, which {learner!r} does not have"
        )
    return tuple(classes)


def by_class(chances: FloatArray, labels: Sequence[Any], shown: Sequence[Any]) -> ByClass:
    """Return the probabilities of shown classes, from a column for each known one; those of all others are ``OTHER``.

    >>> by_class(np.array([[0.5, 0.2, 0.3]]), ("b", "a", "c"), ("a", "b", "d", OTHER))
    {'a': [0.2], 'b': [0.5], 'd': [0.0], '(other)': [0.3]}
    """
    known = dict(zip(labels, chances.T, strict=False))
    nothing = np.zeros(len(chances))
    others = sum((column for label, column in known.items() if label == OTHER or label not in shown), nothing)
    found = {label: others if label == OTHER else known.get(label, nothing) for label in shown}
    return {label_text(label): column.tolist() for label, column in found.items()}


def label_text(label: object) -> str:
    """Return a class as a word of a column name."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def shares(scores: FloatArray) -> FloatArray:
    """Return the probability of each class, by code."""
    if scores.ndim == 2:
        return np.asarray(np.exp(scores))
    logs = np.empty((len(scores), 2))  # in place: a single row would cost more for the calls than for the numbers
    logs[:, 0] = scores
    np.negative(scores, out=logs[:, 1])
    np.logaddexp(0.0, logs, out=logs)
    np.negative(logs, out=logs)
    return np.exp(logs, out=logs)


def probabilities(scores: FloatArray, codes: npt.NDArray[Any], *, has_probabilities: bool) -> list[float | None]:
    """Return the probability of each predicted class; None for regression, and for models without probabilities."""
    if not has_probabilities or codes.dtype.kind == "f":
        return [None] * len(codes)
    if scores.ndim == 1:
        chosen: FloatArray = probability_of_second(np.where(codes == 1, scores, -scores))
    else:
        chosen = np.exp(scores[np.arange(len(codes)), codes])
    listed: list[float | None] = chosen.tolist()
    return listed
