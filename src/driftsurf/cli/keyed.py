"""The result of ``driftsurf run --key``: a table of keys, and what to do about keys in quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftsurf.cli.keys import show_keys
from driftsurf.cli.wording import say
from driftsurf.errors import InputError, Message, Option

if TYPE_CHECKING:
    from driftsurf.keyed.quarantine import Reason

__all__ = ["show_result"]

READMIT = Message("Once the cause is fixed, readmit keys with ", Option("readmit"), ".")
NEW_RUN = Message(" Then start a new run with another ", Option("out"), ".")
NEED_A_NEW_RUN: frozenset[Reason] = frozenset({"bad_label", "continuous_label", "diverged"})
"""Reasons of a quarantine that other options remedy, with which a run cannot be resumed."""


def show_result(folder: Path) -> None:
    """Print how the keys of a run are doing and write its page; InputError if all keys are in quarantine."""
    from driftsurf.keyed.quarantine import REMEDIES, first_held

    keys: Mapping[Any, Mapping[str, Any]] = show_keys(folder)
    held = sum(bool(entry["quarantine"]) for entry in keys.values())
    if not held:
        return
    key, why, reason = first_held(keys)
    if held < len(keys):
        say(
            f"warning: {held:,} of {len(keys):,} keys are in quarantine and no longer learn. The first is {key}: {why}",
            err=True,
        )
        return
    learned = sum(int(entry["rows"]) for entry in keys.values())
    raise InputError(
        f"all {len(keys):,} keys are in quarantine after {learned:,} rows, so that nothing is learned. The first is "
        f"{key}: {why} ",
        REMEDIES.get(reason, READMIT),
        NEW_RUN if reason in NEED_A_NEW_RUN else "",
    )
