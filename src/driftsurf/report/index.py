"""All runs below a folder, in a few numbers each: runs, keyed runs and comparisons, finished or not."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from driftsurf import registry
from driftsurf.comparison.folder import LEDGER
from driftsurf.core import files
from driftsurf.core.json_text import parse_json
from driftsurf.errors import DriftsurfError, RunFolderError
from driftsurf.evaluation.baselines import baselines
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.trace import Trace
from driftsurf.explanation.records import newest_head, read_run
from driftsurf.keyed.folder import PAGE, KeyedFolder, is_keyed_run
from driftsurf.keyed.outcomes import Outcomes
from driftsurf.keyed.rules import KeyScore
from driftsurf.report.comparison_chart import TRIVIAL
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.folder import JOURNAL, REPORT, RESULT, TRACE
from driftsurf.visible import safe_address

__all__ = ["Kind", "RunEntry", "RunIndex", "Skipped", "list_runs"]

Kind: TypeAlias = Literal["run", "keyed run", "comparison"]
COMPARISON = "comparison.json"
DEPTH = 3
"""Folders are searched for runs this deep."""
SMALLEST = 5e-324
"""The smallest number above 0. A model without any error is never poor, because nothing can be better."""
POINTS = 80
"""Points of a curve at most."""
UNREADABLE = (
    *(DriftsurfError, OSError, csv.Error),
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError),
)
"""What reading a damaged folder may raise."""


@dataclass(frozen=True, kw_only=True)
class RunEntry:
    """One run in a few numbers. What is not known is None, or empty."""

    path: Path
    """The folder of the run."""
    kind: Kind
    finished: bool
    """Whether it is complete; otherwise it is running, or was interrupted."""
    source: str = ""
    model: str = ""
    """The model; of a comparison the winner."""
    rows: int | None = None
    steps: int | None = None
    """Time steps; of a keyed run those of all keys."""
    keys: int | None = None
    """Number of keys of a keyed run."""
    measure: str = ""
    """Name of the error: "error" (share of wrong rows), "RMSE", "MAE" or "relative error"."""
    error: float | None = None
    baseline: float | None = None
    """The error of the best trivial rule on the same rows."""
    rule: str = ""
    """The name of this rule: "majority", "mean" or "persistence"."""
    drifts: int | None = None
    """Number of drifts; of a keyed run those of all keys; None for comparisons."""
    drifting: bool = False
    """Whether a drift goes on at the end."""
    time: datetime | None = None
    """When its files were last written, in UTC."""
    curve: tuple[float, ...] = ()
    """The error over time, or of a comparison the errors of its models, in at most 80 points."""
    page: Path | None = None
    """The page of the run, if it has one."""

    @property
    def no_better(self) -> bool:
        """Whether the model is no better than a trivial rule."""
        return self.error is not None and self.baseline is not None and self.error >= max(self.baseline, SMALLEST)


@dataclass(frozen=True)
class Skipped:
    """A folder that is not listed as a run."""

    path: Path
    reason: str


@dataclass(frozen=True)
class RunIndex:
    """The runs below a folder."""

    folder: Path
    runs: list[RunEntry] = field(default_factory=list)
    """Newest first."""
    skipped: list[Skipped] = field(default_factory=list)
    """Folders that are damaged, or no runs."""


def list_runs(folder: str | Path) -> RunIndex:
    """Read all runs below a folder: runs, folders of checkpoints, keyed runs and comparisons.

    Folders that are not runs are searched themselves, three levels deep. A folder that cannot be read, or has no run
    in it, is among the skipped ones with the reason; it never raises an error.

    Parameters
    ----------
    folder
        The folder that contains the folders of runs, such as "runs"; or the folder of a single run.

    Raises
    ------
    RunFolderError
        If ``folder`` is not a folder.

    Examples
    --------
    >>> import tempfile
    >>> from driftsurf import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = run("sea0", rows=2_000, out=f"{folder}/sea")
    ...     found = list_runs(folder).runs
    >>> [(one.path.name, one.kind, one.rows, one.finished) for one in found]
    [('sea', 'run', 2000, True)]
    """
    place = Path(folder)
    if not place.is_dir():
        raise RunFolderError(f"{str(place)!r} is not a folder")
    index = RunIndex(place)
    itself = _reader(place, set(files.names(place))) is not None
    for path in [place] if itself else _folders(place):
        _search(path, DEPTH, index)
    oldest = datetime.fromtimestamp(0, UTC)
    index.runs.sort(key=lambda one: (one.time or oldest, str(one.path)), reverse=True)
    return index


def _folders(place: Path) -> Iterator[Path]:
    """Yield the folders in a folder, in order, without hidden ones."""
    yield from (path for path in sorted(place.iterdir()) if path.is_dir() and not path.name.startswith("."))


def _search(path: Path, depth: int, index: RunIndex) -> None:
    """Add the run in this folder, or the runs below it, to the index."""
    try:
        reader = _reader(path, set(files.names(path)))
        if reader is not None:
            index.runs.append(reader(path))
            return
        before = len(index.runs) + len(index.skipped)
        for child in _folders(path) if depth > 1 else ():
            _search(child, depth - 1, index)
        if len(index.runs) + len(index.skipped) == before:
            index.skipped.append(Skipped(path, "it has no run"))
    except UNREADABLE as error:
        index.skipped.append(Skipped(path, f"it cannot be read: {' '.join(str(error).split())}"))


def _reader(path: Path, names: set[str]) -> Callable[[Path], RunEntry] | None:
    """Return the function that reads a folder with these files; None if it is not a run."""
    if is_keyed_run(path):
        return _keyed_run
    if COMPARISON in names:
        return _comparison
    if LEDGER in names and b'"what"' in files.read_bytes(path / LEDGER)[:4096]:
        return lambda place: RunEntry(path=place, kind="comparison", finished=False, time=_time(place / LEDGER))
    if CheckpointFolder(path).generations():
        return _checkpoints
    return _run if JOURNAL in names or TRACE in names else None


def _run(path: Path) -> RunEntry:
    """Read a run folder, which has another name until it is complete."""
    page = path / REPORT
    return _of_trace(path, finished=not path.name.endswith(files.PARTIAL), page=page)


def _checkpoints(path: Path) -> RunEntry:
    """Read a folder of checkpoints; the result may be below it."""
    done = newest_head(path).get("done") is True
    return _of_trace(path, finished=done, page=path / RESULT / REPORT)


def _of_trace(path: Path, *, finished: bool, page: Path) -> RunEntry:
    record = read_run(path)
    about, trace = record.about, record.trace
    numbers: dict[str, Any] = {"source": about.get("stream") or "", "model": str(about.get("model") or "")}
    if trace is not None:
        numbers |= _numbers(trace, record.scores)
    numbers["source"] = _source_name(str(about.get("source") or numbers["source"]))
    return RunEntry(
        path=path,
        kind="run",
        finished=finished,
        drifts=len(record.drifts),
        drifting=record.drifts.open is not None,
        time=_time(path / TRACE, path / JOURNAL),
        page=page if page.exists() else None,
        **numbers,
    )


def _numbers(trace: Trace, scores: Scores | None) -> dict[str, Any]:
    """Return the fields that follow from a trace with at least one step."""
    model = trace.models[0]
    columns, counted, found = trace.of(model), trace.counted(model), baselines(trace, model, scores)
    # The error of the most frequent class says nothing about a model that finds a rare one.
    compared = found.learned and (found.rare is None or bool(found.warning))
    rule = min(found.others, key=lambda name: found.others[name], default="")
    curve = counted["error"] if trace.labels else np.sqrt(counted["squared_error"])
    return {
        "source": trace.stream,
        "model": model,
        "rows": int(columns["rows"].sum()),
        "steps": len(columns["step"]),
        "measure": "error" if trace.labels else "RMSE",
        "error": found.own if found.learned else None,
        "baseline": found.others.get(rule) if compared else None,
        "rule": rule,
        "curve": _shortened(curve),
    }


def _keyed_run(path: Path) -> RunEntry:
    folder = KeyedFolder(path)
    about, keys = folder.about(), folder.keys()
    regression, outcomes = folder.regression, Outcomes.read(folder)
    page, marks = path / PAGE, sorted((path / "epochs").glob("*.json"))
    columns: Mapping[str, Any] = about.get("columns", {})
    return RunEntry(
        path=path,
        kind="keyed run",
        finished=bool(marks),
        source=_source_name(str(about.get("source") or f"{columns.get('label')} by {columns.get('key')}")),
        model=_strategy_name(str(about.get("learner", {}).get("strategy", {}).get("name", ""))),
        rows=sum(int(entry["rows"]) for entry in keys.values()),
        steps=sum(int(entry["steps"]) for entry in keys.values()),
        keys=len(keys),
        measure="MAE" if regression else "error",
        drifts=len(outcomes.drifts),
        drifting=bool(outcomes.drifts.drifting),
        time=_time(*marks[-1:], path / "run.json"),
        curve=tuple(outcomes.curve(POINTS)),
        page=page if page.exists() else None,
        **_over_all_keys(list(outcomes.scores.values()), regression),
    )


def _source_name(source: str) -> str:
    """Return the name of a file, folder or address without the path to it, as comparisons have it.

    >>> _source_name("data/sales.csv"), _source_name("sea10"), _source_name("logs/")
    ('sales.csv', 'sea10', 'logs')
    """
    return Path(safe_address(source)).name or source


def _strategy_name(part: str) -> str:
    """Return the name of a strategy on the command line, by the name of its class."""
    entry = registry.find("strategy", part)
    return part if entry is None else entry.name


def _over_all_keys(scores: Sequence[KeyScore], regression: bool) -> dict[str, Any]:
    """Return the errors over the rows of all keys."""
    rows = sum(score.rows for score in scores)
    if not rows:
        return {}
    model, constant, persistence = (
        sum(score[place] * score.rows for score in scores) / rows for place in range(2, len(KeyScore._fields))
    )
    rule = "persistence" if persistence < constant else "mean" if regression else "majority"
    return {"error": model, "baseline": min(constant, persistence), "rule": rule}


def _comparison(path: Path) -> RunEntry:
    about = parse_json(files.read_text(path / COMPARISON))
    overall, page = about["overall"], path / REPORT
    errors = {str(one["model"]): float(one["error"]["value"]) for one in overall["models"]}
    rule = min((name for name in TRIVIAL if name in errors), key=lambda name: errors[name], default="")
    return RunEntry(
        path=path,
        kind="comparison",
        finished=True,
        source=", ".join(str(one["title"]) for one in about["sources"]),
        model=str(about["winner"]),
        rows=int(overall["n_rows"]),
        steps=int(overall["steps"]),
        measure="relative error" if overall["models"][0].get("relative_rmse") is not None else "error",
        error=errors[str(about["winner"])],
        baseline=errors.get(rule),
        rule=rule,
        time=_time(path / COMPARISON),
        curve=tuple(sorted(errors.values()))[:POINTS],
        page=page if page.exists() else None,
    )


def _shortened(values: Any) -> tuple[float, ...]:
    """Return the means of at most POINTS blocks of values; those that are not finite are left out.

    >>> _shortened([0.5, float("nan"), 0.25])
    (0.5, 0.25)
    """
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return tuple(float(block.mean()) for block in np.array_split(known, min(POINTS, len(known)) or 1) if len(block))


def _time(*paths: Path) -> datetime | None:
    """Return when the first of these files that exists was last written."""
    for path in paths:
        if path.exists():
            return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return None
