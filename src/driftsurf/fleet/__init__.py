"""A learner for each of many keys, in one process."""

from driftsurf.fleet._keys import key_seed
from driftsurf.fleet.fleet import Fleet

__all__ = ["Fleet", "key_seed"]
