"""Detection of drifts: the rows that a monitor holds, their usual loss, CUSUMs, and bets of contests."""

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from driftsurf.native.buffers cimport ds_enter_usual_mode, ds_leave_usual_mode
from driftsurf.native.buffers cimport Buffers, expect, hold, integers, is_one_of, real_out, reals, release
from driftsurf.native.gil cimport let_go, take_back, PyThreadState
from driftsurf.native.rows cimport Rows
from driftsurf.native.scores cimport MarginScorer
from libc.math cimport INFINITY, NAN, fabs, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef extern from "Python.h":
    ctypedef struct PyObject:
        pass
    Py_ssize_t Py_REFCNT(PyObject* thing) noexcept


cdef extern from "ds_math.h" nogil:
    double ds_exp(double x) noexcept
    double ds_log(double x) noexcept
    double ds_log1p(double x) noexcept
    double ds_pow(double base, double exponent) noexcept


cdef extern from "drift.h" nogil:
    enum:
        DS_BETS
    void ds_weighted_errors(const double* margins, const double* y, int64_t n, double shift, double low, double high,
                            double* out) noexcept
    int64_t ds_cusum(const double* losses, int64_t n, const double* low, const double* high, const double* bars,
                     double* sums, double* since, double row) noexcept
    void ds_column_moments(Rows rows, double* means, double* variances) noexcept


cdef extern from "losses.h" nogil:
    double ds_pairwise_sum(const double* values, int64_t n) noexcept


cdef extern from "scores.h" nogil:
    void ds_margins(Rows rows, const double* w, double* out) noexcept


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


cdef void write_losses(
    const double* scores, const double* y, int64_t n, int64_t outputs, bint numbers, const double* v, double* out
) noexcept nogil:
    """Write the loss of each row, from 0 to 1; ``out`` may be ``scores``, if there is one for each row."""
    cdef int64_t i, k, best
    if numbers:
        for i in range(n):
            out[i] = smaller(fabs(scores[i] - y[i]) / v[AT_SCALE], 1.0)
    elif outputs == 1:
        ds_weighted_errors(scores, y, n, v[AT_SHIFT], v[AT_LOW], v[AT_HIGH], out)
    else:
        for i in range(n):
            best = 0
            for k in range(1, outputs):
                if scores[i * outputs + k] > scores[i * outputs + best]:
                    best = k
            out[i] = best != y[i]


cdef double variance(double mean, bint numbers, const double* v) noexcept nogil:
    """Return the variance of losses with a mean, as if they were the usual ones, larger or more frequent."""
    cdef double ratio
    if v[AT_MEAN] <= 0.0 or v[AT_SQUARES] <= 0.0:
        return larger(mean * (1.0 - mean), 1e-6)
    ratio = mean / v[AT_MEAN]
    if numbers:
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


cdef void close_run(double* v, bint numbers) noexcept nogil:
    """Add a run of rows to the open block; at its end, compare how the runs vary with independent rows."""
    cdef double mean = v[AT_RUN_SUM] / v[AT_RUN], middle, one, ratio
    v[AT_RUNS] += 1.0
    v[AT_RUN_MEANS] += mean
    v[AT_RUN_SQUARES] += mean * mean
    v[AT_RUN] = 0.0
    v[AT_RUN_SUM] = 0.0
    if v[AT_RUNS] >= BLOCK_RUNS:
        middle = v[AT_RUN_MEANS] / v[AT_RUNS]
        one = variance(middle, numbers, v)
        if one > 1e-6 and v[AT_RANGE] == 1.0:
            ratio = (v[AT_RUN_SQUARES] - v[AT_RUNS] * middle * middle) / (v[AT_RUNS] - 1.0) * RUN_ROWS / one
            v[AT_NEAR] = v[AT_NEAR] * 0.98 + smaller(ratio, LARGEST_RATIO)
            v[AT_NEARS] = v[AT_NEARS] * 0.98 + 1.0
        v[AT_RUNS] = 0.0
        v[AT_RUN_MEANS] = 0.0
        v[AT_RUN_SQUARES] = 0.0


cdef struct Sums:
    double rows, losses, squares, second, ones  # second, ones: sum of the losses of the second class, and its rows


cdef void learn_usual(double* v, bint numbers, bint watched, double half_life, const Sums* new) noexcept nogil:
    """Let rows count in the usual loss."""
    cdef double one = variance(v[AT_MEAN], numbers, v), fade = ds_pow(0.5, new.rows / half_life), above
    v[AT_WEIGHT] = v[AT_WEIGHT] * fade + new.rows
    v[AT_MEAN] += (new.losses / new.rows - v[AT_MEAN]) * new.rows / v[AT_WEIGHT]
    v[AT_SQUARES] += (new.squares / new.rows - v[AT_SQUARES]) * new.rows / v[AT_WEIGHT]
    v[AT_SECOND] += (new.second / new.rows - v[AT_SECOND]) * new.rows / v[AT_WEIGHT]
    v[AT_CLASS] = v[AT_CLASS] * fade + (new.rows - new.ones)
    v[AT_CLASS + 1] = v[AT_CLASS + 1] * fade + new.ones
    v[AT_BLOCK] += new.rows
    v[AT_BLOCK_SUM] += new.losses
    if numbers:
        follow_unit(v, new.losses / new.rows, new.rows)
    if v[AT_BLOCK] >= BLOCK_ROWS:
        if watched and v[AT_WEIGHT] >= 1000.0:
            # Only blocks above the usual loss count, twice: the loss of a model that still learns falls.
            above = larger(v[AT_BLOCK_SUM] / v[AT_BLOCK] - v[AT_MEAN], 0.0)
            v[AT_SPREAD] = v[AT_SPREAD] * 0.98 + smaller(2.0 * above * above * v[AT_BLOCK] / one, LARGEST_RATIO)
            v[AT_SPREADS] = v[AT_SPREADS] * 0.98 + 1.0
        v[AT_BLOCK] = 0.0
        v[AT_BLOCK_SUM] = 0.0


cdef void bets_on(double usual, const double* v, bint numbers, Bet* bets) noexcept nogil:
    """Make the bets on all alternatives to a usual mean loss."""
    cdef double one = variance(usual, numbers, v)
    cdef int k
    for k in range(3):
        bets[k] = bet_on(usual, v, one, k)


cdef int64_t scan(
    const double* losses, const double* y, double* v, bint numbers, int64_t start, int64_t n, double least,
    double run_length, double half_life
) noexcept nogil:
    """Follow the losses of rows from number ``start`` of a block on; return the row of a sign, or -1.

    The CUSUM of an alternative adds the logarithm of its likelihood ratio and never falls below 0. A sign is a CUSUM
    above the logarithm of ``run_length`` rows times the divergence of a row, so that without a change about this
    many rows pass between signs. The usual loss is a mean that forgets half in ``half_life`` rows; it waits while a
    CUSUM is high. Nothing is a sign before ``least`` rows.
    """
    cdef bint watched = v[AT_WEIGHT] >= least, high = False, second
    cdef double spread = spread_of(v), usual = v[AT_MEAN], loss, sum
    cdef double[2] centres
    cdef double[DS_BETS] sums, since, lows, highs, bars
    cdef Bet[3] bets
    cdef Sums new
    cdef int64_t i, found = -1, stop, part
    cdef int k
    if v[AT_WEIGHT] > 0.0:
        usual += sqrt(variance(usual, numbers, v) / v[AT_WEIGHT])
    bets_on(usual, v, numbers, bets)
    sums[3] = since[3] = lows[3] = highs[3] = 0.0
    bars[3] = INFINITY
    for k in range(3):
        sums[k], since[k] = v[AT_CUSUM + k], v[AT_SINCE + k]
        complete_bet(&bets[k], run_length)
        lows[k], highs[k], bars[k] = bets[k].low / spread, bets[k].high / spread, bets[k].bar
    if watched and not numbers and v[AT_RANGE] == 1.0:
        found = ds_cusum(losses + start, n - start, lows, highs, bars, sums, since, v[AT_ROW] + start)
        found += start if found >= 0 else 0
    elif watched:
        centres[0], centres[1] = centre(0.0, v), centre(1.0, v)
        for i in range(start, n):
            loss = losses[i] + centres[y[i] > 0.5]
            for k in range(3):
                sums[k] += growth(loss, &bets[k]) / spread
                if not sums[k] > 0.0:
                    sums[k] = 0.0
                    since[k] = v[AT_ROW] + i + 1.0
            if sums[0] > bars[0] or sums[1] > bars[1] or sums[2] > bars[2]:
                found = i
                break
    for k in range(3):
        v[AT_CUSUM + k], v[AT_SINCE + k] = sums[k], since[k]
        high = high or sums[k] > bars[k] / 2.0
    new.rows = new.losses = new.squares = new.second = new.ones = 0.0
    stop = n if found < 0 else found + 1
    new.rows = stop - start
    while start < stop:
        part = <int64_t>(RUN_ROWS - v[AT_RUN]) if 0.0 <= v[AT_RUN] < RUN_ROWS else 1
        part = max(1, min(part, stop - start))
        sum = v[AT_RUN_SUM]
        for i in range(start, start + part):
            loss, second = losses[i], y[i] > 0.5
            sum += loss
            new.losses += loss
            new.squares += loss * loss
            new.ones += second
            new.second += loss * second
        v[AT_RUN] += part
        v[AT_RUN_SUM] = sum
        start += part
        if v[AT_RUN] >= RUN_ROWS:
            close_run(v, numbers)
    if found < 0 and not high and new.rows > 0.0:
        learn_usual(v, numbers, watched, half_life, &new)
    return found


cdef double reference(double usual, double weight, bint numbers, const double* v) noexcept nogil:
    """Return the mean loss of the null hypothesis: the usual one and its standard error, more after few rows.

    Of a rare class, only its rows count.
    """
    cdef double few = smaller(1.0, 400.0 / (weight * smaller(1.0, v[AT_RANGE])))
    return usual + (1.0 + 2.0 * few) * sqrt(variance(larger(usual, 1.0 / weight), numbers, v) / larger(weight, 1.0))


cdef struct Terms:
    double needed, before, least, most  # see `bet_on_losses`


cdef int64_t bet_on_losses(
    const double* losses, int64_t start, int64_t n, const Bet* bets, double spread, bint looks, const Terms* terms,
    double* sums
) noexcept nogil:
    """Bet on the losses of a contest from row ``start`` on; return the row that proves harm, -1, or -2 - the last row.

    ``sums`` are the logarithms of the three capitals, the number of rows, the sum of their losses, and the largest
    logarithm of the mean capital. Harm is proven once that of the mean capital is at least ``needed``, while the mean
    loss, or the one ``before`` the first bet, is at least ``least``; rows prove nothing unless ``looks``. A contest
    ends, for which -2 - the row is returned, when it is hopeless: after ``most`` rows at the latest.
    """
    cdef double loss, top, capital
    cdef double[2] met  # two losses that have come, and ...
    cdef double[2][3] gains  # ... what they add to the logarithms of the capitals: most losses are one of two
    cdef int64_t i
    cdef int k, place = 0
    met[0] = met[1] = NAN
    for i in range(start, n):
        loss = losses[i]
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
        if top <= sums[5] and top < terms.needed and sums[3] <= terms.most and (sums[3] < 150.0 or top > 1.2):
            continue
        capital = log_mean(sums)
        sums[5] = larger(sums[5], capital)
        if looks and capital >= terms.needed and larger(sums[4] / sums[3], terms.before) >= terms.least:
            return i
        if is_hopeless(sums[3], capital, terms.most):
            return -2 - i
    return -1


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


cdef void set_usual(double* v, double weight, double mean, bint numbers) noexcept nogil:
    """Measure the usual loss anew, beginning with a mean over some rows."""
    cdef double ratio = mean / v[AT_MEAN] if v[AT_MEAN] > 0.0 else 0.0
    v[AT_SQUARES] *= ratio * ratio if numbers else ratio
    v[AT_SECOND] *= ratio
    v[AT_WEIGHT], v[AT_MEAN] = weight, mean
    v[AT_BLOCK] = v[AT_BLOCK_SUM] = v[AT_CUSUM] = v[AT_CUSUM + 1] = v[AT_CUSUM + 2] = 0.0


cdef bint weigh(double* v, double rare, double not_rare, bint can) noexcept nogil:
    """Let errors of both labels count the same where one is rare, if they ``can``; then the usual loss is measured again.

    Returns whether that is new.
    """
    cdef double total = v[AT_CLASS] + v[AT_CLASS + 1]
    cdef double share = smaller(v[AT_CLASS], v[AT_CLASS + 1]) / larger(total, 1.0)
    cdef bint balanced = v[AT_RANGE] < 1.0, wanted = can and share < (not_rare if balanced else rare)
    if wanted == balanced:
        return False
    v[AT_LOW] = v[AT_HIGH] = v[AT_RANGE] = 1.0
    if wanted:
        share = larger(share, 1.0 / larger(total, 2.0))
        v[AT_LOW if v[AT_CLASS] > v[AT_CLASS + 1] else AT_HIGH] = share / (1.0 - share)
        v[AT_RANGE] = 2.0 * share
    v[AT_SPREAD] = v[AT_SPREADS] = v[AT_NEAR] = v[AT_NEARS] = 2.0
    set_usual(v, 0.0, 0.0, False)
    return True


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
        learn_usual(v, numbers, watched, half_life, &sums)
    clear_part(v)


cdef void judge(
    const double* predicted, const double* true, int64_t n, double* v, const double* limits, bint numbers,
    double needed, double least_rise
) noexcept nogil:
    """Judge one model by its own losses, until harm is proven (see ``judge_models``)."""
    cdef double least = limits[0], least_rare = limits[1], run_length = limits[2], half_life = limits[3]
    cdef double rare = limits[4], not_rare = limits[5], patience = limits[6]
    cdef int64_t i
    cdef bint fresh = True, watched = False, second, sign, quiet
    cdef double bound = 0.0, mean = 0.0, most = 0.0, spread = 1.0, usual, row, error, loss, capital
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
                usual += sqrt(variance(mean, numbers, v) / v[AT_WEIGHT])
            bets_on(usual, v, numbers, bets)
            for k in range(3):
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
                close_run(v, numbers)
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
                    weigh(v, rare, not_rare, v[AT_OTHERS] == 0.0 and v[AT_LABELS + 1] >= 0.0)
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
    ROWS_OF_CHECK = 1000    # rows between comparisons of the oldest frozen model with the usual loss, ...
    CHECKED_ROWS = 300      # ... and rows of such a comparison
    ROWS_OF_OLD = 4000      # rows after which that model is replaced
    ROWS_OF_WINDOW = 5000   # rows between windows of the inputs
    ROWS_OF_BET = 200       # rows that a frozen model predicts at once in a contest
    ROWS_TO_TESTIFY = 100   # rows on which a frozen model must have been as good as usual before it can testify
    MOST_ANCHORS = 3        # frozen models that are held
    HELD_ROWS = 2000        # limits of the rows that are held
    HELD_BYTES = 4000000
    MOST_SPARED = 2000000   # largest memory that is used again, in bytes
    LEAST_HELD = 200
    MARK = 4  # numbers of a block: its first row, its step, how many steps it is, and how many rows
cdef enum:
    # Numbers of a contest: the logarithms of three capitals, rows, sum of the losses, and the largest logarithm of the
    # mean capital. Numbers of the oldest frozen model: CUSUM of its losses, the row since which it is positive, and
    # rows and losses of comparisons since then.
    BETS = 6
    RISE = 4
cdef double LEAST_OF_USUAL = 200.0, LEAST_OF_RARE = 20.0
cdef double ROWS_BETWEEN_SIGNS = 5000.0, HALVING_ROWS = 5000.0, LONGEST_TIMES = 10.0
cdef double BEGINNING_OF_RARE = 0.1, END_OF_RARE = 0.2
cdef double CONTESTED_ROWS = 3000.0
cdef double UNPROVEN = 2.0  # the smallest rise is larger without a frozen model: the model may be worse by itself
cdef double CHECKED_ERRORS = 1.5  # standard errors from the loss of a frozen model to the bound that is taken for it
LEAST_ROWS, LEAST_RARE = int(LEAST_OF_USUAL), int(LEAST_OF_RARE)
"""Rows on which the usual loss is measured before a rise can be a sign, and rows of the rarer class that this takes."""
RUN_LENGTH, HALF_LIFE = ROWS_BETWEEN_SIGNS, HALVING_ROWS
"""Rows between signs if nothing changes, about; rows in which the usual loss forgets half."""
RARE, NOT_RARE = BEGINNING_OF_RARE, END_OF_RARE
"""Share of the rarer of two classes below which errors of both classes count the same, and above which they stop."""
CONTEST_ROWS = int(CONTESTED_ROWS)
"""Rows of a contest, at most."""
MOST_ROWS, BET_PART, LEAST_CHECKED = HELD_ROWS, ROWS_OF_BET, ROWS_TO_TESTIFY
"""Rows that are held; that a frozen model predicts at once; on which it must have been as good as usual."""


class OtherKind(Exception):
    """The rows or their scores have another width than the ones that are held."""


cdef class Held:
    """Rows in the order of arrival, with labels and scores: memory to which only rows are added, behind the last one.

    Several followers share it, each with its own first and last row; one that is not the last copies what it holds.
    When it is full, the rows that are still held move to other memory, which may be the one before, if it is free: the
    first touch of new memory takes longer than a step of some rows.
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
    cdef Held spare            # the memory before this one

    def __cinit__(self, X, y, scores, marks):
        cdef const char* kinds[4]
        cdef int k
        cdef object array
        kinds[0], kinds[1], kinds[2], kinds[3] = "df", "d", "d", "lq"
        self.held = 0
        for k, array in enumerate((X, y, scores, marks)):
            PyObject_GetBuffer(array, &self.views[k], PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE)
            self.held += 1
        self.X, self.y, self.scores, self.marks = X, y, scores, marks
        for k in range(4):
            expect(is_one_of(kinds[k], self.views[k].format))
            expect(self.views[k].ndim == (1 if k == 1 else 2) or (k == 2 and self.views[k].ndim == 1))
        self.room = self.views[1].shape[0]
        self.marks_room = self.views[3].shape[0]
        expect(self.room > 0 and self.views[0].shape[0] == self.room and self.views[2].shape[0] == self.room)
        expect(self.views[3].shape[1] == MARK)
        self.row_bytes = self.views[0].len // self.room
        self.outputs = self.views[2].len // 8 // self.room

    def __dealloc__(self):
        while self.held:
            self.held -= 1
            PyBuffer_Release(&self.views[self.held])

    cdef bint is_free(self, int64_t rows, int64_t blocks, Held like) noexcept:
        """Return whether nobody else uses this memory, and it has room for such rows."""
        cdef int k
        if Py_REFCNT(<PyObject*>self) > 1 or self.room < rows or self.marks_room < blocks:
            return False
        for k in range(4):
            if Py_REFCNT(<PyObject*>self.views[k].obj) > 2:  # the array is known to this object and to its view
                return False
        return (self.outputs == like.outputs and self.views[0].itemsize == like.views[0].itemsize
                and self.views[0].shape[1] == like.views[0].shape[1] and self.views[2].ndim == like.views[2].ndim)

    cdef Rows rows(self, int64_t a, int64_t b) noexcept:
        """Return the rows at places ``a`` to ``b``."""
        cdef Rows found
        found.values, found.indices, found.indptr = self.at(0, a), NULL, NULL
        found.n, found.d, found.is_single = b - a, self.views[0].shape[1], self.views[0].itemsize == 4
        return found

    cdef char* at(self, int array, int64_t place) noexcept:
        """Return where the entry of a row, or of a block, is."""
        cdef int64_t size = self.row_bytes if array == 0 else 8 if array == 1 else 8 * (self.outputs if array == 2 else MARK)
        return <char*>self.views[array].buf + place * size


cdef inline int64_t row_number(double row) noexcept nogil:
    """Return the number of a row that is saved as a real number; of a state that is not valid, any number."""
    return <int64_t>row if 0.0 <= row < 2.0**61 else 0


def follower_of(kind, options, entries, rows, numbers, waiting):
    """Return a follower, as ``Follower.__reduce__`` describes it."""
    cdef Follower made = kind.__new__(kind, *options)
    cdef const char* values = numbers
    cdef int64_t scanned = 0, size
    cdef int k
    if len(numbers) != sizeof(made.v) + sizeof(made.bets) + sizeof(made.rise):
        raise ValueError("the values of the scan have another number")
    memcpy(made.v, values, sizeof(made.v))
    memcpy(made.bets, values + sizeof(made.v), sizeof(made.bets))
    memcpy(made.rise, values + sizeof(made.v) + sizeof(made.bets), sizeof(made.rise))
    for name, value in entries.items():
        setattr(made, name, value)
    for k in range(MARK):
        made.waiting[k] = waiting[k]
    if rows is not None and len(rows[1]):
        made.memory = Held(*rows)
        made.memory.filled, made.memory.marked = made.memory.room, made.memory.marks_room
        for k in range(made.memory.marks_room):
            size = (<int64_t*>made.memory.at(3, k))[3]
            expect(0 <= size <= made.memory.room - scanned)
            scanned += size
        made.stop, made.marks_stop = scanned, made.memory.marks_room
    expect(made.waiting[3] == (0 if made.memory is None else made.memory.room - scanned))
    return made


cdef class Follower:
    """What happens in every step of a monitor, as a value: ``after`` returns the value after more rows.

    It holds the rows of the recent past, scans their losses for a sign, and bets on the losses of a frozen model until
    harm is proven. Rows of small steps wait until there are 32 of them; then they are one block. Labels are codes or
    numbers, scores log-odds, numbers, or (rows, classes). A subclass in Python does what is rare: it freezes models,
    and follows drifts.
    """

    cdef readonly Held memory
    cdef readonly int64_t start         # place of the first row that is held
    cdef readonly int64_t stop          # place after the last block
    cdef readonly int64_t first_mark
    cdef readonly int64_t marks_stop
    cdef int64_t[4] waiting             # the block to which rows are added until it is large enough
    cdef double[COUNT] v
    cdef double[BETS] bets
    cdef double[RISE] rise
    cdef readonly bint regression
    cdef public double smallest_rise, drift_risk
    cdef public int64_t rows            # number of rows so far
    cdef public int64_t contests        # contests since the last drift
    cdef public bint drifting           # whether a drift is open
    cdef public double peak             # highest mean loss of the open drift
    cdef public object back             # when the model recovered from it: the row, and rows since its beginning
    cdef public object drifts, changes  # all drifts, and all moves of the inputs
    cdef public object updates          # drifts that the last step detected, changed or ended
    cdef public object contest          # the open contest, or None
    cdef public object anchors, old     # frozen models, and an older one that is compared with the usual loss
    cdef public object means            # means and variances of earlier windows of the inputs
    cdef public object parts            # the rows, if they are sparse, with the number of the first one of each part

    def __cinit__(self, bint regression=False, double smallest_rise=0.0, double drift_risk=1.0):
        self.regression, self.smallest_rise, self.drift_risk = regression, smallest_rise, drift_risk
        self.v[AT_LOW] = self.v[AT_HIGH] = self.v[AT_RANGE] = 1.0
        self.v[AT_SPREAD] = self.v[AT_SPREADS] = self.v[AT_NEAR] = self.v[AT_NEARS] = 2.0
        self.drifts = self.changes = self.updates = self.anchors = self.parts = ()

    cdef Follower copied(self):
        cdef Follower new = type(self).__new__(type(self))
        new.memory, new.regression = self.memory, self.regression
        new.smallest_rise, new.drift_risk = self.smallest_rise, self.drift_risk
        new.start, new.stop, new.first_mark, new.marks_stop = self.start, self.stop, self.first_mark, self.marks_stop
        memcpy(new.waiting, self.waiting, sizeof(self.waiting))
        memcpy(new.v, self.v, sizeof(self.v))
        memcpy(new.bets, self.bets, sizeof(self.bets))
        memcpy(new.rise, self.rise, sizeof(self.rise))
        new.rows, new.contests, new.drifting, new.peak = self.rows, self.contests, self.drifting, self.peak
        new.back, new.drifts, new.changes, new.contest = self.back, self.drifts, self.changes, self.contest
        new.anchors, new.old, new.means, new.parts = self.anchors, self.old, self.means, self.parts
        return new

    def __copy__(self):
        return self.copied()

    def __reduce__(self):
        cdef Held memory = self.memory
        rows = None
        if memory is not None:
            held, blocks = slice(self.start, self.stop + self.waiting[3]), slice(self.first_mark, self.marks_stop)
            rows = memory.X[held].copy(), memory.y[held].copy(), memory.scores[held].copy(), memory.marks[blocks].copy()
        names = (
            *("rows", "contests", "drifting", "peak", "back", "drifts", "changes", "updates", "contest"),
            *("anchors", "old", "means", "parts"),
        )
        options = self.regression, self.smallest_rise, self.drift_risk
        numbers = self.values + (<char*>self.bets)[: sizeof(self.bets)] + (<char*>self.rise)[: sizeof(self.rise)]
        entries = {name: getattr(self, name) for name in names}
        return follower_of, (type(self), options, entries, rows, numbers, self.waiting_mark)

    # ---------------------------------------------------------------- numbers

    @property
    def values(self):
        """Values of the scan, as bytes."""
        return (<char*>self.v)[: sizeof(self.v)]

    @property
    def usual(self):
        """Usual mean loss."""
        return self.v[AT_MEAN]

    @property
    def span(self):
        """Largest mean loss: 1, or twice the share of a rare class."""
        return self.v[AT_RANGE]

    @property
    def unit(self):
        """The residual that is a loss of 1; 1 for classes."""
        return self.v[AT_SCALE] if self.regression else 1.0

    @property
    def mean_square(self):
        """Usual mean square of the losses."""
        return self.v[AT_SQUARES]

    @property
    def capitals(self):
        """Numbers of the contest: logarithms of three capitals, rows, sum of losses, largest logarithm of the mean."""
        return tuple([self.bets[k] for k in range(BETS)])

    @property
    def old_rise(self):
        """CUSUM of the older frozen model, the row since which it is positive, and rows and losses since then."""
        return self.rise[0], row_number(self.rise[1]), self.rise[2], self.rise[3]

    def set_numbers(self, *, values=None, capitals=None, old_rise=None):
        """Replace the values of the scan, the numbers of the contest, or those of the older frozen model."""
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef double* numbers
        cdef int k
        held.count = 0
        if values is not None:
            try:
                numbers = reals(&held, values, &n)
                if n != COUNT:
                    raise ValueError(f"expected {COUNT} values of a scan, got {n}")
                memcpy(self.v, numbers, sizeof(self.v))
            finally:
                release(&held)
        if capitals is not None:
            for k in range(BETS):
                self.bets[k] = capitals[k]
        if old_rise is not None:
            for k in range(RISE):
                self.rise[k] = old_rise[k]

    def add_to_contest(self, double losses, int64_t rows):
        """Count rows of the contest, on which no capital is bet."""
        self.bets[3] += rows
        self.bets[4] += losses

    def start_over(self, double weight, double mean):
        """Measure the usual loss anew, beginning with a mean over some rows."""
        cdef int k
        set_usual(self.v, weight, mean, self.regression)
        for k in range(3):
            self.v[AT_SINCE + k] = self.rows

    def variance(self, double mean):
        """Return the variance of losses with a mean, as if they were the usual ones, larger or more frequent."""
        return variance(mean, self.regression, self.v)

    def centre(self, double target):
        """Return what is added to the loss of a row, so that its mean does not depend on how many rows a class has."""
        return centre(target, self.v)

    def bet(self, double mean, double variance, int place):
        """Return a usual mean loss, the stake on an alternative to it, and by how much the capital grows in a row."""
        cdef Bet made
        if not 0 <= place < 3:
            raise IndexError(place)
        made = bet_on(mean, self.v, variance, place)
        return made.usual, made.stake, made.gain

    cdef double error(self, double mean, double rows) noexcept:
        """Return the standard error of a mean of losses."""
        return sqrt(variance(mean, self.regression, self.v) / larger(rows, 1.0))

    def standard_error(self, double mean, double rows):
        """Return the standard error of a mean of losses."""
        return self.error(mean, rows)

    def losses_into(self, scores, y, out):
        """Write the loss of each row by scores of this or another model."""
        cdef Buffers held
        cdef Py_ssize_t n = 0, m = 0, size = 0
        cdef double* lost
        cdef double* known
        cdef double* predicted
        held.count = 0
        try:
            lost = real_out(&held, out, &n)
            known = reals(&held, y, &m)
            predicted = reals(&held, scores, &size, -1)
            if m != n or (n and (size < n or size % n)):
                raise ValueError("scores, targets and losses have different lengths")
            if n:
                write_losses(predicted, known, n, size // n, self.regression, self.v, lost)
        finally:
            release(&held)

    # ---------------------------------------------------------------- rows

    @property
    def waiting_rows(self):
        """Number of rows that wait to be scanned."""
        return self.waiting[3]

    @property
    def waiting_mark(self):
        """First row, step, number of steps and of rows of the rows that wait."""
        return tuple([self.waiting[k] for k in range(MARK)])

    @property
    def held_from(self):
        """Number of the first row that is held; 0 if there is none."""
        return 0 if self.marks_stop == self.first_mark else self.marks()[0]

    cdef int make_room(self, int64_t rows, int64_t row_bytes, int64_t outputs, object X, object scores) except -1:
        """Let the memory have room for more rows, and a block, of this kind, that no other value has taken."""
        cdef Held old = self.memory, new = None
        cdef int64_t kept = self.stop + self.waiting[3] - self.start, marks = self.marks_stop - self.first_mark
        if old is not None and (old.row_bytes != row_bytes or old.outputs != outputs):
            raise OtherKind
        if old is not None and old.filled == self.start + kept and old.filled + rows <= old.room:
            if self.marks_stop < old.marks_room:
                return 0
        if old is not None and old.spare is not None:
            new, old.spare = old.spare, None
        if new is None or not new.is_free(kept + 2 * rows, marks + 16, old):
            new = self.allocated(2 * (kept + rows) + LEAST_HELD, 2 * marks + 16, X, scores)
        expect(new is not None and new.room >= kept + rows and new.marks_room > marks)
        expect(new.row_bytes == row_bytes and new.outputs == outputs)
        if old is not None:
            for array in range(3):
                memcpy(new.at(array, 0), old.at(array, self.start), old.at(array, kept) - old.at(array, 0))
            memcpy(new.at(3, 0), old.at(3, self.first_mark), marks * MARK * 8)
        new.filled = kept
        if old is not None and new.views[0].len <= MOST_SPARED:
            new.spare, old.spare = old, None
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

    def forget_rows(self):
        """Hold no rows any more."""
        self.memory, self.start, self.stop, self.first_mark, self.marks_stop = None, 0, 0, 0, 0
        self.waiting[3] = 0

    def hold(self, int64_t first_row, int64_t step, int64_t steps, X, y, scores, bint closed):
        """Hold more rows that are not scanned: a block, or rows that wait."""
        self.append(first_row, step, steps, X, y, scores)
        if closed and self.waiting[3]:
            self.close_block()

    # ---------------------------------------------------------------- a step

    def after(self, int64_t step, int64_t first_row, X, y, scores, scorer, columns, classes, strategy):
        """Return the monitor after a step.

        Parameters
        ----------
        step, first_row
            Number of the step and of its first row.
        X, y
            Its rows, with codes of their labels, or numbers. They are copied.
        scores
            Scores by which the rows were predicted, before they were learned.
        scorer
            Function that gave the scores, if it stays as it is.
        columns, classes, strategy
            Fields of ``Surroundings``, for when there may be a drift.
        """
        cdef uint64_t mode = ds_enter_usual_mode()
        try:
            return self.followed(step, first_row, X, y, scores, scorer, (columns, classes, strategy))
        finally:
            ds_leave_usual_mode(mode)

    cdef Follower followed(
        self, int64_t step, int64_t first_row, object X, object y, object scores, object scorer, tuple around
    ):
        cdef Follower new = self.copied()
        cdef int64_t count = len(y), first
        if not scores.flags.c_contiguous:
            scores = scores.copy()
        if isinstance(X, tuple):
            X = new.add_sparse(first_row, X)
        try:
            new.append(first_row, step, 1, X, y, scores)
        except OtherKind:
            new.append(first_row, step, 1, X, y, new.widened(scores))
        new.rows = first_row + count
        if new.waiting[3] < LITTLE_ROWS:
            return new
        first = new.waiting[0]
        if scorer is not None and new.contest is None and not new.drifting:
            if not (new.v[AT_CUSUM] > 2.0 or new.v[AT_CUSUM + 1] > 2.0 or new.v[AT_CUSUM + 2] > 2.0):
                new.add_anchor(first_row, scorer)
        new.close_block()
        new.follow_block(around)
        if new.rows // ROWS_OF_ANCHOR > first // ROWS_OF_ANCHOR:
            new.weigh_classes()
        if new.rows // ROWS_OF_CHECK > first // ROWS_OF_CHECK and new.check_old() and new.old is not None:
            new.begin_contest(new.rows, row_number(new.rise[1]), (new.old,))
            new.restart_rise(new.rows)
        if new.rows // ROWS_OF_WINDOW > first // ROWS_OF_WINDOW:
            new.compare_inputs(around)
        return new

    cdef void restart_rise(self, int64_t row) noexcept:
        self.rise[0] = self.rise[2] = self.rise[3] = 0.0
        self.rise[1] = row

    cdef int add_anchor(self, int64_t first_row, object scorer) except -1:
        """Remember the model as it was before this step, from time to time."""
        if self.anchors and first_row < self.anchors[-1].row + ROWS_OF_ANCHOR:
            return 0
        anchor = self.frozen(first_row, scorer)
        if anchor is None:
            return 0
        self.anchors = (*self.anchors[1 - MOST_ANCHORS :], anchor)
        if self.old is None or (first_row - self.old.row >= ROWS_OF_OLD and self.rise[0] == 0.0):
            self.old = anchor
            self.restart_rise(first_row)
        return 0

    cdef double least_rows(self) noexcept:
        """Return on how many rows the usual loss has to be measured before a rise can be a sign."""
        if self.v[AT_RANGE] < 1.0:
            return larger(LEAST_OF_USUAL, LEAST_OF_RARE / (self.v[AT_RANGE] / 2.0))
        return LEAST_OF_USUAL

    cdef int64_t scan(self, const double* losses, const double* y, int64_t start, int64_t n) noexcept:
        return scan(losses, y, self.v, self.regression, start, n, self.least_rows(), ROWS_BETWEEN_SIGNS,
                    HALVING_ROWS * smaller(LONGEST_TIMES, 1.0 / self.v[AT_RANGE]))

    def scan_losses(self, losses, y, int64_t start=0):
        """Follow the losses of rows from number ``start`` on; return the row of a sign, or -1 (see ``scan``)."""
        cdef Buffers held
        cdef Py_ssize_t n = 0, m = 0
        cdef double* lost
        held.count = 0
        try:
            lost = reals(&held, losses, &n)
            known = reals(&held, y, &m)
            if m != n or start < 0:
                raise ValueError("losses and targets have different lengths")
            return self.scan(lost, known, start, n)
        finally:
            release(&held)

    cdef int follow_block(self, tuple around) except -1:
        """Scan the last block for a sign, bet on a frozen model from a sign on, and follow a drift."""
        cdef int64_t* mark = <int64_t*>self.memory.at(3, self.marks_stop - 1)
        cdef int64_t first = mark[0], n = mark[3], place = self.stop - n, at = 0, sign, i
        cdef double* y = <double*>self.memory.at(1, place)
        cdef double* scores = <double*>self.memory.at(2, place)
        cdef double* losses = NULL
        cdef double total = 0.0
        cdef double* v = self.v
        cdef int k, best
        try:
            while at < n:
                if self.drifting:
                    at = self.follow_drift(at, around)
                    if at <= 0:
                        raise ValueError("a drift must be followed")
                elif self.contest is not None:
                    at = self.bet_on_harm(first, place, at, min(n, at + ROWS_OF_BET), around)
                else:
                    if losses == NULL:
                        if self.regression and v[AT_SCALE] == 0.0:
                            for i in range(n):
                                total += fabs(scores[i] - y[i])
                            v[AT_SCALE] = larger(4.0 * total / n, 1e-300)  # the first rows give the unit
                        losses = <double*>malloc(n * sizeof(double))
                        if losses == NULL:
                            raise MemoryError
                        write_losses(scores, y, n, self.memory.outputs, self.regression, v, losses)
                    v[AT_ROW] = first
                    sign = self.scan(losses, y, at, n)
                    if sign < 0:
                        break
                    at, best = sign + 1, 0
                    for k in range(1, 3):
                        if v[AT_CUSUM + k] > v[AT_CUSUM + best]:
                            best = k
                    self.begin_contest(first + at, row_number(v[AT_SINCE + best]), self.anchors)
            return 0
        finally:
            free(losses)

    cdef int frozen_losses(self, object anchor, int64_t row, int64_t a, int64_t b, double* out) except -1:
        """Write the losses of a frozen model for the rows at places ``a`` to ``b``, or those of the learning model.

        ``row`` is the number of the first one. The losses are centred, so that their mean does not depend on how many
        rows a rare class has.
        """
        cdef Buffers held
        cdef Rows rows
        cdef MarginScorer linear
        cdef Py_ssize_t size = 0
        cdef int64_t n = b - a, outputs = self.memory.outputs, i
        cdef double* y = <double*>self.memory.at(1, a)
        cdef const double* scores = <double*>self.memory.at(2, a)
        cdef double[2] centres
        if n <= 0:
            return 0
        held.count = 0
        try:
            if anchor is not None:
                if isinstance(anchor.scorer, MarginScorer) and not self.parts:
                    linear = anchor.scorer
                    rows = self.memory.rows(a, b)
                    expect(linear.size == rows.d + 1)
                    ds_margins(rows, linear.w, out)
                    scores, outputs = out, 1
                else:
                    scores = reals(&held, self.scored(anchor, row, a, b), &size, -1)
                    expect(size >= n and size % n == 0)
                    outputs = size // n
            write_losses(scores, y, n, outputs, self.regression, self.v, out)
            if self.v[AT_RANGE] < 1.0:
                centres[0], centres[1] = centre(0.0, self.v), centre(1.0, self.v)
                for i in range(n):
                    out[i] += centres[y[i] > 0.5]
            return 0
        finally:
            release(&held)

    cdef double frozen_total(self, object anchor, int64_t lo, int64_t hi, int64_t* count) except? -1.0:
        """Return the sum of the losses of a frozen model from row ``lo`` to before ``hi``, and the number of rows."""
        cdef int64_t a = 0, b = 0, row = self.find(lo, hi, &a, &b)
        cdef double* losses
        count[0] = b - a
        losses = <double*>malloc((b - a) * sizeof(double))
        if losses == NULL and b > a:
            raise MemoryError
        try:
            self.frozen_losses(anchor, row, a, b, losses)
            return ds_pairwise_sum(losses, b - a)
        finally:
            free(losses)

    cdef int begin_contest(self, int64_t row, int64_t since, tuple anchors) except -1:
        """Bet from ``row`` on, on the model as it was before the suspected rise."""
        cdef double* v = self.v
        cdef double usual = v[AT_MEAN], weight = v[AT_WEIGHT], found = usual, bound, total, mean, best = INFINITY
        cdef double against = reference(usual, weight, self.regression, v), before
        cdef int64_t count = 0
        cdef int k
        since = max(since, self.marks()[0])
        for k in range(3):
            v[AT_CUSUM + k], v[AT_SINCE + k] = 0.0, row
        anchor = None
        for one in anchors:
            self.find(one.row, since, NULL, &count)
            if count > one.rows:
                total = self.frozen_total(one, one.row, since, &count)
                weight = count
            else:
                weight = one.rows
                total = one.total / (v[AT_SCALE] if self.regression else 1.0)
            if weight < ROWS_TO_TESTIFY:
                continue
            mean = total / weight
            bound = larger(mean, usual) + CHECKED_ERRORS * self.error(larger(mean, usual), weight)
            if bound < best or (bound == best and one.row > anchor.row):
                best, anchor, found = bound, one, mean
        if anchors:
            if anchor is None:
                return 0
            if found - usual > larger(self.smallest_rise * v[AT_RANGE], 3.0 * self.error(usual, ROWS_TO_TESTIFY)):
                self.old = None  # the model was still learning when it was frozen
                return 0
            usual, against = larger(usual, found), larger(against, best)
        self.contests += 1
        for k in range(BETS):
            self.bets[k] = 0.0
        before = usual
        total = self.frozen_total(anchor, since, row, &count)
        if count:
            before = total / count
        self.contest = self.new_contest(self.contests, since, row, anchor, usual, against, spread_of(v), before)
        return 0

    cdef int64_t bet_on_harm(self, int64_t first, int64_t place, int64_t at, int64_t stop, tuple around) except -1:
        """Bet on the losses of the frozen model until harm is proven; return where the block goes on."""
        cdef double* losses = <double*>malloc((stop - at) * sizeof(double))
        cdef int64_t n = stop - at, found
        cdef double number, rise
        cdef Terms terms
        if losses == NULL:
            raise MemoryError
        try:
            contest = self.contest
            number = contest.number
            rise = self.smallest_rise * (UNPROVEN if contest.anchor is None else 1.0)
            terms.needed = ds_log(PI * PI / 6.0 * (number * number) / self.drift_risk)
            terms.before, terms.most = contest.before, CONTESTED_ROWS
            terms.least = contest.usual + rise * self.v[AT_RANGE]
            self.frozen_losses(contest.anchor, first + at, place + at, place + stop, losses)
            found = self.bet_on(losses, 0, n, True, &terms)
            if found >= 0:
                if self.proves(first + at + found, around):
                    return at + found + 1
                found = self.bet_on(losses, found + 1, n, False, &terms)
            if found == -1:
                return stop
            self.contest = None
            if self.bets[5] >= terms.needed:  # only the frozen models are out of date
                self.anchors, self.old = (), None
            return at - 1 - found
        finally:
            free(losses)

    cdef int64_t bet_on(self, const double* losses, int64_t start, int64_t n, bint looks, const Terms* terms) except? -1:
        cdef Bet[3] bets
        bets_on(self.contest.reference, self.v, self.regression, bets)
        return bet_on_losses(losses, start, n, bets, self.contest.spread, looks, terms, self.bets)

    def bet_on_losses(self, losses, bint looks, double needed, double least):
        """Bet on losses of a contest; return the row that proves harm, -1, or -2 - the last row (``bet_on_losses``)."""
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef double* lost
        cdef Terms terms
        held.count = 0
        try:
            lost = reals(&held, losses, &n)
            terms.needed, terms.before, terms.least, terms.most = needed, self.contest.before, least, CONTESTED_ROWS
            return self.bet_on(lost, 0, n, looks, &terms)
        finally:
            release(&held)

    cdef bint check_old(self) except -1:
        """Compare the older frozen model with the usual loss; return whether that is a sign of drift."""
        cdef int64_t a = 0, b = 0, row, i
        cdef double* losses
        cdef double usual, gains = 0.0, total = 0.0, met = NAN, gain = 0.0
        cdef double* v = self.v
        cdef Bet made
        if self.old is None or self.contest is not None or self.drifting:
            return False
        row = self.find(max(self.rows - CHECKED_ROWS, self.old.row), self.rows, &a, &b)
        if b - a < CHECKED_ROWS or v[AT_WEIGHT] < larger(self.least_rows(), ROWS_OF_OLD / 2):
            return False
        losses = <double*>malloc((b - a) * sizeof(double))
        if losses == NULL:
            raise MemoryError
        try:
            self.frozen_losses(self.old, row, a, b, losses)
            usual = reference(v[AT_MEAN], v[AT_WEIGHT], self.regression, v)
            made = bet_on(usual, v, variance(usual, self.regression, v), 0)
            for i in range(b - a):
                total += losses[i]
                if losses[i] != met:
                    met = losses[i]
                    gain = ds_log1p(made.stake * (met - made.usual))
                gains += gain
        finally:
            free(losses)
        self.rise[0] += gains / spread_of(v)
        self.rise[2] += b - a
        self.rise[3] += total * (v[AT_SCALE] if self.regression else 1.0)
        gain = self.rise[0]
        if not gain > 0.0:
            self.old = self.old.checked(self.rise[2], self.rise[3])
            self.restart_rise(self.rows)
        return gain > larger(ds_log(ROWS_BETWEEN_SIGNS * made.gain), 3.0)

    cdef int weigh_classes(self) except -1:
        """Let errors of both classes count the same where one is rare; then the usual loss is measured again."""
        cdef double* v = self.v
        cdef double share
        if self.regression or self.memory.outputs != 1 or v[AT_WEIGHT] < LEAST_OF_USUAL:
            return 0
        if self.contest is not None or self.drifting or not weigh(v, BEGINNING_OF_RARE, END_OF_RARE, True):
            return 0
        share, v[AT_SHIFT] = v[AT_RANGE] / 2.0, 0.0
        if share < 0.5:
            v[AT_SHIFT] = ds_log(share / (1.0 - share)) * (1.0 if v[AT_CLASS] > v[AT_CLASS + 1] else -1.0)
        self.start_over(0.0, 0.0)
        return 0

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

    cdef int64_t find(self, int64_t lo, int64_t hi, int64_t* first, int64_t* stop) except -1:
        """Find the rows in blocks with numbers from ``lo`` to before ``hi``; return the first number.

        Writes the places ``first`` and ``stop``; without ``first`` the number of rows.
        """
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
        if a < 0:
            a = b = self.stop
        if first != NULL:
            first[0], stop[0] = a, b
        else:
            stop[0] = b - a
        return number

    def between(self, int64_t lo, int64_t hi):
        """Return the places of the rows in blocks with numbers from ``lo`` to before ``hi``, and the first number."""
        cdef int64_t a = 0, b = 0, number = self.find(lo, hi, &a, &b)
        return a, b, number

    def moments(self, int64_t a, int64_t b, out):
        """Write the mean of each column of the rows at places ``a`` to ``b``, and behind them the variances."""
        cdef Buffers held
        cdef Py_ssize_t n = 0
        cdef double* means
        cdef Rows rows
        held.count = 0
        if self.memory is None or not self.start <= a < b <= self.stop:
            raise IndexError("no such rows are held")
        try:
            means = real_out(&held, out, &n)
            rows = self.memory.rows(a, b)
            if n != 2 * rows.d:
                raise ValueError(f"expected room for {2 * rows.d} numbers")
            ds_column_moments(rows, means, means + rows.d)
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


def may_have_moved(before, window, double shift):
    """Return whether the mean of a column may differ by ``shift`` standard deviations from that of earlier windows.

    ``before`` has a line for each window, ``window`` is the last one: means of all columns, and their variances.
    """
    cdef Buffers held
    cdef Py_ssize_t n = 0, size = 0, lines, width, c, k
    cdef double* past
    cdef double* last
    cdef double usual, spread
    held.count = 0
    try:
        past = reals(&held, before, &size, 2)
        last = reals(&held, window, &n)
        lines, width = held.views[0].shape[0], n // 2
        expect(lines > 0 and size == lines * n and n == 2 * width)
        for c in range(width):
            usual = spread = 0.0
            for k in range(lines):
                usual += past[k * n + c]
                spread += past[k * n + width + c]
            # The sums of another order differ in their last digits.
            if fabs(last[c] - usual / lines) > shift * sqrt(spread / lines) * (1.0 - 1e-9) - 1e-300:
                return True
        return False
    finally:
        release(&held)
