"""Rows per second from brokers: a whole run that learns them beside a loop that only receives and parses them.

``python -m benchmarks.connectors`` fills a stream of each system that runs on this machine with the same messages (JSON
objects with five numbers, a word and a label), and reads it in turns: with a bare loop of the system's client and
``json.loads``, with the source of driftsurf, and with a run of logistic regression that writes its run folder. Kafka is
the mock broker of librdkafka, in a process of its own. Small runs before the first round compile and import everything.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import machine
from driftsurf.data.source import open_source
from driftsurf.runs import run

NAME = f"driftsurf_bench_{os.getpid()}"
POSTGRESQL = "postgresql://postgres@127.0.0.1/test"
BATCH_ROWS = 1_000
SMALL = 3_000
"""Rows of the runs that are not timed."""


@dataclass(frozen=True)
class System:
    """A stream that holds all rows."""

    url: str
    bare: Callable[[int], int]
    """Receives and parses a number of messages with the client alone."""


def messages(rows: int) -> list[bytes]:
    """Return rows as JSON."""
    rng = np.random.default_rng(0)
    numbers, words = rng.normal(size=(rows, 5)).round(4), rng.integers(0, 20, rows)
    labels = numbers[:, 0] - numbers[:, 1] + rng.normal(size=rows) > 0
    return [
        json.dumps({**{f"x{k}": x for k, x in enumerate(row)}, "city": f"city {word}", "label": bool(label)}).encode()
        for row, word, label in zip(numbers.tolist(), words.tolist(), labels.tolist(), strict=True)
    ]


# ---------------------------------------------------------------------------- systems


def _mock_broker(channel: Connection, rows: list[bytes]) -> None:
    """Fill a topic of a mock broker, tell where it is, and live until the channel is closed."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=30).brokers.values()))
    for place, row in enumerate(rows):
        producer.produce("bench", row, partition=place % 4)
        if place % 10_000 == 0:
            producer.flush()
    producer.flush()
    channel.send(f"{broker.host}:{broker.port}")
    with contextlib.suppress(EOFError):
        channel.recv()


@contextlib.contextmanager
def kafka(rows: list[bytes]) -> Iterator[System]:
    """Yield a topic of librdkafka's mock broker."""
    from confluent_kafka import Consumer, TopicPartition

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_mock_broker, args=(there, rows), daemon=True)
    process.start()
    servers = here.recv()

    def bare(count: int) -> int:
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False})
        consumer.assign([TopicPartition("bench", number, 0) for number in range(4)])
        done = 0
        while done < count:
            for message in consumer.consume(BATCH_ROWS, 0.1):
                json.loads(message.value())
                done += 1
        consumer.close()
        return done

    yield System(f"kafka://{servers}/bench", bare)
    here.close()
    process.terminate()
    process.join()


@contextlib.contextmanager
def redis(rows: list[bytes]) -> Iterator[System]:
    """Yield a stream of the Redis server of this machine."""
    import redis as library

    client: Any = library.Redis()
    for start in range(0, len(rows), 10_000):
        pipeline = client.pipeline(transaction=False)
        for row in rows[start : start + 10_000]:
            pipeline.xadd(NAME, {"value": row})
        pipeline.execute()

    def bare(count: int) -> int:
        last, done = b"0", 0
        while done < count:
            [(_, found)] = client.xread({NAME: last}, count=BATCH_ROWS)
            for _, fields in found:
                json.loads(fields[b"value"])
            last, done = found[-1][0], done + len(found)
        return done

    try:
        yield System(f"redis://localhost/0/{NAME}", bare)
    finally:
        client.delete(NAME)


@contextlib.contextmanager
def nats(rows: list[bytes]) -> Iterator[System]:
    """Yield a stream of the NATS server of this machine."""
    import nats as library
    from nats.js.api import AckPolicy, ConsumerConfig

    async def fill() -> None:
        client = await library.connect()
        await client.jetstream().add_stream(name=NAME, subjects=[NAME])
        for place, row in enumerate(rows):
            await client.publish(NAME, row)
            if place % 1_000 == 0:
                await client.flush()
        await client.flush()
        while (await client.jetstream().stream_info(NAME)).state.messages < len(rows):
            await asyncio.sleep(0.1)
        await client.close()

    async def receive(count: int) -> int:
        client = await library.connect()
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        reader = await client.jetstream().pull_subscribe("", stream=NAME, config=config)
        done = 0
        while done < count:
            for message in await reader.fetch(BATCH_ROWS):
                json.loads(message.data)
                done += 1
        await client.close()
        return done

    async def remove() -> None:
        client = await library.connect()
        await client.jetstream().delete_stream(NAME)
        await client.close()

    asyncio.run(fill())
    try:
        yield System(f"nats://127.0.0.1:4222/{NAME}", lambda count: asyncio.run(receive(count)))
    finally:
        asyncio.run(remove())


@contextlib.contextmanager
def _table(columns: str, filled: str, rows: Iterable[Sequence[Any]]) -> Iterator[Any]:
    """Yield a client of the PostgreSQL server of this machine, with a table that holds rows."""
    import psycopg

    with psycopg.connect(POSTGRESQL, autocommit=True) as client:
        client.execute(f"create table {NAME} (id bigint generated always as identity primary key, {columns})")
        try:
            with client.cursor().copy(f"copy {NAME} ({filled}) from stdin") as copy:
                for row in rows:
                    copy.write_row(row)
            client.execute(f"vacuum analyze {NAME}")
            yield client
        finally:
            client.execute(f"drop table {NAME}")


def _selected(client: Any, columns: str, count: int, use: Callable[[tuple[Any, ...]], Any] | None) -> int:
    """Fetch rows in the order of their ids from a cursor of the server, and use each."""
    done = 0
    with client.transaction(), client.cursor("bare") as cursor:
        cursor.execute(f"select {columns} from {NAME} order by id", binary=True)
        while done < count and (found := cursor.fetchmany(BATCH_ROWS)):
            if use is not None:
                for row in found:
                    use(row)
            done += len(found)
    return done


@contextlib.contextmanager
def postgresql(rows: list[bytes]) -> Iterator[System]:
    """Yield a table of the PostgreSQL server of this machine, with the messages in a column."""
    with _table("body bytea", "body", ([row] for row in rows)) as client:
        yield System(
            f"{POSTGRESQL}/{NAME}?value=body",
            lambda count: _selected(client, "body", count, lambda row: json.loads(row[0])),
        )


@contextlib.contextmanager
def postgresql_columns(rows: list[bytes]) -> Iterator[System]:
    """Yield a table with a column for each value; the bare loop fetches values that the client has parsed."""
    names = [*(f"x{k}" for k in range(5)), "city", "label"]
    columns = ", ".join([*(f"x{k} double precision" for k in range(5)), "city text", "label boolean"])
    with _table(columns, ", ".join(names), (list(json.loads(row).values()) for row in rows)) as client:
        yield System(f"{POSTGRESQL}/{NAME}", lambda count: _selected(client, "*", count, None))


SYSTEMS = {
    "kafka": kafka,
    "redis": redis,
    "nats": nats,
    "postgresql": postgresql,
    "postgresql-columns": postgresql_columns,
}


# ---------------------------------------------------------------------------- contenders


def tables(system: System, rows: int) -> int:
    """Read a number of rows as tables."""
    done = 0
    for table, _ in open_source(system.url, batch_size=BATCH_ROWS).tables():
        done += len(table)
        if done >= rows:
            break
    return done


def whole(system: System, rows: int) -> int:
    """Run logistic regression over a number of rows."""
    with tempfile.TemporaryDirectory() as folder:
        trace = run(
            system.url, label="label", learner="logistic", rows=rows, batch_size=BATCH_ROWS, out=Path(folder) / "out"
        ).trace
    return int(trace.columns["rows"].sum())


CONTENDERS: dict[str, Callable[[System, int], int]] = {
    "bare loop": lambda system, rows: system.bare(rows),
    "source": tables,
    "whole run": whole,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.connectors", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="system", help=f"all if not given: {', '.join(SYSTEMS)}")
    parser.add_argument(
        "--rows", type=int, default=150_000, help="150,000 if not given, which the mock broker can keep"
    )
    parser.add_argument("--rounds", type=int, default=5, help="5 if not given")
    options = parser.parse_args()
    rows = messages(options.rows)
    print(f"{machine()['cpu']}, {options.rows:,} rows of {len(rows[0])} bytes, {options.rounds} rounds\n")
    print("| system | contender | rows/s | of the bare loop | CPU µs/row |\n|---|---|---:|---:|---:|")
    for name in options.systems or SYSTEMS:
        try:
            with SYSTEMS[name](rows) as system:
                report(name, measure(system, options.rows, options.rounds), options.rows)
        except (ImportError, OSError) as error:
            print(f"| {name} | left out: {error} | | | |")


def measure(system: System, rows: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return seconds and CPU seconds of each contender in each round."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in CONTENDERS}
    for one in CONTENDERS.values():
        one(system, SMALL)
    for _ in range(rounds):
        for name, one in CONTENDERS.items():
            wall, cpu = time.perf_counter(), time.process_time()
            done = one(system, rows)
            assert done >= rows
            found[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return found


def report(system: str, found: dict[str, list[tuple[float, float]]], rows: int) -> None:
    """Print medians, and the median of the ratios of each round."""
    bare = next(iter(found.values()))
    for name, times in found.items():
        rate = rows / statistics.median(wall for wall, _ in times)
        share = statistics.median(first / wall for (first, _), (wall, _) in zip(bare, times, strict=True))
        cpu = 1e6 * statistics.median(cpu for _, cpu in times) / rows
        print(f"| {system} | {name} | {rate:,.0f} | {share:.2f} | {cpu:.1f} |", flush=True)


if __name__ == "__main__":
    main()
