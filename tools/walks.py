"""Record which modules of ``src/driftsurf`` a batch, a row and a request pass through, once everything is warm.

Run it from the root of the repository::

    python -m tools.walks                  # print every walk, in the order in which its modules are first entered
    python -m tools.walks "csv row"        # print some of them
    python -m tools.walks --check          # fail if a walk has more modules than tools/ceilings.toml allows

A profile hook records every Python function that is entered, in all threads. Functions of the native core are not seen,
nor are the bodies of classes and modules that are loaded while a walk is recorded.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import json
import os
import sys
import tempfile
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from driftsurf.errors import DriftsurfWarning

ROOT = Path(__file__).resolve().parents[1]
SOURCE = str(ROOT / "src" / "driftsurf") + os.sep
CEILINGS = ROOT / "tools" / "ceilings.toml"
LEARNER = "follower"
"""Part of the name of the thread that learns in a served model."""
LONG = 12_000
"""Characters of a text that a file has in each row, so that every step of 100 rows reads a block of the file."""
SECONDS = 60.0
"""Seconds to wait for a served model."""


class Recorder:
    """Context that records the modules whose functions are entered, by any thread, while it is open.

    Threads that began before the first recorder of a process are not seen.
    """

    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        """Modules in the order in which they were entered."""
        self.of_threads: dict[str, dict[str, None]] = {}
        """The same for each thread, by its name."""

    def __enter__(self) -> Recorder:
        HOOK.recorder = self
        return self

    def __exit__(self, *_: object) -> None:
        HOOK.recorder = None

    def enter(self, module: str) -> None:
        """Note that a function of a module is entered."""
        self.modules.setdefault(module)
        self.of_threads.setdefault(threading.current_thread().name, {}).setdefault(module)

    def clear(self) -> None:
        """Forget what was recorded, to begin with the next step."""
        self.modules, self.of_threads = {}, {}


class Hook:
    """The profile hook of all threads, which passes what it sees to the recorder that is open."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.on_enter: dict[str, Callable[[], None]] = {}
        """Called before a function is entered, by its qualified name."""
        self._names: dict[Any, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Record a function that is entered."""
        if event != "call" or self.recorder is None:
            return
        code = frame.f_code
        name = self._names.get(code)
        if name is None:
            name = self._names[code] = module_of(frame)
        if not name:
            return
        if (called := self.on_enter.get(code.co_qualname)) is not None:
            called()
        recorder = self.recorder
        if recorder is not None:
            recorder.enter(name)

    def install(self) -> None:
        """Install the hook in this thread and in those that begin from now on."""
        threading.setprofile(self)
        sys.setprofile(self)

    @staticmethod
    def remove() -> None:
        """Remove the hook from this thread and from those that begin from now on."""
        sys.setprofile(None)
        threading.setprofile(None)


HOOK = Hook()


def module_of(frame: FrameType) -> str:
    """Return the path of a function below ``src/driftsurf``; "" outside, and for the body of a class or a module."""
    code = frame.f_code
    if not code.co_filename.startswith(SOURCE) or code.co_name == "<module>" or not code.co_flags & 2:
        return ""
    return code.co_filename.removeprefix(SOURCE).replace(os.sep, "/")


# ---------------------------------------------------------------------------- walks


def table(rows: int) -> tuple[Any, Any]:
    """Return rows of numbers and integer labels that can be learned, without a drift."""
    draws = np.random.default_rng(1)
    X = draws.normal(size=(rows, 4)).round(3)
    return X, (X @ [1.0, -1.0, 0.5, 0.0] + draws.normal(size=rows) > 0).astype(np.int64)


def batches(make: Callable[[Any, Any], tuple[Any, Any]], **options: Any) -> list[str]:
    """Return the walk of a batch through ``test_then_train`` of an estimator, the 30th of 100 rows."""
    from driftsurf import DriftSurfClassifier

    X, y = table(3_000)
    model: Any = DriftSurfClassifier(random_state=0, **options)
    parts = [make(X[start : start + 100], y[start : start + 100]) for start in range(0, 3_000, 100)]
    for rows, labels in parts[:-1]:
        model.test_then_train(rows, labels)
    with Recorder() as recorder:
        model.test_then_train(*parts[-1])
    return list(recorder.modules)


def as_words(y: Any) -> Any:
    """Return labels as text."""
    return np.where(y > 0, "yes", "no")


def as_frame(X: Any, y: Any) -> tuple[Any, Any]:
    """Return rows as a frame with a column of text."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["city"] = np.where(X[:, 0] > 0, "Rome", "Oslo")
    return frame, y


def write_csv(path: Path, rows: int, note: str = "") -> None:
    """Write a CSV file with numbers, a column of text and labels, and with a column of notes."""
    X, y = table(rows)
    lines = [
        ",".join([*(f"{value}" for value in row), "Rome" if row[0] > 0 else "Oslo", note, label])
        for row, label in zip(X.tolist(), as_words(y).tolist(), strict=True)
    ]
    path.write_text("\n".join(["a,b,c,d,city,note,sold", *lines]) + "\n")


def command(*arguments: str) -> None:
    """Run a command of ``driftsurf`` in this process, without its output."""
    from driftsurf.cli import main

    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            main([*arguments], standalone_mode=False)
        except SystemExit as end:
            if end.code:
                raise


def file_run() -> Iterator[tuple[str, list[str]]]:
    """Yield the walks of ``driftsurf run`` over a CSV file: those of the steps 30 to 39, and of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        path, long = Path(folder, "sales.csv"), Path(folder, "long.csv")
        write_csv(path, 4_000)
        write_csv(long, 4_000, "." * LONG)
        options = ["--label", "sold", "--drop", "note", "--out"]
        command("run", str(path), *options, str(Path(folder, "warm")))
        steps: list[list[str]] = []
        recorder = Recorder()

        def step() -> None:
            steps.append(list(recorder.modules))
            recorder.clear()

        HOOK.on_enter["TraceRecorder.lines"] = step
        with recorder:
            command("run", str(long), *options, str(Path(folder, "row")), "--batch-size", "100")
        HOOK.on_enter.clear()
        yield "csv row", list(dict.fromkeys(name for one in steps[30:40] for name in one))
        with Recorder() as whole:
            command("run", str(path), *options, str(Path(folder, "whole")))
        yield "command", list(whole.modules)


def served_request() -> Iterator[tuple[str, list[str]]]:
    """Yield the walks of a request that learns a row: to its answer, and until the row is learned."""
    from driftsurf.service.config import ModelConfig, ServiceConfig
    from driftsurf.service.serve import Service
    from driftsurf.service.settings import ServedOptions, ServiceOptions

    options = ServedOptions(label="sold", task="binary", model="driftsurf", batch_size=1, columns={"price": "number"})
    with tempfile.TemporaryDirectory() as folder:
        config = ServiceConfig(ServiceOptions(folder=folder, port=0), {"sales": ModelConfig(options)})
        with Service(config) as service:
            thread = threading.Thread(target=service.run, name="server")
            thread.start()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", service.server.port, timeout=SECONDS)
                wait(lambda: is_ready(connection))
                for place in range(50):
                    learn_row(connection, place)
                wait(lambda: learned(connection) == 50)
                with Recorder() as recorder:
                    learn_row(connection, 50)
                    served = {name: list(one) for name, one in recorder.of_threads.items() if LEARNER not in name}
                    answered = list(dict.fromkeys(module for one in served.values() for module in one))
                    time.sleep(1.0)  # asking whether it is learned would be recorded too
                assert learned(connection) == 51
                yield "request answered", answered
                yield "request learned", list(recorder.modules)
            finally:
                service.stop()
                thread.join()


def ask(connection: http.client.HTTPConnection, method: str, path: str, value: object = None) -> tuple[int, Any]:
    """Return the status and the JSON value of an answer."""
    connection.request(method, path, None if value is None else json.dumps(value), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read() or b"null")


def is_ready(connection: http.client.HTTPConnection) -> bool:
    """Return whether the service answers, and answers that it is ready."""
    try:
        return bool(ask(connection, "GET", "/readyz")[0] == 200)
    except OSError:  # it does not listen yet
        connection.close()
        return False


def learn_row(connection: http.client.HTTPConnection, place: int) -> None:
    """Send a row with its label."""
    row = {"price": place % 7, "sold": "yes" if place % 7 > 3 else "no"}
    status, answer = ask(connection, "POST", "/v1/models/sales/learn", {"rows": [row]})
    assert status == 200, answer


def learned(connection: http.client.HTTPConnection) -> int:
    """Return how many steps the model has learned."""
    return int(ask(connection, "GET", "/v1/models/sales")[1]["steps"])


def wait(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "the service does not answer"
        time.sleep(0.05)


def keyed_run() -> Iterator[tuple[str, list[str]]]:
    """Yield the walks of a keyed run: the shortest of the epochs 20 to 39, which only serves rows, and the longest."""
    import driftsurf

    X, y = table(8_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "shops.csv")
        lines = [f"{row % 20},{row // 20},{X[row, 0]},{X[row, 1]},{y[row]}" for row in range(len(X))]
        path.write_text("\n".join(["shop,day,a,b,sold", *lines]) + "\n")
        epochs: list[list[str]] = []
        recorder = Recorder()

        def epoch(*_: object) -> None:
            epochs.append(list(recorder.modules))
            recorder.clear()

        with recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            driftsurf.run(
                path,
                label="sold",
                key="shop",
                sequence="day",
                epoch=200,
                out=Path(folder, "out"),
                share="none",
                on_epoch=epoch,
            )
    steady = epochs[20:40]
    yield "keyed row", min(steady, key=len)
    yield "keyed epoch", max(steady, key=len)


def walks(*wanted: str) -> dict[str, list[str]]:
    """Return the modules of each walk in the order in which they are entered, by the name of the walk."""
    makers: dict[tuple[str, ...], Callable[[], Iterator[tuple[str, list[str]]]]] = {
        ("array", "text labels", "frame"): _estimators,
        ("csv row", "command"): file_run,
        ("request answered", "request learned"): served_request,
        ("keyed row", "keyed epoch"): keyed_run,
    }
    found: dict[str, list[str]] = {}
    warnings.simplefilter("ignore", DriftsurfWarning)  # of steps of one row
    HOOK.install()
    try:
        for names, make in makers.items():
            if not wanted or set(names) & set(wanted):
                found |= make()
    finally:
        HOOK.remove()
    return {name: found[name] for name in found if not wanted or name in wanted}


def _estimators() -> Iterator[tuple[str, list[str]]]:
    yield "array", batches(lambda X, y: (X, y))
    yield "text labels", batches(lambda X, y: (X, as_words(y)))
    yield "frame", batches(as_frame)


def main(arguments: list[str] | None = None) -> int:
    """Print the walks, or check their lengths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("walk", nargs="*", help="names of walks; all without one")
    parser.add_argument("--check", action="store_true", help="fail if a walk is longer than tools/ceilings.toml allows")
    asked = parser.parse_args(arguments)
    found = walks(*asked.walk)
    ceilings = tomllib.loads(CEILINGS.read_text())["walks"] if asked.check else {}
    failed = False
    for name, modules in found.items():
        too_long = asked.check and len(modules) > ceilings[name]
        failed |= too_long
        print(f"{name}: {len(modules)} modules" + (f", more than {ceilings[name]}" if too_long else ""))
        if not asked.check or too_long:
            print("".join(f"  {module}\n" for module in modules))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
