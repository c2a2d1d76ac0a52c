"""Runs many tasks: in parallel, each once, written down as it is done, so that nothing is done twice."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol, TextIO, TypeVar

import driftsurf
from driftsurf.streams import authors, datasets

__all__ = ["Ledger", "Result", "Task", "data_digest", "run"]


class Result(Protocol):
    """What comes of a task."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        ...


R_co = TypeVar("R_co", bound=Result, covariant=True)
R = TypeVar("R", bound=Result)


class Task(Protocol[R_co]):
    """A frozen dataclass that says all that its result depends on, beside the code and the data."""

    kind: ClassVar[str]

    @property
    def dataset(self) -> str:
        """The stream it reads."""
        ...

    def perform(self) -> R_co:
        """Do it."""
        ...

    @staticmethod
    def decode(values: Mapping[str, Any]) -> R_co:
        """The result that gave ``values`` by ``to_dict``."""
        ...


Done = Callable[[int, int], None]
"""Called with the number of tasks done and of all."""


@dataclass(frozen=True)
class Ledger:
    """The file of finished tasks, one JSON object a line. A line cut short by a crash is passed over.

    A task counts as done only by the same code on the same data: both are part of its key.
    """

    path: Path

    def read(self) -> dict[str, dict[str, Any]]:
        """The results by key."""
        done: dict[str, dict[str, Any]] = {}
        if not self.path.exists():
            return done
        for line in self.path.read_bytes().splitlines():
            try:
                record = json.loads(line)
                done[record["key"]] = record["result"]
            except (ValueError, KeyError, TypeError):
                continue
        return done

    def open(self) -> TextIO:
        """The file, to append to; whatever it ends with, the next record begins a new line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("a", encoding="utf-8")
        if file.tell() > 0:
            file.write("\n")
        return file


def run(
    tasks: Iterable[Task[R]],
    ledger: Ledger,
    *,
    jobs: int = 1,
    on_done: Done | None = None,
    digest: Callable[[str], str] | None = None,
) -> dict[Task[R], R]:
    """The results of these tasks; those that the ledger has are not done again.

    They do not depend on ``jobs``: a task fixes every random number by its own seed. ``digest`` identifies the rows
    of a stream; by default ``data_digest``.
    """
    wanted = dict.fromkeys(tasks)
    identify = data_digest if digest is None else digest
    digests = {name: identify(name) for name in {task.dataset for task in wanted}}
    keys = {task: _key(task, digests[task.dataset]) for task in wanted}
    known = ledger.read()
    done = {task: task.decode(known[key]) for task, key in keys.items() if key in known}
    # By stream, so that a process that has one in memory goes on with it.
    missing = sorted((task for task in wanted if task not in done), key=lambda task: task.dataset)
    report = on_done if on_done is not None else (lambda count, total: None)
    report(len(done), len(wanted))
    with ledger.open() as file:
        for task, result in _performed(missing, jobs):
            done[task] = result
            record = {"key": keys[task], "task": asdict(task), "result": result.to_dict()}  # type: ignore[call-overload]
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
            report(len(done), len(wanted))
        os.fsync(file.fileno())
    return {task: done[task] for task in wanted}  # in this order, whichever came first


def _performed(tasks: list[Task[R]], jobs: int) -> Iterator[tuple[Task[R], R]]:
    """Results as they come. Tasks that differ by their seed alone go together: they share a stream."""
    parcels = [list(group) for _, group in groupby(tasks, key=_but_the_seed)]
    if jobs == 1 or len(parcels) <= 1:
        for parcel in parcels:
            yield from _perform_all(parcel)
        return
    from joblib import Parallel, delayed

    parallel: Any = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    for results in parallel(delayed(_perform_all)(parcel) for parcel in parcels):
        yield from results


def _but_the_seed(task: Task[Any]) -> str:
    fields: dict[str, Any] = asdict(task)  # type: ignore[call-overload]
    fields.pop("seed", None)
    return json.dumps([task.kind, fields])


def _perform_all(parcel: list[Task[R]]) -> list[tuple[Task[R], R]]:
    return [(task, task.perform()) for task in parcel]


def _key(task: Task[Any], data: str) -> str:
    fields: dict[str, Any] = asdict(task)  # type: ignore[call-overload]
    return hashlib.sha256(json.dumps([task.kind, fields, data, code_digest()]).encode()).hexdigest()


def data_digest(dataset: str) -> str:
    """What identifies the rows of a stream: the file they come from, or that they are generated."""
    found = datasets.find(dataset) if dataset in datasets.DATASETS else authors.find(dataset)
    return "generated" if found is None else hashlib.sha256(found.read_bytes()).hexdigest()


_OF_THE_PAPER = "analysis.py", "paper.py", "published.py", "published.toml", "trials.py", "tune.py"
MAKERS = "algorithms.py", "inputs.py", "matches.py", "models.py", "peers.py", *_OF_THE_PAPER
"""What a result depends on of this package; the rest of it says what to run, or reads what came of it."""


@functools.cache
def code_digest() -> str:
    """Identifies the code that results depend on, and the versions of what it is built on."""
    root = Path(driftsurf.__file__).parent
    versions = [version(package) for package in ("numpy", "scipy", "numba")]
    total = hashlib.sha256(json.dumps(versions).encode())
    for path in sorted((*root.rglob("*.py"), *root.rglob("*.toml"))):
        top, *_ = path.relative_to(root).parts
        if top not in ("cli", "report", "experiments") or (top == "experiments" and path.name in MAKERS):
            total.update(path.read_bytes())
    return total.hexdigest()
