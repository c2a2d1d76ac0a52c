"""Parquet and Arrow files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from source_files import everything, make_parquet, rows

from driftsurf.data import FileSource, ReadingOptions
from driftsurf.errors import BadRowError, SchemaError, SourceError, ValueTypeError


@pytest.mark.parametrize("cut", [100, 400])
def test_a_truncated_parquet_file_is_refused(cut: int, tmp_path: Path) -> None:
    path = make_parquet(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(SourceError, match=r"\.parquet"):
        everything(FileSource(path))


def test_typed_columns_of_every_kind(tmp_path: Path) -> None:
    import datetime

    table = pa.table(
        {
            "decimal": pa.array([1, None], pa.decimal128(10, 2)),
            "category": pa.array(["a", None]).dictionary_encode(),
            "codes": pa.array([3, 4]).dictionary_encode(),
            "day": pa.array([datetime.date(2007, 1, 1), None]),
            "moment": pa.array([10**9, None], pa.timestamp("ns", "Europe/Rome")),
            "span": pa.array([1500, None], pa.duration("ms")),
            "clock": pa.array([60, None], pa.time32("s")),
            "nothing": pa.nulls(2),
            "flag": pa.array([True, None]),
        }
    )
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    given, _ = next(FileSource(tmp_path / "a.parquet").tables())
    first, second = rows(given)
    day = np.datetime64("2007-01-01T00:00").item()
    assert first == (1.0, "a", 3.0, day, np.datetime64("1970-01-01T00:00:01").item(), 1.5, 60.0, None, 1.0)
    assert second == (None, None, 4.0, None, None, None, None, None, None)


@pytest.mark.parametrize("ending", [".arrow", ".arrows"])
def test_text_as_polars_writes_it(ending: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    long = "a text that is too long to be inside a view"
    frame = polars.DataFrame(
        {"text": ["a", None, long], "of": polars.Series(["u", "v", "u"], dtype=polars.Categorical)}
    )
    frame = polars.concat([frame, frame], rechunk=False)
    path = tmp_path / f"a{ending}"
    frame.write_ipc(path) if ending == ".arrow" else frame.write_ipc_stream(path)
    assert everything(FileSource(path)) == [("a", "u"), (None, "v"), (long, "u")] * 2


def test_views_that_share_their_bytes_claim_no_memory(tmp_path: Path) -> None:
    count, text = 2000, b"x" * 2**20
    views = np.zeros((count, 4), np.int32)
    views[:, 0], views[:, 1] = len(text) - np.arange(count), np.frombuffer(text[:4], np.int32)
    buffers = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(text)]
    values = pa.Array.from_buffers(pa.string_view(), count, buffers)
    values.validate(full=True)
    coded = pa.DictionaryArray.from_arrays(pa.array(range(count), pa.int32()), values)
    for place, column in enumerate([values, coded]):
        path, table = tmp_path / f"{place}.arrow", pa.table({"a": column})
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
        assert path.stat().st_size < 3 * len(text)
        with pytest.raises(ValueTypeError, match="'a' share their bytes"):
            everything(FileSource(path))


def test_infinite_numbers_in_typed_files_are_bad_rows(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1.0, np.inf, np.nan, 2.0]}), tmp_path / "a.parquet")
    with pytest.raises(BadRowError, match=r"line 2: .*'a'"):
        everything(FileSource(tmp_path / "a.parquet"))
    assert everything(FileSource(tmp_path / "a.parquet", ReadingOptions(on_bad_row="skip"))) == [
        (1.0,),
        (None,),
        (2.0,),
    ]


def test_columns_of_unsupported_types_are_refused_by_name(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1, 2], "b": [[1], [2]]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"'b'.*drop='b'"):
        everything(FileSource(tmp_path / "a.parquet"))
    assert everything(FileSource(tmp_path / "a.parquet", ReadingOptions(drop=["b"], kinds={"a": "text"}))) == [
        ("1",),
        ("2",),
    ]


def test_dates_out_of_range_are_named(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": pa.array([2**62], pa.timestamp("ms"))}), tmp_path / "a.parquet")
    with pytest.raises(ValueTypeError, match=r"'a'.*timestamp"):
        everything(FileSource(tmp_path / "a.parquet"))


def test_two_columns_of_one_name_are_refused_by_name(tmp_path: Path) -> None:
    table = pa.table([pa.array([1.0]), pa.array([2.0]), pa.array(["x"])], names=["a", "a", "b"])
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="'a'"):
        everything(FileSource(tmp_path / "a.parquet"))
