"""Damaged, truncated and compressed files of all formats."""

from __future__ import annotations

import bz2
import gzip
from itertools import islice
from pathlib import Path

import pytest
from source_files import everything, write, zstd

from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.reading_options import ROW_BYTES
from driftsurf.errors import SchemaError, SourceError


@pytest.mark.parametrize(
    ("name", "data", "named"),
    [
        ("a.csv", b"", ""),
        ("a.csv", b"\n\n", ""),
        ("a.csv", b'a,"b\n', "line 1.*quote"),
        ("a.csv", b"a," + b"b" * 200_000 + b"\n", "line 1"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 50_000, mtime=0)[:-20], "gzip"),
        ("a.csv.gz", b"a,b\n1,2\n", ""),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-8] + b"12345678", ""),
        ("a.csv.bz2", bz2.compress(b"a,b\n" + b"1,2\n" * 50_000)[:-10], ""),
        ("a.csv.bz2", b"BZhello,b\n1,2\n", "bzip2"),
        ("a.csv.zip", b"PK\x03\x04 and no more", ""),
        ("a.csv.zst", zstd(b"a,b\n" + b"1,2\n" * 50_000)[:-5], ""),
        ("a.csv.zst", b"", ""),
        ("a.parquet", b"PAR1 no", ""),
        ("a.arrow", b"ARROW1 no", ""),
        ("a.feather", b"", ""),
        ("a.arff", b"@relation r\n@attribute a numeric\n", "@data"),
        ("a.arff", b"@relation r\n@data\n1\n", "@attribute"),
        ("a.arff", b"@attribute a colour\n@data\n1\n", "'a'.*'colour'.*numeric"),
        ("a.arff", b"@attribute 'a\n@data\n1\n", "@attribute 'a"),
        ("a.arff", b"@attribute a real\n@attribute a real\n@data\n1\n", "'a'"),
    ],
)
def test_damaged_or_wrong_files_are_refused_by_name(name: str, data: bytes, named: str, tmp_path: Path) -> None:
    path = write(tmp_path, name, data)
    with pytest.raises((SourceError, SchemaError), match=f"{name}.*{named}"):
        everything(FileSource(path, ReadingOptions(on_bad_row="skip")))


def test_complete_batches_before_damage_are_returned(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", b"a\n" + b"1\n" * 2500 + b"x" * (ROW_BYTES + 10))
    for block_bytes in (2**16, 2**23):
        tables = FileSource(path, ReadingOptions(block_bytes=block_bytes)).tables()
        assert [len(table) for table, _ in islice(tables, 2)] == [1000, 1000]
        with pytest.raises(SourceError, match=f"line 2502.*{ROW_BYTES}"):
            next(tables)


def test_gzip_files_of_several_members_padded_with_zeros(tmp_path: Path) -> None:
    data = gzip.compress(b"a\n1\n", mtime=0) + gzip.compress(b"2\n3\n", mtime=0) + b"\0" * 100
    path = write(tmp_path, "a.csv.gz", data)
    for block_bytes in (1, 2**20):
        assert everything(FileSource(path, ReadingOptions(block_bytes=block_bytes))) == [(1.0,), (2.0,), (3.0,)]
