"""All runs below a folder, finished or not, in a few numbers each, in the terminal and as a page."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

import numpy as np
from rich.table import Table

from driftsurf import registry
from driftsurf.comparison.folder import LEDGER
from driftsurf.core import files
from driftsurf.core.files import parse_json
from driftsurf.core.wording import BASELINE_NAMES, significant
from driftsurf.errors import DriftsurfError, Option, RunFolderError
from driftsurf.errors.visible import escape, safe_address
from driftsurf.evaluation.scores import Scores
from driftsurf.evaluation.summary import baselines
from driftsurf.evaluation.trace import Trace
from driftsurf.keyed.folder import PAGE, KeyedFolder, is_keyed_run
from driftsurf.keyed.outcomes import KeyScore, Outcomes
from driftsurf.report import html
from driftsurf.report.comparison import TRIVIAL
from driftsurf.report.figure import drawing, element
from driftsurf.report.terminal import console
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.explanation.records import newest_head, read_run
from driftsurf.runs.folder import JOURNAL, REPORT, RESULT, TRACE

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


INDEX = "index.html"
"""The name of the page, in the folder of the runs."""
WIDE = 90
"""Characters in a line of the terminal below which some columns are left out."""
WIDTH, HEIGHT = 120, 30
"""Size of a curve."""


class IndexColumn(NamedTuple):
    """A column of the table of runs."""

    head: str
    text: Callable[[RunEntry], str]
    """The cell in the terminal, empty if it is not known."""
    value: Callable[[RunEntry], str | float | None]
    """Key by which runs are sorted; None for a column that is not sorted."""
    number: bool = False
    falling: bool = False
    """Whether the first click sorts it from the largest to the smallest."""


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _error(value: float | None, measure: str) -> str:
    if value is None:
        return ""
    return significant(value) if measure in ("RMSE", "MAE") else f"{value:.3f}"


COLUMNS = (
    IndexColumn("source", lambda one: one.source, lambda one: one.source),
    IndexColumn("model", lambda one: one.model, lambda one: one.model),
    IndexColumn("rows", lambda one: _number(one.rows), lambda one: one.rows, number=True, falling=True),
    IndexColumn("steps", lambda one: _number(one.steps), lambda one: one.steps, number=True, falling=True),
    IndexColumn("error", lambda one: _error(one.error, one.measure), lambda one: one.error, number=True),
    IndexColumn("trivial rule", lambda one: _error(one.baseline, one.measure), lambda one: one.baseline, number=True),
    IndexColumn(
        "drifts",
        lambda one: _number(one.drifts) + ", now" * one.drifting,
        lambda one: one.drifts,
        number=True,
        falling=True,
    ),
    IndexColumn(
        "finished", lambda one: _when(one), lambda one: "" if one.time is None else one.time.isoformat(), falling=True
    ),
)


def _when(one: RunEntry) -> str:
    time = "" if one.time is None else f"{one.time:%Y-%m-%d %H:%M}"
    return time if one.finished else "unfinished"


# ---------------------------------------------------------------------------- terminal


def print_runs(index: RunIndex, page: Path | None = None) -> None:
    """Print a table of the runs, the folders that were skipped, and where the page is."""
    screen = console()
    if not index.runs:
        screen.print(f"no runs in {index.folder}")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        left_out = ("steps",) if screen.width >= WIDE else ("steps", "source", "model", "trivial rule", "finished")
        shown = [column for column in COLUMNS if column.head not in left_out]
        table.add_column("run")
        for column in shown:
            table.add_column(column.head, justify="right" if column.number else "left", no_wrap=column.falling)
        for one in index.runs:
            table.add_row(_name(index, one), *(column.text(one) for column in shown))
        screen.print(table)
    for skipped in index.skipped:
        screen.print(f"skipped: {skipped.path}: {skipped.reason}")
    if page is not None:
        screen.print(f"page: {page}")


def _name(index: RunIndex, one: RunEntry) -> str:
    """Return the path of a run below the folder of the index."""
    return one.path.name if one.path == index.folder else str(one.path.relative_to(index.folder))


# ---------------------------------------------------------------------------- page


def write_runs_page(folder: str | Path, out: str | Path | None = None) -> RunIndex:
    """Write one page of all runs below a folder, with links to their pages; return what it lists.

    Parameters
    ----------
    folder
        The folder that contains the folders of runs; see :func:`~driftsurf.report.index.list_runs`.
    out
        The file to write; None for ``index.html`` in the folder.

    Raises
    ------
    RunFolderError
        If ``folder`` is not a folder, or if it is itself a run and ``out`` is None: a run folder that holds other
        files could not be replaced any more. Also if the file to write exists and is no page of this package.
    """
    index = list_runs(folder)
    found = {one.path for one in index.runs} | {one.path for one in index.skipped}
    if out is None and index.folder in found:
        raise RunFolderError(
            f"{str(index.folder)!r} is itself a run; pass the folder that contains it, or name the page with ",
            Option("out"),
        )
    page = index.folder / INDEX if out is None else Path(out)
    html.check_replaceable(page)
    files.write_text(page, render(index, page), shared=True)
    return index


def render(index: RunIndex, page: Path) -> str:
    """Return the page of an index, with links that are relative to the file ``page``."""
    finished = sum(one.finished for one in index.runs)
    poor = sum(one.no_better for one in index.runs)
    body = [
        f"<h1>Runs in {escape(index.folder.resolve().name or str(index.folder))}</h1>",
        html.note(
            "The error is that of the model on rows that it had not learned yet; the trivial rule is the better one of "
            "predicting the most frequent class so far (or the mean) and repeating the last label. It is left out "
            "where a class is rare, which the error says little about. Drifts: how often the error rose beyond chance; "
            "'now' if the last one goes on. Times are in UTC."
        ),
        html.cards(
            [
                ("runs", f"{len(index.runs):,}"),
                ("unfinished", f"{len(index.runs) - finished:,}"),
                ("no better than a trivial rule", f"{poor:,}"),
                ("folders skipped", f"{len(index.skipped):,}"),
            ]
        ),
        _table(index, page) if index.runs else "<p>There are no runs.</p>",
    ]
    if index.skipped:
        rows = [(escape(str(one.path.relative_to(index.folder))), escape(one.reason)) for one in index.skipped]
        body += ["<h2>Folders that are not listed</h2>", html.wide_table(("folder", "reason"), rows)]
    script = html.asset("index.js") if index.runs else ""
    body += [f"<script>{script}</script>"] * bool(script)
    policy = html.script_policy(script)
    return html.document(
        f"Runs in {index.folder.resolve().name}", body, style=html.look() + html.asset("index.css"), policy=policy
    )


def _table(index: RunIndex, page: Path) -> str:
    heads = ['<th data-sort="ascending">run</th>', "<th>error over time</th>"]
    for column in COLUMNS:
        first = "descending" if column.falling else "ascending"
        kind = ' class="number"' * column.number
        heads.append(f'<th{kind} data-sort="{first}">{column.head}</th>')
    lines = []
    for one in index.runs:
        name = escape(_name(index, one))
        if one.page is not None:
            link = os.path.relpath(one.page.resolve(), page.resolve().parent)
            name = f'<a href="{escape(quote(os.fsencode(Path(link).as_posix())))}">{name}</a>'
        tags = f'<span class="tag">{_kind(one)}</span>' + ' <span class="tag open">unfinished</span>' * (
            not one.finished
        )
        cells = [
            f'<td data-value="{escape(_name(index, one))}"><span>{name}<small>{tags}</small></span></td>',
            f'<td class="spark{" empty" * (not one.curve)}" data-label="error over time">{_spark(one)}</td>',
        ]
        cells += [_cell(column, one) for column in COLUMNS]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="wide"><table class="runs"><thead><tr>{"".join(heads)}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _kind(one: RunEntry) -> str:
    return one.kind if one.keys is None else f"{one.keys:,} keys"


def _cell(column: IndexColumn, one: RunEntry) -> str:
    value, text = column.value(one), column.text(one)
    css = " ".join(name for name, yes in (("number", column.number), ("empty", not text)) if yes)
    shown = escape(text)
    if column.head == "error" and text:
        poor = ' class="poor" title="no better than a trivial rule"' * one.no_better
        shown = f"<span{poor}>{shown}<small>{escape(one.measure)}</small></span>"
    elif column.head == "trivial rule" and text:
        shown = f"<span>{shown}<small>{escape(BASELINE_NAMES.get(one.rule, one.rule))}</small></span>"
    given = "" if value is None else escape(str(value))
    return f'<td class="{css}" data-label="{column.head}" data-value="{given}">{shown}</td>'


def _spark(one: RunEntry) -> str:
    """Return the small curve of a run, with a dotted line at the trivial rule; for a comparison a bar per model."""
    if not one.curve:
        return ""
    top = max(*one.curve, one.baseline or 0.0, 1e-300) * 1.05

    def y(value: float) -> float:
        return (HEIGHT - 2) * (1.0 - value / top) + 1

    parts = list[str]()
    if one.kind == "comparison":
        wide = WIDTH / len(one.curve)
        for place, value in enumerate(one.curve):
            parts.append(
                element("rect", x=place * wide, y=y(value), width=max(wide - 2, 1), height=HEIGHT - 1 - y(value))
            )
    else:
        between = WIDTH / max(len(one.curve) - 1, 1)
        path = " ".join(f"{'L' if k else 'M'}{k * between:.1f} {y(value):.1f}" for k, value in enumerate(one.curve))
        parts.append(element("path", class_="curve", d=path if len(one.curve) > 1 else f"{path} h{WIDTH}"))
    if one.baseline is not None:
        parts.append(element("line", class_="limit", x1=0, x2=WIDTH, y1=y(one.baseline), y2=y(one.baseline)))
    what = "errors of its models" if one.kind == "comparison" else "error over time"
    return drawing(WIDTH, HEIGHT, what, parts)
