"""Loops of the drift detectors: each consumes values row by row and stops at the first drift.

``numbers`` is the memory of a detector, its level first; a window is a separate array, updated in place. A loop returns
the number of values that it consumed, and the numbers after them. NaN is consumed and changes nothing.
"""

from driftsurf.native.buffers cimport Buffers, integer_out, real_out, reals, release
from driftsurf.native.gil cimport let_go, take_back
from libc.math cimport fabs, sqrt
from libc.stdint cimport int64_t


cdef extern from "ds_math.h" nogil:
    double ds_log(double x) noexcept


cdef enum:
    ROWS = 60
    MOST_NUMBERS = 6
    LANES = 8

cdef double CALM = 0.0, WARNED = 1.0, DRIFTED = 2.0
STEADY, WARNING, DRIFT = CALM, WARNED, DRIFTED
MOST_ROWS = ROWS
"""Rows of ADWIN's histogram. Row k holds buckets of 2**k values, so that no stream can fill them all."""
cdef double ROUNDING = 1e-9
"""Upper bound of the rounding error of the mean of a window."""
cdef double ABSURD = 1e3
"""A mean or root mean square that exceeds the newest values, and 1, by this factor comes from absurd values, which hide
every change after them."""
cdef double RECENT = 32.0
"""Number of the newest values of a window that the others are compared with."""
cdef double PROPORTION = 10.0
"""ADWIN clips a value to this multiple of the root mean square of its window, but never below 1."""


ctypedef Py_ssize_t (*Loop)(const double* values, Py_ssize_t n, double* numbers, const double* options) noexcept nogil


cdef tuple consume(values, tuple numbers, int count, Loop loop, const double* options):
    """Run a loop over values, from the numbers of a detector on; return the values consumed, and the numbers."""
    cdef double now[MOST_NUMBERS]
    cdef Py_ssize_t n = 0, consumed
    cdef Buffers held
    held.count = 0
    unpack(numbers, count, now)
    try:
        x = reals(&held, values, &n)
        saved = let_go(n)
        consumed = loop(x, n, now, options)
        take_back(saved)
    finally:
        release(&held)
    return consumed, packed(now, count)


cdef int unpack(tuple numbers, int count, double* out) except -1:
    """Copy the numbers of a detector."""
    cdef int k
    if len(numbers) != count:
        raise ValueError(f"expected {count} numbers, got {len(numbers)}")
    for k in range(count):
        out[k] = numbers[k]
    return 0


cdef tuple packed(const double* numbers, int count):
    """Return the numbers of a detector as a tuple."""
    cdef int k
    return tuple([numbers[k] for k in range(count)])


cdef inline double larger(double a, double b) noexcept nogil:
    return b if b > a else a


cdef inline double smaller(double a, double b) noexcept nogil:
    return b if b < a else a


cdef inline double share(double x) noexcept nogil:
    return smaller(larger(x, 0.0), 1.0)


cdef inline double level_of(bint drift, bint warning) noexcept nogil:
    if drift:
        return DRIFTED
    return WARNED if warning else CALM


# ---------------------------------------------------------------------------- error rates


def ddm(values, tuple numbers, int64_t min_rows, double warning_level, double drift_level):
    """DDM: signal when the error rate p, plus its deviation s, rises well above its lowest value.

    The numbers are the level, the rows, the errors, and p_min and s_min where p + s was lowest.
    """
    cdef double[3] options
    options[0], options[1], options[2] = min_rows, warning_level, drift_level
    return consume(values, numbers, 5, ddm_loop, options)


cdef Py_ssize_t ddm_loop(const double* values, Py_ssize_t n, double* numbers, const double* options) noexcept nogil:
    cdef double min_rows = options[0], warning_level = options[1], drift_level = options[2]
    cdef double level = numbers[0], rows = numbers[1], errors = numbers[2], p_min = numbers[3], s_min = numbers[4]
    cdef double x, p, s
    cdef Py_ssize_t consumed = 0
    while consumed < n and level != DRIFTED:
        x = values[consumed]
        consumed += 1
        if x != x:
            continue
        rows += 1.0
        errors += share(x)
        if rows < min_rows:
            continue
        p = errors / rows
        s = sqrt(p * (1.0 - p) / rows)
        if p + s < p_min + s_min:
            p_min = p
            s_min = s
        level = level_of(p + s > p_min + drift_level * s_min, p + s > p_min + warning_level * s_min)
    numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] = level, rows, errors, p_min, s_min
    return consumed


def eddm(values, tuple numbers, int64_t min_errors, double warning_level, double drift_level):
    """EDDM: signal when the distance between errors falls well below its largest value.

    The numbers are the level, the rows since the last error, the errors, the mean distance p and the sum of its squared
    deviations, and the largest p + 2 s.
    """
    cdef double[3] options
    options[0], options[1], options[2] = min_errors, warning_level, drift_level
    return consume(values, numbers, 6, eddm_loop, options)


cdef Py_ssize_t eddm_loop(const double* values, Py_ssize_t n, double* numbers, const double* options) noexcept nogil:
    cdef double min_errors = options[0], warning_level = options[1], drift_level = options[2]
    cdef double level = numbers[0], distance = numbers[1], errors = numbers[2]
    cdef double p = numbers[3], squares = numbers[4], largest = numbers[5]
    cdef double x, before, reach
    cdef Py_ssize_t consumed = 0
    while consumed < n and level != DRIFTED:
        x = values[consumed]
        consumed += 1
        if x != x:
            continue
        distance += 1.0
        if x <= 0.5:
            continue
        errors += 1.0
        before = distance - p  # Welford's update of mean and squared deviations
        p += before / errors
        squares += before * (distance - p)
        distance = 0.0
        if errors < min_errors:
            continue
        reach = p + 2.0 * sqrt(squares / errors)
        largest = larger(largest, reach)
        level = level_of(reach < drift_level * largest, reach < warning_level * largest)
    numbers[0], numbers[1], numbers[2] = level, distance, errors
    numbers[3], numbers[4], numbers[5] = p, squares, largest
    return consumed


# ---------------------------------------------------------------------------- sliding windows


def sliding_mean(values, tuple numbers, buffer, weights, double threshold):
    """MDDM and FHDDM: signal when the weighted accuracy of the last n rows falls below its best by the threshold.

    The numbers are the level, the filled length of ``buffer``, and the best mean.

    Every mean is summed over the whole window, so that no rounding error is carried on. Two tricks make this fast.
    First, ``buffer`` has room for two windows. The window is its filled end, always in one piece, and is moved to the
    front once in n rows. Second, most rows need no mean: ``weights`` sum to 1 and are increasing, so one row moves the
    mean by at most the last weight. After a mean has been computed, it is known for how many rows the next means can
    neither exceed the best nor fall below it by more than the threshold.
    """
    cdef double now[MOST_NUMBERS]
    cdef Py_ssize_t n = 0, room = 0, window = 0, consumed
    cdef Buffers held
    held.count = 0
    unpack(numbers, 3, now)
    try:
        x = reals(&held, values, &n)
        rows = real_out(&held, buffer, &room)
        w = reals(&held, weights, &window)
        if window < 1 or room != 2 * window or not 0.0 <= now[1] <= room:
            raise ValueError(f"a window of {window} values, with room for {room}, cannot have {now[1]}")
        saved = let_go(n)
        consumed = sliding_mean_loop(x, n, now, rows, w, window, threshold)
        take_back(saved)
    finally:
        release(&held)
    return consumed, packed(now, 3)


cdef double mean_of(const double* weights, const double* values, Py_ssize_t n) noexcept nogil:
    cdef double s[LANES]
    cdef Py_ssize_t k = 0
    cdef int lane
    for lane in range(LANES):
        s[lane] = 0.0
    while k + LANES <= n:
        for lane in range(LANES):
            s[lane] += weights[k + lane] * values[k + lane]
        k += LANES
    for lane in range(<int>(n - k)):
        s[lane] += weights[k + lane] * values[k + lane]
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))


cdef Py_ssize_t sliding_mean_loop(
    const double* values, Py_ssize_t size, double* numbers, double* buffer, const double* weights, Py_ssize_t n,
    double threshold,
) noexcept nogil:
    cdef double level = numbers[0], best = numbers[2]
    cdef Py_ssize_t end = <Py_ssize_t>numbers[1]
    cdef double known = 0.0  # rows that need no mean
    cdef double x, mean, fall, rise
    cdef Py_ssize_t consumed = 0, k
    while consumed < size and level != DRIFTED:
        x = values[consumed]
        consumed += 1
        if x != x:
            continue
        if end == 2 * n:
            for k in range(n - 1):
                buffer[k] = buffer[n + 1 + k]
            end = n - 1
        buffer[end] = 1.0 - share(x)
        end += 1
        if known >= 1.0:
            known -= 1.0
            continue
        if end < n:
            continue
        mean = mean_of(weights, buffer + (end - n), n)
        if mean > best:
            best = mean if mean < 1.0 - ROUNDING else 1.0
        fall = best - mean
        if fall > threshold:
            level = DRIFTED
        rise = fall if best < 1.0 else threshold  # no mean can exceed a best of 1
        known = (smaller(rise, threshold - fall) - ROUNDING) / weights[n - 1]
    numbers[0], numbers[1], numbers[2] = level, <double>end, best
    return consumed


# ---------------------------------------------------------------------------- real values


def page_hinkley(values, tuple numbers, int64_t min_rows, double delta, double threshold, double alpha):
    """Page-Hinkley: signal when the cumulative deviation above the mean exceeds a threshold.

    The numbers are the level, the rows, their mean, the faded sum of deviations above it, and the size of the newest
    values, which is halved with each row.
    """
    cdef double[4] options
    options[0], options[1], options[2], options[3] = min_rows, delta, threshold, alpha
    return consume(values, numbers, 5, page_hinkley_loop, options)


cdef Py_ssize_t page_hinkley_loop(const double* values, Py_ssize_t n, double* numbers, const double* options) noexcept nogil:
    cdef double min_rows = options[0], delta = options[1], threshold = options[2], alpha = options[3]
    cdef double level = numbers[0], rows = numbers[1], mean = numbers[2], total = numbers[3], size = numbers[4]
    cdef double x
    cdef Py_ssize_t consumed = 0
    while consumed < n and level != DRIFTED:
        x = values[consumed]
        consumed += 1
        if x != x:
            continue
        size = larger(fabs(x), 0.5 * size)
        if fabs(mean) > ABSURD * larger(1.0, size):  # one value of 1e9 would hide every later change
            rows = 0.0
            mean = 0.0
            total = 0.0
        rows += 1.0
        mean += (x - mean) / rows
        total = larger(0.0, alpha * total + (x - mean - delta))
        if rows >= min_rows and total > threshold:
            level = DRIFTED
    numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] = level, rows, mean, total, size
    return consumed


cdef struct Buckets:
    # Row k holds ``counts[k]`` buckets of 2**k values, the oldest first; ``width`` is the room of a row.
    double* sums
    double* squares
    int64_t* counts
    Py_ssize_t width


cdef struct Whole:
    double n
    double total
    double spread


cdef struct Checks:
    double delta
    int64_t clock
    int64_t min_length
    bint increase_only


cdef inline double power_of_2(Py_ssize_t row) noexcept nogil:
    return <double>(<int64_t>1 << row)


cdef inline Py_ssize_t last_row(const Buckets* b) noexcept nogil:
    """Return the last row that is not empty."""
    cdef Py_ssize_t top = 0
    while top + 1 < ROWS and b.counts[top + 1] > 0:
        top += 1
    return top


cdef void insert(Buckets* b, double x) noexcept nogil:
    """Add a bucket for x; in each row that has one bucket too many, merge the two oldest into one of the next row."""
    cdef double* sums = b.sums
    cdef double* squares = b.squares
    cdef double size = 1.0, total = x, spread = 0.0, apart
    cdef Py_ssize_t row, k, j
    for row in range(ROWS):
        k = b.counts[row]
        sums[k] = total
        squares[k] = spread
        b.counts[row] = k + 1
        if k + 1 < b.width:
            return
        total = sums[0] + sums[1]
        # Squared deviations of the union: those of both parts, and that of their means from the common mean.
        apart = (sums[0] - sums[1]) / size
        spread = squares[0] + squares[1] + 0.5 * size * apart * apart
        b.counts[row] = k - 1
        for j in range(k - 1):
            sums[j] = sums[j + 2]
            squares[j] = squares[j + 2]
        sums += b.width
        squares += b.width
        size *= 2.0


cdef Py_ssize_t drop_oldest(Buckets* b, Py_ssize_t top) noexcept nogil:
    """Drop the oldest bucket, the first one of row ``top``; return the last row that is not empty."""
    cdef double* sums = b.sums + top * b.width
    cdef double* squares = b.squares + top * b.width
    cdef Py_ssize_t j
    b.counts[top] -= 1
    for j in range(b.counts[top]):
        sums[j] = sums[j + 1]
        squares[j] = squares[j + 1]
    return top if b.counts[top] > 0 else top - 1


cdef Whole measure(const Buckets* b, Py_ssize_t top) noexcept nogil:
    """Return count, sum and sum of squared deviations of the buckets in rows 0 to ``top``.

    In two passes, because a sum of squares minus the square of the sum would cancel.
    """
    cdef Whole whole
    cdef double n = 0.0, total = 0.0, spread = 0.0, size = 1.0, apart
    cdef Py_ssize_t row, k
    for row in range(top + 1):
        n += size * b.counts[row]
        for k in range(b.counts[row]):
            total += b.sums[row * b.width + k]
        size *= 2.0
    size = 1.0
    for row in range(top + 1):
        for k in range(b.counts[row]):
            apart = b.sums[row * b.width + k] / size - total / n
            spread += b.squares[row * b.width + k] + size * apart * apart
        size *= 2.0
    whole.n, whole.total, whole.spread = n, total, spread
    return whole


cdef double proportionate(const Buckets* b, double x) noexcept nogil:
    """Return x, clipped if it is out of proportion to a window of at least 32 values, where it would hide changes."""
    cdef Whole whole
    cdef double most
    if fabs(x) <= 1.0:
        return x
    whole = measure(b, last_row(b))
    if whole.n < RECENT:
        return x
    most = larger(1.0, PROPORTION * sqrt((whole.spread + whole.total * whole.total / whole.n) / whole.n))
    return smaller(larger(x, -most), most)


cdef bint differ(const Buckets* b, Py_ssize_t top, Whole whole, double delta, double min_length) noexcept nogil:
    """Return whether the older and the newer values differ in their means at some boundary between buckets.

    ADWIN's bound needs divisions and a root for every boundary. As m is never below n / (n0 n1), most boundaries are
    ruled out more cheaply: their squared difference does not even exceed 2 v ln(2 ln(n) / delta) n / (n0 n1).
    """
    cdef double n = whole.n, total = whole.total, spread = whole.spread
    cdef double confidence, mean, least, n0 = 0.0, n1, sum0 = 0.0, gap, m, cut, size
    cdef Py_ssize_t row, k
    if n <= 2.0 * min_length:
        return False
    confidence = ds_log(2.0 * ds_log(n) / delta)
    mean = total / n
    least = 2.0 * (spread / n) * confidence / n * (1.0 - ROUNDING)
    size = power_of_2(top)
    for row in range(top, -1, -1):
        for k in range(b.counts[row]):
            n0 += size
            sum0 += b.sums[row * b.width + k]
            n1 = n - n0
            gap = sum0 - n0 * mean
            if n0 >= min_length and n1 >= min_length and gap * gap > least * n0 * n1:
                m = 1.0 / (n0 - min_length + 1.0) + 1.0 / (n1 - min_length + 1.0)
                cut = sqrt(2.0 * m * (spread / n) * confidence) + 2.0 / 3.0 * confidence * m
                if fabs(sum0 / n0 - (total - sum0) / n1) > cut:
                    return True
        size /= 2.0
    return False


cdef void drop_absurd(Buckets* b, Py_ssize_t top, Whole whole) noexcept nogil:
    """Drop all but the newest values of a window whose older values are out of proportion to them.

    One value of 1e9 among the first makes the variance so large that no change is significant. The value cannot be told
    apart from the others in its bucket, so everything that is older than the newest 32 values is dropped.
    """
    cdef double n = whole.n, kept = 0.0, power = 0.0, size = 1.0, total
    cdef Py_ssize_t row, k
    for row in range(top + 1):
        for k in range(b.counts[row] - 1, -1, -1):
            if kept < RECENT:
                kept += size
                total = b.sums[row * b.width + k]
                power += b.squares[row * b.width + k] + total * total / size
        size *= 2.0
    if (whole.spread + whole.total * whole.total / n) / n > ABSURD * ABSURD * larger(1.0, power / kept):
        while n > kept and top >= 0:  # beyond 2**53 values, n is rounded
            n -= power_of_2(top)
            top = drop_oldest(b, top)


def adwin(values, tuple numbers, tuple buckets, double delta, int64_t clock, int64_t min_length, bint increase_only):
    """ADWIN: cut the window where its older and its newer part have different means; signal when it was cut.

    The numbers are the level, and the values since the last check. ``buckets`` is (sums, sums of squared deviations,
    buckets in each row). Row k holds buckets of 2**k values, the oldest first, and lower rows are newer. Each check
    computes count, mean and variance from the buckets again, so that dropped values leave no rounding error behind.
    """
    cdef double now[MOST_NUMBERS]
    cdef Py_ssize_t n = 0, places = 0, others = 0, rows = 0, consumed, row
    cdef Buckets b
    cdef Checks checks
    cdef Buffers held
    held.count = 0
    unpack(numbers, 2, now)
    checks.delta, checks.clock, checks.min_length, checks.increase_only = delta, clock, min_length, increase_only
    try:
        x = reals(&held, values, &n)
        b.sums = real_out(&held, buckets[0], &places, 2)
        b.squares = real_out(&held, buckets[1], &others, 2)
        b.counts = integer_out(&held, buckets[2], &rows)
        b.width = places // ROWS
        if rows != ROWS or others != places or places % ROWS or b.width < 3:
            raise ValueError(f"{rows} rows cannot have {places} places for buckets")
        for row in range(ROWS):
            if not 0 <= b.counts[row] < b.width:
                raise ValueError(f"a row of {b.width - 1} buckets cannot have {b.counts[row]}")
        saved = let_go(n)
        consumed = adwin_loop(x, n, now, &b, &checks)
        take_back(saved)
    finally:
        release(&held)
    return consumed, packed(now, 2)


cdef Py_ssize_t adwin_loop(
    const double* values, Py_ssize_t n, double* numbers, Buckets* b, const Checks* checks
) noexcept nogil:
    cdef double level = numbers[0], waiting = numbers[1]
    cdef double x
    cdef Py_ssize_t consumed = 0, top
    cdef Whole whole, before
    while consumed < n and level != DRIFTED:
        x = values[consumed]
        consumed += 1
        if x != x:
            continue
        insert(b, proportionate(b, x))
        waiting += 1.0
        if waiting < checks.clock:
            continue
        waiting = 0.0
        top = last_row(b)
        whole = measure(b, top)
        before = whole
        while differ(b, top, whole, checks.delta, <double>checks.min_length):
            top = drop_oldest(b, top)
            whole = measure(b, top)
        if whole.n < before.n and not (checks.increase_only and whole.total / whole.n <= before.total / before.n):
            level = DRIFTED
        drop_absurd(b, top, whole)
    numbers[0], numbers[1] = level, waiting
    return consumed
