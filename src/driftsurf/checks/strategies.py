"""What every strategy has to do."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from driftsurf.base import Batch, Strategy
from driftsurf.checks._run import expect, expect_same, flat, run, same_state
from driftsurf.checks.learners import CLASSES, COLUMNS, problem
from driftsurf.decisions import Decision
from driftsurf.errors import DriftsurfError

__all__ = ["check_strategy"]

STEPS, ROWS = 6, 80


def check_strategy(strategy: Strategy) -> None:
    """Raise CheckError unless ``strategy`` does what :class:`driftsurf.base.Strategy` says.

    Examples
    --------
    >>> from driftsurf.learners import LogisticRegression
    >>> from driftsurf.strategies import DriftSurf
    >>> check_strategy(DriftSurf(LogisticRegression()))
    """
    run(strategy, CHECKS)


def least_classes(strategy: Any) -> int:
    """For the simplest task of its learner."""
    return min(CLASSES[task] for task in strategy.learner.capabilities.tasks)


def batch(strategy: Any, step: int, rows: int = ROWS) -> Batch:
    """Rows of a linear rule; from the fourth step on the labels are turned around."""
    n_classes = least_classes(strategy)
    X, y = problem(n_classes, rows, seed=step)
    if step >= STEPS // 2:
        y = -y if n_classes == 0 else n_classes - 1.0 - y
    return Batch(X, y, np.ones(rows))


def begun(strategy: Any, steps: int = 0) -> Any:
    """A copy that has taken so many steps."""
    made = copy.deepcopy(strategy)
    made.check()
    made.begin(COLUMNS, sparse=False, n_classes=least_classes(strategy))
    for step in range(steps):
        made.step(batch(strategy, step))
    return made


def exact(strategy: Any) -> bool:
    """Whether it can be saved."""
    return bool(strategy.learner.capabilities.exact_state)


# ---------------------------------------------------------------------------- the checks


def steps_are_decisions(strategy: Any) -> None:
    """step() returns the Decision of this step: its number, its rows, which model predicted, which will."""
    made, row = begun(strategy), 0
    for step, rows in enumerate((ROWS, 1, ROWS, 7, ROWS, ROWS)):
        decision = made.step(batch(strategy, step, rows))
        expect(isinstance(decision, Decision), f"step() returned {decision!r}")
        got = decision.step, decision.first_row, decision.rows
        expect(got == (step, row, rows), f"step, first_row and rows are {got}, not {(step, row, rows)}")
        row += rows
    expect(made.nbytes > 0, f"nbytes is {made.nbytes}")


def scores_are_of_rows(strategy: Any) -> None:
    """scores(X) and test_scores(batch) are finite and have one entry for each row, before and after learning."""
    made = begun(strategy)
    for step in range(STEPS):
        rows = batch(strategy, step)
        for name, scores in (("scores", made.scores(rows.X)), ("test_scores", made.test_scores(rows))):
            expect(len(scores) == ROWS, f"{name} of {ROWS} rows has shape {scores.shape}")
            expect(bool(np.isfinite(scores).all()), f"{name} at step {step} are not finite")
        made.step(rows)


def prediction_changes_nothing(strategy: Any) -> None:
    """predicting between steps changes nothing that follows."""
    quiet, asked = begun(strategy), begun(strategy)
    for step in range(STEPS):
        rows = batch(strategy, step)
        asked.scores(rows.X)
        asked.test_scores(rows)
        quiet.step(rows)
        asked.step(rows)
        expect_same(quiet.scores(rows.X), asked.scores(rows.X), f"after step {step} the two differ")


def tested_scores_may_be_given(strategy: Any) -> None:
    """step(batch, tested) with what test_scores() gave decides as step(batch) does."""
    one, other = begun(strategy), begun(strategy)
    for step in range(STEPS):
        rows = batch(strategy, step)
        decided = one.step(rows), other.step(rows, other.test_scores(rows))
        expect(decided[0] == decided[1], f"at step {step}: {decided[0]} against {decided[1]}")


def learner_is_not_changed(strategy: Any) -> None:
    """the learner is a template: using the strategy leaves it as it was."""
    made = copy.deepcopy(strategy)
    before = repr(made.learner.get_params(deep=False)), sorted(vars(made.learner))
    begun(made, STEPS)
    expect(before == (repr(made.learner.get_params(deep=False)), sorted(vars(made.learner))), "it was changed")


def bad_rows_change_nothing(strategy: Any) -> None:
    """a step that fails leaves everything as it was."""
    made, spared = begun(strategy, 2), begun(strategy, 2)
    rows = batch(strategy, 2)
    wide = rows._replace(X=np.ones((ROWS, COLUMNS + 1)))
    try:
        made.step(wide)
    except (DriftsurfError, ValueError):
        pass
    else:
        raise AssertionError("rows with a column too many were taken")
    if exact(strategy):
        expect(same_state(flat(made.state()), flat(spared.state())), "the state is another")
    made.step(rows)
    spared.step(rows)
    expect_same(made.scores(rows.X), spared.scores(rows.X), "what follows is another")


def state_is_exact(strategy: Any) -> None:
    """if its learner has exact state, restore(state()) goes on bit for bit."""
    if not exact(strategy):
        return
    for taken in range(STEPS):
        made = begun(strategy, taken)
        state = flat(made.state())
        again = copy.deepcopy(strategy)
        again.restore(state)
        expect(same_state(flat(again.state()), state), f"after {taken} steps state() of what was restored is another")
        for step in range(taken, STEPS):
            decided = made.step(batch(strategy, step)), again.step(batch(strategy, step))
            expect(decided[0] == decided[1], f"saved after {taken} steps, they part at step {step}")
        expect(same_state(flat(made.state()), flat(again.state())), f"saved after {taken} steps, they part")


def it_begins_anew_when_asked(strategy: Any) -> None:
    """renew(why) makes fresh models, says so, and goes on."""
    made = begun(strategy, 3)
    transition = made.renew("a test asks")
    expect(transition.why == "a test asks", f"the reason became {transition.why!r}")
    decision = made.step(batch(strategy, 3))
    expect(decision.step == 3, f"the step after three is {decision.step}")


CHECKS = (
    steps_are_decisions,
    scores_are_of_rows,
    prediction_changes_nothing,
    tested_scores_may_be_given,
    learner_is_not_changed,
    bad_rows_change_nothing,
    state_is_exact,
    it_begins_anew_when_asked,
)
