"""The last change of a model in words, for those who ask while it runs: short, however long it has run."""

from __future__ import annotations

from driftsurf.core.wrapping import wrapped
from driftsurf.errors import InputError
from driftsurf.explanation.belief import experts_of
from driftsurf.explanation.explain import WIDTH, explain_decision
from driftsurf.explanation.lineage import describe_row
from driftsurf.explanation.records import RunRecord
from driftsurf.explanation.told_drifts import describe_verdict
from driftsurf.visible import visible

__all__ = ["explain_last_change"]

MOST_ORDERS = 3
"""Orders after the last change that are named."""


def explain_last_change(record: RunRecord, width: int = WIDTH) -> str:
    """Return the verdict, explain the last step with transitions, and say which model predicts now.

    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(random_state=0)
    >>> for X, y in Mixed(n_rows=30_000).batches(1000):
    ...     _ = model.test_then_train(X, y)
    >>> print(explain_last_change(RunRecord(list(model.journal_))).splitlines()[-1])
    now, after step 29: stable; model ... predicts (trained from row 24,000)
    """
    if not record.decisions:
        raise InputError("the run has no decisions yet, so there is nothing to explain")
    places = [place for place, decision in enumerate(record.decisions) if decision.transitions]
    first, last = record.decisions[0], record.decisions[-1]
    quiet = f"steps {first.step} to {last.step}: nothing changed"
    changed = record.decisions[places[-1]].step if places else first.step - 1
    lines = [describe_verdict(record), "", explain_decision(record, places[-1]) if places else quiet]
    later = [one for one in record.orders if one.step > changed]
    lines += [f"order before step {one.step}: {one.text}" for one in later[-MOST_ORDERS:]]
    lines.append(_now(record))
    return wrapped(visible("\n".join(lines), lines=True), width)


def _now(record: RunRecord) -> str:
    """Describe the state after the last step, and what predicts."""
    last = record.decisions[-1]
    head = f"now, after step {last.step}: {last.describe_state()}"
    names = experts_of([last])
    if names:
        share, name = max((model.weight or 0.0, name) for model, name in zip(last.models, names, strict=True))
        return f"{head}; the expert {name} has the largest share, {share:.2f}"
    since = next((one.first_row for one in last.models if one.id == last.predicts_next), None)
    trained = "" if since is None else f" (trained from {describe_row(since)})"
    return f"{head}; model {last.predicts_next} predicts{trained}"
