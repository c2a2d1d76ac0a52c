"""Files as a streaming frame of Spark, with cells read as the local engine reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from driftsurf.data import ReadingOptions
from driftsurf.data.formats._text import is_automatic
from driftsurf.data.reading_options import Kind
from driftsurf.errors import Option, OptionError, SourceError
from driftsurf.keyed.grouping import DerivedColumns

FORMATS = {".csv": "csv", ".parquet": "parquet", ".jsonl": "json", ".ndjson": "json"}
"""Endings of files, and Spark's names of the formats."""
ENCODINGS = {"utf-8": "UTF-8", "latin-1": "ISO-8859-1"}
"""Java's names of encodings."""
READING = ReadingOptions()
NO_KINDS: Mapping[str, Kind] = {}
LARGEST_INTEGER = 2.0**53
"""Floats beyond it are no longer distinct integers."""
TRUE, FALSE = (("1", "true", "TRUE", "True"), ("0", "false", "FALSE", "False"))
"""Cells that the local engine reads as booleans."""


def read_files(
    spark: SparkSession,
    source: str,
    files: Iterable[str],
    *,
    files_per_epoch: int | None = None,
    kinds: Mapping[str, Kind] = NO_KINDS,
    whole: Collection[str] = (),
    reading: ReadingOptions = READING,
) -> DataFrame:
    """Return a streaming frame over files, each read once; column types come from the files that exist now.

    Parameters
    ----------
    spark
        The session.
    source
        A folder, a pattern, or one file.
    files
        The files that exist now; the ending of the first known one decides the format.
    files_per_epoch
        Files of a micro-batch; None for all that are new.
    kinds
        Columns to read as the local engine reads columns of that kind. In CSV files the same cells are gaps. A row
        with a cell that is neither a gap nor of the kind is dropped; so is one with an infinite number.
    whole
        Columns of numbers to cast to integers; a number with a fraction becomes a gap.
    reading
        How the text of CSV files is read.
    """
    suffixes = (Path(name).suffix for name in files)
    form = next((FORMATS[suffix] for suffix in suffixes if suffix in FORMATS), None)
    if form is None:
        raise SourceError(f"Spark reads files that end in {', '.join(FORMATS)}; {source!r} has none of them")
    place, options = Path(source).absolute(), {}
    if place.is_file():  # a file stream takes a folder or a pattern
        options["pathGlobFilter"] = re.sub(r"([\\*?\[\]{}])", r"\\\1", place.name)
        place = place.parent
    path = file_uri(place)
    if form == "csv":
        if is_automatic(kinds):
            raise SourceError(
                f"{source!r} has no header line, and Spark finds columns by it: add one, or pass ",
                Option("engine", "local"),
            )
        options |= {
            "header": "true",
            "inferSchema": "true",
            "sep": reading.delimiter or ",",
            "encoding": ENCODINGS.get(reading.encoding or "utf-8", reading.encoding or ""),
            "ignoreLeadingWhiteSpace": "true",
            "ignoreTrailingWhiteSpace": "true",
        }
        options |= {"comment": reading.comment} if reading.comment is not None else {}
    schema = spark.read.format(form).options(**options).load(path).schema
    if form == "csv":  # as text, so that cells are parsed by the rules of the local engine below
        for entry in schema.fields:
            if kinds.get(entry.name, "date") != "date":
                entry.dataType = T.StringType()
    if files_per_epoch is not None:
        options["maxFilesPerTrigger"] = str(files_per_epoch)
    frame = spark.readStream.format(form).schema(schema).options(**options).load(path)
    missing = reading.missing_cells if form == "csv" else ()
    cells = [_parse(entry, kinds.get(entry.name), missing, entry.name in whole) for entry in schema.fields]
    valid = [F.coalesce(readable, F.lit(False)) for _, readable in cells]
    return frame.where(F.least(F.lit(True), F.lit(True), *valid)).select(*[value for value, _ in cells])


def _parse(entry: T.StructField, kind: Kind | None, missing: Sequence[str], whole: bool) -> tuple[Any, Any]:
    """Return the parsed column, and a column that is false or null where a cell cannot be parsed."""
    value = cell = column(entry.name)
    valid = F.lit(True)
    if kind in (None, "date"):
        return cell, valid
    text, fraction = isinstance(entry.dataType, T.StringType), isinstance(entry.dataType, T.FloatType | T.DoubleType)
    gap = cell.isNull() | (cell.isin(*missing) if text else F.lit(False))
    if kind == "number" and (text or fraction):
        value = cell.try_cast("double")
        gap |= F.isnan(value)
        valid = F.abs(value) < float("inf")
        if whole:
            value = F.when((F.abs(value) < LARGEST_INTEGER) & (value == F.floor(value)), value.cast("bigint"))
    elif kind == "boolean" and text:
        value = F.when(cell.isin(*TRUE), True).when(cell.isin(*FALSE), False)
        valid = value.isNotNull()
    return F.when(~gap, value).alias(entry.name), gap | valid


def with_derived(frame: DataFrame, derived: DerivedColumns, kinds: Mapping[str, Kind]) -> DataFrame:
    """Return a frame with the derived columns, which have the values that :meth:`DerivedColumns.add_to` gives them."""
    added: dict[str, Any] = {}
    asked = derived.question
    if asked is not None:
        kind = kinds[asked.column]
        if kind == "date":
            raise OptionError(
                Option("label"), f" asks about {asked.column!r}, a date, which Spark writes otherwise: pass ",
                Option("engine", "local"),
            )  # fmt: skip
        cell = column(asked.column).cast("double" if kind == "number" else "string")
        added[derived.label] = asked.compare(cell, F.lit(float(asked.value) if kind == "number" else asked.value))
    for name, words in derived.words.items():
        cell = column(name)
        slots = derived.features([name])
        chosen = [cell == word for word in words]
        others = F.when(cell.isNotNull(), ~cell.isin(*words) if words else F.lit(True))
        added |= {slot: one.cast("double") for slot, one in zip(slots, [*chosen, others], strict=True)}
    return frame.select("*", *[value.alias(name) for name, value in added.items()])


def column(name: str) -> Any:
    """Return the column of this exact name; unquoted, a dot would select a field of a struct."""
    return F.col("`" + name.replace("`", "``") + "`")


def file_uri(path: Path) -> str:
    """Return a path with its scheme; a cluster may resolve bare paths on another file system.

    The path is not percent-encoded: Spark takes it literally.
    """
    return f"file://{path}"
