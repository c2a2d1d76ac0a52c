"""Memory of a cell: the rows and the two models of one DriftSurf, in arrays that compiled code works on.

A cell has two models, on *side* 0 and side 1. One is the predictive model w. The other, the *rival*, is the reactive
model w' during a reactive state, and the stable model w'' outside of one. (A stable model ends when a reactive one
starts, so there are never three.) Rows are numbered in the order of arrival; row r is at place r - ``base`` of the
arrays of rows, and its entry in the gradient table of a model is at the same place of the table.

A *bank* of an ensemble is a cell with more sides, one for each model; it has no rival (``bank.py``).

A model has K *outputs*, one for each class of softmax regression and a single one otherwise. Its weights are those of a
matrix (columns + 1, K) row by row, its gradient table has K numbers for each row, and a row has K scores.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import from_dtype, types

from driftsurf.core.contracts import CSR, FloatArray, IntArray, Rows
from driftsurf.kernels.compile import F8, I8, Sparse, _out
from driftsurf.kernels.losses import SUM_STACK
from driftsurf.strategies._cell_arrays import Rule, Training
from driftsurf.strategies._unit import WINDOW

NO_RIVAL, STABLE, REACTIVE = 0, 1, 2
"""Codes of the rival's role."""
ENTERED, GREEDY, SWITCHED, KEPT = 0, 1, 2, 3
"""Codes of transitions."""
LEARNED, DIVERGED, UNSUITED = 0, 1, 2
"""Results of a step."""
LOGISTIC = -1
"""Kind of the logistic loss, beside the kinds of ``kernels/losses.py``."""
MOST_RECORDS, MOST_TRANSITIONS = 3, 2
"""Most models and most transitions in the outcome of a step: a stable model may end in the step that makes w'."""

LONGEST = 1000
"""Most batches of a reactive state. Every step copies one number for each of them, to be able to go back."""
UNLIMITED = 2**62
"""Stands for no limit of the number of rows."""
FLAG: Any = types.boolean
Records = npt.NDArray[np.void]


def _record(whole: str, real: str) -> np.dtype[Any]:
    """Return a record of eight-byte fields: a seed, whole numbers and real ones.

    It is padded to a power of two, so that records of different types can follow each other in one array of bytes.
    """
    names = ["seed", *whole.split(), *real.split()]
    formats = [np.uint64, *(np.int64 for _ in whole.split()), *(np.float64 for _ in real.split())]
    size = 8 << (len(names) - 1).bit_length()
    offsets = [8 * place for place in range(len(names))]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size}, align=True)


COUNTS: np.dtype[Any] = _record(
    "base first next step predictive challenged rival reactive_step made reacted chosen units values", ""
)
"""Counts of a cell. ``base`` is the number of the row at place 0, ``first`` the oldest row that is needed, ``next`` the
number of the next row; ``predictive`` is the side of w. ``chosen`` is that of ``Credit``, and ``units`` the number of
risks in ``RiskUnit``. ``values`` is, for sparse rows, the number of stored values that were before place 0."""
MODEL: np.dtype[Any] = _record(
    "id born first_row lo admitted hi seen words gradients drawn rescale_at centred", "best step_size target"
)
"""Counts of a model: as in ``Member`` and ``Linear``; ``centred`` is the number of columns with a centre."""


class Cell(NamedTuple):
    """Arrays of a cell. All but the first four are views of one array, which a step copies to be able to go back."""

    X: Any
    """Rows: an array, or ``CSR``."""
    y: FloatArray
    weight: FloatArray
    tables: FloatArray
    """Gradient tables (sides, places * K)."""
    counts: Records
    models: Records
    bounds: IntArray
    """First rows of the batches of T, and the row after them."""
    w: FloatArray
    """Weights (sides, (columns + 1) * K)."""
    G: FloatArray
    """Gradient sums."""
    factor: FloatArray
    gain: FloatArray
    """Squared factors."""
    centre: FloatArray
    centred: IntArray
    """Columns whose centre is not 0."""
    raw: FloatArray
    """Weights for columns that are not scaled, by which rows are scored, in the order that the kernels take: output by
    output for dense rows."""
    judged: FloatArray
    """Numbers by which models are judged, and ranges of columns: see the constants below."""
    ahead: npt.NDArray[np.uint8]
    """Memory that the next call will need, which a step loads into the cache along the way; it may be empty."""


# Places in ``Cell.judged``: the fields of ``Contest`` and of ``Credit``, the centre of ``RiskUnit``, and the evidence
# of each model as in ``Linear``, whose weight is 0 without evidence. A regression also has the risks of ``RiskUnit``,
# and then for each model and column the range (infinite if there is none yet) and the limits. UNITS and RANGES are
# those of two models: what follows the evidence is four places further for each model more.
CONTEST, CREDIT, CREDIT_GAIN, UNIT_CENTRE, EVIDENCE, UNITS = 0, 9, 10, 11, 12, 20
RANGES = UNITS + WINDOW


class Scratch(NamedTuple):
    """Working memory, and the numbers that a step leaves behind."""

    orders: IntArray
    """Row of each gradient step, from the first row of the sample set on (sides, steps)."""
    overwritten: FloatArray
    """Entries of the tables before the steps (sides, steps * K)."""
    scores: FloatArray
    """Scores of the new rows by the model that predicted them, K for each row."""
    margins: FloatArray
    losses: FloatArray
    values: FloatArray
    """As many numbers as there are places, and four for each new row."""
    columns: FloatArray
    """Eight numbers for each column and output."""
    whole: IntArray
    real: FloatArray
    """Outcome of the step: see the constants below."""


# Places in ``Scratch.whole``: counts, a record for each model, the transitions, and two numbers of each side.
CONDITION, REACTIVE_STEP, RECORDS, TRANSITIONS, PREDICTED_BY, TRAINED_FROM, PREDICTS_NEXT, ABSENT = range(8)
RECORD, RECORD_SIZE = 8, 6
"""Role, id, born, first row, gradients, and which of the first three risks were measured, as bits 1, 2 and 4."""
TRANSITION, TRANSITION_SIZE = RECORD + MOST_RECORDS * RECORD_SIZE, 5
"""Kind, number of batches, old and new model, and the class for lack of which w was kept, or -1."""
STEPS = TRANSITION + MOST_TRANSITIONS * TRANSITION_SIZE
"""For each side, the number of its gradient steps and the row from which their order counts."""
WHOLE_SIZE = STEPS + 2 * 2
"""Size for two sides."""
# Places in ``Scratch.real``: four risks of each model (before, after, over T, best), three numbers of each transition,
# the unit of the thresholds, the standard error of the lead of w', and the stack of ``pairwise_sum``.
RISKS, COMPARED = 4, 3
COMPARISON = MOST_RECORDS * RISKS
UNIT = COMPARISON + MOST_TRANSITIONS * COMPARED
LEAD_ERROR = UNIT + 1
STACK = UNIT + 2
REAL_SIZE = STACK + SUM_STACK


def named_type(form: Any, /, **fields: Any) -> Any:
    """Return the numba type of a NamedTuple; its fields are given by name, in any order."""
    return types.NamedTuple([fields[name] for name in form._fields], form)


def cell_type(f: Any) -> Any:
    """Return the numba type of a cell, given that of its row values, which is a ``Sparse`` for CSR rows."""
    matrix = _out(F8, 2)
    return named_type(
        Cell,
        X=_csr_type(f.values) if isinstance(f, Sparse) else _out(f, 2),
        y=_out(F8),
        weight=_out(F8),
        tables=matrix,
        bounds=_out(I8),
        counts=_out(from_dtype(COUNTS)),
        models=_out(from_dtype(MODEL)),
        centred=_out(I8, 2),
        judged=_out(F8),
        ahead=_out(types.uint8),
        **dict.fromkeys(("w", "G", "factor", "gain", "centre", "raw"), matrix),
    )


def _csr_type(f: Any) -> Any:
    return named_type(CSR, data=_out(f), indices=_out(types.int32), indptr=_out(I8), n_features=I8)


RULE = named_type(
    Rule,
    threshold=F8,
    stable_threshold=F8,
    reactive_length=I8,
    max_rows=I8,
    span=I8,
    lead=F8,
    significance=F8,
    class_share=F8,
    **dict.fromkeys(("greedy", "divided", "prequential", "relative", "faded"), FLAG),
)
TRAINING = named_type(
    Training,
    kind=I8,
    outputs=I8,
    **dict.fromkeys(("step_size", "l2", "epsilon", "reach", "curvature"), F8),
    **dict.fromkeys(("scaled", "alternating", "intercept", "uniform_start", "paired", "regression"), FLAG),
)
SCRATCH = named_type(
    Scratch,
    orders=_out(I8, 2),
    whole=_out(I8),
    **dict.fromkeys(("overwritten", "columns"), _out(F8, 2)),
    **dict.fromkeys(("scores", "margins", "losses", "values", "real"), _out(F8)),
)


def make_cell(
    X: Rows, y: FloatArray, weight: FloatArray, rule: Rule, training: Training, sides: int = 2
) -> tuple[Cell, FloatArray]:
    """Return a cell of zeros with these rows, and the array that holds all that a step changes but rows and tables."""
    n_features = X.n_features if isinstance(X, CSR) else X.shape[1]
    width, outputs = n_features + 1, training.outputs
    judged = 4 * (sides - 2) + (RANGES + 4 * sides * n_features if training.regression else UNITS)
    real = np.dtype(np.float64)
    parts: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "counts": (COUNTS, (1,)),
        "models": (MODEL, (sides,)),
        "bounds": (np.dtype(np.int64), (rule.reactive_length + 1,)),
        "centred": (np.dtype(np.int64), (sides, width)),
        **dict.fromkeys(("w", "G"), (real, (sides, width * outputs))),
        **dict.fromkeys(("factor", "gain", "centre"), (real, (sides, width))),
        "raw": (real, (sides, width * outputs)),
        "judged": (real, (judged,)),
    }
    sizes = {name: kind.itemsize * math.prod(shape) // 8 for name, (kind, shape) in parts.items()}
    small, views, start = np.zeros(sum(sizes.values())), {}, 0
    for name, (kind, shape) in parts.items():
        views[name] = small[start : start + sizes[name]].view(kind).reshape(shape)
        start += sizes[name]
    tables = np.empty((sides, len(y) * outputs))
    return Cell(X, y, weight, tables, ahead=np.empty(0, np.uint8), **views), small


def make_scratch(n_features: int, rows: int, places: int, steps: int, outputs: int = 1, sides: int = 2) -> Scratch:
    """Return working memory for batches of ``rows`` rows and ``steps`` gradient steps."""
    return Scratch(
        orders=np.empty((sides, steps), np.int64),
        overwritten=np.empty((sides, steps * outputs)),
        scores=np.empty(rows * outputs),
        margins=np.empty(rows * outputs),
        losses=np.empty(rows),
        values=np.empty(max(places, 4 * rows)),
        columns=np.empty((8, (n_features + 1) * outputs)),
        whole=np.zeros(STEPS + 2 * sides, np.int64),
        real=np.zeros(REAL_SIZE),
    )
