"""Rows as CSV with a header line."""

from __future__ import annotations

import csv
import io

import numpy as np

from driftsurf.core.options import shown
from driftsurf.data.formats._cells import cell_reader, infer_kind, make_column
from driftsurf.data.reading_options import Kind, ReadingOptions
from driftsurf.data.tables import Column, Table, empty_column
from driftsurf.errors import InputError
from driftsurf.runs.predictions import label_text
from driftsurf.service.wire.rows import (
    DATE_FORMAT,
    ColumnarRows,
    OnBadRow,
    RowFault,
    RowsRead,
    WireFormat,
    check_count,
)

SEPARATORS = {"semicolons": ";", "tabs": "\t"}
REMEDIES: dict[Kind, str] = {
    "number": "write a number such as 1.5, or leave the cell empty",
    "boolean": "write true or false, or leave the cell empty",
    "date": f"write a date such as 2026-05-01T10:00:00Z, or leave the cell empty; {DATE_FORMAT}",
    "text": "leave the character out",
}


class CsvRows:
    """Reads rows from CSV: a header line with the names of the columns in any order, then a line for each row.

    Examples
    --------
    >>> from driftsurf.service.wire.rows import WireColumn
    >>> rows = CsvRows(WireFormat((WireColumn("price", "number"), WireColumn("city", "text")), id="id"))
    >>> rows.read(b"id,city,price\\no-17,Rome,99\\n").table["price"].values
    array([99.])
    >>> rows.read(b"price,city\\ndear,Rome\\n")
    Traceback (most recent call last):
    driftsurf.errors.BadRowError: row 0, column 'price': 'dear' is not a number; write a number such as 1.5, ...
    """

    def __init__(self, format: WireFormat) -> None:
        self.format = format
        self._table = ColumnarRows(format)

    def read(self, body: bytes, on_bad_row: OnBadRow = "fail", most: int = 100_000) -> RowsRead:
        """Return the rows of a body; BadRowError for a bad row unless bad rows are skipped."""
        names, records, faults = _records(body, self.format.reading.delimiter or ",", most)
        kinds = {one.name: one.kind for one in self.format.columns or ()}
        if self.format.reading.delimiter is None and names and not self.format.known.intersection(names):
            _check_separated(names)
        missing = set(self.format.reading.missing_cells)
        columns: dict[str, Column] = {}
        for place, name in enumerate(names):
            cells = [None if (cell := record[place].strip()) in missing else cell for record in records]
            text = make_column("text", cells)
            if name == self.format.id or (name == self.format.label and self._is_text(text)):
                columns[name] = text
            elif self.format.columns is not None and name not in kinds and name != self.format.label:
                columns[name] = text  # a column that the model does not know is refused or left out with the others
            else:
                columns[name], bad = _converted(name, text, kinds.get(name), self.format.reading)
                faults += bad
        return self._table.rows(Table(columns), faults, on_bad_row)

    def _is_text(self, labels: Column) -> bool:
        """Return whether all labels are classes as they are written, so that none has to be read as a number."""
        known = set(map(label_text, self.format.classes))
        return bool(known) and known.issuperset(labels.words)


def _check_separated(names: list[str]) -> None:
    """Raise InputError if a header none of whose columns are known has other separators than commas."""
    odd = next((name for name, one in SEPARATORS.items() if any(one in column for column in names)), None)
    if odd is not None:
        raise InputError(
            f"the header is {shown(','.join(names))}, which has no known column and {odd}; cells must be separated by "
            "commas",
            value=",".join(names),
        )


def _records(body: bytes, delimiter: str, most: int) -> tuple[list[str], list[list[str]], list[RowFault]]:
    """Return the header and the cells of each row; those of a row with another number of cells are empty."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"the body is not UTF-8: byte {error.start} cannot be decoded; send CSV in UTF-8") from None
    if "\0" in text:
        raise InputError(f"the body holds a NUL character at position {text.index(chr(0))}; leave it out")
    records, faults = list[list[str]](), list[RowFault]()
    try:
        lines = (
            cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if cells
        )
        names = next(lines, [])
        for cells in lines:
            check_count(len(records) + 1, most)
            if len(cells) != len(names):
                problem = f"has {len(cells)} cells and the header has {len(names)}"
                faults.append(RowFault(len(records), None, shown(cells), problem, "write one cell for each column"))
                cells = [""] * len(names)
            records.append(cells)
    except csv.Error as error:
        raise InputError(f"the body cannot be read as CSV: {error}, after {len(records):,} rows") from None
    names = [name.strip() for name in names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the column {twice!r} occurs more than once in the header; rename one")
    return names, records, faults


def _converted(name: str, column: Column, kind: Kind | None, reading: ReadingOptions) -> tuple[Column, list[RowFault]]:
    """Return a column of text as values of a kind, by its own cells if it is not known; each word is read once."""
    if kind is None:
        kind = infer_kind([column.words[code] for code in column.used().tolist()], reading)
    if kind == "text":
        return column, []
    read = cell_reader(kind, reading)
    by_code = empty_column(kind, len(column.words) + 1).values  # the code -1 of a missing cell points to the last
    bad = dict[int, str]()
    for code in column.used().tolist():
        try:
            by_code[code] = read(column.words[code])
        except ValueError:
            bad[code] = column.words[code]
    rows = np.flatnonzero(np.isin(column.values, list(bad))).tolist() if bad else []
    remedy = REMEDIES[kind].replace("1.5", f"1{reading.decimal}5")
    faults = [RowFault(row, name, shown(bad[int(column.values[row])]), f"is not a {kind}", remedy) for row in rows]
    return Column(kind, np.asarray(by_code[column.values])), faults
