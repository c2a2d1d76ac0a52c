"""Models beside each other on values to predict, with errors relative to those of the mean."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke

from driftsurf.cli.compare import compare as command
from driftsurf.cli.terminal import with_cli_spelling
from driftsurf.comparison import matches, peers
from driftsurf.comparison.compare import RELATIVE, TABLE_REGRESSION_MODELS, Comparison, compare, standings_of
from driftsurf.comparison.inputs import Input, load
from driftsurf.comparison.matches import InUnits, Match, Score
from driftsurf.comparison.models import Situation, model
from driftsurf.data.datasets.known import TABLES, KnownTable
from driftsurf.errors import CapabilityError, LabelError, OptionError
from driftsurf.report import comparison
from driftsurf.report.comparison import chart

VALUES = Situation(n_classes=0, batch_size=50)
ROWS = 600


def write(path: Path, columns: dict[str, Any]) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = (json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A file whose price follows a, and turns around in its second half."""
    rng = np.random.default_rng(0)
    a, b, noise = rng.normal(size=(3, ROWS))
    price = 1e4 + 500.0 * np.where(np.arange(ROWS) < ROWS // 2, a, -a) + 20.0 * noise
    stars = rng.integers(1, 4, ROWS)
    return write(
        tmp_path / "prices.jsonl",
        {"a": a.tolist(), "b": b.tolist(), "stars": stars.tolist(), "price": price.tolist()},
    )


def of(path: Path, **options: Any) -> Input:
    return Input(str(path), "price", batch_size=50, **options)


# ---------------------------------------------------------------------------- models and matches


@pytest.mark.parametrize(
    "name",
    [
        "driftsurf",
        "driftsurf:linear",
        "driftsurf(threshold=0.2):linear(loss='huber', epsilon=500.0)",
        "recommended-linear",
        "aue:linear",
        "sliding-window:linear",
        "exponential-decay:linear",
        "perm:linear",
        "oblivious:sklearn.tree.DecisionTreeRegressor(max_depth=3)",
        "mean",
        "persistence",
    ],
)
def test_a_regression_model_is_made_by_name_and_learns(name: str, prices: Path) -> None:
    score = Match(of(prices), name).perform()
    assert len(score.error) == ROWS // 50
    assert np.isfinite(score.error).all()
    assert score.in_units is not None
    assert score.in_units.rmse >= score.in_units.mae > 0.0
    again = Match.decode(json.loads(json.dumps(score.to_dict())))
    assert again.in_units == score.in_units


def test_errors_are_relative_to_the_mean_of_the_past(prices: Path) -> None:
    y = load(of(prices)).y
    expected, past = [], [np.abs(y[at : at + 50] - y[:at].mean()).mean() for at in range(50, ROWS, 50)]
    tree = Match(of(prices), "driftsurf:linear").perform()
    floor = Match(of(prices), "mean").perform()
    assert floor.error[1:] == pytest.approx(np.array(past) / np.mean(past))
    assert floor.in_units is not None
    assert floor.in_units.mae == pytest.approx(np.mean(past))
    assert floor.in_units.relative_rmse == pytest.approx(1.0)
    expected = [np.square(y[at : at + 50] - y[:at].mean()).mean() for at in range(50, ROWS, 50)]
    assert floor.in_units.rmse == pytest.approx(np.sqrt(np.mean(expected)))
    assert tree.error[1:].mean() < 0.5
    assert tree.in_units is not None
    assert tree.in_units.mae == pytest.approx(tree.error[1:].mean() * floor.in_units.mae)


def test_trivial_rules_predict_the_mean_and_the_last_target_of_the_batch_before() -> None:
    X, y = np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 6.0])
    peer = peers.Mean()
    peer.partial_fit(X, y)
    assert not hasattr(peer, "classes_")
    assert peer.predict(X).tolist() == [3.0] * 4
    rule = peers.Persistence()
    assert rule.observe(X, y).labels.tolist() == [0.0] * 4
    assert rule.observe(X, y).labels.tolist() == [6.0] * 4


def test_a_model_that_diverges_is_charged_a_number_that_can_be_averaged(
    prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wild(peers.Mean):
        def _predict(self, X: Any) -> Any:
            return np.resize([np.inf, 1e200, np.nan], len(X))

    monkeypatch.setattr("driftsurf.comparison.models._TRIVIAL", {"persistence": Wild})
    score = Match(of(prices), "persistence").perform()
    assert score.error[1:].tolist() == [matches.WORST] * (len(score.error) - 1)
    assert score.in_units is not None
    assert score.in_units.relative_rmse == pytest.approx(matches.WORST)
    assert score.diverged


@pytest.mark.parametrize(
    ("source", "model", "charged"),
    [
        ("friedman", "oblivious:linear(step_size=100.0)", matches.WORST),
        ("sine1", "oblivious:logistic(step_size=1e308,l2=0.0)", 1.0),
    ],
)
def test_a_comparison_continues_when_the_training_of_a_model_diverges(
    source: str, model: str, charged: float, tmp_path: Path
) -> None:
    sources = [Input(source, batch_size=100, rows=2_000)]
    result = compare(tmp_path / "out", sources, [model, "persistence", "majority" if charged == 1.0 else "mean"])
    assert [one.diverged for one in result.overall.models] == [True, False, False]
    assert result.overall.models[0].error.value == pytest.approx(charged)
    for text in (comparison.markdown(result), comparison.page(result)):
        assert f": {result.overall.models[0].model}." in text  # named at the end of the verdict


def test_a_label_without_variation_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "flat.jsonl", {"a": range(100), "price": [0.5, 1.5] * 10 + [1.0] * 80})
    with pytest.raises(LabelError, match="flat"):
        Match(Input(str(path), "price", batch_size=20), "driftsurf:linear").perform()
    same = write(tmp_path / "same.jsonl", {"a": range(100), "price": [0.5] * 100})
    with pytest.raises(LabelError, match=r"0\.5"):
        load(Input(str(same), "price", task="regression"))


def test_a_budget_is_divided_among_the_models_of_a_strategy(prices: Path) -> None:
    score = Match(of(prices), "driftsurf:linear", gradients_per_row=4.0).perform()
    assert score.gradients == pytest.approx(4.0 * ROWS, rel=0.01)


@pytest.mark.skipif(find_spec("river") is None, reason="river is not installed")
@pytest.mark.parametrize("name", ["river:ARF3", "river:SRP2", "river:tree.HoeffdingAdaptiveTreeRegressor(seed=1)"])
def test_regressors_of_river_can_be_compared(name: str, prices: Path) -> None:
    assert Match(of(prices, rows=300), name).perform().error[1:].mean() < 1.5


@pytest.mark.skipif(find_spec("capymoa") is None, reason="capymoa is not installed")
def test_regressors_of_capymoa_can_be_compared(prices: Path) -> None:  # pragma: no cover
    for name in ("capymoa:ARF3", "capymoa:FIMTDD"):
        assert Match(of(prices), name).perform().error[1:].mean() < 2.0


@pytest.mark.skipif(find_spec("lightgbm") is None, reason="lightgbm is not installed")
def test_the_recommended_trees_predict_numbers(prices: Path) -> None:
    assert Match(of(prices), "recommended-trees").perform().error[1:].mean() < 1.0


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("driftsurf:logistic", "logistic .*binary.*regression.* linear"),
        ("dwm", "'regression'"),
        ("ddm:linear", "'regression'"),
        ("majority", "mean, persistence"),
        ("capymoa:SRP10", "capymoa:ARF10"),
        ("driftsurf:sklearn.tree.DecisionTreeClassifier", "regression"),
    ],
)
def test_a_model_without_regression_is_refused_before_the_first_match(
    name: str, named: str, prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Match, "perform", lambda self: pytest.fail("begun"))
    with pytest.raises(CapabilityError, match=f"^{re.escape(name)} .*prices.jsonl.*{named}"):
        compare(tmp_path / "out", [of(prices)], ["mean", name])


@pytest.mark.parametrize("name", ["mean", "driftsurf:linear"])
def test_a_regression_model_is_refused_for_classes(name: str, tmp_path: Path) -> None:
    with pytest.raises(CapabilityError, match=rf"^{name} .*classes"):
        compare(tmp_path / "out", [Input("sine1")], [name, "majority"])


@pytest.mark.skipif(find_spec("river") is None, reason="river is not installed")
def test_a_classifier_of_river_is_refused_for_a_regression() -> None:
    with pytest.raises(CapabilityError, match=r"HoeffdingTreeClassifier.*river:ARF10"):
        model("river:tree.HoeffdingTreeClassifier").make(VALUES)


# ---------------------------------------------------------------------------- the task


def test_the_task_is_decided_by_the_first_rows_unless_it_is_given(prices: Path) -> None:
    assert of(prices).is_regression()
    assert load(of(prices)).labels == ()
    stars = Input(str(prices), "stars", batch_size=50)
    assert not stars.is_regression()
    assert load(stars).labels == (1, 2, 3)
    counted = Input(str(prices), "stars", batch_size=50, task="regression")
    assert counted.is_regression()
    assert load(counted).y.dtype == np.float64
    assert not Input("sea0").is_regression()
    assert Input("friedman").is_regression()


def test_a_comparison_of_a_number_is_a_label_of_two_classes(prices: Path) -> None:
    rows = load(Input(str(prices), "price > 10000"))
    assert rows.labels == (False, True)
    assert rows.X.shape[1] == load(of(prices)).X.shape[1]


def test_two_classes_can_be_a_multiclass_task(prices: Path) -> None:
    what = Input(str(prices), "price > 10000", task="multiclass", batch_size=50)
    assert Match(what, "driftsurf").perform().in_units is None
    at = Situation(n_classes=2, asked="multiclass")
    assert type(model("driftsurf").make(at).strategy.learner).__name__ == "SoftmaxRegression"
    with pytest.raises(LabelError, match=r"3 .*'binary'.*task='multiclass'"):
        load(Input(str(prices), "stars", task="binary"))


def test_whole_numbers_with_later_fractions_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "late.jsonl", {"a": range(100), "price": [1.0, 2.0] * 49 + [1.5, 1.0]})
    with pytest.raises(LabelError, match=r"'price'.* 3 "):
        load(Input(str(path), "price", batch_size=10))
    assert load(Input(str(path), "price", batch_size=10, task="regression")).labels == ()


def test_a_text_label_with_too_many_values_gets_no_advice_to_change_the_task(tmp_path: Path) -> None:
    path = write(tmp_path / "late.jsonl", {"a": range(1100), "price": [f"{i},5" for i in range(1100)]})
    with pytest.raises(LabelError, match=r"'price'.* 1100 .*decimal=','"):
        load(Input(str(path), "price", batch_size=10))


def test_a_named_source_refuses_another_task(prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"'regression'.*sea0"):
        Input("sea0", task="regression").is_regression()
    with pytest.raises(OptionError, match=r"'classes'.*'auto', 'binary'"):
        Input("sea0", task="classes").is_regression()
    with pytest.raises(OptionError, match=r"'binary'.*friedman"):
        load(Input("friedman", task="binary"))
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    starred = KnownTable(title="Starred", file=prices.name, label="stars")
    priced = KnownTable(title="Priced", file=prices.name, label="price", regression=True, drop=("stars",))
    monkeypatch.setitem(TABLES, "starred", starred)
    monkeypatch.setitem(TABLES, "priced", priced)
    assert not Input("starred").is_regression()
    assert Input("priced").is_regression()
    assert load(Input("priced")).labels == ()
    assert load(Input("priced")).X.shape[1] == load(of(prices)).X.shape[1] - 1
    with pytest.raises(OptionError, match="starred") as refused:
        load(Input("starred", task="regression"))
    assert "--task" in with_cli_spelling(refused.value, command)


def test_classification_and_regression_are_not_averaged(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"sine1.*friedman"):
        compare(tmp_path, [Input("friedman"), Input("sine1")])


# ---------------------------------------------------------------------------- standings and the report


def scored(error: float, mae: float) -> list[Score]:
    return [Score(np.array([9.0, *[error] * 16]), 100, 200, 1.0, InUnits(mae, 2.0 * mae, error + 0.1))] * 2


def two_sources() -> Comparison:
    easy = {"a": scored(0.1, 10.0), "wild": scored(1e6, 1e9)}
    hard = {"a": scored(0.5, 2.0), "wild": scored(1e6, 1e9)}
    return standings_of([("easy", easy), ("hard", hard)], seeds=(0, 1), gradients_per_row=None)


def test_over_several_sources_only_errors_without_unit_are_averaged() -> None:
    result = two_sources()
    assert result.regression
    assert result.sources[0].models[0].in_units == InUnits(10.0, 20.0, 0.2)
    assert result.overall.models[0].in_units is None
    assert result.overall.models[0].relative_rmse == pytest.approx(0.4)
    text = comparison.markdown(result)
    assert "relative RMSE" in text
    assert "| 1e+06 |" in text
    assert "MAE" not in text
    assert RELATIVE in text


def test_a_narrow_terminal_prefers_errors_in_units_to_ranks_and_intervals() -> None:
    sheet = next(
        comparison._sheets(
            standings_of([("prices", {"driftsurf:linear": scored(0.5, 10.0), "mean": scored(1.0, 20.0)})], (0, 1), None)
        )
    )
    heads = [sheet.heads[place] for place in comparison._fitting(sheet, 80)]
    assert heads == ["model", "relative error", "95 % interval", "gap", "MAE", "RMSE"]


def test_the_picture_of_a_model_that_diverged_ends_at_twice_the_mean() -> None:
    drawn = chart(two_sources())
    assert ">2.0</text>" in drawn
    assert ">2.2</text>" not in drawn
    assert ">0.1</text>" not in drawn  # every second mark
    assert max(float(x) for x in re.findall(r'cx="([\d.]+)"', drawn)) <= 900.0


def test_the_command_compares_regressions_and_resumes_from_its_ledger(
    prices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["compare", str(prices), "--label", "price", "--batch-size", "50", "--jobs", "1", "--quiet"]
    arguments += ["--models", f"driftsurf:linear,{TABLE_REGRESSION_MODELS}", "--out", str(tmp_path / "out")]
    first = invoke(*arguments)
    assert first.exit_code == 0
    for word in ("MAE", "RMSE", *TABLE_REGRESSION_MODELS.split(",")):
        assert word in first.output
    found = json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8"))
    assert found["error"] == RELATIVE
    assert found["winner"] == "recommended"
    mean = next(one for one in found["sources"][0]["models"] if one["model"] == "mean")
    assert mean["error"]["value"] == pytest.approx(1.0)
    assert mean["in_units"]["mae"] > 100.0
    monkeypatch.setattr(Match, "perform", lambda self: pytest.fail("done twice"))
    assert invoke(*arguments).output == first.output


def test_results_do_not_depend_on_the_number_of_processes(prices: Path, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        result = compare(tmp_path / str(jobs), [of(prices)], ["driftsurf:linear", "aue:linear"], trials=2, jobs=jobs)
        found.append([(one.model, one.error, one.in_units) for one in result.overall.models])
    assert found[0] == found[1]


def test_models_of_numbers_are_compared_on_sparse_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    town, a = rng.integers(40, size=ROWS), rng.normal(size=ROWS)
    columns = {"a": a.tolist(), "town": [f"town {one}" for one in town], "price": (town + a).tolist()}
    towns = of(write(tmp_path / "towns.jsonl", columns))
    found = compare(tmp_path / "out", [towns], ["driftsurf", "mean", "persistence"])
    assert next(one.model for one in found.overall.models) == "driftsurf"
