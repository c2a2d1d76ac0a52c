"""Predictions of a run: each row with its number, the version of the model, the label and its probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from driftsurf.core.contracts import FloatArray
from driftsurf.session.observation import Observation

__all__ = ["LabelType", "PredictionBatch", "prediction_batch", "probabilities"]

LabelType: TypeAlias = Literal["text", "integer", "boolean", "value"]
"""Type of the predicted labels; "value" is a number that regression predicts."""


@dataclass(frozen=True, slots=True)
class PredictionBatch:
    """Predictions of the rows of one batch, as they were made when the rows came.

    >>> list(PredictionBatch(10, 3, ["yes", "no"], [0.9, 0.6]).from_row(11).rows())
    [{'row': 11, 'version': 3, 'label': 'no', 'probability': 0.6}]
    """

    first_row: int
    version: int
    """Number of time steps that the model had learned."""
    labels: list[Any]
    """Predicted labels; None for rows that came before the model had learned anything."""
    probability: list[float | None]
    """Probability of each predicted label; None if the model has no probabilities."""
    keys: list[str | int] | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each row."""
        for place, (label, probability) in enumerate(zip(self.labels, self.probability, strict=True)):
            key = {} if self.keys is None else {"key": self.keys[place]}
            yield {
                "row": self.first_row + place,
                **key,
                "version": self.version,
                "label": label,
                "probability": probability,
            }

    def from_row(self, row: int) -> Self:
        """Return the predictions of the rows with this number and above."""
        start = max(0, row - self.first_row)
        if not start:
            return self
        keys = None if self.keys is None else self.keys[start:]
        return replace(
            self,
            first_row=self.first_row + start,
            labels=self.labels[start:],
            probability=self.probability[start:],
            keys=keys,
        )


def prediction_batch(observation: Observation, first_row: int, version: int) -> PredictionBatch:
    """Return the predictions of an observation."""
    chosen = probabilities(observation.scores, observation.predicted, has_probabilities=observation.probabilities)
    return PredictionBatch(first_row, version, observation.labels.tolist(), chosen)


def probabilities(scores: FloatArray, codes: npt.NDArray[Any], *, has_probabilities: bool) -> list[float | None]:
    """Return the probability of each predicted class; None for regression, and for models without probabilities."""
    if not has_probabilities or codes.dtype.kind == "f":
        return [None] * len(codes)
    if scores.ndim == 1:
        chosen: FloatArray = expit(np.where(codes == 1, scores, -scores))
    else:
        chosen = np.exp(scores[np.arange(len(codes)), codes])
    listed: list[float | None] = chosen.tolist()
    return listed
