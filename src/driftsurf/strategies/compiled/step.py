"""One time step of a cell in compiled code: watch, train, compare, as in ``driftsurf.strategies.driftsurf``.

The rule is compiled from the functions that decide for any learner (``_rule.py``). This file holds the order in which
things happen. numba caches compiled code for as long as this file stays the same: remove the ``__pycache__`` folders
(``make clean``) after changing the rule, or a file that this one imports.
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import I8, Sparse, kernel, renamed, uncounted
from driftsurf.kernels.losses import LN2
from driftsurf.kernels.prefetch import LINE, prefetch
from driftsurf.kernels.remote import borrowed
from driftsurf.strategies._rule import (
    REGRESSION_MARGIN,
    challenger_predicts,
    closed_credit,
    contest_after,
    contest_risks,
    counts_classes,
    entering,
    lead_error,
    needed_lead,
    reference_risk,
    switching,
    usual_batches,
)
from driftsurf.strategies._unit import WINDOW
from driftsurf.strategies.compiled.addresses import kernels_type, pairwise_sum_at
from driftsurf.strategies.compiled.layout import (
    ABSENT,
    CONDITION,
    CONTEST,
    CREDIT,
    CREDIT_GAIN,
    DIVERGED,
    ENTERED,
    FLAG,
    GREEDY,
    KEPT,
    LEAD_ERROR,
    LEARNED,
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
    STACK,
    SWITCHED,
    TRAINED_FROM,
    TRAINING,
    TRANSITIONS,
    UNIT,
    UNIT_CENTRE,
    UNITS,
    UNLIMITED,
    UNSUITED,
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
    score,
)
from driftsurf.strategies.compiled.outcome import add_record, add_risk, add_transition
from driftsurf.strategies.compiled.parts import missed_class_at, trivial_risk_at
from driftsurf.strategies.compiled.rows import parts_between

__all__ = ["learn", "learn_arguments", "learn_sparse"]


@uncounted
def _unit(cell: Any, rule: Any, scratch: Any) -> Any:
    """Return the unit of the thresholds, as in ``RiskUnit.value``."""
    count = cell.counts[0]["units"]
    if not rule.relative or count == 0:
        return 1.0
    ordered = scratch.real[STACK : STACK + count]
    for i in range(count):
        place = i
        value = cell.judged[UNITS + i]
        while place > 0 and ordered[place - 1] > value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    middle = count // 2
    median = ordered[middle] if count % 2 == 1 else (ordered[middle - 1] + ordered[middle]) / 2
    return median / LN2


@uncounted
def _measure_unit(cell: Any, hi: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Add the batch to the unit of the thresholds; return whether its risk is a number that can be ordered."""
    counts, judged = cell.counts[0], cell.judged
    mass, mean, trivial = trivial_risk_at(kernels.trivial_risk, cell.X)(
        cell, counts["next"], hi, judged[UNIT_CENTRE], training, scratch, kernels
    )
    if math.isnan(trivial):
        return mass == 0.0  # a batch without weight changes nothing
    if counts["units"] == WINDOW:
        for i in range(WINDOW - 1):
            judged[UNITS + i] = judged[UNITS + i + 1]
        counts["units"] -= 1
    judged[UNITS + counts["units"]] = trivial
    counts["units"] += 1
    judged[UNIT_CENTRE] = mean
    return True


@uncounted
def _clear_contest(cell: Any) -> None:
    """Start a new contest of w and w'."""
    for i in range(CREDIT - CONTEST):
        cell.judged[CONTEST + i] = math.nan if 3 <= i < 6 else 0.0


@uncounted
def _watch(cell: Any, hi: Any, unit: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Measure the risks on the new batch before it is learned, and enter the reactive state on a sign of drift.

    Returns the risks of w and of w'; that of a model that is not there is NaN.
    """
    counts = cell.counts[0]
    lo, old, rival = counts["next"], counts["predictive"], counts["rival"]
    new = 1 - old
    own = math.nan
    other = math.nan
    for i in range(1 if rival == NO_RIVAL else 2):
        side = old if i == 0 else new
        known = (counts["challenged"] != 0) == (i == 1)
        value = risk(cell, side, lo, hi, known, training, scratch, kernels)
        model, noisy = cell.models[side], rule.significance > 0.0
        model["best"] = reference_risk(model["best"], value, counts["step"] - model["born"], noisy)
        add_risk(scratch, add_record(cell, side, NO_RIVAL if i == 0 else rival, scratch), 0, value)
        if i == 0:
            own = value
        else:
            other = value
    if rival == REACTIVE:
        return own, other
    threshold, stable_threshold = rule.threshold * unit, rule.stable_threshold * unit
    best = cell.models[old]["best"]
    condition = entering(own, best, other, threshold, stable_threshold)
    scratch.whole[CONDITION] = condition
    if condition != 0:
        make_model(cell, new, counts["step"], lo, training, kernels)
        counts["rival"] = REACTIVE
        counts["reacted"] = 1
        counts["reactive_step"] = 0
        cell.bounds[0] = lo
        _clear_contest(cell)
        add_record(cell, new, REACTIVE, scratch)
        right, margin = (best, threshold) if condition == 1 else (other, stable_threshold)
        usual = rule.significance > 0.0 and condition == 1
        over = usual_batches(counts["step"] - cell.models[old]["born"]) if usual else 1
        add_transition(scratch, ENTERED, over, own, right, margin, (cell.models[old]["id"], cell.models[new]["id"]), -1)
    return own, math.nan


@uncounted
def _swap_weights(cell: Any, hi: Any, rule: Any) -> None:
    """Exchange the weights of the rows that a faded model learns from with those in the gradient table of side 1."""
    counts, other = cell.counts[0], cell.tables[1]
    for place in range(max(counts["first"], hi - rule.span) - counts["base"], hi - counts["base"]):
        weight = cell.weight[place]
        cell.weight[place] = other[place]
        other[place] = weight


@uncounted
def _forget_old(cell: Any, side: Any, hi: Any, rule: Any, training: Any, kernels: Any) -> None:
    """Let a model learn from the last rows only; a first batch may be longer than that."""
    counts, model = cell.counts[0], cell.models[side]
    if model["lo"] < 0:
        start = max(model["first_row"], counts["first"], hi - rule.span)
        model["lo"] = start
        model["admitted"] = start
        model["hi"] = start
    else:
        forget_rows(cell, side, hi - rule.span, training, kernels)


@uncounted
def _train(cell: Any, hi: Any, steps: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Update w together with its rival, within the budget; return whether training has not diverged."""
    if rule.faded:
        _swap_weights(cell, hi, rule)
    if rule.span != UNLIMITED:
        _forget_old(cell, cell.counts[0]["predictive"], hi, rule, training, kernels)
    finite = _update(cell, hi, steps, rule, training, scratch, kernels)
    if rule.faded:
        _swap_weights(cell, hi, rule)
    return finite


@uncounted
def _update(cell: Any, hi: Any, steps: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Update w together with its rival, from the rows that they have; return whether training has not diverged."""
    counts = cell.counts[0]
    old = counts["predictive"]
    models = 1 if counts["rival"] == NO_RIVAL else 2
    share = steps // 2 if rule.divided and models == 2 else steps
    own = steps - share if rule.divided and models == 2 else steps
    for i in range(models):
        spent = own if i == 0 else share
        begin_update(cell, old if i == 0 else 1 - old, hi, spent, training, scratch, kernels)
        # The rival that learns is the last one that was recorded.
        number = 0 if i == 0 else scratch.whole[RECORDS] - 1
        scratch.whole[RECORD + number * RECORD_SIZE + 4] = spent
    if training.paired and models == 2 and own == share:
        run_both(cell, 0, 1, own, training, scratch, kernels)
    else:
        for i in range(models):
            run_update(cell, old if i == 0 else 1 - old, own if i == 0 else share, training, scratch, kernels)
    finite = True
    for i in range(models):
        finite = finite and end_update(cell, old if i == 0 else 1 - old, training, scratch, kernels)
    return finite


@uncounted
def _trial_risks(cell: Any, first: Any, which: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Return the risks of w and w' over the batches of T from number ``first`` on, and record them."""
    counts = cell.counts[0]
    old_risk = math.nan
    new_risk = math.nan
    for i in range(2):
        side = counts["predictive"] if i == 0 else 1 - counts["predictive"]
        value = risk_of_trial(cell, side, first, counts["reactive_step"], training, scratch, kernels)
        add_risk(scratch, 0 if i == 0 else scratch.whole[RECORDS] - 1, which, value)
        if i == 0:
            old_risk = value
        else:
            new_risk = value
    return old_risk, new_risk


@uncounted
def _add_to_contest(
    cell: Any, hi: Any, old_risk: Any, new_risk: Any, margin: Any, noisy: Any, scratch: Any, kernels: Any
) -> Any:
    """Add the risks on the new batch before learning it to those over T, for the prequential judge.

    Returns the risks of w and w' over T, and with ``noisy`` the standard error of the lead of w', which is recorded.
    """
    c, counts = cell.judged, cell.counts[0]
    weight = cell.weight[counts["next"] - counts["base"] : hi - counts["base"]]
    mass = pairwise_sum_at(kernels.pairwise_sum, cell.X)(weight, scratch.real[STACK:])
    contest = contest_after((c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]), old_risk, new_risk, mass, margin)
    c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8] = contest
    old_mean, new_mean = contest_risks(contest[0], contest[1], contest[2])
    error = lead_error(contest) if noisy else 0.0
    scratch.real[LEAD_ERROR] = error
    return old_mean, new_mean, error


@uncounted
def _compare(
    cell: Any, hi: Any, own: Any, other: Any, margin: Any, rule: Any, training: Any, scratch: Any, kernels: Any
) -> None:
    """In a reactive state, choose the model that predicts the next batch; at its end, the model that stays.

    ``own`` and ``other`` are the risks of w and w' on the new batch before learning it.
    """
    counts, judged = cell.counts[0], cell.judged
    old = counts["predictive"]
    new = 1 - old
    counts["reactive_step"] += 1
    step = counts["reactive_step"]
    scratch.whole[REACTIVE_STEP] = step
    ids = cell.models[old]["id"], cell.models[new]["id"]
    old_risk, new_risk = own, other
    absent = -1
    if counts_classes(rule.class_share, own):
        absent = missed_class_at(kernels.missed_class, cell.X)(cell, hi, step, rule, training, scratch, kernels)
    scratch.whole[ABSENT] = absent
    noisy, ends, noise = rule.significance > 0.0 and step > 1, step == rule.reactive_length, 0.0
    if rule.prequential:
        old_mean, new_mean, error = _add_to_contest(cell, hi, own, other, margin, noisy, scratch, kernels)
        if noisy:
            noise = rule.significance * error
        if noisy or ends:
            old_risk, new_risk = old_mean, new_mean
            add_risk(scratch, 0, 2, old_risk)
            add_risk(scratch, scratch.whole[RECORDS] - 1, 2, new_risk)
    cell.bounds[step] = hi
    for i in range(0 if rule.prequential else 2 if ends else 1):
        # After learning the batch, and at the end over all of T.
        old_risk, new_risk = _trial_risks(cell, step - 1 if i == 0 else 0, i + 1, training, scratch, kernels)
    over = step - 1 if rule.prequential else step
    if not ends:
        lead = needed_lead(rule.lead, old_risk) + noise
        chosen = challenger_predicts(old_risk - lead, new_risk, rule.greedy) and absent < 0
        challenged = chosen and judged[CREDIT] >= 0.0
        if challenged != (counts["challenged"] != 0):
            left, right = (ids[0], ids[1]) if challenged else (ids[1], ids[0])
            add_transition(scratch, GREEDY, over if noisy else 1, new_risk, old_risk, 0.0 - lead, (left, right), -1)
        counts["challenged"] = 1 if challenged else 0
        counts["chosen"] = 1 if chosen else 0
        return
    switched = switching(old_risk - noise, new_risk)
    # One batch with large errors may have outweighed the others.
    if switched and rule.lead != 0.0 and not switching(own, other):
        old_risk, new_risk, over, switched, noise = own, other, 1, False, 0.0
    lacking = absent if switched else -1
    switched = switched and absent < 0
    add_transition(scratch, SWITCHED if switched else KEPT, over, new_risk, old_risk, 0.0 - noise, ids, lacking)
    if switched:
        counts["predictive"] = new
    counts["challenged"] = 0
    counts["chosen"] = 0
    counts["reactive_step"] = 0
    counts["rival"] = STABLE
    judged[CREDIT] = closed_credit(judged[CREDIT], judged[CREDIT_GAIN])
    judged[CREDIT_GAIN] = 0.0
    _clear_contest(cell)
    make_model(cell, 1 - counts["predictive"], counts["step"] + 1, hi, training, kernels)


@uncounted
def _bound(cell: Any, hi: Any, rule: Any, training: Any, kernels: Any) -> None:
    """Drop the rows beyond ``max_rows`` from the sample sets, and work out which row is the oldest one needed."""
    counts = cell.counts[0]
    rivals = 1 if counts["rival"] == NO_RIVAL else 2
    floor = hi - rule.max_rows
    first = hi
    if counts["rival"] == REACTIVE and not rule.prequential:
        first = cell.bounds[0]
    for i in range(rivals):
        side = counts["predictive"] if i == 0 else 1 - counts["predictive"]
        if hi - counts["first"] > rule.max_rows:
            forget_rows(cell, side, floor, training, kernels)
        model = cell.models[side]
        first = min(first, max(model["first_row"], floor) if model["lo"] < 0 else model["lo"])
    counts["first"] = max(first, counts["first"])


@uncounted
def _load_ahead(cell: Any, part: Any) -> None:
    """Load one of four parts of the memory ahead into the cache.

    In parts, because a processor has few slots for requests to memory, and stalls once they are taken.
    """
    share = cell.ahead.shape[0] // 4
    for place in range(part * share, (part + 1) * share, LINE):
        prefetch(cell.ahead, place)


@uncounted
def _score_new(cell: Any, side: Any, a: Any, b: Any, training: Any, scratch: Any, kernels: Any) -> None:
    """Score the new rows, which are at the places a to b, by the model that predicts them."""
    rows, _, _ = parts_between(cell, a, b)
    score(cell, side, rows, scratch.scores[: (b - a) * training.outputs], training, kernels)


@uncounted
def _has_new_class(y: Any, outputs: Any) -> Any:
    """Return whether a code is that of a class for which a model has no output; a single output is for two classes."""
    largest = 0.0
    for i in range(y.shape[0]):
        largest = max(largest, y[i])
    return largest > max(outputs, 2) - 1.0


def learn_arguments(f: Any) -> tuple[Any, ...]:
    """Return the numba types of the arguments of ``learn``, given that of row values, which is a ``Sparse`` for CSR."""
    return cell_type(f), I8, I8, FLAG, RULE, TRAINING, SCRATCH, kernels_type()


def _learn(cell: Any, count: Any, steps: Any, tested: Any, rule: Any, training: Any, scratch: Any, kernels: Any) -> Any:
    """Learn ``count`` new rows, which are in their places already, as one time step of ``steps`` gradient steps.

    With ``tested``, ``scratch.scores`` has their scores by the model that predicts now; otherwise they are computed.
    Returns LEARNED; UNSUITED if only the generic step can go on, such as with a new class; or DIVERGED if training
    diverged, with the size of the weights and the step size in ``scratch.real``. The caller then restores the cell.
    """
    cell, scratch = borrowed((cell, scratch), kernels)
    counts, whole = cell.counts[0], scratch.whole
    lo = counts["next"]
    hi = lo + count
    old = counts["predictive"]
    predictor = 1 - old if counts["challenged"] != 0 else old
    whole[CONDITION] = 0
    whole[REACTIVE_STEP] = 0
    whole[ABSENT] = -1
    whole[RECORDS] = 0
    whole[TRANSITIONS] = 0
    whole[PREDICTED_BY] = cell.models[predictor]["id"]
    whole[TRAINED_FROM] = cell.models[predictor]["first_row"]
    a, b = lo - counts["base"], hi - counts["base"]
    if not training.regression and _has_new_class(cell.y[a:b], training.outputs):
        return UNSUITED
    if not tested:
        _score_new(cell, predictor, a, b, training, scratch, kernels)
    unit = _unit(cell, rule, scratch)
    scratch.real[UNIT] = unit
    _load_ahead(cell, 0)
    own, other = _watch(cell, hi, unit, rule, training, scratch, kernels)
    _load_ahead(cell, 1)
    if rule.relative and not _measure_unit(cell, hi, training, scratch, kernels):
        return UNSUITED
    if not _train(cell, hi, steps, rule, training, scratch, kernels):
        return DIVERGED
    _load_ahead(cell, 2)
    if counts["rival"] == REACTIVE:
        margin = REGRESSION_MARGIN * (rule.threshold * unit)
        _compare(cell, hi, own, other, margin, rule, training, scratch, kernels)
    _load_ahead(cell, 3)
    _bound(cell, hi, rule, training, kernels)
    counts["step"] += 1
    counts["next"] = hi
    predictor = 1 - counts["predictive"] if counts["challenged"] != 0 else counts["predictive"]
    whole[PREDICTS_NEXT] = cell.models[predictor]["id"]
    return LEARNED


# Two kernels, so that neither is compiled before rows of its kind are learned.
learn: Any = kernel(learn_arguments, exact=True)(renamed(_learn, "learn"))
learn_sparse: Any = kernel(lambda f: learn_arguments(Sparse(f)), exact=True)(renamed(_learn, "learn_sparse"))
