"""A file that grows in parts: when one is full the next begins, and old ones are let go."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from driftsurf.errors import StateError
from driftsurf.runtime import files

__all__ = ["RolledFile", "Rotation"]


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a part is full, and how many full parts are kept. None: never; all."""

    part_bytes: int | None = None
    keep: int | None = None


class RolledFile:
    """Text that grows at its end, in ``name`` and, once that is full, in ``name-000001``, ``name-000002``, ...

    A part never changes its name and is never written to after the next one has begun, so a checkpoint has to
    remember the size of the last one alone.

    Parameters
    ----------
    place
        Says where a file of this name goes.
    name
        What the first part is called.
    rotation
        When to begin another part, and how many are kept beside the one that grows.
    mode
        Who may read and write it.
    """

    def __init__(
        self, place: Callable[[str], Path], name: str, rotation: Rotation | None = None, *, mode: int = 0o666
    ) -> None:
        self.name = name
        self.rotation = Rotation() if rotation is None else rotation
        self.mode = mode
        self.number = 0
        self._place = place
        self._file: files.AppendedFile | None = None

    @property
    def part_name(self) -> str:
        """What the part that grows is called."""
        return self._name(self.number)

    @property
    def part(self) -> files.AppendedFile:
        """The part that grows."""
        assert self._file is not None
        return self._file

    def _name(self, number: int) -> str:
        return f"{self.name}-{number:06d}" if number else self.name

    def _numbers(self) -> list[int]:
        """The parts that are there."""
        form = re.compile(rf"{re.escape(self.name)}(?:-(\d{{6}}))?")
        found = (form.fullmatch(name) for name in files.names(self._place(self.name).parent))
        return [int(match[1] or 0) for match in found if match is not None]

    # -------------------------------------------------------------------- growing

    def begin(self) -> None:
        """Begin with nothing; what there was is removed."""
        for number in self._numbers():
            files.remove(self._place(self._name(number)))
        self._open(0)

    def resume(self, outputs: Mapping[str, tuple[int, str]]) -> None:
        """Go on where a checkpoint says that it was; what was written later is removed."""
        numbers = [number for number in self._numbers() if self._name(number) in outputs]
        if not numbers:
            raise StateError(f"the checkpoint says nothing of {self.name}, or the file is gone: it is another run's")
        for number in self._numbers():
            if number > numbers[-1]:
                files.remove(self._place(self._name(number)))
        self._open(numbers[-1], *outputs[self._name(numbers[-1])])

    def _open(self, number: int, size: int = 0, digest: str = "") -> None:
        self.close()
        self.number = number
        self._file = files.AppendedFile(self._place(self._name(number)), size, digest, mode=self.mode)

    def write(self, text: str) -> None:
        """Add text at the end."""
        if text:
            self.part.write(text)

    def turn(self, counted_on: Collection[str] = ()) -> None:
        """Begin the next part if this one is full, and let go of old ones; to be called right after a checkpoint.

        ``counted_on`` are the names of files that some checkpoint needs: from the oldest of them on all parts stay.
        """
        limit, keep = self.rotation.part_bytes, self.rotation.keep
        if limit is not None and self.part.size >= limit:
            self._open(self.number + 1)
            files.sync_folder(self.part.path.parent)  # no checkpoint may outlive the name of the file it counts on
        if keep is not None:
            there = self._numbers()
            oldest = min([self.number - keep, *(number for number in there if self._name(number) in counted_on)])
            for number in there:
                if number < oldest:
                    files.remove(self._place(self._name(number)))

    def text(self) -> str:
        """All that is kept of it."""
        older = [files.read_text(self._place(self._name(number))) for number in self._numbers() if number < self.number]
        return "".join(older) + self.part.text()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
