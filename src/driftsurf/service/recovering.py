"""From what a served model continues when it is opened: a checkpoint, or its log alone."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from driftsurf.data.log.log import Log
from driftsurf.data.log.records import Kinds, decode
from driftsurf.errors import StateError, StateVersionError
from driftsurf.runs.checkpoint import Checkpoint, CheckpointFolder

__all__ = ["open_log", "rollback_positions"]

log: logging.Logger = logging.getLogger("driftsurf.serve")
READ_BYTES = 2**22
"""Bytes of records that are read at a time."""


def open_log(folder: Path, checkpoints: CheckpointFolder, segment_bytes: int) -> tuple[Checkpoint | None, Log]:
    """Return the checkpoint from which a model continues, and its log; no checkpoint if it has to begin again.

    If no checkpoint can be used, a log that still has its first record is enough: the model follows from the log.
    StateError if it is not.
    """
    problem, saved, position = "", None, 0
    try:
        saved = checkpoints.load()
    except StateVersionError:
        raise  # intact, and of a newer version: beginning again would hide that
    except StateError as error:
        problem = str(error)
    if saved is not None:
        position = int(str(saved.state["position"]))
    with contextlib.ExitStack() as undo:
        records = undo.enter_context(Log(folder, segment_bytes=segment_bytes, known=position))
        if saved is not None and position < records.first:
            problem = f"the newest checkpoint that can be used has the records below {position}"
        if saved is None and not problem and records.first > 0:
            problem = f"there is no checkpoint in {checkpoints.path}"
        if problem and records.first > 0:
            raise StateError(
                f"{problem}; the model cannot be rebuilt from its log in {folder}, which begins with record "
                f"{records.first}"
            )
        if problem:
            log.warning("%s; the model is rebuilt from its log, which is complete", problem)
            saved = None
        undo.pop_all()
    return saved, records


def rollback_positions(records: Log, position: int) -> list[int]:
    """Return the restore points from a position on to which orders in the log return, in order.

    Where their checkpoints are damaged or missing, they have to be saved again while the log is applied.
    """
    found: set[int] = set()
    at = position
    while numbered := records.read(at, READ_BYTES):
        for number, payload in numbered:
            at = number + 1
            if payload[:1] == bytes([Kinds.ORDER]):
                order = decode(payload, ()).content
                if order["kind"] == "rollback" and int(order["to"]) >= position:
                    found.add(int(order["to"]))
    return sorted(found)
