"""Every decision of a run in words and numbers, from its journal and its trace."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from driftsurf.decisions import Decision, ModelRecord, Transition, significant
from driftsurf.errors import InputError, OptionError
from driftsurf.evaluation.columns import ColumnMove, clocks_last
from driftsurf.evaluation.lineage import lineages, timeline
from driftsurf.evaluation.records import RunRecord, pinned, read_run
from driftsurf.evaluation.replay import replay, same_decisions
from driftsurf.evaluation.summary import mean_error_of
from driftsurf.journal import Journal

__all__ = ["explain", "explain_decision", "recorded"]

WIDTH = 100
SHOWN_COLUMNS = 4
MOST_MODELS = 40
MOST_REACTIONS = 100


def explain(
    run: str | Path | Journal | Iterable[Decision] | RunRecord,
    *,
    step: int | None = None,
    threshold: float | None = None,
    stable_threshold: float | None = None,
) -> str:
    """Say why a model did what it did.

    Parameters
    ----------
    run
        A run folder or a folder of checkpoints, the ``journal_`` of a model, or decisions.
    step
        Explain this step alone; None explains all of the run.
    threshold, stable_threshold
        Say what other thresholds would have decided, as far as the record determines it.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(random_state=0)
    >>> for X, y in Mixed(n_rows=30_000).batches(1000):
    ...     _ = model.test_then_train(X, y)
    >>> print(explain(model.journal_, step=6))
    step 6, rows 6,000 to 6,999: entered the reactive state, the predicting model changed
      compared   model 0's risk on this batch before learning it, 1.89, with its best so far, 0.43, plus
                 the threshold 0.10
      crossed    by 1.36
      compared   the new model 1's risk on this batch after learning it, 0.47, with the old model 0's,
                 0.67
      apart      by 0.21: the new one is better
      predicted  model 0 (from row 0 on) predicted this batch; model 1 predicts the next one
    """
    record = recorded(run)
    if not record.decisions:
        raise InputError("nothing has been decided yet: there is nothing to explain")
    parts: list[str] = []
    if step is not None:
        place = next((k for k, decision in enumerate(record.decisions) if decision.step == step), None)
        if place is None:
            first, last = record.decisions[0].step, record.decisions[-1].step
            raise OptionError(f"step is {step}; on record are steps {first} to {last}")
        parts.append(explain_decision(record, place))
    elif threshold is None:
        parts += [_overview(record), *_reactions(record), _models(record)]
    if threshold is not None:
        orders = [order.step for order in record.orders]
        answer = replay(record.decisions, threshold, stable_threshold, orders=orders)
        parts.append(textwrap.fill(answer.describe(), WIDTH))
        parts.append(_tolerance(record))
    return "\n\n".join(part for part in parts if part)


def recorded(run: str | Path | Journal | Iterable[Decision] | RunRecord) -> RunRecord:
    """Whatever is given of a run, as its record."""
    if isinstance(run, RunRecord):
        return run
    return read_run(run) if isinstance(run, str | Path) else RunRecord(list(run))


# ---------------------------------------------------------------------------- one step


def explain_decision(record: RunRecord, place: int) -> str:
    """One decision: what was compared, by how much it crossed, who predicted, how the error moved after."""
    decision = record.decisions[place]
    last = decision.first_row + decision.rows - 1
    what = ", ".join(_KINDS[transition.kind] for transition in decision.transitions) or "nothing changed"
    lines = [f"step {decision.step}, rows {decision.first_row:,} to {last:,}: {what}"]
    for transition in decision.transitions:
        lines += _compared(decision, transition)
    if not decision.transitions:
        lines += _uncrossed(decision)
    now = f"model {decision.predicted_by} (from row {decision.trained_from:,} on) predicted this batch"
    then = decision.predicts_next
    follows = "and predicts the next one" if then == decision.predicted_by else f"; model {then} predicts the next one"
    lines.append(_entry("predicted", f"{now}{'' if follows[0] == ';' else ' '}{follows}"))
    lines += _error_moved(record, place)
    moves = [move for move in record.moves if move.step == decision.step]
    if moves:
        lines += _columns_moved(clocks_last(moves, record.moves))
    lines += [_entry("order", order.text) for order in record.orders if order.step == decision.step]
    return "\n".join(lines)


_KINDS = {
    "entered": "entered the reactive state",
    "switched": "switched to the new model",
    "kept": "kept the old model",
    "greedy": "the predicting model changed",
    "reset": "a fresh model",
    "replaced": "the newer model took over",
}


def _compared(decision: Decision, transition: Transition) -> Iterator[str]:
    left, right = transition.left, transition.right
    if transition.kind in ("reset", "replaced"):
        yield _entry("why", transition.why)
        return
    old, new = _pair(decision)
    a, b = _number(left), _number(right)
    if transition.kind == "entered":
        against = (
            "its best so far" if transition.condition == 1 else f"that of the stable model {_id(decision, 'stable')}"
        )
        threshold = "the threshold" if transition.condition == 1 else "the stable threshold"
        yield _entry(
            "compared",
            f"model {old}'s risk on this batch before learning it, {a}, with {against}, {b}, plus {threshold} "
            f"{_number(transition.margin)}",
        )
        if left is not None and right is not None:
            yield _entry("crossed", f"by {_number(left - right - transition.margin)}")
        return
    when = "before learning them" if decision.judge == "prequential" else "after learning them"
    over = f"over the {_steps(transition.over)} of the reactive state, {when}"
    if transition.kind == "greedy":
        before = decision.judge == "prequential" or decision.variant == "authors"
        over = f"on this batch {'before' if before else 'after'} learning it"
    yield _entry("compared", f"the new model {new}'s risk {over}, {a}, with the old model {old}'s, {b}")
    if left is not None and right is not None:
        better = "new" if left < right else "old"
        yield _entry("apart", f"by {_number(abs(left - right))}: the {better} one is better")


def _uncrossed(decision: Decision) -> Iterator[str]:
    """How far the numbers of a quiet step were from changing anything."""
    roles = {record.role: record for record in decision.models}
    model = roles.get("predictive")
    if decision.threshold is None or model is None or model.risk_before is None:
        return
    if decision.state == "reactive":
        of = f"step {decision.reactive_step} of {decision.reactive_length} of a reactive state"
        yield _entry("compared", f"{of}: {_risks(decision.models)}")
        return
    rivals = [("its best so far", model.best_risk, decision.threshold)]
    if "stable" in roles:
        name = f"that of the stable model {roles['stable'].id}"
        rivals.append((name, roles["stable"].risk_before, decision.stable_threshold or 0.0))
    for against, risk, margin in rivals:
        if risk is not None:
            room = risk + margin - model.risk_before
            yield _entry(
                "compared",
                f"model {model.id}'s risk on this batch before learning it, {_number(model.risk_before)}, "
                f"with {against}, {_number(risk)}, plus the threshold {_number(margin)}: {_number(room)} below",
            )


def _risks(models: Sequence[ModelRecord]) -> str:
    """What each model lost on the batch."""
    shown = []
    for record in models:
        before, after = (_number(risk) for risk in (record.risk_before, record.risk_after))
        shown.append(f"{record.role} model {record.id} had risk {before} before learning the batch, {after} after")
    return "; ".join(shown)


def _error_moved(record: RunRecord, place: int) -> Iterator[str]:
    """The error before, at and after a decision that changed something."""
    decision = record.decisions[place]
    if record.trace is None or not decision.transitions:
        return
    run = record.trace.of(record.trace.models[0])
    error = run["error"] if record.trace.labels else run["squared_error"]
    rows, at = run["rows"], int(np.searchsorted(run["first_row"], decision.first_row, side="right")) - 1
    span = decision.reactive_length or 4
    parts = [
        ("in the {} before", max(0, at - span), at),
        ("on this batch", at, at + 1),
        ("in the {} after", at + 1, at + 1 + span),
        ("in the {} after those", at + 1 + span, at + 1 + 3 * span),
    ]
    shown = []
    for words, start, stop in parts:
        weights = rows[start:stop]
        if len(weights):
            mean = float(np.average(error[start:stop], weights=weights))
            text = _number(mean) if record.trace.labels else significant(math.sqrt(mean))
            shown.append(f"{text} {words.format(_steps(len(weights)))}")
    yield _entry("error" if record.trace.labels else "RMSE", ", ".join(shown))


def _columns_moved(moves: Sequence[ColumnMove]) -> Iterator[str]:
    real = [move for move in moves if move.beyond_chance]
    over = f"up to {_steps(moves[0].steps)} before against {moves[0].steps} from here on"
    if not real:
        yield _entry("columns", f"none moved beyond chance ({over})")
        return
    for k, move in enumerate(real[:SHOWN_COLUMNS]):
        yield _entry("columns" if k == 0 else "", move.describe() + (f" ({over})" if k == 0 else ""))


# ---------------------------------------------------------------------------- the whole run


def _overview(record: RunRecord) -> str:
    decisions = record.decisions
    first, last = decisions[0], decisions[-1]
    kinds = [transition.kind for decision in decisions for transition in decision.transitions]
    name = f"{record.trace.stream}: " if record.trace is not None else ""
    lines = [
        f"{name}steps {first.step} to {last.step}, rows {first.first_row:,} to {last.rows_seen - 1:,}, "
        f"{sum(decision.gradients for decision in decisions):,} gradients."
    ]
    if record.trace is not None:
        name, mean = mean_error_of(record.trace, record.trace.models[0])
        lines[0] += f" {name.capitalize()} {(_number if record.trace.labels else significant)(mean)}."
    said = [_count(kinds.count(kind), words) for kind, words in _COUNTED.items() if kind in kinds]
    quiet = "No sign of drift." if record.orders else "No sign of drift: one model throughout."
    lines.append(", ".join(said) + "." if said else quiet)
    if last.threshold is not None:
        lines.append(_tolerance(record))
    lines += [
        f"Before step {order.step} an operator ordered{f' {order.kind}' * bool(order.kind)}: {order.text}."
        for order in record.orders
    ]
    for start, stop in pinned(record.orders):
        until = "on, to this day" if stop is None else f"to {stop - 1}"
        lines.append(f"PINNED from step {start} {until}: it predicted and was scored, and learnt nothing.")
    if record.waiting:
        lines.append(f"Ordered, and not carried out before the next checkpoint: {', '.join(record.waiting)}.")
    return "\n".join(textwrap.fill(line, WIDTH) for line in lines)


_COUNTED = {
    "entered": "sign of drift",
    "switched": "switch to the new model",
    "kept": "time the old one was kept",
    "reset": "fresh start",
    "replaced": "replacement",
}


def _tolerance(record: RunRecord) -> str:
    try:
        low, high = same_decisions(record.decisions)
    except InputError:
        return ""
    until = "on" if math.isinf(high) else f"up to {high:.4g}"
    return f"The same decisions would have come of every threshold from {low:.4g} {until}."


def _reactions(record: RunRecord) -> Iterator[str]:
    """Every decision that changed something, those beyond the first hundred by their number alone."""
    places = [place for place, decision in enumerate(record.decisions) if decision.transitions]
    for place in places[:MOST_REACTIONS]:
        transitions = record.decisions[place].transitions
        minor = all(transition.kind == "greedy" for transition in transitions)
        yield transitions[0].describe() if minor else explain_decision(record, place)
    if len(places) > MOST_REACTIONS:
        yield f"{len(places) - MOST_REACTIONS:,} more steps changed something; ask for one with --step."


def _models(record: RunRecord) -> str:
    models = lineages(record.decisions)
    shown = models[-MOST_MODELS:]
    head = "models (= predicted, - learnt beside)" + (
        f"; the last {MOST_MODELS} of {len(models)}" if len(models) > MOST_MODELS else ""
    )
    lines = [textwrap.fill(model.describe(), WIDTH, initial_indent="  ", subsequent_indent="    ") for model in shown]
    return "\n".join([head, textwrap.indent(timeline(shown), "  "), "", *lines])


# ---------------------------------------------------------------------------- words


def _entry(label: str, text: str) -> str:
    start = f"  {label:9}  "
    return textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False)


def _pair(decision: Decision) -> tuple[str, str]:
    """The old and the new model of a reactive state."""
    return _id(decision, "predictive"), _id(decision, "reactive")


def _id(decision: Decision, role: str) -> str:
    return next((str(record.id) for record in decision.models if record.role == role), "?")


def _number(value: float | None) -> str:
    """Two decimals, or three significant digits of what is smaller or larger."""
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.2f}" if 0.095 <= abs(value) < 1000 or value == 0.0 else significant(value, 3)


def _steps(count: int) -> str:
    return _count(count, "step")


def _count(count: int, what: str) -> str:
    """A number of things, by the name of one; the plural is that of its first word.

    >>> _count(2, "switch to the new model"), _count(1, "step")
    ('2 switches to the new model', '1 step')
    """
    first, space, rest = what.partition(" ")
    ending = "" if count == 1 else "es" if first.endswith("ch") else "s"
    return f"{count:,} {first}{ending}{space}{rest}"
