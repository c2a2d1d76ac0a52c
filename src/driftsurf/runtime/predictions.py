"""Predictions out: every row with its number, the version of the model, the label and its probability."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from driftsurf.base import FloatArray
from driftsurf.errors import MissingExtraError, Option, OptionError, RunFolderError
from driftsurf.runtime import files
from driftsurf.runtime.session import Observation

__all__ = ["FORMATS", "STANDARD_OUTPUT", "Given", "LabelType", "PredictionSink", "given_by", "prediction_sink"]

STANDARD_OUTPUT = "-"
LabelType: TypeAlias = Literal["text", "integer", "boolean", "value"]


@dataclass(frozen=True, slots=True)
class Given:
    """The predictions of a batch, as they were given when its rows came."""

    first_row: int
    version: int
    """The time steps that the model had learnt."""
    labels: list[Any]
    """None for a row that came before there was a model."""
    probability: list[float | None]
    """Of the label; None where the model has none."""
    keys: list[str | int] | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """One entry a row."""
        for place, (label, probability) in enumerate(zip(self.labels, self.probability, strict=True)):
            key = {} if self.keys is None else {"key": self.keys[place]}
            yield {
                "row": self.first_row + place,
                **key,
                "version": self.version,
                "label": label,
                "probability": probability,
            }


def given_by(seen: Observation, first_row: int, version: int) -> Given:
    """The predictions of an observation."""
    return Given(first_row, version, seen.labels.tolist(), probabilities(seen.scores, seen.predicted, seen))


def probabilities(scores: FloatArray, codes: npt.NDArray[Any], of: Any) -> list[float | None]:
    """The probability of each predicted code; None where ``of`` (what predicted) has none."""
    if not of.probabilities or codes.dtype.kind == "f":
        return [None] * len(codes)
    if scores.ndim == 1:
        chosen: FloatArray = expit(np.where(codes == 1, scores, -scores))
    else:
        chosen = np.exp(scores[np.arange(len(codes)), codes])
    listed: list[float | None] = chosen.tolist()
    return listed


# ---------------------------------------------------------------------------- formats


class _Form(Protocol):
    """Makes bytes of predictions."""

    def add(self, given: Given) -> None:
        """The rows of a batch."""
        ...

    def close(self) -> None:
        """What stands at the end."""
        ...


class _Csv:
    def __init__(self, sink: Callable[[bytes], Any], label: LabelType, keyed: bool) -> None:
        self._sink = sink
        self._head = ["row", *["key"] * keyed, "version", "label", "probability"]
        self._write([self._head])

    def _write(self, lines: Any) -> None:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(lines)
        self._sink(out.getvalue().encode())

    def add(self, given: Given) -> None:
        self._write([row.values() for row in given.rows()])

    def close(self) -> None:
        """Nothing stands at the end."""


class _JsonLines:
    def __init__(self, sink: Callable[[bytes], Any], label: LabelType, keyed: bool) -> None:
        self._sink = sink

    def add(self, given: Given) -> None:
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in given.rows())
        self._sink("".join(lines).encode())

    def close(self) -> None:
        """Nothing stands at the end."""


class _Parquet:
    def __init__(self, sink: Callable[[bytes], Any], label: LabelType, keyed: bool) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtraError(
                f"writing Parquet needs pyarrow, which is not installed ({error}): pip install 'driftsurf[sources]', "
                "or take .csv or .jsonl"
            ) from error
        types = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_(), "value": pa.float64()}
        fields = [("row", pa.int64()), *[("key", pa.string())] * keyed, ("version", pa.int64())]
        self._schema = pa.schema([*fields, ("label", types[label]), ("probability", pa.float64())])
        self._arrow = pa
        self._writer = pq.ParquetWriter(pa.PythonFile(_Written(sink), "w"), self._schema)

    def add(self, given: Given) -> None:
        rows = list(given.rows())
        for row in rows:
            if "key" in row:
                row["key"] = str(row["key"])
        self._writer.write_table(self._arrow.Table.from_pylist(rows, self._schema))

    def close(self) -> None:
        self._writer.close()


class _Written:
    """A file for pyarrow, open for writing at its end."""

    closed = False

    def __init__(self, sink: Callable[[bytes], Any]) -> None:
        self._sink, self._at = sink, 0

    def write(self, data: Any) -> int:
        """Add bytes."""
        self._sink(bytes(data))
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes so far."""
        return self._at

    def flush(self) -> None:
        """Whoever has the bytes flushes them."""

    def close(self) -> None:
        """Whoever has the bytes closes them."""


FORMATS: dict[str, Callable[[Callable[[bytes], Any], LabelType, bool], _Form]] = {
    ".csv": _Csv,
    ".jsonl": _JsonLines,
    ".parquet": _Parquet,
}


# ---------------------------------------------------------------------------- where they go


class PredictionSink(Protocol):
    """Where the predictions of a run go."""

    def begin(self) -> None:
        """The first row follows."""
        ...

    def resume(self, row: int) -> None:
        """The row of this number follows; those after it that were written before are taken back."""
        ...

    def take(self, given: Given) -> None:
        """Predictions of a batch."""
        ...

    def flush(self) -> None:
        """A checkpoint follows, which relies on all that was taken."""
        ...

    def finish(self) -> None:
        """That was all."""
        ...


class _Stream:
    """Standard output, at once: after a resume rows come again, with the same numbers."""

    def __init__(self, label: LabelType, keyed: bool) -> None:
        self._label, self._keyed = label, keyed
        self._form: _Form | None = None

    def _write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def begin(self) -> None:
        self._form = _Csv(self._write, self._label, self._keyed)

    def resume(self, row: int) -> None:
        self.begin()

    def take(self, given: Given) -> None:
        assert self._form is not None
        self._form.add(given)

    def flush(self) -> None:
        """Nothing waits."""

    def finish(self) -> None:
        """Nothing waits."""


class _File:
    """One file, which has its name when it is whole."""

    def __init__(self, path: Path, label: LabelType, keyed: bool) -> None:
        self._path, self._label, self._keyed = path, label, keyed
        self._form: _Form | None = None

    def begin(self) -> None:
        files.make_folder(self._path.parent)
        self._file = files.AppendedFile(self._partial)
        self._form = FORMATS[self._path.suffix](self._file.write_bytes, self._label, self._keyed)

    @property
    def _partial(self) -> Path:
        return self._path.with_name(self._path.name + files.PARTIAL)

    def resume(self, row: int) -> None:
        """There is nothing to resume from without checkpoints."""

    def take(self, given: Given) -> None:
        assert self._form is not None
        self._form.add(given)

    def flush(self) -> None:
        """There are no checkpoints."""

    def finish(self) -> None:
        assert self._form is not None
        self._form.close()
        self._file.sync()
        self._file.close()
        files.publish(self._partial, self._path)


class _Parts:
    """A file for each checkpoint, named by its first row; whole or not there at all."""

    def __init__(self, path: Path, label: LabelType, keyed: bool, keep: int | None) -> None:
        self._path, self._label, self._keyed, self._keep = path, label, keyed, keep
        self._first: int | None = None
        self._bytes = bytearray()
        self._form: _Form | None = None

    def part(self, row: int) -> Path:
        """The file that begins with this row."""
        return self._path.with_name(f"{self._path.stem}-{row:012d}{self._path.suffix}")

    def parts(self) -> list[int]:
        """The first rows of the files that are there."""
        return _part_rows(self._path)

    def begin(self) -> None:
        files.make_folder(self._path.parent)
        self.resume(0)

    def resume(self, row: int) -> None:
        for first in self.parts():
            if first >= row:
                files.remove(self.part(first))
        for name in files.names(self._path.parent):
            if name.startswith(f".{self._path.stem}-") and f"{self._path.suffix}." in name:  # half a part
                files.remove(self._path.parent / name)

    def take(self, given: Given) -> None:
        if self._form is None:
            self._first = given.first_row
            self._form = FORMATS[self._path.suffix](self._bytes.extend, self._label, self._keyed)
        self._form.add(given)

    def flush(self) -> None:
        if self._form is not None:
            assert self._first is not None
            self._form.close()
            files.write_bytes(self.part(self._first), bytes(self._bytes))
            files.sync_folder(self._path.parent)
            self._form, self._bytes = None, bytearray()
        if self._keep is not None:
            for row in self.parts()[: -self._keep]:
                files.remove(self.part(row))

    def finish(self) -> None:
        """The last checkpoint had the rest."""


def prediction_sink(
    where: str, label: LabelType, *, keyed: bool, parts: bool, keep: int | None = None, overwrite: bool = False
) -> PredictionSink:
    """Where predictions go by name: "-", or a file that ends in .csv, .jsonl or .parquet.

    ``parts``: one file for each checkpoint, of which the last ``keep`` are kept.
    """
    if where == STANDARD_OUTPUT:
        return _Stream(label, keyed)
    path = Path(where)
    if path.suffix not in FORMATS:
        raise OptionError(Option("predictions"), f" is {where!r}; give '-' or a file that ends in {', '.join(FORMATS)}")
    there = [str(path)] * path.exists() + [str(path.parent / name) for name in _part_names(path)] * parts
    if there and not overwrite:
        raise RunFolderError(f"{there[0]!r} exists already; choose another file, or replace it with --overwrite")
    return _Parts(path, label, keyed, keep) if parts else _File(path, label, keyed)


def _part_names(path: Path) -> list[str]:
    form = re.compile(rf"{re.escape(path.stem)}-\d{{12}}{re.escape(path.suffix)}")
    return [name for name in files.names(path.parent) if form.fullmatch(name)] if files.is_folder(path.parent) else []


def _part_rows(path: Path) -> list[int]:
    return [int(name.removesuffix(path.suffix)[-12:]) for name in _part_names(path)]
