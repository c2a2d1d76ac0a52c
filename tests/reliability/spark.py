"""Keyed runs on a Spark cluster under kill -9 of the driver and of workers: nothing is lost or duplicated.

Restarts have more and fewer workers, some files come twice, and one key has a bad label. This needs Java and what
``make test-engines`` installs.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.reliability.harness import Outcome

from driftsurf.keyed.folder import KeyedFolder

POISONED = "k03"
COLUMNS = "--key", "key", "--sequence", "at", "--label", "label", "--features", "a,b,c"
OPTIONS = "--classes", "0,1", "--batch-size", "16", "--threshold", "0.2", "--step-size", "0.1", "--quiet"


# ---------------------------------------------------------------------------- the stream and its comparison


def write_stream(folder: Path, *, files: int = 6, rows: int = 600, n_keys: int = 12, seed: int = 0) -> int:
    """Write files of a stream with a drift half-way, some of them twice, gaps, and one bad label; return its rows."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for number in range(files):
        keys = rng.integers(n_keys, size=rows)
        X = rng.normal(size=(rows, 3))
        label = ((X[:, 0] > 0) == ((2 * number < files) ^ (keys % 2 == 0))).astype(np.int64)
        if number == files // 3:
            label[np.flatnonzero(keys == int(POISONED[1:]))[0]] = 7
        X[number::97, 2] = np.nan
        names = [f"k{key:02d}" for key in keys]
        at = number * rows + np.arange(rows)
        table = pa.table({"key": names, "at": at, "label": label, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
        # Spark reads files in the order of their modification times.
        for copy in range(1 + (number % 3 == 1)):
            path = folder / f"{number:03d}-{copy}.parquet"
            parquet.write_table(table, path)
            os.utime(path, (1.7e9 + 10 * number + copy,) * 2)
    return files * rows


def command(source: Path, out: Path, *more: str) -> list[str]:
    """Return the command of a keyed run over such files."""
    base = [sys.executable, "-m", "driftsurf", "run", str(source), "--out", str(out)]
    return [*base, *COLUMNS, *OPTIONS, *more]


def differences(one: KeyedFolder, other: KeyedFolder) -> list[str]:
    """Return how two runs over the same rows differ: in predictions, decisions or final states."""
    found = []
    for name, columns in (
        ("predictions", ["key", "sequence", "prediction", "true"]),
        ("journal", ["key", "sequence", "transitions", "record"]),
    ):
        mine, theirs = ([*zip(*(run.read(name)[c] for c in columns), strict=True)] for run in (one, other))  # type: ignore[arg-type]
        if len(set(mine)) != len(mine):
            found.append(f"{len(mine) - len(set(mine))} duplicate rows of {name}")
        lost, new = set(theirs) - set(mine), set(mine) - set(theirs)
        if lost or new:
            found.append(
                f"{name}: {len(lost)} rows missing, {len(new)} unexpected, such as {sorted(lost | new, key=str)[:1]}"
            )
    mine_keys, their_keys = one.keys(), other.keys()
    for key in sorted(mine_keys.keys() | their_keys.keys()):
        a, b = mine_keys.get(key, {}), their_keys.get(key, {})
        different = [name for name in a.keys() | b.keys() if name != "epoch" and a.get(name) != b.get(name)]
        if different:
            found.append(f"key {key}: {', '.join(sorted(different))}")
    return found


def complete_epochs(out: Path) -> int:
    """Return the number of complete epochs."""
    return len(list((out / "epochs").glob("*.json"))) if out.exists() else 0


def environment() -> dict[str, str]:
    """Return an environment with Spark on loopback and the modules of this process."""
    paths = os.pathsep.join(os.path.abspath(entry or ".") for entry in sys.path)
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}


def start(args: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own, so that its children can be killed with it."""
    with log.open("ab") as file:
        return subprocess.Popen(args, stdout=file, stderr=file, start_new_session=True, env=environment())


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill -9 a process and its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for_epochs(process: subprocess.Popen[bytes], out: Path, epochs: int, delay: float) -> bool:
    """Wait until ``epochs`` more are complete, and ``delay`` seconds longer; return whether the run is still alive."""
    goal = complete_epochs(out) + epochs
    while process.poll() is None and complete_epochs(out) < goal:
        time.sleep(0.02)
    time.sleep(delay)
    return process.poll() is None


# ---------------------------------------------------------------------------- a cluster


class Cluster:
    """A master and workers on loopback."""

    def __init__(self, place: Path) -> None:
        import pyspark

        self.place = place
        self.launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        self.master = ""
        self.workers: list[subprocess.Popen[bytes]] = []

    @contextlib.contextmanager
    def up(self, workers: int = 2) -> Iterator[Cluster]:
        """Start the cluster, and stop it at the end of the context."""
        self.place.mkdir(parents=True, exist_ok=True)
        port = _free_port()
        own = [self.launcher, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        master = start([*own, "--port", str(port), "--webui-port", "0"], self.place / "master.log")
        self.master = f"spark://127.0.0.1:{port}"
        try:
            for _ in range(workers):
                self.add()
            yield self
        finally:
            for process in (*self.workers, master):
                kill(process)

    def add(self) -> None:
        """Start one more worker."""
        number = len(self.workers)
        own = [self.launcher, "org.apache.spark.deploy.worker.Worker", self.master, "--host", "127.0.0.1"]
        size = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.place / f"work-{number}")]
        self.workers.append(start([*own, *size], self.place / f"worker-{number}.log"))

    def resize(self, count: int) -> None:
        """Change the number of workers; those that are too many get kill -9."""
        while len(self.workers) > count:
            kill(self.workers.pop())
        while len(self.workers) < count:
            self.add()

    def replace(self, chance: random.Random) -> None:
        """Kill -9 a worker with its executors, and start another one."""
        kill(self.workers.pop(chance.randrange(len(self.workers))))
        self.add()


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
    return port


# ---------------------------------------------------------------------------- the kills


def kills(scale: float, seed: int) -> Outcome:
    """Kill the driver and a worker in turn, 20 times each, and compare with one undisturbed process.

    After each kill of the driver the run resumes with another number of workers.
    """
    outcome = Outcome("kill -9 on a Spark cluster", seed)
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing or shutil.which("java") is None:
        outcome.skipped = f"{', '.join(missing) or 'Java'} is not installed: see make test-reliability-spark"
        return outcome
    chance = random.Random(seed)
    wanted = max(1, round(20 * scale))
    figures: dict[str, Any] = {"driver kills": 0, "worker kills": 0, "runs": 0, "most workers": 2, "fewest": 2}
    sizes = itertools.cycle((1, 3, 2))
    with tempfile.TemporaryDirectory() as place, Cluster(Path(place) / "cluster").up() as cluster:
        source, whole, out = (Path(place) / name for name in ("in", "whole", "run"))
        write_stream(source, files=12, seed=seed)
        subprocess.run(command(source, whole), check=True, stdout=subprocess.DEVNULL, env=environment())
        args = command(
            source, out, "--engine", "spark", "--master", cluster.master, "--partitions", "3", "--epoch", "1"
        )
        while figures["driver kills"] < wanted or figures["worker kills"] < wanted:
            log = Path(place) / "driver.log"
            process = start(args, log)
            while process.poll() is None:
                moment = chance.randint(1, 2), chance.uniform(0.0, 1.5)
                if figures["driver kills"] < min(wanted, figures["worker kills"] + 1):
                    if wait_for_epochs(process, out, *moment):
                        kill(process)
                        cluster.resize(next(sizes))
                        figures["driver kills"] += 1
                        figures["most workers"] = max(figures["most workers"], len(cluster.workers))
                        figures["fewest"] = min(figures["fewest"], len(cluster.workers))
                        process = start(args, log)
                elif figures["worker kills"] < wanted and wait_for_epochs(process, out, *moment):
                    cluster.replace(chance)
                    figures["worker kills"] += 1
                else:
                    process.wait()
            found = differences(KeyedFolder(out), KeyedFolder(whole)) if process.returncode == 0 else ["the run failed"]
            tail = re.sub(r"\s+", " ", log.read_text(errors="replace")[-2000:])
            outcome.check(not found, {"found": found, "log": tail, **figures})
            figures["runs"] += 1
            shutil.rmtree(out, ignore_errors=True)
    outcome.figures = figures
    return outcome
