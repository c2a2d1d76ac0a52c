"""The rows of many keys served in one call of native code, with the results of a visit to each key.

:class:`BlockServer` keeps the models of keys open in memory, in cells. What a cell
cannot do, such as a row without a label, a third class or a bad value, is left to ``KeyedLearner.visit``, which starts
from the saved bytes of the key. Both save the same bytes, so that results do not depend on which of them served a key.
"""

from __future__ import annotations

from driftsurf.keyed.blocks.server import MOST_BYTES, BlockServer, SavedStates, States

__all__ = ["MOST_BYTES", "BlockServer", "SavedStates", "States"]
