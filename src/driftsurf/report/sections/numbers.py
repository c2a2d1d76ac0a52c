"""All numbers of a run: errors beside those of predictions that need no model, reactions, and work."""

from __future__ import annotations

import math
from collections.abc import Iterator

from driftsurf.core.wording import BASELINE_NAMES, BASELINE_WORDS, percent, significant
from driftsurf.errors.visible import escape
from driftsurf.evaluation.summary import (
    ClassificationSummary,
    Summary,
    class_metrics,
    summarise_classification,
    summarise_regression,
)
from driftsurf.report import html
from driftsurf.report.sections import RunView, Section
from driftsurf.runs.explanation.lineage import experts_of
from driftsurf.runs.folder import WORK_PER_ROW


def build(run: RunView) -> Iterator[str]:
    """Return the table of errors, and the numbers that do not stand at the top of the page."""
    trivial = run.trivial
    rows = [(escape(run.model), trivial.number(trivial.own), "")]
    rows += [
        (
            f'{BASELINE_NAMES[name]}<span class="meaning">{BASELINE_WORDS[name]}</span>',
            trivial.number(error),
            _difference(trivial.own, error),
        )
        for name, error in trivial.others.items()
    ]
    yield html.wide_table(("prediction", trivial.measure, "the model is"), rows, numbers=(1, 2))
    yield html.cards(_others(run))


def _difference(own: float, other: float) -> str:
    """Return by how much the error of the model is smaller or larger than another one."""
    if own == other or not other:
        return "equally good" if own == other else "worse"
    return f"{percent(abs(1.0 - own / other))} {'better' if own < other else 'worse'}"


def main_numbers(run: RunView) -> Iterator[tuple[str, str]]:
    """Yield the few numbers that stand at the top of the page."""
    summary, trace, oracle, trivial = run.summary, run.trace, run.oracle, run.trivial
    classes = isinstance(summary, ClassificationSummary)
    *rare, (measure, error, _) = trivial.headline
    for name, own, (majority, *_) in rare:
        yield name if majority == "-" else f"{name}; of the most frequent class {majority}", own
    yield measure, error
    if not trivial.learned:
        return
    if oracle is not None:
        yield (
            f"{oracle} (oracle)",
            f"{summarise_classification(trace, oracle).mean_error:.4f}"
            if classes
            else significant(summarise_regression(trace, oracle).root_mean_squared_error),
        )
    if trivial.others:
        name = min(trivial.others, key=trivial.others.__getitem__)
        yield f"{trivial.measure} when {BASELINE_WORDS[name]}", trivial.number(trivial.others[name])
    if not isinstance(summary, ClassificationSummary):
        yield "mean absolute error", significant(summary.mean_absolute_error)
        if run.scores is not None and not math.isnan(r2 := run.scores.r_squared(summary.mean_squared_error)):
            yield "R²", f"{r2:.3f}"
        return
    if trivial.rare is not None:
        return
    if run.scores is not None and not math.isnan(run.scores.auc):
        yield "ROC AUC", f"{run.scores.auc:.3f}"
    if run.positive is not None and f"wrong:{run.positive}" in trace.columns:
        yield f"F1 of class {run.positive}", f"{class_metrics(trace, run.model)[run.positive].f1:.3f}"


def _others(run: RunView) -> Iterator[tuple[str, str]]:
    summary = run.summary
    if not run.trivial.learned:
        return
    if isinstance(summary, ClassificationSummary):
        if run.trivial.rare is not None and run.scores is not None and not math.isnan(run.scores.auc):
            yield "ROC AUC", f"{run.scores.auc:.3f}"
        if not math.isnan(summary.kappa):  # it is undefined where classes are counted together
            yield "kappa", f"{summary.kappa:.3f}"
    else:
        yield "skill over the mean", f"{summary.skill_over_mean:.3f}"
        yield "skill over repeating the last label", f"{summary.skill:.3f}"
    for name, count in reaction_rows(summary, run.looks_for_drift, experts=bool(experts_of(run.decisions))).items():
        yield name, str(count)
        if name.startswith("reactions") and summary.false_reactions is not None:
            yield "false reactions", str(summary.false_reactions)
    if run.looks_for_drift == "thresholds":
        yield "steps that test a new model", percent(summary.share_reactive)
    if not math.isnan(work := run.trace.gradients_per_row(summary.model)):
        yield WORK_PER_ROW[run.work], f"{work:.2f}"


def reaction_rows(summary: Summary, looks_for_drift: str, *, experts: bool) -> dict[str, int]:
    """Return how often a model reacted, by name: what the detection of drift can lead to, and what happened.

    ``looks_for_drift`` is what :func:`~driftsurf.runs.explanation.records.looks_for_drift` returns. With ``experts`` it
    is a portfolio, and the names say that its experts did it.
    """
    by = " by experts" if experts else ""
    both, fresh = (
        looks_for_drift == "thresholds" or summary.reactions > 0,
        looks_for_drift == "detector" or summary.fresh_starts > 0,
    )
    rows = {f"reactions{by}": summary.reactions} if both else {}
    rows |= {f"switches to a new model{by}": summary.switches} if both or summary.switches else {}
    return rows | ({f"fresh starts{by}": summary.fresh_starts} if fresh else {})


SECTION = Section("All numbers", 16, build)
