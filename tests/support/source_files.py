"""Small generated files of every format, and their rows as plain values."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from driftsurf.data import BadRow, Source
from driftsurf.data.tables import Column, Table

Row = tuple[Any, ...]


def cells(column: Column) -> list[Any]:
    """Return the values of a column, None for a missing one."""
    there = ~column.missing()
    values = [column.words[c] for c in column.values[there]] if column.kind == "text" else column.values[there].tolist()
    following = iter(values)
    return [next(following) if here else None for here in there]


def rows(table: Table) -> list[Row]:
    columns = [cells(column) for column in table.columns.values()]
    if table.features is not None:
        data, indices, indptr, _ = table.features
        columns.append(
            [tuple(zip(indices[a:b].tolist(), data[a:b].tolist(), strict=True)) for a, b in pairwise(indptr)]
        )
    return list(zip(*columns, strict=True))


def everything(source: Source, position: Any = None, on_skip: Callable[[BadRow], None] | None = None) -> list[Row]:
    return [row for table, _ in source.tables(position, on_skip=on_skip) for row in rows(table)]


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def arrow_table(count: int = 25) -> pa.Table:
    numbers = [None if i % 7 == 3 else float(i) for i in range(count)]
    words = [None if i % 5 == 4 else f"w{i % 3}" for i in range(count)]
    return pa.table({"n": numbers, "t": words, "b": [i % 2 == 0 for i in range(count)], "label": list(range(count))})


def make_csv(folder: Path) -> Path:
    lines = ["n,t,b,label"] + [
        f'{"" if r["n"] is None else r["n"]},"{r["t"] or ""}",{str(r["b"]).lower()},{r["label"]}'
        for r in arrow_table().to_pylist()
    ]
    return write(folder, "a.csv", "\r\n".join(lines))


def make_json(folder: Path) -> Path:
    lines = make_jsonl(folder).read_text().strip().split("\n")
    return write(folder, "a.json", f"[{', '.join(lines)}]")


def make_jsonl(folder: Path) -> Path:
    return write(folder, "a.jsonl", "\n".join(json.dumps(row) for row in arrow_table().to_pylist()) + "\n")


def make_arff(folder: Path) -> Path:
    head = "% remark\n@relation r\n@attribute n numeric\n@ATTRIBUTE 't' {w0,w1,'w2'}\n@attribute b string\n"
    body = "".join(
        f"{'?' if r['n'] is None else r['n']},{r['t'] or '?'},'{r['b']}',{r['label']}\n"
        for r in arrow_table().to_pylist()
    )
    return write(folder, "a.arff", head + "@attribute label integer\n@data\n% remark\n\n" + body)


def make_libsvm(folder: Path) -> Path:
    return write(folder, "a.svm", "".join(f"{i % 2:+d} {1 + i % 3}:{i}.5 9:1 # r\n" for i in range(25)))


def make_parquet(folder: Path) -> Path:
    pa.parquet.write_table(arrow_table(), folder / "a.parquet", row_group_size=10)
    return folder / "a.parquet"


def make_feather(folder: Path) -> Path:
    with pa.OSFile(str(folder / "a.arrow"), "wb") as file, pa.ipc.new_file(file, arrow_table().schema) as writer:
        writer.write_table(arrow_table(), max_chunksize=7)
    return folder / "a.arrow"


def make_arrow_stream(folder: Path) -> Path:
    with pa.OSFile(str(folder / "s.arrow"), "wb") as file, pa.ipc.new_stream(file, arrow_table().schema) as writer:
        writer.write_table(arrow_table(), max_chunksize=7)
    return folder / "s.arrow"


def make_gzip(folder: Path) -> Path:
    return write(folder, "a.csv.gz", gzip.compress(make_csv(folder).read_bytes()))


def make_bzip2(folder: Path) -> Path:
    return write(folder, "a.csv.bz2", bz2.compress(make_csv(folder).read_bytes()))


def make_xz(folder: Path) -> Path:
    return write(folder, "a.csv.xz", lzma.compress(make_csv(folder).read_bytes()))


def make_zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(make_csv(folder), "inside/rows.csv")
    return folder / "a.zip"


def make_zstd(folder: Path) -> Path:
    return write(folder, "a.csv.zst", zstd(make_csv(folder).read_bytes()))


def make_folder(folder: Path) -> Path:
    parts = folder / "parts"
    parts.mkdir()
    lines = make_csv(folder).read_text().split("\n")
    for start in range(1, len(lines), 6):
        write(parts, f"{start:02}.csv", "\n".join([lines[0], *lines[start : start + 6]]) + "\n")
    write(parts, "notes.md", "not data")
    return parts


MAKERS = [
    make_csv,
    make_gzip,
    make_bzip2,
    make_xz,
    make_zip,
    make_zstd,
    make_folder,
    make_jsonl,
    make_json,
    make_arff,
    make_libsvm,
    make_parquet,
    make_feather,
    make_arrow_stream,
]
