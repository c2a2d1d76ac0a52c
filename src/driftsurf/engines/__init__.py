"""Where keyed streams run: one learner for each key, in one process or on an engine that people already operate.

``keyed`` is what all engines share: the bytes of a key and its new rows in; predictions, decisions and bytes out.
"""

from driftsurf.engines._rows import Columns
from driftsurf.engines.keyed import KeyedLearner, KeyRows, KeySummary, Visit
from driftsurf.engines.run import KeyedOptions, run_keyed
from driftsurf.engines.tables import KeyedFolder

__all__ = [
    "Columns",
    "KeyRows",
    "KeySummary",
    "KeyedFolder",
    "KeyedLearner",
    "KeyedOptions",
    "Visit",
    "run_keyed",
]
