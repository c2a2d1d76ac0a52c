"""A connection to PostgreSQL, and how the rows of a table or query are selected in an order that is safe."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from driftsurf.data.messages.client import Address, RetryPolicy
from driftsurf.errors import OptionError, SourceError

FORM = "postgresql://HOST:PORT/DATABASE/TABLE"
TLS = "sslmode", "sslrootcert", "sslcert", "sslkey"
PARAMETERS = ("query", "schema", "order", "xid", "value", "listen", *TLS)
HORIZON = "pg_snapshot_xmin(pg_current_snapshot())"
"""Every transaction below this number is over."""
TOP = "pg_snapshot_xmax(pg_current_snapshot())"
"""No transaction from this number on is visible."""
FLOATS = "real", "double precision", "numeric"
WHOLE = "smallint", "integer", "bigint"

Result = TypeVar("Result")
REFUSALS = "28", "3D", "3F", "42"
"""Classes of errors of a server that refuses: authorisation, no such database, no such schema, access or syntax."""
_REFUSED = (
    *("authentication failed", "does not exist", "pg_hba.conf", "not permitted to log in", "permission denied"),
    *("no password supplied", "SSL was required", "certificate", "invalid port", "invalid sslmode"),
)
"""Parts of messages about connections, for which there is no code: the server, or the client itself, refuses.

A server may write in another language; what is not known is tried again, as a server that is starting is.
"""


def refuses(error: Exception) -> bool:
    """Return whether a server refuses what it was asked, and does not only have no time for it.

    >>> refuses(OSError('connection failed: FATAL:  password authentication failed for user "reader"'))
    True
    >>> refuses(OSError("connection failed: FATAL:  the database system is starting up"))
    False
    """
    code = getattr(error, "sqlstate", None)
    if code is not None:
        return str(code)[:2] in REFUSALS
    return any(one in str(error) for one in _REFUSED)


class Database:
    """A connection to a database, which is made when it is needed and again when it is lost."""

    def __init__(self, location: str) -> None:
        self.address: Address = Address.parse(location, port=5432, known=PARAMETERS)
        self.database: str = self.address.part(0, "a database", FORM)
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("psycopg")
        self.sql: Any = importlib.import_module("psycopg.sql")
        errors = self.library.OperationalError, self.library.InterfaceError
        self.retry: RetryPolicy = RetryPolicy(self.name, errors, reconnect=self.close, refuses=refuses)
        self._client: Any = None

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name

    @property
    def client(self) -> Any:
        """The connection; every statement outside of a transaction is committed by itself."""
        if self._client is None:
            address = self.address
            password = address.password()
            given = {"user": address.user or None, "password": None if password is None else password.value}
            self._client = self.library.connect(
                host=address.host,
                port=address.port,
                dbname=self.database,
                autocommit=True,
                connect_timeout=10,
                keepalives_idle=30,  # so that a machine that is gone is noticed
                keepalives_interval=10,
                keepalives_count=3,
                application_name="driftsurf",
                prepare_threshold=None,  # statements that a pooler would not know in its next session
                **{name: value for name, value in given.items() if value is not None},
                **{name: address.parameters[name] for name in TLS if name in address.parameters},
            )
        return self._client

    def ask(self, act: Callable[[], Result]) -> Result:
        """Return what ``act`` returns; SourceError if the server cannot be reached or refuses."""
        try:
            return self.retry.call(act)
        except self.library.Error as error:
            raise SourceError(f"{self.name}: {str(error).strip()}") from error

    def rows(self, statement: Any, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement selects."""
        found: list[tuple[Any, ...]] = self.ask(lambda: self.client.execute(statement, parameters).fetchall())
        return found

    def identifier(self, *names: str) -> Any:
        """Return the quoted name of a table or column in a statement that has parameters."""
        return self.sql.SQL(self.sql.Identifier(*names).as_string(None).replace("%", "%%"))

    @property
    def place(self) -> tuple[str, str]:
        """Schema and name of the table of the address."""
        return self.address.parameters.get("schema", "public"), self.address.part(1, "a table", FORM)

    def table(self) -> tuple[int, str] | None:
        """Return the number and the kind of the table of the address; None if there is none."""
        found = self.rows(
            "select oid, relkind::text from pg_class where oid = to_regclass(format('%%I.%%I', %s::text, %s::text))",
            self.place,
        )
        return None if not found else (int(found[0][0]), str(found[0][1]))

    def columns(self, table: int) -> list[tuple[str, str, bool, int | None]]:
        """Return name and type of the columns, whether they may be null, and their places in the primary key."""
        found = self.rows(
            "select a.attname, format_type(a.atttypid, a.atttypmod), not a.attnotnull, "
            "array_position(i.indkey::int2[], a.attnum) from pg_attribute a "
            "left join pg_index i on i.indrelid = a.attrelid and i.indisprimary "
            "where a.attrelid = %s and a.attnum > 0 and not a.attisdropped order by a.attnum",
            (table,),
        )
        return [(str(name), str(type), bool(nullable), place) for name, type, nullable, place in found]

    def cancel(self, seconds: float) -> None:
        """Ask the server to end the statement of another thread, and wait for its answer at most some seconds."""
        if self._client is not None:
            with contextlib.suppress(self.library.Error):
                self._client.cancel_safe(timeout=seconds)

    def close(self) -> None:
        """Disconnect; the next statement connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


class Key(NamedTuple):
    """A part of the order of rows."""

    name: str
    type: str
    expression: Any


class Selection:
    """The rows of a table or query, in the order of the transactions that wrote them, then of other columns.

    Parameters
    ----------
    database
        The database, whose address names the table or has the query.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        address = database.address
        given = address.parameters
        query = given.get("query")
        if query is None:
            address.part(1, "a table", FORM)
        elif len(address.path) > 1:
            raise OptionError(f"the address {address.name!r} names a table and has a query; leave one of them out")
        elif not {"order", "xid"} <= given.keys():
            raise OptionError(
                "a query needs the parameters 'order', a column that tells its rows apart, and 'xid', a column with "
                "the transaction that wrote a row: select orders.xmin as written, ... and write xid=written&order=id"
            )
        elif query.startswith("file:"):
            query = Path(query.removeprefix("file:")).read_text(encoding="utf-8")
        self.query = query
        self.table: int = 0
        """Number of the table in the database; 0 for a query."""
        self.keys: list[Key] = []
        self._origin: Any = None
        self._message: Any = None
        self._nulls = False
        """Whether a part of the order may be null."""

    @property
    def names(self) -> list[str]:
        """Names of the columns that order the rows."""
        return [one.name for one in self.keys]

    def look(self) -> None:
        """Ask the database for the columns; SourceError if there is no such table, or no order of its rows."""
        database, sql, name = self.database, self.database.sql, self.database.name
        given = database.address.parameters
        kind, primary = "", list[str]()
        if self.query is not None:
            self._origin = sql.SQL("({}) t").format(sql.SQL(self.query.strip().rstrip(";").replace("%", "%%")))
            columns = self._columns_of_query()
            self._nulls = True
        else:
            schema, table = database.place
            found = database.table()
            if found is None:
                raise SourceError(f"{name}: the schema {schema!r} has no table {table!r}; name another with schema=")
            self.table, kind = found
            self._origin = sql.SQL("{} t").format(database.identifier(schema, table))
            described = database.columns(self.table)
            columns = {one: type for one, type, _, _ in described}
            primary = [one for _, one in sorted((place, one) for one, _, _, place in described if place is not None)]
            wanted = given.get("order", "").split(",")
            self._nulls = any(nullable for one, _, nullable, _ in described if one in wanted)
        order = given["order"].split(",") if "order" in given else primary
        if not order:
            raise SourceError(f"{name} has no primary key; name the column that tells its rows apart with order=")
        for one in (*order, *([given["value"]] if "value" in given else [])):
            if one not in columns:
                raise SourceError(f"{name} has no column {one!r}; choices: {', '.join(columns)}")
        written = self._transaction(columns, kind)
        self.keys = [written, *(Key(one, columns[one], database.identifier("t", one)) for one in order)]
        self._message = self._message_of(columns, written.name)

    def _columns_of_query(self) -> dict[str, str]:
        database = self.database
        select = database.sql.SQL("select * from {} limit 0").format(self._origin)
        described = database.ask(lambda: database.client.execute(select, ()).description)
        types = dict(database.rows("select oid, format_type(oid, null) from pg_type"))
        return {one.name: types[one.type_code] for one in described}

    def _transaction(self, columns: Mapping[str, str], kind: str) -> Key:
        """Return the first part of the order: the transaction that wrote a row, as a number of 64 bits."""
        database, sql = self.database, self.database.sql
        name = database.address.parameters.get("xid")
        wide = [one for one, type in columns.items() if type == "xid8"]
        if name is None and len(wide) == 1:
            name = wide[0]
        if name is None and kind not in ("r", "p", "m"):
            raise SourceError(f"{database.name} is no table; name its column with the transaction of a row with xid=")
        type = "xid" if name in (None, "xmin") else columns.get(str(name))
        if name is not None and type == "xid8":
            return Key(name, "xid8", database.identifier("t", name))
        if type != "xid":
            raise SourceError(
                f"{database.name}: the column {name!r} of xid= must have the type xid8 or xid; its type is {type}"
            )
        # PostgreSQL keeps 32 bits with a row. They are continued to 64: the last such transaction before now.
        top = sql.SQL(f"(select {TOP}::text::bigint)")
        whole = sql.SQL("({0} - (({0} - {1}::text::bigint) & 4294967295))")
        return Key(name or "xmin", "bigint", whole.format(top, database.identifier("t", name or "xmin")))

    def _message_of(self, columns: Mapping[str, str], written: str) -> Any:
        """Return the expression of a message: one column, or all columns as a JSON object."""
        database, sql = self.database, self.database.sql
        value = database.address.parameters.get("value")
        if value is not None:
            column = database.identifier("t", value)
            return column if columns[value] == "bytea" else sql.SQL("convert_to({}::text, 'UTF8')").format(column)
        cells = []
        for name, kind in columns.items():
            column = database.identifier("t", name)
            if kind.partition("(")[0] in FLOATS:  # NaN is no number of JSON
                column = sql.SQL("nullif({}, 'NaN')").format(column)
            if name != written:
                cells.append(sql.SQL("{} as {}").format(column, database.identifier(name)))
        record = sql.SQL("(select r from (select {}) r)").format(sql.SQL(", ").join(cells))
        return sql.SQL("convert_to(row_to_json({})::text, 'UTF8')").format(record)

    def statement(
        self, *, first: bool = False, last: bool = False, stop: int | None = None, everything: bool = False
    ) -> Any:
        """Return the statement that selects rows: the parts of their keys as text or whole numbers, and the message.

        Parameters
        ----------
        first, last
            Whether the key of a first row, of a last row, are parameters of the statement. Both rows are selected, too.
        stop
            Number of the transaction before which rows end.
        everything
            Also select rows after transactions that are not over.
        """
        sql, (written, *_) = self.database.sql, self.keys
        keys = sql.SQL(", ").join(one.expression for one in self.keys)
        holes = sql.SQL(", ".join(f"%s::{one.type}" for one in self.keys))
        limits = []
        if not everything:
            end = f"(select {HORIZON}::text::{written.type})"
            if stop is not None:  # one comparison, because the number of a transaction takes long to compute
                end = f"(select least({HORIZON}::text::bigint, {stop})::text::{written.type})"
            limits.append(sql.SQL(f"{{}} < {end}").format(written.expression))
        if first:
            # What is null is neither before nor after anything: it is kept here, and refused when it is read.
            kept = " is not false" if self._nulls else ""
            limits.append(sql.SQL(f"(({{}}) >= ({{}})){kept}").format(keys, holes))
        if last:
            limits.append(sql.SQL("({}) <= ({})").format(keys, holes))
        # Whole numbers come as they are, so that the server computes what it sorts by only once.
        texts = sql.SQL(", ").join(
            one.expression if one.type in WHOLE else sql.SQL("{}::text").format(one.expression) for one in self.keys
        )
        where = sql.SQL(" and ").join(limits) if limits else sql.SQL("true")
        return sql.SQL("select {}, {} from {} where {} order by {}").format(
            texts, self._message, self._origin, where, keys
        )
