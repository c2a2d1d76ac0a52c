"""Whether a served model has room for more records: in the queue of its learner, and on its disk."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from driftsurf.core.sizes import shown_bytes
from driftsurf.errors import OverloadedError, StorageFullError
from driftsurf.service.admission import Admission
from driftsurf.service.following import Follower
from driftsurf.service.settings import Keeping

__all__ = ["Room"]

ROOM_SECONDS = 5.0
"""How long a measurement of the free room of the disk is used."""


class Room:
    """What is logged and not learned, and how much of the disk is free, beside the limits of both.

    Parameters
    ----------
    folder
        Folder of the model.
    keeping
        The limits.
    admission, follower
        What is logged, and what of it has been applied.
    """

    def __init__(self, folder: Path, keeping: Keeping, admission: Admission, follower: Follower) -> None:
        self.folder = folder
        self.keeping = keeping
        self._admission = admission
        self._follower = follower
        self._measured = 0.0, 2**62

    @property
    def lag_rows(self) -> int:
        """Rows and labels that are logged and not applied; one that waits for a label or a row does not count."""
        applied = self._follower.applied_rows  # before the rows that are logged, which only grow
        return max(0, self._admission.rows - applied)

    @property
    def free_bytes(self) -> int:
        """Free bytes of the disk, measured every few seconds."""
        at, free = self._measured
        now = time.monotonic()
        if now - at > ROOM_SECONDS or not at:
            free = shutil.disk_usage(self.folder).free
            self._measured = now, free
        return free

    def check(self) -> None:
        """Raise OverloadedError or StorageFullError unless there is room for more records."""
        keeping = self.keeping
        if self._follower.run is not None:  # before, labels have to come, whatever waits
            waiting = self._admission.bytes - self._follower.applied_bytes
            for lag, most, shown, what in (
                (self.lag_rows, keeping.max_lag_rows, "{:,}".format, "rows and labels"),
                (waiting, keeping.max_lag_bytes, shown_bytes, "of records"),
            ):
                if lag > most:
                    raise OverloadedError(
                        f"{shown(lag)} {what} wait to be learned, more than {shown(most)}; try again later",
                        retry_after=1.0,
                    )
        if self.free_bytes < keeping.least_free_bytes:
            raise StorageFullError(
                f"the disk of {str(self.folder)!r} has {shown_bytes(self.free_bytes)} free, less than "
                f"{shown_bytes(keeping.least_free_bytes)} (least-free-bytes in [keeping]); free some of it"
            )
