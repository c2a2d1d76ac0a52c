"""Formats and sources that are registered by other packages."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from source_files import everything, write

from driftsurf import registry
from driftsurf.data import FileSource, Position, ReadingOptions, Source, open_source
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.formats.csv import CsvReader
from driftsurf.data.tables import Column, Table
from driftsurf.runs.batches import SourceReader


def test_a_registered_format_is_read_by_its_ending_compressed_and_from_a_folder(tmp_path: Path) -> None:
    @registry.register("format", "semicolons", endings=(".semi",), streamed=True, cells="text")
    class SemicolonReader(CsvReader):
        def __init__(self, file: ByteFile, reading: ReadingOptions) -> None:
            super().__init__(file, replace(reading, delimiter=";"))

    write(tmp_path, "a.semi", "x;y\n1;a,b\n")
    write(tmp_path, "b.semi.gz", gzip.compress(b"x;y\n2;c\n"))
    assert everything(FileSource(tmp_path)) == [(1.0, "a,b"), (2.0, "c")]
    write(tmp_path, "c.data", "x;y\n3;d\n")
    assert everything(FileSource(tmp_path / "c.data", ReadingOptions(format="semicolons"))) == [(3.0, "d")]


def test_a_registered_source_is_opened_by_its_scheme() -> None:
    @registry.register("source", "count", schemes=("count", "counts"))
    class Counter:
        name, cells, seekable = "count", "typed", True

        def __init__(self, location: str, reading: ReadingOptions, *, batch_size: int, **options: Any) -> None:
            self.stop, self.reading, self.batch_size = int(location.partition("://")[2]), reading, batch_size

        def check(self) -> None: ...

        def describe(self, position: Position) -> str:
            return f"number {position}"

        def tables(self, position: Position = None, *, on_skip: Any = None) -> Iterator[tuple[Table, Position]]:
            for start in range(int(str(position or 0)), self.stop, self.batch_size):
                stop = min(start + self.batch_size, self.stop)
                yield Table({"n": Column("number", np.arange(start, stop, dtype=float))}), stop

    source = open_source("counts://5", batch_size=2)
    assert isinstance(source, Source)
    assert everything(source) == [(0.0,), (1.0,), (2.0,), (3.0,), (4.0,)]
    reader = SourceReader(source)
    assert len(reader.peek()) == 2
    read = list(reader.tables())
    assert [(one.first_row, one.position, one.origin) for one in read] == [
        (0, {"source": 2, "rows": 2}, "number 2"),
        (2, {"source": 4, "rows": 4}, "number 4"),
        (4, {"source": 5, "rows": 5}, "number 5"),
    ]
    assert [len(one.table) for one in SourceReader(source).tables(read[1].position)] == [1]
