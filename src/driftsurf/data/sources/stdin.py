"""Standard input as a source of tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping

import numpy as np

from driftsurf.data.reading_options import STANDARD_INPUT
from driftsurf.data.source import BadRow, Position
from driftsurf.data.sources.files import FilePosition, FileSource, OnSkip
from driftsurf.data.tables import Table
from driftsurf.errors import StateError
from driftsurf.registry import register


class PipePosition(FilePosition):
    """Position in standard input."""

    digest: str
    """Digest of all rows before it."""


@register("source", "stdin", schemes=(STANDARD_INPUT,))
class StandardInput(FileSource):
    """Rows that are piped in, as CSV unless ``reading.format`` says otherwise.

    A pipe cannot be rewound. To resume from a position, pipe the same stream again from its first row: the rows before
    the position are read again, compared with what was read the first time by a digest of their values, and left out.
    """

    @property
    def seekable(self) -> bool:
        """False: a pipe can be read once."""
        return False

    def files(self) -> list[str]:
        """Return "-", the name of standard input."""
        return [STANDARD_INPUT]

    def format_of(self, path: str) -> str:
        """Return the format that was asked for, or "csv": a pipe has no ending."""
        return self.reading.format or "csv"

    def tables(
        self, position: Position = None, *, on_skip: OnSkip | None = None
    ) -> Iterator[tuple[Table, PipePosition]]:
        """Yield batches of rows after ``position``, each with the position after it."""
        return self._digested(on_skip) if position is None else self._replayed(position, on_skip)

    def _digested(self, on_skip: OnSkip | None) -> Iterator[tuple[Table, PipePosition]]:
        """Yield all tables, each with a position that includes a digest of all rows so far."""
        digest = ""
        for table, place in super().tables(on_skip=on_skip):
            digest = digest_rows(digest, table)
            yield table, PipePosition(**place, digest=digest)

    def _replayed(self, position: Position, on_skip: OnSkip | None) -> Iterator[tuple[Table, PipePosition]]:
        """Read from the first row, pass over the rows before ``position``, and check that they are the same."""
        if not isinstance(position, Mapping) or not {"rows", "digest"} <= position.keys():
            raise StateError(f"not a position of standard input: {position!r}. Pass a position that tables() gave")
        n_rows = position["rows"]
        passing_over = True

        def report(bad: BadRow) -> None:
            if on_skip is not None and not passing_over:
                on_skip(bad)

        for table, place in self._digested(report):
            if not passing_over:
                yield table, place
                continue
            if place["rows"] > n_rows or (place["rows"] == n_rows and place["digest"] != position["digest"]):
                raise StateError(
                    f"the first {n_rows} rows of standard input are not those that were read before; pipe the same "
                    "stream again, from its first row"
                )
            passing_over = place["rows"] < n_rows
        if passing_over:
            raise StateError(
                f"standard input ends before row {n_rows}, where the saved position is; pipe the whole stream again"
            )


def digest_rows(before: str, table: Table) -> str:
    """Return the digest of a table and of everything before it, whose digest is ``before``.

    It depends on the values alone, not on how the bytes arrived.
    """
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
