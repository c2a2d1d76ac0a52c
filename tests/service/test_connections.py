"""Sources and sinks of a served model, with a broker and a table in memory."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from memory_broker import MemoryConnector, MemoryTable, MemoryTopic

pytest.importorskip("msgspec")

from driftsurf.connectors.sink import ConnectorSink, WriterFactory
from driftsurf.data.log.records import Kinds, decode
from driftsurf.data.messages.contract import Plan, Seekable
from driftsurf.data.messages.source import MessageSource
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import OptionError, SourceError, SourceUnreachableError, StateError
from driftsurf.service import served_sink, served_source
from driftsurf.service.broker_thread import SinkOptions, SourceOptions, Stopped, read_state
from driftsurf.service.connections import Connections
from driftsurf.service.contract import Order
from driftsurf.service.http.metrics import ServiceMetrics
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.served_source import MessageRows
from driftsurf.service.settings import Keeping, ModelSettings
from driftsurf.service.wire.formats import ModelFormats

SETTINGS = ModelSettings(
    label="sold", task="binary", model="driftsurf", batch_size=20, columns={"price": "number", "city": "text"}
)
KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0)
FORMATS = ModelFormats("id", "sold")
TOPICS: dict[str, MemoryTopic] = {}
HOSTILE = (
    b"", b"{", b"\x00", b"\xff\xfe", b"[" * 100_000, b"[1, 2]", b"null", b'{"price": 1e999, "city": "x"}',
    b'{"price": "dear", "city": "Rome"}', b'{"price": 1}', b'{"price": 1, "city": "a\\u0000b"}',
    b'{"price": 1, "city": "Rome", "other": 3}', b'"' + b"x" * 2**20 + b'"',
    b'{"price": 1' + b"0" * 400 + b', "city": "x"}',
)  # fmt: skip
"""Messages that are no rows with the columns of the model, whatever else they have."""


class Broker(MemoryConnector):
    """Messages in memory; ``down`` makes it unreachable."""

    down: ClassVar[bool] = False

    def plan(self, most: int, seconds: float) -> Plan | None:
        if self.down:
            raise SourceUnreachableError("memory://topic cannot be reached")
        found = super().plan(most, seconds)
        if found is None:
            time.sleep(0.005)
        return found


class MemorySource(MessageSource):
    """A source of messages in memory."""

    def connect(self, location: str) -> Seekable:
        connector = Broker(TOPICS[location])
        connector.name = location
        return connector


class MemorySink(ConnectorSink):
    """A table in memory."""

    writer: ClassVar[WriterFactory] = MemoryTable


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def source(address: str, reading: ReadingOptions, **options: Any) -> Any:
        return MemorySource(address, reading, **options)

    TOPICS.clear()
    MemoryTable.tables.clear()
    monkeypatch.setattr(served_source, "open_source", source)
    monkeypatch.setattr(served_sink, "open_sink", MemorySink)
    monkeypatch.setattr(Broker, "down", False)


def topic(name: str, partitions: int = 2) -> MemoryTopic:
    return TOPICS.setdefault(f"memory://{name}", MemoryTopic([[] for _ in range(partitions)]))


def source(name: str, kind: str, **options: Any) -> SourceOptions:
    found = SourceOptions(address=f"memory://{name}", kind=kind, **{"batch_size": 30} | options)
    found.check(name)
    return found


def orders(count: int, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"o-{n}", "price": (n * 37 % 101) / 50 - 1, "city": ("Rome", "Oslo")[n % 2]} | more
        for n in range(first, first + count)
    ]


def labels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": row["id"], "sold": "yes" if row["price"] > 0 else "no", "at": "today"} for row in rows]


def sent(rows: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


@contextlib.contextmanager
def served(
    folder: Path, sources: dict[str, SourceOptions], sinks: dict[str, SinkOptions] | None = None, **settings: Any
) -> Iterator[tuple[ServedModel, Connections]]:
    connections = Connections(folder, sources, sinks or {})
    model = open_model(folder, settings.pop("settings", SETTINGS), KEEPING, connections=connections)
    try:
        assert model.wait_ready(60)
        connections.start(model, FORMATS)
        yield model, connections
    finally:
        connections.close()
        model.close()


def until(done: Callable[[], object]) -> None:
    """Wait for something that another thread does."""
    for _ in range(6_000):
        if done():
            return
        time.sleep(0.01)
    raise AssertionError("it was not done")


def taken(connections: Connections, count: int) -> None:
    until(lambda: sum(one.rows + one.bad_rows for one in connections.status() if one.direction == "source") >= count)


def written(table: str, count: int) -> None:
    until(lambda: len(MemoryTable.tables.get(table, ())) >= count)


def logged(model: ServedModel) -> list[Any]:
    """Return all rows, labels and ids in the log, in its order."""
    found: list[Any] = []
    position = 0
    while numbered := model.log.read(position):
        for number, payload in numbered:
            position = number + 1
            record = decode(payload, tuple(model.columns))  # type: ignore[arg-type]
            if record.kind in (Kinds.ROWS, Kinds.LABELS):
                found += [(record.kind.name, one) for one in record.ids]
            elif record.kind == Kinds.LEARN and record.labels is not None:
                found += [("LEARN", one) for one in record.labels]
    return found


def bad_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    text = (folder / "sources" / name / "bad_rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


# ---------------------------------------------------------------------------- rows and labels


def test_rows_and_labels_of_two_topics_and_predictions_in_a_table(tmp_path: Path) -> None:
    rows = orders(400)
    topic("orders").send(sent(rows))
    topic("labels").send(sent(labels(rows)))
    sinks = {
        "scores": SinkOptions(address="memory://scores?password=env:NONE", kind="predictions"),
        "decisions": SinkOptions(address="memory://decisions", kind="journal"),
    }
    folder = tmp_path / "sales"
    with served(folder, {"o": source("orders", "predict"), "l": source("labels", "label")}, sinks) as (model, own):
        taken(own, 800)
        more = orders(100, 400)
        topic("orders").send(sent(more))
        taken(own, 900)
        assert model.order(Order("unpin")).result(60).done
        status = model.status()
        assert (status.labels.labelled, status.version) == (400, 20)
        until(lambda: len(MemoryTable.tables.get("memory://scores?password=env:NONE", ())) == 500)
        assert [one.address for one in status.connections if one.name == "scores"] == ["memory://scores"]
        lines = model.feed.lines
        written("memory://decisions", lines)
        until(lambda: all(one.state == "running" and not one.error for one in model.status().connections))
        answers = [one for one in logged(model) if one[0] == "ROWS"]
    table = MemoryTable.tables["memory://scores?password=env:NONE"]
    assert [row["row"] for row in table] == list(range(500))
    assert [("ROWS", row["id"]) for row in table] == answers
    assert sorted(row["id"] for row in table) == sorted(row["id"] for row in rows + more)
    assert {row["prediction"] for row in table if row["version"]} <= {"yes", "no"}
    assert all(row["version"] == 0 for row in table if row["prediction"] is None)  # others may be guesses
    assert [json.loads(row["record"])["type"] for row in MemoryTable.tables["memory://decisions"]].count("order") == 1


def test_learned_rows_give_the_same_model_as_over_http(tmp_path: Path) -> None:
    rows = [row | {"sold": "yes" if row["price"] > 0 else "no"} for row in orders(300)]
    topic("orders", 1).send(sent(rows))
    with served(tmp_path / "fed", {"o": source("orders", "learn")}) as (model, own):
        taken(own, 300)
        model.order(Order("unpin")).result(60)
        fed = model.state()
    with contextlib.closing(open_model(tmp_path / "asked", SETTINGS, KEEPING)) as model:
        assert model.wait_ready(60)
        read = ModelFormats("id", "sold").reader(model.snapshot, "learn", "ndjson")
        found = read(b"\n".join(sent(rows)), "fail", 1000)
        model.learn(found.table, found.labels or []).result(60)
        model.order(Order("unpin")).result(60)
        assert model.state() == fed


@pytest.mark.parametrize("format", ["csv", "arrow"])
def test_other_formats(tmp_path: Path, format: str) -> None:
    rows = [row | {"sold": "yes" if row["price"] > 0 else "no"} for row in orders(120)]
    if format == "csv":
        messages = [f"{row['price']},{row['city']},{row['sold']},x".encode() for row in rows]
        options: dict[str, Any] = {"names": ("price", "city", "sold", "note"), "drop": ("note",)}
        bad = [b"1,2", b"a,b,c,d", b"1,Rome,yes,x\n2,Rome,yes,x", b"1,R\x00me,yes,x"]
    else:
        pa = pytest.importorskip("pyarrow")

        def arrow(part: list[dict[str, Any]]) -> bytes:
            sink, table = pa.BufferOutputStream(), pa.Table.from_pylist(part)
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            return bytes(sink.getvalue())

        messages = [arrow(rows[start : start + 10]) for start in range(0, 120, 10)]
        options, bad = {}, [b"no arrow", arrow([{"price": "dear", "city": "Rome", "sold": "no"}])]
    topic("orders", 1).send([*messages[:5], *bad, *messages[5:]])
    with served(tmp_path / "sales", {"o": source("orders", "learn", format=format, **options)}) as (model, own):
        taken(own, 120 + len(bad))
        assert [one for _, one in logged(model)] == [row["sold"] for row in rows]
    assert len(bad_rows(tmp_path / "sales", "o")) == len(bad)


def test_the_first_rows_decide_the_columns(tmp_path: Path) -> None:
    settings = ModelSettings(label="sold", model="driftsurf", batch_size=20)
    rows = [row | {"sold": "yes" if row["price"] > 0 else "no"} for row in orders(100)]
    messages = sent(rows)
    messages[7:7] = [b'{"price": "dear", "city": "Rome", "sold": "no"}', b"{"]
    topic("orders", 1).send(messages)
    with served(tmp_path / "sales", {"o": source("orders", "learn")}, settings=settings) as (model, own):
        taken(own, 102)
        assert [(one.name, one.kind) for one in model.columns] == [("price", "number"), ("city", "text")]
        assert len(logged(model)) == 100
    assert len(bad_rows(tmp_path / "sales", "o")) == 2


# ---------------------------------------------------------------------------- bad messages


@pytest.mark.parametrize("kind", ["predict", "learn", "label"])
def test_bad_messages_are_put_aside(tmp_path: Path, kind: str) -> None:
    good = [row | {"sold": "no"} for row in orders(60)]
    messages = sent(good)
    odd = [*HOSTILE] if kind != "label" else [b"{", b"\xff", b"[]", b'{"id": "o"}', b'{"sold": "no"}']
    odd += {
        "predict": [b'{"price": 1, "city": "Rome"}', sent(good)[10], b'{"id": "", "price": 1, "city": "Rome"}'],
        "learn": [b'{"price": 1, "city": "Rome"}', b'{"price": 1, "city": "Rome", "sold": null}'],
        "label": [sent(good)[10], b'{"id": "x", "sold": {}}', b'{"id": "x", "sold": ""}'],
    }[kind]
    for place, one in enumerate(odd):
        messages.insert(11 + 2 * place, one)
    topic("orders", 1).send(messages)
    with served(tmp_path / "sales", {"o": source("orders", kind, batch_size=1000)}) as (model, own):
        taken(own, len(messages))
        (status,) = model.status().connections
        assert (status.rows, status.bad_rows, status.state, status.error) == (60, len(odd), "running", "")
        assert len(logged(model)) == 60
    places = [one["file"].rpartition(" ")[2] for one in bad_rows(tmp_path / "sales", "o")]
    assert sorted(map(int, places)) == [11 + 2 * place for place in range(len(odd))]


def test_labels_that_the_model_refuses_are_put_aside(tmp_path: Path) -> None:
    rows = [row | {"sold": ("yes", "no", "maybe", "no", 3)[n % 5]} for n, row in enumerate(orders(100))]
    topic("orders", 1).send(sent(rows))
    with served(tmp_path / "sales", {"o": source("orders", "learn")}) as (model, own):
        taken(own, 100)
        assert [one for _, one in logged(model)] == [row["sold"] for row in rows if row["sold"] in ("yes", "no")]
    assert len(bad_rows(tmp_path / "sales", "o")) == 40


# ---------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("moment", ["before", "after"])
def test_batches_that_are_read_again_are_taken_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    rows = [row | {"sold": "yes" if row["price"] > 0 else "no"} for row in orders(500)]
    messages = sent(rows)
    for place in range(0, 500, 50):
        messages[place] = b'{"price": 1, "city": "Rome", "sold": "perhaps"}' if place > 50 else b"{"
    topic("orders", 3).send(messages[:300])
    save, left = served_source.Feeder._save, [0]

    def crashing(self: Any, model: Any) -> None:
        left[0] -= 1
        if moment == "after" or left[0]:
            save(self, model)
        if not left[0]:
            raise Stopped

    monkeypatch.setattr(served_source.Feeder, "_save", crashing)
    folder, options = tmp_path / "sales", {"o": source("orders", "learn", batch_size=10)}
    # A process reads ten batches before it first saves its position; the next one saves after each batch, and so on.
    for part, (batches, saves) in enumerate([(10, 1), (1, 3), (5, 2), (1, 8), (20, -1)]):
        monkeypatch.setattr(served_source, "SAVE_BATCHES", batches)
        left[0] = saves
        with served(folder, options) as (model, own):
            if part == 2:
                topic("orders").send(messages[300:])
            if saves > 0:
                until(lambda own=own: own.status()[0].state == "stopped")  # type: ignore[misc]
            else:
                taken(own, 500)
                found = logged(model)
                assert model.status().connections[0].rows == 490
    assert len(found) == 490
    assert len(bad_rows(folder, "o")) == 10
    assert len({one["file"] for one in bad_rows(folder, "o")}) == 10


def test_what_was_put_aside_stays_so_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that the model would take by now must not be taken, since the rest of its batch was."""
    rows = [row | {"sold": "no"} for row in orders(20)]
    rows[3]["sold"] = "yes"
    topic("orders", 1).send(sent(rows))
    save = served_source.Feeder._save
    folder, options = tmp_path / "sales", {"o": source("orders", "learn")}
    monkeypatch.setattr(served_source.Feeder, "_save", lambda self, model: self.wait("", 0) or self.stopping.set())
    monkeypatch.setattr(MessageRows, "read", _without("yes"))
    with served(folder, options) as (model, own):
        taken(own, 20)
        assert len(logged(model)) == 19
    monkeypatch.undo()
    monkeypatch.setattr(served_source, "open_source", MemorySource)
    assert served_source.Feeder._save is save
    with served(folder, options) as (model, own):
        until(lambda: (read_state(folder / "sources/o/position.json", {}) or {})["at"] == [20])
        assert len(logged(model)) == 19
        assert (own.status()[0].rows, own.status()[0].bad_rows) == (19, 1)
    assert len(bad_rows(folder, "o")) == 1


def _without(word: str) -> Any:
    read = MessageRows.read

    def without(self: Any, model: Any, messages: Any) -> Any:
        kept = [one for one in messages if word.encode() not in one.value]
        rows, good, bad = read(self, model, kept)
        return rows, good, [*bad, *((one, "refused") for one in messages if one not in kept)]

    return without


def test_a_sink_gets_each_row_once_whenever_it_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_sink, "SAVE_BATCHES", 3)
    rows = orders(300)
    topic("orders", 1).send(sent(rows[:100]))
    topic("labels", 1).send(sent(labels(rows[:100])))
    sources = {"o": source("orders", "predict", batch_size=7), "l": source("labels", "label")}
    sinks = {"scores": SinkOptions(address="memory://scores", kind="predictions")}
    write, faults = MemoryTable.write, [1, 0, 2, 0, 1]

    def failing(self: Any, first_row: int, given: Any) -> None:
        if faults and faults[0] == 0:
            faults.pop(0)
            write(self, first_row, given[: len(given) // 2])
            raise SourceUnreachableError("memory://scores cannot be reached")
        if faults:
            faults[0] -= 1
        write(self, first_row, given)

    monkeypatch.setattr(MemoryTable, "write", failing)
    monkeypatch.setattr("driftsurf.service.broker_thread.AGAIN_SECONDS", 0.01)
    for part in range(2):
        with served(tmp_path / "sales", sources, sinks) as (_, own):
            for start in range(100 + 100 * part, 200 + 100 * part, 10):
                topic("orders").send(sent(rows[start : start + 10]))
                written("memory://scores", start + 10)  # so that there are as many writes as faults, and more
            taken(own, 300 + 100 * part)
            written("memory://scores", 200 + 100 * part)
    assert not faults
    table = MemoryTable.tables["memory://scores"]
    assert [(row["row"], row["id"]) for row in table] == [(n, f"o-{n}") for n in range(300)]


def test_a_table_with_other_rows_is_not_written_to(tmp_path: Path) -> None:
    MemoryTable.tables["memory://scores"] = [{"row": 0}]
    topic("orders", 1).send(sent([row | {"sold": "yes" if row["price"] > 0 else "no"} for row in orders(100)]))
    sinks = {"scores": SinkOptions(address="memory://scores", kind="predictions")}
    with served(tmp_path / "sales", {"o": source("orders", "learn")}, sinks) as (model, own):
        until(lambda: own.status()[1].state == "stopped")
        assert "already holds 1 rows" in own.status()[1].error
        assert model.status().ready


# ---------------------------------------------------------------------------- trouble


def test_a_broker_that_is_down_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.service.broker_thread.AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(Broker, "down", True)
    topic("orders").send(sent([row | {"sold": "no"} for row in orders(50)]))
    with served(tmp_path / "sales", {"o": source("orders", "learn")}) as (model, own):
        until(lambda: own.status()[0].state == "reconnecting")
        assert "cannot be reached" in own.status()[0].error
        assert model.status().ready
        monkeypatch.setattr(Broker, "down", False)
        taken(own, 50)
        until(lambda: own.status()[0].state == "running")
        assert len(logged(model)) == 50


def test_a_lag_that_cannot_be_measured_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Broker) -> int | None:
        raise SourceError("memory://orders refuses a second connection")

    monkeypatch.setattr(served_source, "LAG_SECONDS", 0.0)
    monkeypatch.setattr(Broker, "lag", refused)
    topic("orders").send(sent([row | {"sold": "no"} for row in orders(50)]))
    with served(tmp_path / "sales", {"o": source("orders", "learn")}) as (_, own):
        taken(own, 50)
        assert own.status()[0].lag is None
        assert own.status()[0].state == "running"


def test_messages_that_are_gone_stop_the_source_alone(tmp_path: Path) -> None:
    made = topic("orders", 1)
    made.send(sent([row | {"sold": "no"} for row in orders(50)]))
    topic("others", 1).send(sent([row | {"sold": "no"} for row in orders(50)]))
    options = {"o": source("orders", "learn"), "p": source("others", "learn")}
    with served(tmp_path / "sales", options) as (_, own):
        taken(own, 100)
    made.send(sent(orders(50)))
    made.forget(80)
    with served(tmp_path / "sales", options) as (model, own):
        until(lambda: own.status()[0].state == "stopped")
        assert "50 to 80 are gone" in own.status()[0].error
        topic("others").send(sent([row | {"sold": "no"} for row in orders(10)]))
        until(lambda: own.status()[1].rows == 60)
        assert model.status().ready
        families = {one.name: one.values for one in ServiceMetrics()._models([model.status()])}
    up = {labels["name"]: value for labels, value in families["connection_up"]}
    assert up == {"o": 0.0, "p": 1.0}
    assert {labels["name"]: value for labels, value in families["connection_rows_total"]} == {"o": 50.0, "p": 60.0}


def test_a_model_that_is_behind_slows_its_sources_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from driftsurf.errors import OverloadedError

    full, learn = [True], ServedModel.learn

    def learning(self: Any, *given: Any) -> Any:
        if full:
            raise OverloadedError("too many rows wait", retry_after=1.0)
        return learn(self, *given)

    monkeypatch.setattr(ServedModel, "learn", learning)
    topic("orders").send(sent([row | {"sold": "no"} for row in orders(50)]))
    with served(tmp_path / "sales", {"o": source("orders", "learn")}) as (model, own):
        until(lambda: own.status()[0].state == "waiting")
        assert own.status()[0].rows == 0
        full.clear()
        taken(own, 50)
        assert len(logged(model)) == 50


def test_records_are_kept_until_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = {"scores": SinkOptions(address="memory://scores", kind="predictions")}
    keeping = Keeping(
        least_free_bytes=0, checkpoint_seconds=1000.0, segment_bytes=2000, retain_bytes=0, restore_points=2
    )
    monkeypatch.setattr("test_connections.KEEPING", keeping)
    write, down = MemoryTable.write, [True]

    def writing(self: Any, *given: Any) -> None:
        if down:
            raise SourceUnreachableError("memory://scores cannot be reached")
        write(self, *given)

    monkeypatch.setattr(MemoryTable, "write", writing)
    monkeypatch.setattr("driftsurf.service.broker_thread.AGAIN_SECONDS", 0.01)
    topic("orders", 1)
    topic("learned", 1)
    sources = {"o": source("orders", "predict", batch_size=10), "l": source("learned", "learn", batch_size=50)}
    first: list[int] = []
    for part in range(5):
        with served(tmp_path / "sales", sources, sinks) as (model, own):
            topic("learned").send(sent([row | {"sold": "yes" if row["price"] > 0 else "no"} for row in orders(100)]))
            topic("orders").send(sent(orders(100, 100 * part)))
            taken(own, 200 * (part + 1))
            if part == 2:
                down.clear()
            if part >= 2:
                written("memory://scores", 100 * (part + 1))
            first.append(model.log.first)
    assert first[:3] == [0, 0, 0]
    assert first[-1] > 0
    assert [row["id"] for row in MemoryTable.tables["memory://scores"]] == [f"o-{n}" for n in range(500)]


# ---------------------------------------------------------------------------- configuration


def test_a_source_that_became_another_one_is_refused(tmp_path: Path) -> None:
    topic("orders").send(sent([row | {"sold": "no"} for row in orders(5)]))
    topic("others")
    with served(tmp_path / "sales", {"o": source("orders", "learn")}) as (_, own):
        taken(own, 5)
    with served(tmp_path / "sales", {"o": source("others", "learn")}) as (_, own):
        until(lambda: own.status()[0].state == "stopped")
        assert "another name" in own.status()[0].error
    (tmp_path / "sales/sources/o/position.json").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        read_state(tmp_path / "sales/sources/o/position.json", {})


def test_secrets_of_an_address_are_neither_shown_nor_stored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    name = "me:hunter2@orders?sig=hunter2"
    topic(name).send(sent([row | {"sold": "no"} for row in orders(5)]))
    for _ in range(2):  # also after a restart
        sinks = {"s": SinkOptions(address="memory://hunter2@scores?sig=hunter2", kind="predictions")}
        with served(tmp_path / "sales", {"o": source(name, "learn")}, sinks) as (_, own):
            taken(own, 5)
            shown = f"{own.status()} {own.sources[0].title} {own.sinks[0].title}"
            assert "orders" in shown
            assert "hunter2" not in shown
    stored = b"".join(one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    assert b"hunter2" not in stored
    assert "hunter2" not in caplog.text


def test_labels_need_a_column(tmp_path: Path) -> None:
    topic("orders")
    connections = Connections(tmp_path / "sales", {"o": source("orders", "learn")}, {})
    with (
        contextlib.closing(open_model(tmp_path / "sales", ModelSettings(), KEEPING)) as model,
        pytest.raises(OptionError, match="no column of labels"),
    ):
        connections.start(model, ModelFormats("id", ""))
