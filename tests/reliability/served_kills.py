"""A served model: kill -9 under load.

Afterwards the log has every record that was acknowledged, none twice, and the model and its journal are byte-identical
to those of a model that applied the same log without any disturbance.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from tests.reliability.faults import clear, fast_folder
from tests.reliability.harness import Outcome
from tests.reliability.power import MemoryDisk
from tests.reliability.served_model import CHALLENGERS, SETTINGS, Told, all_records, digest, rows_of, tell, undisturbed

from driftsurf.core.disk import using
from driftsurf.data.log.records import decode
from driftsurf.errors import OptionError
from driftsurf.runs.folder import JOURNAL
from driftsurf.service.contract import Order, Request
from driftsurf.service.model import open_model
from driftsurf.service.settings import Keeping

LOADED = Keeping(
    checkpoint_seconds=0.05, restore_points=3, segment_bytes=20_000, retain_bytes=2**40, least_free_bytes=0
)


def serve(folder: Path, seed: int) -> None:
    """Serve a model under load from several threads, and print a line for everything that is acknowledged."""
    model = open_model(folder, SETTINGS, LOADED)
    model.wait_ready()
    print("ready", flush=True)
    lock = threading.Lock()

    def say(**what: Any) -> None:
        with lock:
            print(json.dumps(what), flush=True)

    def client(number: int) -> None:
        chance, open_rows = random.Random(seed * 100 + number), dict[str, str]()
        for turn in count():
            name = f"{seed}-{number}-{turn}"
            match chance.randrange(6):
                case 0 | 1:
                    table, labels = rows_of(chance, 3)
                    ids = [f"{name}-{place}" for place in range(3)]
                    answer = model.predict(table, ids)
                    say(kind="rows", ids=ids, position=answer.position, version=answer.version)
                    open_rows |= dict(zip(ids, labels, strict=True))
                case 2 | 3 if open_rows:
                    given = {id: open_rows.pop(id) for id in list(open_rows)[:4]}
                    say(kind="labels", ids=list(given), position=model.label(given).result().position)
                case 4:
                    table, labels = rows_of(chance, chance.randrange(1, 20))
                    asked = Request(name, hashlib.sha256(name.encode()).digest())
                    one, two = model.learn(table, labels, asked), model.learn(table, labels, asked)
                    assert one.result().position == two.result().position
                    say(kind="learn", key=name, count=len(labels), position=one.result().position)
                case 5 if chance.random() < 0.1:
                    _random_order(model, chance, say)

    for number in range(4):
        threading.Thread(target=client, args=(number,), daemon=True).start()
    time.sleep(3600)


def _random_order(model: Any, chance: random.Random, say: Callable[..., None]) -> None:
    kind = chance.choice(("pin", "unpin", "reset", "rollback", "promote", "warm", "challenge", "dismiss"))
    points = model.status().restore_points
    to = chance.choice(points).position if kind == "rollback" and points else None
    if kind == "rollback" and to is None:
        return
    name = chance.choice("ab") if kind in ("promote", "warm", "challenge", "dismiss") else ""
    try:
        options = chance.choice(CHALLENGERS) if kind == "challenge" else {}
        receipt = model.order(Order(kind, name, to, options, replace=True)).result()  # type: ignore[arg-type]
    except OptionError:  # the restore point is gone meanwhile
        return
    say(kind="order", order=kind, position=receipt.position, done=receipt.done)


def kills(scale: float, seed: int, count: int | None = None) -> Outcome:
    """Kill a served model under load again and again; at the end everything acknowledged is applied, exactly once."""
    outcome = Outcome("kill -9 of a served model under load", seed)
    wanted = round(1_000 * scale) if count is None else count
    chance = random.Random(seed)
    with using(MemoryDisk()):  # imports everything, before processes are forked
        tell(Told(), random.Random(1), 150)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        for trial in range(max(1, wanted // 10)):
            folder, told = Path(place) / str(trial) / "model", list[dict[str, Any]]()
            for kill in range(min(10, wanted)):
                told += _killed(folder, seed * 1000 + trial * 10 + kill, chance.uniform(0.02, 0.6))
                outcome.count("kills")
            wrong = _wrong_after_kills(folder, told)
            outcome.count("acknowledged", len(told))
            outcome.check(not wrong, {"trial": trial, "wrong": wrong})
            clear(folder.parent)
    return outcome


def _killed(folder: Path, seed: int, seconds: float) -> list[dict[str, Any]]:
    """Serve for a while under load in a child process, kill it, and return what it acknowledged.

    The child is forked from this process, which has no threads.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.dup2(writing, 1)
            sys.stdout = os.fdopen(1, "w")
            serve(folder, seed)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as acknowledged:
        if acknowledged.readline().strip() == "ready":
            time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        lines = acknowledged.read().splitlines()
    os.waitpid(child, 0)
    told = []
    for line in lines:
        try:
            told.append(json.loads(line))
        except ValueError:  # the last line may be torn
            continue
    return told


def _wrong_after_kills(folder: Path, told: Sequence[dict[str, Any]]) -> str:
    """Return what is wrong with a model after kills: a record that is lost or doubled, or another model; or ""."""
    model = open_model(folder, keeping=LOADED)
    try:
        if not model.wait_ready():
            return f"it does not become ready: {model.status().failure}"
        while model.status().applied < model.log.next:  # ready after what a checkpoint may be behind; the rest waits
            time.sleep(0.01)
        payloads = [payload for _, payload in all_records(model.log)]
        records = [decode(payload, model._admission.columns) for payload in payloads]
        for one in told:
            record = records[one["position"]]
            if list(record.ids) != one.get("ids", []) or record.key != one.get("key", ""):
                return f"the record of {one} is another one"
        keys = [record.key for record in records if record.key]
        if len(keys) != len(set(keys)):
            return "a request is in the log twice"
        run = model._follower.run
        after, lines = digest(model._follower), [] if run is None else run.text(JOURNAL).splitlines()
    finally:
        model.close()
    journal: list[str] = []
    digests, _ = undisturbed(payloads, every=False, keys=LOADED.idempotency_keys, journal=journal)
    if after == digests[-1]:
        return ""
    other = next((pair for pair in zip(lines, journal, strict=False) if pair[0] != pair[1]), "in its journal")
    return f"another model than an undisturbed one after {len(payloads)} records, from here on: {other}"
