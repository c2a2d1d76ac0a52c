"""Rows of a run in a table of PostgreSQL: ``postgresql://host:5432/DATABASE/TABLE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from driftsurf.connectors.postgresql.client import Database
from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.errors import SourceError
from driftsurf.registry import register

MARKS = "driftsurf_marks"
"""Table in the schema of a destination, with the number of rows that were written to each."""
TYPES = {"text": "text", "integer": "bigint", "boolean": "boolean", "value": "double precision"}


class PostgresWriter:
    """Writes rows to a table of PostgreSQL, and their number to a small table beside it, in one transaction."""

    exact: bool = True

    def __init__(self, location: str, columns: Mapping[str, str]) -> None:
        self._own = own = Database(location)
        self._columns = columns
        schema, table = own.place
        self._table = own.identifier(schema, table)
        self._marks = own.identifier(schema, MARKS)
        self._number = 0
        """Number of the table in the database."""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self._own.name

    def open(self) -> int:
        """Make the table unless there is one; return the number of the first row that it lacks."""
        own, sql = self._own, self._own.sql
        if own.table() is None:
            cells = [
                sql.SQL(f"{{}} {TYPES[kind]}{' primary key' * (name == 'row')}").format(own.identifier(name))
                for name, kind in self._columns.items()
            ]
            make = sql.SQL("create table if not exists {} ({})").format(self._table, sql.SQL(", ").join(cells))
            own.ask(lambda: own.client.execute(make, ()))
        marks = sql.SQL("create table if not exists {} (relation oid primary key, rows bigint not null)")
        own.ask(lambda: own.client.execute(marks.format(self._marks), ()))
        found = own.table()
        assert found is not None
        self._number = found[0]
        there = [name for name, *_ in own.columns(self._number)]
        missing = [name for name in self._columns if name not in there]
        if missing:
            raise SourceError(
                f"{self.name} has no column {', '.join(map(repr, missing))}, so it is no table of predictions like "
                "these; choose another table"
            )
        return own.ask(self._mark)

    def _mark(self) -> int:
        """Return how many rows were written. A table without a mark, such as one from a dump, is asked itself."""
        client, sql = self._own.client, self._own.sql
        with client.transaction():
            # The number of a table that was dropped may be given to another one later, whose rows it must not count.
            gone = "delete from {0} m where not exists (select from pg_class c where c.oid = m.relation)"
            client.execute(sql.SQL(gone).format(self._marks), ())
            count = sql.SQL("select coalesce(max(row) + 1, 0) from {}").format(self._table)
            mark = (
                "insert into {0} as m values (%s, ({1})) on conflict (relation) do update "
                "set rows = greatest(m.rows, excluded.rows) returning rows"
            )
            return int(client.execute(sql.SQL(mark).format(self._marks, count), (self._number,)).fetchone()[0])

    def write(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows and their mark in one transaction."""
        if rows:
            self._own.ask(lambda: self._insert(first_row, rows))

    def _insert(self, first_row: int, rows: Sequence[Mapping[str, Any]]) -> None:
        client, sql, after = self._own.client, self._own.sql, first_row + len(rows)
        with client.transaction():
            mark = sql.SQL("select rows from {} where relation = %s for update").format(self._marks)
            (held,) = client.execute(mark, (self._number,)).fetchone() or (0,)
            if held == after:  # the connection was lost after the rows were committed
                return
            if held != first_row:
                raise SourceError(
                    f"{self.name} holds {held:,} rows, and rows from {first_row:,} on were to follow: somebody else "
                    "writes to it, or its server lost rows that it had confirmed"
                )
            names = sql.SQL(", ").join(map(self._own.identifier, self._columns))
            with client.cursor().copy(sql.SQL("copy {} ({}) from stdin").format(self._table, names), ()) as copy:
                for row in rows:
                    copy.write_row([_cell(row[name], kind) for name, kind in self._columns.items()])
            update = sql.SQL("update {} set rows = %s where relation = %s").format(self._marks)
            client.execute(update, (after, self._number))

    def flush(self) -> None:
        """Do nothing: a row that was written is committed."""

    def clear(self) -> None:
        """Remove all rows."""
        self._own.ask(self._clear)

    def _clear(self) -> None:
        client, sql = self._own.client, self._own.sql
        with client.transaction():
            client.execute(sql.SQL("truncate {}").format(self._table), ())
            client.execute(sql.SQL("update {} set rows = 0 where relation = %s").format(self._marks), (self._number,))

    def close(self) -> None:
        """Disconnect."""
        self._own.close()


def _cell(value: Any, kind: str) -> Any:
    """Return a value as PostgreSQL can hold it: its text has no NUL and no half characters."""
    if value is None or kind != "text":
        return value
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode()


@register(
    "sink",
    "postgresql",
    schemes=("postgresql", "postgres"),
    requires=("psycopg",),
    install="pip install 'driftsurf[connectors]'",
)
class PostgresSink(ConnectorSink):
    """A table of PostgreSQL."""

    writer: ClassVar[WriterFactory] = PostgresWriter
