"""Files of a run that grow in parts, and where else its results go: predictions, copies of the journal and trace."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from driftsurf.core import files
from driftsurf.errors import StateError
from driftsurf.evaluation.trace import TYPES
from driftsurf.runs.folder import JOURNAL, TRACE
from driftsurf.runs.predictions import LabelType, PredictionBatch
from driftsurf.runs.sinks import Closable, Sink


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


JOURNAL_COLUMNS: dict[str, LabelType] = {
    "row": "integer",
    "type": "text",
    "step": "integer",
    "text": "text",
    "record": "text",
}
"""Columns of a copied journal: the number of the line, and the line itself as JSON text beside its main entries."""
_KINDS: dict[type, LabelType] = {int: "integer", float: "value", str: "text"}


@dataclass(frozen=True, slots=True)
class OutputLines:
    """Lines of the journal or of the trace, as a sink takes them."""

    first_row: int
    records: Sequence[Mapping[str, Any]]
    ids: None = None

    def __len__(self) -> int:
        return len(self.records)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield one record for each line, which begins with its number."""
        for number, record in enumerate(self.records, start=self.first_row):
            yield {"row": number, **record}

    def from_row(self, row: int) -> OutputLines:
        """Return the lines with this number and above."""
        start = max(0, row - self.first_row)
        return OutputLines(self.first_row + start, self.records[start:]) if start else self


def trace_columns(head: str) -> dict[str, LabelType]:
    """Return the columns of a copied trace, from the text before its first line."""
    names = next(csv.reader([head.splitlines()[-1]]))
    kinds: dict[str, LabelType] = {"row": "integer"}
    return kinds | {name: _KINDS[TYPES.get(name, int)] for name in names}


def journal_records(text: str) -> list[dict[str, Any]]:
    """Return lines of a journal as records with the columns ``JOURNAL_COLUMNS``, without their numbers."""
    found = []
    for line in text.splitlines():
        record = json.loads(line)
        found.append(
            {"type": record.get("type"), "step": record.get("step"), "text": record.get("text"), "record": line}
        )
    return found


def _trace_records(columns: Mapping[str, LabelType], text: str) -> list[dict[str, Any]]:
    kinds = list(columns.items())[1:]  # without the number of the line
    return [
        {name: _value(kind, cell) for (name, kind), cell in zip(kinds, cells, strict=True)}
        for cells in csv.reader(io.StringIO(text))
    ]


def _value(kind: LabelType, cell: str) -> Any:
    if kind == "text":
        return cell
    number = float(cell) if cell else None
    return int(number) if kind == "integer" and number is not None else number


class Outlets:
    """The sinks of a run. All of them are flushed before a checkpoint counts their rows as written.

    Parameters
    ----------
    predictions
        Where predictions go; None for nowhere.
    copies
        Where lines of the journal and of the trace also go, by the name of the file.
    trace_head
        Text before the first line of the trace.
    """

    def __init__(self, predictions: Sink | None, copies: Mapping[str, Sink], trace_head: str) -> None:
        self.predictions = predictions
        self.copies = copies
        columns = trace_columns(trace_head) if TRACE in copies else {}
        self._read: dict[str, Callable[[str], list[dict[str, Any]]]] = {
            JOURNAL: journal_records,
            TRACE: lambda text: _trace_records(columns, text),
        }
        self._lines = dict.fromkeys(copies, 0)
        """Number of lines that were copied."""
        self._first = dict.fromkeys(copies, 0)
        """Lines below this number are in the sink already."""
        self._first_row = 0
        """Predictions below this number are in the sink already."""

    def begin(self) -> None:
        """Prepare for the first row."""
        for sink in self._sinks():
            sink.begin()

    def resume(self, rows: int, lines: Mapping[str, int]) -> None:
        """Prepare for a run that repeats what came after a checkpoint, which counts these rows and lines."""
        if self.predictions is not None:
            self._first_row = self.predictions.resume(rows)
        for name, sink in self.copies.items():
            self._lines[name] = lines.get(name, 0)
            self._first[name] = sink.resume(self._lines[name])

    def predicted(self, batch: PredictionBatch) -> None:
        """Write predictions, except those that the sink already has."""
        if self.predictions is not None and len(rest := batch.from_row(self._first_row)):
            self.predictions.take(rest)

    def written(self, name: str, text: str) -> None:
        """Copy lines that were written to a file, except those that the sink already has."""
        sink: Any = self.copies.get(name)
        if sink is None or not text:
            return
        records = OutputLines(self._lines[name], self._read[name](text))
        self._lines[name] += len(records)
        if len(rest := records.from_row(self._first[name])):
            sink.take(rest)

    @property
    def lines(self) -> dict[str, int]:
        """Number of lines that were copied, by the name of the file."""
        return dict(self._lines)

    def flush(self) -> None:
        """Make everything durable; the checkpoint that follows relies on it."""
        for sink in self._sinks():
            sink.flush()

    def finish(self) -> None:
        """Close the sinks after the last batch."""
        for sink in self._sinks():
            sink.finish()

    def close(self) -> None:
        """Close the sinks of a run that failed."""
        for sink in self._sinks():
            if isinstance(sink, Closable):
                sink.close()

    def _sinks(self) -> list[Sink]:
        return [*([] if self.predictions is None else [self.predictions]), *self.copies.values()]
