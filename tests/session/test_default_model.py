"""The model of tables where none is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import invoke
from table_files import write_csv
from table_runs import ROWS, good, killed

from driftsurf.comparison import compare
from driftsurf.comparison.inputs import Input
from driftsurf.registry import Entry
from driftsurf.session import default_model
from driftsurf.session.default_model import choose_model

pytestmark = pytest.mark.filterwarnings("ignore:the portfolio has no boosted trees")

OPTIONS = ["--label", "sold", "--drop", "id", "--batch-size", "250"]


def without_lightgbm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as if LightGBM were not installed."""
    monkeypatch.setattr(Entry, "_missing", lambda self: [name for name in self.requires if name == "lightgbm"])


def has_trees(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """Behave as if LightGBM were installed, or not, when a model is chosen."""
    monkeypatch.setattr(default_model, "has_trees", lambda: there)


def test_a_portfolio_unless_an_option_asks_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, of_driftsurf in ((True, "recommended-trees"), (False, "recommended-linear")):
        has_trees(monkeypatch, there)
        assert choose_model().name == choose_model(parameters=["half_life", "max_rows"]).name == "recommended"
        assert choose_model(parameters=["threshold", "passes"]).name == of_driftsurf
        assert choose_model(parameters=["threshold", "step_size"]).name == "recommended-linear"
        assert choose_model("logistic", ["step_size"]).name == "driftsurf"
        assert ("without boosted trees" in choose_model().why) != there


def test_a_run_says_which_model_it_chose_and_records_it(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    source = write_csv(tmp_path, ROWS[:500])
    for name, model, options, said in (
        ("portfolio", "recommended", [], "(--model)"),
        ("trees", "recommended-trees", ["--threshold", "0.2"], "--threshold"),
        ("linear", "recommended-linear", ["--l2", "0.01"], "--l2"),
        ("named", "driftsurf", ["--learner", "svm"], "svm"),
    ):
        output = good(source, *OPTIONS, *options, "--out", tmp_path / name).output
        (line,) = (line for line in output.splitlines() if line.startswith("model  "))
        assert said in line
        assert json.loads((tmp_path / name / "run.json").read_text())["model"] == model


def test_a_resumed_run_keeps_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS[:1000])
    for begun in (True, False):
        place = f"with-trees-{begun}"
        command = [source, *OPTIONS, "--quiet", "--checkpoint", place, "--every", 1]
        with monkeypatch.context() as patch:
            if not begun:
                without_lightgbm(patch)
            killed(2, *command)
        if begun:
            with monkeypatch.context() as patch:
                without_lightgbm(patch)
                refused = invoke("run", *command, "--resume")
            assert (refused.exit_code, "lightgbm" in refused.output) == (1, True)
        good(*command, "--resume")
        assert ("LazyBoostedTrees" in Path(place, "result", "journal.jsonl").read_text()) == begun
        assert json.loads(Path(place, "result", "run.json").read_text())["model"] == "recommended"


def test_a_comparison_of_tables_has_the_recommended_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS[:400])
    without_lightgbm(monkeypatch)
    output = invoke("compare", source, "--label", "sold", "--drop", "id", "--batch-size", "100", "--jobs", "1").output
    for said in ("recommended,", "recommended-linear", "--models", "pip install lightgbm"):
        assert said in output
    inputs = [Input("sales.csv", "sold")]
    assert compare.default_models(inputs)[:2] == ["recommended", "recommended-linear"]
    of_stream = compare.default_models([Input("sea10")])
    assert of_stream[:2] == ["recommended", "driftsurf:logistic"]
    assert not any("lightgbm" in name for name in of_stream)
    monkeypatch.setattr(compare, "has_trees", lambda: True)
    for found in (compare.default_models(inputs), compare.default_models([Input("sea10")])):
        assert {"retrained:lightgbm", "frozen:lightgbm"} <= set(found)
    assert not any("lightgbm" in name for name in compare.default_models(inputs, gradients_per_row=4.0))
