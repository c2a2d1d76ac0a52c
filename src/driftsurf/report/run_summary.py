"""Terminal output of a run: how its columns were understood, then its result beside other predictions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table

from driftsurf.core.wording import BASELINE_NAMES, counted, in_words, optional, percent, significant
from driftsurf.data.advice import ColumnSummary
from driftsurf.evaluation.summary import (
    ClassificationSummary,
    RegressionSummary,
    Summary,
    baselines,
    describe_later_classes,
    estimated_errors,
    summarise,
    verdict_of,
)
from driftsurf.evaluation.trace import Trace
from driftsurf.report.run_page import orphan_warning
from driftsurf.report.sections.prediction import reaction_rows
from driftsurf.report.terminal import console
from driftsurf.runs.explanation.lineage import experts_of
from driftsurf.runs.explanation.records import looks_for_drift
from driftsurf.runs.folder import WORK_PER_ROW, work_unit
from driftsurf.runs.result import RunResult

VERDICT_STYLES = {"fine": "green", "drifting": "yellow", "trivial": "yellow"}
"""Colour of the verdict, by its status."""
NARROW = 60
"""Characters in a line below which tables have no space to spare."""


def print_run(result: RunResult, *, to_stderr: bool = False) -> None:
    """Print the result of a run, and where its page is."""
    screen = console(errors=to_stderr)
    trace = result.trace
    if trace.is_empty:
        screen.print("no row was scored: no label arrived for a row that had been predicted")
    else:
        if result.oracle is None:
            _print_beside_baselines(screen, result)
        else:
            _print_beside_oracle(screen, result, result.oracle)
        later = describe_later_classes(trace, result.model)
        if later:
            screen.print(f"{later[0].lower()}{later[1:-1]}", markup=False)
        estimated = estimated_errors(trace, result.model)
        if estimated is not None:
            screen.print(estimated.describe(shares=bool(trace.labels)))
        if trace.warmup_steps:
            for note in _warmup_notes(trace, result.model):
                screen.print(note)
    if result.label_counts is not None:
        counts = asdict(result.label_counts)
        counts["waiting"] = result.label_counts.waiting
        shown = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count is not None)
        screen.print(f"labels: {shown}")
        if result.label_counts.waiting and result.estimated_error is not None:
            screen.print(f"estimated error of the newest rows: {result.estimated_error.describe()}")
        if result.label_counts.orphan:
            screen.print(f"warning: {orphan_warning(result.label_counts.orphan)}", style="yellow")
    if result.unlabelled_rows:
        screen.print(f"rows without a label: {result.unlabelled_rows:,}; they were predicted and not learned")
    if result.skipped_rows:
        screen.print(f"skipped rows: {result.skipped_rows:,}; they are in {result.folder / 'bad_rows.jsonl'}")
    if len(result.predictions) == 1:
        screen.print(f"predictions: {result.predictions[0]}")
    elif result.predictions:
        first, *_, last = result.predictions
        screen.print(f"predictions: {len(result.predictions):,} files, {first} to {last.name}")
    if not result.no_model:
        screen.print(f"model: {result.folder / 'model.state'}")
    screen.print(f"report: {result.folder / 'report.html'}")
    if not trace.is_empty:
        found = verdict_of(trace, result.model, result.drifts, result.scores)
        screen.print(found.text, style=VERDICT_STYLES[found.status])


def _reactions(result: RunResult, summary: Summary) -> dict[str, int]:
    """Return how often the model reacted, by name."""
    looks = looks_for_drift(result.about, result.decisions)
    return reaction_rows(summary, looks, experts=bool(experts_of(result.decisions)))


def _print_beside_baselines(screen: Console, result: RunResult) -> None:
    """Print the error of the model and of trivial predictions, then the other numbers of the model."""
    trace, model = result.trace, result.model
    trivial = baselines(trace, model, result.scores)
    table = _table("", model, *(BASELINE_NAMES[name] for name in trivial.others))
    for name, own, others in trivial.headline:
        table.add_row(name, own, *others)
    columns, summary = trace.of(model), summarise(trace, model)
    rows = {
        "rows": f"{int(columns['rows'].sum()):,}",
        "steps": f"{len(columns['step']):,}",
        **(_other_errors(summary) | _scores(result, summary) if trivial.learned else {}),
        **{name: str(count) for name, count in _reactions(result, summary).items()},
        **_costs(result, summary),
    }
    for label, value in rows.items():
        table.add_row(label, value, *[""] * len(trivial.others))
    screen.print(table)


def _print_beside_oracle(screen: Console, result: RunResult, oracle: str) -> None:
    """Print the numbers of the model and of the oracle, then the recovery from each known drift."""
    trace = result.trace
    mine, other = (summarise(trace, name, oracle) for name in (result.model, oracle))
    both = [_errors(summary) for summary in (mine, other)]
    costs = [_costs(result, summary) for summary in (mine, other)]
    rows = {
        **{label: [one[label] for one in both] for label in both[0]},
        **{name: [str(count), "-"] for name, count in _reactions(result, mine).items()},
        "false reactions": [str(mine.false_reactions), "-"],
        "steps that test a new model": [percent(mine.share_reactive), "-"],
        **{label: [one[label] for one in costs] for label in costs[0]},
    }
    table = _table("", result.model, f"{oracle} (oracle)")
    for label, values in rows.items():
        table.add_row(label, *values)
    screen.print(table)
    if not trace.labels and trace.drifts:
        screen.print(f"{oracle} starts a fresh model after the first batch of each drift")
    if mine.drift_steps and mine.recovery_by_error is not None:
        drifts = _table("drift at step", "predicts from new rows after", "error within 10 % of the oracle's after")
        times = zip(mine.drift_steps, mine.recovery_by_training, mine.recovery_by_error, strict=True)
        for (first, last), trained, close in times:
            drifts.add_row(str(first) if first == last else f"{first} to {last}", _steps(trained), _steps(close))
        screen.print(drifts)


def _table(*heads: str) -> Table:
    """Return a table whose columns are aligned right, apart from a first one without a head."""
    narrow = console().width < NARROW
    spaced = {"box": None, "padding": (0, 1, 0, 0)} if narrow else {"box": box.SIMPLE}
    table = Table(header_style="bold", pad_edge=False, **spaced)
    for head in heads:
        table.add_column(head, justify="right" if head else "left")
    return table


def _errors(summary: ClassificationSummary | RegressionSummary) -> dict[str, str]:
    """Return all errors of a model by name."""
    if isinstance(summary, ClassificationSummary):
        return {"mean error": f"{summary.mean_error:.4f}", **_other_errors(summary)}
    return {
        "root mean squared error": significant(summary.root_mean_squared_error),
        **_other_errors(summary),
        "skill over the mean target": f"{summary.skill_over_mean:.3f}",
    }


def _other_errors(summary: ClassificationSummary | RegressionSummary) -> dict[str, str]:
    """Return the errors of a model beside its main one; those that are undefined are left out."""
    if isinstance(summary, RegressionSummary):
        return {"mean absolute error": significant(summary.mean_absolute_error)}
    found = {"log loss": (summary.log_loss, 4), "kappa": (summary.kappa, 3)}
    return {name: f"{value:.{digits}f}" for name, (value, digits) in found.items() if not math.isnan(value)}


def _scores(result: RunResult, summary: ClassificationSummary | RegressionSummary) -> dict[str, str]:
    """Return the ROC AUC and the calibration error of classes or the R² of numbers, if they are known."""
    if result.scores is None:
        return {}
    if isinstance(summary, RegressionSummary):
        found = {"R²": result.scores.r_squared(summary.mean_squared_error)}
    else:
        found = {"ROC AUC": result.scores.auc, "calibration error": result.scores.calibration_error()}
    return {name: f"{value:.3f}" for name, value in found.items() if not math.isnan(value)}


def _costs(result: RunResult, summary: Summary) -> dict[str, str]:
    work = result.trace.gradients_per_row(summary.model)
    speed = result.rows_per_second[summary.model]
    return {
        WORK_PER_ROW[work_unit(result.about)]: "-" if math.isnan(work) else f"{work:.2f}",
        "rows/s": f"{speed:,.0f}" if speed else "-",
    }


def _warmup_notes(trace: Trace, model: str) -> Iterator[str]:
    rows = trace.of(model)["rows"]
    if len(rows) > trace.warmup_steps:
        yield "errors leave out the first batch, which was predicted before anything was learned"
    elif int(rows.sum()) > 1:
        yield "there is only one batch (--batch-size), which was predicted before anything was learned"


def _steps(value: int | None) -> str:
    return "not before the next drift" if value is None else counted(value, "step")


MOST_NAMED = 12


def print_columns(summary: ColumnSummary, *, errors: bool = False) -> None:
    """Print a line for each kind of column."""
    screen = console(errors=errors)
    for line in column_lines(summary):
        screen.print(line)


def column_lines(summary: ColumnSummary) -> list[str]:
    """Return a line for each kind of column.

    >>> text = column_lines(ColumnSummary(
    ...     numbers=["price"], booleans=[], dates=["when"], names={"city": 3}, hashed={"shop": 1204}, empty=[],
    ...     features=0, left_out=["id"], label="sold", task="binary", n_classes=2, classes=["no", "yes"],
    ... ))
    >>> print("\\n".join(text))
    numbers   price
    dates     when
    names     city (3), shop (1,204, hashed)
    left out  id
    label     sold: no, yes (2 classes)
    """
    names = [f"{name} ({count:,})" for name, count in summary["names"].items()]
    names += [f"{name} ({count:,}, hashed)" for name, count in summary["hashed"].items()]
    names += [f"{name} (no value yet)" for name in summary["empty"]]
    kinds = {
        "numbers": _joined(summary["numbers"]),
        "booleans": _joined(summary["booleans"]),
        "dates": _joined(summary["dates"]),
        "names": _joined(names),
        "features": optional(summary["features"], f"{summary['features']:,}"),
        "left out": _joined(summary["left_out"]),
        "label": f"{summary['label']}: {_classes(summary)}",
    }
    width = 2 + max(map(len, kinds))
    return [f"{kind:{width}}{text}" for kind, text in kinds.items() if text]


def _joined(names: Sequence[str]) -> str:
    """Return the first names as text, and how many more there are."""
    return in_words(names, most=MOST_NAMED) + optional(len(names) > MOST_NAMED, f" ({len(names):,} in all)")


def _classes(summary: ColumnSummary) -> str:
    """Return the classes of the first batch; more may appear later."""
    count = summary["n_classes"]
    if summary["task"] == "regression" or not count:
        return f"{'numbers' if summary['task'] == 'regression' else 'no label yet'} ({summary['task']})"
    classes = counted(count, "class")
    return classes if count > MOST_NAMED else f"{', '.join(map(str, summary['classes']))} ({classes})"
