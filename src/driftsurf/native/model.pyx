"""One model of a cell: made, scored, trained, and its oldest rows forgotten.

In the arguments, ``side`` is the place of the model in its cell (``layout.pxd``), and rows are given by their numbers,
those up to ``hi`` being stored.
"""

from libc.math cimport INFINITY, NAN, fabs
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from driftsurf.native.layout cimport LOGISTIC, CellArrays, Counts, Frame, Labelled, Model, ModelCounts, Rows, Rule, Scratch, Training
from driftsurf.native.layout cimport EVIDENCE, RANGES, STEPS
from driftsurf.native.rule cimport is_missed, remembered_rows


cdef extern from "random.h" nogil:
    uint64_t ds_word(uint64_t seed, int64_t k)

cdef extern from "draws.h" nogil:
    int64_t ds_fill_uniform(double* out, int64_t n, uint64_t seed, int64_t k)
    int64_t ds_schedule(int64_t* order, int64_t steps, double* table, double* old, int64_t width, int64_t admitted,
                        int64_t waiting, uint64_t seed, int64_t k, int alternating)

cdef extern from "scores.h" nogil:
    void ds_margins(Rows rows, const double* w, double* out)
    void ds_outputs(Rows rows, const double* W, int64_t K, double* out, const double* limits)
    void ds_log_softmax(double* z, int64_t n, int64_t K)

cdef extern from "losses.h" nogil:
    void ds_logistic_losses(const double* margins, const double* y, int64_t n, double* out)
    void ds_output_losses(const double* scores, const double* y, int64_t n, int64_t kind, double epsilon, double* out)
    double ds_squared_length(const double* weights, const double* factor, int64_t n)
    int64_t ds_evidence_terms(const double* predicted, const double* y, const double* weight, double mean, int64_t n, double* out)
    double ds_pairwise_sum(const double* values, int64_t n)
    double ds_largest(double size, const double* values, int64_t n)
    double ds_weighted_sum(const double* values, const double* weight, int64_t n, double* mass)

cdef extern from "frames.h" nogil:
    ctypedef struct FrameRules:
        double cap
        double far
        double farthest
        double enough
    double ds_median_target(const double* y, const double* weight, int64_t n, double* values)
    void ds_frame(Rows rows, const double* weight, int centred, FrameRules rules, int64_t most_passes, double* centre,
                  double* sizes, double* work, double* values)
    void ds_reframe(double* W, double* G, int64_t d, int64_t K, double* factor, double* centre,
                    const double* new_centre, const double* sizes, double smallest)
    double ds_usual_norm(Rows rows, const double* weight, const double* factor, const double* centre, double quantile,
                         double* values)
    void ds_uncentre(const double* W, int64_t d, int64_t K, const double* centre, double target, double* out)

cdef extern from "columns.h" nogil:
    int64_t ds_extend_range(Rows rows, const double* weight, double* low, double* high)

cdef extern from "multi.h" nogil:
    enum:
        DS_SOFTMAX
        DS_HUBER
    ctypedef struct Descent:
        Labelled set
        const int64_t* order
        Model model
        int64_t drawn
        double eta
        Frame frame
        const double* offset
    ctypedef struct Loss:
        int64_t kind
        double epsilon
        double shift
        double reach
    int64_t ds_saga(const Descent* model, int64_t steps, double mu)
    void ds_saga_both(Descent* one, Descent* two, int64_t steps, double mu)
    int64_t ds_discharge(Rows rows, const double* table, double* G, Frame frame)
    int64_t ds_multi_saga(const Descent* model, int64_t steps, double mu, int64_t K, Loss loss, double* work)
    void ds_multi_saga_both(Descent* one, Descent* two, int64_t steps, double mu, int64_t K, const Loss* losses, double* work)
    int64_t ds_multi_discharge(Rows rows, const double* table, double* G, int64_t K, Frame frame)


cdef:
    # The constants of learners/_linear.py and of driftsurf.learners.
    FrameRules FRAME_RULES = FrameRules(3.0, 1.0, 10.0, 200.0)
    int64_t MOST_PASSES = 200
    double SMALLEST_SIZE = 1e-30
    double LARGEST = 1e100
    double RANGE_MARGIN = 0.1
    double EVIDENCE_ROWS = 10_000.0
    double STEP_QUANTILE = 0.9
    double AUTO_STEP = 0.1
    int64_t GROWN_ROWS = 1_000
    int64_t NEVER = 2**61


# ---------------------------------------------------------------------------- views

cdef Rows rows_between(const CellArrays* cell, int64_t a, int64_t b) noexcept nogil:
    """Return the rows at the places a to b."""
    cdef Rows rows = cell.X
    rows.n = b - a
    if rows.indptr != NULL:
        rows.indptr += a
    elif rows.is_single:
        rows.values = <const float*>rows.values + a * rows.d
    else:
        rows.values = <const double*>rows.values + a * rows.d
    return rows


cdef inline int64_t width_of(const CellArrays* cell) noexcept nogil:
    return cell.X.d + 1


cdef inline double* weights_of(const CellArrays* cell, double* lines, int64_t side) noexcept nogil:
    """Return the weights of a model in ``w``, ``G`` or ``raw``."""
    return lines + side * (cell.X.d + 1) * cell.outputs


cdef inline double* columns_of(const CellArrays* cell, double* lines, int64_t side) noexcept nogil:
    """Return the numbers of a model in ``factor``, ``gain`` or ``centre``."""
    return lines + side * (cell.X.d + 1)


cdef inline double* table_of(const CellArrays* cell, int64_t side, int64_t place) noexcept nogil:
    """Return the gradient table of a model, from a place on."""
    return cell.tables + (side * cell.X.n + place) * cell.outputs


cdef inline double* evidence_of(const CellArrays* cell, int64_t side) noexcept nogil:
    return cell.judged + EVIDENCE + 4 * side


cdef inline double* ranges_of(const CellArrays* cell, int64_t side) noexcept nogil:
    """Return the lowest values of the columns that a regression has learned, the highest ones, and two limits."""
    return cell.judged + RANGES + 4 * (cell.sides - 2) + 4 * side * cell.X.d


cdef inline Frame frame_of(const CellArrays* cell, int64_t side) noexcept nogil:
    """Return the coordinates in which a model learns."""
    cdef Frame frame
    frame.gain = columns_of(cell, cell.gain, side)
    frame.centre = columns_of(cell, cell.centre, side)
    frame.centred = cell.centred + side * (cell.X.d + 1)
    frame.n_centred = cell.models[side].centred
    return frame


cdef Descent descent_of(const CellArrays* cell, int64_t side, const Scratch* scratch) noexcept nogil:
    """Return what the gradient steps of a model work on."""
    cdef const ModelCounts* model = &cell.models[side]
    cdef int64_t a = model.lo - cell.counts.base
    cdef Descent descent
    descent.set.rows = rows_between(cell, a, model.hi - cell.counts.base)
    descent.set.y = cell.y + a
    descent.set.weight = cell.weight + a
    descent.order = scratch.orders + side * scratch.most_steps
    descent.model.w = weights_of(cell, cell.w, side)
    descent.model.G = weights_of(cell, cell.G, side)
    descent.model.table = table_of(cell, side, a)
    descent.drawn = model.drawn
    descent.eta = model.step_size
    descent.frame = frame_of(cell, side)
    descent.offset = NULL
    return descent


cdef void turn(const double* matrix, int64_t lines, int64_t columns, double* out) noexcept nogil:
    """Write the transpose of a matrix; both are stored line by line."""
    cdef int64_t i, j
    for i in range(lines):
        for j in range(columns):
            out[j * lines + i] = matrix[i * columns + j]


cdef inline void write_raw(const CellArrays* cell, const double* full, double* raw) noexcept nogil:
    """Write weights (columns + 1, K) in the order by which rows are scored: output by output for dense rows."""
    cdef bint sparse = cell.X.indptr != NULL
    if sparse:
        turn(full, width_of(cell) * cell.outputs, 1, raw)
    else:
        turn(full, width_of(cell), cell.outputs, raw)


# ---------------------------------------------------------------------------- making and scoring

cdef void make_model(CellArrays* cell, int64_t side, int64_t step, int64_t first_row, const Training* training) noexcept nogil:
    """Put a new model on this side, with the next number."""
    cdef Counts* counts = cell.counts
    cdef ModelCounts* model = &cell.models[side]
    cdef int64_t width = width_of(cell), K = cell.outputs, c
    cdef double* low
    cdef double* w = weights_of(cell, cell.w, side)
    model.id = counts.made
    model.seed = ds_word(ds_word(counts.seed, model.id), 0)
    counts.made += 1
    model.born = step
    model.first_row = first_row
    model.lo = model.admitted = model.hi = -1
    model.seen = model.words = model.gradients = model.drawn = model.rescale_at = model.centred = 0
    model.best = INFINITY
    model.step_size = training.step_size
    model.target = 0.0
    memset(evidence_of(cell, side), 0, 4 * sizeof(double))
    if training.regression:
        low = ranges_of(cell, side)
        for c in range(cell.X.d):
            low[c] = INFINITY
            low[cell.X.d + c] = -INFINITY
    memset(w, 0, width * K * sizeof(double))
    memset(weights_of(cell, cell.G, side), 0, width * K * sizeof(double))
    for c in range(width):
        columns_of(cell, cell.factor, side)[c] = 1.0
        columns_of(cell, cell.gain, side)[c] = 1.0
        columns_of(cell, cell.centre, side)[c] = 0.0
    if not training.intercept:
        columns_of(cell, cell.factor, side)[width - 1] = 0.0
        columns_of(cell, cell.gain, side)[width - 1] = 0.0
    if training.uniform_start:
        model.words = ds_fill_uniform(w, (width if training.intercept else width - 1) * K, model.seed, 0)
    write_raw(cell, w, weights_of(cell, cell.raw, side))


cdef void score_with(const CellArrays* cell, int64_t side, Rows rows, const double* weights, double* out, const Training* training) noexcept nogil:
    """Write the scores of rows by these weights, within the limits of a model."""
    cdef const double* ranges
    cdef const double* limits = NULL
    if training.kind == LOGISTIC:
        ds_margins(rows, weights, out)
        return
    if training.regression:
        ranges = ranges_of(cell, side)
        if ranges[0] <= ranges[cell.X.d]:
            limits = ranges + 2 * cell.X.d
    ds_outputs(rows, weights, cell.outputs, out, limits)
    if training.kind == DS_SOFTMAX:
        ds_log_softmax(out, rows.n, cell.outputs)


cdef void score(const CellArrays* cell, int64_t side, Rows rows, double* out, const Training* training) noexcept nogil:
    """Write the scores of rows by a model: K numbers for each."""
    score_with(cell, side, rows, weights_of(cell, cell.raw, side), out, training)


# ---------------------------------------------------------------------------- risks

cdef double lost(CellArrays* cell, int64_t side, int64_t lo, int64_t hi, bint known, const Training* training, Scratch* scratch, double* mass) noexcept nogil:
    """Return the summed loss of a model over the rows from ``lo`` to ``hi``, and their weight.

    With ``known``, ``scratch.scores`` has their scores already.
    """
    cdef int64_t a = lo - cell.counts.base, n = hi - lo, K = cell.outputs, i
    cdef double* scores = scratch.scores if known else scratch.margins
    cdef double* losses = scratch.losses
    if not known:
        score(cell, side, rows_between(cell, a, a + n), scores, training)
    if training.kind == LOGISTIC:
        ds_logistic_losses(scores, cell.y + a, n, losses)
    elif training.kind == DS_SOFTMAX:
        for i in range(n):
            losses[i] = -scores[i * K + <int64_t>cell.y[a + i]]
    else:
        ds_output_losses(scores, cell.y + a, n, training.kind, training.epsilon, losses)
    return ds_weighted_sum(losses, cell.weight + a, n, mass)


cdef double penalty(const CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil:
    cdef const double* factor = columns_of(cell, cell.factor, side)
    cdef int64_t width = width_of(cell), K = cell.outputs, c, k
    if K > 1:
        for c in range(width):
            for k in range(K):
                scratch.columns[c * K + k] = factor[c]
        factor = scratch.columns
    return 0.5 * training.l2 * ds_squared_length(weights_of(cell, cell.w, side), factor, width * K)


cdef double risk(CellArrays* cell, int64_t side, int64_t lo, int64_t hi, bint known, const Training* training, Scratch* scratch) noexcept nogil:
    """Return the risk of a model on one batch; NaN without weight."""
    cdef double mass = 0.0
    cdef double total = lost(cell, side, lo, hi, known, training, scratch, &mass)
    return total / mass + penalty(cell, side, training, scratch) if mass > 0.0 else NAN


cdef double risk_of_trial(CellArrays* cell, int64_t side, int64_t first, int64_t stop, const Training* training, Scratch* scratch) noexcept nogil:
    """Return the risk of a model over the batches of T from number ``first`` on, summed batch by batch."""
    cdef double total = 0.0, mass = 0.0, share = 0.0
    cdef int64_t i
    for i in range(first, stop):
        total += lost(cell, side, cell.bounds[i], cell.bounds[i + 1], False, training, scratch, &share)
        mass += share
    return total / mass + penalty(cell, side, training, scratch) if mass > 0.0 else NAN


cdef double trivial_risk(CellArrays* cell, int64_t lo, int64_t hi, double centre, const Training* training, Scratch* scratch, double* mean, double* mass) noexcept nogil:
    """Return the risk of a model that predicts ``centre``, or the mean target of the batch if that is NaN.

    Also writes the weight of the batch and its mean target; without weight, that and the risk are NaN.
    """
    cdef int64_t a = lo - cell.counts.base, n = hi - lo, i
    cdef double total = ds_weighted_sum(cell.y + a, cell.weight + a, n, mass)
    cdef double share = 0.0
    if not mass[0] > 0.0:
        mass[0] = 0.0
        mean[0] = NAN
        return NAN
    mean[0] = total / mass[0]
    for i in range(n):
        scratch.margins[i] = mean[0] if centre != centre else centre
    ds_output_losses(scratch.margins, cell.y + a, n, training.kind, training.epsilon, scratch.losses)
    return ds_weighted_sum(scratch.losses, cell.weight + a, n, &share) / mass[0]


cdef void count_classes(const CellArrays* cell, int64_t lo, int64_t hi, double* found) noexcept nogil:
    """Add the numbers of rows of each class that have a weight, from row ``lo`` to before ``hi``."""
    cdef int64_t place, total = 0, ones = 0
    lo, hi = lo - cell.counts.base, hi - cell.counts.base
    if cell.outputs > 2:
        for place in range(lo, hi):
            if cell.weight[place] > 0.0:
                found[<int64_t>cell.y[place]] += 1.0
        return
    for place in range(lo, hi):  # without a branch that depends on a label, so that it becomes vectors
        total += cell.weight[place] > 0.0
        ones += (cell.weight[place] > 0.0) & (cell.y[place] > 0.5)
    found[0] += total - ones
    found[1] += ones


cdef int64_t missed_class(CellArrays* cell, int64_t hi, int64_t batches, const Rule* rule, const Training* training, Scratch* scratch) noexcept nogil:
    """Return the code of the largest class that w' lacks after so many batches of a reactive state; -1 for none.

    A class counts if it makes up a share of the last rows of w, those of w' included, as far as they are stored. Rows
    without weight teach nothing and are left out.
    """
    cdef Counts* counts = cell.counts
    cdef int64_t classes = cell.outputs if cell.outputs > 2 else 2
    cdef int64_t first = cell.models[1 - counts.predictive].first_row
    cdef int64_t start = hi - remembered_rows(hi - first, batches, rule.reactive_length)
    cdef int64_t code, missed = -1, total = 0
    cdef double* found = scratch.columns
    cdef double* seen = found + classes  # rows of w' alone
    start = max(start, cell.models[counts.predictive].first_row, counts.first)
    memset(found, 0, 2 * classes * sizeof(double))
    count_classes(cell, start, min(max(first, start), hi), found)
    count_classes(cell, max(first, start), hi, seen)
    for code in range(classes):
        found[code] += seen[code]
        total += <int64_t>found[code]
    for code in range(classes):
        if is_missed(<int64_t>found[code], total, <int64_t>seen[code], rule.class_share):
            if missed < 0 or found[code] > found[missed]:
                missed = code
    return missed


# ---------------------------------------------------------------------------- learning

cdef void begin_update(CellArrays* cell, int64_t side, int64_t hi, int64_t steps, const Training* training, Scratch* scratch) noexcept nogil:
    """Draw the rows of the gradient steps of a model, and scale it, as its first rows may require."""
    cdef Counts* counts = cell.counts
    cdef ModelCounts* model = &cell.models[side]
    cdef int64_t K = cell.outputs, lo, waiting, admitting
    if model.lo < 0:
        model.lo = model.admitted = model.hi = max(model.first_row, counts.first)
    lo = model.lo
    waiting = hi - model.admitted
    scratch.whole[STEPS + 2 * side] = steps
    scratch.whole[STEPS + 2 * side + 1] = lo
    model.words = ds_schedule(
        scratch.orders + side * scratch.most_steps, steps, table_of(cell, side, lo - counts.base),
        scratch.overwritten + side * scratch.most_steps * K, K, model.admitted - lo, waiting, model.seed, model.words,
        training.alternating
    )
    admitting = (steps + 1) // 2
    model.admitted += admitting if admitting < waiting else waiting
    if training.regression and training.scaled and hi > model.hi:
        meet(cell, side, model.hi, hi, training, scratch)
    model.seen += hi - model.hi
    model.hi = hi
    model.gradients += steps
    if model.seen >= model.rescale_at:
        rescale(cell, side, training, scratch)


cdef void rescale(CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil:
    """Estimate the scale and the step size of a model again."""
    cdef ModelCounts* model = &cell.models[side]
    cdef bint automatic = training.step_size != training.step_size
    cdef int64_t a = model.lo - cell.counts.base, n = model.hi - model.lo, d = cell.X.d, count = 0, c
    cdef double* factor = columns_of(cell, cell.factor, side)
    cdef double* centre = columns_of(cell, cell.centre, side)
    cdef double* gain = columns_of(cell, cell.gain, side)
    cdef int64_t* centred = cell.centred + side * (d + 1)
    cdef double* new_centre = scratch.columns + 6 * (d + 1) * cell.outputs
    cdef double* sizes = new_centre + (d + 1) * cell.outputs
    cdef double target
    cdef Rows rows = rows_between(cell, a, a + n)
    if not (training.scaled or automatic):
        return
    if training.scaled:
        ds_frame(rows, cell.weight + a, training.intercept, FRAME_RULES, MOST_PASSES, new_centre, sizes, scratch.columns, scratch.values)
        ds_reframe(
            weights_of(cell, cell.w, side), weights_of(cell, cell.G, side), d, cell.outputs, factor, centre, new_centre,
            sizes, SMALLEST_SIZE
        )
        for c in range(d + 1):
            gain[c] = factor[c] * factor[c]
            if centre[c] != 0.0:
                centred[count] = c
                count += 1
        model.centred = count
        if training.regression and training.intercept:
            target = ds_median_target(cell.y + a, cell.weight + a, n, scratch.values)
            if target == target:
                if model.rescale_at > 0:  # a trained model keeps its predictions
                    weights_of(cell, cell.w, side)[d] += model.target - target
                model.target = target
    if automatic:
        model.step_size = AUTO_STEP / (
            training.l2 + training.curvature * ds_usual_norm(rows, cell.weight + a, factor, centre, STEP_QUANTILE, scratch.values)
        )
    model.rescale_at = 2 * model.seen if model.seen < GROWN_ROWS else NEVER


cdef inline Loss loss_of(const CellArrays* cell, int64_t side, const Training* training) noexcept nogil:
    """Return the loss of a model."""
    cdef Loss loss
    loss.kind, loss.epsilon, loss.reach = training.kind, training.epsilon, training.reach
    loss.shift = cell.models[side].target
    return loss


cdef inline bint is_turned(const CellArrays* cell) noexcept nogil:
    """Return whether gradient steps work on transposed weights: a dense row meets one output after the other."""
    return cell.outputs > 1 and cell.X.indptr == NULL


cdef inline void turn_in(const CellArrays* cell, Descent* descent, double* room) noexcept nogil:
    """Let gradient steps work on transposed copies of weights and gradient sums."""
    cdef int64_t width = width_of(cell), K = cell.outputs
    turn(descent.model.w, width, K, room)
    turn(descent.model.G, width, K, room + width * K)
    descent.model.w, descent.model.G = room, room + width * K


cdef inline void turn_back(const CellArrays* cell, int64_t side, const Descent* descent) noexcept nogil:
    """Write transposed weights and gradient sums back."""
    cdef int64_t width = width_of(cell), K = cell.outputs
    turn(descent.model.w, K, width, weights_of(cell, cell.w, side))
    turn(descent.model.G, K, width, weights_of(cell, cell.G, side))


cdef void run_update(CellArrays* cell, int64_t side, int64_t steps, const Training* training, Scratch* scratch) noexcept nogil:
    """Take the gradient steps of one model."""
    cdef ModelCounts* model = &cell.models[side]
    cdef Descent descent = descent_of(cell, side, scratch)
    cdef int64_t size = width_of(cell) * cell.outputs
    if training.kind == LOGISTIC:
        model.drawn = ds_saga(&descent, steps, training.l2)
        return
    if is_turned(cell):
        turn_in(cell, &descent, scratch.columns)
    model.drawn = ds_multi_saga(
        &descent, steps, training.l2, cell.outputs, loss_of(cell, side, training), scratch.columns + 4 * size
    )
    if is_turned(cell):
        turn_back(cell, side, &descent)


cdef void run_both(CellArrays* cell, int64_t steps, const Training* training, Scratch* scratch) noexcept nogil:
    """Take the gradient steps of both models on dense rows, in turn."""
    cdef Descent one = descent_of(cell, 0, scratch)
    cdef Descent two = descent_of(cell, 1, scratch)
    cdef int64_t size = width_of(cell) * cell.outputs
    cdef Loss[2] losses
    if training.kind == LOGISTIC:
        ds_saga_both(&one, &two, steps, training.l2)
    else:
        losses[0], losses[1] = loss_of(cell, 0, training), loss_of(cell, 1, training)
        if is_turned(cell):
            turn_in(cell, &one, scratch.columns)
            turn_in(cell, &two, scratch.columns + 2 * size)
        ds_multi_saga_both(&one, &two, steps, training.l2, cell.outputs, losses, scratch.columns + 4 * size)
        if is_turned(cell):
            turn_back(cell, 0, &one)
            turn_back(cell, 1, &two)
    cell.models[0].drawn = one.drawn
    cell.models[1].drawn = two.drawn


cdef void complete_model(CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil:
    """Work out the weights by which rows are scored from those that were learned."""
    cdef ModelCounts* model = &cell.models[side]
    cdef double* full = weights_of(cell, cell.w, side)
    cdef double* raw = weights_of(cell, cell.raw, side)
    cdef const double* evidence = evidence_of(cell, side)
    cdef int64_t width = width_of(cell), c
    cdef double trust
    if model.centred != 0 or model.target != 0.0:
        full = scratch.columns
        ds_uncentre(
            weights_of(cell, cell.w, side), width - 1, cell.outputs, columns_of(cell, cell.centre, side), model.target, full
        )
    write_raw(cell, full, raw)
    if evidence[3] > 0.0:
        trust = evidence[2] / evidence[3]
        if trust < 1.0:  # predictions are drawn towards the mean target
            trust = 0.0 if trust < 0.0 else trust
            for c in range(width):
                raw[c] *= trust
            raw[width - 1] += (1.0 - trust) * evidence[1]


cdef bint end_update(CellArrays* cell, int64_t side, const Training* training, Scratch* scratch) noexcept nogil:
    """Work out the weights by which rows are scored; return whether training has not diverged."""
    cdef const double* w = weights_of(cell, cell.w, side)
    cdef const double* G = weights_of(cell, cell.G, side)
    cdef int64_t size = width_of(cell) * cell.outputs, beyond = 0, c
    complete_model(cell, side, training, scratch)
    for c in range(size):
        beyond += not (fabs(w[c]) < LARGEST and fabs(G[c]) < LARGEST)
    if beyond == 0:
        return True
    scratch.real[0] = ds_largest(ds_largest(0.0, w, size), G, size)
    scratch.real[1] = cell.models[side].step_size
    return False


cdef void forget_rows(CellArrays* cell, int64_t side, int64_t before_row, const Training* training) noexcept nogil:
    """Drop the rows before ``before_row`` from the sample set, and their gradients from the gradient sum."""
    cdef ModelCounts* model = &cell.models[side]
    cdef int64_t a = model.lo - cell.counts.base, b
    cdef Rows rows
    if model.lo < 0 or before_row <= model.lo:
        return
    b = (before_row if before_row < model.admitted else model.admitted) - cell.counts.base
    rows = rows_between(cell, a, b)
    if cell.outputs == 1:
        model.drawn -= ds_discharge(rows, table_of(cell, side, a), weights_of(cell, cell.G, side), frame_of(cell, side))
    else:
        model.drawn -= ds_multi_discharge(
            rows, table_of(cell, side, a), weights_of(cell, cell.G, side), cell.outputs, frame_of(cell, side)
        )
    model.lo = before_row
    model.admitted = max(before_row, model.admitted)
    model.hi = max(before_row, model.hi)


cdef void meet(CellArrays* cell, int64_t side, int64_t lo, int64_t hi, const Training* training, Scratch* scratch) noexcept nogil:
    """Add to the evidence and to the ranges of a regression the rows that it has not learned yet."""
    cdef int64_t a = lo - cell.counts.base, n = hi - lo, d = cell.X.d, counted, c, i
    cdef double* evidence = evidence_of(cell, side)
    cdef double* low = ranges_of(cell, side)
    cdef double before = evidence[0], mean = evidence[1], away, kept, margin
    # Without evidence, the terms of the predictions do not count, whatever they are.
    cdef double* predicted = scratch.margins
    cdef double* targets = scratch.losses
    cdef double* terms = scratch.values
    cdef const double* y = cell.y + a
    cdef double[4] sums
    cdef Rows rows = rows_between(cell, a, a + n)
    for i in range(n):
        targets[i] = y[i]
        predicted[i] = y[i]
    if before > 0.0:
        ds_uncentre(
            weights_of(cell, cell.w, side), d, 1, columns_of(cell, cell.centre, side), cell.models[side].target, scratch.columns
        )
        score_with(cell, side, rows, scratch.columns, predicted, training)
        if training.kind == DS_HUBER:  # no row counts more than one at epsilon
            for i in range(n):
                away = y[i] - predicted[i]
                away = -training.epsilon if away < -training.epsilon else away
                away = training.epsilon if away > training.epsilon else away
                targets[i] = predicted[i] + away
    counted = ds_evidence_terms(predicted, targets, cell.weight + a, mean, n, terms)
    for i in range(4):
        sums[i] = ds_pairwise_sum(terms + i * n, n)
    if sums[0] > 0.0:
        kept = EVIDENCE_ROWS / (EVIDENCE_ROWS + counted)
        if before > 0.0:
            evidence[2] = kept * evidence[2] + sums[2]
            evidence[3] = kept * evidence[3] + sums[3]
        before *= kept
        evidence[1] = mean + sums[1] / (before + sums[0])
        evidence[0] = before + sums[0]
    if ds_extend_range(rows, cell.weight + a, low, low + d) > 0:
        for c in range(d):
            margin = RANGE_MARGIN * (low[d + c] - low[c])
            low[2 * d + c] = low[c] - margin
            low[3 * d + c] = low[d + c] + margin
