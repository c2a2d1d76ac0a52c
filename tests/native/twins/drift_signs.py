"""The loops of the detection of drifts in plain Python: the slow twin of ``driftsurf.native.monitor``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MARGINS, NUMBERS, LOSSES = 0, 1, 2
"""What the scores are: log-odds of the second of two classes, predicted numbers, or losses."""
WEIGHT, MEAN, SCALE, BLOCK, BLOCK_SUM, SPREAD, SPREADS, ROW, SHIFT, LOW, HIGH, SQUARES, RANGE = range(13)
CUSUM, SINCE = 13, 16
CLASS = 19
RUN, RUN_SUM, RUNS, RUN_MEANS, RUN_SQUARES, NEAR, NEARS = range(21, 28)
SECOND = 28
VALUES = 29
"""Places in the values of a scan: weight and mean of the usual loss; the unit of residuals; rows and sum of the open
block of rows, variance of such blocks as a share of that of independent rows, and its weight; the number of the next
row; the threshold of log-odds, and the weights of the two classes; the mean squared loss; the largest mean loss;
for each alternative the CUSUM and the row since which it is positive; the rows of the two classes; rows and sum of the
open run of rows, number, sum and sum of squares of the means of runs, how much they vary within a block as a share of
those of independent rows, and the weight of that; the part of the usual loss that comes from rows of the second class.
"""
ALTERNATIVES = 0.04, 0.12, 0.4
"""Rises of the mean loss for which the CUSUM is made, as shares of what is possible."""
LEAST_FACTORS = 1.1, 1.4, 2.0
"""Least factors of the same rises."""
PART, PART_SUM, PART_SQUARES, PART_ONES, CAPITALS = 29, 30, 31, 32, 33
CONTEST, CONTESTS, BET_ROWS, BET_TOTAL, HIGHEST, PROVEN, LABELS, OTHERS = 36, 37, 38, 39, 40, 41, 42, 44
JUDGED = 45
"""Further places in the values of a model that is judged itself, of which no rows are held: rows and sums since the
usual loss was measured; the logarithms of the three capitals; whether there is a contest; contests so far; rows of the
contest and the sum of their losses; the largest logarithm of the mean capital; 1 + the row with which harm was proven;
the first two labels that came; and how many rows had another one."""
BLOCK_ROWS, RUN_ROWS, BLOCK_RUNS = 200.0, 40.0, 5.0
"""Rows of a block and of a run, and runs of a block."""
PART_ROWS = 50.0
"""Rows after which the usual loss of a model that is judged itself is measured again."""
LARGEST_RATIO = 9.0
"""A block whose mean is further than three standard errors from the usual one counts as three."""


def loss_of(mode: Any, score: Any, target: Any, v: Any) -> Any:
    """Return the loss of a row, from 0 to 1."""
    if mode == MARGINS:
        wrong = (score > v[SHIFT]) != (target > 0.5)
        return (v[HIGH] if target > 0.5 else v[LOW]) if wrong else 0.0
    if mode == NUMBERS:
        return min(abs(score - target) / v[SCALE], 1.0)
    return score


def variance_of(mean: Any, mode: Any, v: Any) -> Any:
    """Return the variance of losses with a mean, as if they were the usual ones, larger or more frequent."""
    if v[MEAN] <= 0.0 or v[SQUARES] <= 0.0:
        return max(mean * (1.0 - mean), 1e-6)
    ratio = mean / v[MEAN]
    if mode == NUMBERS:
        return max(v[SQUARES] - v[MEAN] * v[MEAN], 0.01 * v[MEAN] * v[MEAN]) * ratio * ratio
    # Half of the mean is that of two classes with the same error, of which the rare one may have had no wrong row yet.
    return max(max(v[SQUARES] * ratio, 0.5 * mean) - mean * mean, 1e-6)


def bet(mean: Any, v: Any, variance: Any, place: Any) -> Any:
    """Return a usual mean loss, the stake on an alternative to it, and by how much the capital then grows in a row.

    The capital is multiplied by 1 + stake * (loss - mean) in each row. If nothing has changed, its expectation does not
    grow, whatever the distribution of the losses. For losses of 0 or 1, the stake makes this their likelihood ratio. If
    they vary less (``variance``), it is larger: as large as the growth under the alternative asks for.
    """
    usual = min(max(mean, 1e-4), 0.98)
    shares = (0.04, 0.12, 0.4)
    factors = (1.1, 1.4, 2.0)
    risen = min(max(usual + shares[place] * max(v[RANGE] - usual, 0.0), usual * factors[place]), 0.995)
    rise, whole = risen - usual, usual * (1.0 - usual)
    if v[RANGE] == 1.0 and variance >= 0.99 * whole:
        low, high = math.log((1.0 - risen) / (1.0 - usual)), math.log(risen / usual)
        return usual, rise / whole, risen * high + (1.0 - risen) * low
    stake = min(rise / (variance + rise * rise), largest_stake(usual, v))
    return usual, stake, stake * rise - 0.5 * stake * stake * (variance + rise * rise)


def centre_of(target: Any, v: Any) -> Any:
    """Return what is added to the loss of a row, so that its mean does not depend on how many rows a class has.

    Where one of two classes is rare, the number of its rows varies much more than the share of them that is wrong.
    """
    rows = v[CLASS] + v[CLASS + 1]
    own = v[CLASS + 1] if target > 0.5 else v[CLASS]
    if v[RANGE] == 1.0 or own <= 0.0:
        return 0.0
    part = v[SECOND] if target > 0.5 else v[MEAN] - v[SECOND]
    return v[MEAN] - part * rows / own


def largest_stake(bound: Any, v: Any) -> Any:
    """Return the largest stake with which a row cannot lose more than nine tenths of the capital."""
    return 0.9 / (bound - min(0.0, centre_of(0.0, v), centre_of(1.0, v)))


def growth(loss: Any, usual: Any, stake: Any, low: Any, high: Any) -> Any:
    """Return about the logarithm of what a row multiplies the capital by; ``low`` and ``high`` are those of 0 and 1."""
    if loss == 0.0:
        return low
    if loss == 1.0:
        return high
    z = stake * (loss - usual)
    return z * (6.0 + z) / (6.0 + 4.0 * z)  # within 2 % of the logarithm from -0.5 to 1.5, and a third of its time


def log_mean(first: Any, second: Any, third: Any) -> Any:
    """Return the logarithm of the mean of three capitals, of which the logarithms are given."""
    top = max(first, second, third)
    return top + math.log((math.exp(first - top) + math.exp(second - top) + math.exp(third - top)) / 3.0)


def is_hopeless(rows: Any, capital: Any, most: Any) -> Any:
    """Return whether the rows of a contest look as usual, or are more than there may be."""
    return (rows >= 150.0 and capital < -3.0) or (rows >= 800.0 and capital < 0.0) or rows > most


def follow_unit(v: Any, mean: Any, rows: Any) -> Any:
    """Let the unit of residuals follow them, so that the mean loss is about a quarter; known losses change with it."""
    factor = max(0.5, min(2.0, mean / 0.22)) ** (0.1 * min(rows / 200.0, 1.0))
    v[SCALE] *= factor
    v[MEAN] /= factor
    v[BLOCK_SUM] /= factor
    v[RUN_SUM] /= factor
    v[RUN_MEANS] /= factor
    v[SQUARES] /= factor * factor
    v[RUN_SQUARES] /= factor * factor


def close_run(v: Any, mode: Any) -> Any:
    """Add a run of rows to the open block; at its end, compare how the runs vary with independent rows."""
    mean = v[RUN_SUM] / v[RUN]
    v[RUNS] += 1.0
    v[RUN_MEANS] += mean
    v[RUN_SQUARES] += mean * mean
    v[RUN] = 0.0
    v[RUN_SUM] = 0.0
    if v[RUNS] >= BLOCK_RUNS:
        middle = v[RUN_MEANS] / v[RUNS]
        variance = variance_of(middle, mode, v)
        if variance > 1e-6 and v[RANGE] == 1.0:
            ratio = (v[RUN_SQUARES] - v[RUNS] * middle * middle) / (v[RUNS] - 1.0) * RUN_ROWS / variance
            v[NEAR] = v[NEAR] * 0.98 + min(ratio, LARGEST_RATIO)
            v[NEARS] = v[NEARS] * 0.98 + 1.0
        v[RUNS] = 0.0
        v[RUN_MEANS] = 0.0
        v[RUN_SQUARES] = 0.0


def learn_usual(
    v: Any, mode: Any, watched: Any, half_life: Any, seen: Any, total: Any, squares: Any, second: Any, ones: Any
) -> Any:
    """Let rows count in the usual loss: their number, the sums of their losses, of the squares, and of both classes."""
    variance = variance_of(v[MEAN], mode, v)
    fade = 0.5 ** (seen / half_life)
    v[WEIGHT] = v[WEIGHT] * fade + seen
    v[MEAN] += (total / seen - v[MEAN]) * seen / v[WEIGHT]
    v[SQUARES] += (squares / seen - v[SQUARES]) * seen / v[WEIGHT]
    v[SECOND] += (second / seen - v[SECOND]) * seen / v[WEIGHT]
    v[CLASS] = v[CLASS] * fade + (seen - ones)
    v[CLASS + 1] = v[CLASS + 1] * fade + ones
    v[BLOCK] += seen
    v[BLOCK_SUM] += total
    if mode == NUMBERS:
        follow_unit(v, total / seen, seen)
    if v[BLOCK] >= BLOCK_ROWS:
        if watched and v[WEIGHT] >= 1000.0:
            # Only blocks above the usual loss count, twice: the loss of a model that still learns falls.
            above = max(v[BLOCK_SUM] / v[BLOCK] - v[MEAN], 0.0)
            v[SPREAD] = v[SPREAD] * 0.98 + min(2.0 * above * above * v[BLOCK] / variance, LARGEST_RATIO)
            v[SPREADS] = v[SPREADS] * 0.98 + 1.0
        v[BLOCK] = 0.0
        v[BLOCK_SUM] = 0.0


def row_losses(scores: Any, targets: Any, v: Any, losses: Any, mode: Any) -> Any:
    """Compute the loss of each row, with the threshold, the weights or the unit of the scan."""
    for i in range(scores.shape[0]):
        losses[i] = loss_of(mode, scores[i], targets[i], v)


def scan_losses(
    scores: Any, targets: Any, v: Any, mode: Any, start: Any, least: Any, run_length: Any, half_life: Any
) -> Any:
    """Follow the losses of rows from number ``start`` of a batch on; return the row of a sign, or -1.

    The CUSUM of an alternative adds the logarithm of its likelihood ratio and never falls below 0. A sign is a CUSUM
    above the logarithm of ``run_length`` rows times the divergence of a row, so that without a change about this
    many rows pass between signs. The usual loss is a mean that forgets half in ``half_life`` rows; it waits while a
    CUSUM is high. Nothing is a sign before ``least`` rows.
    """
    n = scores.shape[0]
    watched = v[WEIGHT] >= least
    spread = max(1.0, v[SPREAD] / v[SPREADS], v[NEAR] / v[NEARS])
    variance = variance_of(v[MEAN], mode, v)
    usual = v[MEAN]
    if v[WEIGHT] > 0.0:
        usual += math.sqrt(variance / v[WEIGHT])
    variance = variance_of(usual, mode, v)
    bound, stake0, gain0 = bet(usual, v, variance, 0)
    bound, stake1, gain1 = bet(usual, v, variance, 1)
    bound, stake2, gain2 = bet(usual, v, variance, 2)
    low0, high0 = math.log1p(-stake0 * bound), math.log1p(stake0 * (1.0 - bound))
    low1, high1 = math.log1p(-stake1 * bound), math.log1p(stake1 * (1.0 - bound))
    low2, high2 = math.log1p(-stake2 * bound), math.log1p(stake2 * (1.0 - bound))
    bar0 = max(math.log(run_length * gain0), 3.0)
    bar1 = max(math.log(run_length * gain1), 3.0)
    bar2 = max(math.log(run_length * gain2), 3.0)
    s0, s1, s2 = v[CUSUM], v[CUSUM + 1], v[CUSUM + 2]
    total, squares, seen, found = 0.0, 0.0, 0, -1
    ones, second = 0.0, 0.0
    centre0, centre1 = centre_of(0.0, v), centre_of(1.0, v)
    for i in range(start, n):
        loss = loss_of(mode, scores[i], targets[i], v)
        total += loss
        squares += loss * loss
        if targets[i] > 0.5:
            ones += 1.0
            second += loss
        seen += 1
        v[RUN] += 1.0
        v[RUN_SUM] += loss
        if v[RUN] >= RUN_ROWS:
            close_run(v, mode)
        if not watched:
            continue
        row = v[ROW] + i
        seen_loss = loss + (centre1 if targets[i] > 0.5 else centre0)
        s0 += growth(seen_loss, bound, stake0, low0, high0) / spread
        s1 += growth(seen_loss, bound, stake1, low1, high1) / spread
        s2 += growth(seen_loss, bound, stake2, low2, high2) / spread
        if s0 <= 0.0:
            s0 = 0.0
            v[SINCE] = row + 1.0
        if s1 <= 0.0:
            s1 = 0.0
            v[SINCE + 1] = row + 1.0
        if s2 <= 0.0:
            s2 = 0.0
            v[SINCE + 2] = row + 1.0
        if s0 > bar0 or s1 > bar1 or s2 > bar2:
            found = i
            break
    v[CUSUM], v[CUSUM + 1], v[CUSUM + 2] = s0, s1, s2
    high = s0 > bar0 / 2.0 or s1 > bar1 / 2.0 or s2 > bar2 / 2.0
    if found < 0 and not high and seen > 0:
        learn_usual(v, mode, watched, half_life, seen, total, squares, second, ones)
    return found


def bet_on_losses(
    losses: Any,
    start: Any,
    mode: Any,
    v: Any,
    contest: Any,
    looks: Any,
    reference: Any,
    spread: Any,
    needed: Any,
    before: Any,
    risen: Any,
    most: Any,
) -> Any:
    """Bet on the losses of a contest from row ``start`` on; return the row that proves harm, -1, or -2 - the last row.

    ``contest`` holds the logarithms of the three capitals, the number of rows, the sum of their losses, and the largest
    logarithm of the mean capital. Harm is proven once that of the mean capital is at least ``needed``, while the mean
    loss, or the one ``before`` the first bet, is at least ``risen``; rows prove nothing unless ``looks`` is 1. A
    contest ends, which is told as -2 - the row, when it is hopeless.
    """
    variance = variance_of(reference, mode, v)
    bound, stake0, _ = bet(reference, v, variance, 0)
    bound, stake1, _ = bet(reference, v, variance, 1)
    bound, stake2, _ = bet(reference, v, variance, 2)
    for i in range(start, losses.shape[0]):
        loss = losses[i]
        contest[0] += math.log1p(stake0 * (loss - bound)) / spread
        contest[1] += math.log1p(stake1 * (loss - bound)) / spread
        contest[2] += math.log1p(stake2 * (loss - bound)) / spread
        contest[3] += 1.0
        contest[4] += loss
        capital = log_mean(contest[0], contest[1], contest[2])
        contest[5] = max(contest[5], capital)
        if looks == 1 and capital >= needed and max(contest[4] / contest[3], before) >= risen:
            return i
        if is_hopeless(contest[3], capital, most):
            return -2 - i
    return -1


def _highest_mean(mean: Any, divergence: Any) -> Any:
    """Return the highest mean of losses from 0 to 1 whose divergence from an observed mean is at most this."""
    low, high = mean, 1.0
    observed = min(max(mean, 1e-12), 1.0 - 1e-12)
    for _ in range(30):
        middle = min(0.5 * (low + high), 1.0 - 1e-12)
        found = observed * math.log(observed / middle) + (1.0 - observed) * math.log((1.0 - observed) / (1.0 - middle))
        if found > divergence:
            high = middle
        else:
            low = middle
    return high


def _weigh(v: Any, rare: Any, not_rare: Any) -> Any:
    """Let errors of both labels count the same where one is rare; then the usual loss is measured again."""
    total = v[CLASS] + v[CLASS + 1]
    share = min(v[CLASS], v[CLASS + 1]) / max(total, 1.0)
    balanced = v[RANGE] < 1.0
    wanted = v[OTHERS] == 0.0 and share < (not_rare if balanced else rare) and v[LABELS + 1] >= 0.0
    if wanted == balanced:
        return
    v[LOW], v[HIGH], v[RANGE] = 1.0, 1.0, 1.0
    if wanted:
        share = max(share, 1.0 / max(total, 2.0))
        v[LOW if v[CLASS] > v[CLASS + 1] else HIGH] = share / (1.0 - share)
        v[RANGE] = 2.0 * share
    v[WEIGHT], v[MEAN], v[SQUARES], v[BLOCK], v[BLOCK_SUM] = 0.0, 0.0, 0.0, 0.0, 0.0
    v[SPREAD], v[SPREADS], v[NEAR], v[NEARS] = 2.0, 2.0, 2.0, 2.0
    v[CUSUM], v[CUSUM + 1], v[CUSUM + 2] = 0.0, 0.0, 0.0


def _measure(v: Any, numbers: Any, watched: Any, half_life: Any) -> Any:
    """Let the rows since the last measurement count in the usual loss."""
    seen, total = v[PART], v[PART_SUM]
    if numbers and v[SCALE] == 0.0:
        v[SCALE] = max(4.0 * total / seen, 1e-300)  # the first rows give the unit
    else:
        mode = NUMBERS if numbers else LOSSES
        learn_usual(v, mode, watched, half_life, seen, total, v[PART_SQUARES], 0.0, v[PART_ONES])
    v[PART], v[PART_SUM], v[PART_SQUARES], v[PART_ONES] = 0.0, 0.0, 0.0, 0.0


def judge_models(
    owner: Any,
    stops: Any,
    predicted: Any,
    true: Any,
    values: Any,
    limits: Any,
    numbers: Any,
    needed: Any,
    least_rise: Any,
) -> Any:
    """Judge many models by their own losses, row by row, each until harm is proven.

    Part ``k`` of the rows, up to ``stops[k]``, belongs to the model whose values are in line ``owner[k]``. A model is
    harmed once the logarithm of the mean capital of a contest exceeds ``needed`` and what the number of the contest
    adds, and its mean loss has risen by ``least_rise``. The result does not depend on how rows are cut into parts.
    ``limits`` are the rows on which the usual loss is measured before a sign, rows of the rarer label that this takes,
    rows between signs, the half-life of the usual loss, the shares of the rarer label, and the rows of a contest.
    """
    least, least_rare, run_length, half_life, rare, not_rare, patience = limits
    low, high, bar, stake = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3)
    mode = NUMBERS if numbers else LOSSES
    begin = 0
    for part in range(owner.shape[0]):
        v, end = values[owner[part]], stops[part]
        fresh, bound, against = True, 0.0, 0.0
        for i in range(begin, end):
            if v[PROVEN] > 0.0:
                break
            if fresh:
                # What is bet on depends on values that only change with a measurement, a sign, or the end of a contest.
                fresh, bound = False, 0.0
                weight, mean, most = v[WEIGHT], v[MEAN], v[RANGE]
                watched = weight >= max(least, least_rare * 2.0 / most if most < 1.0 else 0.0)
                spread = max(1.0, v[SPREAD] / v[SPREADS], v[NEAR] / v[NEARS])
                usual = mean
                if v[CONTEST] > 0.0:
                    bound = needed + math.log(math.pi * math.pi / 6.0 * v[CONTESTS] * v[CONTESTS])
                    usual = _highest_mean(mean, bound * spread / weight)
                elif weight > 0.0:
                    usual += math.sqrt(variance_of(mean, mode, v) / weight)
                variance, against = variance_of(usual, mode, v), 0.0
                for k in range(3):
                    against, stake[k], gain = bet(usual, v, variance, k)
                    low[k], high[k] = math.log1p(-stake[k] * against), math.log1p(stake[k] * (1.0 - against))
                    bar[k] = max(math.log(run_length * gain), 3.0)
            row = v[ROW]
            v[ROW] = row + 1.0
            error, second = predicted[i] - true[i], False
            if numbers:
                loss = abs(error) if v[SCALE] == 0.0 else min(abs(error) / v[SCALE], 1.0)
            else:
                if v[LABELS] < 0.0:
                    v[LABELS] = true[i]
                elif v[LABELS + 1] < 0.0 and true[i] != v[LABELS]:
                    v[LABELS + 1] = true[i]
                second = true[i] != v[LABELS]
                if second and true[i] != v[LABELS + 1]:
                    v[OTHERS] += 1.0
                loss = 0.0 if error == 0.0 else v[HIGH] if second else v[LOW]
            if v[CONTEST] > 0.0:
                v[BET_ROWS] += 1.0
                v[BET_TOTAL] += loss
                for k in range(3):
                    v[CAPITALS + k] += math.log1p(stake[k] * (loss - against)) / spread
                capital = log_mean(v[CAPITALS], v[CAPITALS + 1], v[CAPITALS + 2])
                v[HIGHEST] = max(v[HIGHEST], capital)
                risen = v[BET_TOTAL] / v[BET_ROWS] - mean
                if capital >= bound and risen >= least_rise * most:
                    v[PROVEN] = row + 1.0
                elif is_hopeless(v[BET_ROWS], capital, patience):
                    v[CONTEST] = 0.0
                    fresh = True
                continue
            v[PART] += 1.0
            v[PART_SUM] += loss
            if not numbers or v[SCALE] > 0.0:
                v[RUN] += 1.0
                v[RUN_SUM] += loss
                if v[RUN] >= RUN_ROWS:
                    close_run(v, mode)
                    fresh = True
            v[PART_SQUARES] += loss * loss
            if second:
                v[PART_ONES] += 1.0
            sign, quiet = False, True
            if watched:
                for k in range(3):
                    v[CUSUM + k] += growth(loss, against, stake[k], low[k], high[k]) / spread
                    if v[CUSUM + k] <= 0.0:
                        v[CUSUM + k] = 0.0
                        v[SINCE + k] = row + 1.0
                    sign = sign or v[CUSUM + k] > bar[k]
                    quiet = quiet and v[CUSUM + k] <= bar[k] / 2.0
            if sign:
                for k in range(3):
                    v[CUSUM + k] = 0.0
                    v[SINCE + k] = row + 1.0
                    v[CAPITALS + k] = 0.0
                v[CONTEST] = 1.0
                v[CONTESTS] += 1.0
                v[BET_ROWS], v[BET_TOTAL], v[HIGHEST] = 0.0, 0.0, 0.0
                v[PART], v[PART_SUM], v[PART_SQUARES], v[PART_ONES] = 0.0, 0.0, 0.0, 0.0
                fresh = True
            elif v[PART] >= PART_ROWS:
                if quiet:
                    _measure(v, numbers, watched, half_life)
                    if not numbers and v[BLOCK] == 0.0 and v[WEIGHT] >= BLOCK_ROWS - 10.0:
                        _weigh(v, rare, not_rare)
                else:
                    v[PART], v[PART_SUM], v[PART_SQUARES], v[PART_ONES] = 0.0, 0.0, 0.0, 0.0
                fresh = True
        begin = end
