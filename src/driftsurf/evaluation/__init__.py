"""Test-then-train evaluation: one pass over a stream gives a trace; summaries and metrics are functions of it.

Evaluation knows models only by what they predict and decide. Durable runs, pages and output live elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftsurf.core.exports import exports

if TYPE_CHECKING:
    from driftsurf.evaluation.prequential import prequential as prequential
    from driftsurf.evaluation.scores import Scores as Scores
    from driftsurf.evaluation.summary import ClassificationSummary as ClassificationSummary
    from driftsurf.evaluation.summary import ClassMetrics as ClassMetrics
    from driftsurf.evaluation.summary import RegressionSummary as RegressionSummary
    from driftsurf.evaluation.summary import Summary as Summary
    from driftsurf.evaluation.summary import class_metrics as class_metrics
    from driftsurf.evaluation.summary import summarise as summarise
    from driftsurf.evaluation.summary import summarise_classification as summarise_classification
    from driftsurf.evaluation.summary import summarise_regression as summarise_regression
    from driftsurf.evaluation.trace import Trace as Trace

    __all__: list[str]
else:
    __getattr__, __dir__, __all__ = exports(__name__)
