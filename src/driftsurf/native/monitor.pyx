"""Loops of the detection of drifts: sums, usual loss, CUSUMs and bets in one pass over the losses of rows."""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from driftsurf.native.buffers cimport Buffers, hold, integers, real_out, reals, release
from driftsurf.native.gil cimport let_go, take_back, PyThreadState
from libc.math cimport NAN, fabs, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef extern from "ds_math.h" nogil:
    double ds_exp(double x) noexcept
    double ds_log(double x) noexcept
    double ds_log1p(double x) noexcept
    double ds_pow(double base, double exponent) noexcept


cdef enum:
    OF_MARGINS, OF_NUMBERS, OF_LOSSES
cdef enum:
    # Weight and mean of the usual loss; the unit of residuals; rows and sum of the open block of rows, variance of such
    # blocks as a share of that of independent rows, and its weight; the number of the next row; the threshold of
    # log-odds, and the weights of the two classes; the mean squared loss; the largest mean loss.
    AT_WEIGHT, AT_MEAN, AT_SCALE, AT_BLOCK, AT_BLOCK_SUM, AT_SPREAD, AT_SPREADS, AT_ROW, AT_SHIFT, AT_LOW, AT_HIGH
    AT_SQUARES, AT_RANGE
    # For each of three alternatives the CUSUM and the row since which it is positive; the rows of the two classes.
    AT_CUSUM = 13
    AT_SINCE = 16
    AT_CLASS = 19
    # Rows and sum of the open run of rows, number, sum and sum of squares of the means of runs, how much they vary
    # within a block as a share of those of independent rows, and the weight of that; the part of the usual loss that
    # comes from rows of the second class.
    AT_RUN = 21
    AT_RUN_SUM, AT_RUNS, AT_RUN_MEANS, AT_RUN_SQUARES, AT_NEAR, AT_NEARS, AT_SECOND
    COUNT
    # Further places in the values of a model that is judged itself, of which no rows are held: rows and sums since the
    # usual loss was measured; the logarithms of the three capitals; whether there is a contest; contests so far; rows
    # of the contest and the sum of their losses; the largest logarithm of the mean capital; 1 + the row with which harm
    # was proven; the first two labels that came; and how many rows had another one.
    AT_PART = 29
    AT_PART_SUM, AT_PART_SQUARES, AT_PART_ONES, AT_CAPITALS
    AT_CONTEST = 36
    AT_CONTESTS, AT_BET_ROWS, AT_BET_TOTAL, AT_HIGHEST, AT_PROVEN, AT_LABELS
    AT_OTHERS = 44
    JUDGED_COUNT

MARGINS, NUMBERS, LOSSES = OF_MARGINS, OF_NUMBERS, OF_LOSSES
"""What the scores are: log-odds of the second of two classes, predicted numbers, or losses."""
WEIGHT, MEAN, SCALE, BLOCK, BLOCK_SUM, SPREAD, SPREADS, ROW, SHIFT, LOW, HIGH, SQUARES, RANGE = range(AT_RANGE + 1)
CUSUM, SINCE, CLASS, RUN, NEAR, NEARS, SECOND = AT_CUSUM, AT_SINCE, AT_CLASS, AT_RUN, AT_NEAR, AT_NEARS, AT_SECOND
PART, CAPITALS, CONTEST, CONTESTS = AT_PART, AT_CAPITALS, AT_CONTEST, AT_CONTESTS
BET_ROWS, BET_TOTAL = AT_BET_ROWS, AT_BET_TOTAL
HIGHEST, PROVEN, LABELS, OTHERS = AT_HIGHEST, AT_PROVEN, AT_LABELS, AT_OTHERS
VALUES, JUDGED = COUNT, JUDGED_COUNT

cdef double[3] SHARES = [0.04, 0.12, 0.4]
cdef double[3] FACTORS = [1.1, 1.4, 2.0]
ALTERNATIVES = tuple(SHARES)
"""Rises of the mean loss for which the CUSUM is made, as shares of what is possible; each is a factor at least."""
cdef double BLOCK_ROWS = 200.0, RUN_ROWS = 40.0, BLOCK_RUNS = 5.0  # rows of a block and of a run, and runs of a block
cdef double PART_ROWS = 50.0  # rows after which the usual loss of a model that is judged itself is measured again
cdef double LARGEST_RATIO = 9.0  # a block whose mean is further than three standard errors from the usual one: as three
cdef double PI = 3.141592653589793


cdef inline double larger(double a, double b) noexcept nogil:
    return b if b > a else a


cdef inline double smaller(double a, double b) noexcept nogil:
    return b if b < a else a


cdef inline double loss_of(int64_t mode, double score, double target, const double* v) noexcept nogil:
    """Return the loss of a row, from 0 to 1."""
    if mode == OF_MARGINS:
        if (score > v[AT_SHIFT]) != (target > 0.5):
            return v[AT_HIGH] if target > 0.5 else v[AT_LOW]
        return 0.0
    if mode == OF_NUMBERS:
        return smaller(fabs(score - target) / v[AT_SCALE], 1.0)
    return score


cdef double variance(double mean, int64_t mode, const double* v) noexcept nogil:
    """Return the variance of losses with a mean, as if they were the usual ones, larger or more frequent."""
    cdef double ratio
    if v[AT_MEAN] <= 0.0 or v[AT_SQUARES] <= 0.0:
        return larger(mean * (1.0 - mean), 1e-6)
    ratio = mean / v[AT_MEAN]
    if mode == OF_NUMBERS:
        return larger(v[AT_SQUARES] - v[AT_MEAN] * v[AT_MEAN], 0.01 * v[AT_MEAN] * v[AT_MEAN]) * ratio * ratio
    # Half of the mean is that of two classes with the same error, of which the rare one may have had no wrong row yet.
    return larger(larger(v[AT_SQUARES] * ratio, 0.5 * mean) - mean * mean, 1e-6)


cdef double centre(double target, const double* v) noexcept nogil:
    """Return what is added to the loss of a row, so that its mean does not depend on how many rows a class has.

    Where one of two classes is rare, the number of its rows varies much more than the share of them that is wrong.
    """
    cdef double rows = v[AT_CLASS] + v[AT_CLASS + 1]
    cdef double own = v[AT_CLASS + 1] if target > 0.5 else v[AT_CLASS]
    cdef double part = v[AT_SECOND] if target > 0.5 else v[AT_MEAN] - v[AT_SECOND]
    if v[AT_RANGE] == 1.0 or own <= 0.0:
        return 0.0
    return v[AT_MEAN] - part * rows / own


cdef struct Bet:
    double usual      # mean loss of the null hypothesis
    double stake      # share of the capital that is bet on an alternative
    double gain       # by how much the logarithm of the capital then grows in a row
    double low        # logarithm of what a loss of 0 multiplies the capital by, ...
    double high       # ... and a loss of 1
    double bar        # CUSUM that is a sign


cdef Bet bet_on(double mean, const double* v, double variance, int place) noexcept nogil:
    """Return a bet on the alternative at a place.

    The capital is multiplied by 1 + stake * (loss - usual) in each row. If nothing has changed, its expectation does not
    grow, whatever the distribution of the losses. For losses of 0 or 1, the stake makes this their likelihood ratio. If
    they vary less, it is larger: as large as the growth under the alternative asks for, but so that no row loses more
    than nine tenths of the capital.
    """
    cdef Bet made
    cdef double usual = smaller(larger(mean, 1e-4), 0.98)
    cdef double risen = larger(usual + SHARES[place] * larger(v[AT_RANGE] - usual, 0.0), usual * FACTORS[place])
    cdef double rise, whole, largest
    risen = smaller(risen, 0.995)
    rise, whole = risen - usual, usual * (1.0 - usual)
    made.usual = usual
    if v[AT_RANGE] == 1.0 and variance >= 0.99 * whole:
        made.stake = rise / whole
        made.gain = risen * ds_log(risen / usual) + (1.0 - risen) * ds_log((1.0 - risen) / (1.0 - usual))
        return made
    largest = 0.9 / (usual - smaller(0.0, smaller(centre(0.0, v), centre(1.0, v))))
    made.stake = smaller(rise / (variance + rise * rise), largest)
    made.gain = made.stake * rise - 0.5 * made.stake * made.stake * (variance + rise * rise)
    return made


cdef void complete_bet(Bet* made, double run_length) noexcept nogil:
    """Fill in what a scan needs."""
    made.low = ds_log1p(-made.stake * made.usual)
    made.high = ds_log1p(made.stake * (1.0 - made.usual))
    made.bar = larger(ds_log(run_length * made.gain), 3.0)


cdef inline double quotient(double z) noexcept nogil:
    """Return log(1 + z) to 2 % from -0.5 to 1.5, in a third of its time."""
    return z * (6.0 + z) / (6.0 + 4.0 * z)


cdef inline double growth(double loss, const Bet* made) noexcept nogil:
    """Return about the logarithm of what a row multiplies the capital by."""
    cdef double z
    if loss == 0.0:
        return made.low
    if loss == 1.0:
        return made.high
    return quotient(made.stake * (loss - made.usual))


cdef double log_mean(const double* logarithms) noexcept nogil:
    """Return the logarithm of the mean of three capitals, of which the logarithms are given."""
    cdef double top = larger(larger(logarithms[0], logarithms[1]), logarithms[2]), total
    total = ds_exp(logarithms[0] - top) + ds_exp(logarithms[1] - top) + ds_exp(logarithms[2] - top)
    return top + ds_log(total / 3.0)


cdef inline bint is_hopeless(double rows, double capital, double most) noexcept nogil:
    """Return whether the rows of a contest look as usual, or are more than there may be."""
    return (rows >= 150.0 and capital < -3.0) or (rows >= 800.0 and capital < 0.0) or rows > most


cdef inline double spread_of(const double* v) noexcept nogil:
    """Return the factor by which the losses vary more than independent ones, at least 1."""
    return larger(1.0, larger(v[AT_SPREAD] / v[AT_SPREADS], v[AT_NEAR] / v[AT_NEARS]))


cdef void follow_unit(double* v, double mean, double rows) noexcept nogil:
    """Let the unit of residuals follow them, so that the mean loss is about a quarter; known losses change with it."""
    cdef double factor = ds_pow(larger(0.5, smaller(2.0, mean / 0.22)), 0.1 * smaller(rows / 200.0, 1.0))
    v[AT_SCALE] *= factor
    v[AT_MEAN] /= factor
    v[AT_BLOCK_SUM] /= factor
    v[AT_RUN_SUM] /= factor
    v[AT_RUN_MEANS] /= factor
    v[AT_SQUARES] /= factor * factor
    v[AT_RUN_SQUARES] /= factor * factor


cdef void close_run(double* v, int64_t mode) noexcept nogil:
    """Add a run of rows to the open block; at its end, compare how the runs vary with independent rows."""
    cdef double mean = v[AT_RUN_SUM] / v[AT_RUN], middle, one, ratio
    v[AT_RUNS] += 1.0
    v[AT_RUN_MEANS] += mean
    v[AT_RUN_SQUARES] += mean * mean
    v[AT_RUN] = 0.0
    v[AT_RUN_SUM] = 0.0
    if v[AT_RUNS] >= BLOCK_RUNS:
        middle = v[AT_RUN_MEANS] / v[AT_RUNS]
        one = variance(middle, mode, v)
        if one > 1e-6 and v[AT_RANGE] == 1.0:
            ratio = (v[AT_RUN_SQUARES] - v[AT_RUNS] * middle * middle) / (v[AT_RUNS] - 1.0) * RUN_ROWS / one
            v[AT_NEAR] = v[AT_NEAR] * 0.98 + smaller(ratio, LARGEST_RATIO)
            v[AT_NEARS] = v[AT_NEARS] * 0.98 + 1.0
        v[AT_RUNS] = 0.0
        v[AT_RUN_MEANS] = 0.0
        v[AT_RUN_SQUARES] = 0.0


cdef struct Sums:
    double rows, losses, squares, second, ones  # second, ones: sum of the losses of the second class, and its rows


cdef void learn_usual(double* v, int64_t mode, bint watched, double half_life, const Sums* new) noexcept nogil:
    """Let rows count in the usual loss."""
    cdef double one = variance(v[AT_MEAN], mode, v), fade = ds_pow(0.5, new.rows / half_life), above
    v[AT_WEIGHT] = v[AT_WEIGHT] * fade + new.rows
    v[AT_MEAN] += (new.losses / new.rows - v[AT_MEAN]) * new.rows / v[AT_WEIGHT]
    v[AT_SQUARES] += (new.squares / new.rows - v[AT_SQUARES]) * new.rows / v[AT_WEIGHT]
    v[AT_SECOND] += (new.second / new.rows - v[AT_SECOND]) * new.rows / v[AT_WEIGHT]
    v[AT_CLASS] = v[AT_CLASS] * fade + (new.rows - new.ones)
    v[AT_CLASS + 1] = v[AT_CLASS + 1] * fade + new.ones
    v[AT_BLOCK] += new.rows
    v[AT_BLOCK_SUM] += new.losses
    if mode == OF_NUMBERS:
        follow_unit(v, new.losses / new.rows, new.rows)
    if v[AT_BLOCK] >= BLOCK_ROWS:
        if watched and v[AT_WEIGHT] >= 1000.0:
            # Only blocks above the usual loss count, twice: the loss of a model that still learns falls.
            above = larger(v[AT_BLOCK_SUM] / v[AT_BLOCK] - v[AT_MEAN], 0.0)
            v[AT_SPREAD] = v[AT_SPREAD] * 0.98 + smaller(2.0 * above * above * v[AT_BLOCK] / one, LARGEST_RATIO)
            v[AT_SPREADS] = v[AT_SPREADS] * 0.98 + 1.0
        v[AT_BLOCK] = 0.0
        v[AT_BLOCK_SUM] = 0.0


cdef int64_t scan(
    const double* scores, const double* targets, double* v, int64_t mode, int64_t start, int64_t n, double least,
    double run_length, double half_life
) noexcept nogil:
    """Follow the losses of rows; return the row of a sign, or -1 (see ``scan_losses``)."""
    cdef bint watched = v[AT_WEIGHT] >= least, high = False
    cdef double spread = spread_of(v), usual = v[AT_MEAN], one, loss
    cdef double run = v[AT_RUN], run_sum = v[AT_RUN_SUM]
    cdef double shift = v[AT_SHIFT], unit = v[AT_SCALE], row = v[AT_ROW]
    cdef double[2] centres, weights
    cdef double[3] sums, since
    cdef double[3][2] grows  # logarithms of what a loss of 0, and of 1, multiplies the capitals by
    cdef Bet[3] bets
    cdef Sums new
    cdef bint wrong, positive, second, simple = mode != OF_NUMBERS and v[AT_RANGE] == 1.0
    cdef int64_t i, found = -1
    cdef int k
    one = variance(usual, mode, v)
    if v[AT_WEIGHT] > 0.0:
        usual += sqrt(one / v[AT_WEIGHT])
    one = variance(usual, mode, v)
    for k in range(3):
        sums[k], since[k] = v[AT_CUSUM + k], v[AT_SINCE + k]
        bets[k] = bet_on(usual, v, one, k)
        complete_bet(&bets[k], run_length)
        grows[k][0], grows[k][1] = bets[k].low / spread, bets[k].high / spread
    new.rows = new.losses = new.squares = new.second = new.ones = 0.0
    centres[0], centres[1] = centre(0.0, v), centre(1.0, v)
    weights[0], weights[1] = v[AT_LOW], v[AT_HIGH]
    for i in range(start, n):
        # No branch depends on a label or a score: the processor could not foresee it.
        second = targets[i] > 0.5
        if mode == OF_MARGINS:
            wrong = (scores[i] > shift) != second
            loss = weights[second] * wrong
        elif mode == OF_NUMBERS:
            loss = smaller(fabs(scores[i] - targets[i]) / unit, 1.0)
        else:
            loss = scores[i]
        new.losses += loss
        new.squares += loss * loss
        new.ones += second
        new.second += loss * second
        new.rows += 1.0
        run += 1.0
        run_sum += loss
        if run >= RUN_ROWS:
            v[AT_RUN], v[AT_RUN_SUM] = run, run_sum
            close_run(v, mode)
            run = run_sum = 0.0
        if not watched:
            continue
        if simple and (loss == 0.0 or loss == 1.0):
            wrong = loss == 1.0
            for k in range(3):
                sums[k] += grows[k][wrong]
        else:
            loss += centres[second]
            for k in range(3):
                sums[k] += growth(loss, &bets[k]) / spread
        for k in range(3):
            positive = sums[k] > 0.0
            since[k] = since[k] if positive else row + i + 1.0
            sums[k] = sums[k] if positive else 0.0
        if sums[0] > bets[0].bar or sums[1] > bets[1].bar or sums[2] > bets[2].bar:
            found = i
            break
    v[AT_RUN], v[AT_RUN_SUM] = run, run_sum
    for k in range(3):
        v[AT_CUSUM + k], v[AT_SINCE + k] = sums[k], since[k]
        high = high or sums[k] > bets[k].bar / 2.0
    if found < 0 and not high and new.rows > 0.0:
        learn_usual(v, mode, watched, half_life, &new)
    return found


def variance_of(double mean, int64_t mode, v):
    """Return the variance of losses with a mean, as if they were the usual ones, larger or more frequent."""
    cdef Buffers held
    held.count = 0
    try:
        return variance(mean, mode, values_of(&held, v, COUNT))
    finally:
        release(&held)


def centre_of(double target, v):
    """Return what is added to the loss of a row, so that its mean does not depend on how many rows a class has."""
    cdef Buffers held
    held.count = 0
    try:
        return centre(target, values_of(&held, v, COUNT))
    finally:
        release(&held)


def bet(double mean, v, double variance, int place):
    """Return a usual mean loss, the stake on an alternative to it, and by how much the capital then grows in a row."""
    cdef Buffers held
    cdef Bet made
    held.count = 0
    if not 0 <= place < 3:
        raise IndexError(place)
    try:
        made = bet_on(mean, values_of(&held, v, COUNT), variance, place)
        return made.usual, made.stake, made.gain
    finally:
        release(&held)


cdef double* values_of(Buffers* held, object v, Py_ssize_t least) except NULL:
    """Hold the values of a scan."""
    cdef Py_ssize_t n = 0
    cdef double* values = reals(held, v, &n)
    if n < least:
        raise ValueError(f"expected {least} values of a scan, got {n}")
    return values


def row_losses(scores, targets, v, losses, int64_t mode):
    """Write the loss of each row, with the threshold, the weights or the unit of the scan."""
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0, i
    cdef double* found
    cdef double* values
    cdef double* known
    cdef double* predicted
    held.count = 0
    try:
        values = values_of(&held, v, COUNT)
        found = real_out(&held, losses, &n)
        predicted = reals(&held, scores, &m)
        known = reals(&held, targets, &i)
        if m != n or i != n:
            raise ValueError("scores, targets and losses have different lengths")
        for i in range(n):
            found[i] = loss_of(mode, predicted[i], known[i], values)
    finally:
        release(&held)


def scan_losses(scores, targets, v, int64_t mode, int64_t start, double least, double run_length, double half_life):
    """Follow the losses of rows from number ``start`` of a batch on; return the row of a sign, or -1.

    The CUSUM of an alternative adds the logarithm of its likelihood ratio and never falls below 0. A sign is a CUSUM
    above the logarithm of ``run_length`` rows times the divergence of a row, so that without a change about this
    many rows pass between signs. The usual loss is a mean that forgets half in ``half_life`` rows; it waits while a
    CUSUM is high. Nothing is a sign before ``least`` rows.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0
    cdef double* values
    cdef double* known
    cdef double* predicted
    held.count = 0
    try:
        values = real_out(&held, v, &n)
        if n < COUNT:
            raise ValueError(f"expected {COUNT} values of a scan, got {n}")
        predicted = reals(&held, scores, &n)
        known = reals(&held, targets, &m)
        if m != n or start < 0:
            raise ValueError("scores and targets have different lengths")
        return scan(predicted, known, values, mode, start, n, least, run_length, half_life)
    finally:
        release(&held)


cdef double reference(double usual, double weight, int64_t mode, const double* v) noexcept nogil:
    """Return the mean loss of the null hypothesis (see ``reference_of``)."""
    cdef double few = smaller(1.0, 400.0 / (weight * smaller(1.0, v[AT_RANGE])))
    return usual + (1.0 + 2.0 * few) * sqrt(variance(larger(usual, 1.0 / weight), mode, v) / larger(weight, 1.0))


def reference_of(double usual, double weight, int64_t mode, v):
    """Return the mean loss of the null hypothesis: the usual one and its standard error, more after few rows.

    Of a rare class, only its rows count.
    """
    cdef Buffers held
    held.count = 0
    try:
        return reference(usual, weight, mode, values_of(&held, v, COUNT))
    finally:
        release(&held)


def check_losses(scores, targets, v, int64_t mode):
    """Compare the losses of a model with the usual ones.

    Returns what they add to the CUSUM of the first alternative, their sum, and the CUSUM that is a sign.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0, m = 0, i
    cdef double* values
    cdef double* known
    cdef double* predicted
    cdef double gains = 0.0, total = 0.0, loss, usual
    cdef int64_t kind = OF_NUMBERS if mode == OF_NUMBERS else OF_LOSSES
    cdef Bet made
    held.count = 0
    try:
        values = values_of(&held, v, COUNT)
        predicted = reals(&held, scores, &n)
        known = reals(&held, targets, &m)
        if m != n:
            raise ValueError("scores and targets have different lengths")
        usual = reference(values[AT_MEAN], values[AT_WEIGHT], kind, values)
        made = bet_on(usual, values, variance(usual, kind, values), 0)
        for i in range(n):
            loss = loss_of(mode, predicted[i], known[i], values) + centre(known[i], values)
            total += loss
            gains += ds_log1p(made.stake * (loss - made.usual))
        return gains / spread_of(values), total, larger(ds_log(ROWS_BETWEEN_SIGNS * made.gain), 3.0)
    finally:
        release(&held)


def bet_on_losses(
    losses, int64_t start, int64_t mode, v, contest, bint looks, double reference, double spread, double needed,
    double before, double risen, double most
):
    """Bet on the losses of a contest from row ``start`` on; return the row that proves harm, -1, or -2 - the last row.

    ``contest`` holds the logarithms of the three capitals, the number of rows, the sum of their losses, and the largest
    logarithm of the mean capital. Harm is proven once that of the mean capital is at least ``needed``, while the mean
    loss, or the one ``before`` the first bet, is at least ``risen``; rows prove nothing unless ``looks``. A contest
    ends, which is told as -2 - the row, when it is hopeless.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0, i
    cdef double* values
    cdef double* lost
    cdef double* sums
    cdef double one, loss, top, capital
    cdef double[2] met  # two losses that have come, and ...
    cdef double[2][3] gains  # ... what they add to the logarithms of the capitals: most losses are one of two
    cdef Bet[3] bets
    cdef int k, place = 0
    met[0] = met[1] = NAN
    held.count = 0
    try:
        values = values_of(&held, v, COUNT)
        sums = real_out(&held, contest, &n)
        if n < 6 or start < 0:
            raise ValueError("a contest has six numbers")
        lost = reals(&held, losses, &n)
        one = variance(reference, mode, values)
        for k in range(3):
            bets[k] = bet_on(reference, values, one, k)
        for i in range(start, n):
            loss = lost[i]
            if loss != met[place]:
                place = 1 - place
                if loss != met[place]:
                    met[place] = loss
                    for k in range(3):
                        gains[place][k] = ds_log1p(bets[k].stake * (loss - bets[k].usual)) / spread
            for k in range(3):
                sums[k] += gains[place][k]
            sums[3] += 1.0
            sums[4] += loss
            # The mean capital is at most the largest one, and more than a third of it.
            top = larger(larger(sums[0], sums[1]), sums[2])
            if top <= sums[5] and top < needed and sums[3] <= most and (sums[3] < 150.0 or top > 1.2):
                continue
            capital = log_mean(sums)
            sums[5] = larger(sums[5], capital)
            if looks and capital >= needed and larger(sums[4] / sums[3], before) >= risen:
                return i
            if is_hopeless(sums[3], capital, most):
                return -2 - i
        return -1
    finally:
        release(&held)


cdef double highest_mean(double mean, double divergence) noexcept nogil:
    """Return the highest mean of losses from 0 to 1 whose divergence from an observed mean is at most this."""
    cdef double low = mean, high = 1.0, observed = smaller(larger(mean, 1e-12), 1.0 - 1e-12), middle, found
    cdef int halving
    for halving in range(30):
        middle = smaller(0.5 * (low + high), 1.0 - 1e-12)
        found = observed * ds_log(observed / middle)
        found += (1.0 - observed) * ds_log((1.0 - observed) / (1.0 - middle))
        if found > divergence:
            high = middle
        else:
            low = middle
    return high


cdef void weigh(double* v, double rare, double not_rare) noexcept nogil:
    """Let errors of both labels count the same where one is rare; then the usual loss is measured again."""
    cdef double total = v[AT_CLASS] + v[AT_CLASS + 1]
    cdef double share = smaller(v[AT_CLASS], v[AT_CLASS + 1]) / larger(total, 1.0)
    cdef bint balanced = v[AT_RANGE] < 1.0
    cdef bint wanted = v[AT_OTHERS] == 0.0 and share < (not_rare if balanced else rare) and v[AT_LABELS + 1] >= 0.0
    if wanted == balanced:
        return
    v[AT_LOW] = v[AT_HIGH] = v[AT_RANGE] = 1.0
    if wanted:
        share = larger(share, 1.0 / larger(total, 2.0))
        v[AT_LOW if v[AT_CLASS] > v[AT_CLASS + 1] else AT_HIGH] = share / (1.0 - share)
        v[AT_RANGE] = 2.0 * share
    v[AT_WEIGHT] = v[AT_MEAN] = v[AT_SQUARES] = v[AT_BLOCK] = v[AT_BLOCK_SUM] = 0.0
    v[AT_SPREAD] = v[AT_SPREADS] = v[AT_NEAR] = v[AT_NEARS] = 2.0
    v[AT_CUSUM] = v[AT_CUSUM + 1] = v[AT_CUSUM + 2] = 0.0


cdef void clear_part(double* v) noexcept nogil:
    v[AT_PART] = v[AT_PART_SUM] = v[AT_PART_SQUARES] = v[AT_PART_ONES] = 0.0


cdef void measure(double* v, bint numbers, bint watched, double half_life) noexcept nogil:
    """Let the rows since the last measurement count in the usual loss."""
    cdef Sums sums
    if numbers and v[AT_SCALE] == 0.0:
        v[AT_SCALE] = larger(4.0 * v[AT_PART_SUM] / v[AT_PART], 1e-300)  # the first rows give the unit
    else:
        sums.rows, sums.losses, sums.squares = v[AT_PART], v[AT_PART_SUM], v[AT_PART_SQUARES]
        sums.second, sums.ones = 0.0, v[AT_PART_ONES]
        learn_usual(v, OF_NUMBERS if numbers else OF_LOSSES, watched, half_life, &sums)
    clear_part(v)


cdef void judge(
    const double* predicted, const double* true, int64_t n, double* v, const double* limits, bint numbers,
    double needed, double least_rise
) noexcept nogil:
    """Judge one model by its own losses, until harm is proven (see ``judge_models``)."""
    cdef double least = limits[0], least_rare = limits[1], run_length = limits[2], half_life = limits[3]
    cdef double rare = limits[4], not_rare = limits[5], patience = limits[6]
    cdef int64_t mode = OF_NUMBERS if numbers else OF_LOSSES, i
    cdef bint fresh = True, watched = False, second, sign, quiet
    cdef double bound = 0.0, mean = 0.0, most = 0.0, spread = 1.0, usual, one, row, error, loss, capital
    cdef Bet[3] bets
    cdef int k
    for i in range(n):
        if v[AT_PROVEN] > 0.0:
            return
        if fresh:
            # What is bet on depends on values that only change with a measurement, a sign, or the end of a contest.
            fresh, bound = False, 0.0
            mean, most = v[AT_MEAN], v[AT_RANGE]
            watched = v[AT_WEIGHT] >= larger(least, least_rare * 2.0 / most if most < 1.0 else 0.0)
            spread = spread_of(v)
            usual = mean
            if v[AT_CONTEST] > 0.0:
                bound = needed + ds_log(PI * PI / 6.0 * v[AT_CONTESTS] * v[AT_CONTESTS])
                usual = highest_mean(mean, bound * spread / v[AT_WEIGHT])
            elif v[AT_WEIGHT] > 0.0:
                usual += sqrt(variance(mean, mode, v) / v[AT_WEIGHT])
            one = variance(usual, mode, v)
            for k in range(3):
                bets[k] = bet_on(usual, v, one, k)
                complete_bet(&bets[k], run_length)
        row = v[AT_ROW]
        v[AT_ROW] = row + 1.0
        error, second = predicted[i] - true[i], False
        if numbers:
            loss = fabs(error) if v[AT_SCALE] == 0.0 else smaller(fabs(error) / v[AT_SCALE], 1.0)
        else:
            if v[AT_LABELS] < 0.0:
                v[AT_LABELS] = true[i]
            elif v[AT_LABELS + 1] < 0.0 and true[i] != v[AT_LABELS]:
                v[AT_LABELS + 1] = true[i]
            second = true[i] != v[AT_LABELS]
            if second and true[i] != v[AT_LABELS + 1]:
                v[AT_OTHERS] += 1.0
            loss = 0.0 if error == 0.0 else v[AT_HIGH] if second else v[AT_LOW]
        if v[AT_CONTEST] > 0.0:
            v[AT_BET_ROWS] += 1.0
            v[AT_BET_TOTAL] += loss
            for k in range(3):
                v[AT_CAPITALS + k] += ds_log1p(bets[k].stake * (loss - bets[k].usual)) / spread
            capital = log_mean(v + AT_CAPITALS)
            v[AT_HIGHEST] = larger(v[AT_HIGHEST], capital)
            if capital >= bound and v[AT_BET_TOTAL] / v[AT_BET_ROWS] - mean >= least_rise * most:
                v[AT_PROVEN] = row + 1.0
            elif is_hopeless(v[AT_BET_ROWS], capital, patience):
                v[AT_CONTEST] = 0.0
                fresh = True
            continue
        v[AT_PART] += 1.0
        v[AT_PART_SUM] += loss
        if not numbers or v[AT_SCALE] > 0.0:
            v[AT_RUN] += 1.0
            v[AT_RUN_SUM] += loss
            if v[AT_RUN] >= RUN_ROWS:
                close_run(v, mode)
                fresh = True
        v[AT_PART_SQUARES] += loss * loss
        if second:
            v[AT_PART_ONES] += 1.0
        sign, quiet = False, True
        if watched:
            for k in range(3):
                v[AT_CUSUM + k] += growth(loss, &bets[k]) / spread
                if v[AT_CUSUM + k] <= 0.0:
                    v[AT_CUSUM + k] = 0.0
                    v[AT_SINCE + k] = row + 1.0
                sign = sign or v[AT_CUSUM + k] > bets[k].bar
                quiet = quiet and v[AT_CUSUM + k] <= bets[k].bar / 2.0
        if sign:
            for k in range(3):
                v[AT_CUSUM + k] = 0.0
                v[AT_SINCE + k] = row + 1.0
                v[AT_CAPITALS + k] = 0.0
            v[AT_CONTEST] = 1.0
            v[AT_CONTESTS] += 1.0
            v[AT_BET_ROWS] = v[AT_BET_TOTAL] = v[AT_HIGHEST] = 0.0
            clear_part(v)
            fresh = True
        elif v[AT_PART] >= PART_ROWS:
            if quiet:
                measure(v, numbers, watched, half_life)
                if not numbers and v[AT_BLOCK] == 0.0 and v[AT_WEIGHT] >= BLOCK_ROWS - 10.0:
                    weigh(v, rare, not_rare)
            else:
                clear_part(v)
            fresh = True


def judge_models(owner, stops, predicted, true, values, limits, bint numbers, double needed, double least_rise):
    """Judge many models by their own losses, row by row, each until harm is proven.

    Part ``k`` of the rows, up to ``stops[k]``, belongs to the model whose values are in line ``owner[k]``. A model is
    harmed once the logarithm of the mean capital of a contest exceeds ``needed`` and what the number of the contest
    adds, and its mean loss has risen by ``least_rise``. The result does not depend on how rows are cut into parts.
    ``limits`` are the rows on which the usual loss is measured before a sign, rows of the rarer label that this takes,
    rows between signs, the half-life of the usual loss, the shares of the rarer label, and the rows of a contest.
    """
    cdef Buffers held
    cdef Py_ssize_t parts = 0, n = 0, m = 0, lines, k
    cdef int64_t* models
    cdef int64_t* ends
    cdef double* guesses
    cdef double* known
    cdef double* v
    cdef double* how
    cdef int64_t begin = 0
    cdef PyThreadState* saved
    held.count = 0
    try:
        v = real_out(&held, values, &n, 2)
        if held.views[0].shape[1] != JUDGED_COUNT:
            raise ValueError(f"a model has {JUDGED_COUNT} values")
        lines = held.views[0].shape[0]
        how = reals(&held, limits, &n)
        if n != 7:
            raise ValueError("there are seven limits")
        models = integers(&held, owner, &parts)
        ends = integers(&held, stops, &n)
        if n != parts:
            raise ValueError("owner and stops have different lengths")
        guesses = reals(&held, predicted, &n)
        known = reals(&held, true, &m)
        for k in range(parts):
            if not (0 <= models[k] < lines and begin <= ends[k] <= min(n, m)):
                raise ValueError("a part is outside of the rows, or of a model that does not exist")
            begin = ends[k]
        begin = 0
        saved = let_go(n)
        for k in range(parts):
            judge(guesses + begin, known + begin, ends[k] - begin, v + models[k] * JUDGED_COUNT, how, numbers, needed,
                  least_rise)
            begin = ends[k]
        take_back(saved)
    finally:
        release(&held)


# -------------------------------------------------------------------- the rows that a monitor holds

cdef enum:
    LITTLE_ROWS = 32        # rows of small steps that are collected before they are scanned
    ROWS_OF_ANCHOR = 500    # rows between frozen models, and between weighings of two classes
    ROWS_OF_CHECK = 1000    # rows between comparisons of a frozen model
    ROWS_OF_WINDOW = 5000   # rows between windows of the inputs
    HELD_ROWS = 2000        # limits of the rows that are held
    HELD_BYTES = 4000000
    LEAST_HELD = 200
    MARK = 4  # numbers of a block: its first row, its step, how many steps it is, and how many rows
    ASKS_ANCHOR = 1
    ASKS_SCAN = 2
    ASKS_CHECK = 4
    ASKS_WEIGHING = 8
    ASKS_WINDOW = 16
cdef double LEAST_OF_USUAL = 200.0, LEAST_OF_RARE = 20.0
cdef double ROWS_BETWEEN_SIGNS = 5000.0, HALVING_ROWS = 5000.0, LONGEST_TIMES = 10.0
cdef double BEGINNING_OF_RARE = 0.1, END_OF_RARE = 0.2
LEAST_ROWS, LEAST_RARE = int(LEAST_OF_USUAL), int(LEAST_OF_RARE)
"""Rows on which the usual loss is measured before a rise can be a sign, and rows of the rarer class that this takes."""
RUN_LENGTH, HALF_LIFE = ROWS_BETWEEN_SIGNS, HALVING_ROWS
"""Rows between signs if nothing changes, about; rows in which the usual loss forgets half."""
LONGEST = LONGEST_TIMES
"""Times that this is longer, at most, where one of two classes is rare."""
RARE, NOT_RARE = BEGINNING_OF_RARE, END_OF_RARE
"""Share of the rarer of two classes below which errors of both classes count the same, and above which they stop."""
ANCHOR_ROWS, CHECK_EVERY, WINDOW_EVERY, MOST_ROWS = ROWS_OF_ANCHOR, ROWS_OF_CHECK, ROWS_OF_WINDOW, HELD_ROWS
"""Rows between frozen models, between comparisons of one, and between windows of the inputs; rows that are held."""
ANCHOR_DUE, LOOK_DUE, CHECK_DUE, WEIGHING_DUE, WINDOW_DUE = ASKS_ANCHOR, ASKS_SCAN, ASKS_CHECK, ASKS_WEIGHING, ASKS_WINDOW
"""What ``Follower.after`` leaves to Python."""


class OtherKind(Exception):
    """The rows or their scores have another width than the ones that are held."""


cdef class Held:
    """Rows in the order of arrival, with labels and scores: memory to which only rows are added, behind the last one.

    Several followers share it, each with its own first and last row; one that is not the last copies what it holds.
    """

    cdef readonly object X
    cdef readonly object y
    cdef readonly object scores
    cdef readonly object marks
    cdef Py_buffer views[4]
    cdef int held
    cdef int64_t filled        # rows
    cdef int64_t marked        # blocks
    cdef int64_t room          # rows for which there is room
    cdef int64_t marks_room
    cdef int64_t row_bytes
    cdef int64_t outputs       # scores of a row

    def __cinit__(self, X, y, scores, marks):
        cdef int k
        cdef object array
        self.held = 0
        for k, array in enumerate((X, y, scores, marks)):
            PyObject_GetBuffer(array, &self.views[k], PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)
            self.held += 1
        self.X, self.y, self.scores, self.marks = X, y, scores, marks
        self.room = self.views[1].shape[0]
        self.marks_room = self.views[3].shape[0]
        self.row_bytes = self.views[0].len // self.room
        self.outputs = self.views[2].len // 8 // self.room

    def __dealloc__(self):
        while self.held:
            self.held -= 1
            PyBuffer_Release(&self.views[self.held])

    cdef inline double value(self, int64_t row, int64_t column) noexcept:
        cdef int64_t place = row * self.views[0].shape[1] + column
        return (<float*>self.views[0].buf)[place] if self.views[0].itemsize == 4 else (<double*>self.views[0].buf)[place]

    cdef char* at(self, int array, int64_t place) noexcept:
        """Return where the entry of a row, or of a block, is."""
        cdef int64_t size = self.row_bytes if array == 0 else 8 if array == 1 else 8 * (self.outputs if array == 2 else MARK)
        return <char*>self.views[array].buf + place * size


def follower_of(mode, allocate, rows, waiting, anchor_at, values):
    """Return a follower with these rows, blocks and values, as ``Follower.__reduce__`` gives them."""
    cdef Follower made = Follower(mode, allocate)
    cdef const char* numbers = values
    cdef int k
    if len(values) != sizeof(made.v):
        raise ValueError("the values of the scan have another number")
    memcpy(made.v, numbers, sizeof(made.v))
    made.anchor_at = anchor_at
    for k in range(MARK):
        made.waiting[k] = waiting[k]
    if rows is not None and len(rows[1]):
        made.memory = Held(*rows)
        made.memory.filled, made.memory.marked = len(rows[1]), len(rows[3])
        made.stop, made.marks_stop = len(rows[1]) - made.waiting[3], len(rows[3])
    return made


cdef class Follower:
    """Rows of the recent past and the scan of their losses, as a value: ``after`` returns the value after more rows.

    Rows of small steps wait until there are 32 of them; then they are one block. Labels are codes or numbers, scores
    log-odds, numbers, or (rows, classes).
    """

    cdef readonly Held memory
    cdef readonly int64_t start         # place of the first row that is held
    cdef readonly int64_t stop          # place after the last block
    cdef readonly int64_t first_mark
    cdef readonly int64_t marks_stop
    cdef int64_t[4] waiting             # the block to which rows are added until it is large enough
    cdef readonly int64_t anchor_at     # row from which on a model is to be frozen
    cdef double[COUNT] v
    cdef int64_t mode
    cdef object allocate

    def __cinit__(self, int64_t mode, allocate):
        cdef int k
        self.mode, self.allocate = mode, allocate
        for k in range(COUNT):
            self.v[k] = 0.0
        self.v[AT_LOW] = self.v[AT_HIGH] = self.v[AT_RANGE] = 1.0
        self.v[AT_SPREAD] = self.v[AT_SPREADS] = self.v[AT_NEAR] = self.v[AT_NEARS] = 2.0

    def __reduce__(self):
        cdef Held memory = self.memory
        rows = None
        if memory is not None:
            held, blocks = slice(self.start, self.stop + self.waiting[3]), slice(self.first_mark, self.marks_stop)
            rows = memory.X[held].copy(), memory.y[held].copy(), memory.scores[held].copy(), memory.marks[blocks].copy()
        return follower_of, (self.mode, self.allocate, rows, self.waiting_mark, self.anchor_at, self.values)

    @property
    def values(self):
        """Values of the scan, as bytes."""
        return (<char*>self.v)[: sizeof(self.v)]

    @property
    def waiting_rows(self):
        """Number of rows that wait to be scanned."""
        return self.waiting[3]

    @property
    def waiting_mark(self):
        """First row, step, number of steps and of rows of the rows that wait."""
        return tuple([self.waiting[k] for k in range(MARK)])

    cdef Follower copied(self):
        cdef Follower new = Follower.__new__(Follower, self.mode, self.allocate)
        new.memory = self.memory
        new.start, new.stop, new.first_mark, new.marks_stop = self.start, self.stop, self.first_mark, self.marks_stop
        memcpy(new.waiting, self.waiting, sizeof(self.waiting))
        new.anchor_at = self.anchor_at
        memcpy(new.v, self.v, sizeof(self.v))
        return new

    def with_values(self, values, int64_t anchor_at):
        """Return the follower with other values of the scan, and another row for the next frozen model."""
        cdef Buffers held
        cdef Follower new = self.copied()
        held.count = 0
        try:
            memcpy(new.v, values_of(&held, values, COUNT), sizeof(new.v))
        finally:
            release(&held)
        new.anchor_at = anchor_at
        return new

    def with_anchor_at(self, int64_t row):
        """Return the follower with another row for the next frozen model."""
        cdef Follower new = self.copied()
        new.anchor_at = row
        return new

    @property
    def held_from(self):
        """Number of the first row that is held; 0 if there is none."""
        return 0 if self.marks_stop == self.first_mark else self.marks()[0]

    cdef int make_room(self, int64_t rows, int64_t row_bytes, int64_t outputs, object X, object scores) except -1:
        """Let the memory have room for more rows, and a block, of this kind, that no other value has taken."""
        cdef Held old = self.memory, new
        cdef int64_t kept = self.stop + self.waiting[3] - self.start, marks = self.marks_stop - self.first_mark
        if old is not None and (old.row_bytes != row_bytes or old.outputs != outputs):
            raise OtherKind
        if old is not None and old.filled == self.start + kept and old.filled + rows <= old.room:
            if self.marks_stop < old.marks_room:
                return 0
        new = self.allocate(2 * (kept + rows) + LEAST_HELD, 2 * marks + 16, X, scores)
        if old is not None:
            for array in range(3):
                memcpy(new.at(array, 0), old.at(array, self.start), old.at(array, kept) - old.at(array, 0))
            memcpy(new.at(3, 0), old.at(3, self.first_mark), marks * MARK * 8)
        new.filled = kept
        self.memory, self.start, self.stop = new, 0, kept - self.waiting[3]
        self.first_mark, self.marks_stop = 0, marks
        return 0

    cdef int append(self, int64_t first_row, int64_t step, int64_t steps, object X, object y, object scores) except -1:
        """Add rows to those that wait."""
        cdef Buffers held
        cdef Py_buffer* view
        cdef Py_ssize_t n = 0, m = 0, i
        cdef double* targets
        cdef double* predicted
        cdef double* out
        cdef int64_t outputs, row_bytes
        held.count = 0
        try:
            view = hold(&held, X, "df", 0, 2, False)
            targets = reals(&held, y, &n)
            predicted = reals(&held, scores, &m, -1)
            if n == 0:
                return 0
            if view.shape[0] != n or m % n:
                raise ValueError("rows, labels and scores have different lengths")
            outputs, row_bytes = m // n, view.len // n
            if outputs == 2:
                outputs = 1
            self.make_room(n, row_bytes, outputs, X, scores)
            i = self.stop + self.waiting[3]
            memcpy(self.memory.at(0, i), view.buf, view.len)
            memcpy(self.memory.at(1, i), targets, n * 8)
            out = <double*>self.memory.at(2, i)
            if m == 2 * n:
                for i in range(n):
                    out[i] = predicted[2 * i + 1] - predicted[2 * i]  # log-odds of the second class
            else:
                memcpy(out, predicted, m * 8)
            self.memory.filled += n
            if self.waiting[3] == 0:
                self.waiting[0], self.waiting[1], self.waiting[2] = first_row, step, 0
            self.waiting[2] += steps
            self.waiting[3] += n
            return 0
        finally:
            release(&held)

    cdef void close_block(self) noexcept:
        """Make a block of the rows that wait, and drop blocks beyond the limits."""
        cdef int64_t* marks = <int64_t*>self.memory.at(3, 0)
        cdef int64_t most = min(HELD_ROWS, HELD_BYTES // max(self.memory.row_bytes, 1)), end, k
        most = max(most, LEAST_HELD)
        memcpy(marks + MARK * self.marks_stop, self.waiting, sizeof(self.waiting))
        end = self.waiting[0] + self.waiting[3]
        self.stop += self.waiting[3]
        self.marks_stop += 1
        self.memory.marked = self.marks_stop
        self.waiting[3] = 0
        while self.first_mark < self.marks_stop - 1 and marks[MARK * (self.first_mark + 1)] <= end - most:
            self.start += marks[MARK * self.first_mark + 3]
            self.first_mark += 1

    cdef int64_t scan_block(self, bint* needs_weighing) except -2:
        """Scan the last block for a sign; say whether the classes have to be weighed anew."""
        cdef int64_t* mark = <int64_t*>self.memory.at(3, self.marks_stop - 1)
        cdef int64_t n = mark[3], place = self.stop - n, K = self.memory.outputs, i, k, best, sign
        cdef double* scores = <double*>self.memory.at(2, place)
        cdef double* y = <double*>self.memory.at(1, place)
        cdef double* losses = NULL
        cdef double total = 0.0, share, least = LEAST_OF_USUAL
        cdef int64_t mode = self.mode
        cdef double* v = self.v
        cdef bint balanced
        if mode == OF_NUMBERS:
            if v[AT_SCALE] == 0.0:
                for i in range(n):
                    total += fabs(scores[i] - y[i])
                v[AT_SCALE] = larger(4.0 * total / n, 1e-300)  # the first rows give the unit
        elif K == 1:
            mode = OF_MARGINS
        else:
            mode = OF_LOSSES
            losses = <double*>malloc(n * sizeof(double))
            if losses == NULL:
                raise MemoryError
            for i in range(n):
                best = 0
                for k in range(1, K):
                    if scores[i * K + k] > scores[i * K + best]:
                        best = k
                losses[i] = best != y[i]
            scores = losses
        v[AT_ROW] = mark[0]
        if v[AT_RANGE] < 1.0:
            least = larger(least, LEAST_OF_RARE / (v[AT_RANGE] / 2.0))
        sign = scan(
            scores, y, v, mode, 0, n, least, ROWS_BETWEEN_SIGNS, HALVING_ROWS * smaller(LONGEST_TIMES, 1.0 / v[AT_RANGE])
        )
        free(losses)
        balanced = v[AT_RANGE] < 1.0
        share = smaller(v[AT_CLASS], v[AT_CLASS + 1]) / larger(v[AT_CLASS] + v[AT_CLASS + 1], 1.0)
        needs_weighing[0] = mode == OF_MARGINS and v[AT_WEIGHT] >= LEAST_OF_USUAL
        needs_weighing[0] = needs_weighing[0] and balanced != (share < (END_OF_RARE if balanced else BEGINNING_OF_RARE))
        return sign

    def after(self, int64_t step, int64_t first_row, X, y, scores, bint busy):
        """Return the follower after a step, what is left to do, and the row of the last block that is a sign, or -1.

        Nothing is scanned if something else judges the rows (``busy``).
        """
        cdef Follower new = self.copied()
        cdef int64_t what = 0, first, rows, sign = -1
        cdef bint weighing = False
        new.append(first_row, step, 1, X, y, scores)
        rows = new.waiting[0] + new.waiting[3]
        if new.waiting[3] == 0 or rows - new.waiting[0] < LITTLE_ROWS:
            return new, 0, -1
        if not busy and first_row >= new.anchor_at:
            if not (new.v[AT_CUSUM] > 2.0 or new.v[AT_CUSUM + 1] > 2.0 or new.v[AT_CUSUM + 2] > 2.0):
                what |= ASKS_ANCHOR
        first = new.waiting[0]
        new.close_block()
        if rows // ROWS_OF_CHECK > first // ROWS_OF_CHECK:
            what |= ASKS_CHECK
        if rows // ROWS_OF_WINDOW > first // ROWS_OF_WINDOW:
            what |= ASKS_WINDOW
        if not busy:
            sign = new.scan_block(&weighing)
            if weighing and rows // ROWS_OF_ANCHOR > first // ROWS_OF_ANCHOR:
                what |= ASKS_WEIGHING
        if busy or sign >= 0:
            what |= ASKS_SCAN
        return new, what, sign

    def extended(self, int64_t first_row, int64_t step, int64_t steps, X, y, scores, bint closed):
        """Return the follower with more rows that are not scanned: a block, or rows that wait."""
        cdef Follower new = self.copied()
        new.append(first_row, step, steps, X, y, scores)
        if closed and new.waiting[3]:
            new.close_block()
        return new

    def block(self, int64_t which):
        """Return the places of the rows of a block, counted from the first one or -1, and its mark."""
        cdef int64_t count = self.marks_stop - self.first_mark, k, place = self.start
        cdef int64_t* marks
        which = which + count if which < 0 else which
        if not 0 <= which < count:
            raise IndexError(which)
        marks = <int64_t*>self.memory.at(3, self.first_mark)
        for k in range(which):
            place += marks[MARK * k + 3]
        marks += MARK * which
        return place, place + marks[3], marks[0], marks[1], marks[2]

    cdef int64_t* marks(self) except NULL:
        """Return the mark of the first block; IndexError if there is none."""
        if self.marks_stop == self.first_mark:
            raise IndexError("no rows are held")
        return <int64_t*>self.memory.at(3, self.first_mark)

    def between(self, int64_t lo, int64_t hi):
        """Return the places of the rows in blocks with numbers from ``lo`` to before ``hi``, and the first number."""
        cdef int64_t* mark = self.marks()
        cdef int64_t k, place = self.start, a = -1, b = 0, number = lo, begin, end
        for k in range(self.marks_stop - self.first_mark):
            begin, end = max(lo - mark[0], 0), min(hi - mark[0], mark[3])
            if begin < end:
                if a < 0:
                    a, number = place + begin, mark[0] + begin
                b = place + end
            place += mark[3]
            mark += MARK
        return (a, b, number) if a >= 0 else (self.stop, self.stop, lo)

    def means_of(self, int64_t a, int64_t b, out):
        """Write the mean of each column of the rows at places ``a`` to ``b``, and behind them the variances."""
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef int64_t d, i, c
        cdef double* means
        cdef double* variances
        cdef double distance
        held.count = 0
        if self.memory is None or not self.start <= a < b <= self.stop:
            raise IndexError("no such rows are held")
        try:
            means = real_out(&held, out, &n)
            d = self.memory.views[0].shape[1]
            if n != 2 * d:
                raise ValueError(f"expected room for {2 * d} numbers")
            variances = means + d
            for c in range(2 * d):
                means[c] = 0.0
            for i in range(a, b):
                for c in range(d):
                    means[c] += self.memory.value(i, c)
            for c in range(d):
                means[c] /= b - a
            for i in range(a, b):
                for c in range(d):
                    distance = self.memory.value(i, c) - means[c]
                    variances[c] += distance * distance
            for c in range(d):
                variances[c] /= b - a
        finally:
            release(&held)

    def step_of(self, int64_t row):
        """Return the step of a row in a block, or of the first one."""
        cdef int64_t* mark = self.marks()
        cdef int64_t k = self.marks_stop - self.first_mark - 1
        while k > 0 and mark[MARK * k] > row:
            k -= 1
        mark += MARK * k
        return mark[1] + min(max(row - mark[0], 0), mark[3]) * mark[2] // max(mark[3], 1)
