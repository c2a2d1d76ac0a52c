"""Runs between brokers and databases: kill -9 of the process that reads and writes, of a broker, or of both.

Each run resumes until it ends. Then its model, journal, trace and bad rows have the bytes of an undisturbed run, and so
have the rows in the destination. A destination that gets rows at least once may hold more: rows that begin again at the
row of the checkpoint from which a process resumed, or, after a kill of the broker itself, at the first row of a batch.

Servers that are killed are private ones. Two never are: the mock broker of librdkafka, which keeps nothing on disk, and
the MQTT broker that is a destination, because mosquitto acknowledges a message long before it is on disk.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import multiprocessing
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.integration.services import private_servers as servers
from tests.integration.services import systems
from tests.integration.services.kills import checkpoints_of, files_of, orders
from tests.reliability.faults import clear, fast_folder
from tests.reliability.harness import ROOT, Outcome

from driftsurf.connectors.sink import ConnectorSink
from driftsurf.data.messages.client import RetryPolicy
from driftsurf.errors import SourceUnreachableError
from driftsurf.runs import run
from driftsurf.runs.predictions import PredictionBatch

ROWS = 2_000
BATCH, EVERY = 50, 3
"""Rows of a batch, and batches from one checkpoint to the next."""
BAD = b"{", b"\x00\xff", b"[" * 9_000
KILLS = 5
"""Kills of one run at most."""
LONGEST = 300.0
"""Seconds after which a run that is not disturbed any more hangs."""
GAVE_UP = 3
"""Exit code of a run that could not reach a broker for as long as a run tries."""
PATIENT = RetryPolicy("", ()).seconds
"""How long a run tries. A broker that takes longer to start, on a busy machine, ends the run, which has to resume."""
DECLARED = 3.0
"""Seconds for which a new queue is left alone: a node of RabbitMQ that is killed sooner forgets the queue."""
SYSTEMS: dict[str, tuple[type[systems.System], type[servers.PrivateServer] | None]] = {
    "kafka": (systems.Kafka, None),
    "redis": (systems.Redis, servers.RedisServer),
    "nats": (systems.Nats, servers.NatsServer),
    "postgresql": (systems.Postgres, servers.PostgresServer),
    "rabbitmq-stream": (systems.RabbitStream, servers.RabbitServer),
    "rabbitmq-queue": (systems.RabbitQueue, servers.RabbitServer),
    "mqtt": (systems.Mqtt, servers.MqttServer),
}
"""How each system is used, and the server that is killed."""

Result = TypeVar("Result")
fork = multiprocessing.get_context("fork")


# ---------------------------------------------------------------------------- processes


def _apart(act: Callable[[], Result]) -> Result:
    """Return what a function returns in a child process.

    Clients have threads, and a process with threads cannot be forked safely: so this one never uses a client.
    """
    here, there = fork.Pipe()

    def child() -> None:
        try:
            there.send((act(), ""))
        except BaseException:
            there.send((None, traceback.format_exc()))

    process = fork.Process(target=child)
    process.start()
    there.close()
    result, error = here.recv()
    process.join()
    if error:
        raise RuntimeError(error)
    found: Result = result
    return found


def _mock_broker(channel: Connection) -> None:
    """Run the mock broker of librdkafka until the channel is closed."""
    system = systems.Kafka()
    channel.send(int(system.broker.servers.rpartition(":")[2]))
    with contextlib.suppress(EOFError):
        channel.recv()


def _learn(source: str, sink: str, folder: Path) -> None:
    run(
        source,
        label="sold",
        model="driftsurf",
        batch_size=BATCH,
        every=EVERY,
        on_bad_row="skip",
        predictions=sink,
        checkpoint=folder,
        resume=True,
    )


def _run(source: str, sink: str, folder: Path) -> None:
    """Run or resume in this process, and note in a file where the destination begins again."""
    logging.disable()  # servers that cannot be reached are no news here
    notes = folder.with_suffix(".notes").open("a", buffering=1)
    resume, take = ConnectorSink.resume, ConnectorSink.take

    def resumed(self: ConnectorSink, row: int) -> int:
        print("resume", row, file=notes)
        return resume(self, row)

    def taken(self: ConnectorSink, predictions: PredictionBatch) -> None:
        print("take", predictions.first_row, file=notes)
        take(self, predictions)

    ConnectorSink.resume, ConnectorSink.take = resumed, taken  # type: ignore[method-assign]
    try:
        _learn(source, sink, folder)
    except BaseException as error:
        folder.with_suffix(".error").write_text(traceback.format_exc())
        raise SystemExit(GAVE_UP if isinstance(error, SourceUnreachableError) else 1) from None


def _started(source: str, sink: str, folder: Path) -> BaseProcess:
    process = fork.Process(target=_run, args=(source, sink, folder))
    process.start()
    return process


def _finished(source: str, sink: str, folder: Path) -> str:
    """Run to the end; return why that failed, or ""."""
    process = _started(source, sink, folder)
    process.join(LONGEST)
    if process.exitcode is None:
        process.kill()
        process.join()
        return f"the run did not end within {LONGEST:g} s"
    return _error(folder) if process.exitcode else ""


def _error(folder: Path) -> str:
    place = folder.with_suffix(".error")
    return place.read_text() if place.exists() else "the process ended without an error"


# ---------------------------------------------------------------------------- servers


@dataclass
class Servers:
    """The private servers of a proof, which are started when they are needed first."""

    folder: Path
    _running: dict[str, servers.PrivateServer] = field(default_factory=dict)
    _kafka: tuple[int, Connection] | None = None

    def server(self, name: str, *, source: bool) -> servers.PrivateServer | None:
        """Return the server of a system; a source and a destination of MQTT have one each, other systems have one."""
        kind = SYSTEMS[name][1]
        if kind is None:
            return None
        key = f"{kind.__name__}{'-sink' * (name == 'mqtt' and not source)}"
        if key not in self._running:
            folder = self.folder / key
            folder.mkdir(exist_ok=True)  # a system that is not installed is asked for again
            # The system keeps what a killed process has written, so that nothing has to be flushed to the disk.
            self._running[key] = kind(folder, "-c fsync=off" if kind is servers.PostgresServer else "")
        return self._running[key]

    def port(self, name: str, *, source: bool) -> int:
        """Return where a system listens."""
        server = self.server(name, source=source)
        if server is not None:
            return server.port
        if self._kafka is None:
            here, there = fork.Pipe()
            fork.Process(target=_mock_broker, args=(there,), daemon=True).start()
            there.close()
            self._kafka = here.recv(), here
        return self._kafka[0]

    def close(self) -> None:
        """Kill all servers."""
        for server in self._running.values():
            server.close()


@dataclass
class Side:
    """A system in a role, used from child processes."""

    name: str
    port: int
    server: servers.PrivateServer | None
    """The server, if it may be killed."""

    @property
    def kind(self) -> type[systems.System]:
        """How the system is used."""
        return SYSTEMS[self.name][0]

    def ask(self, act: Callable[[systems.System], Result]) -> Result:
        """Return what a function returns of the system in a child process."""
        return _apart(lambda: act(self.kind(self.port)))


@dataclass
class Pair:
    """A source that is filled, and a destination."""

    source: Side
    sink: Side
    folder: Path
    name: str
    filled: bool = False
    count: int = 0

    def addresses(self) -> tuple[str, str, str]:
        """Fill the source if it must be; return its address, that of a new destination, and the destination's name."""
        self.count += 1
        rows, sink = f"{self.name}_in", f"{self.name}_{self.count}"
        if not self.filled or self.source.kind.handed_out_once:
            self.source.ask(lambda system: system.send(rows, [*orders(ROWS), *BAD]))
            if isinstance(self.source.server, servers.MqttServer):
                self.source.server.save()
            self.filled = True
        self.sink.ask(lambda system: system.expect(sink))
        if self.sink.kind is systems.RabbitQueue:
            time.sleep(DECLARED)
        reads = self.source.ask(lambda system: system.reads(rows))
        return reads, self.sink.ask(lambda system: system.writes(sink)), sink


# ---------------------------------------------------------------------------- kills


def _moment(folder: Path, process: BaseProcess, usual: float, chance: random.Random) -> bool:
    """Wait for a random moment, or for one soon after a checkpoint; return whether the process still runs."""
    if chance.random() < 0.5:
        process.join(chance.uniform(0.0, 0.6 * usual))
    else:
        known, late = checkpoints_of(folder), chance.uniform(0.0, 0.15)
        while process.is_alive() and not checkpoints_of(folder) - known:
            time.sleep(0.005)
        process.join(late)
    return process.is_alive()


def _restart(server: servers.PrivateServer, chance: random.Random) -> float:
    """Start a server that was killed; return the seconds until it takes connections."""
    began = time.monotonic()
    time.sleep(chance.uniform(0.0, 0.3))
    server.start()
    return time.monotonic() - began


def _disturbed(
    pair: Pair, where: tuple[str, str, Path], usual: float, chance: random.Random
) -> tuple[list[str], float, str]:
    """Run with kills; return who was killed each time, how long a broker was away, and why the run failed, or ""."""
    source, sink, folder = where
    brokers = [side.server for side in (pair.source, pair.sink) if side.server is not None]
    killed, process, away = list[str](), None, 0.0
    for _ in range(KILLS):
        process = process or _started(source, sink, folder)
        broker = chance.choice(brokers) if brokers else None
        # A node of RabbitMQ takes many seconds to start.
        often = 0.2 if isinstance(broker, servers.RabbitServer) else 0.5
        victim = chance.choice(("broker", "both")) if broker is not None and chance.random() < often else "reader"
        broker = None if victim == "reader" else broker
        if not _moment(folder, process, usual, chance):
            break
        if broker is not None:
            broker.kill()
        if victim != "broker":
            time.sleep(chance.choice((0.0, 0.05)) if broker is not None else 0.0)
            process.kill()
            process.join()
            if process.exitcode != -signal.SIGKILL:
                break
            process = None
        if broker is not None:
            away = max(away, _restart(broker, chance))
        killed.append(victim)
    if process is not None:
        process.join(LONGEST)
        if process.exitcode != 0 and (process.exitcode != GAVE_UP or away < PATIENT):
            process.kill()
            return killed, away, f"{_error(folder)}A broker was away for {away:.0f} s at most"
    for server in brokers:
        if not server.takes_connections():
            server.start()
    return killed, away, _finished(source, sink, folder)


def _wrong(pair: Pair, folder: Path, expected: tuple[dict[str, bytes], list[Any]], found: list[Any], n: int) -> str:
    """Return how a run that was killed differs from an undisturbed one; "" if it does not."""
    files, others = expected[0], files_of(folder)
    different = [name for name in files if files[name] != others.get(name)]
    if different or files.keys() != others.keys():
        return f"other files: {different}"
    if pair.sink.kind.exact:
        return "" if found == expected[1] else f"other rows: {len(found)} instead of {len(expected[1])}"
    return _wrong_repeats(folder, expected[1], found, n)


def _wrong_repeats(folder: Path, rows: list[Any], found: list[Any], broker_kills: int) -> str:
    """Return what is wrong with rows that were written at least once: each repeated part has to begin where it may."""
    if any(row != rows[row["row"]] for row in found):
        return "a row has other values"
    numbers = [row["row"] for row in found]
    if set(numbers) != set(range(len(rows))):
        return f"{len(rows) - len(set(numbers))} rows are missing"
    notes = [line.split() for line in folder.with_suffix(".notes").read_text().splitlines()]
    left = [int(row) for what, row in notes if what == "resume"]
    batches, others = {int(row) for what, row in notes if what == "take"}, 0
    for before, now in itertools.pairwise(numbers):
        if now == before + 1:
            continue
        if now in left:
            left = left[left.index(now) + 1 :]
        elif now in batches and now <= before + 1:
            others += 1
        else:
            return f"row {now} follows row {before}, and no process resumed there"
    return "" if others <= broker_kills else f"{others} parts are repeated, and {broker_kills} brokers were killed"


def killed(scale: float, seed: int, kills: int | None = None) -> Outcome:
    """Kill runs between all pairs of systems, and their brokers; they end like undisturbed runs."""
    outcome = Outcome("kill -9 of runs between brokers, and of brokers", seed)
    wanted = round(500 * scale) if kills is None else kills
    sys.path.append(str(ROOT / "tests" / "support"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server is left behind
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place, contextlib.ExitStack() as stack:
        _warm(Path(place))
        own = Servers(Path(place))
        stack.callback(own.close)
        for number, (source, sink) in enumerate(_pairs(seed, wanted)):
            if outcome.figures.get("kills", 0) >= wanted:
                break
            try:
                _pair(own, source, sink, seed * 1_000 + number, outcome)
            except pytest.skip.Exception as reason:
                outcome.count(f"left out, {reason}")
    if not outcome.tried:
        outcome.skipped = "no broker or database is installed: see tests/integration/services"
    return outcome


def _pairs(seed: int, wanted: int) -> Iterator[tuple[str, str]]:
    """Yield all pairs in an order that is the same for all seeds, beginning where the seed before this one ended."""
    pairs = [(source, sink) for source in SYSTEMS for sink in SYSTEMS]
    random.Random(0).shuffle(pairs)
    first = seed * max(1, wanted // KILLS)
    for number in range(first, first + 100 * len(pairs)):
        yield pairs[number % len(pairs)]


def _warm(place: Path) -> None:
    """Compile and import everything, before processes are forked."""
    rows = place / "warm.jsonl"
    rows.write_bytes(b"\n".join([*orders(600), *BAD]))
    for end in ("jsonl", "sqlite"):
        folder = place / f"warm-{end}"
        _learn(str(rows), str(place / f"warm-predictions.{end}"), folder)


def _pair(own: Servers, source: str, sink: str, seed: int, outcome: Outcome) -> None:
    """Run once undisturbed and once with kills between two systems."""
    chance = random.Random(seed)
    sides = []
    for name, first in ((source, True), (sink, False)):
        server = own.server(name, source=first)
        port = own.port(name, source=first)
        sides.append(Side(name, port, None if name == "mqtt" and not first else server))
    folder = own.folder / f"pair-{seed}"
    folder.mkdir()
    pair = Pair(sides[0], sides[1], folder, f"p{seed}")
    where = pair.addresses()
    began = time.perf_counter()
    wrong = _finished(where[0], where[1], folder / "whole")
    usual = time.perf_counter() - began
    expected = files_of(folder / "whole"), [] if wrong else pair.sink.ask(partial(_held, where[2]))
    victims, away = list[str](), 0.0
    if not wrong:
        where = pair.addresses()
        victims, away, wrong = _disturbed(pair, (where[0], where[1], folder / "killed"), usual, chance)
        brokers = sum(one != "reader" for one in victims)
        if not wrong:
            found = pair.sink.ask(partial(_held, where[2]))
            wrong = _wrong(pair, folder / "killed", expected, found, brokers)
    outcome.count("kills", len(victims))
    for one in sorted(set(victims)):
        outcome.count({"broker": "of a broker", "reader": "of the reader"}.get(one, "of both"), victims.count(one))
    outcome.count(f"{source} to {sink}", len(victims))
    outcome.figures["longest start of a broker, s"] = max(
        away, outcome.figures.get("longest start of a broker, s", 0.0)
    )
    case = {"pair": [source, sink], "seed of the pair": seed, "victims": victims, "wrong": wrong}
    if not outcome.check(not wrong, case):
        print(json.dumps(case, indent=1).replace("\\n", "\n"), file=sys.stderr, flush=True)
    else:
        clear(folder)


def _held(name: str, system: systems.System) -> list[Any]:
    return system.held(name)
