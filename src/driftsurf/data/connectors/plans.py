"""The log of plans: which messages belong to which batch, written before any of them is read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from driftsurf.core import files
from driftsurf.data.connectors.contract import Plan
from driftsurf.data.source import Position
from driftsurf.errors import StateError

__all__ = ["PlanLog"]

TRIMMED_BYTES = 2**20
"""Size from which on entries that no checkpoint needs are removed."""


class PlanLog:
    """Plans by the position at which they begin, in a file with a line for each.

    Messages of several partitions, and messages that are still arriving, do not come twice in the same batches. What a
    model has learned from a batch may already be seen elsewhere when the process is killed, so the batch must be the
    same when the run resumes: its plan is on disk before its first message is read.

    Parameters
    ----------
    path
        The file; it is made with the first plan.
    keep
        How many checkpoints the run keeps, from each of which it may resume.
    """

    def __init__(self, path: Path, keep: int = 2) -> None:
        self.path = path
        self.keep = keep
        self._plans: dict[str, Plan] = {}
        self._commits: list[str] = []
        """Positions of the last checkpoints, oldest first."""
        self._file: files.AppendedFile | None = None
        self._written: bytes = b""
        """Complete lines of the file, while it is not open."""

    def load(self) -> None:
        """Read the plans that an earlier process left behind; an incomplete last line was never acted on."""
        self.close()
        self._plans.clear()
        data = files.read_bytes(self.path) if self.path.exists() else b""
        self._written = data[: data.rfind(b"\n") + 1]
        for line in self._written.splitlines():
            try:
                start, ranges, end = json.loads(line)
            except ValueError as error:
                raise StateError(f"{str(self.path)!r} is damaged: {line[:80]!r} is no plan") from error
            self._plans[_key(start)] = Plan(ranges, end)

    def clear(self) -> None:
        """Forget all plans: a new run begins."""
        self.close()
        self._plans.clear()
        self._commits.clear()
        self._written = b""
        if self.path.exists():
            files.remove(self.path)

    def get(self, start: Position) -> Plan | None:
        """Return the plan that begins at a position, if one was logged."""
        return self._plans.get(_key(start))

    def add(self, start: Position, plan: Plan) -> None:
        """Write a plan, and return when it is on disk."""
        if self._file is None:
            known = self._written
            self._file = files.AppendedFile(self.path, len(known), hashlib.sha256(known).hexdigest())
            if not known:
                files.sync_folder(self.path.parent)
        self._file.write_bytes(_line(start, plan))
        self._file.sync()
        self._plans[_key(start)] = plan

    def committed(self, position: Position) -> None:
        """Note a checkpoint. Plans before the oldest one that is kept are removed once they fill a megabyte."""
        self._commits = [*self._commits, _key(position)][-self.keep :]
        size = 0 if self._file is None else self._file.size
        if size > TRIMMED_BYTES and len(self._commits) == self.keep:
            self._trim(self._commits[0])

    def _trim(self, oldest: str) -> None:
        """Keep only the plans from a position on, each of which begins where the one before it ends."""
        kept, at = dict[str, Plan](), oldest
        while at in self._plans and at not in kept:
            kept[at] = self._plans[at]
            at = _key(kept[at].end)
        self.close()
        self._written = b"".join(_line(json.loads(start), plan) for start, plan in kept.items())
        files.write_bytes(self.path, self._written)
        files.sync_folder(self.path.parent)
        self._plans = kept

    def close(self) -> None:
        """Close the file; the next plan opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._written = files.read_bytes(self.path)


def _key(position: Any) -> str:
    return json.dumps(position, sort_keys=True)


def _line(start: Position, plan: Plan) -> bytes:
    return json.dumps([start, plan.ranges, plan.end], sort_keys=True).encode() + b"\n"
