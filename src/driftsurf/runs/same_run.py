"""Whether a checkpoint belongs to the run that is planned."""

from __future__ import annotations

import json

from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.secrets import storable
from driftsurf.errors import Option, StateError
from driftsurf.runs.options import WAITING

__all__ = ["check_same_run"]

LATER = {"smallest_rise": SMALLEST_RISE, "drift_risk": DRIFT_RISK}
"""Defaults of options that version 0.2 does not have."""


def check_same_run(saved: str, planned: str) -> None:
    """Raise StateError, naming the differences, unless a checkpoint belongs to the run that is planned.

    An option that one of them does not have, because another version wrote it, is one that was not given.
    """
    if saved == planned:
        return
    differences = list[object]()
    try:
        old, new = storable(json.loads(saved)), storable(json.loads(planned))  # 0.2 stored addresses as they were
        for key in [key for key in {**old, **new} if key not in WAITING]:
            was, now = (None if about.get(key) in ([], {}, LATER.get(key)) else about.get(key) for about in (old, new))
            differences += ["; ", Option(key), f" was {was!r} and is {now!r}"] if was != now else []
    except (ValueError, TypeError, AttributeError):
        differences = ["; ", "what was run cannot be compared"]
    if differences:
        raise StateError(
            "the checkpoint belongs to another run: ",
            *differences[1:],
            ". Repeat the call that began it, or choose another folder.",
        )
