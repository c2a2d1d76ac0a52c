"""Explanations of the decisions of a run, in words and numbers, from its journal and its trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from driftsurf.core.decisions import (
    TOLD,
    TRANSITION_WORDS,
    Decision,
    ModelRecord,
    Transition,
    alike,
    describe_alike,
    merged_kinds,
    phrase_of,
    plain_expert,
    transition_noun,
)
from driftsurf.core.drifts import Drift
from driftsurf.core.journal import Journal
from driftsurf.core.wording import counted, optional, significant, wrapped
from driftsurf.errors import InputError, Option, OptionError
from driftsurf.errors.visible import visible
from driftsurf.evaluation.column_moves import ColumnMove, name_counters, without_counters
from driftsurf.evaluation.metrics import mean_error
from driftsurf.evaluation.summary import mean_error_of, verdict_of
from driftsurf.registry import register
from driftsurf.runs.explanation.lineage import (
    LEAST_SHARE,
    TURNED,
    describe_beliefs,
    describe_models,
    describe_reacting,
    describe_row,
    experts_of,
    lineages,
)
from driftsurf.runs.explanation.records import (
    BEGAN_REACTIVE,
    RunRecord,
    begins_reactive,
    looks_for_drift,
    pinned,
    read_run,
)
from driftsurf.runs.explanation.replay import describe_tolerance, replay, share_of
from driftsurf.runs.folder import WORK, work_unit

WIDTH = 100
"""Number of characters in a line of text."""
SHOWN_COLUMNS = 4
"""Largest number of changed columns listed for a step."""
MOST_BELIEFS = 20
"""Largest number of changes of the expert that was trusted most."""
MOST_REACTIONS = 100
"""Largest number of steps explained for a run."""
ROLES = {"predictive": "old", "reactive": "new"}
"""Names of the models of a reactive state in explanations, by their role."""


@register("page", "explanation")
def explain(
    run: str | Path | Journal | Iterable[Decision] | RunRecord,
    *,
    step: int | None = None,
    threshold: float | None = None,
    stable_threshold: float | None = None,
    width: int = WIDTH,
) -> str:
    """Explain why a model reacted, switched or stayed the same.

    Parameters
    ----------
    run
        A run folder, a folder of checkpoints, the ``journal_`` of a model, or a list of decisions.
    step
        Step to explain; None explains the whole run.
    threshold, stable_threshold
        Thresholds to replay: also explain what the run would have decided with them, as far as its record shows.
    width
        Number of characters in a line.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import Mixed
    >>> model = DriftSurfClassifier(random_state=0)
    >>> for X, y in Mixed(n_rows=30_000).batches(1000):
    ...     _ = model.test_then_train(X, y)
    >>> print(explain(model.journal_, step=6))
    step 6, rows 6,000 to 6,999: began to test a new model, the new model predicts
      compared   before learning this batch, model 0 had risk 1.89; the limit was its best risk so far,
                 0.43, plus the threshold, 0.10
      crossed    the risk exceeded the limit by 1.36
      compared   after learning this batch, the new model 1 had risk 0.47 and the old model 0 had risk 0.67
      better     the new model, by 0.21
      predicted  model 0 (trained from row 0) predicted this batch; model 1 predicts the next one
    """
    record = recorded(run)
    if not record.decisions:
        raise InputError("the run has no decisions yet, so there is nothing to explain")
    parts: list[str] = []
    if step is not None:
        place = next((k for k, decision in enumerate(record.decisions) if decision.step == step), None)
        if place is None:
            first, last = record.decisions[0].step, record.decisions[-1].step
            raise OptionError(Option("step"), f" is {step}; the recorded steps are {first} to {last}")
        parts.append(explain_decision(record, place))
    elif threshold is None:
        believed = "\n".join(describe_beliefs(record.decisions, MOST_BELIEFS))
        parts += [describe_verdict(record), "\n".join(describe_drifts(record)), "\n".join(describe_changes(record))]
        parts += [_overview(record), believed]
        reactions = list(_reactions(record))
        parts += [*["reactions and switches"] * bool(reactions), *reactions, _models(record, width)]
    if threshold is not None:
        orders = [order.step for order in record.orders if order.outcome == "done"]
        answer = replay(record.decisions, threshold, stable_threshold, orders=orders)
        parts.append(answer.describe())
        parts.append(describe_tolerance(record.decisions))
    return wrapped(visible("\n\n".join(part for part in parts if part), lines=True), width)


def recorded(run: str | Path | Journal | Iterable[Decision] | RunRecord) -> RunRecord:
    """Return the record of a run that is given as a path, a journal, decisions, or a record."""
    if isinstance(run, RunRecord):
        return run
    return read_run(run) if isinstance(run, str | Path) else RunRecord(list(run))


# ---------------------------------------------------------------------------- one step


def explain_decision(record: RunRecord, place: int) -> str:
    """Explain the decision at this place of the record.

    The text names the compared risks, the model that predicted, the error before and after, the columns that changed
    and the orders of an operator.
    """
    decision = record.decisions[place]
    last = decision.first_row + decision.rows - 1
    what = ", ".join(map(phrase_of, alike(decision.transitions))) or "nothing changed"
    lines = [f"step {decision.step}, rows {decision.first_row:,} to {last:,}: {what}"]
    for transition in decision.transitions:
        lines += _compared(decision, transition)
    if not decision.transitions:
        lines += _not_crossed(decision)
    names = experts_of([decision])
    if decision.reacting:
        lines.append(
            _entry("reacting", f"{decision.describe_state()}: {'; '.join(map(plain_expert, decision.reacting))}")
        )
    if names:
        lines += _believed(record, place, names)
    else:
        lines.append(_entry("predicted", _predicted_late(record, decision) if record.late else _predicted(decision)))
    lines += _error_moved(record, place)
    moves = [move for move in record.moves if move.step == decision.step]
    if moves:
        lines += _columns_moved(*without_counters(moves, record.moves), moves[0].steps)
    lines += [_entry("order", order.text) for order in record.orders if order.step == decision.step]
    return "\n".join(lines)


def _believed(record: RunRecord, place: int, names: Sequence[str]) -> Iterator[str]:
    """Yield the share of each expert that has one before or after a batch, and its loss on the batch."""
    decision = record.decisions[place]
    before = record.decisions[place - 1].models if place else ()
    by_share = sorted(range(len(names)), key=lambda k: -(decision.models[k].weight or 0.0))
    for number, k in enumerate(by_share):
        model, share = decision.models[k], decision.models[k].weight or 0.0
        former = (before[k].weight or 0.0) if len(before) == len(names) else share
        if max(share, former) < LEAST_SHARE:
            continue
        was = f"{former:.2f} before, " if len(before) == len(names) else ""
        text = f"{names[k]}: {was}{share:.2f} after this batch, on which its loss was {_number(model.risk_before)}"
        yield _entry("shares" if number == 0 else "", text)
    if decision.turned:
        yield _entry("turned", f"the portfolio was {TURNED}, and the weights went to experts with a new model")


def _predicted(decision: Decision) -> str:
    """Describe which model predicted a batch, and which one predicts the next."""
    now = f"{_model(decision.predicted_by, decision.trained_from)} predicted this batch"
    following = decision.predicts_next
    same = following == decision.predicted_by
    return now + (" and predicts the next one" if same else f"; model {following} predicts the next one")


def _predicted_late(record: RunRecord, decision: Decision) -> str:
    """Describe which model had predicted the rows of a batch whose labels came late, and which one predicts now."""
    in_use = f"model {decision.predicted_by} was in use when the labels came"
    following = f"model {decision.predicts_next} predicts the rows that come next"
    trace = record.trace
    run = {} if trace is None else {name: column.tolist() for name, column in trace.of(trace.models[0]).items()}
    place = run["step"].index(decision.step) if decision.step in run.get("step", ()) else None
    if place is None or not run["rows"][place]:
        return f"no row of this batch had a prediction; {in_use}; {following}"
    oldest, newest = run["oldest_version"][place], run["newest_version"][place]
    versions = f"version {newest}" if oldest == newest else f"versions {oldest} to {newest}"
    who = _model(run["predicted_by"][place], run["trained_from"][place])
    share = f"predicted {'this batch' if oldest == newest else 'most of this batch'} when its rows came ({versions})"
    return f"{who} {share}; {in_use}; {following}"


def _model(number: int, trained_from: int) -> str:
    return f"model {number} (trained from {describe_row(trained_from)})"


def _compared(decision: Decision, transition: Transition) -> Iterator[str]:
    """Yield the risks that a transition compared, and by how much they differed."""
    left, right = transition.left, transition.right
    if transition.expert:
        yield _entry("expert", plain_expert(transition.expert))
    if transition.kind in TOLD:
        yield _entry("why", transition.why)
        return
    old, new = _pair(decision, transition)
    if transition.kind == "entered":
        stable = None if transition.condition == 1 else _id(decision, "stable", transition.expert)
        usual = decision.significance is not None
        yield _entry("compared", _limit(old, left, right, _threshold(transition.margin, decision), stable, usual))
        if left is not None and right is not None:
            yield _entry("crossed", f"the risk exceeded the limit by {_number(left - right - transition.margin)}")
        return
    if transition.kind == "greedy" and transition.over == 1:
        before = decision.judge == "prequential" or decision.variant == "authors"
        batches = "this batch"
    else:
        before = decision.judge == "prequential"
        batches = f"{'one step' if transition.over == 1 else f'the {_steps(transition.over)}'} of the test"
    a, b = _pair_of_numbers(left, right)
    when = "over" if decision.judge is None else "before learning" if before else "after learning"
    yield _entry("compared", f"{when} {batches}, the new model {new} had risk {a} and the old model {old} had risk {b}")
    if left is not None and right is not None:
        better = "new" if left < right else "old"
        needed = f"; it needed {_number(-transition.margin)}" if better == "new" and transition.margin else ""
        if needed and decision.significance is not None and transition.over > 1:
            chance = optional(transition.kind == "kept", " so that it may be chance")
            error = _number(decision.lead_error)
            needed += f", {decision.significance:g} times the standard error of its lead, {error},{chance}".rstrip(",")
        yield _entry("better", f"the {better} model, by {_number(abs(left - right))}{needed}")
    if transition.absent >= 0:
        yield _entry("absent", f"the new model {new} has not seen class {transition.why or transition.absent} yet")


def _limit(
    model: int | str, risk: float | None, best: float | None, margin: str, stable: int | str | None, usual: bool
) -> str:
    """Describe the risk of a model and the limit above which a reactive state begins.

    The limit is the model's best, or ``usual``, risk so far plus the threshold, or the risk of the stable model plus
    its threshold.
    """
    own = "its usual risk" if usual else "its best risk so far"
    reference = own if stable is None else f"the risk of its reference, the stable model {stable}".removesuffix(" ?")
    threshold = "the threshold" if stable is None else "the stable threshold"
    return (
        f"before learning this batch, model {model} had risk {_number(risk)}; the limit was {reference}, "
        f"{_number(best)}, plus {threshold}, {margin}"
    )


def _threshold(margin: float, decision: Decision) -> str:
    """Describe a threshold in the unit of the option: a risk, or a share of the risk unit."""
    if decision.risk_unit is None:
        return _number(margin)
    return f"{_number(share_of(margin, decision.risk_unit))} times the risk unit, {_number(decision.risk_unit)}"


def _not_crossed(decision: Decision) -> Iterator[str]:
    """Yield the risks of a step without transitions, and how far they were below their limits."""
    roles = {record.role: record for record in decision.models}
    model = roles.get("predictive")
    if decision.threshold is None or model is None or model.risk_before is None:
        return
    if decision.state == "reactive":
        where = f"step {decision.reactive_step} of {decision.reactive_length} of the test of a new model"
        yield _entry("compared", f"{where}: {_risks(decision.models)}")
        return
    limits: list[tuple[int | None, float | None, float]] = [(None, model.best_risk, decision.threshold)]
    if "stable" in roles:
        stable = roles["stable"]
        limits.append((stable.id, stable.risk_before, decision.stable_threshold or 0.0))
    for stable_id, risk, margin in limits:
        if risk is not None:
            usual = decision.significance is not None
            text = _limit(model.id, model.risk_before, risk, _threshold(margin, decision), stable_id, usual)
            room = risk + margin - model.risk_before
            yield _entry("compared", f"{text}; the risk was {_number(room)} below the limit")


def _risks(models: Sequence[ModelRecord]) -> str:
    """Describe the risk of each model on the batch, before and after learning it."""
    shown = []
    for record in models:
        after = "" if record.risk_after is None else f", {_number(record.risk_after)} after"
        role = ROLES.get(record.role, record.role)
        before = _number(record.risk_before)
        shown.append(f"the {role} model {record.id} had risk {before} before learning the batch{after}")
    return "; ".join(shown)


def _error_moved(record: RunRecord, place: int) -> Iterator[str]:
    """Yield the mean error before, at and after a decision with transitions."""
    decision = record.decisions[place]
    steps = record.steps
    if record.trace is None or steps is None or not decision.transitions:
        return
    run = record.trace.of(record.trace.models[0])
    error = run["error"] if record.trace.labels else run["squared_error"]
    rows, at = run["rows"], int(steps.of_decision(decision))
    span = decision.reactive_length or 4
    parts = [
        ("in the {} before", max(0, at - span), at),
        ("on this batch", at, at + 1),
        ("in the {} after", at + 1, at + 1 + span),
        ("in the next {}", at + 1 + span, at + 1 + 3 * span),
    ]
    shown = []
    for words, start, stop in parts:
        weights = rows[start:stop]
        if weights.any():
            mean = mean_error(error[start:stop], weights)
            text = _number(mean) if record.trace.labels else significant(math.sqrt(mean))
            span_words = "step" if len(weights) == 1 else _steps(len(weights))
            shown.append(f"{text} {words.format(span_words)}")
    yield _entry("error" if record.trace.labels else "RMSE", ", ".join(shown))


def _columns_moved(moves: Sequence[ColumnMove], counters: Sequence[ColumnMove], steps: int) -> Iterator[str]:
    """Yield the columns that changed most at a step, if any changed more than by chance."""
    real = [move for move in moves if move.beyond_chance]
    over = f"up to {_steps(steps)} before this step compared with the {steps} from it on"
    headed = bool(real) and not real[0].calendar
    if not headed:
        yield _entry("columns", f"no column{' but the calendar' * bool(real)} changed more than by chance ({over})")
    for k, move in enumerate(real[:SHOWN_COLUMNS]):
        head = headed and k == 0
        yield _entry("columns" if head else "", move.describe() + f" ({over})" * head)
    if counters:
        yield _entry("", name_counters(counters))


# ---------------------------------------------------------------------------- the whole run


def _overview(record: RunRecord) -> str:
    """Summarise a run: its steps and error, the counts of transitions, the thresholds that fit, and the orders."""
    decisions = record.decisions
    first, last = decisions[0], decisions[-1]
    kinds = list(merged_kinds(decisions))
    gradients = f"{sum(decision.gradients for decision in decisions):,} {WORK[work_unit(record.about)]}."
    lines = [f"steps {first.step} to {last.step}, rows {first.first_row:,} to {last.rows_seen - 1:,}, {gradients}"]
    if record.trace is not None:
        run = record.trace.of(record.trace.models[0])
        name, mean = mean_error_of(record.trace, record.trace.models[0])
        shown = f"{mean:.4f}" if record.trace.labels else significant(mean)
        counts = f"{_steps(len(run['step']))}, {int(run['rows'].sum()):,} rows, {gradients}"
        lines = [f"{visible(record.trace.stream)}: {counts} {name.capitalize()} {shown}."]
    counted = ((kind, kinds.count(kind)) for kind in TRANSITION_WORDS if kind != "greedy" and kind in kinds)
    totals = [f"{count:,} {transition_noun(kind, count)}" for kind, count in counted]
    began = begins_reactive(decisions)
    alone = "" if record.orders or began else ": one model was used for the whole run"
    quiet = f"No {'new ' * began}reaction{alone}"
    if totals or began or looks_for_drift(record.about, decisions):
        lines.append(f"{', '.join(totals) or quiet}.")
    lines += describe_reacting(decisions)
    if began:
        lines.append(BEGAN_REACTIVE)
    if last.threshold is not None:
        lines.append(describe_tolerance(record.decisions))
    for order in record.orders:
        outcome = " (refused)" if order.outcome == "refused" else ""
        lines.append(f"Operator order before step {order.step}: {order.kind}{outcome}; {order.text}.")
    for start, stop in pinned(record.orders):
        until = "until the end" if stop is None else f"to step {stop - 1}"
        lines.append(f"PINNED from step {start} {until}: the model predicted and was scored, but did not learn.")
    if record.waiting:
        lines.append(f"Orders waiting for the next checkpoint: {', '.join(record.waiting)}.")
    return "\n".join(lines)


def _reactions(record: RunRecord) -> Iterator[str]:
    """Yield explanations of the first decisions with transitions, and the number of the others."""
    places = [place for place, decision in enumerate(record.decisions) if decision.transitions]
    for place in places[:MOST_REACTIONS]:
        transitions = record.decisions[place].transitions
        minor = all(transition.kind == "greedy" for transition in transitions)
        short = "\n".join(map(describe_alike, alike(transitions))) if minor else ""
        yield short or explain_decision(record, place)
    if len(places) > MOST_REACTIONS:
        yield f"{len(places) - MOST_REACTIONS:,} more steps with transitions are not shown; choose one with --step."


def _models(record: RunRecord, width: int) -> str:
    """Draw the timeline of the last models, and describe each of them."""
    trace = record.trace
    late = None if trace is None else trace.late_predictors(trace.models[0])
    return describe_models(lineages(record.decisions, late), min(60, max(10, width - 15)))


# ---------------------------------------------------------------------------- words


def _entry(label: str, text: str) -> str:
    """Return an indented entry of an explanation: a label, and the text beside it."""
    return f"  {label:9}  {visible(text)}"


def _pair(decision: Decision, transition: Transition) -> tuple[str, str]:
    """Return the ids of the old and the new model of a reactive state.

    A portfolio does not record the role of the model that an expert predicts with. The newer one has the larger id.
    """
    if not experts_of([decision]):
        return _id(decision, "predictive"), _id(decision, "reactive")
    ids = sorted((transition.old, transition.new))
    return str(ids[0]), str(ids[1])


def _id(decision: Decision, role: str, expert: str = "") -> str:
    """Return the id of the model with this role, or "?" if the decision has none."""
    models = (record for record in (*decision.models, *decision.others) if record.name == expert)
    return next((str(record.id) for record in models if record.role == role), "?")


def _number(value: float | None) -> str:
    """Format a number with two decimals; small and large ones with three significant digits."""
    if value is None or math.isnan(value):
        return "unknown"
    return f"{value:.2f}" if 0.095 <= abs(value) < 1000 or value == 0.0 else significant(value, 3)


def _pair_of_numbers(left: float | None, right: float | None) -> tuple[str, str]:
    """Format two numbers that are compared, with more digits if they would look the same.

    >>> _pair_of_numbers(0.3952, 0.3981), _pair_of_numbers(0.36, 0.54), _pair_of_numbers(0.4, 0.4)
    (('0.395', '0.398'), ('0.36', '0.54'), ('0.40', '0.40'))
    """
    shown = _number(left), _number(right)
    if left is None or right is None or left == right or shown[0] != shown[1]:
        return shown
    pairs = ((significant(left, digits), significant(right, digits)) for digits in range(3, 18))
    return next((pair for pair in pairs if pair[0] != pair[1]), shown)


def _steps(count: int) -> str:
    return counted(count, "step")


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


MOST_DRIFTS = 50
"""Drifts, and moves of the inputs, that are listed at most: the newest ones."""


def describe_verdict(record: RunRecord) -> str:
    """Return whether the data drifted and, if the trace is known, how good the model is."""
    if record.trace is None:
        return record.drifts.describe() or f"No drift in {record.decisions[-1].rows_seen:,} rows."
    return verdict_of(record.trace, record.trace.models[0], record.drifts, record.scores).text


def describe_drifts(record: RunRecord) -> Iterator[str]:
    """Yield a heading and a line for each drift, with its cause and its evidence; nothing if there was none."""
    drifts = record.drifts
    if drifts:
        cut = f" (the last {MOST_DRIFTS} of {len(drifts)})" if len(drifts) > MOST_DRIFTS else ""
        yield f"drifts{cut}"
        for one in drifts[-MOST_DRIFTS:]:
            yield f"  drift {one.number}: {one.describe()} {_how_detected(one)}"


def describe_changes(record: RunRecord) -> Iterator[str]:
    """Yield a heading and a line for each move of the inputs that did no harm; nothing if there was none."""
    changes = record.changes
    if changes:
        cut = f" (the last {MOST_DRIFTS} of {len(changes)})" if len(changes) > MOST_DRIFTS else ""
        yield f"inputs that moved without harm{cut}"
        yield from (f"  {one.describe()}" for one in changes[-MOST_DRIFTS:])


def _how_detected(drift: Drift) -> str:
    found = f"It was detected at row {drift.detected_at_row:,}"
    found += f", with {drift.evidence_text} to 1 against chance" if drift.evidence > 1 else ""
    return f"{found}{f', and is marked as {drift.mark}' if drift.mark else ''}."
