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
    "bad_label": "",
    "continuous_label": "Predict numbers with --task regression, or turn them into classes.",
    "diverged": "Try other options; if a few rows are to blame, readmit keys with --readmit, which drops the time step "
    "that failed.",
    "too_large": "Set a larger --max-bytes, and readmit keys with --readmit.",
}
"""Remedies for keys in quarantine, by the reason of the quarantine."""
NEED_A_NEW_RUN: frozenset[Reason] = frozenset({"bad_label", "continuous_label", "diverged"})
"""Reasons of a quarantine that other options remedy, with which a run cannot be resumed."""


def show_result(folder: Path) -> None:
    """Print how the keys of a run are doing and write its page; InputError if all keys are in quarantine.

    A run that could not learn a single row leaves no folder.
    """
    from driftsurf.keyed.folder import KeyedFolder

    run = KeyedFolder(folder)
    keys = run.keys()
    if any(entry["rows"] or not entry["quarantine"] for entry in keys.values()) or not keys:
        _warn(show_keys(folder, SHOWN))
        return
    key, why, reason = _first_held(keys)
    removed = f" {str(folder)!r} was removed." * run.discard()
    raise InputError(
        f"no row could be learned: all {len(keys):,} keys are in quarantine. The first is {key}: {why} "
        f"{REMEDIES.get(reason, 'Remove the cause, and run it again.')}{removed}"
    )


def _first_held(keys: Mapping[Any, Mapping[str, Any]]) -> tuple[Any, str, Reason]:
    """Return the first key in quarantine, why it is there as a sentence, and the reason."""
    key, entry = next((key, entry) for key, entry in keys.items() if entry["quarantine"])
    return key, f"{entry['quarantine_message'].rstrip('.')}.", entry["quarantine"]


def _warn(keys: Mapping[Any, Mapping[str, Any]]) -> None:
    """Warn of keys in quarantine; InputError if all keys are, since then nothing is learned."""
    held = sum(bool(entry["quarantine"]) for entry in keys.values())
    if not held:
        return
    key, why, reason = _first_held(keys)
    if held < len(keys):
        say(
            f"warning: {held:,} of {len(keys):,} keys are in quarantine and no longer learn. The first is {key}: {why}",
            err=True,
        )
        return
    learned = sum(int(entry["rows"]) for entry in keys.values())
    again = " Then start a new run with another --out." * (reason in NEED_A_NEW_RUN)
    raise InputError(
        f"all {len(keys):,} keys are in quarantine after {learned:,} rows, so that nothing is learned. The first is "
        f"{key}: {why} {REMEDIES.get(reason, READMIT)}{again}"
    )
