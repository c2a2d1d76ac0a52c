"""State of a trivial function for a key: as large as that of a learner, and as hard to compress."""

from __future__ import annotations

import random

STATE = random.Random(0).randbytes(9_000)
