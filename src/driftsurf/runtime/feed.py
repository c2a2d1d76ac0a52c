"""The tables of a source as a run needs them: with a look ahead, bad rows as lines, and standard input replayed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator
from itertools import chain
from typing import Any

import numpy as np

from driftsurf.errors import BadRowError, Option, SourceError, StateError
from driftsurf.sources import BadRow, Source
from driftsurf.tables import Table

__all__ = ["Feed"]

STANDARD_INPUT = "-"
Placed = tuple[Table, dict[str, Any]]


class Feed:
    """Tables with the place behind each.

    Standard input cannot be sought in: a run that goes on reads the same stream again from its first row, and what
    is passed over must have the digest that it had, or StateError.

    Parameters
    ----------
    source
        Where they come from. Its ``sink`` is taken.
    raw
        Whether bad rows are told with their text.
    hidden
        Columns that are needed to read, but are not handed on.
    """

    def __init__(self, source: Source, *, raw: bool = True, hidden: Collection[str] = ()) -> None:
        self.source = source
        self.raw = raw
        self.hidden = hidden
        self.skipped = 0
        """Bad rows that were left out, in all."""
        self._bad: list[str] = []
        self._passing_over = False
        """Whether what is read was told and counted before."""
        self._opened: tuple[Placed, Iterator[Placed]] | None = None
        source.sink = self._take_bad

    def first(self) -> Table:
        """The first table, before any of it is taken."""
        if self._opened is None:
            tables = self._fresh(None)
            first = next(tables, None)
            if first is None:
                raise SourceError(f"{os.fspath(self.source.path)} has no row that can be used: nothing to learn.")
            self._opened = first, tables
        return self._opened[0][0]

    def tables(self, position: Any = None) -> Iterator[Placed]:
        """All tables behind a place."""
        if position is None and self._opened is not None:
            (first, rest), self._opened = self._opened, None
            return chain([first], rest)
        return self._replayed(position) if self._piped and position is not None else self._fresh(position)

    @property
    def _piped(self) -> bool:
        return os.fspath(self.source.path) == STANDARD_INPUT

    def _fresh(self, position: Any) -> Iterator[Placed]:
        digest = ""
        for table, place in self.source.tables(position):
            told = dict(place)
            if self._piped:
                digest = _chained(digest, table)
                told["digest"] = digest
            yield table.without(*self.hidden) if self.hidden else table, told

    def _replayed(self, position: Any) -> Iterator[Placed]:
        self._passing_over = True
        for table, place in self._fresh(None):
            if not self._passing_over:
                yield table, place
                continue
            if place["rows"] > position["rows"] or (
                place["rows"] == position["rows"] and place["digest"] != position["digest"]
            ):
                raise StateError(
                    f"the first {position['rows']} rows of standard input are not those that the run had read: pipe "
                    "the same stream again, from its first row"
                )
            self._passing_over = place["rows"] < position["rows"]
        if self._passing_over:
            raise StateError(
                f"standard input ends before row {position['rows']}, where the run was: pipe all of it again"
            )

    # -------------------------------------------------------------------- bad rows

    def _take_bad(self, bad: BadRow) -> None:
        if not self._passing_over:
            self.skip({"file": bad.file, "line": bad.line, "reason": bad.reason}, bad.raw)

    def skip(self, told: dict[str, Any], raw: str | None = None) -> None:
        """Say of a row that it was left out; BadRowError if that is one too many."""
        self.skipped += 1
        self._bad.append(json.dumps(told | ({"raw": raw} if self.raw else {}), ensure_ascii=False) + "\n")
        allowed = self.source.on_bad_row
        if allowed not in ("fail", "skip") and self.skipped > int(allowed):
            place = f"line {told['line']}" if "line" in told else f"row {told['row']}"
            raise BadRowError(
                f"{self.skipped} rows could not be used, more than ",
                Option("on_bad_row", allowed),
                f"; the last: {told['file']}, {place}: ",
                told["reason"],
                ".",
            )

    def bad_rows(self) -> str:
        """Lines of JSON for the bad rows since the last call."""
        lines, self._bad = "".join(self._bad), []
        return lines


def _chained(before: str, table: Table) -> str:
    """A digest of a table and of all before it, the same however its bytes arrived."""
    sha = hashlib.sha256(before.encode())
    for name, column in table.columns.items():
        sha.update(f"{name}\0{column.kind}\0".encode("utf-8", "surrogatepass"))
        if column.kind == "text":
            words = np.array([*column.words, None], object)[column.values].tolist()
            sha.update(json.dumps(words).encode())
        else:
            sha.update(np.ascontiguousarray(column.values).tobytes())
    if table.features is not None:
        data, indices, indptr, _ = table.features
        a, b = int(indptr[0]), int(indptr[-1])
        for array in (data[a:b], indices[a:b], indptr - a):
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
