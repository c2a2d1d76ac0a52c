"""Files of predictions, one format for each ending, and standard output."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from driftsurf.core import files
from driftsurf.errors.visible import visible
from driftsurf.registry import register
from driftsurf.runs.folder import check_new, partial_path
from driftsurf.runs.predictions import LabelType, PredictionBatch
from driftsurf.runs.sinks import STANDARD_OUTPUT, SinkContext

Write = Callable[[bytes], Any]


class Encoder(Protocol):
    """Turns predictions into the bytes of one file."""

    def add(self, predictions: PredictionBatch) -> None:
        """Encode the rows of a batch."""
        ...

    def close(self) -> None:
        """Encode what follows the last row."""
        ...


class FileSink(ABC):
    """Base class of sinks that write files; a subclass provides the encoder of its format.

    Without checkpoints there is one file, which gets its name when it is complete. With checkpoints there is one file
    for each, named after its first row. Such a file is complete or does not exist, so a resumed run removes the files
    after its checkpoint and writes them again, with the same bytes.
    """

    def __init__(self, destination: str, context: SinkContext) -> None:
        self.context = context
        self.path: Path = Path(destination)
        there = [str(self.path)] * self.path.exists()
        if context.checkpoints:
            there += [str(self.path.parent / name) for name in _part_names(self.path)]
        for path in there:
            check_new(context.option, path, overwrite=context.overwrite)
        self._output: _SingleFile | _FilePerCheckpoint
        if context.checkpoints:
            self._output = _FilePerCheckpoint(self.path, self.encoder, context.keep)
        else:
            self._output = _SingleFile(self.path, self.encoder)

    @abstractmethod
    def encoder(self, write: Write) -> Encoder:
        """Return an encoder whose bytes go to ``write``."""

    def begin(self) -> None:
        """Prepare for row 0."""
        files.make_folder(self.path.parent)
        self._output.begin()

    def resume(self, row: int) -> int:
        """Remove the files that begin with this row or a later one."""
        self._output.resume(row)
        return row

    def take(self, predictions: PredictionBatch) -> None:
        """Write the predictions of a batch."""
        self._output.take(predictions)

    def flush(self) -> None:
        """Complete the file of this checkpoint."""
        self._output.flush()

    def finish(self) -> None:
        """Give the single file its name."""
        self._output.finish()

    def written(self) -> tuple[Path, ...]:
        """Return the complete files, in the order of their rows."""
        return self._output.written()

    def announced(self) -> str:
        """Return that there is a file for each checkpoint, if there is."""
        return self._output.announced()

    def close(self) -> None:
        """Close the file of a run that failed; it keeps its temporary name, unless it has no rows."""
        self._output.close()


class _SingleFile:
    """One file, which has its name when it is complete. There are no checkpoints to resume from."""

    def __init__(self, path: Path, encoder: Callable[[Write], Encoder]) -> None:
        self._path, self._make_encoder = path, encoder
        self._open = self._keep = False

    def begin(self) -> None:
        self._file = files.AppendedFile(partial_path(self._path), shared=True)
        self._encoder = self._make_encoder(self._file.write_bytes)
        self._open = True

    def resume(self, row: int) -> None:
        raise AssertionError("a run without checkpoints cannot be resumed")

    def take(self, predictions: PredictionBatch) -> None:
        self._encoder.add(predictions)
        self._keep = True

    def flush(self) -> None:
        """Do nothing: without checkpoints nothing relies on the file before it is complete."""

    def finish(self) -> None:
        self._encoder.close()
        self._file.sync()
        self._keep = True
        self.close()
        files.publish(partial_path(self._path), self._path)

    def written(self) -> tuple[Path, ...]:
        return (self._path,) if self._path.exists() else ()

    def announced(self) -> str:
        return ""

    def close(self) -> None:
        if self._open:
            self._open = False
            with contextlib.suppress(Exception):  # an encoder that is collected later must not write any more
                self._encoder.close()
            self._file.close()
            if not self._keep:
                files.remove(partial_path(self._path))


class _FilePerCheckpoint:
    """A file for each checkpoint, named after its first row."""

    def __init__(self, path: Path, encoder: Callable[[Write], Encoder], keep: int | None) -> None:
        self._path, self._make_encoder, self._keep = path, encoder, keep
        self._first_row = 0
        self._bytes = bytearray()
        self._encoder: Encoder | None = None

    def part(self, row: int) -> Path:
        """Return the path of the file that begins with this row."""
        return self._path.with_name(f"{self._path.stem}-{row:012d}{self._path.suffix}")

    def parts(self) -> list[int]:
        """Return the first rows of the existing files."""
        return [int(name.removesuffix(self._path.suffix)[-12:]) for name in _part_names(self._path)]

    def begin(self) -> None:
        self.resume(0)

    def resume(self, row: int) -> None:
        for first in self.parts():
            if first >= row:
                files.remove(self.part(first))
        for name in files.names(self._path.parent):
            # Files are written under a temporary name and renamed; a killed run may leave one behind.
            if name.startswith(f".{self._path.stem}-") and f"{self._path.suffix}." in name:
                files.remove(self._path.parent / name)

    def take(self, predictions: PredictionBatch) -> None:
        if self._encoder is None:
            self._first_row = predictions.first_row
            self._encoder = self._make_encoder(self._bytes.extend)
        self._encoder.add(predictions)

    def flush(self) -> None:
        if self._encoder is not None:
            self._encoder.close()
            files.write_bytes(self.part(self._first_row), bytes(self._bytes), shared=True)
            files.sync_folder(self._path.parent)
            self._encoder, self._bytes = None, bytearray()
        if self._keep is not None:
            for row in self.parts()[: -self._keep]:
                files.remove(self.part(row))

    def finish(self) -> None:
        """Do nothing: the last checkpoint completed the last file."""

    def written(self) -> tuple[Path, ...]:
        return tuple(self.part(row) for row in sorted(self.parts()))

    def announced(self) -> str:
        return f"a file for each checkpoint, named after its first row: {self.part(0)} and so on"

    def close(self) -> None:
        """Do nothing: no file is open between two checkpoints."""


def _part_names(path: Path) -> list[str]:
    form = re.compile(rf"{re.escape(path.stem)}-\d{{12}}{re.escape(path.suffix)}")
    return [name for name in files.names(path.parent) if form.fullmatch(name)] if files.is_folder(path.parent) else []


class CsvEncoder:
    """Encodes predictions as CSV with a header line."""

    def __init__(self, write: Write, columns: Collection[str]) -> None:
        self._write_bytes = write
        self._write([columns])

    def _write(self, lines: Iterable[Collection[Any]]) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        self._write_bytes(out.getvalue().encode())

    def add(self, predictions: PredictionBatch) -> None:
        """Encode one line for each row."""
        self._write([list(row.values()) for row in predictions.rows()])

    def close(self) -> None:
        """Do nothing: CSV has no footer."""


@register("sink", "csv", endings=(".csv",))
class CsvSink(FileSink):
    """CSV file with a header line."""

    def encoder(self, write: Write) -> CsvEncoder:
        """Return an encoder of CSV."""
        return CsvEncoder(write, self.context.columns)


class JsonLinesEncoder:
    """Encodes each prediction as a JSON object on a line."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def add(self, predictions: PredictionBatch) -> None:
        """Encode one line for each row."""
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in predictions.rows())
        self._write("".join(lines).encode())

    def close(self) -> None:
        """Do nothing: JSON lines have no footer."""


@register("sink", "jsonl", endings=(".jsonl",))
class JsonLinesSink(FileSink):
    """File with a JSON object for each row."""

    def encoder(self, write: Write) -> JsonLinesEncoder:
        """Return an encoder of JSON lines."""
        return JsonLinesEncoder(write)


class ParquetEncoder:
    """Encodes predictions as Parquet, with a type for each column."""

    def __init__(self, write: Write, columns: Mapping[str, LabelType]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_(), "value": pa.float64()}
        self._schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
        self._table_of = pa.Table.from_pylist
        self._writer = pq.ParquetWriter(pa.PythonFile(_AppendOnly(write), "w"), self._schema)

    def add(self, predictions: PredictionBatch) -> None:
        """Encode the rows of a batch as one group of rows."""
        rows = list(predictions.rows())
        if predictions.ids is not None:
            for row in rows:
                row["id"] = str(row["id"])  # ids may be numbers in one batch and text in the next
        self._writer.write_table(self._table_of(rows, self._schema))

    def close(self) -> None:
        """Encode the footer."""
        self._writer.close()


class _AppendOnly:
    """File object for pyarrow that passes on what is written; the owner of the bytes flushes and closes them."""

    closed = False

    def __init__(self, write: Write) -> None:
        self._write, self._size = write, 0

    def write(self, data: Any) -> int:
        """Append bytes."""
        self._write(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes so far."""
        return self._size

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@register("sink", "parquet", endings=(".parquet",), requires=("pyarrow",), install="pip install pyarrow")
class ParquetSink(FileSink):
    """Parquet file with typed columns."""

    def encoder(self, write: Write) -> ParquetEncoder:
        """Return an encoder of Parquet."""
        return ParquetEncoder(write, self.context.columns)


@register("sink", "standard-output", schemes=(STANDARD_OUTPUT,))
class StandardOutputSink:
    """CSV on standard output, written at once. On a terminal, characters that would control it are shown escaped.

    Nothing can be taken back: after a resume rows since the checkpoint appear again, with the same numbers.
    """

    def __init__(self, destination: str, context: SinkContext) -> None:
        self.context = context

    def begin(self) -> None:
        """Write the header line."""
        self._encoder = CsvEncoder(_write, self.context.columns)

    def resume(self, row: int) -> int:
        """Write the header line again."""
        self.begin()
        return row

    def take(self, predictions: PredictionBatch) -> None:
        """Write the predictions of a batch."""
        self._encoder.add(predictions)

    def flush(self) -> None:
        """Do nothing: every batch is flushed."""

    def finish(self) -> None:
        """Do nothing: standard output belongs to the process."""


def _write(data: bytes) -> None:
    if sys.stdout.isatty():
        data = visible(data.decode(), lines=True).encode()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
