"""Test-then-train evaluation: one pass over a stream gives a trace; summaries and metrics are functions of it.

Evaluation knows models only by what they predict and decide. Durable runs, pages and output live elsewhere.
"""

from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import (
    ClassificationSummary,
    ClassMetrics,
    RegressionSummary,
    Summary,
    class_metrics,
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
