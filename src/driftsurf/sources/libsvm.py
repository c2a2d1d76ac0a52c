"""Sparse rows as LIBSVM writes them."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from driftsurf.base import CSR
from driftsurf.errors import Option, SchemaError
from driftsurf.sources._base import Mark, Shape
from driftsurf.sources._cells import column
from driftsurf.sources._records import Records
from driftsurf.sources._text import Parsed, TextReader, read_each
from driftsurf.tables import Table

__all__ = ["LABEL", "LibsvmReader"]

LABEL = "label"
_Row: TypeAlias = tuple[float, list[int], list[float]]
_LINE = re.compile(rb"\s*([^\s:#,]+)(?:\s+qid:\d+)?((?:\s+\d+:[^\s:#]+)*)\s*(?:#.*)?\s*", re.DOTALL)


class LibsvmReader(TextReader):
    """Lines of a label and ``index:value`` pairs with rising indices; the rows come as CSR beside the column "label".

    The width of a model is fixed, so an index beyond ``n_features`` is an added column: refused by name, or left out
    with ``ignore-added``. Query ids and remarks are passed over.
    """

    def read_head(self) -> tuple[Mark, Shape]:
        """The largest index of the first rows, unless the width is given."""
        width = self.dialect.n_features
        if width is None:
            sample, *_ = read_each(self.head_records(self._body, self.dialect.sample_rows), self._row)
            width = max((indices[-1] + 1 for _, indices, _ in sample if indices), default=1)
        return self._body, Shape({LABEL: "number"}, n_features=width)

    def parse(self, records: Records, wanted: Shape, *, ignore_added: bool) -> Parsed:
        """Lines of numbers, as CSR."""
        width = wanted.n_features

        def read(record: bytes) -> _Row | None:
            row = self._row(record)
            if row is None or not row[1] or row[1][-1] < width:
                return row
            label, indices, values = row
            if not ignore_added:
                raise SchemaError(
                    f"{self.file.name}: a row has the added column {indices[-1] + (not self.dialect.zero_based)}, "
                    f"and the source has {width}. Give n_features, or leave such columns out with ",
                    Option("on_schema_change", "ignore-added"),
                    ".",
                )
            inside = sum(index < width for index in indices)
            return label, indices[:inside], values[:inside]

        rows, places, reasons, ended = read_each(records, read)
        features = CSR(
            np.array([value for _, _, values in rows for value in values], np.float64),
            np.array([index for _, indices, _ in rows for index in indices], np.int32),
            np.concatenate([[0], np.cumsum([len(indices) for _, indices, _ in rows])]).astype(np.int64),
            width,
        )
        columns = {LABEL: column("number", [label for label, _, _ in rows])} if LABEL in wanted.kinds else {}
        return Parsed(Table(columns, features), places, reasons, ended)

    def _row(self, record: bytes) -> _Row | None:
        """Label, columns from 0, values; None for a remark; ValueError if it is no row."""
        line = record.strip()
        if not line or line.startswith(b"#"):
            return None
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError("it is not a label and pairs of index:value")
        label = _number(found[1])
        numbers = found[2].replace(b":", b" ").split()
        indices = [int(index) - (not self.dialect.zero_based) for index in numbers[::2]]
        if indices and (indices[0] < 0 or indices[-1] >= 2**31 - 1):
            raise ValueError(f"an index is {numbers[0].decode()} or too large: they begin with 1 (see zero_based)")
        if any(one >= following for one, following in pairwise(indices)):
            raise ValueError("its indices do not rise")
        return label, indices, [_number(value) for value in numbers[1::2]]


def _number(text: bytes) -> float:
    if b"_" in text:
        raise ValueError(f"{text[:100]!r} is no number")
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is no number") from None
    if value - value != 0.0:
        raise ValueError(f"{text[:100]!r} is not finite")
    return value
