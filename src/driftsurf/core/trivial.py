"""When a model is worth little: the comparison with predictions that need no model."""

from __future__ import annotations

__all__ = ["HARDLY_ABOVE_CHANCE", "HARDLY_BETTER"]

HARDLY_BETTER = 0.98
"""A model whose error is at least this share of a trivial prediction's is hardly better than it."""
HARDLY_ABOVE_CHANCE = 1.25
"""A model that finds a rare class with less than this many times the average precision of chance hardly finds it."""
