"""Every strategy with every learner on every task and kind of rows: it works, or refuses and names the capability."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftsurf import learners
from driftsurf.checks import __main__ as command
from driftsurf.checks import matrix
from driftsurf.errors import CheckError
from driftsurf.runtime.session import Observation, Session

PAGE = Path(__file__).parent.parent / "docs" / "ecosystems.md"


@pytest.mark.parametrize("learner", list(matrix.LEARNERS))
@pytest.mark.parametrize("strategy", list(matrix.STRATEGIES))
def test_it_works_or_refuses_by_name(strategy: str, learner: str) -> None:
    if learner not in matrix.installed():
        pytest.skip(f"{learner.split()[0]} is not installed")
    for task in matrix.TASKS:
        for kind in matrix.KINDS:
            matrix.Cell(strategy, learner, task, kind).run()


def test_the_table_of_the_docs_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["matrix", "--no-run"]) == 0
    page = PAGE.read_text(encoding="utf-8")
    for line in capsys.readouterr().out.splitlines():
        assert line in page


def test_the_command_runs_the_combinations(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "STRATEGIES", {"Candor": matrix.STRATEGIES["Candor"]})
    assert command.main(["matrix", "--learner", "LinearSVM"]) == 0
    out = capsys.readouterr().out
    assert "| LinearSVM | dense, CSR, weighted | no anchor |" in out
    assert "9 of 9 combinations work or refuse by name." in out


class Boastful(learners.LinearSVM):
    """Says that it does what it does not."""

    capabilities = learners.SoftmaxRegression.capabilities


def test_a_learner_that_says_too_much_is_found_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "STRATEGIES", {"Oblivious": matrix.STRATEGIES["Oblivious"]})
    monkeypatch.setitem(matrix.LEARNERS, "LinearSVM", Boastful)
    assert command.main(["matrix", "--learner", "LinearSVM"]) == 1
    assert "missing: nothing" in capsys.readouterr().err


def test_what_works_without_what_it_needs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "COUNTS_ERRORS", {"Oblivious"})
    with pytest.raises(CheckError, match="it works without predicts values"):
        matrix.Cell("Oblivious", "LinearRegression", "regression", "dense").run()


def test_wrong_answers_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = matrix.Cell("Oblivious", "LinearSVM", "binary", "dense")
    with monkeypatch.context() as patch:
        patch.setattr(Session, "scores", lambda self, X: np.full(60, np.nan))
        with pytest.raises(CheckError, match="not finite"):
            cell.run()
    nothing = Observation(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0), ())
    monkeypatch.setattr(Session, "observe", lambda self, X, y: nothing)
    with pytest.raises(CheckError, match="0 predictions and 0 decisions"):
        cell.run()
