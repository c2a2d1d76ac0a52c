"""A growing file in several parts: when one is full the next begins, and old ones are removed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from driftsurf.core import files
from driftsurf.errors import StateError

__all__ = ["RolledFile", "Rotation", "lines_before", "part_names"]


def part_names(folder: Path, name: str) -> list[str]:
    """Return the names of the existing parts of a file, the newest one first."""
    form = re.compile(rf"{re.escape(name)}(?:-(\d{{6}}))?")
    found = (form.fullmatch(one) for one in files.names(folder))
    numbers = sorted((int(match[1] or 0) for match in found if match is not None), reverse=True)
    return [f"{name}-{number:06d}" if number else name for number in numbers]


def lines_before(folder: Path, name: str, *, head: int = 0) -> Iterator[str]:
    """Yield the complete lines of a file and its parts with their ends, the newest first, also while it is written.

    Only as many parts are read as lines are asked for. The ``head`` lines with which each part begins are left out.
    """
    for one in part_names(folder, name):
        try:
            text = files.read_bytes(folder / one).decode(errors="replace")
        except FileNotFoundError:  # removed since: it was the oldest one
            return
        lines = text.split("\n")[head:-1]  # names may hold other ends of lines
        yield from (f"{line}\n" for line in reversed(lines))


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a growing file begins a new part, and how many parts are kept."""

    part_bytes: int | None = None
    """Size at which a part is full; None keeps everything in one part."""
    keep: int | None = None
    """How many full parts are kept; None keeps all."""


class RolledFile:
    """Text that grows at its end: in ``name`` and, once that is full, in ``name-000001``, ``name-000002``, ...

    A part never changes its name, and nothing is appended to it once the next part has begun. Therefore a checkpoint
    has to remember only the size of the last part.

    Parameters
    ----------
    place
        Returns the path of a file by its name.
    name
        Name of the first part.
    rotation
        When to begin a new part, and how many are kept besides the one that grows.
    shared
        Whether the parts follow the umask; otherwise only their owner may read them.
    head
        Lines with which each part begins.
    """

    def __init__(
        self,
        place: Callable[[str], Path],
        name: str,
        rotation: Rotation | None = None,
        *,
        shared: bool = False,
        head: str = "",
    ) -> None:
        self.name = name
        self.head = head
        self.shared = shared
        self.rotation: Rotation = Rotation() if rotation is None else rotation
        self.number: int = 0
        self._place = place
        self._file: files.AppendedFile | None = None
        self._turning = threading.Lock()
        """Held while parts come and go, and while all of them are read."""

    @property
    def part_name(self) -> str:
        """Name of the part that grows."""
        return self._name(self.number)

    @property
    def part(self) -> files.AppendedFile:
        """The part that grows."""
        assert self._file is not None
        return self._file

    def _name(self, number: int) -> str:
        return f"{self.name}-{number:06d}" if number else self.name

    def _numbers(self) -> list[int]:
        """Return the numbers of the existing parts."""
        names = part_names(self._place(self.name).parent, self.name)
        return [int(name.removeprefix(self.name)[1:] or 0) for name in reversed(names)]

    def begin(self) -> None:
        """Start with an empty file, and remove the parts of an earlier run."""
        for number in self._numbers():
            files.remove(self._place(self._name(number)))
        self._open(0)
        self.write(self.head)

    def resume(self, outputs: Mapping[str, tuple[int, str]]) -> None:
        """Continue at the size that a checkpoint recorded, and remove what was written later."""
        numbers = [number for number in self._numbers() if self._name(number) in outputs]
        if not numbers:
            raise StateError(
                f"the checkpoint does not belong to this run: it has no {self.name}, or that file is missing"
            )
        for number in self._numbers():
            if number > numbers[-1]:
                files.remove(self._place(self._name(number)))
        self._open(numbers[-1], *outputs[self._name(numbers[-1])])

    def _open(self, number: int, size: int = 0, digest: str = "") -> None:
        self.close()
        self.number = number
        self._file = files.AppendedFile(self._place(self._name(number)), size, digest, shared=self.shared)

    def write(self, text: str) -> None:
        """Append text."""
        if text:
            self.part.write(text)

    def rotate(self, needed: Collection[str] = ()) -> None:
        """Begin the next part if this one is full, and remove old ones. Call it right after a checkpoint.

        ``needed`` are the names of the files that some checkpoint needs: no part after the oldest of them is removed.
        """
        with self._turning:
            self._rotate(needed)

    def _rotate(self, needed: Collection[str]) -> None:
        limit, keep = self.rotation.part_bytes, self.rotation.keep
        if limit is not None and self.part.size >= limit:
            self._open(self.number + 1)
            self.part.write(self.head)
            # A checkpoint must not survive a power loss that the name of its file does not survive.
            files.sync_folder(self.part.path.parent)
        if keep is not None:
            there = self._numbers()
            oldest = min([self.number - keep, *(number for number in there if self._name(number) in needed)])
            for number in there:
                if number < oldest:
                    files.remove(self._place(self._name(number)))

    def text(self) -> str:
        """Return the text of all parts that are kept."""
        with self._turning:
            older = [number for number in self._numbers() if number < self.number]
            texts = [files.read_text(self._place(self._name(number))) for number in older]
            first, *later = [*texts, self.part.text()]
            return first + "".join([text.removeprefix(self.head) for text in later])

    def newest(self, most: int) -> str:
        """Return the head and the last lines; only the parts that have them are read."""
        with self._turning:
            lines = lines_before(self._place(self.name).parent, self.name, head=self.head.count("\n"))
            return self.head + "".join(reversed(list(islice(lines, most))))

    def close(self) -> None:
        """Close the part that grows."""
        if self._file is not None:
            self._file.close()
