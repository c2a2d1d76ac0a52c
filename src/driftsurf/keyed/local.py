"""The engine "local": a keyed run in one process, states of keys in an SQLite file."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftsurf.core.options import number, shown, whole
from driftsurf.data import BadRow, FileSource, ReadingOptions, Source
from driftsurf.errors import StateError
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.grouping import Columns, DerivedColumns, by_key
from driftsurf.keyed.key_cache import KeyCache
from driftsurf.keyed.results import Results, Visit
from driftsurf.keyed.run import EpochReport, KeyedJob
from driftsurf.keyed.shared_keys import SharedKeys
from driftsurf.keyed.sharing import SharingLearner
from driftsurf.keyed.store import EpochProgress, StateStore
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.registry import register

EPOCH_ROWS = 100_000


@register("engine", "local", title="This process")
class LocalEngine:
    """One process on this machine: states in an SQLite file.

    Parameters
    ----------
    epoch
        Rows of an epoch.
    """

    def __init__(self, *, epoch: int = EPOCH_ROWS) -> None:
        self.epoch = epoch

    @property
    def first_rows(self) -> int:
        """How many rows are read to find out what the columns hold."""
        return self.epoch

    def check(self, reading: ReadingOptions) -> None:
        """Raise OptionError if an option cannot be used."""
        whole("epoch", self.epoch, at_least=1)

    def run(self, job: KeyedJob) -> KeyedFolder:
        """Learn all rows that the source has now, behind those of an earlier run."""
        # A row that cannot be read must not stop all keys; it is counted in the epoch.
        reading = replace(job.reading, on_bad_row="skip", drop=job.unused)
        source = FileSource(job.source, reading, batch_size=self.epoch)
        return run_local(
            source, job.out, job.learner, job.columns, ttl=job.ttl, on_epoch=job.on_epoch, derived=job.derived
        )


def run_local(
    source: Source,
    out: Path,
    learner: KeyedLearner,
    columns: Columns,
    *,
    ttl: float | None = None,
    on_epoch: EpochReport | None = None,
    derived: DerivedColumns | None = None,
) -> KeyedFolder:
    """Learn all rows of a source, one epoch per batch; an earlier run in ``out`` is resumed.

    ``ttl`` is in units of the sequence, measured from the newest row of earlier epochs: keys that are silent for longer
    are dropped, and rows that are later than that are dropped and counted. ``derived`` columns are added to each table.
    """
    derived = DerivedColumns(columns.label) if derived is None else derived
    learner.check()
    if ttl is not None:
        number("ttl", ttl, above=0.0, otherwise=", or None")
    folder = KeyedFolder(out)
    folder.open("local", learner, columns._asdict() | {"ttl": ttl}, derived.words)
    with folder.held(), contextlib.closing(StateStore(out / "state.sqlite", folder.check_held)) as store:
        _run(source, folder, learner, columns, store, ttl, on_epoch, derived)
    return folder


def _run(
    source: Source,
    folder: KeyedFolder,
    learner: KeyedLearner,
    columns: Columns,
    store: StateStore,
    ttl: float | None,
    on_epoch: EpochReport | None,
    derived: DerivedColumns,
) -> None:
    done, server = store.progress(), _server(learner, columns, derived, store)
    _check_agreement(folder, done)
    if not isinstance(server, KeyCache) and done.epochs:  # a process that ended may not have come so far
        folder.write_shared(server.model.report())
    unreadable = 0

    def count(bad: BadRow) -> None:
        nonlocal unreadable
        unreadable += 1

    for table, position in source.tables(done.position, on_skip=count):
        limit = _limit(done.top, ttl)
        grouped = by_key(derived.add_to(table), learner, columns, limit)
        results = (
            server.serve(grouped.rows, store)
            if isinstance(server, KeyCache)
            else server.serve(table, grouped.rows, store)
        )
        results.visits |= _expired(learner, server, store, grouped.rows.keys(), limit)
        server.forget(results.visits.keys())
        tops = [*results.high_waters().values(), *([] if done.top is None else [done.top])]
        counts = grouped.counts | {"unreadable": unreadable}
        unreadable = 0
        # The tables come first: if the process ends before the states are kept, the epoch is repeated and rewritten.
        _write(folder, done.epochs, results, counts, grouped.types, on_epoch)
        done = EpochProgress(done.epochs + 1, position, max(tops, default=None))
        shared = None if isinstance(server, KeyCache) else server.model.to_bytes()
        store.keep(results, done, functools.partial(server.states, states=store, served=results.parts), shared)
        if not isinstance(server, KeyCache):
            folder.write_shared(server.model.report())
    last = _expired(learner, server, store, (), _limit(done.top, ttl))
    if last:
        server.forget(last.keys())
        kind = "string" if isinstance(next(iter(last)), str) else "int64"
        _write(folder, done.epochs, Results(last), {}, (kind, "string"), on_epoch)
        store.keep(last, done._replace(epochs=done.epochs + 1), functools.partial(server.states, states=store))


def _server(
    learner: KeyedLearner, columns: Columns, derived: DerivedColumns, store: StateStore
) -> KeyCache | SharedKeys:
    """Return what serves keys: each alone, or beside the model that they share, as it was saved."""
    if not isinstance(learner, SharingLearner):
        return KeyCache(learner)
    hidden = {columns.sequence, columns.label, derived.target, columns.id}
    server = SharedKeys(learner, columns.key, [name for name in hidden if name is not None])
    saved = store.shared()
    if saved is not None:
        server.model.restore(saved)
    return server


def _check_agreement(folder: KeyedFolder, done: EpochProgress) -> None:
    """Raise StateError unless the states belong to the epochs of the folder.

    An epoch is marked before its states are kept, so that a process which ended between the two left one mark more.
    """
    marked = max(folder.epochs(), default=-1) + 1
    if done.epochs not in (marked, marked - 1):
        raise StateError(
            f"{str(folder.path)!r} has {marked} complete epochs, and the states of its keys are those after "
            f"{shown(done.epochs)}: a part of the folder was removed or replaced. Put back a copy, or start a new run"
        )


def _limit(top: int | None, ttl: float | None) -> int | None:
    """Return the sequence number below which keys are silent and rows are late; None for no limit."""
    return None if top is None or ttl is None else int(top - ttl)


def _expired(
    learner: KeyedLearner, server: KeyCache | SharedKeys, store: StateStore, present: Collection[Any], limit: int | None
) -> dict[Any, Visit]:
    """Return a last visit for each key that has been silent for too long and has no rows in this epoch."""
    silent = [] if limit is None else [key for key in store.silent(limit) if key not in present]
    return {key: learner.expire(key, state) for key, state in server.states(silent, store).items() if state}


def _write(
    folder: KeyedFolder,
    epoch: int,
    results: Results,
    counts: Mapping[str, int],
    types: tuple[str, str],
    on_epoch: EpochReport | None,
) -> None:
    counts = {"keys": results.n_keys, "rows": results.n_rows, **counts}
    folder.write(epoch, results, types, counts)
    if on_epoch is not None:
        on_epoch(epoch, counts)
