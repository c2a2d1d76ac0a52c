"""What a trivial function keeps for a key: about as much as a learner does, and no easier to compress."""

from __future__ import annotations

import random

STATE = random.Random(0).randbytes(9_000)
