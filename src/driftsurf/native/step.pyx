"""One time step of a cell: watch, train, compare, as in ``driftsurf.strategies.driftsurf``.

The rule is that of ``rule.pyx``, which decides for any learner. This file holds the order in which things happen.
"""

from libc.math cimport NAN
from libc.stdint cimport int64_t

from driftsurf.native.layout cimport (
    ABSENT,
    COMPARED,
    COMPARISON,
    CONDITION,
    CONTEST,
    CREDIT,
    CREDIT_GAIN,
    DIVERGED,
    ENTERED,
    GREEDY,
    KEPT,
    LEAD_ERROR,
    LEARNED,
    NO_RIVAL,
    ORDERED,
    PREDICTED_BY,
    PREDICTS_NEXT,
    REACTIVE,
    REACTIVE_STEP,
    RECORD,
    RECORD_SIZE,
    RECORDS,
    RISKS,
    STABLE,
    SWITCHED,
    TRAINED_FROM,
    TRANSITION,
    TRANSITION_SIZE,
    TRANSITIONS,
    UNIT,
    UNIT_CENTRE,
    UNITS,
    UNLIMITED,
    UNSUITED,
    WINDOW,
    CellArrays,
    Counts,
    ModelCounts,
    Rule,
    Scratch,
    Training,
)
from driftsurf.native.model cimport (
    begin_update,
    end_update,
    forget_rows,
    make_model,
    missed_class,
    risk,
    risk_of_trial,
    rows_between,
    run_both,
    run_update,
    score,
    trivial_risk,
)
from driftsurf.native.rule cimport (
    CONTEST_NEW,
    CONTEST_OLD,
    CONTEST_WEIGHT,
    add_to_contest,
    challenger_predicts,
    clear_contest,
    closed_credit,
    counts_classes,
    entering,
    error_of_lead,
    needed_lead,
    reference_risk,
    switching,
    usual_batches,
)


cdef extern from "losses.h" nogil:
    double ds_pairwise_sum(const double* values, int64_t n)

cdef double LN2 = 0.6931471805599453
cdef double REGRESSION_MARGIN = 0.2


# ---------------------------------------------------------------------------- the outcome of a step

cdef inline int64_t add_record(CellArrays* cell, int64_t side, int64_t role, Scratch* scratch) noexcept nogil:
    """Add a record of this model to the outcome; return its number."""
    cdef const ModelCounts* model = &cell.models[side]
    cdef int64_t number = scratch.whole[RECORDS]
    cdef int64_t* record = scratch.whole + RECORD + number * RECORD_SIZE
    record[0] = role
    record[1] = model.id
    record[2] = model.born
    record[3] = model.first_row
    record[4] = 0
    record[5] = 0
    scratch.whole[RECORDS] = number + 1
    scratch.real[number * RISKS + 3] = model.best
    return number


cdef inline void add_risk(Scratch* scratch, int64_t number, int64_t which, double value) noexcept nogil:
    """Add a risk to the record of a model: 0 before learning, 1 after learning, 2 over T."""
    scratch.real[number * RISKS + which] = value
    scratch.whole[RECORD + number * RECORD_SIZE + 5] |= 1 << which


cdef inline void add_transition(Scratch* scratch, int64_t kind, int64_t over, double left, double right, double margin,
                                int64_t old, int64_t new, int64_t absent) noexcept nogil:
    """Add a transition from one model to another to the outcome."""
    cdef int64_t number = scratch.whole[TRANSITIONS]
    cdef int64_t* whole = scratch.whole + TRANSITION + number * TRANSITION_SIZE
    cdef double* real = scratch.real + COMPARISON + number * COMPARED
    whole[0] = kind
    whole[1] = over
    whole[2] = old
    whole[3] = new
    whole[4] = absent
    real[0] = left
    real[1] = right
    real[2] = margin
    scratch.whole[TRANSITIONS] = number + 1


# ---------------------------------------------------------------------------- the unit of the thresholds

cdef double unit_of(const CellArrays* cell, const Rule* rule, Scratch* scratch) noexcept nogil:
    """Return the unit of the thresholds, as in ``RiskUnit.value``."""
    cdef int64_t count = cell.counts.units, i, place, middle
    cdef double* ordered = scratch.real + ORDERED
    cdef double value
    if not rule.relative or count == 0:
        return 1.0
    for i in range(count):
        place = i
        value = cell.judged[UNITS + i]
        while place > 0 and ordered[place - 1] > value:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = value
    middle = count // 2
    return (ordered[middle] if count % 2 == 1 else (ordered[middle - 1] + ordered[middle]) / 2) / LN2


cdef bint measure_unit(CellArrays* cell, int64_t hi, const Training* training, Scratch* scratch) noexcept nogil:
    """Add the batch to the unit of the thresholds; return whether its risk is a number that can be ordered."""
    cdef Counts* counts = cell.counts
    cdef double* units = cell.judged + UNITS
    cdef double mean = 0.0, mass = 0.0
    cdef double trivial = trivial_risk(
        cell, counts.next, hi, cell.judged[UNIT_CENTRE], training, scratch, &mean, &mass
    )
    cdef int64_t i
    if trivial != trivial:
        return mass == 0.0  # a batch without weight changes nothing
    if counts.units == WINDOW:
        for i in range(WINDOW - 1):
            units[i] = units[i + 1]
        counts.units -= 1
    units[counts.units] = trivial
    counts.units += 1
    cell.judged[UNIT_CENTRE] = mean
    return True


# ---------------------------------------------------------------------------- the parts of a step

cdef void watch(CellArrays* cell, int64_t hi, double unit, const Rule* rule, const Training* training,
                Scratch* scratch, double* own, double* other) noexcept nogil:
    """Measure the risks on the new batch before it is learned, and enter the reactive state on a sign of drift.

    Writes the risks of w and of w'; that of a model that is not there is NaN.
    """
    cdef Counts* counts = cell.counts
    cdef int64_t lo = counts.next, old = counts.predictive, rival = counts.rival, new = 1 - old, side, i, over
    cdef int condition
    cdef bint known, noisy = rule.significance > 0.0
    cdef double value, best, threshold = rule.threshold * unit, stable_threshold = rule.stable_threshold * unit
    cdef ModelCounts* model
    own[0] = other[0] = NAN
    for i in range(1 if rival == NO_RIVAL else 2):
        side = old if i == 0 else new
        model = &cell.models[side]
        known = (counts.challenged != 0) == (i == 1)
        value = risk(cell, side, lo, hi, known, training, scratch)
        model.best = reference_risk(model.best, value, counts.step - model.born, noisy)
        add_risk(scratch, add_record(cell, side, NO_RIVAL if i == 0 else rival, scratch), 0, value)
        if i == 0:
            own[0] = value
        else:
            other[0] = value
    if rival == REACTIVE:
        return
    best = cell.models[old].best
    condition = entering(own[0], best, other[0], threshold, stable_threshold)
    scratch.whole[CONDITION] = condition
    if condition != 0:
        make_model(cell, new, counts.step, lo, training)
        counts.rival = REACTIVE
        counts.reacted = 1
        counts.reactive_step = 0
        cell.bounds[0] = lo
        clear_contest(cell.judged + CONTEST)
        add_record(cell, new, REACTIVE, scratch)
        over = usual_batches(counts.step - cell.models[old].born) if noisy and condition == 1 else 1
        add_transition(
            scratch, ENTERED, over, own[0], best if condition == 1 else other[0],
            threshold if condition == 1 else stable_threshold, cell.models[old].id, cell.models[new].id, -1
        )
    other[0] = NAN


cdef void swap_weights(CellArrays* cell, int64_t hi, const Rule* rule) noexcept nogil:
    """Exchange the weights of the rows that a faded model learns from with those in the gradient table of side 1."""
    cdef Counts* counts = cell.counts
    cdef double* faded = cell.tables + cell.X.n * cell.outputs
    cdef int64_t place
    cdef double weight
    for place in range(max(counts.first, hi - rule.span) - counts.base, hi - counts.base):
        weight = cell.weight[place]
        cell.weight[place] = faded[place]
        faded[place] = weight


cdef void forget_old(CellArrays* cell, int64_t side, int64_t hi, const Rule* rule, const Training* training) noexcept nogil:
    """Let a model learn from the last rows only; a first batch may be longer than that."""
    cdef ModelCounts* model = &cell.models[side]
    if model.lo < 0:
        model.lo = model.admitted = model.hi = max(model.first_row, cell.counts.first, hi - rule.span)
    else:
        forget_rows(cell, side, hi - rule.span, training)


cdef bint train(CellArrays* cell, int64_t hi, int64_t steps, const Rule* rule, const Training* training,
                Scratch* scratch) noexcept nogil:
    """Update w together with its rival, within the budget; return whether training has not diverged."""
    cdef Counts* counts = cell.counts
    cdef int64_t old = counts.predictive, models = 1 if counts.rival == NO_RIVAL else 2, i, number
    cdef int64_t[2] spent, sides
    cdef bint finite = True
    spent[0] = spent[1] = steps
    if rule.divided and models == 2:
        spent[1] = steps // 2
        spent[0] = steps - spent[1]
    sides[0], sides[1] = old, 1 - old
    if rule.faded:
        swap_weights(cell, hi, rule)
    if rule.span != UNLIMITED:
        forget_old(cell, old, hi, rule, training)
    for i in range(models):
        begin_update(cell, sides[i], hi, spent[i], training, scratch)
        # The rival that learns is the last one that was recorded.
        number = 0 if i == 0 else scratch.whole[RECORDS] - 1
        scratch.whole[RECORD + number * RECORD_SIZE + 4] = spent[i]
    if training.paired and models == 2 and spent[0] == spent[1]:
        run_both(cell, steps if not rule.divided else spent[0], training, scratch)
    else:
        for i in range(models):
            run_update(cell, sides[i], spent[i], training, scratch)
    for i in range(models):
        finite = finite and end_update(cell, sides[i], training, scratch)
    if rule.faded:
        swap_weights(cell, hi, rule)
    return finite


cdef void trial_risks(CellArrays* cell, int64_t first, int64_t which, const Training* training, Scratch* scratch,
                      double* old_risk, double* new_risk) noexcept nogil:
    """Write the risks of w and w' over the batches of T from number ``first`` on, and record them."""
    cdef Counts* counts = cell.counts
    old_risk[0] = risk_of_trial(cell, counts.predictive, first, counts.reactive_step, training, scratch)
    add_risk(scratch, 0, which, old_risk[0])
    new_risk[0] = risk_of_trial(cell, 1 - counts.predictive, first, counts.reactive_step, training, scratch)
    add_risk(scratch, scratch.whole[RECORDS] - 1, which, new_risk[0])


cdef void compare(CellArrays* cell, int64_t hi, double own, double other, double margin, const Rule* rule,
                  const Training* training, Scratch* scratch) noexcept nogil:
    """In a reactive state, choose the model that predicts the next batch; at its end, the model that stays.

    ``own`` and ``other`` are the risks of w and w' on the new batch before learning it.
    """
    cdef Counts* counts = cell.counts
    cdef double* contest = cell.judged + CONTEST
    cdef double* credit = cell.judged + CREDIT
    cdef int64_t old = counts.predictive, new = 1 - old, a = counts.next - counts.base, step, over, absent = -1
    cdef int64_t old_id = cell.models[old].id, new_id = cell.models[new].id
    cdef double old_risk = own, new_risk = other, noise = 0.0, lead, mass
    cdef bint noisy, ends, chosen, challenged, switched
    counts.reactive_step += 1
    step = counts.reactive_step
    scratch.whole[REACTIVE_STEP] = step
    if counts_classes(rule.class_share, own):
        absent = missed_class(cell, hi, step, rule, training, scratch)
    scratch.whole[ABSENT] = absent
    noisy = rule.significance > 0.0 and step > 1
    ends = step == rule.reactive_length
    if rule.prequential:
        add_to_contest(contest, own, other, ds_pairwise_sum(cell.weight + a, hi - counts.next), margin)
        mass = contest[CONTEST_WEIGHT]
        scratch.real[LEAD_ERROR] = error_of_lead(contest) if noisy else 0.0
        if noisy:
            noise = rule.significance * scratch.real[LEAD_ERROR]
        if noisy or ends:
            old_risk = contest[CONTEST_OLD] / mass if mass > 0.0 else NAN
            new_risk = contest[CONTEST_NEW] / mass if mass > 0.0 else NAN
            add_risk(scratch, 0, 2, old_risk)
            add_risk(scratch, scratch.whole[RECORDS] - 1, 2, new_risk)
    cell.bounds[step] = hi
    if not rule.prequential:  # after learning the batch, and at the end over all of T
        trial_risks(cell, step - 1, 1, training, scratch, &old_risk, &new_risk)
        if ends:
            trial_risks(cell, 0, 2, training, scratch, &old_risk, &new_risk)
    over = step - 1 if rule.prequential else step
    if not ends:
        lead = needed_lead(rule.lead, old_risk) + noise
        chosen = challenger_predicts(old_risk - lead, new_risk, rule.greedy) and absent < 0
        challenged = chosen and credit[0] >= 0.0
        if challenged != (counts.challenged != 0):
            add_transition(
                scratch, GREEDY, over if noisy else 1, new_risk, old_risk, 0.0 - lead,
                old_id if challenged else new_id, new_id if challenged else old_id, -1
            )
        counts.challenged = challenged
        counts.chosen = chosen
        return
    switched = switching(old_risk - noise, new_risk)
    # One batch with large errors may have outweighed the others.
    if switched and rule.lead != 0.0 and not switching(own, other):
        old_risk, new_risk, over, switched, noise = own, other, 1, False, 0.0
    if switched and absent >= 0:
        switched = False
    else:
        absent = -1
    add_transition(scratch, SWITCHED if switched else KEPT, over, new_risk, old_risk, 0.0 - noise, old_id, new_id, absent)
    if switched:
        counts.predictive = new
    counts.challenged = 0
    counts.chosen = 0
    counts.reactive_step = 0
    counts.rival = STABLE
    credit[0] = closed_credit(credit[0], cell.judged[CREDIT_GAIN])
    cell.judged[CREDIT_GAIN] = 0.0
    clear_contest(contest)
    make_model(cell, 1 - counts.predictive, counts.step + 1, hi, training)


cdef void bound(CellArrays* cell, int64_t hi, const Rule* rule, const Training* training) noexcept nogil:
    """Drop the rows beyond ``max_rows`` from the sample sets, and work out which row is the oldest one needed."""
    cdef Counts* counts = cell.counts
    cdef int64_t floor = hi - rule.max_rows, first = hi, needed, side, i
    cdef ModelCounts* model
    if counts.rival == REACTIVE and not rule.prequential:
        first = cell.bounds[0]
    for i in range(1 if counts.rival == NO_RIVAL else 2):
        side = counts.predictive if i == 0 else 1 - counts.predictive
        model = &cell.models[side]
        if hi - counts.first > rule.max_rows:
            forget_rows(cell, side, floor, training)
        needed = max(model.first_row, floor) if model.lo < 0 else model.lo
        if needed < first:
            first = needed
    if first > counts.first:
        counts.first = first


cdef void load_ahead(const CellArrays* cell, int64_t part) noexcept nogil:
    """Load one of four parts of the memory ahead into the cache.

    In parts, because a processor has few slots for requests to memory, and stalls once they are taken.
    """
    cdef int64_t share = cell.ahead_size // 4, place
    for place in range(part * share, (part + 1) * share, 64):
        __builtin_prefetch(cell.ahead + place)


cdef extern from *:
    void __builtin_prefetch(const void* address) nogil


cdef int64_t learn(CellArrays* cell, int64_t count, int64_t steps, bint tested, const Rule* rule,
                   const Training* training, Scratch* scratch) noexcept nogil:
    """Learn ``count`` new rows, which are in their places already, as one time step of ``steps`` gradient steps.

    With ``tested``, ``scratch.scores`` has their scores by the model that predicts now; otherwise they are computed.
    Returns LEARNED; UNSUITED if the cell has no room for a class of the batch, or its targets cannot be ordered; or
    DIVERGED if training diverged, with the size of the weights and the step size in ``scratch.real``. Unless it is
    LEARNED, the caller restores the cell.
    """
    cdef Counts* counts = cell.counts
    cdef int64_t* whole = scratch.whole
    cdef int64_t lo = counts.next, hi = lo + count, a = lo - counts.base, i
    cdef int64_t predictor = 1 - counts.predictive if counts.challenged != 0 else counts.predictive
    cdef double largest = 0.0, unit, own, other
    whole[CONDITION] = whole[REACTIVE_STEP] = whole[RECORDS] = whole[TRANSITIONS] = 0
    whole[ABSENT] = -1
    whole[PREDICTED_BY] = cell.models[predictor].id
    whole[TRAINED_FROM] = cell.models[predictor].first_row
    scratch.real[LEAD_ERROR] = 0.0
    if not training.regression:  # a single output is for two classes
        for i in range(count):
            if not cell.y[a + i] >= 0.0:
                return UNSUITED
            largest = cell.y[a + i] if cell.y[a + i] > largest else largest
        if largest > (cell.outputs if cell.outputs > 2 else 2) - 1.0:
            return UNSUITED
    if not tested:
        score(cell, predictor, rows_between(cell, a, a + count), scratch.scores, training)
    unit = unit_of(cell, rule, scratch)
    scratch.real[UNIT] = unit
    load_ahead(cell, 0)
    watch(cell, hi, unit, rule, training, scratch, &own, &other)
    load_ahead(cell, 1)
    if rule.relative and not measure_unit(cell, hi, training, scratch):
        return UNSUITED
    if not train(cell, hi, steps, rule, training, scratch):
        return DIVERGED
    load_ahead(cell, 2)
    if counts.rival == REACTIVE:
        compare(cell, hi, own, other, REGRESSION_MARGIN * (rule.threshold * unit), rule, training, scratch)
    load_ahead(cell, 3)
    bound(cell, hi, rule, training)
    counts.step += 1
    counts.next = hi
    predictor = 1 - counts.predictive if counts.challenged != 0 else counts.predictive
    whole[PREDICTS_NEXT] = cell.models[predictor].id
    return LEARNED
