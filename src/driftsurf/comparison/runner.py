"""Runs many tasks in parallel, here or on a Dask cluster, and records each in a ledger, so that none runs twice."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Protocol, TextIO, TypeVar

import driftsurf
from driftsurf.core import disk, files
from driftsurf.core.files import parse_json
from driftsurf.core.secrets import storable
from driftsurf.data.datasets import authors
from driftsurf.data.datasets import known as datasets
from driftsurf.errors import CapabilityError, MissingExtraError
from driftsurf.native.sources import compiled_from


class Result(Protocol):
    """The result of a task."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as values that JSON can hold."""
        ...


R_co = TypeVar("R_co", bound=Result, covariant=True)
R = TypeVar("R", bound=Result)


class Task(Protocol[R_co]):
    """A frozen dataclass of everything that a result depends on, apart from the code and the data."""

    kind: ClassVar[str]

    @property
    def dataset(self) -> str:
        """Name of the stream that the task reads."""
        ...

    def perform(self) -> R_co:
        """Run the task."""
        ...

    @staticmethod
    def decode(values: Mapping[str, Any]) -> R_co:
        """Return the result from which ``to_dict`` made ``values``."""
        ...


Done = Callable[[int, int], None]
"""Called with the number of finished tasks and the number of all tasks."""


@dataclass(frozen=True)
class Ledger:
    """The file of finished tasks, with one JSON object on each line. Lines that a crash cut short are skipped.

    The key of a task contains digests of the code and the data, so that a result counts only for the same code and
    the same data.
    """

    path: Path
    lock: files.FolderLock | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[Ledger]:
        """Context in which this process alone works in the folder of the ledger; LockedError if another one does."""
        files.make_folder(self.path.parent)
        with files.FolderLock(self.path.parent) as lock:
            yield replace(self, lock=lock)

    def check_held(self) -> None:
        """Raise LockedError if another process has taken the folder over since it was locked here."""
        if self.lock is not None:
            self.lock.check()

    def read(self) -> dict[str, dict[str, Any]]:
        """Return the recorded results by key."""
        done: dict[str, dict[str, Any]] = {}
        if not self.path.exists():
            return done
        for line in self.path.read_bytes().splitlines():
            try:
                record = parse_json(line)
                done[record["key"]] = record["result"]
            except (ValueError, KeyError, TypeError):
                continue
        return done

    def open(self) -> TextIO:
        """Open the file to append to it. The next record starts a new line, however the file ends."""
        self.check_held()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = disk.private(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        file = os.fdopen(handle, "a", encoding="utf-8")
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
    on_result: Callable[[Any, R], None] | None = None,
    is_complete: Callable[[Any], bool] = lambda task: True,
) -> dict[Task[R], R]:
    """Run the tasks that the ledger does not have yet, and return the results of all.

    The results do not depend on ``jobs``, because every task has its own seed. ``digest`` identifies the rows of a
    stream by its name; the default is ``data_digest``. ``on_result`` is called with each new result before it is
    recorded; a recorded task that is not ``is_complete``, because a file beside the ledger is missing, is run again.
    """
    wanted = dict.fromkeys(tasks)
    identify = data_digest if digest is None else digest
    digests = {name: identify(name) for name in {task.dataset for task in wanted}}
    keys = {task: _key(task, digests[task.dataset]) for task in wanted}
    known = ledger.read()
    done = {task: task.decode(known[key]) for task, key in keys.items() if key in known and is_complete(task)}
    # Sorted by stream, so that a process can reuse the stream that it has in memory.
    missing = sorted((task for task in wanted if task not in done), key=lambda task: task.dataset)
    report = on_done if on_done is not None else (lambda count, total: None)
    report(len(done), len(wanted))
    with ledger.open() as file:
        for task, result in _results(missing, jobs):
            done[task] = result
            record = {"key": keys[task], "task": storable(asdict(task)), "result": result.to_dict()}  # type: ignore[call-overload]
            ledger.check_held()
            if on_result is not None:
                on_result(task, result)
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
            report(len(done), len(wanted))
        os.fsync(file.fileno())
    return {task: done[task] for task in wanted}  # in the order of the tasks, not of their completion


def _results(tasks: list[Task[R]], jobs: int) -> Iterator[tuple[Task[R], R]]:
    """Yield results as they are found. Tasks that differ only by their seed run in one process and share a stream."""
    groups = [list(group) for _, group in groupby(tasks, key=_without_seed)]
    if jobs == 1 or len(groups) <= 1:
        for group in groups:
            yield from _perform_all(group)
        return
    from joblib import Parallel, delayed

    parallel: Any = Parallel(n_jobs=min(jobs, len(groups)), return_as="generator_unordered", batch_size=1)
    for results in parallel(delayed(_perform_all)(group) for group in groups):
        yield from results


def _without_seed(task: Task[Any]) -> str:
    fields: dict[str, Any] = asdict(task)  # type: ignore[call-overload]
    fields.pop("seed", None)
    return json.dumps([task.kind, fields])


def _perform_all(tasks: list[Task[R]]) -> list[tuple[Task[R], R]]:
    return [(task, task.perform()) for task in tasks]


def _key(task: Task[Any], data: str) -> str:
    fields: dict[str, Any] = asdict(task)  # type: ignore[call-overload]
    return hashlib.sha256(json.dumps([task.kind, fields, data, code_digest()]).encode()).hexdigest()


def data_digest(dataset: str) -> str:
    """Return what identifies the rows of a stream: a digest of its file, or "generated"."""
    found = datasets.find(dataset) if dataset in datasets.DATASETS else authors.find(dataset)
    return "generated" if found is None else hashlib.sha256(found.read_bytes()).hexdigest()


MAKERS: dict[str, tuple[str, ...]] = {
    "comparison": ("inputs.py", "matches.py", "models.py", "peers.py"),
    "reproduction": (
        "bounds.py",
        "grid_search.py",
        "published.py",
        "published.toml",
        "trials.py",
        "strategies",
    ),
}
"""Modules and folders of these packages that results depend on; the others plan what to run, or present results."""
SHOWING = "cli", "report"
"""Packages that no result depends on."""


@functools.cache
def code_digest() -> str:
    """Return a digest of the code that results depend on, the compiled core included, and of numpy and scipy."""
    root = Path(driftsurf.__file__).parent
    versions = [version(package) for package in ("numpy", "scipy")]
    total = hashlib.sha256(json.dumps([*versions, compiled_from(f"{root}/native")]).encode())
    for path in sorted((*root.rglob("*.py"), *root.rglob("*.toml"))):
        top, *inner = path.relative_to(root).parts
        if top not in SHOWING and (top not in MAKERS or inner[0] in MAKERS[top]):
            total.update(path.read_bytes())
    return total.hexdigest()


WAIT_SECONDS = 30


@contextlib.contextmanager
def on_cluster(address: str | None, jobs: int) -> Iterator[int]:
    """Context in which tasks run on the workers of a Dask scheduler; without an address, in ``jobs`` local processes.

    Yields the number of tasks to run at a time. The ledger stays on this machine, and each result is written to it
    once: the tasks of a lost worker are repeated by another one. Workers must have the same data and the same code;
    the code is checked.
    """
    if address is None:
        yield jobs
        return
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            f"a cluster needs dask.distributed, which is not installed ({error}): pip install 'driftsurf[dask]'"
        ) from error
    from joblib import parallel_config

    with distributed.Client(address, timeout=WAIT_SECONDS) as client:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
        different = [worker for worker, digest in client.run(code_digest).items() if digest != code_digest()]
        if different:
            raise CapabilityError(
                f"{', '.join(sorted(different))}: the versions of driftsurf, numpy or scipy differ from "
                "those of this process; install the same versions there"
            )
        with parallel_config("dask", client=client):
            yield max(2, sum(client.nthreads().values()))
