"""Every strategy with every learner: it works, or refuses and names the capability.

Each pair meets every task with one kind of rows, such that each strategy and each learner meets every task with every
kind; ``python -m driftsurf.checks matrix`` runs all combinations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from driftsurf import learners, registry
from driftsurf.checks import __main__ as command
from driftsurf.checks import matrix
from driftsurf.errors import CheckError
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session
from driftsurf.strategies import SlidingWindow

STRATEGIES, LEARNERS = matrix.strategies(), matrix.learners()


@pytest.mark.parametrize("learner", list(LEARNERS))
@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_it_works_or_refuses_by_name(strategy: str, learner: str) -> None:
    if not LEARNERS[learner].installed:
        pytest.skip(f"{LEARNERS[learner].requires} is not installed")
    cells = list(chosen(strategy, learner))
    assert {cell.task for cell in cells} == {*matrix.TASKS}
    for cell in cells:
        cell.run()


def chosen(strategy: str, learner: str) -> Iterator[matrix.MatrixCell]:
    """Yield the combinations of a pair: one kind of rows for each task, another one in the neighbouring pairs."""
    turn = list(STRATEGIES).index(strategy) + list(LEARNERS).index(learner)
    for cell in matrix.cells([learner], [strategy]):
        if (turn + list(matrix.TASKS).index(cell.task) + matrix.KINDS.index(cell.kind)) % len(matrix.KINDS) == 0:
            yield cell


def test_each_part_meets_every_task_with_every_kind_of_rows() -> None:
    everything = set(product(matrix.TASKS, matrix.KINDS))
    places = {(strategy, learner): [*chosen(strategy, learner)] for strategy in STRATEGIES for learner in LEARNERS}
    for parts, place in ((STRATEGIES, 0), (LEARNERS, 1)):
        for part in parts:
            met = {(cell.task, cell.kind) for pair, cells in places.items() if pair[place] == part for cell in cells}
            assert met == everything, part


def test_every_registered_strategy_and_learner_is_in_the_matrix(register: Any) -> None:
    class NewestRows(SlidingWindow):
        """Registered here."""

    register("strategy", "newest-rows", tasks=registry.ALL_TASKS)(NewestRows)
    for kind, parts in (("strategy", matrix.strategies()), ("learner", matrix.learners())):
        names = {entry.part.__name__ for entry in registry.entries(kind)}  # type: ignore[arg-type]
        assert names <= {label.partition(",")[0] for label in parts}
    assert "NewestRows" in matrix.table(["LinearSVM"])


def test_the_command_runs_the_combinations(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["matrix", "--learner", "LinearSVM", "--strategy", "Candor"]) == 0
    out = capsys.readouterr().out
    assert "| LinearSVM | dense, CSR, weighted | 2 |" in out
    assert "no anchor" in out
    assert "9 of 9" in out
    assert command.main(["matrix", "--no-run"]) == 0
    assert "9 of 9" not in capsys.readouterr().out


class Boastful(learners.LinearSVM):
    """Declares capabilities that it does not have."""

    capabilities = learners.SoftmaxRegression.capabilities


def test_a_learner_with_wrong_capabilities_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"LinearSVM": replace(LEARNERS["LinearSVM"], make=Boastful)}
    monkeypatch.setattr(matrix, "learners", lambda: wrong)
    assert command.main(["matrix", "--learner", "LinearSVM", "--strategy", "Oblivious"]) == 1
    assert "Oblivious with LinearSVM, multiclass" in capsys.readouterr().err


def test_a_combination_that_works_without_what_it_needs_is_a_failure() -> None:
    strategy = replace(STRATEGIES["Oblivious"], tasks=registry.CLASSIFICATION)
    with pytest.raises(CheckError, match="classes"):
        matrix.MatrixCell(strategy, LEARNERS["LinearRegression"], "regression", "dense").run()


def test_wrong_results_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = matrix.MatrixCell(STRATEGIES["Oblivious"], LEARNERS["LinearSVM"], "binary", "dense")
    with monkeypatch.context() as patch:
        patch.setattr(Session, "scores", lambda self, X: np.full(60, np.nan))
        with pytest.raises(CheckError, match=r"\(60,\)"):
            cell.run()
    nothing = Observation(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), ())
    monkeypatch.setattr(Session, "observe", lambda self, X, y, **options: nothing)
    with pytest.raises(CheckError, match=r"0 .* 0 "):
        cell.run()
