"""The side file of a source: messages that are no rows, or that the model refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
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
        self.decided: dict[str, int] = {}
        """Messages of batches that are read again and are in the file already, each with the place of its line."""
        place = min(size, len(data))
        for line in data[place:].splitlines(keepends=True):
            self.decided[str(json.loads(line)["file"])] = place
            place += len(line)
        self._file = files.AppendedFile(self.path, len(data), hashlib.sha256(data).hexdigest())
        files.sync_folder(folder)

    @property
    def settled(self) -> int:
        """Bytes of the file that are about batches which have been given to the model."""
        return next(iter(self.decided.values()), self._file.size)

    def undecided(self, source: str, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that are not in the file; what is there about the others is settled now."""
        return [one for one in messages if self.decided.pop(_place(source, one), None) is None]

    def add(self, source: str, bad: Iterable[tuple[Message, str]]) -> None:
        """Write bad messages with the reason of each; return when they are on disk."""
        for message, reason in bad:
            raw = message.value[:RAW_LIMIT].decode("utf-8", "backslashreplace")
            self._file.write(json.dumps({"file": _place(source, message), "reason": reason, "raw": raw}) + "\n")
        self._file.sync()

    def roll(self) -> None:
        """Begin a new file if this one is large."""
        if self._file.size > MOST_BYTES and not self.decided:
            self._file.close()
            files.publish(self.path, self.path.with_name(OLDER))
            self._file = files.AppendedFile(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _place(source: str, message: Message) -> str:
    return f"{source}, {message.place}"
