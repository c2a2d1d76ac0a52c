"""Classes that a new model has not seen yet, though the model that it would replace has."""

from __future__ import annotations

import numpy as np

from driftsurf.core.contracts import Segment
from driftsurf.core.samples import Samples
from driftsurf.native.rule import is_missed, remembered_rows
from driftsurf.strategies._pool import Member


def missed_class(
    samples: Samples, old: Member, new: Member, share: float, batches: int, reactive_length: int
) -> int | None:
    """Return the code of the largest class that w' lacks, after so many batches of a reactive state; None for none.

    A class counts if it makes up ``share`` of the last rows of w, those of w' included, as far as they are stored.
    Rows without weight teach nothing and are left out.
    """
    end = samples.next_row
    first = end - remembered_rows(end - new.first_row, batches, reactive_length)
    first = max(first, old.first_row, samples.first_row)
    rows = samples.view(Segment(first, end))
    learned = rows.weight > 0.0
    codes = rows.y.astype(np.int64)
    counts = np.bincount(codes[learned])
    own = max(0, new.first_row - first)
    seen = np.bincount(codes[own:][learned[own:]], minlength=len(counts)).tolist()
    total = int(counts.sum())
    for code in np.argsort(-counts, kind="stable").tolist():
        if is_missed(int(counts[code]), total, seen[code], share):
            return int(code)
    return None
