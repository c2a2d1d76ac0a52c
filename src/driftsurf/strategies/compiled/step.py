"""One time step of a cell in compiled code: watch, train, compare, as in ``driftsurf.strategies.driftsurf``.

The rule is compiled from the functions that decide for any learner (``_rule.py``). This file holds the order in which
things happen. numba caches compiled code for as long as this file stays the same: remove the ``__pycache__`` folders
(``make clean``) after changing the rule, or a file that this one imports.
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import I8, kernel, merged
from driftsurf.kernels.remote import borrowed
from driftsurf.strategies._rule import challenger_predicts, entering, switching
from driftsurf.strategies.compiled.addresses import kernels_type, margins_at
from driftsurf.strategies.compiled.layout import (
    CONDITION,
    DIVERGED,
    ENTERED,
    FLAG,
    GREEDY,
    KEPT,
    LEARNED,
    NEW_CLASS,
    NO_RIVAL,
    PREDICTED_BY,
    PREDICTS_NEXT,
    REACTIVE,
    REACTIVE_STEP,
    RECORD,
    RECORD_SIZE,
    RECORDS,
    RULE,
    SCRATCH,
    STABLE,
    SWITCHED,
    TRAINED_FROM,
    TRAINING,
    TRANSITIONS,
    cell_type,
)
from driftsurf.strategies.compiled.model import (
    begin_update,
    end_update,
    forget_rows,
    make_model,
    risk,
    risk_of_trial,
    run_both,
    run_update,
)
from driftsurf.strategies.compiled.outcome import add_record, add_risk, add_transition

__all__ = ["learn", "learn_arguments"]


@merged
def _watch(cell: Any, hi: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Measure the risks on the new batch before it is learned, and enter the reactive state on a sign of drift."""
    counts = cell.counts[0]
    lo, old = counts["next"], counts["predictive"]
    new = 1 - old
    challenged = counts["challenged"] != 0
    own = risk(cell, old, lo, hi, not challenged, training, scratch, kernels)
    cell.models[old]["best"] = min(own, cell.models[old]["best"]) if own == own else cell.models[old]["best"]
    best = cell.models[old]["best"]
    add_risk(scratch, add_record(cell, old, NO_RIVAL, scratch), 0, own)
    other = math.nan
    if counts["rival"] != NO_RIVAL:
        other = risk(cell, new, lo, hi, challenged, training, scratch, kernels)
        cell.models[new]["best"] = min(other, cell.models[new]["best"]) if other == other else cell.models[new]["best"]
        add_risk(scratch, add_record(cell, new, counts["rival"], scratch), 0, other)
    if counts["rival"] == REACTIVE:
        return
    condition = entering(own, best, other, rule.threshold, rule.stable_threshold)
    scratch.whole[CONDITION] = condition
    if condition == 0:
        return
    make_model(cell, new, counts["step"], lo, training, kernels)
    counts["rival"] = REACTIVE
    counts["reacted"] = 1
    counts["reactive_step"] = 0
    cell.bounds[0] = lo
    add_record(cell, new, REACTIVE, scratch)
    ids = cell.models[old]["id"], cell.models[new]["id"]
    if condition == 1:
        add_transition(scratch, ENTERED, 1, own, best, rule.threshold, ids[0], ids[1])
    else:
        add_transition(scratch, ENTERED, 1, own, other, rule.stable_threshold, ids[0], ids[1])


@merged
def _train(cell: Any, hi: Any, steps: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Update w together with its rival, within the budget; return whether training has not diverged."""
    counts = cell.counts[0]
    old = counts["predictive"]
    new = 1 - old
    alone = counts["rival"] == NO_RIVAL
    share = steps // 2 if rule.divided and not alone else steps
    own = steps - share if rule.divided and not alone else steps
    begin_update(cell, old, hi, own, training, scratch, kernels)
    scratch.whole[RECORD + 4] = own
    if alone:
        run_update(cell, old, own, training, scratch, kernels)
        return end_update(cell, old, scratch, kernels)
    begin_update(cell, new, hi, share, training, scratch, kernels)
    # The rival that learns is the last one that was recorded.
    scratch.whole[RECORD + (scratch.whole[RECORDS] - 1) * RECORD_SIZE + 4] = share
    if training.paired and own == share:
        run_both(cell, own, training, scratch, kernels)
    else:
        run_update(cell, old, own, training, scratch, kernels)
        run_update(cell, new, share, training, scratch, kernels)
    return end_update(cell, old, scratch, kernels) and end_update(cell, new, scratch, kernels)


@merged
def _compare(cell: Any, hi: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """In a reactive state, choose the model that predicts the next batch; at its end, the model that stays."""
    counts = cell.counts[0]
    lo, old = counts["next"], counts["predictive"]
    new = 1 - old
    counts["reactive_step"] += 1
    step = counts["reactive_step"]
    scratch.whole[REACTIVE_STEP] = step
    last = scratch.whole[RECORDS] - 1
    old_risk = risk(cell, old, lo, hi, False, training, scratch, kernels)
    new_risk = risk(cell, new, lo, hi, False, training, scratch, kernels)
    add_risk(scratch, 0, 1, old_risk)
    add_risk(scratch, last, 1, new_risk)
    cell.bounds[step] = hi
    ids = cell.models[old]["id"], cell.models[new]["id"]
    if step < rule.reactive_length:
        challenged = challenger_predicts(old_risk, new_risk, rule.greedy)
        if challenged != (counts["challenged"] != 0):
            if challenged:
                add_transition(scratch, GREEDY, 1, new_risk, old_risk, 0.0, ids[0], ids[1])
            else:
                add_transition(scratch, GREEDY, 1, new_risk, old_risk, 0.0, ids[1], ids[0])
        counts["challenged"] = 1 if challenged else 0
        return
    old_risk = risk_of_trial(cell, old, step, training, scratch, kernels)
    new_risk = risk_of_trial(cell, new, step, training, scratch, kernels)
    add_risk(scratch, 0, 2, old_risk)
    add_risk(scratch, last, 2, new_risk)
    switched = switching(old_risk, new_risk)
    add_transition(scratch, SWITCHED if switched else KEPT, step, new_risk, old_risk, 0.0, ids[0], ids[1])
    if switched:
        counts["predictive"] = new
    counts["challenged"] = 0
    counts["reactive_step"] = 0
    counts["rival"] = STABLE
    make_model(cell, 1 - counts["predictive"], counts["step"] + 1, hi, training, kernels)


@merged
def _bound(cell: Any, hi: Any, rule: Any, kernels: Any) -> None:
    """Drop the rows beyond ``max_rows`` from the sample sets, and work out which row is the oldest one needed."""
    counts = cell.counts[0]
    rivals = 1 if counts["rival"] == NO_RIVAL else 2
    floor = hi - rule.max_rows
    first = hi
    if counts["rival"] == REACTIVE:
        first = cell.bounds[0]
    for i in range(rivals):
        side = counts["predictive"] if i == 0 else 1 - counts["predictive"]
        if hi - counts["first"] > rule.max_rows:
            forget_rows(cell, side, floor, kernels)
        model = cell.models[side]
        first = min(first, max(model["first_row"], floor) if model["lo"] < 0 else model["lo"])
    counts["first"] = max(first, counts["first"])


@merged
def _has_new_class(y: Any) -> Any:
    """Return whether a code is neither 0 nor 1."""
    largest = 0.0
    for i in range(y.shape[0]):
        largest = max(largest, y[i])
    return largest > 1.0


def learn_arguments(f: Any) -> tuple[Any, ...]:
    """Return the numba types of the arguments of ``learn``."""
    return cell_type(f), I8, I8, FLAG, RULE, TRAINING, SCRATCH, kernels_type()


@kernel(learn_arguments, exact=True)
def learn(cell: Any, count: Any, steps: Any, tested: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Learn ``count`` new rows, which are in their places already, as one time step of ``steps`` gradient steps.

    With ``tested``, ``scratch.scores`` has their scores by the model that predicts now; otherwise they are computed.
    Returns LEARNED; NEW_CLASS if a code is neither 0 nor 1, and nothing was changed; or DIVERGED if training diverged,
    with the size of the weights and the step size in ``scratch.real``. The caller then restores the cell.
    """
    cell, scratch = borrowed((cell, scratch), kernels)
    counts, whole = cell.counts[0], scratch.whole
    lo = counts["next"]
    hi = lo + count
    old = counts["predictive"]
    predictor = 1 - old if counts["challenged"] != 0 else old
    whole[CONDITION] = 0
    whole[REACTIVE_STEP] = 0
    whole[RECORDS] = 0
    whole[TRANSITIONS] = 0
    whole[PREDICTED_BY] = cell.models[predictor]["id"]
    whole[TRAINED_FROM] = cell.models[predictor]["first_row"]
    a, b = lo - counts["base"], hi - counts["base"]
    if _has_new_class(cell.y[a:b]):
        return NEW_CLASS
    if not tested:
        margins_at(kernels.margins, cell.X)(cell.X[a:b], cell.raw[predictor], scratch.scores[:count])
    _watch(cell, hi, rule, training, scratch, kernels)
    if not _train(cell, hi, steps, rule, training, scratch, kernels):
        return DIVERGED
    if counts["rival"] == REACTIVE:
        _compare(cell, hi, rule, training, scratch, kernels)
    _bound(cell, hi, rule, kernels)
    counts["step"] += 1
    counts["next"] = hi
    predictor = 1 - counts["predictive"] if counts["challenged"] != 0 else counts["predictive"]
    whole[PREDICTS_NEXT] = cell.models[predictor]["id"]
    return LEARNED
