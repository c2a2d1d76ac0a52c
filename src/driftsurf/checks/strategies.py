"""Checks that every strategy passes."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftsurf.checks._run import expect, expect_error, expect_same, flat, implements, run, same_state
from driftsurf.checks.learners import CLASSES, COLUMNS, problem
from driftsurf.core.abilities import IncrementallySaved, RowBounded, SinglePredictor, missing_members
from driftsurf.core.contracts import Batch, Learner, Strategy
from driftsurf.core.decisions import Decision
from driftsurf.core.state import resolved
from driftsurf.errors import DriftsurfError, StateError

STEPS, ROWS = 6, 80
LONG_STEPS, LONG_ROWS = 110, 20
SAVED_AT = 7, 57
"""Steps of the longer stream, and those before which it is saved: a rule that acts every n steps, for any n up to 50,
has acted before the second of them and acts again after it."""
SEEDS = 11, 12


def check_strategy(strategy: Strategy) -> None:
    """Raise CheckError unless a strategy implements :class:`driftsurf.core.contracts.Strategy`.

    A strategy that passes can be saved and loaded, resumed from a checkpoint and run per key. The checks that concern
    saved state are skipped if its learner lacks the capability 'exact_state'.

    The checks take up to 110 steps with drifts, fewer if the learner is fitted again on loading. What a rule does
    after that is not seen: choose options with which it acts at least twice before, such as a period of 20 instead of
    200.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.strategies import DriftSurf
    >>> check_strategy(DriftSurf(LogisticRegression()))
    """
    run(strategy, CHECKS)


def n_classes_of(strategy: Any) -> int:
    """Return the number of classes of the simplest task of the strategy's learner."""
    return min(CLASSES[task] for task in strategy.learner.capabilities.tasks)


def batch(strategy: Any, step: int, rows: int = ROWS, drifts: int = STEPS // 2) -> Batch:
    """Return a batch of a linear problem whose labels are inverted every few steps."""
    n_classes = n_classes_of(strategy)
    X, y = problem(n_classes, rows, seed=step)
    if step // drifts % 2:
        y = -y if n_classes == 0 else n_classes - 1.0 - y
    return Batch(X, y, np.ones(rows))


def started(strategy: Any, steps: int = 0, seed: int = SEEDS[0]) -> Any:
    """Return a fresh strategy that has taken some steps."""
    made = strategy.fresh(seed)
    made.check()
    made.begin(COLUMNS, sparse=False, n_classes=n_classes_of(strategy))
    for step in range(steps):
        made.step(batch(strategy, step))
    return made


def restored(strategy: Any, state: dict[str, Any], columns: int = COLUMNS, seed: int = SEEDS[0]) -> Any:
    """Return a fresh strategy that has taken over a state."""
    made = strategy.fresh(seed)
    made.restore(state, columns, sparse=False, n_classes=n_classes_of(strategy))
    return made


def is_exact(strategy: Any) -> bool:
    """Return whether the strategy can be saved exactly."""
    return bool(strategy.learner.capabilities.exact_state)


# ---------------------------------------------------------------------------- parameters


def parameters_rebuild_it(strategy: Any) -> None:
    """``get_params()`` returns the arguments of the constructor, 'learner' and 'seed' among them."""
    params = strategy.get_params(deep=False)
    for name in ("learner", "seed"):
        expect(name in params, f"there is no {name!r} among {', '.join(params)}")
    expect(params["learner"] is strategy.learner, "get_params()['learner'] is not the attribute learner")
    again = type(strategy)(**params).get_params(deep=False)
    changed = [name for name, value in params.items() if again[name] is not value and again[name] != value]
    expect(again.keys() == params.keys() and not changed, f"{params} became {again}")
    expect(strategy.dtype in ("float64", "float32"), f"dtype is {strategy.dtype!r}")


def fresh_changes_only_the_seed(strategy: Any) -> None:
    """``fresh(seed)`` returns a new strategy with that seed and otherwise the same parameters."""
    made = strategy.fresh(SEEDS[1])
    expect(made is not strategy, "fresh() returned the strategy itself")
    found, params = made.get_params(deep=False), strategy.get_params(deep=False)
    expect(found["seed"] == SEEDS[1], f"fresh({SEEDS[1]}) has the seed {found['seed']}")
    changed = [name for name, value in params.items() if found[name] is not value and found[name] != value]
    expect(set(changed) <= {"seed"}, f"fresh() changed {', '.join(changed)}")


def fresh_strategies_are_independent(strategy: Any) -> None:
    """Two strategies from ``fresh()`` share no object but their parameters, and one does not affect the other."""
    one, other = started(strategy, seed=SEEDS[0]), started(strategy, seed=SEEDS[1])
    params = {id(value) for value in one.get_params(deep=False).values()}
    for name in vars(one).keys() & vars(other).keys():
        value = vars(one)[name]
        shared = value is vars(other)[name] and id(value) not in params and not isinstance(value, IMMUTABLE)
        expect(not shared, f"they share {name}={value!r}")
    alone, rows = started(strategy, seed=SEEDS[1]), batch(strategy, 0)
    for step in range(STEPS):
        one.step(batch(strategy, step))
    expect_same(other.scores(rows.X), alone.scores(rows.X), "training one changed the predictions of the other")
    for step in range(STEPS):
        decided = other.step(batch(strategy, step)), alone.step(batch(strategy, step))
        expect(decided[0] == decided[1], f"training one changed the decision of the other at step {step}")


IMMUTABLE = (bool, int, float, str, bytes, tuple, frozenset, type, type(None))


def learner_is_not_changed(strategy: Any) -> None:
    """The learner is a template: using the strategy leaves it unchanged."""
    learner = strategy.learner
    before = repr(learner.get_params(deep=False)), sorted(vars(learner))
    started(strategy, STEPS)
    after = repr(learner.get_params(deep=False)), sorted(vars(learner))
    expect(before == after, f"parameters and attributes were {before} and are {after}")


# ---------------------------------------------------------------------------- learning


def steps_are_decisions(strategy: Any) -> None:
    """``step()`` returns a Decision with the number of the step, its first row and its number of rows."""
    made, row = started(strategy), 0
    for step, rows in enumerate((ROWS, 1, ROWS, 7, ROWS, ROWS)):
        decision = made.step(batch(strategy, step, rows))
        expect(isinstance(decision, Decision), f"step() returned {decision!r}")
        found = decision.step, decision.first_row, decision.rows
        expect(found == (step, row, rows), f"step, first_row and rows are {found}, not {(step, row, rows)}")
        row += rows
    expect(made.nbytes > 0, f"nbytes is {made.nbytes}")


def scores_are_per_row(strategy: Any) -> None:
    """``scores(X)`` and ``test_scores(batch)`` are finite, one entry for each row, before and after learning."""
    made = started(strategy)
    for step in range(STEPS):
        rows = batch(strategy, step)
        for name, scores in (("scores", made.scores(rows.X)), ("test_scores", made.test_scores(rows))):
            expect(len(scores) == ROWS, f"{name} of {ROWS} rows has the shape {scores.shape}")
            expect(bool(np.isfinite(scores).all()), f"{name} at step {step} is not finite")
        made.step(rows)


def prediction_changes_nothing(strategy: Any) -> None:
    """Predicting between steps does not affect later steps."""
    silent, asked = started(strategy), started(strategy)
    for step in range(STEPS):
        rows = batch(strategy, step)
        asked.scores(rows.X)
        asked.test_scores(rows)
        silent.step(rows)
        asked.step(rows)
        expect_same(silent.scores(rows.X), asked.scores(rows.X), f"after step {step} the predictions differ")


def tested_scores_may_be_passed(strategy: Any) -> None:
    """``step(batch, tested)`` with the result of ``test_scores()`` decides as ``step(batch)`` does."""
    one, other = started(strategy), started(strategy)
    for step in range(STEPS):
        rows = batch(strategy, step)
        decided = one.step(rows), other.step(rows, other.test_scores(rows))
        expect(decided[0] == decided[1], f"at step {step}: {decided[0]} and {decided[1]}")


def failed_steps_change_nothing(strategy: Any) -> None:
    """A step that fails leaves everything unchanged."""
    made, spared = started(strategy, 2), started(strategy, 2)
    rows = batch(strategy, 2)
    wide = rows._replace(X=np.ones((ROWS, COLUMNS + 1)))
    try:
        made.step(wide)
    except (DriftsurfError, ValueError):
        pass
    else:
        raise AssertionError(f"rows with {COLUMNS + 1} columns instead of {COLUMNS} were accepted")
    if is_exact(strategy):
        expect(same_state(flat(made.state()), flat(spared.state())), "the state differs")
    decided = made.step(rows), spared.step(rows)
    expect(decided[0] == decided[1], "the next decision differs")
    expect_same(made.scores(rows.X), spared.scores(rows.X), "later predictions differ")


def it_can_be_reset(strategy: Any) -> None:
    """``reset(why)`` returns a transition with the reason, and the next step continues the count."""
    made = started(strategy, 3)
    transition = made.reset("a test asks")
    expect(transition.why == "a test asks", f"the reason became {transition.why!r}")
    decision = made.step(batch(strategy, 3))
    expect(decision.step == 3, f"the step after step 2 is {decision.step}")


def predicting_model_predicts(strategy: Any) -> None:
    """``predicting``, if there is one, is the learner whose scores the strategy returns, or None."""
    for steps in range(STEPS):
        made = started(strategy, steps)
        if missing_members(made, SinglePredictor) or made.predicting is None:
            return
        missing = missing_members(made.predicting, Learner)
        expect(not missing, f"it is {made.predicting!r}, which has no {', '.join(missing)}")
        X = batch(strategy, steps).X
        expect_same(made.predicting.scores(X), made.scores(X), f"after {steps} steps it predicts differently")


def rows_are_bounded(strategy: Any) -> None:
    """``max_rows``, if there is one, is a positive integer or None."""
    if isinstance(strategy, RowBounded):
        bound = strategy.max_rows
        expect(bound is None or (isinstance(bound, int) and bound >= 1), f"it is {bound!r}")


# ---------------------------------------------------------------------------- state


def state_is_exact(strategy: Any) -> None:
    """A strategy that takes over a state continues bit for bit, whatever its own seed."""
    if not is_exact(strategy):
        return
    for taken in range(STEPS):
        made = started(strategy, taken)
        state = flat(made.state())
        again = restored(strategy, state, seed=SEEDS[1])
        expect(same_state(flat(again.state()), state), f"restored after {taken} steps, the state differs")
        for step in range(taken, STEPS):
            decided = made.step(batch(strategy, step)), again.step(batch(strategy, step))
            expect(decided[0] == decided[1], f"restored after {taken} steps, the decision of step {step} differs")
        expect(same_state(flat(made.state()), flat(again.state())), f"restored after {taken} steps, the end differs")


def state_is_exact_over_many_steps(strategy: Any) -> None:
    """A strategy that takes over a state decides as the saved one does, for dozens of steps with several drifts."""
    if not is_exact(strategy) or strategy.learner.capabilities.state_kind != "arrays":
        return  # a learner that is fitted again at every step would take minutes, and the rule is the same
    batches = [batch(strategy, step, LONG_ROWS, drifts=LONG_STEPS // 5) for step in range(LONG_STEPS)]
    made, states, decisions = started(strategy), dict[int, dict[str, Any]](), []
    for step, rows in enumerate(batches):
        if step in SAVED_AT:
            states[step] = flat(made.state())
        decisions.append(made.step(rows))
    end = flat(made.state())
    for taken, state in states.items():
        again = restored(strategy, state, seed=SEEDS[1])
        for step in range(taken, LONG_STEPS):
            decided = again.step(batches[step])
            expect(decided == decisions[step], f"restored after {taken} steps, the decision of step {step} differs")
        expect(same_state(flat(again.state()), end), f"restored after {taken} steps, the end differs")


def state_of_other_rows_is_refused(strategy: Any) -> None:
    """``restore()`` raises StateError if the state is for rows with another number of columns."""
    if not is_exact(strategy):
        return
    state = flat(started(strategy, 2).state())
    wider = COLUMNS + 1
    expect_error(StateError, lambda: restored(strategy, state, wider), f"restore() for {wider} columns")


def incremental_state_is_the_state(strategy: Any) -> None:
    """``incremental_state()``, if there is one, has the entries of ``state()``."""
    made = started(strategy, 3)
    if not missing_members(made, IncrementallySaved) and is_exact(strategy):
        expect(same_state(resolved(made.incremental_state()), flat(made.state())), "the entries differ")


CHECKS = (
    implements(Strategy, "strategy"),
    parameters_rebuild_it,
    fresh_changes_only_the_seed,
    fresh_strategies_are_independent,
    steps_are_decisions,
    scores_are_per_row,
    prediction_changes_nothing,
    tested_scores_may_be_passed,
    learner_is_not_changed,
    failed_steps_change_nothing,
    state_is_exact,
    state_is_exact_over_many_steps,
    state_of_other_rows_is_refused,
    incremental_state_is_the_state,
    it_can_be_reset,
    predicting_model_predicts,
    rows_are_bounded,
)
