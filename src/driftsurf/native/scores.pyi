"""Scores of rows by linear models, and counts over the scores of a step."""

from driftsurf.core.contracts import FloatArray, IntArray, Rows

def margins(X: Rows, w: FloatArray, out: FloatArray) -> None: ...
def outputs(X: Rows, W: FloatArray, out: FloatArray, limits: FloatArray | None = None) -> None: ...
def log_softmax(z: FloatArray) -> None: ...
def tally_margins(
    margins: FloatArray,
    shares: FloatArray,
    true: IntArray,
    predicted: IntArray,
    largest: float,
    pairs: IntArray,
    scores: IntArray,
    hits: IntArray,
    sums: FloatArray,
) -> bool: ...
def mean_auc(counts: IntArray) -> float: ...
