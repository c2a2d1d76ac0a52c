"""Counts over the scores of a step: confusion of two classes, bins of scores and of probabilities, and the ROC AUC.

All loops keep the order of arithmetic, so that sums agree to the bit with those of numpy.
"""

from __future__ import annotations

import math
from typing import Any

from driftsurf.kernels.compile import F8, I8, _in, _out, kernel


@kernel(
    lambda f: (_in(F8), _in(F8), _in(I8), _in(I8), F8, _out(I8, 2), _out(I8, 2), _out(I8, 2), _out(F8)),
    exact=True,
)
def tally_margins(
    margins: Any, shares: Any, true: Any, predicted: Any, largest: Any, pairs: Any, scores: Any, hits: Any, sums: Any
) -> Any:
    """Count rows of two classes by their margins and by the probabilities of the second class.

    Parameters
    ----------
    margins, shares
        Log-odds and probability of the second class.
    true, predicted
        Codes of the classes. Codes outside of ``pairs`` are counted as -1.
    largest
        Margins beyond this, and below its negative, are in the outermost bins.
    pairs
        Rows by true and predicted code, both plus 1.
    scores
        Rows of other classes, and of the second one, by bins of margins.
    hits, sums
        The same by bins of probabilities, and the sum of the probabilities in each bin. A row with a probability of
        exactly 0.5 is with the other rows of the same prediction.

    Returns
    -------
    False if a probability is not a number: then the counts mean nothing.
    """
    known, bins, shelves = pairs.shape[0] - 1, scores.shape[1], sums.shape[0]
    slope, middle = bins / 2 / largest, bins / 2
    for i in range(margins.shape[0]):
        own, said, share = true[i], predicted[i], shares[i]
        own = own if 0 <= own < known else -1
        said = said if 0 <= said < known else -1
        pairs[own + 1, said + 1] += 1
        second = 1 if own == 1 else 0
        at = margins[i] * slope + middle
        place = bins - 1  # also if it is not a number
        if at < bins - 1:
            place = int(max(at, 0.0))
        scores[second, place] += 1
        if not 0.0 <= share <= 1.0:
            return False
        shelf = int(min(share * shelves, shelves - 1.0))
        shelf = max(shelf, shelves // 2) if said == 1 else min(shelf, shelves // 2 - 1)
        hits[second, shelf] += 1
        sums[shelf] += share
    return True


@kernel(lambda f: (_in(I8, 3),), exact=True)
def mean_auc(counts: Any) -> Any:
    """Return the mean ROC AUC of classes from counts of other rows and own rows by bins of scores; NaN without any.

    Scores in the same bin count half. Classes without own rows, or without others, are left out.
    """
    total, found = 0.0, 0
    for c in range(counts.shape[0]):
        below, area, own = 0.0, 0.0, 0.0
        for k in range(counts.shape[2]):
            others, mine = float(counts[c, 0, k]), float(counts[c, 1, k])
            area += mine * (below + others / 2)
            below += others
            own += mine
        if own > 0.0 and below > 0.0:
            total += area / own / below
            found += 1
    return total / found if found else math.nan
