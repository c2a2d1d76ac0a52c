"""Test-then-train evaluation: one pass over a stream gives a trace; summaries and metrics are functions of it.

Evaluation knows models only by what they predict and decide. Durable runs, pages and output live elsewhere.
"""

from driftsurf.evaluation.class_metrics import ClassMetrics, class_metrics
from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import (
    ClassificationSummary,
    RegressionSummary,
    Summary,
    summarise,
    summarise_classification,
    summarise_regression,
)
from driftsurf.evaluation.trace import Trace

__all__ = [
    "ClassMetrics",
    "ClassificationSummary",
    "RegressionSummary",
    "Scores",
    "Summary",
    "Trace",
    "class_metrics",
    "prequential",
    "summarise",
    "summarise_classification",
    "summarise_regression",
]
