"""The whole evaluation: which experiments there are, what each of them takes, and what comes out."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from driftsurf._options import choice, whole
from driftsurf.errors import OptionError, RunFolderError
from driftsurf.experiments import plan
from driftsurf.experiments.analysis import Bounds, Competition, CompetitionTask, bounds
from driftsurf.experiments.plan import Table
from driftsurf.experiments.published import STREAMS
from driftsurf.experiments.results import Cell, cells_of
from driftsurf.experiments.runner import Ledger, Result, Task, run
from driftsurf.experiments.trials import Outcome, Trial
from driftsurf.experiments.tune import Tuning, TuningTask
from driftsurf.experiments.verdicts import Measured, Verdict, judge
from driftsurf.runtime import files
from driftsurf.streams import catalogue, datasets

__all__ = ["EXPERIMENTS", "Experiment", "Reproduction", "available", "reproduce", "title_of"]

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Experiment:
    """A part of the evaluation that can be asked for by name."""

    name: str
    description: str
    tables: tuple[str, ...] = ()


_SIX = tuple(plan.PAPER_TABLES)
_ALL = (
    *(Experiment(name, f"table: {table.title}", (name,)) for name, table in plan.PAPER_TABLES.items()),
    Experiment("noise", "SEA with 0 to 30 % noise", ("noise",)),
    Experiment("detectors", "every drift detector, and how often it resets", ("detectors",)),
    Experiment("aware-alternative", "Aware told after the drift batch", ("aware-alternative",)),
    Experiment("baselines", "windows, decay, Paired Learners, DWM, Learn++.NSE", ("baselines",)),
    Experiment("equal-shares", "AUE's budget divided by weight or equally", ("equal-shares",)),
    Experiment("tune", "the paper's grid search, and its choice"),
    Experiment("sensitivity", "r, delta, delta', condition 2 off, zero-one risk", ("sensitivity",)),
    Experiment("claims", "what the paper says, sentence by sentence", (*_SIX, "detectors", "aware-alternative")),
    Experiment("analysis", "the paper's bounds beside what is measured", ("equal-model",)),
    Experiment("figures", "the paper's figures and ours", (*_SIX, "noise", "detectors")),
)
EXPERIMENTS: Final[dict[str, Experiment]] = {experiment.name: experiment for experiment in _ALL}


@dataclass(frozen=True)
class Reproduction:
    """Everything that was run, for tables, figures and pages."""

    experiments: tuple[str, ...]
    datasets: tuple[str, ...]
    missing: tuple[str, ...]
    """Streams that were to be run, but whose file is not at hand."""
    seeds: tuple[int, ...]
    tables: tuple[Table, ...]
    cells: tuple[Cell, ...]
    outcomes: dict[Trial, Outcome]
    tunings: tuple[Tuning, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    competitions: tuple[Competition, ...] = ()
    bounds: tuple[Bounds, ...] = ()

    @functools.cached_property
    def measured(self) -> Measured:
        """The numbers as rules and figures ask for them."""
        return Measured(self.datasets, self.seeds, self.cells, self.outcomes)


Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def available() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The streams that can be run here, in the paper's order, stand-ins last; and those whose file is missing."""
    missing = tuple(name for name in datasets.DATASETS if datasets.find(name) is None)
    return tuple(name for name in catalogue.CLASSES if name not in missing), missing


def title_of(dataset: str) -> str:
    """What tables and figures call a stream; a stand-in says what it is."""
    return datasets.DATASETS[dataset].label if dataset in datasets.DATASETS else STREAMS[dataset].title


def reproduce(
    folder: Path,
    experiments: Iterable[str] = (),
    *,
    names: Iterable[str] | None = None,
    trials: int = 5,
    seed: int = 0,
    jobs: int = 1,
    on_progress: Progress | None = None,
) -> Reproduction:
    """Run experiments: all, if none is named.

    An interrupted run continues: what is finished is in ``folder / "ledger.jsonl"``. A second process on the folder is
    refused, and told who holds it.
    """
    chosen = tuple(experiments) or tuple(EXPERIMENTS)
    for name in chosen:
        choice("experiment", name, tuple(EXPERIMENTS))
    seeds = tuple(range(seed, seed + whole("trials", trials, at_least=1)))
    streams, missing = _streams(names)
    needed = {table for name in chosen for table in EXPERIMENTS[name].tables}
    tables = tuple(table for table in plan.TABLES.values() if table.name in needed)
    wanted = list(plan.trials_of(tables, streams, seeds))
    if tables and not wanted:
        about = sorted({name for table in tables for name in table.among(catalogue.CLASSES)})
        raise OptionError(f"{', '.join(chosen)} is not about {', '.join(streams)}; choices: {', '.join(about)}")
    ledger = Ledger(folder / "ledger.jsonl")
    if folder.exists() and {file.name for file in folder.iterdir()} - {files.LOCK} and not ledger.path.exists():
        raise RunFolderError(f"{str(folder)!r} holds files of others; choose a folder for the reproduction alone")

    def work(what: str, tasks: Iterable[Task[R]]) -> dict[Task[R], R]:
        on_done = None if on_progress is None else functools.partial(on_progress, what)
        return run(tasks, ledger, jobs=jobs, on_done=on_done)

    files.make_folder(folder)
    with contextlib.ExitStack() as held:
        held.callback(files.FolderLock(folder).release)
        done = cast("dict[Trial, Outcome]", work("trials", wanted))
        result = Reproduction(
            chosen, streams, missing, seeds, tables, tuple(cells_of(tables, streams, done, seeds)), done
        )
        if "tune" in chosen:
            tunings = work("grid searches", [TuningTask(name, seed) for name in streams])
            result = replace(result, tunings=tuple(tunings.values()))
        if "analysis" in chosen:
            result = _analysed(result, work)
        if "claims" in chosen:
            result = replace(result, verdicts=tuple(judge(result.measured)))
        return result


def _analysed(result: Reproduction, work: Callable[..., dict[Any, Any]]) -> Reproduction:
    """The bounds, on the streams with abrupt drifts at known times."""
    drifting = [name for name in result.datasets if _abrupt(name)]
    competitions = work("sub-optimality", [CompetitionTask(name, result.seeds) for name in drifting])
    estimates = [bounds(name, result.measured.runs("equal-model", name, "driftsurf")) for name in drifting]
    return replace(result, competitions=tuple(competitions.values()), bounds=tuple(estimates))


def _abrupt(dataset: str) -> bool:
    """Whether all its drifts are abrupt and made by a generator, as the bounds assume."""
    if dataset in datasets.DATASETS:
        return False
    drifts = catalogue.get(dataset).make().drifts
    return bool(drifts) and not any(drift.gradual for drift in drifts)


def _streams(names: Iterable[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found, missing = available()
    if names is None:
        return found, missing
    asked = tuple(dict.fromkeys(catalogue.get(name).name for name in names))
    if not asked:
        raise OptionError(f"datasets is empty; choices here: {', '.join(found)}")
    for name in asked:
        if catalogue.get(name).values:
            raise OptionError(f"{name} has values to predict, and the paper has classes; choices: {', '.join(found)}")
        if name in missing:
            datasets.require(name)  # raises, and says how to get it
    return tuple(name for name in found if name in asked), ()
