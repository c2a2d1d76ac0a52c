"""Keyed runs with any model: named as in every other run, kept in run.json, refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftsurf.assembly.keyed import keyed_strategy, keyed_task
from driftsurf.assembly.models import DETECTORS, STRATEGIES
from driftsurf.engines import Columns, KeyedFolder, KeyedLearner, KeyedOptions, KeyRows, run_keyed
from driftsurf.errors import CapabilityError, DriftsurfError, LabelError, OptionError, SchemaError
from driftsurf.strategies import DriftSurf, Oblivious
from test_engines import invoke, predictions, shops, write_rows
from test_keyed import part, rows, same_end, visits

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")

BY_SHOP = "--key", "shop", "--sequence", "at", "--label", "bought", "--features", "price,age", "--quiet"


def learner(strategy: Any, **options: Any) -> KeyedLearner:
    made = KeyedLearner(strategy=strategy, features=("a", "b"), batch_size=16, **options)
    made.check()
    return made


@pytest.mark.parametrize("model", [*STRATEGIES, "ddm", "adwin", "recommended-linear"])
def test_each_model_learns_a_key_the_same_however_visits_are_cut(model: str) -> None:
    own = rows()
    given_learner = learner(keyed_strategy(model))
    whole = visits(given_learner, own)
    same_end(visits(given_learner, part(own, 0, 37), part(own, 37, 38), part(own, 38, 200)), whole)
    assert whole[0].summary.quarantine == ""
    assert whole[0].summary.steps == 200 // 16


def test_what_suits_a_key_counts_where_nothing_else_is_said() -> None:
    usual = KeyedOptions().learner(("x",))
    assert KeyedOptions(strategy=keyed_strategy()).learner(("x",)).about() == usual.about()
    assert {*STRATEGIES, *DETECTORS} >= {"driftsurf", "aue", "ddm"}
    named: Any = keyed_strategy("driftsurf(max_rows=50):svm", None, "binary", {"threshold": 0.05})
    assert (named.max_rows, named.threshold, named.dtype) == (50, 0.05, "float32")
    paired: Any = keyed_strategy("paired-learners")
    assert (paired.threshold, paired.max_rows) == (0.1, 128)  # its threshold is another thing


@pytest.mark.parametrize(
    ("task", "classes", "found"),
    [
        ("auto", None, "binary"),
        ("auto", (0, 1), "binary"),
        ("auto", (0, 1, 2), "multiclass"),
        ("multiclass", None, "multiclass"),
        ("regression", None, "regression"),
    ],
)
def test_the_task_goes_by_the_classes(task: str, classes: Any, found: str) -> None:
    assert keyed_task(task, classes) == found


@pytest.mark.parametrize(
    ("task", "classes", "message"),
    [
        ("regression", (0, 1), "leave classes out"),
        ("binary", (0, 1, 2), "leave task out"),
        ("ranking", None, "'auto', 'binary'"),
    ],
)
def test_a_task_that_the_classes_contradict_is_told(task: str, classes: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        keyed_task(task, classes)


# ---------------------------------------------------------------------------- values


def test_of_values_the_error_is_the_mean_distance_however_visits_are_cut() -> None:
    own = rows()
    values = KeyRows(own.sequence, own.X, (3 * own.X[:, 0] + own.X[:, 1]).tolist())
    given_learner = learner(keyed_strategy("driftsurf", None, "regression"))
    assert given_learner.values
    (whole,) = visits(given_learner, values)
    done = visits(given_learner, part(values, 0, 37), part(values, 37, 200))
    same_end(done, [whole])
    assert whole.summary.errors == 0
    scored = [abs(p - t) for p, t in zip(whole.predicted, whole.true, strict=True) if p is not None]
    assert whole.summary.error == pytest.approx(np.mean(scored))
    assert np.mean(scored[100:]) < 0.5


def test_a_run_predicts_values(tmp_path: Path) -> None:
    given_rows = shops(400)
    for row in given_rows:
        row[2] = 2.0 * row[3] - row[4] + 5.0
    source = write_rows(tmp_path / "a.csv", given_rows)
    result = invoke("run", source, *BY_SHOP, "--task", "regression", "--out", tmp_path / "run", "--epoch", 150)
    assert result.exit_code == 0, result.output
    folder = KeyedFolder(tmp_path / "run")
    assert all(0 < entry["error"] < 2 for entry in folder.keys().values())
    assert {type(value) for value in predictions(folder).values()} == {float, type(None)}
    assert "error" not in result.output
    assert "rows, MAE 0." in result.output or "rows, MAE 1." in result.output
    assert "MAE of predictions" in (tmp_path / "run" / "fleet.html").read_text()
    assert "of 4 keys" not in result.stderr
    whole = invoke("run", source, *BY_SHOP, "--task", "regression", "--out", tmp_path / "whole")
    assert whole.exit_code == 0
    assert folder.keys()["s1"]["digest"] == KeyedFolder(tmp_path / "whole").keys()["s1"]["digest"]


def test_values_of_booleans_are_numbers_and_text_is_told(tmp_path: Path) -> None:
    given_rows = [["s", at, at % 3 == 0, at % 7, 0.5, "x"] for at in range(60)]
    source = str(write_rows(tmp_path / "a.csv", given_rows))
    options = KeyedOptions(strategy=keyed_strategy("oblivious", None, "regression"), features=("price",))
    folder = run_keyed(source, tmp_path / "run", Columns("shop", "at", "bought"), options)
    assert isinstance(folder.read("predictions")["predicted"][-1], float)
    with pytest.raises(LabelError, match="the label 'note' is text"):
        run_keyed(source, tmp_path / "other", Columns("shop", "at", "note"), options)
    assert not (tmp_path / "other").exists()


# ---------------------------------------------------------------------------- the command line


def test_a_model_is_named_kept_and_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "1.csv", shops(300))
    model = ("--model", "ddm", "--learner", "sklearn.tree:DecisionTreeClassifier")
    run = ("run", tmp_path / "in", *BY_SHOP, "--out", tmp_path / "run")
    given_options = (*model, "--set", "max_depth=3", "--set", "drift_level=4", "--max-rows", 64)
    assert invoke(*run, *given_options).exit_code == 0
    about = json.loads((tmp_path / "run" / "run.json").read_text())["learner"]["strategy"]
    assert (about["name"], about["max_rows"], about["dtype"]) == ("ResetOnDrift", "64", '"float32"')
    assert '"drift_level": 4' in about["detector"]
    assert '"estimator__max_depth": 3' in about["learner"] or '"max_depth": 3' in about["learner"]
    write_rows(tmp_path / "in" / "2.csv", shops(300, start=300))
    assert invoke(*run, *given_options).exit_code == 0
    whole = invoke(*run[:-1], tmp_path / "whole", *given_options, "--epoch", 123)
    assert whole.exit_code == 0
    ends = [KeyedFolder(tmp_path / name).keys() for name in ("run", "whole")]
    assert all(ends[0][key]["digest"] == entry["digest"] for key, entry in ends[1].items())
    other = invoke(*run, "--model", "aue")
    assert other.exit_code == 1
    assert "(learner.strategy.name was 'ResetOnDrift' and is 'AUE')" in " ".join(other.output.split())


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        (("--model", "auer"), "did you mean 'aue'?"),
        (("--model", "aue", "--variant", "authors"), "aue with logistic has no parameter 'variant'"),
        (("--learner", "linear"), "the learner linear is for the task regression, not for binary"),
        (
            ("--learner", "sklearn.linear_model:SGDClassifier"),
            "SGDClassifier cannot be saved exactly, and the state",
        ),
        (("--task", "regression", "--classes", "0,1"), "leave --classes out"),
        (("--set", "max_rows=none"), "a key must be bounded"),
    ],
)
def test_what_cannot_learn_a_key_is_told_before_anything_is_written(
    tmp_path: Path, given_options: tuple[str, ...], message: str
) -> None:
    source = write_rows(tmp_path / "a.csv", shops(30))
    result = invoke("run", source, *BY_SHOP, "--out", tmp_path / "run", *given_options)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert result.output.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "columns", "error", "message"),
    [
        ({"features": ("price", "note")}, Columns("shop", "at", "bought"), OptionError, "the feature 'note' is text"),
        ({"features": ("price", "cost")}, Columns("shop", "at", "bought"), SchemaError, "no column 'cost'"),
        ({"drop": ("cost",)}, Columns("shop", "at", "bought"), SchemaError, "drop names 'cost'; the columns are"),
        ({"drop": ("age",), "features": ("price",)}, Columns("shop", "at", "bought"), OptionError, "both given"),
        ({}, Columns("shop", "note", "bought"), DriftsurfError, "sequence numbers are whole numbers"),
        ({}, Columns("shop", "at", "sold"), SchemaError, "no column 'sold'"),
    ],
)
def test_columns_are_checked_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], columns: Columns, error: type[Exception], message: str
) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(30)))
    with pytest.raises(error, match=message):
        run_keyed(source, tmp_path / "run", columns, KeyedOptions(**options))
    assert not (tmp_path / "run").exists()


def test_columns_may_be_left_out(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.csv", shops(30))
    by_shop = BY_SHOP[:6]
    assert invoke("run", source, *by_shop, "--drop", "age", "--out", tmp_path / "run").exit_code == 0
    assert KeyedFolder(tmp_path / "run").about()["learner"]["features"] == ["price"]


def test_text_is_read_as_it_is_written(tmp_path: Path) -> None:
    lines = ["m\u00fcll;at;sold;preis", *(f"\u00e4;{at};{at % 2};{at % 5}" for at in range(50))]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode("latin-1"))
    columns = ("--key", "m\u00fcll", "--sequence", "at", "--label", "sold", "--delimiter", ";", "--encoding", "latin-1")
    assert invoke("run", tmp_path / "a.csv", *columns, "--out", tmp_path / "run").exit_code == 0
    assert list(KeyedFolder(tmp_path / "run").keys()) == ["\u00e4"]


def test_options_of_the_usual_strategy_are_not_beside_another() -> None:
    with pytest.raises(OptionError, match="l2 is for the usual strategy"):
        KeyedOptions(strategy=keyed_strategy("aue"), l2=0.5).learner(("x",))


def test_a_learner_that_only_pickle_can_save_is_refused_by_its_name() -> None:
    with pytest.raises(CapabilityError, match=r"sklearn\.naive_bayes\.GaussianNB.*mode='refit'"):
        keyed_strategy("driftsurf:sklearn.naive_bayes.GaussianNB")
    refitted = keyed_strategy("driftsurf:sklearn.naive_bayes.GaussianNB", None, "binary", {"mode": "refit"})
    assert isinstance(refitted, DriftSurf)
    assert isinstance(keyed_strategy("oblivious"), Oblivious)
