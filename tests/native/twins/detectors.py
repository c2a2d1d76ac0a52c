"""The loops of the drift detectors in plain Python: each consumes values row by row and stops at the first drift.

``numbers`` is the memory of a detector, its level first; a window is a separate array, updated in place. A loop returns
the number of values that it consumed, and the numbers after them. NaN is consumed and changes nothing.
"""

from __future__ import annotations

import math
from typing import Any

STEADY, WARNING, DRIFT = 0.0, 1.0, 2.0
MOST_ROWS = 60
"""Rows of ADWIN's histogram. Row k holds buckets of 2**k values, so that no stream can fill them all."""
ROUNDING = 1e-9
"""Upper bound of the rounding error of the mean of a window."""
ABSURD = 1e3
"""A mean or root mean square that exceeds the newest values, and 1, by this factor comes from absurd values, which hide
every change after them."""
RECENT = 32.0
"""Number of the newest values of a window that the others are compared with."""
PROPORTION = 10.0
"""ADWIN clips a value to this multiple of the root mean square of its window, but never below 1."""


def _level(drift: Any, warning: Any) -> Any:
    if drift:
        return DRIFT
    return WARNING if warning else STEADY


def _share(x: Any) -> Any:
    return min(max(x, 0.0), 1.0)


# ---------------------------------------------------------------------------- error rates


def ddm(values: Any, numbers: Any, min_rows: Any, warning_level: Any, drift_level: Any) -> Any:
    """DDM: signal when the error rate p, plus its deviation s, rises well above its lowest value.

    The numbers are the level, the rows, the errors, and p_min and s_min where p + s was lowest.
    """
    level, rows, errors, p_min, s_min = numbers
    consumed = 0
    while consumed < values.shape[0] and level != DRIFT:
        x = values[consumed]
        consumed += 1
        if math.isnan(x):
            continue
        rows += 1.0
        errors += _share(x)
        if rows < min_rows:
            continue
        p = errors / rows
        s = math.sqrt(p * (1.0 - p) / rows)
        if p + s < p_min + s_min:
            p_min = p
            s_min = s
        level = _level(p + s > p_min + drift_level * s_min, p + s > p_min + warning_level * s_min)
    return consumed, (level, rows, errors, p_min, s_min)


def eddm(values: Any, numbers: Any, min_errors: Any, warning_level: Any, drift_level: Any) -> Any:
    """EDDM: signal when the distance between errors falls well below its largest value.

    The numbers are the level, the rows since the last error, the errors, the mean distance p and the sum of its squared
    deviations, and the largest p + 2 s.
    """
    level, distance, errors, p, squares, largest = numbers
    consumed = 0
    while consumed < values.shape[0] and level != DRIFT:
        x = values[consumed]
        consumed += 1
        if math.isnan(x):
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
        reach = p + 2.0 * math.sqrt(squares / errors)
        largest = max(largest, reach)
        level = _level(reach < drift_level * largest, reach < warning_level * largest)
    return consumed, (level, distance, errors, p, squares, largest)


# ---------------------------------------------------------------------------- sliding windows


def sliding_mean(values: Any, numbers: Any, buffer: Any, weights: Any, threshold: Any) -> Any:
    """MDDM and FHDDM: signal when the weighted accuracy of the last n rows falls below its best by the threshold.

    The numbers are the level, the filled length of ``buffer``, and the best mean.

    Every mean is summed over the whole window, so that no rounding error is carried on. Two tricks make this fast.
    First, ``buffer`` has room for two windows. The window is its filled end, always in one piece, and is moved to the
    front once in n rows. Second, most rows need no mean: ``weights`` sum to 1 and are increasing, so one row moves the
    mean by at most the last weight. After a mean has been computed, it is known for how many rows the next means can
    neither exceed the best nor fall below it by more than the threshold.
    """
    level, filled, best = numbers
    n = weights.shape[0]
    end = int(filled)
    known = 0  # rows that need no mean
    consumed = 0
    while consumed < values.shape[0] and level != DRIFT:
        x = values[consumed]
        consumed += 1
        if math.isnan(x):
            continue
        if end == buffer.shape[0]:
            for k in range(n - 1):
                buffer[k] = buffer[n + 1 + k]
            end = n - 1
        buffer[end] = 1.0 - _share(x)
        end += 1
        if known > 0:
            known -= 1
            continue
        if end < n:
            continue
        mean = 0.0
        for k in range(n):
            mean += weights[k] * buffer[end - n + k]
        if mean > best:
            best = mean if mean < 1.0 - ROUNDING else 1.0
        fall = best - mean
        if fall > threshold:
            level = DRIFT
        rise = fall if best < 1.0 else threshold  # no mean can exceed a best of 1
        known = int((min(rise, threshold - fall) - ROUNDING) / weights[n - 1])
    return consumed, (level, float(end), best)


# ---------------------------------------------------------------------------- real values


def page_hinkley(values: Any, numbers: Any, min_rows: Any, delta: Any, threshold: Any, alpha: Any) -> Any:
    """Page-Hinkley: signal when the cumulative deviation above the mean exceeds a threshold.

    The numbers are the level, the rows, their mean, the faded sum of deviations above it, and the size of the newest
    values, which is halved with each row.
    """
    level, rows, mean, total, size = numbers
    consumed = 0
    while consumed < values.shape[0] and level != DRIFT:
        x = values[consumed]
        consumed += 1
        if math.isnan(x):
            continue
        size = max(abs(x), 0.5 * size)
        if abs(mean) > ABSURD * max(1.0, size):  # one value of 1e9 would hide every later change
            rows = 0.0
            mean = 0.0
            total = 0.0
        rows += 1.0
        mean += (x - mean) / rows
        total = max(0.0, alpha * total + (x - mean - delta))
        if rows >= min_rows and total > threshold:
            level = DRIFT
    return consumed, (level, rows, mean, total, size)


def _insert(buckets: Any, x: Any) -> None:
    """Add a bucket for x; in each row that has one bucket too many, merge the two oldest into one of the next row."""
    sums, squares, counts = buckets
    row = 0
    size = 1.0
    total = x
    spread = 0.0
    while True:
        k = counts[row]
        sums[row, k] = total
        squares[row, k] = spread
        counts[row] = k + 1
        if k + 1 < sums.shape[1]:
            return
        total = sums[row, 0] + sums[row, 1]
        # Squared deviations of the union: those of both parts, and that of their means from the common mean.
        apart = (sums[row, 0] - sums[row, 1]) / size
        spread = squares[row, 0] + squares[row, 1] + 0.5 * size * apart * apart
        counts[row] = k - 1
        for j in range(k - 1):
            sums[row, j] = sums[row, j + 2]
            squares[row, j] = squares[row, j + 2]
        row += 1
        size *= 2.0


def _drop_oldest(buckets: Any, top: Any) -> Any:
    """Drop the oldest bucket, the first one of row ``top``; return the last row that is not empty."""
    sums, squares, counts = buckets
    counts[top] -= 1
    for j in range(counts[top]):
        sums[top, j] = sums[top, j + 1]
        squares[top, j] = squares[top, j + 1]
    return top if counts[top] > 0 else top - 1


def _measure(buckets: Any, top: Any) -> Any:
    """Return count, sum and sum of squared deviations of the buckets in rows 0 to ``top``.

    In two passes, because a sum of squares minus the square of the sum would cancel.
    """
    sums, squares, counts = buckets
    n = 0.0
    total = 0.0
    size = 1.0
    for row in range(top + 1):
        n += size * counts[row]
        for k in range(counts[row]):
            total += sums[row, k]
        size *= 2.0
    spread = 0.0
    size = 1.0
    for row in range(top + 1):
        for k in range(counts[row]):
            apart = sums[row, k] / size - total / n
            spread += squares[row, k] + size * apart * apart
        size *= 2.0
    return n, total, spread


def _proportionate(buckets: Any, x: Any) -> Any:
    """Return x, clipped if it is out of proportion to a window of at least 32 values, where it would hide changes."""
    if abs(x) <= 1.0:
        return x
    counts = buckets[2]
    top = 0
    while counts[top + 1] > 0:
        top += 1
    n, total, spread = _measure(buckets, top)
    if n < RECENT:
        return x
    most = max(1.0, PROPORTION * math.sqrt((spread + total * total / n) / n))
    return min(max(x, -most), most)


def _differ(buckets: Any, top: Any, whole: Any, delta: Any, min_length: Any) -> Any:
    """Return whether the older and the newer values differ in their means at some boundary between buckets.

    ADWIN's bound needs divisions and a root for every boundary. As m is never below n / (n0 n1), most boundaries are
    ruled out more cheaply: their squared difference does not even exceed 2 v ln(2 ln(n) / delta) n / (n0 n1).
    """
    sums, _, counts = buckets
    n, total, spread = whole
    if n <= 2.0 * min_length:
        return False
    confidence = math.log(2.0 * math.log(n) / delta)
    mean = total / n
    least = 2.0 * (spread / n) * confidence / n * (1.0 - ROUNDING)
    n0 = 0.0
    sum0 = 0.0
    size = 2.0**top
    for row in range(top, -1, -1):
        for k in range(counts[row]):
            n0 += size
            sum0 += sums[row, k]
            n1 = n - n0
            gap = sum0 - n0 * mean
            if n0 >= min_length and n1 >= min_length and gap * gap > least * n0 * n1:
                m = 1.0 / (n0 - min_length + 1.0) + 1.0 / (n1 - min_length + 1.0)
                cut = math.sqrt(2.0 * m * (spread / n) * confidence) + 2.0 / 3.0 * confidence * m
                if abs(sum0 / n0 - (total - sum0) / n1) > cut:
                    return True
        size /= 2.0
    return False


def _drop_absurd(buckets: Any, top: Any, whole: Any) -> None:
    """Drop all but the newest values of a window whose older values are out of proportion to them.

    One value of 1e9 among the first makes the variance so large that no change is significant. The value cannot be told
    apart from the others in its bucket, so everything that is older than the newest 32 values is dropped.
    """
    sums, squares, counts = buckets
    n, total, spread = whole
    kept = 0.0
    power = 0.0
    size = 1.0
    for row in range(top + 1):
        for k in range(counts[row] - 1, -1, -1):
            if kept < RECENT:
                kept += size
                power += squares[row, k] + sums[row, k] * sums[row, k] / size
        size *= 2.0
    if (spread + total * total / n) / n > ABSURD * ABSURD * max(1.0, power / kept):
        while n > kept and top >= 0:  # beyond 2**53 values, n is rounded
            n -= 2.0**top
            top = _drop_oldest(buckets, top)


def adwin(values: Any, numbers: Any, buckets: Any, delta: Any, clock: Any, min_length: Any, increase_only: Any) -> Any:
    """ADWIN: cut the window where its older and its newer part have different means; signal when it was cut.

    The numbers are the level, and the values since the last check. ``buckets`` is (sums, sums of squared deviations,
    buckets in each row). Row k holds buckets of 2**k values, the oldest first, and lower rows are newer. Each check
    computes count, mean and variance from the buckets again, so that dropped values leave no rounding error behind.
    """
    counts = buckets[2]
    level, waiting = numbers
    consumed = 0
    while consumed < values.shape[0] and level != DRIFT:
        x = values[consumed]
        consumed += 1
        if math.isnan(x):
            continue
        _insert(buckets, _proportionate(buckets, x))
        waiting += 1.0
        if waiting < clock:
            continue
        waiting = 0.0
        top = 0
        while counts[top + 1] > 0:
            top += 1
        whole = _measure(buckets, top)
        before = whole
        while _differ(buckets, top, whole, delta, min_length):
            top = _drop_oldest(buckets, top)
            whole = _measure(buckets, top)
        if whole[0] < before[0] and not (increase_only and whole[1] / whole[0] <= before[1] / before[0]):
            level = DRIFT
        _drop_absurd(buckets, top, whole)
    return consumed, (level, waiting)
