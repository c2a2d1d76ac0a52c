"""SINE1: two numbers above or below a sine curve; the classes are exchanged at every drift."""

from __future__ import annotations

from driftsurf.streams._balanced import BalancedStream
from driftsurf.streams.base import register_stream


@register_stream("sine1", "SINE1, four reversals, 10 % noise", table_row=8, paper_settings=(0.2, 1e-3), published=True)
class SINE1(BalancedStream):
    """Points uniform in [0, 1)^2; the label is +1 if x2 <= sin(x1), reversed at each of four drifts.

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
    >>> stream = SINE1()
    >>> X, y = stream.arrays()
    >>> below = np.where(X[:, 1] <= np.sin(X[:, 0]), 1, -1)
    >>> [round(float(np.mean(y[k : k + 1_900] == below[k : k + 1_900])), 2) for k in (100, 2_100)]
    [0.9, 0.09]

    References
    ----------
    Gama, Medas, Castillo and Rodrigues. Learning with drift detection. SBIA 2004.
    Pesaranghader, Viktor and Paquet. Reservoir of diverse adaptive learners and stacking fast Hoeffding drift
    detection methods for evolving data streams. Machine Learning 107, 2018.
    """

    name = "SINE1"
    n_features = 2
    n_segments = 5
    n_concepts = 2
    decimals = 3
    kind = 0

    def __init__(self, noise: float = 0.1, seed: int = 1, n_rows: int = 10_000) -> None:
        super().__init__(noise, seed, n_rows)
