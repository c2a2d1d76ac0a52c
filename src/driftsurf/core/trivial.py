"""When a model is worth little: the comparison with predictions that need no model."""

from __future__ import annotations

__all__ = ["HARDLY_BETTER"]

HARDLY_BETTER = 0.98
"""A model whose error is at least this share of a trivial prediction's is hardly better than it."""
