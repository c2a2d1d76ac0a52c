"""SEA: the sum of two of three numbers is compared with a threshold that drifts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftsurf.core.options import truth, whole
from driftsurf.native.streams import java_state, sea
from driftsurf.streams.base import Block, DriftSpan, Stream, block_sizes, percent, register_stream


@register_stream("sea0", "SEA, three abrupt drifts, no noise", noise=0.0, table_row=1, paper_settings=(1e-3, 1e-2))
@register_stream("sea10", "SEA, three abrupt drifts, 10 % noise", noise=0.1, table_row=2, paper_settings=(1e-3, 1e-2))
@register_stream("sea20", "SEA, three abrupt drifts, 20 % noise", noise=0.2, table_row=3, paper_settings=(1e-3, 1e-2))
@register_stream("sea30", "SEA, three abrupt drifts, 30 % noise", noise=0.3, table_row=4, paper_settings=(1e-3, 1e-2))
@register_stream(
    "sea-gradual",
    "SEA, one gradual drift, 10 % noise",
    noise=0.1,
    gradual=True,
    table_row=5,
    paper_settings=(1e-3, 1e-2),
)
class SEA(Stream):
    """The SEA generator of MOA, bit for bit.

    x1, x2 and x3 are uniform in [0, 10); the label is +1 if x1 + x2 <= theta. Each quarter of the stream has its own
    theta: 7, 9, 9.5, 8. (These are the values of MOA's functions 3, 2, 4, 1, which generated the paper's streams; two
    thresholds in its list are exchanged.) Classes are balanced: within a concept the labels alternate, before noise.

    Parameters
    ----------
    noise
        Share of flipped labels, a multiple of 0.01.
    gradual
        One gradual drift from 7 to 9, centred in the middle of the stream and a fifth of it wide, in place of the three
        abrupt ones. The paper's SEA-gradual is ``SEA(noise=0.1, gradual=True)``.
    seed
        Seed of every concept's generator and of every change between concepts, as in the paper's streams.
    n_rows
        Number of rows; the positions of drifts scale with it.

    Examples
    --------
    >>> import numpy as np
    >>> stream = SEA(noise=0.1)
    >>> X, y = stream.arrays()
    >>> X[0]
    array([7.30878191, 4.10080811, 2.07714841])
    >>> clean = np.where(X[:25_000, 0] + X[:25_000, 1] <= 7, 1, -1)
    >>> print(f"{np.mean(clean != y[:25_000]):.3f}")
    0.100

    References
    ----------
    Street and Kim. A streaming ensemble algorithm (SEA) for large-scale classification. KDD 2001.
    Bifet, Holmes, Kirkby and Pfahringer. MOA: massive online analysis. JMLR 11, 2010.
    """

    n_features = 3
    n_rows: int

    def __init__(self, noise: float = 0.0, gradual: bool = False, seed: int = 1, n_rows: int = 100_000) -> None:
        self.noise = noise
        self.gradual = gradual
        self.seed = seed
        self.n_rows = n_rows
        self._check()

    def _check(self) -> None:
        percent("noise", self.noise)
        truth("gradual", self.gradual)
        whole("seed", self.seed, at_least=0, at_most=None)
        whole("n_rows", self.n_rows, at_least=1)

    @property
    def name(self) -> str:
        """Name as in the paper's tables, with the noise in per cent."""
        kind = "SEA-gradual" if self.gradual else "SEA"
        noise = percent("noise", self.noise)
        return kind if self.gradual and noise == 10 else f"{kind}{noise}"

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Three abrupt drifts, or one gradual drift."""
        if self.gradual:
            return (DriftSpan(2 * self.n_rows // 5, 3 * self.n_rows // 5),)
        quarter = self.n_rows // 4
        return tuple(DriftSpan(k * quarter, k * quarter) for k in (1, 2, 3))

    def blocks(self) -> Iterator[Block]:
        """Yield rows as MOA's ConceptDriftStream draws them from SEAGenerator."""
        if self.gradual:
            theta = np.array([7.0, 9.0])
            position, width = self.n_rows // 2, max(1, self.n_rows // 5)
        else:
            theta = np.array([7.0, 9.0, 9.5, 8.0])
            position, width = self.n_rows // 4, 1
        concepts, joints = len(theta), len(theta) - 1
        start = java_state(self.seed)
        state = (
            np.full(concepts, start, dtype=np.int64),
            np.ones(concepts, dtype=np.int64),  # the group wanted first is 1
            np.full(joints, start, dtype=np.int64),
            np.zeros(joints, dtype=np.int64),
        )
        noise = percent("noise", self.noise)
        for size in block_sizes(self.n_rows):
            X = np.empty((size, self.n_features))
            y = np.empty(size, dtype=np.int64)
            sea(X, y, state, theta, float(position), float(width), noise)
            yield X, y
