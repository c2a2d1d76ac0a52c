"""The result of ``driftsurf run --key``: a table of keys, and what to do about keys in quarantine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftsurf.cli.keys import show_keys
from driftsurf.cli.wording import say
from driftsurf.errors import InputError

if TYPE_CHECKING:
    from driftsurf.keyed.quarantine import Reason

__all__ = ["show_result"]

SHOWN = 20
READMIT = "Once the cause is fixed, readmit keys with --readmit."
REMEDIES: dict[Reason, str] = {
    "bad_label": "Then start a new run with another --out.",
    "continuous_label": "Predict numbers with --task regression, or turn them into classes, in a new run with another "
    "--out.",
    "diverged": "Start a new run with other options and another --out; if a few rows are to blame, readmit keys with "
    "--readmit, which drops the time step that failed.",
    "too_large": "Set a larger --max-bytes, and readmit keys with --readmit.",
}
"""Remedies for keys in quarantine, by the reason of the quarantine."""


def show_result(folder: Path) -> None:
    """Print how the keys of a run are doing and write its page; InputError if all keys are in quarantine."""
    _warn(show_keys(folder, SHOWN))


def _warn(keys: Mapping[Any, Mapping[str, Any]]) -> None:
    """Warn of keys in quarantine; InputError if all keys are, since then nothing is learned."""
    held = {key: entry for key, entry in keys.items() if entry["quarantine"]}
    if not held:
        return
    key, entry = next(iter(held.items()))
    why = f"{entry['quarantine_message'].rstrip('.')}."
    if len(held) < len(keys):
        say(
            f"warning: {len(held):,} of {len(keys):,} keys are in quarantine and no longer learn. The first is {key}: "
            f"{why}",
            err=True,
        )
        return
    learned = sum(int(entry["rows"]) for entry in keys.values())
    raise InputError(
        f"all {len(keys):,} keys are in quarantine after {learned:,} rows, so that nothing is learned. The first is "
        f"{key}: {why} {REMEDIES.get(entry['quarantine'], READMIT)}"
    )
