"""A served model: power losses at every moment, and a fault at every file call.

What is found afterwards has every record that was acknowledged, none twice, and the model, the journal and the trace
are byte-identical to those of a model that applied the same log without any disturbance.
"""

from __future__ import annotations

import hashlib
import json
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.reliability.faults import KINDS
from tests.reliability.harness import Outcome
from tests.reliability.power import EXTREMES, KEEP, TEAR, MemoryDisk, WatchedDisk
from tests.reliability.served_log import FaultyMemory, Killed, with_changes

from driftsurf.core.disk import using
from driftsurf.core.state import to_bytes
from driftsurf.data.frames import read_table
from driftsurf.data.log.contract import Log
from driftsurf.data.log.file_log import FileLog
from driftsurf.data.log.records import block_of
from driftsurf.data.tables import Table
from driftsurf.errors import DriftsurfError, OptionError
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.folder import JOURNAL, TRACE
from driftsurf.service.admission import Admission
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.contract import Order, Request
from driftsurf.service.follower import Follower
from driftsurf.service.served_run import JournalFeed
from driftsurf.service.settings import Keeping, ModelSettings
from driftsurf.service.versions import Version

PLACE = Path("/served/model")
SETTINGS = ModelSettings(
    label="sold",
    task="binary",
    model="driftsurf",
    parameters={"max_rows": 60, "reactive_length": 3},
    batch_size=10,
    max_pending=12,
    timeout=40.0,
    columns={"price": "number", "city": "text"},
)
KEEPING = Keeping(
    restore_points=2, segment_bytes=1500, retain_bytes=4000, least_free_bytes=0, journal_bytes=6000, idempotency_keys=5
)
CHALLENGERS: tuple[dict[str, Any], ...] = ({"model": "oblivious"}, {"learner": "svm"}, {})


# ---------------------------------------------------------------------------- a model without threads


class Instance:
    """A served model without threads: what is admitted is applied, saved and dropped when a story says so."""

    def __init__(self, stack: ExitStack, keeping: Keeping, clock: Callable[[], float]) -> None:
        blueprint = Blueprint.of("model", SETTINGS, None)
        self.checkpoints = stack.enter_context(CheckpointFolder(PLACE / "checkpoints", keep=keeping.restore_points))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            saved = self.checkpoints.load()
        known = 0 if saved is None else int(str(saved.state["position"]))
        self.log = stack.enter_context(FileLog(PLACE / "log", segment_bytes=keeping.segment_bytes, known=known))
        self.follower = Follower(blueprint, self.log, self.checkpoints, keeping, JournalFeed())
        stack.callback(self.follower.close)
        self.follower.recover(saved)
        self.recovered = False
        committer: Any = SimpleNamespace(append=lambda payload, term: self.log.add(payload), term=0)
        self.admission = Admission(blueprint, self.log, committer, clock)  # nobody waits here

    def catch_up(self) -> None:
        """Apply the whole log, and from then on admit more."""
        while self.follower.apply():
            pass
        run = self.follower.run
        if not self.recovered:
            at = 0.0 if run is None else run.replayed.joiner.time
            self.admission.begin(
                self.follower.columns, self.follower.task, self.follower.targets, self.follower.keys, at,
                position=self.follower.position, rows=0,
            )  # fmt: skip
            self.recovered = True

    def version(self) -> Version:
        """Return the newest version."""
        run = self.follower.run
        return (
            Version() if run is None else Version((), "binary", (), run.replayed.encoder, run.session, run.session.now)
        )

    def digest(self) -> str:
        """Return a digest of everything that follows from the log."""
        return digest(self.follower)


@contextmanager
def opened(clock: Callable[[], float], keeping: Keeping = KEEPING) -> Iterator[Instance]:
    """Open the model on the disk in use; it is left as a crash leaves it if an exception comes."""
    with ExitStack() as stack:
        yield Instance(stack, keeping, clock)


def digest(follower: Follower) -> str:
    """Return a digest of models, journal, trace, waiting rows and keys; nothing of how they are stored."""
    run = follower.run
    if run is None:
        return f"nothing after {follower.log.next}"
    joiner, sha = run.replayed.joiner, hashlib.sha256()
    for name, model in run.models.items():
        sha.update(name.encode() + to_bytes(model.state()))
    plain = {
        "pinned": run.pinned,
        "waiting": list(joiner.labels.waiting),
        "early": list(joiner.labels.early.items()),
        "done": list(joiner.labels.learned.items()),
        "in step": [code for _, code, _ in joiner._step],
        "counts": joiner.labels.counts,
        "time": joiner.time,
        "labels": list(joiner.targets.labels),
        "keys": [[key, one.position] for key, one in run.replayed.keys._known.items()],
        "challengers": {name: [one.options, one.failed] for name, one in run.replayed.challengers.items()},
        "errors": [run.replayed.errors.last, run.replayed.errors.rows, run.replayed.errors.total],
        "contest": list(run.replayed.contest._steps),
        "numbering": run._numbering.to_json(),
    }
    sha.update(json.dumps(plain, sort_keys=True).encode())
    for name in (JOURNAL, TRACE):
        sha.update(run.text(name).encode())
    return sha.hexdigest()


def undisturbed(
    payloads: Sequence[bytes],
    *,
    every: bool = True,
    keys: int = KEEPING.idempotency_keys,
    journal: list[str] | None = None,
) -> tuple[list[str], list[int]]:
    """Apply records one by one, without a crash; return the digest after each number of them, and the version.

    Without ``every``, only the last digest is computed. No checkpoint is saved but the first.
    """
    keeping = Keeping(least_free_bytes=0, checkpoint_seconds=1e9, idempotency_keys=keys)
    digests, versions = list[str](), list[int]()
    with using(MemoryDisk()), opened(lambda: 0.0, keeping) as model:
        follower = model.follower

        def note() -> None:
            while follower.apply(1):
                pass
            if every or model.log.next == len(payloads):
                digests.append(model.digest())
                versions.append(model.version().version)

        note()
        for payload in payloads:
            model.log.add(payload)
            note()
        if journal is not None and follower.run is not None:
            journal += follower.run.text(JOURNAL).splitlines()
    return digests, versions


# ---------------------------------------------------------------------------- stories


@dataclass
class Told:
    """What callers were told."""

    tried: list[bytes] = field(default_factory=list)
    """Records that were appended, and the one under way when the process ended."""
    durable: int = 0

    def watch(self, log: FileLog) -> None:
        """Note what is appended to a log."""
        append = log.add

        def watched(payload: bytes) -> int:
            del self.tried[log.next :]
            self.tried.append(payload)
            number = append(payload)
            assert number == len(self.tried) - 1
            return number

        log.add = watched  # type: ignore[method-assign]


def rows_of(chance: random.Random, size: int) -> tuple[Table, list[str]]:
    """Return rows and their true labels."""
    prices = [chance.gauss(0, 1) for _ in range(size)]
    cities = [chance.choice(("Rome", "Oslo", "Zürich")) for _ in range(size)]
    labels = ["yes" if price + 0.3 * (city == "Rome") > 0 else "no" for price, city in zip(prices, cities, strict=True)]
    return read_table({"price": np.array(prices), "city": np.array(cities, object)}), labels


class Teller:
    """Does to a model what a service does: rows, labels, orders, repeated requests, steps, checkpoints, drops."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.time = 0.0
        self.ids = count()
        self.open: dict[str, str] = {}
        """True labels of rows that were predicted."""
        """For each order to learn the log: the first record that it needs."""

    def clock(self) -> float:
        """Return a time that goes on by itself."""
        self.time += self.chance.random()
        return self.time

    def act(self, model: Instance) -> None:
        """Do one thing."""
        chance, admission = self.chance, model.admission
        match chance.choices(range(8), (6, 5, 5, 3, 3, 2, 4, 1))[0]:
            case 0:
                table, labels = rows_of(chance, size := chance.randrange(1, 5))
                ids = [f"i{next(self.ids)}" for _ in range(size)]
                answer = model.version().answer(table)
                self._predict(model, table, ids, answer)
                self.open |= dict(zip(ids, labels, strict=True))
            case 1 if self.open:
                known = chance.sample(list(self.open), chance.randrange(1, 1 + min(5, len(self.open))))
                given = {id: self.open[id] for id in known}
                if chance.random() < 0.2:  # a label that comes before its row
                    given[f"i{next(self.ids)}"] = "yes"
                admission.label(given, self._request(given))
                if chance.random() < 0.9:
                    self.open = {id: label for id, label in self.open.items() if id not in known}
            case 2:
                table, labels = rows_of(chance, chance.randrange(1, 15))
                admission.learn(table, labels, self._request(labels))
            case 3:
                model.follower.apply(chance.choice((1, 200, 2**20)))
            case 4:
                model.log.commit()
            case 5:
                self._order(model)
            case 6:
                if model.follower.checkpoint():
                    model.follower.drop_old_records()
            case 7:
                admission.tick()

    def _request(self, body: Any) -> Request:
        if self.chance.random() < 0.7:
            return Request()
        key = f"k{self.chance.randrange(40)}"
        return Request(key + hashlib.sha256(repr(body).encode()).hexdigest(), hashlib.sha256(key.encode()).digest())

    def _predict(self, model: Instance, table: Table, ids: list[str], answer: Any) -> None:
        columns = model.admission.columns
        model.admission.rows_with_ids(
            block_of(table, columns), ids, answer.version, answer.labels, self._request(ids), 0
        )

    def _order(self, model: Instance) -> None:
        chance, run = self.chance, model.follower.run
        kind = chance.choice(("pin", "unpin", "reset", "rollback", "promote", "warm", "challenge", "dismiss"))
        to, state = None, b""
        if kind == "rollback":
            points = [] if run is None else run.replayed.points
            if run is None or not points:
                return
            to = chance.choice(points).position
            try:
                state = run.state_at(to)
            except OptionError:  # damaged by a power loss
                return
        name = chance.choice("ab") if kind in ("promote", "warm", "challenge", "dismiss") else ""
        options = chance.choice(CHALLENGERS) if kind == "challenge" else {}
        with model.follower.keeping_records() as keep:
            logged = keep if kind in ("rollback", "warm") else lambda admitted: None
            model.admission.order(Order(kind, name, to, options), Request(), logged, state=state)  # type: ignore[arg-type]


def _save_sometimes(follower: Follower, chance: random.Random) -> None:
    """Save a checkpoint half of the times."""
    if chance.random() < 0.5:
        follower.checkpoint()


def tell(
    told: Told,
    chance: random.Random,
    actions: int,
    disk: WatchedDisk | None = None,
    pauses: random.Random | None = None,
) -> None:
    """Open a model, use it and close it, twice; note in ``told`` what was promised.

    With ``pauses``, checkpoints are also saved between the time steps of records.
    """
    teller = Teller(chance)
    for _ in range(2):
        with opened(teller.clock) as model:
            if pauses is not None:
                model.follower.on_pause = partial(_save_sometimes, model.follower, pauses)
            told.watch(model.log)
            model.catch_up()
            for _ in range(actions):
                teller.act(model)
                told.durable = max(told.durable, model.log.durable)
                if disk is not None:
                    disk.finished = told.durable
            model.catch_up()
            model.follower.checkpoint()
        told.durable = len(told.tried)
        if disk is not None:
            disk.finished = told.durable


# ---------------------------------------------------------------------------- what is found afterwards


def found(told: Told, digests: Sequence[str], *, power: bool, whole: bool) -> str:
    """Open the model on the disk in use; return what is wrong with it, or "".

    With ``whole`` the rest of the log is applied and compared with an undisturbed model; otherwise only the records.
    """
    least = told.durable if power else 0
    try:
        with opened(lambda: 0.0) as model:
            log = model.log
            payloads = [payload for _, payload in all_records(log)]
            if log.next < least:
                return f"{least} records were promised, {log.next} are there"
            if payloads != told.tried[log.first : log.next]:
                return "the records are not those that were written"
            if not whole:
                return ""
            model.catch_up()
            return "" if model.digest() == digests[log.next] else f"another model after {log.next} records"
    except (OSError, DriftsurfError) as error:
        return f"{type(error).__name__}: {error}"


def all_records(log: Log) -> list[tuple[int, bytes]]:
    """Return the records of a log with their numbers."""
    records: list[tuple[int, bytes]] = []
    while part := log.read(log.first + len(records)):
        records += part
    return records


def states(scale: float, seed: int, count: int | None = None, whole: int = 20, actions: int = 45) -> Outcome:
    """Lose power at every moment of many stories; one state in ``whole`` is applied to its end and compared."""
    outcome = Outcome("power loss of a served model", seed)
    wanted = round(100_000 * scale) if count is None else count
    chance = random.Random(seed)
    while outcome.tried < wanted:
        disk, told, own = WatchedDisk(), Told(), chance.randrange(2**32)
        with using(disk):
            tell(told, random.Random(own), actions, disk, random.Random(own))
        digests, _ = undisturbed(told.tried)
        outcome.count("stories")
        outcome.count("records", len(told.tried))
        for keep, tear in (*EXTREMES, *((chance.choice(KEEP), chance.choice(TEAR)) for _ in range(4))):
            for moment, (durable, copy) in enumerate(disk.copies):
                if outcome.tried >= wanted:
                    break
                applied = chance.randrange(whole) == 0
                outcome.count("compared with an undisturbed model", int(applied))
                with using(copy.after_power_loss(chance, keep, tear)):
                    wrong = found(Told(told.tried, durable), digests, power=True, whole=applied)
                case = {"story": own, "moment": moment, "keep": keep, "tear": tear, "wrong": wrong}
                outcome.check(not wrong, case)
    return outcome


def file_calls(scale: float, seed: int, stride: int = 1, actions: int = 12) -> Outcome:
    """Let every file call of a story fail, once and for good; open the model again, at once and after power losses."""
    outcome = Outcome("a fault at every file call of a served model", seed)
    counting, whole = FaultyMemory(), Told()
    with using(counting):
        tell(whole, random.Random(seed), actions, pauses=random.Random(seed))
    outcome.figures = {"file calls": counting.calls}
    chance = random.Random(seed)
    for kind, lasting in product(KINDS, (False, True)):
        for at in range(0, counting.calls, stride):
            told, disk, ended = Told(), FaultyMemory(at, kind, lasting=lasting), "whole"
            with using(disk):
                try:
                    tell(told, random.Random(seed), actions, pauses=random.Random(seed))
                except (OSError, DriftsurfError, Killed) as error:
                    ended = type(error).__name__
            outcome.count(f"ended {ended}")
            digests, _ = undisturbed(told.tried)
            for power, state in (
                (False, disk.frozen()),
                (True, disk.after_power_loss(chance, chance.choice(KEEP), 0.3)),
            ):
                with using(state):
                    wrong = found(told, digests, power=power, whole=True)
                case = {"at": at, "kind": kind, "lasting": lasting, "ended": ended, "power": power, "wrong": wrong}
                outcome.check(not wrong, case)
    return outcome


def fuzzed(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Open models whose log files were changed, some with right checksums: each is refused, or applies what is left."""
    outcome = Outcome("fuzzed log of a served model", seed)
    chance = random.Random(seed)
    for trial in range(round(20_000 * scale) if count is None else count):
        if trial % 200 == 0:
            disk = MemoryDisk()
            with using(disk):
                tell(Told(), random.Random(chance.randrange(2**32)), 45)
        changed = with_changes(disk, chance)
        with using(changed):
            try:
                with opened(lambda: 0.0) as model:
                    model.catch_up()
                ended = "read"
            except DriftsurfError:
                ended = "refused"
            except Exception as error:  # any other error is a finding
                ended = f"{type(error).__name__}: {error}"
        outcome.count(ended if ended in ("read", "refused") else "crashed")
        outcome.check(ended in ("read", "refused"), {"trial": trial, "ended": ended})
    return outcome
