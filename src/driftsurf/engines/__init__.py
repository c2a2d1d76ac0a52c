"""Where keyed streams run: one learner for each key, in one process or on an engine that people already operate.

``keyed`` is what all engines share: the bytes of a key and its new rows in, predictions, decisions and bytes out.
"""

from driftsurf.engines.keyed import KeyedLearner, KeyRows, Visit

__all__ = ["KeyRows", "KeyedLearner", "Visit"]
