"""Run the paper's evaluation: the experiments by name, and the result of running them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from driftsurf.comparison.runner import Ledger, Result, Task, run
from driftsurf.core import files
from driftsurf.core.options import StrPath, choice, whole
from driftsurf.data import catalogue
from driftsurf.data.datasets import known as datasets
from driftsurf.errors import OptionError, RunFolderError
from driftsurf.reproduction import plan
from driftsurf.reproduction.bounds import Bounds, Competition, CompetitionTask, bounds
from driftsurf.reproduction.cells import ErrorCell, Measurements, cells_of
from driftsurf.reproduction.grid_search import L2S, GridTask, Tuning, tuned
from driftsurf.reproduction.plan import PaperTable
from driftsurf.reproduction.published import STREAMS
from driftsurf.reproduction.trials import Trial, TrialResult
from driftsurf.reproduction.verdicts import ClaimVerdict, judge

R = TypeVar("R", bound=Result)


@dataclass(frozen=True)
class Experiment:
    """A part of the evaluation that can be run by name."""

    name: str
    description: str
    tables: tuple[str, ...] = ()


_SIX = tuple(plan.PAPER_TABLES)
_ALL = (
    *(Experiment(name, f"table: {table.title}", (name,)) for name, table in plan.PAPER_TABLES.items()),
    Experiment("noise", "SEA with 0 to 30 % noise", ("noise",)),
    Experiment("detectors", "every drift detector, and how often it resets the model", ("detectors",)),
    Experiment("aware-alternative", "Aware reset after the first batch of a drift", ("aware-alternative",)),
    Experiment("baselines", "windows, decay, and the other ensembles that the paper names", ("baselines",)),
    Experiment("equal-shares", "AUE's budget divided by weight or equally", ("equal-shares",)),
    Experiment("tune", "the paper's grid search for hyperparameters"),
    Experiment("sensitivity", "r, delta, delta', condition 2 off, zero-one risk", ("sensitivity",)),
    Experiment("claims", "the claims of the paper, checked one by one", (*_SIX, "detectors", "aware-alternative")),
    Experiment("analysis", "the paper's theoretical bounds and what was measured", ("equal-model",)),
    Experiment("figures", "the paper's figures and ours", (*_SIX, "noise", "detectors")),
)
EXPERIMENTS: Final[dict[str, Experiment]] = {experiment.name: experiment for experiment in _ALL}


@dataclass(frozen=True)
class Reproduction:
    """The result of running experiments: the input of tables, figures and the page."""

    experiments: tuple[str, ...]
    datasets: tuple[str, ...]
    missing: tuple[str, ...]
    """Streams that could not be run, because their data file is missing."""
    seeds: tuple[int, ...]
    tables: tuple[PaperTable, ...]
    cells: tuple[ErrorCell, ...]
    outcomes: dict[Trial, TrialResult]
    tunings: tuple[Tuning, ...] = ()
    verdicts: tuple[ClaimVerdict, ...] = ()
    competitions: tuple[Competition, ...] = ()
    bounds: tuple[Bounds, ...] = ()

    @functools.cached_property
    def measured(self) -> Measurements:
        """The cells and trials, looked up by table, stream and algorithm."""
        return Measurements(self.datasets, self.seeds, self.cells, self.outcomes)


Progress = Callable[[str, int, int], None]
"""Called with the kind of work, the number of tasks done and the number of all tasks."""


def available() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the streams that can be run, in the paper's order with stand-ins last, and those whose file is missing."""
    missing = tuple(name for name in datasets.DATASETS if datasets.find(name) is None)
    return tuple(name for name in catalogue.CATALOGUE.for_experiments if name not in missing), missing


def title_of(dataset: str) -> str:
    """Return the title of a stream for tables; that of a stand-in is its own."""
    return datasets.DATASETS[dataset].label if dataset in datasets.DATASETS else STREAMS[dataset].title


def reproduce(
    folder: StrPath,
    experiments: Iterable[str] = (),
    *,
    names: Iterable[str] | None = None,
    trials: int = 5,
    seed: int = 0,
    jobs: int = 1,
    on_progress: Progress | None = None,
) -> Reproduction:
    """Run experiments; all of them if none is named.

    An interrupted run resumes: finished tasks are in ``folder / "ledger.jsonl"``. While a process uses the folder, a
    second one is refused with the name of the first.
    """
    folder = Path(folder)
    chosen = tuple(experiments) or tuple(EXPERIMENTS)
    for name in chosen:
        choice("experiment", name, tuple(EXPERIMENTS))
    seeds = tuple(range(seed, seed + whole("trials", trials, at_least=1)))
    streams, missing = _streams(names)
    needed = {table for name in chosen for table in EXPERIMENTS[name].tables}
    tables = tuple(table for table in plan.TABLES.values() if table.name in needed)
    wanted = list(plan.trials_of(tables, streams, seeds))
    if tables and not wanted:
        about = sorted({name for table in tables for name in table.among(catalogue.CATALOGUE.for_experiments)})
        raise OptionError(f"{', '.join(chosen)} does not use {', '.join(streams)}; choices: {', '.join(about)}")
    ledger = Ledger(folder / "ledger.jsonl")
    others = {file.name for file in folder.iterdir()} - {files.LOCK, files.FENCE} if folder.exists() else set()
    if others and not ledger.path.exists():
        raise RunFolderError(f"{str(folder)!r} holds other files; choose an empty folder for the reproduction")

    with ledger.held() as held:

        def work(what: str, tasks: Iterable[Task[R]]) -> dict[Task[R], R]:
            on_done = None if on_progress is None else functools.partial(on_progress, what)
            return run(tasks, held, jobs=jobs, on_done=on_done)

        done = cast("dict[Trial, TrialResult]", work("trials", wanted))
        result = Reproduction(
            chosen, streams, missing, seeds, tables, tuple(cells_of(tables, streams, done, seeds)), done
        )
        if "tune" in chosen:
            lines = work("grid searches", [GridTask(name, l2, seed) for name in streams for l2 in L2S])
            grids = {name: [line for task, line in lines.items() if task.dataset == name] for name in streams}
            result = replace(result, tunings=tuple(tuned(name, grid) for name, grid in grids.items()))
        if "analysis" in chosen:
            result = _analysed(result, work)
        if "claims" in chosen:
            result = replace(result, verdicts=tuple(judge(result.measured)))
        return result


def _analysed(result: Reproduction, work: Callable[..., dict[Any, Any]]) -> Reproduction:
    """Add the bounds, on the streams with abrupt drifts at known times."""
    drifting = [name for name in result.datasets if _abrupt(name)]
    competitions = work("sub-optimality", [CompetitionTask(name, result.seeds) for name in drifting])
    estimates = [bounds(name, result.measured.runs("equal-model", name, "driftsurf")) for name in drifting]
    return replace(result, competitions=tuple(competitions.values()), bounds=tuple(estimates))


def _abrupt(dataset: str) -> bool:
    """Whether a stream is generated and all its drifts are abrupt, as the bounds assume."""
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
        raise OptionError(f"datasets is empty; choices: {', '.join(found)}")
    for name in asked:
        if catalogue.get(name).regression:
            raise OptionError(
                f"{name} is a regression stream, but the paper is about classes; choices: {', '.join(found)}"
            )
        if name in missing:
            datasets.require(name)  # raises, with the remedy
    return tuple(name for name in found if name in asked), ()
