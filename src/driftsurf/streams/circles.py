"""Circles: a point inside or outside of a circle that moves and grows."""

from __future__ import annotations

from driftsurf.streams._balanced import BalancedStream, ConceptChange
from driftsurf.streams.base import DriftSpan, register_stream


@register_stream(
    "circles", "Circles, three gradual drifts, 10 % noise", table_row=10, paper_settings=(0.1, 1e-3), published=True
)
class Circles(BalancedStream):
    """Points uniform in [0, 1)^2; the label is +1 outside of a circle. Four circles, gradual drifts.

    The circles have the centres (0.2, 0.5), (0.4, 0.5), (0.6, 0.5), (0.8, 0.5) and the radii 0.15, 0.2, 0.25, 0.3.
    Classes are balanced by a fair coin and values have five decimals, as in the Tornado framework. With the default
    arguments it equals the file that the paper's authors published, row by row.

    Parameters
    ----------
    noise
        Share of flipped labels.
    seed
        Seed of Python's ``random``.
    n_rows
        Number of rows; the drifts are from 25 to 30, 50 to 55 and 75 to 80 % of it.

    Notes
    -----
    The order of rows follows the authors' file, which is not quite what a gradual drift suggests. Each quarter k of it
    *begins* with the transition from circle k to circle k + 1, 5 % of all rows long, and continues with circle k; the
    last quarter has no transition. So the stream starts by fading from circle 1 to 2, jumps back to circle 1 at 5 %,
    jumps to circle 2 at 25 %, fades to 3, jumps back to 2 at 30 %, and so on. The places at which an oracle should
    reset its model are the same, but both ends of the interval are abrupt. ``mix`` makes a gradual drift as in
    textbooks.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = Circles().arrays()
    >>> outside = np.where(np.hypot(X[:, 0] - 0.2, X[:, 1] - 0.5) > 0.15, 1, -1)
    >>> print(f"{np.mean(outside[500:2_500] == y[500:2_500]):.2f}")
    0.91

    References
    ----------
    Gama, Medas, Castillo and Rodrigues. Learning with drift detection. SBIA 2004.
    """

    name = "Circles"
    n_features = 2
    n_segments = 4
    n_concepts = 4
    decimals = 5
    kind = 2

    def __init__(self, noise: float = 0.1, seed: int = 10, n_rows: int = 10_000) -> None:
        super().__init__(noise, seed, n_rows)

    @property
    def _width(self) -> int:
        """Number of rows of a transition."""
        return self.n_rows // 20

    @property
    def drifts(self) -> tuple[DriftSpan, ...]:
        """Gradual drifts in the first fifth of every quarter but the first."""
        starts = [self.segment_start(k) for k in (1, 2, 3)]
        return tuple(DriftSpan(start, start + self._width) for start in starts)

    def transitions(self) -> tuple[ConceptChange, ...]:
        """Return the transitions at the start of every quarter but the last: see the notes of the class."""
        return tuple(ConceptChange(self.segment_start(k), self._width, k, k + 1) for k in (0, 1, 2))
