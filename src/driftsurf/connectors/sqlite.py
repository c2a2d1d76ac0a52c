"""SQLite: a file that ends in ``.sqlite`` or ``.db``, with a table of predictions."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.errors import SourceError
from driftsurf.registry import register
from driftsurf.runs.sinks import SinkContext

TYPES = {"text": "text", "integer": "integer", "boolean": "integer", "value": "real"}
LOCKED_SECONDS = 60.0
"""Seconds for which another process may hold the file."""


class SqliteWriter:
    """Writes rows to a table in a file of SQLite. The number of the last row tells how many there are."""

    exact: bool = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self.path: Path = Path(location)
        self.table: str = "predictions"
        self._columns = columns
        self._file: sqlite3.Connection | None = None

    @property
    def name(self) -> str:
        """Path of the file and name of the table."""
        return f"the table {self.table!r} of {str(self.path)!r}"

    def open(self) -> int:
        """Make the table unless there is one; return the number of the first row that it lacks."""
        self.close()
        try:
            self._file = file = sqlite3.connect(self.path, timeout=LOCKED_SECONDS, isolation_level=None)
            cells = [
                f"{_quoted(name)} {TYPES[kind]}{' primary key' * (name == 'row')}"
                for name, kind in self._columns.items()
            ]
            file.execute(f"create table if not exists {_quoted(self.table)} ({', '.join(cells)})")
            there = [name for _, name, *_ in file.execute(f"pragma table_info({_quoted(self.table)})")]
            missing = [name for name in self._columns if name not in there]
            if missing:
                raise SourceError(f"{self.name} has no column {', '.join(map(repr, missing))}; choose another file")
            return self._held()
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def _held(self) -> int:
        ((held,),) = self._opened.execute(f"select coalesce(max(row) + 1, 0) from {_quoted(self.table)}")
        return int(held)

    @property
    def _opened(self) -> sqlite3.Connection:
        assert self._file is not None, "open() comes first"
        return self._file

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows in one transaction."""
        holes = ", ".join("?" * len(self._columns))
        names = ", ".join(map(_quoted, self._columns))
        cells = [[_cell(row[name], kind) for name, kind in self._columns.items()] for row in rows]
        file = self._opened
        try:
            file.execute("begin immediate")
            try:
                held = self._held()
                if held != first_row:
                    raise SourceError(
                        f"{self.name} holds {held:,} rows, and rows from {first_row:,} on were to follow: somebody "
                        "else writes to it"
                    )
                file.executemany(f"insert into {_quoted(self.table)} ({names}) values ({holes})", cells)
                file.execute("commit")
            finally:
                if file.in_transaction:
                    file.execute("rollback")
        except (sqlite3.Error, OverflowError) as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> SourceError:
        return SourceError(f"{self.name}: {error}")

    def flush(self) -> None:
        """Do nothing: SQLite flushes every transaction to the storage device."""

    def clear(self) -> None:
        """Remove all rows."""
        try:
            self._opened.execute(f"delete from {_quoted(self.table)}")
        except sqlite3.Error as error:
            raise self._refused(error) from error

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _cell(value: Any, kind: str) -> Any:
    """Return a value as SQLite can hold it: its text has no half characters."""
    if value is None or kind != "text":
        return value
    return str(value).encode("utf-8", "replace").decode()


@register("sink", "sqlite", endings=(".sqlite", ".db"))
class SqliteSink(ConnectorSink):
    """A table in a file of SQLite, which has the name of what it holds: predictions, journal or trace."""

    writer: ClassVar[WriterFactory] = SqliteWriter

    def __init__(self, destination: str, context: SinkContext) -> None:
        super().__init__(destination, context)
        assert isinstance(self._writer, SqliteWriter)
        self._writer.table = context.option.removesuffix("_to")
