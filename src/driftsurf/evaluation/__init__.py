"""Test-then-train evaluation: one pass over a stream, a trace, and pure functions over it."""

from driftsurf.evaluation.explain import explain
from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.summary import Summary, ValueSummary, summarise, summarise_values
from driftsurf.evaluation.trace import Trace

__all__ = ["Summary", "Trace", "ValueSummary", "explain", "prequential", "summarise", "summarise_values"]
