"""Mixed: two booleans and a point above or below a sine curve, decided by majority."""

from __future__ import annotations

from driftsurf.streams._balanced import BalancedStream
from driftsurf.streams.base import register_stream


@register_stream("mixed", "Mixed, four reversals, 10 % noise", table_row=9, paper_settings=(0.1, 1e-3), published=True)
class Mixed(BalancedStream):
    """Booleans v and w, and a point (x, y) uniform in [0, 1)^2; the majority of three conditions decides.

    The conditions are v, w and y < 0.5 + 0.3 sin(3 pi x). The label is +1 if at least two of them hold, reversed at
    each of four drifts. v and w are columns of 0.0 and 1.0.

    It is generated as in the Tornado framework: classes are balanced by a fair coin, the concepts overlap along a
    sigmoid in the first 50 rows after a drift, and values have three decimals. With the default arguments it equals the
    file that the paper's authors published, row by row.

    Parameters
    ----------
    noise
        Share of flipped labels.
    seed
        Seed of Python's ``random``.
    n_rows
        Number of rows; the drifts are at 20, 40, 60 and 80 % of it.

    Examples
    --------
    >>> import numpy as np
    >>> stream = Mixed(noise=0.0, n_rows=10_000)
    >>> X, y = stream.arrays()
    >>> v, w, x, height = X.T
    >>> votes = v + w + (height < 0.5 + 0.3 * np.sin(3 * np.pi * x))
    >>> bool(np.all(y[:2_000] == np.where(votes[:2_000] >= 2, 1, -1)))
    True

    References
    ----------
    Gama, Medas, Castillo and Rodrigues. Learning with drift detection. SBIA 2004.
    """

    name = "Mixed"
    n_features = 4
    n_segments = 5
    n_concepts = 2
    decimals = 3
    kind = 1

    def __init__(self, noise: float = 0.1, seed: int = 1, n_rows: int = 100_000) -> None:
        super().__init__(noise, seed, n_rows)
