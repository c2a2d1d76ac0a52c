"""A strategy and a learner for driftsurf: ``periodic-reset`` and ``centroid``."""

from driftsurf_mystrategy.nearest_centroid import NearestCentroid
from driftsurf_mystrategy.periodic_reset import PeriodicReset

__all__ = ["NearestCentroid", "PeriodicReset"]
