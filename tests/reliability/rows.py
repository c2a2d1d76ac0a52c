"""Fuzzed files of rows: every accepted value is finite and of the right kind; everything else is a typed error."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.reliability.harness import Outcome

from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.tables import Table
from driftsurf.errors import DriftsurfError

ROWS = 20_000_000
A_FILE = 50_000
POOL = 2_000
STRUCTURE = b",;\"'\\\n\r\t {}[]:@%?#\x00\xff\xc3\xe2\x80-+.eE0123456789NaN"
CELLS = (
    *(
        "1e400",
        "-1e400",
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "1e308",
        "-0.0",
        "",
        " ",
        "?",
        "null",
        "NA",
        "0x1F",
        "1_000",
    ),
    *(
        "9" * 400,
        "9007199254740993",
        "1,5",
        "true",
        "2025-02-30",
        "0000-00-00",
        "9999-12-31T23:59:59.999999Z",
        "\u2028",
    ),
    *("\U0001f4a9", "a" * 5_000, '"', '""', "'", "\\", "{", "[1]", "@data", "%", "1:2", "-1:3", "4294967296:1", "\x00"),
)
DTYPES = {"number": "f", "boolean": "f", "date": "M", "text": "i"}


def fuzzed(scale: float, seed: int) -> Outcome:
    """Read files of 50,000 rows with mistakes: CSV, JSON lines, ARFF and LIBSVM in turn."""
    outcome = Outcome("fuzzed rows of files", seed)
    outcome.figures = dict.fromkeys(("rows", "accepted", "skipped", "files refused"), 0)
    makers = list(MAKERS.items())
    for number in range(max(len(makers), round(ROWS * scale / A_FILE))):
        format_, make = makers[number % len(makers)]
        generator = random.Random(seed * 1_000_003 + number)
        case = {"format": format_, "file": number}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"rows.{format_}"
            path.write_bytes(_spoiled(make(generator), generator))
            outcome.count("rows", A_FILE)
            try:
                wrong = _read(path, format_, generator, outcome)
            except DriftsurfError:
                outcome.count("files refused")
                wrong = ""
            except Exception as error:
                wrong = repr(error)
        outcome.check(not wrong, case | {"got": wrong})
    outcome.tried = outcome.figures["rows"]
    return outcome


def _read(path: Path, format_: str, generator: random.Random, outcome: Outcome) -> str:
    """Read a file to its end; return what is wrong with the accepted rows, or an empty text."""
    encoder, width = TableEncoder(), 0
    source = FileSource(
        path, ReadingOptions(format=format_, on_bad_row="skip"), batch_size=generator.choice((500, 5_000, 7_777))
    )
    position: Any = None
    for table, position in source.tables():  # noqa: B007 - the last position is used
        wrong = _strange(table)
        if wrong:
            return wrong
        encoded = encoder.partial_fit(table).transform(table)
        values = encoded.data if hasattr(encoded, "indptr") else encoded
        if not np.isfinite(values).all():
            return "an encoded value is not finite"
        if encoded.shape[0] != len(table) or encoded.shape[1] < width:
            return f"{len(table)} rows became {encoded.shape}"
        width = encoded.shape[1]
        outcome.count("accepted", len(table))
    if position is not None:
        outcome.count("skipped", position["skipped"])
    return ""


def _strange(table: Table) -> str:
    for name, column in table.columns.items():
        if len(column) != len(table) or column.values.dtype.kind != DTYPES[column.kind]:
            return f"column {name!r} is not of kind {column.kind}"
        if column.kind in ("number", "boolean") and np.isinf(column.values).any():
            return f"column {name!r} contains infinity"
        if column.kind == "text" and not ((column.values >= -1) & (column.values < len(column.words))).all():
            return f"column {name!r} points outside its words"
    return ""


# -------------------------------------------------------------------- files with mistakes


def _spoiled(data: bytearray, generator: random.Random) -> bytes:
    """Change, delete and insert bytes, at up to a thousand places."""
    for _ in range(generator.choice((0, 3, 30, 1_000))):
        place = generator.randrange(len(data))
        what = generator.randrange(3)
        if what == 0:
            data[place] = generator.choice(STRUCTURE)
        elif what == 1:
            del data[place : place + generator.choice((1, 1, 7))]
        else:
            data[place:place] = bytes(generator.choices(STRUCTURE, k=generator.choice((1, 1, 5))))
    return bytes(data)


def _lines(generator: random.Random, cells: Callable[[random.Random], str], bad: Callable[[str], str]) -> list[str]:
    """Draw rows from a pool, of which none, one in a thousand, or up to one in five has a hostile cell."""
    pool = [cells(generator) for _ in range(POOL)]
    hostile = [bad(generator.choice(CELLS)) for _ in range(200)]
    share = generator.choice((0.0, 0.001, 0.02, 0.2))
    return generator.choices(pool + hostile, [(1.0 - share) / POOL] * POOL + [share / 200] * 200, k=A_FILE)


def _values(generator: random.Random) -> tuple[str, str, str, str]:
    day = f"20{generator.randrange(10, 30)}-{generator.randrange(1, 13):02d}-{generator.randrange(1, 29):02d}"
    return (
        f"{generator.gauss(0, 1e4):.4f}",
        day,
        f"w{generator.randrange(3_000)}",
        generator.choice(("true", "false", "")),
    )


def _csv(generator: random.Random) -> bytearray:
    delimiter = generator.choice(",;\t")

    def cells(g: random.Random) -> str:
        return delimiter.join(_values(g))

    lines = _lines(generator, cells, lambda cell: delimiter.join((cell, *_values(generator)[1:])))
    return bytearray(("\n".join(["price,at,city,sold".replace(",", delimiter), *lines]) + "\n").encode())


def _jsonl(generator: random.Random) -> bytearray:
    def cells(g: random.Random) -> str:
        price, at, city, sold = _values(g)
        return json.dumps({"price": float(price), "at": at, "city": city, "sold": sold == "true"})

    lines = _lines(
        generator, cells, lambda cell: '{"price": ' + cell + ', "at": "2025-01-01", "city": "x", "sold": true}'
    )
    return bytearray(("\n".join(lines) + "\n").encode())


def _arff(generator: random.Random) -> bytearray:
    head = "@relation r\n@attribute price numeric\n@attribute at date yyyy-MM-dd\n@attribute city string\n@data\n"
    lines = _lines(generator, lambda g: ",".join(_values(g)[:3]), lambda cell: f"{cell},2025-01-01,x")
    return bytearray((head + "\n".join(lines) + "\n").encode())


def _libsvm(generator: random.Random) -> bytearray:
    def cells(g: random.Random) -> str:
        return f"{g.randrange(2)} " + " ".join(f"{k}:{g.gauss(0, 1):.3f}" for k in range(1, 9) if g.random() < 0.5)

    lines = _lines(generator, cells, lambda cell: f"1 1:{cell} 5:1")
    return bytearray(("\n".join(lines) + "\n").encode())


MAKERS: dict[str, Callable[[random.Random], bytearray]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "arff": _arff,
    "libsvm": _libsvm,
}
