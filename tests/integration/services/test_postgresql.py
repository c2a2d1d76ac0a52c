"""Tables of PostgreSQL as a source and as a destination."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from tests.integration.services.servers import require
from tests.integration.services.services import until

from driftsurf.checks import SeekableCase, WriterCase, check_seekable, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.errors import OptionError, SourceError

psycopg = pytest.importorskip("psycopg")
SERVER = "postgresql://postgres@127.0.0.1/test"
TABLES = {
    "xmin": "id bigint generated always as identity primary key, value bytea",
    "xid8": "id bigint generated always as identity primary key, value bytea, "
    "written xid8 not null default pg_current_xact_id()",
}
"""Tables whose rows are ordered by what PostgreSQL keeps with each row, and by a column."""


def other() -> Any:
    """Return another connection, whose statements are one transaction until it is committed."""
    return psycopg.connect(SERVER)


@pytest.fixture
def client(unique: str) -> Iterator[Any]:
    """A connection to the server, which drops the table of the test."""
    require("postgresql")
    with psycopg.connect(SERVER, autocommit=True) as client:
        yield client
        client.execute(f"drop table if exists {unique} cascade")


def settle(client: Any) -> None:
    """Wait until all transactions of other tests are over that are under way now, since rows wait for them."""
    (top,) = client.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").fetchone()
    now = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    until(lambda: client.execute(now).fetchone()[0] >= top)


def end_connections(client: Any) -> None:
    """End the connections of this process, as a restart of the server does."""
    client.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'driftsurf' "
        "and datname = current_database()"
    )


@pytest.mark.parametrize("how", TABLES)
def test_the_reader_conforms(client: Any, unique: str, how: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(f"create table {unique} ({TABLES[how]})")

    def send(messages: Sequence[bytes]) -> None:
        with client.cursor() as cursor:
            cursor.executemany(f"insert into {unique} (value) values (%s)", [(one,) for one in messages])
        settle(client)

    def forget(count: int) -> None:
        client.execute(f"delete from {unique} where id in (select id from {unique} order by id limit %s)", (count,))

    check_seekable(SeekableCase(lambda: PostgresReader(f"{SERVER}/{unique}?value=value"), send, forget))


def test_the_writer_conforms(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.sink import PostgresWriter

    def held() -> list[dict[str, Any]]:
        with client.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            return list(cursor.execute(f"select * from {unique} order by row"))

    check_writer(WriterCase(lambda: PostgresWriter(f"{SERVER}/{unique}", COLUMNS), held))


def test_text_that_the_database_cannot_hold_is_written_all_the_same(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.sink import PostgresWriter

    writer = PostgresWriter(f"{SERVER}/{unique}", {"row": "integer", "prediction": "text"})
    writer.open()
    writer.write(0, [{"row": 0, "prediction": "a\0b"}, {"row": 1, "prediction": "\ud800"}])
    writer.close()
    assert client.execute(f"select prediction from {unique} order by row").fetchall() == [("a\ufffdb",), ("?",)]


def test_rows_that_were_written_already_are_recognised(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.sink import PostgresWriter

    columns = {"row": "integer", "prediction": "text"}
    writer = PostgresWriter(f"{SERVER}/{unique}", columns)
    writer.open()
    batch = [{"row": n, "prediction": "yes"} for n in range(10)]
    writer.write(0, batch)
    writer.write(0, batch)  # as after a connection that was lost while the rows were committed
    with pytest.raises(SourceError, match="holds 10 rows, and rows from 5 on"):
        writer.write(5, batch)
    client.execute(f"delete from {unique} where row < 10")  # rows may be moved elsewhere
    again = PostgresWriter(f"{SERVER}/{unique}", columns)
    assert again.open() == 10
    again.close()
    writer.close()
    client.execute(f"drop table {unique}; create table {unique} (a int)")
    wrong = PostgresWriter(f"{SERVER}/{unique}", columns)
    with pytest.raises(SourceError, match="'row', 'prediction'"):
        wrong.open()
    wrong.close()


def test_the_marks_of_dropped_tables_are_removed(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.sink import PostgresWriter

    def number() -> int:
        (found,) = client.execute("select %s::regclass::oid::bigint", (unique,)).fetchone()
        return int(found)

    numbers = []
    for _ in range(2):
        writer = PostgresWriter(f"{SERVER}/{unique}", {"row": "integer", "prediction": "text"})
        assert writer.open() == 0
        writer.write(0, [{"row": 0, "prediction": "yes"}])
        writer.close()
        numbers.append(number())
        marks = client.execute("select relation::bigint, rows from driftsurf_marks").fetchall()
        client.execute(f"drop table {unique}")
    assert (numbers[1], 1) in marks
    assert numbers[0] not in dict(marks)


# ---------------------------------------------------------------------------- the order of rows


def values(reader: Any, position: Any = None, most: int = 7) -> tuple[list[Any], Any]:
    """Return all messages after a position, and the position after them."""
    found = []
    with contextlib.closing(reader):
        reader.open(position, bounded=True)
        while (plan := reader.plan(most, 0.0)) is not None:
            found += [json.loads(one.value) for one in reader.read(plan.ranges)]
            position = json.loads(json.dumps(plan.end))
    return found, position


@pytest.mark.parametrize("how", TABLES)
def test_rows_of_a_slow_transaction_are_not_lost(
    client: Any, unique: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from driftsurf.connectors.postgresql import source as postgresql

    monkeypatch.setattr(postgresql, "SETTLING", 0.1)
    client.execute(f"create table {unique} ({TABLES[how].replace('value bytea', 'n int')})")
    with other() as slow:
        slow.execute(f"insert into {unique} (n) values (1)")  # it takes the first id, and is committed last
        client.execute(f"insert into {unique} (n) values (2), (3)")
        early, position = values(postgresql.PostgresReader(f"{SERVER}/{unique}"))
        # A cursor over ids would go on after the third row now, and never see the first.
        assert client.execute(f"select id from {unique} order by id").fetchall() == [(2,), (3,)]
        assert early == []
        slow.commit()
    settle(client)
    client.execute(f"insert into {unique} (n) values (4)")
    settle(client)
    late, _ = values(postgresql.PostgresReader(f"{SERVER}/{unique}"), position)
    assert [row["n"] for row in late] == [1, 2, 3, 4]
    assert [row["id"] for row in late] == [1, 2, 3, 4]


def test_a_reader_that_follows_waits_for_a_slow_transaction(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(f"create table {unique} (id int primary key)")
    reader = PostgresReader(f"{SERVER}/{unique}")
    with other() as slow:
        slow.execute(f"insert into {unique} values (9)")
        client.execute(f"insert into {unique} values (1)")
        reader.open(None, bounded=False)
        assert reader.plan(10, 0.3) is None
        assert reader.lag() == 1
        slow.commit()
    settle(client)
    plan = reader.plan(10, 60.0)
    assert plan is not None
    assert [json.loads(one.value)["id"] for one in reader.read(plan.ranges)] == [9, 1]  # by transaction, then by id
    reader.close()


def test_rows_of_many_writers_are_read_once_in_one_order(
    client: Any, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from driftsurf.connectors.postgresql import scans as _postgresql_scans
    from driftsurf.connectors.postgresql.source import PostgresReader

    monkeypatch.setattr(_postgresql_scans, "WINDOW", 2)  # many scans, each of which is begun ahead
    client.execute(f"create table {unique} (id bigint generated always as identity primary key)")

    connected = threading.Barrier(4)

    def write(seed: int) -> None:
        chance = random.Random(seed)
        with other() as writer:
            connected.wait(60)
            for _ in range(25):
                for _ in range(chance.randint(1, 9)):
                    writer.execute(f"insert into {unique} default values")
                time.sleep(chance.uniform(0.0, 0.03))
                writer.commit() if chance.random() < 0.8 else writer.rollback()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    reader, found, settled = PostgresReader(f"{SERVER}/{unique}"), list[int](), False
    reader.open(None, bounded=False)
    for one in writers:
        one.start()
    while (plan := reader.plan(7, 0.3)) is not None or not settled:
        found += [] if plan is None else [json.loads(one.value)["id"] for one in reader.read(plan.ranges)]
        if not settled and not any(one.is_alive() for one in writers):
            settle(client)
            settled = True
    reader.close()
    again, _ = values(PostgresReader(f"{SERVER}/{unique}"), most=1_000)
    assert found == [row["id"] for row in again]
    assert sorted(found) == [id for (id,) in client.execute(f"select id from {unique} order by id")]
    assert found != sorted(found)  # transactions that began earlier ended later


def test_a_reader_is_closed_while_its_server_scans(client: Any, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf.connectors.postgresql import scans as _postgresql_scans
    from driftsurf.connectors.postgresql.source import PostgresReader

    monkeypatch.setattr(_postgresql_scans, "WINDOW", 1)
    client.execute(f"create table {unique} (id int primary key)")
    client.execute(f"insert into {unique} select generate_series(1, 100)")
    settle(client)
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
    reader = PostgresReader(f"{SERVER}/{unique}")
    with other() as locker:
        reader.open(None, bounded=True)
        monkeypatch.setattr(reader._selection, "statement", _after_a_lock(reader._selection.statement, locker, unique))
        assert reader.plan(10, 0.0) is not None  # the next scan is begun ahead, and waits for the lock
        until(lambda: client.execute(waiting, (f"%{unique}%",)).fetchone()[0])
        reader.close()
        assert client.execute(waiting, (f"%{unique}%",)).fetchone() == (0,)


def _after_a_lock(statement: Any, locker: Any, table: str) -> Any:
    """Return a function that locks a table before the second statement is made."""
    made = list[Any]()

    def make(**options: Any) -> Any:
        if made:
            locker.execute(f"lock table {table} in access exclusive mode")
        made.append(statement(**options))
        return made[-1]

    return make


def test_rows_that_were_changed_after_they_were_planned_are_an_error(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    for how in TABLES:
        client.execute(f"drop table if exists {unique}; create table {unique} ({TABLES[how]}, n int)")
        client.execute(f"insert into {unique} (n) select generate_series(1, 20)")
        settle(client)
        reader = PostgresReader(f"{SERVER}/{unique}?order=id")
        reader.open(None, bounded=True)
        plan = reader.plan(10, 0.0)
        assert plan is not None
        client.execute(f"update {unique} set n = 0 where id = 5")
        again = PostgresReader(f"{SERVER}/{unique}?order=id")
        again.open(None, bounded=True)
        with pytest.raises(SourceError, match="changed or deleted after they had been planned"):
            again.read(json.loads(json.dumps(plan.ranges)))
        reader.close()
        again.close()


def test_an_updated_row_comes_again_unless_the_table_keeps_its_transaction(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    for how, expected in (("xmin", [(3, 0)]), ("xid8", [])):
        client.execute(f"drop table if exists {unique}; create table {unique} ({TABLES[how]}, n int)")
        client.execute(f"insert into {unique} (n) select generate_series(1, 5)")
        settle(client)
        first, position = values(PostgresReader(f"{SERVER}/{unique}"))
        assert [(row["id"], row["n"]) for row in first] == [(n, n) for n in range(1, 6)]
        client.execute(f"update {unique} set n = 0 where id = 3")
        settle(client)
        second, _ = values(PostgresReader(f"{SERVER}/{unique}"), position)
        assert [(row["id"], row["n"]) for row in second] == expected


def test_a_table_that_was_made_anew_is_noticed(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    make = f"create table {unique} (id int primary key); insert into {unique} values (1), (2)"
    client.execute(make)
    settle(client)
    _, position = values(PostgresReader(f"{SERVER}/{unique}"))
    client.execute(f"drop table {unique}; {make}")
    settle(client)
    with pytest.raises(SourceError, match="recreated"):
        values(PostgresReader(f"{SERVER}/{unique}"), position)


def test_columns_of_many_types(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(
        f'create table {unique} (a text, b int, "odd ""name%" numeric(8, 2), f float8, at timestamptz, y bool, '
        "primary key (b, a))"
    )
    client.execute(
        f"insert into {unique} values ('x', 1, 1.25, 'NaN', '2024-05-01 12:00Z', true), ('a', 2, null, 1, null, null)"
    )
    settle(client)
    found, _ = values(PostgresReader(f"{SERVER}/{unique}"), most=1)
    assert [(row["b"], row["a"], row['odd "name%'], row["f"], row["y"]) for row in found] == [
        (1, "x", 1.25, None, True),
        (2, "a", None, 1, None),
    ]


def test_a_query_is_read_like_a_table(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(f"create table {unique} (id int primary key, name text)")
    client.execute(f"insert into {unique} select n, 'n' || n from generate_series(1, 30) n")
    settle(client)
    query = quote(f"select id, upper(name) as name, xmin as written from {unique} where name like '%2%';")
    address = f"{SERVER}?query={query}&order=id&xid=written"
    found, position = values(PostgresReader(address), most=3)
    assert [row["name"] for row in found] == [f"N{n}" for n in range(1, 31) if "2" in str(n)]
    assert set(found[0]) == {"id", "name"}
    client.execute(f"insert into {unique} values (200, 'n200'), (3, 'x') on conflict do nothing")
    settle(client)
    assert values(PostgresReader(address), position)[0] == [{"id": 200, "name": "N200"}]
    with pytest.raises(SourceError, match="without a value"):
        values(
            PostgresReader(f"{SERVER}?query={quote('select null::int as id, xmin from pg_class')}&order=id&xid=xmin")
        )


@pytest.mark.parametrize(("given", "used"), [("1MB", "64MB"), ("256MB", "256MB")])
def test_the_memory_of_a_scan_is_raised_and_never_lowered(
    client: Any, unique: str, monkeypatch: pytest.MonkeyPatch, given: str, used: str
) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(f"create table {unique} (id int primary key)")
    client.execute(f"insert into {unique} values (1)")
    settle(client)
    monkeypatch.setenv("PGOPTIONS", f"-c work_mem={given}")
    query = quote(f"select id, current_setting('work_mem') as memory, xmin as written from {unique}")
    found, _ = values(PostgresReader(f"{SERVER}?query={query}&order=id&xid=written"))
    assert found == [{"id": 1, "memory": used}]


def test_an_order_that_does_not_tell_rows_apart_is_refused(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(f"create table {unique} (day int not null)")
    client.execute(f"insert into {unique} values (1), (2), (2), (3)")
    settle(client)
    for most in (1, 2, 10):
        with pytest.raises(SourceError, match="several rows"):
            values(PostgresReader(f"{SERVER}/{unique}?order=day"), most=most)
    with pytest.raises(SourceError, match="no primary key"):
        values(PostgresReader(f"{SERVER}/{unique}"))
    with pytest.raises(SourceError, match="no column 'dya'"):
        values(PostgresReader(f"{SERVER}/{unique}?order=dya"))
    with pytest.raises(SourceError, match="no table 'absent'"):
        values(PostgresReader(f"{SERVER}/absent"))
    with pytest.raises(OptionError, match="xmin as written"):
        PostgresReader(f"{SERVER}?query=select+1")


def test_scans_of_a_large_table_follow_each_other(client: Any, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf.connectors.postgresql import scans as _postgresql_scans
    from driftsurf.connectors.postgresql import source as postgresql

    monkeypatch.setattr(_postgresql_scans, "WINDOW", 2)
    monkeypatch.setattr(_postgresql_scans, "GROWTH", 2)
    client.execute(f"create table {unique} (id int primary key)")
    client.execute(f"insert into {unique} select generate_series(1, 500)")
    settle(client)
    for most in (1, 3, 50, 250, 500):
        found, _ = values(postgresql.PostgresReader(f"{SERVER}/{unique}"), most=most)
        assert [row["id"] for row in found] == list(range(1, 501))


def test_a_notification_wakes_the_reader(client: Any, unique: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf.connectors.postgresql import source as postgresql

    monkeypatch.setattr(postgresql, "PAUSE", 3600.0)  # without a notification it would not look again
    client.execute(f"create table {unique} (id int primary key)")
    reader = postgresql.PostgresReader(f"{SERVER}/{unique}?listen={unique}")
    reader.open(None, bounded=False)

    def write() -> None:
        time.sleep(0.3)
        with other() as writer:
            writer.execute(f"insert into {unique} values (1); notify {unique}")
            writer.commit()
        while not woken.wait(0.2):  # another transaction may have been under way at the first notification
            client.execute(f"notify {unique}")

    thread, woken = threading.Thread(target=write, daemon=True), threading.Event()
    thread.start()
    plan = reader.plan(1, 60.0)
    woken.set()
    assert plan is not None
    reader.close()
    thread.join()


def test_a_connection_that_is_lost_is_made_again(client: Any, unique: str) -> None:
    from driftsurf.connectors.postgresql.sink import PostgresWriter
    from driftsurf.connectors.postgresql.source import PostgresReader

    client.execute(f"create table {unique} (id int primary key, {', '.join(['row bigint', 'prediction text'])})")
    client.execute(f"insert into {unique} (id) select generate_series(1, 100)")
    settle(client)
    reader = PostgresReader(f"{SERVER}/{unique}")
    reader.open(None, bounded=True)
    found = list[int]()
    while (plan := reader.plan(9, 0.0)) is not None:
        found += [json.loads(one.value)["id"] for one in reader.read(plan.ranges)]
        end_connections(client)
    assert found == list(range(1, 101))
    reader.close()
    client.execute(f"drop table {unique}")
    writer = PostgresWriter(f"{SERVER}/{unique}", {"row": "integer", "prediction": "text"})
    writer.open()
    for n in range(0, 40, 10):
        writer.write(n, [{"row": row, "prediction": "yes"} for row in range(n, n + 10)])
        end_connections(client)
    writer.close()
    assert client.execute(f"select count(*), max(row) from {unique}").fetchone() == (40, 39)
