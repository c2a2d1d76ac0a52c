"""Faults at every file call, once or permanently: EIO, ENOSPC, a short write, a kill; and a disk that fills up."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import signal
import tempfile
import warnings
from itertools import product
from pathlib import Path
from typing import Any, Literal

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.reliability.harness import Outcome
from tests.reliability.workload import Workload, state_digest

from driftsurf import DriftSurfClassifier
from driftsurf.core.disk import Disk, using
from driftsurf.errors import DriftsurfError
from driftsurf.learners import LinearSVM, SoftmaxRegression
from driftsurf.learners.foreign import SklearnLearner, TorchLearner
from driftsurf.runs.checkpoint import CheckpointFolder

Kind = Literal["EIO", "ENOSPC", "short", "kill"]
KINDS: tuple[Kind, ...] = "EIO", "ENOSPC", "short", "kill"
CALLS = tuple(name for name in vars(Disk) if not name.startswith("_") and name != "unlock")


class FaultyDisk(Disk):
    """The real disk, on which call number ``at`` fails, and with ``lasting`` all later ones; counts its calls."""

    def __init__(self, at: int = -1, kind: Kind = "EIO", *, lasting: bool = False) -> None:
        self.at = at
        self.kind = kind
        self.lasting = lasting
        self.calls = 0
        self.hit = False

    def __getattribute__(self, name: str) -> Any:
        method = super().__getattribute__(name)
        if name not in CALLS:
            return method

        def call(*arguments: Any) -> Any:
            now = self.calls == self.at or (self.lasting and 0 <= self.at < self.calls)
            self.calls += 1
            if not now:
                return method(*arguments)
            self.hit = True
            if self.kind == "kill":
                self.kill(name, arguments)
            if self.kind == "short":
                if name not in ("write", "write_at"):
                    return method(*arguments)
                handle, data, *place = arguments
                return method(handle, data[: max(1, len(data) // 3)], *place)
            self.failed(name, arguments)
            raise OSError(getattr(errno, self.kind), f"injected fault: {name}")

        return call

    def kill(self, name: str, arguments: tuple[Any, ...]) -> None:
        """End the process before a call."""
        os.kill(os.getpid(), signal.SIGKILL)

    def failed(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Do what a call does although it fails: a handle is closed whatever ``close`` reports."""
        if name == "close":
            super().close(*arguments)


class FullDisk(Disk):
    """The real disk with room for ``room`` more bytes; the write that fills it is cut short."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, handle: int, data: bytes | memoryview) -> int:
        """Write as much as fits."""
        return self._taken(super().write(handle, data[: self._left()]))

    def write_at(self, handle: int, data: bytes | memoryview, place: int) -> int:
        """Write as much as fits, at a place."""
        return self._taken(super().write_at(handle, data[: self._left()], place))

    def _left(self) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "injected fault: disk full")
        return self.room

    def _taken(self, written: int) -> int:
        self.room -= written
        return written


def _quietly_finish(work: Workload, path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work.finish(path)


def _attempt(work: Workload, path: Path, disk: Disk, *, fork: bool) -> str:
    """Run the workload on a disk; return "whole", "killed", or the type of a clear error."""
    if fork:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with using(disk):
                    _quietly_finish(work, path)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        return "killed" if os.WIFSIGNALED(status) else "whole" if status == 0 else "error"
    try:
        with using(disk):
            _quietly_finish(work, path)
    except (OSError, DriftsurfError) as error:
        return type(error).__name__
    return "whole"


def file_calls(scale: float, seed: int, work: Workload | None = None, stride: int = 1) -> Outcome:
    """Let every file call of a run fail; the old or the new checkpoint is kept, and the run resumes exactly."""
    outcome = Outcome("a fault at every file call", seed)
    work = Workload(steps=8, rows=15, every=1, max_rows=60, seed=seed) if work is None else work
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        counting = FaultyDisk()
        with using(counting):
            expected, states = work.reference(Path(place) / "reference")
        known = set(states)
        outcome.figures = {"file calls": counting.calls}
        for kind in KINDS:
            for lasting in (False, True):
                if kind == "kill" and lasting:
                    continue  # there are no calls after a kill
                for at in range(0, counting.calls, stride):
                    path = Path(place) / f"{kind}-{lasting}-{at}"
                    disk = FaultyDisk(at, kind, lasting=lasting)
                    ended = _attempt(work, path, disk, fork=kind == "kill")
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found = CheckpointFolder(path).load()
                    legal = found is None or state_digest(found.state) in known
                    right = ended == "whole" if kind == "short" else True
                    outcome.count(f"ended {ended}")
                    same = _quietly_finish(work, path) == expected
                    case = {"at": at, "kind": kind, "lasting": lasting, "ended": ended, "legal": legal, "same": same}
                    outcome.check(legal and right and same, case)
                    clear(path)
    return outcome


def learners(scale: float, seed: int, stride: int | None = None) -> Outcome:
    """Let every third file call fail, in runs with each kind of learner that promises an exact state."""
    outcome = Outcome("faults with every kind of exact state", seed)
    templates: dict[str, Any] = {
        "softmax": SoftmaxRegression(),
        "SVM": LinearSVM(),
        "refitted tree": SklearnLearner(DecisionTreeClassifier(max_depth=3)),
        "refitted pipeline": SklearnLearner(make_pipeline(StandardScaler(), LinearSVC())),
    }
    if importlib.util.find_spec("torch") is not None:
        templates["network"] = TorchLearner(_network)
    for name, template in templates.items():
        assert template.capabilities.exact_state
        work = Workload(steps=6, rows=12, every=2, max_rows=30, seed=seed, learner=template)
        one = file_calls(scale, seed, work, max(1, round(3 / max(scale, 0.05))) if stride is None else stride)
        outcome.tried, outcome.failed = outcome.tried + one.tried, outcome.failed + one.failed
        outcome.figures[f"{name}, killed"] = one.figures["ended killed"]
    return outcome


def _network(columns: int, outputs: int) -> Any:
    import torch

    torch.set_num_threads(1)
    return torch.nn.Linear(columns, outputs)


def saving(scale: float, seed: int, stride: int = 1) -> Outcome:
    """Let every file call of ``model.save`` fail; ``load`` then returns the old model or the new one."""
    outcome = Outcome("a fault at every call of save", seed)
    batches = list(Workload(seed=seed).stream.batches(15))
    model = DriftSurfClassifier(random_state=seed)
    for X, y in batches[:6]:
        model.partial_fit(X, y)
    old = model.to_bytes()
    model.partial_fit(*batches[6])
    new = model.to_bytes()
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        path = Path(place) / "models" / "model.state"
        for kind, lasting, there in product(KINDS, (False, True), (False, True)):
            counting = FaultyDisk()
            _prepare(path, old if there else None)
            _save(model, path, counting, fork=False)
            for at in range(0, counting.calls, stride):
                _prepare(path, old if there else None)
                ended = _save(model, path, FaultyDisk(at, kind, lasting=lasting), fork=kind == "kill")
                got = _loaded(path)
                allowed = {old, new} if there else {None, new}
                good = got in allowed and (ended != "whole" or got == new)
                outcome.count(f"ended {ended}")
                outcome.check(good, {"at": at, "kind": kind, "lasting": lasting, "there": there})
    return outcome


def _prepare(path: Path, old: bytes | None) -> None:
    """Create an empty folder, or one with the old model and its backup."""
    clear(path.parent)
    path.parent.mkdir()
    for _ in range(2 if old else 0):
        DriftSurfClassifier.from_bytes(old or b"").save(path)


def _save(model: DriftSurfClassifier, path: Path, disk: Disk, *, fork: bool) -> str:
    if fork:
        child = os.fork()
        if child == 0:
            try:
                with using(disk):
                    model.save(path)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        return "killed" if os.WIFSIGNALED(status) else "whole"
    try:
        with using(disk):
            model.save(path)
    except OSError:
        return "error"
    return "whole"


def _loaded(path: Path) -> bytes | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return DriftSurfClassifier.load(path).to_bytes()
        except FileNotFoundError:
            return None


def full_disk(scale: float, seed: int, steps: int | None = None) -> Outcome:
    """Let the disk fill up at every point of a run: a clear error, and an exact resume once there is room again."""
    outcome = Outcome("disk full", seed)
    work = Workload(steps=12, every=2, seed=seed)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as place:
        expected, _ = work.reference(Path(place) / "reference")
        room = FullDisk(2**40)
        with using(room):
            work.finish(Path(place) / "count")
        total = 2**40 - room.room
        count = round(400 * scale) if steps is None else steps
        outcome.figures = {"bytes of a run": total}
        for trial in range(count):
            path = Path(place) / str(trial)
            ended = _attempt(work, path, FullDisk(trial * total // count), fork=False)
            outcome.count(f"ended {ended}")
            good = ended == "OSError" and _quietly_finish(work, path) == expected
            outcome.check(good, {"room": trial * total // count, "ended": ended})
            clear(path)
    return outcome


def fast_folder() -> str | None:
    """Return a folder in memory, if there is one: kills and faults are the same there, and flushes cost nothing."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def clear(path: Path) -> None:
    """Remove a folder with its content."""
    shutil.rmtree(path, ignore_errors=True)
