"""Memory of a cell: the rows and the models of one strategy, in arrays on which the native step works.

``native/layout.pxd`` describes the same memory for the native core. A cell has two models, on *side* 0 and side 1. One
is the predictive model w. The other, the *rival*, is the reactive model w' during a reactive state, and the stable
model w'' outside of one. (A stable model ends when a reactive one starts, so there are never three.) Rows are numbered
in the order of arrival; row r is at place r - ``base`` of the arrays of rows, and its entry in the gradient table of a
model is at the same place of the table.

A model has K *outputs*, one for each class of softmax regression and a single one otherwise. Its weights are those of a
matrix (columns + 1, K) row by row, its gradient table has K numbers for each row, and a row has K scores.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, AppendOnlyArray, FloatArray, IncrementalState, IntArray, Rows, n_rows
from driftsurf.core.decisions import Decision, ModelRecord, Role, Transition, TransitionKind
from driftsurf.learners.logistic import NARROW
from driftsurf.learners.softmax import SoftmaxRegression
from driftsurf.strategies.driftsurf_state import WINDOW

NO_RIVAL, STABLE, REACTIVE = 0, 1, 2
"""Codes of the rival's role."""
ENTERED, GREEDY, SWITCHED, KEPT = 0, 1, 2, 3
"""Codes of transitions."""
LEARNED, DIVERGED, UNSUITED, FULL, REFUSED = range(5)
"""Results of a step."""
LOGISTIC = -1
"""Kind of the logistic loss, beside the kinds of ``native/c/multi.h``."""
SIDES = 2
LONGEST = 1000
"""Most batches of a reactive state. Every step copies one number for each of them, to be able to go back."""
UNLIMITED = 2**62
"""Stands for no limit of the number of rows."""
LEAST_PLACES = 64
RESERVED = 8
"""Number of times by which dense rows can grow in place, once they take ``LARGE`` bytes. The system provides memory
when it is first written: room that is not used costs nothing, while copying rows to new memory costs as much as
learning them."""
LARGE = 2**18
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
    """Arrays of a cell. All after ``small`` are views of it."""

    X: Any
    """Rows: an array, or ``CSR``."""
    y: FloatArray
    weight: FloatArray
    tables: FloatArray
    """Gradient tables (sides, places * K)."""
    small: FloatArray
    """All that a step changes but rows and tables."""
    counts: Records
    models: Records
    bounds: IntArray
    """First rows of the batches of T, and the row after them."""
    centred: IntArray
    """Columns whose centre is not 0."""
    w: FloatArray
    """Weights (sides, (columns + 1) * K)."""
    G: FloatArray
    """Gradient sums."""
    factor: FloatArray
    gain: FloatArray
    """Squared factors."""
    centre: FloatArray
    raw: FloatArray
    """Weights for columns that are not scaled, by which rows are scored: output by output for dense rows."""
    judged: FloatArray
    """Numbers by which models are judged, and ranges of columns: see the constants below."""

    @property
    def parts(self) -> tuple[Any, FloatArray, FloatArray, FloatArray]:
        """Arrays of rows."""
        return self.X, self.y, self.weight, self.tables


# Places in ``Cell.judged``: the fields of ``Contest`` and of ``Credit``, the centre of ``RiskUnit``, and the evidence
# of each model as in ``Linear``, whose weight is 0 without evidence. A regression also has the risks of ``RiskUnit``,
# and then for each model and column the range (infinite if there is none yet) and the limits.
CONTEST, CREDIT, CREDIT_GAIN, UNIT_CENTRE, EVIDENCE, UNITS = 0, 9, 10, 11, 12, 20
RANGES = UNITS + WINDOW


class StepRule(NamedTuple):
    """Parameters of DriftSurf."""

    threshold: float
    stable_threshold: float
    reactive_length: int
    greedy: bool
    divided: bool
    """Whether two models share one budget."""
    max_rows: int
    prequential: bool
    """Whether models are compared by their risks on batches before learning them."""
    relative: bool
    """Whether the thresholds are multiples of the risk of a trivial model."""
    lead: float
    """Share of the risk of w by which w' must be better to predict the next batch."""
    significance: float
    """Standard errors by which the mean lead of w' must exceed 0; 0 if noise is not taken into account."""
    class_share: float
    """Share of the last rows of w from which on w' has to know a class; 0 if classes are not counted."""
    span: int = UNLIMITED
    """Number of rows, the new ones included, from which a model learns; it forgets older ones before a batch."""
    faded: bool = False
    """Whether a single model learns with other weights of rows, which are in the gradient table of side 1."""


def never_reacting(max_rows: int | None, *, span: int = UNLIMITED, faded: bool = False) -> StepRule:
    """Return the rule of a DriftSurf that never reacts: that of a single model, or of models that vote."""
    return StepRule(
        threshold=math.inf,
        stable_threshold=math.inf,
        reactive_length=1,
        greedy=False,
        divided=False,
        max_rows=UNLIMITED if max_rows is None else max_rows,
        prequential=False,
        relative=False,
        lead=0.0,
        significance=0.0,
        class_share=0.0,
        span=span,
        faded=faded,
    )


class Training(NamedTuple):
    """Parameters of the learner."""

    step_size: float
    """NaN for the automatic one."""
    l2: float
    scaled: bool
    alternating: bool
    """STRSAGA's schedule; otherwise that of SAGA."""
    intercept: bool
    uniform_start: bool
    paired: bool
    """Whether two models take their steps in turn, in one loop."""
    kind: int
    """Kind of the loss."""
    outputs: int
    """K, the number of outputs."""
    epsilon: float
    """Width of Huber's loss."""
    reach: float
    """Largest step at a row, as a share of the step to its minimum."""
    curvature: float
    """Largest second derivative of the loss."""
    regression: bool


def training_of(learner: Any, n_classes: int, n_features: int, *, sparse: bool = False) -> Training:
    """Return the parameters of a learner as the native step takes them."""
    outputs = learner._outputs(n_classes)
    logistic = outputs is None
    kind, epsilon = (LOGISTIC, 0.0) if logistic else learner._loss
    return Training(
        step_size=math.nan if learner.step_size == "auto" else float(learner.step_size),
        l2=float(learner.l2),
        scaled=bool(learner._scaled),
        alternating=learner.optimizer == "strsaga",
        intercept=bool(learner.fit_intercept),
        uniform_start=learner.start == "uniform",
        paired=n_features <= NARROW and not sparse,
        kind=kind,
        outputs=outputs or 1,
        epsilon=epsilon,
        reach=learner._reach,
        curvature=SoftmaxRegression.curvature if kind == SoftmaxRegression.kind else learner.curvature,
        regression=learner.capabilities.regression,
    )


def make_cell(X: Rows, y: FloatArray, weight: FloatArray, rule: StepRule, training: Training) -> Cell:
    """Return a cell of zeros with these rows."""
    n_features = X.n_features if isinstance(X, CSR) else X.shape[1]
    width, outputs = n_features + 1, training.outputs
    real = np.dtype(np.float64)
    parts: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "counts": (COUNTS, (1,)),
        "models": (MODEL, (SIDES,)),
        "bounds": (np.dtype(np.int64), (rule.reactive_length + 1,)),
        "centred": (np.dtype(np.int64), (SIDES, width)),
        **dict.fromkeys(("w", "G"), (real, (SIDES, width * outputs))),
        **dict.fromkeys(("factor", "gain", "centre"), (real, (SIDES, width))),
        "raw": (real, (SIDES, width * outputs)),
        "judged": (real, (RANGES + 4 * SIDES * n_features if training.regression else UNITS,)),
    }
    sizes = {name: kind.itemsize * math.prod(shape) // 8 for name, (kind, shape) in parts.items()}
    small, views, start = np.zeros(sum(sizes.values())), {}, 0
    for name, (kind, shape) in parts.items():
        views[name] = small[start : start + sizes[name]].view(kind).reshape(shape)
        start += sizes[name]
    return Cell(X, y, weight, np.empty((SIDES, len(y) * outputs)), small, **views)


def copied(X: Rows) -> Rows:
    """Return a copy of rows, whose boundaries count from 0 if they are sparse."""
    if not isinstance(X, CSR):
        return X.copy()
    a, b = X.indptr[[0, -1]].tolist()
    return CSR(X.data[a:b].copy(), X.indices[a:b].copy(), X.indptr - a, X.n_features)


def stored_between(X: Rows, a: int, b: int) -> Rows:
    """Return the rows at the places a to b, as views."""
    return X._replace(indptr=X.indptr[a : b + 1]) if isinstance(X, CSR) else X[a:b]


def allocated_bytes(X: Rows) -> int:
    """Return the bytes allocated for rows and for more to come."""
    return sum(part.nbytes for part in X[:3]) if isinstance(X, CSR) else X.nbytes


def outputs_of(cell: Cell) -> int:
    """Return the number of outputs of the models of a cell."""
    weights, columns = cell.w.shape[1], cell.factor.shape[1]
    count: int = weights // columns
    return count


def entries_of(cell: Cell) -> FloatArray:
    """Return the gradient tables of a cell (sides, places, outputs), as a view."""
    return cell.tables.reshape(len(cell.tables), len(cell.y), outputs_of(cell))


def with_room(cell: Cell, new: Rows, max_rows: int) -> tuple[Cell, int, int]:
    """Return a cell with room for these rows: the same one with its rows moved to the front, or another.

    Also returns the number of the row at place 0, and of the stored values before it. The rows so far stay as they are
    in their old places. The cell will hold ``max_rows`` rows and a batch at most.
    """
    X, counts, count = cell.X, cell.counts, n_rows(new)
    base, first, stop, before = (counts[name].item() for name in ("base", "first", "next", "values"))
    start, live = first - base, stop - first
    low = high = more = 0  # places of the live values of sparse rows, and number of new ones
    if isinstance(X, CSR):
        assert isinstance(new, CSR)
        low, high = X.indptr[[start, start + live]].tolist()
        more = (new.indptr[-1] - new.indptr[0]).item()
    needed, values, target = live + count, high - low + more, cell
    if not (2 * needed <= len(cell.y) and needed < start and values <= low):
        if (grown := _lengthened(cell, start + needed, needed)) is not None:
            return grown, base, before
        length = max(LEAST_PLACES, 2 * needed)
        # Sparse rows have some more room, so that the next ones fit even if they are a little longer.
        larger = _empty_like(X, max(length, _reserved(X, needed, max_rows + count)), 2 * values + values // 16)
        places = n_rows(larger)
        tables = np.empty((SIDES, length * outputs_of(cell)))
        y, weight = np.empty(places)[:length], np.empty(places)[:length]
        target = cell._replace(X=stored_between(larger, 0, length), y=y, weight=weight, tables=tables)
    moved: Any = target.X
    if isinstance(X, CSR):
        moved.data[: high - low], moved.indices[: high - low] = X.data[low:high], X.indices[low:high]
        np.subtract(X.indptr[start : start + live + 1], low, out=moved.indptr[: live + 1])
    elif live:
        moved[:live] = X[start : start + live]
    if live:
        lives = slice(start, start + live)
        target.y[:live], target.weight[:live] = cell.y[lives], cell.weight[lives]
        entries_of(target)[:, :live] = entries_of(cell)[:, lives]
    return target, first, before + low


def _reserved(X: Rows, needed: int, most: int) -> int:
    """Return for how many rows to reserve memory, given how many need it now, and how many there will be at most."""
    if isinstance(X, CSR) or needed * X.itemsize * X.shape[1] < LARGE:
        return max(LEAST_PLACES, 2 * needed)
    most = 2 * max(needed, most)
    return most if 2 * RESERVED * needed > most else RESERVED * needed


def _lengthened(cell: Cell, places: int, more: int) -> Cell | None:
    """Return the cell with room for more dense rows in the same memory, where they stay; None if that is full.

    The gradient tables are copied: their entries stand side by side.
    """
    reserved = 0 if isinstance(cell.X, CSR) or cell.X.base is None else len(cell.X.base)
    if reserved < places + more // 4:
        return None
    length = min(places + more, reserved)
    longer: dict[str, Any] = {name: getattr(cell, name).base[:length] for name in ("X", "y", "weight")}
    made = cell._replace(tables=np.empty((SIDES, length * outputs_of(cell))), **longer)
    entries_of(made)[:, : len(cell.y)] = entries_of(cell)
    return made


def _empty_like(X: Rows, places: int, values: int) -> Rows:
    """Return memory for this many rows, and this many values if they are sparse."""
    if not isinstance(X, CSR):
        return np.empty((places, X.shape[1]), X.dtype)
    indptr = np.empty(places + 1, np.int64)
    return CSR(np.empty(values, X.data.dtype), np.empty(values, np.int32), indptr, X.n_features)


def entry_names(X: Rows) -> tuple[str, ...]:
    """Return the names of the saved arrays of rows."""
    return ("y", "weight", *(CSR._fields[:3] if isinstance(X, CSR) else ("X",)))


def saved_rows(cell_now: Callable[[], Cell], owners: Mapping[str, object]) -> IncrementalState:
    """Return the rows of a cell as ``Samples`` saves them; they are read when a checkpoint asks for them.

    ``cell_now`` returns the cell at that time. ``owners`` has an object for each saved array.
    """
    cell = cell_now()
    X, counts = cell.X, cell.counts
    first, stop, base = (counts[name].item() for name in ("first", "next", "base"))
    sparse = isinstance(X, CSR)
    n_features, dtype = (X.n_features, X.data.dtype) if isinstance(X, CSR) else (X.shape[1], X.dtype)
    state: IncrementalState = {
        "n_features": n_features,
        "sparse": sparse,
        "dtype": dtype.name,
        "first_row": first,
    }
    for name, owner in owners.items():
        a, b = first, stop
        if name in ("data", "indices"):
            assert isinstance(X, CSR)
            a, b = (X.indptr[[first - base, stop - base]] + counts["values"]).tolist()
        read = functools.partial(_saved, cell_now, name)
        state[name] = AppendOnlyArray(owner, a, b, read, ends=name == "indptr")
    return state


def _saved(cell_now: Callable[[], Cell], name: str, lo: int, hi: int) -> npt.NDArray[Any]:
    """Return the entries of a saved array from number ``lo`` to ``hi``."""
    cell = cell_now()
    X: Any = cell.X
    at = cell.counts["values" if name in ("data", "indices") else "base"].item()
    if name == "indptr":  # saved as lengths
        return np.diff(X.indptr[lo - at : hi - at + 1])
    values: npt.NDArray[Any] = getattr(X if isinstance(X, CSR) and name in X._fields else cell, name)
    return values[lo - at : hi - at]


# Places among the whole numbers of an outcome: counts, a record for each model, and the transitions.
CONDITION, REACTIVE_STEP, RECORDS, TRANSITIONS, PREDICTED_BY, TRAINED_FROM, PREDICTS_NEXT, ABSENT = range(8)
MOST_RECORDS, MOST_TRANSITIONS = 3, 2
"""Most models and most transitions: a stable model may end in the step that makes w'."""
RECORD, RECORD_SIZE = 8, 6
"""Role, id, born, first row, gradients, and which of the first three risks were measured, as bits 1, 2 and 4."""
TRANSITION, TRANSITION_SIZE = RECORD + MOST_RECORDS * RECORD_SIZE, 5
"""Kind, number of batches, old and new model, and the class for lack of which w was kept, or -1."""
# Places among the real numbers: four risks of each model (before, after, over T, best), three numbers of each
# transition, the unit of the thresholds, and the standard error of the lead of w'.
RISKS, COMPARED = 4, 3
COMPARISON = MOST_RECORDS * RISKS
UNIT = COMPARISON + MOST_TRANSITIONS * COMPARED
LEAD_ERROR = UNIT + 1
ROLES: tuple[Role, ...] = ("predictive", "stable", "reactive")
"""Roles by their codes; that of the predictive model is NO_RIVAL."""
KINDS: tuple[TransitionKind, ...] = ("entered", "greedy", "switched", "kept")
"""Kinds of transitions by their codes."""


class DecisionReader(NamedTuple):
    """Makes decisions of the numbers that steps leave behind, given what is the same in all of them."""

    rule: StepRule
    details: dict[str, Any]
    """Fields of a decision that follow from the options."""

    def read(self, whole: list[int], real: list[float], step: int, first_row: int, rows: int) -> Decision:
        """Return the decision of a step, given its whole and its real numbers."""
        rule, details = self
        if rule.relative:
            unit = real[UNIT]
            thresholds = {"threshold": rule.threshold * unit, "stable_threshold": rule.stable_threshold * unit}
            details = details | thresholds | {"risk_unit": unit}
        return Decision(
            step,
            first_row,
            rows,
            "reactive" if whole[REACTIVE_STEP] else "stable",
            whole[PREDICTED_BY],
            whole[TRAINED_FROM],
            whole[PREDICTS_NEXT],
            tuple([_model_record(whole, real, number, step) for number in range(whole[RECORDS])]),
            whole[REACTIVE_STEP],
            whole[CONDITION],
            absent=whole[ABSENT] if whole[ABSENT] >= 0 else None,
            transitions=tuple([_transition(whole, real, number, step) for number in range(whole[TRANSITIONS])]),
            lead_error=real[LEAD_ERROR] if whole[REACTIVE_STEP] > 1 and details["significance"] is not None else None,
            **details,
        )


def _model_record(whole: list[int], real: list[float], number: int, step: int) -> ModelRecord:
    at = RECORD + number * RECORD_SIZE
    role, id, born, first_row, gradients, measured = whole[at : at + RECORD_SIZE]
    before, after, trial, best = real[number * RISKS : (number + 1) * RISKS]
    return ModelRecord(
        ROLES[role],
        id,
        step - born,
        first_row,
        before if measured & 1 else None,
        after if measured & 2 else None,
        trial if measured & 4 else None,
        None if best == math.inf else best,
        gradients,
    )


def _transition(whole: list[int], real: list[float], number: int, step: int) -> Transition:
    at = TRANSITION + number * TRANSITION_SIZE
    kind, over, old, new, absent = whole[at : at + TRANSITION_SIZE]
    left, right, margin = real[COMPARISON + number * COMPARED : COMPARISON + (number + 1) * COMPARED]
    condition = whole[CONDITION] if kind == ENTERED else 0
    return Transition(KINDS[kind], step, condition, left, right, margin, over, old, new, absent=absent)
