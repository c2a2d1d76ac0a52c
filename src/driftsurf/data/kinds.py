"""The four kinds of columns."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["KINDS", "Kind"]

Kind: TypeAlias = Literal["number", "boolean", "date", "text"]
"""Kind of the values of a column."""
KINDS: tuple[Kind, ...] = get_args(Kind)
