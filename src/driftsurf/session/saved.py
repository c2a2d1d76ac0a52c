"""Declared entries of the saved state of a session."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.fields import Fields, Truth, Whole, misfit
from driftsurf.core.input import Schema
from driftsurf.core.samples import Samples

__all__ = ["FIELDS", "saved_buffer"]

FIELDS = Fields(
    {"steps": Whole(), "n_classes_learned": Whole(), "started": Truth()},
    parts=["classes", "guard", "schema", "pending", "strategy", "monitor"],
)
"""Saved entries of a session; its parts declare their own."""


def saved_buffer(
    state: Mapping[str, Any], schema: Schema, n_classes: int, batch_size: int | None, dtype: npt.DTypeLike
) -> Samples | None:
    """Return the saved buffer; StateError if its rows are not those of the schema, or fill a time step."""
    if not state:
        return None
    pending = Samples.from_state(state, n_classes)
    for name, found, wanted in (
        ("n_features", pending.n_features, schema.n_features),
        ("sparse", pending.sparse, schema.sparse),
        ("dtype", pending.dtype, np.dtype(dtype)),
    ):
        if found != wanted:
            raise misfit(state, name, f"is {found}, but that of the model is {wanted}")
    size = math.inf if batch_size is None else batch_size
    if len(pending) >= size:
        raise misfit(state, "y", f"has {len(pending)} rows, which would fill a time step of {size}")
    return pending
