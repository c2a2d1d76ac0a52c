"""The side file of a source: messages that are no rows, or that the model refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from driftsurf.core import files
from driftsurf.data.connectors.contract import Message
from driftsurf.data.formats._reader import RAW_LIMIT
from driftsurf.runs.folder import BAD_ROWS

__all__ = ["BadRowFile"]

MOST_BYTES = 16 * 2**20
"""Size from which on a new file is begun; the one before it is kept."""
OLDER = "bad_rows.older.jsonl"


class BadRowFile:
    """Bad messages, one line of JSON for each, which is on disk before the rest of its batch is given to the model.

    After a crash a batch may be read again, and the model may know more by then. Which of its messages are bad must
    stay as it was, because the rest may be learned already: ``decided`` tells it.

    Parameters
    ----------
    folder
        Folder of the source.
    size
        Bytes of the file when the position of the source was saved: what follows is of batches after it.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.path: Path = folder / BAD_ROWS
        data = files.read_bytes(self.path) if self.path.exists() else b""
        data = data[: data.rfind(b"\n") + 1]
        rest = data[size:].splitlines()
        self.decided: set[str] = {str(json.loads(line)["file"]) for line in rest}
        """Messages after the saved position that are in the file already."""
        self.count: int = len(rest)
        """Messages that were added since the saved position."""
        self._file = files.AppendedFile(self.path, len(data), hashlib.sha256(data).hexdigest())
        files.sync_folder(folder)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._file.size

    def add(self, source: str, bad: Iterable[tuple[Message, str]]) -> None:
        """Write bad messages with the reason of each; return when they are on disk."""
        for message, reason in bad:
            raw = message.value[:RAW_LIMIT].decode("utf-8", "backslashreplace")
            place = f"{source}, {message.place}"
            self._file.write(json.dumps({"file": place, "reason": reason, "raw": raw}) + "\n")
            self.decided.add(place)
            self.count += 1
        self._file.sync()

    def saved(self) -> None:
        """Note that the position of the source was saved."""
        self.decided.clear()
        self.count = 0

    def roll(self) -> None:
        """Begin a new file if this one is large."""
        if self._file.size > MOST_BYTES:
            self._file.close()
            files.publish(self.path, self.path.with_name(OLDER))
            self._file = files.AppendedFile(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
