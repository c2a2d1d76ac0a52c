# Made by `make generate`: do not edit.
from driftsurf.streams.arrays import ArrayStream as ArrayStream
from driftsurf.streams.base import Drift as Drift
from driftsurf.streams.base import DriftSpan as DriftSpan
from driftsurf.streams.base import Stream as Stream
from driftsurf.streams.circles import Circles as Circles
from driftsurf.streams.friedman import Friedman as Friedman
from driftsurf.streams.hyperplane import Hyperplane as Hyperplane
from driftsurf.streams.inject import change_prior as change_prior
from driftsurf.streams.inject import mix as mix
from driftsurf.streams.inject import rotate as rotate
from driftsurf.streams.inject import shift_features as shift_features
from driftsurf.streams.inject import swap_labels as swap_labels
from driftsurf.streams.mixed import Mixed as Mixed
from driftsurf.streams.recurring import Recurring as Recurring
from driftsurf.streams.sea import SEA as SEA
from driftsurf.streams.sine1 import SINE1 as SINE1

__all__: list[str]
