"""Mixed: two truth values and a point beside a sine, decided by majority."""

from __future__ import annotations

from driftsurf.streams._balanced import BalancedStream


class Mixed(BalancedStream):
    """v and w true or false, x and y uniform in [0, 1); the majority of three conditions decides.

    The conditions are v, w and y < 0.5 + 0.3 sin(3 pi x). The label is +1 iff at least two hold,
    reversed at each of four drifts. v and w are columns of 0.0 and 1.0.

    Made as the Tornado framework makes it: classes are balanced by a fair coin, the concepts overlap in
    the first 50 rows after a drift, along a sigmoid, and values have three decimals. With the default
    arguments it is the file that the paper's authors published, row by row.

    Parameters
    ----------
    noise
        The share of flipped labels.
    seed
        Of Python's ``random``.
    n_rows
        Length; the drifts are at 20, 40, 60 and 80 % of it.

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
