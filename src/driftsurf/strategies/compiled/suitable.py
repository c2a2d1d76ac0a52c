"""Learners and states that the compiled step supports."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from driftsurf.core.contracts import Learner, Segment
from driftsurf.kernels.losses import SOFTMAX
from driftsurf.learners._linear import Linear
from driftsurf.learners.logistic import NARROW, LogisticRegression
from driftsurf.learners.regression import LinearRegression
from driftsurf.learners.softmax import SoftmaxRegression
from driftsurf.learners.svm import LinearSVM
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._reaction import Live
from driftsurf.strategies.compiled.addresses import calls_by_address
from driftsurf.strategies.compiled.layout import LOGISTIC, Rule, Training
from driftsurf.strategies.compiled.rows import used_bytes
from driftsurf.strategies.compiled.step import learn, learn_sparse
from driftsurf.strategies.compiled.table import parts_are_at_hand

SUPPORTED = LogisticRegression, SoftmaxRegression, LinearSVM, LinearRegression
GROWN_BYTES, MOST_BYTES = 2**22, 2**26
"""Sizes of the rows up to which a cell is used, while it grows and in the end. The rows of a cell are copied whenever
their room is doubled; those of the generic step grow in place."""
WIDEST = 2**11
"""Most columns of sparse rows. A step copies several numbers for each column, to be able to go back."""
MOST = 2**62
"""Counts of models in a cell are below this, far from overflow."""
LEAST_STEPS = 20_000
"""Steps in this process from which on the compiled step is compiled, which takes several seconds; before that it is
used only if it is in the cache. The results are the same to the bit."""
COPIED = "drawn", "lo", "admitted", "hi", "seen", "words", "gradients", "rescale_at", "step_size", "target"
"""Numbers of a model with the same name in ``Linear``."""

_generic_steps = 0


def step_is_at_hand(rule: Rule, training: Training, *, sparse: bool, kernel: Any = None) -> bool:
    """Return whether the compiled step is in the cache, or there was enough work for it to be compiled.

    ``kernel`` is the loop of the step, if it is another one than ``learn``.
    """
    global _generic_steps
    _generic_steps += 1
    if _generic_steps <= LEAST_STEPS and not is_compiled(rule, training, sparse=sparse, kernel=kernel):
        return False
    return calls_by_address()


def call_is_at_hand(kernel: Any) -> bool:
    """Return whether a kernel that saves time only is in the cache, or there was enough work for it to be compiled."""
    global _generic_steps
    if kernel.is_at_hand():
        return True
    _generic_steps += 1
    return _generic_steps > LEAST_STEPS


def is_compiled(rule: Rule, training: Training, *, sparse: bool = False, kernel: Any = None) -> bool:
    """Return whether the compiled step for these options is in the cache, with all its parts."""
    loop = kernel or (learn_sparse if sparse else learn)
    return loop.is_at_hand() and parts_are_at_hand(rule, training, sparse=sparse)


def compile_at_first_use() -> None:
    """Let this process compile each step when it is first used, however little work there may be."""
    global _generic_steps
    _generic_steps = LEAST_STEPS


def is_supported(learner: Learner) -> bool:
    """Return whether the compiled step can train models of this learner. A subclass may change any part of it."""
    known: Any = learner
    return type(learner) in SUPPORTED and known._tabled


def has_one_output(learner: Learner) -> bool:
    """Return whether models of a supported learner have a single output, for values or for two classes."""
    return type(learner) is not SoftmaxRegression


def training_of(learner: Any, n_classes: int, n_features: int, *, sparse: bool = False) -> Training:
    """Return the parameters of a learner as the compiled step takes them."""
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
        paired=logistic and n_features <= NARROW and not sparse,
        kind=kind,
        outputs=outputs or 1,
        epsilon=epsilon,
        reach=learner._reach,
        curvature=SoftmaxRegression.curvature if kind == SOFTMAX else learner.curvature,
        regression=learner.capabilities.regression,
    )


def outgrows_cell(pool: Pool, size: int, rows: int) -> bool:
    """Return whether this many rows, which take ``size`` bytes, are too many for a cell, as they will be far more."""
    return size > GROWN_BYTES and (pool.max_rows is None or pool.max_rows * size > MOST_BYTES * rows)


def fits_bank(pool: Pool, members: Sequence[Member], sides: int, *, learning: bool) -> bool:
    """Return whether the rows are few enough for a bank, and the models such as steps leave them behind.

    Models that are not ``learning`` vote, but will not be trained again.
    """
    further = 8 * len(pool.samples) * sides * max(pool.n_classes, 2)
    if len(members) >= sides or not _has_few_rows(pool, further):
        return False
    return all(_fits(pool, member) if learning else _is_retired(pool, member) for member in members)


def _has_few_rows(pool: Pool, further_bytes: int = 0) -> bool:
    samples = pool.samples
    rows = samples.view(Segment(samples.first_row, samples.next_row)).X
    wide = samples.sparse and samples.n_features > WIDEST
    return not (wide or outgrows_cell(pool, used_bytes(rows) + further_bytes, len(samples)))


def fits_cell(pool: Pool, live: Live, *, prequential: bool) -> bool:
    """Return whether the rows are few enough, and models and counts such as steps leave them behind.

    A forged state may have others, with which generic steps still stay within their arrays. Compiled code checks no
    bounds, so such models are left to the generic step.
    """
    samples = pool.samples
    if not _has_few_rows(pool):
        return False
    if live.reactive is not None and live.stable is not None:
        return False
    ends = [samples.next_row - sum(map(len, live.trial)), *(part.hi for part in live.trial)]
    trial = tuple(Segment(*pair) for pair in itertools.pairwise(ends))
    expected = 0 if live.reactive is None or prequential else live.reactive_step
    if live.trial != trial or len(trial) != expected or ends[0] < samples.first_row:
        return False
    if any(map(math.isnan, live.unit.recent)):  # no order
        return False
    if not all(_fits(pool, member) for member in live.members):
        return False
    return max(pool.made, live.step, samples.next_row) < MOST


def _fits(pool: Pool, member: Member) -> bool:
    samples = pool.samples
    learner: Any = member.learner
    fitted: Linear = learner._fitted
    trained = samples.first_row <= fitted.lo <= fitted.admitted <= fitted.hi == samples.next_row
    if len(fitted.anchor) or not (fitted.lo < 0 or (trained and len(learner._table) == fitted.admitted - fitted.lo)):
        return False
    # There is room for the evidence of one batch: a new model of a regression must not have to meet more rows.
    if fitted.lo < 0 and max(member.first_row, samples.first_row) < samples.next_row:
        return False
    ranged = learner.capabilities.regression and learner._scaled
    if len(fitted.low) + len(fitted.evidence) and not ranged:
        return False
    if (len(fitted.evidence) and not fitted.evidence[0] > 0.0) or not samples.n_features:
        return False
    return _is_counted(member)


def _is_retired(pool: Pool, member: Member) -> bool:
    """Return whether a model of a classifier has no rows any more."""
    learner: Any = member.learner
    fitted: Linear = learner._fitted
    empty = 0 <= fitted.lo == fitted.admitted == fitted.hi <= pool.samples.next_row and not len(learner._table)
    return empty and not len(fitted.low) + len(fitted.evidence) and _is_counted(member)


def _is_counted(member: Member) -> bool:
    """Return whether the counts of a model are far from overflow."""
    learner: Any = member.learner
    fitted: Linear = learner._fitted
    numbers: list[int] = [member.id, member.born, *(getattr(fitted, name) for name in COPIED[:-2])]
    return max(numbers) < MOST
