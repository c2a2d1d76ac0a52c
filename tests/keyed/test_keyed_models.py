"""Keyed runs with any model: named as in other runs, recorded in run.json, refused before anything is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke
from keyed_rows import part, predictions, rows, same_end, shops, visits, write_rows

from driftsurf.core.state import to_bytes
from driftsurf.errors import CapabilityError, DriftsurfError, LabelError, OptionError, SchemaError
from driftsurf.keyed import Columns, KeyedFolder, KeyedLearner, KeyedOptions, KeyRows, key_seed, run_keyed
from driftsurf.keyed.models import keyed_strategy, keyed_task
from driftsurf.registry import names
from driftsurf.report.keys import KeyedRecord
from driftsurf.session.model_names import model_names
from driftsurf.strategies import DriftSurf, Oblivious

pytestmark = pytest.mark.filterwarnings("ignore::driftsurf.errors.SmallBatchWarning")

BY_SHOP = "--key", "shop", "--sequence", "at", "--label", "bought", "--features", "price,age", "--quiet"


def learner(strategy: Any, **options: Any) -> KeyedLearner:
    made = KeyedLearner(strategy=strategy, features=("a", "b"), batch_size=16, **options)
    made.check()
    return made


STRATEGIES = sorted(set(model_names()) - set(names("detector")))


@pytest.mark.parametrize("model", [*STRATEGIES, "ddm", "adwin", "recommended-linear"])
def test_every_model_gives_the_same_result_however_visits_are_cut(model: str) -> None:
    own = rows()
    given_learner = learner(keyed_strategy(model))
    whole = visits(given_learner, own)
    same_end(visits(given_learner, part(own, 0, 37), part(own, 37, 38), part(own, 38, 200)), whole)
    assert whole[0].summary.quarantine == ""
    assert whole[0].summary.steps == 200 // 16


def test_options_that_are_not_set_have_defaults_for_keys() -> None:
    usual = KeyedOptions().learner(("x",))
    assert KeyedOptions(strategy=keyed_strategy()).learner(("x",)).about() == usual.about()
    assert set(model_names()) >= {"driftsurf", "aue", "ddm"}
    named: Any = keyed_strategy("driftsurf(max_rows=50):svm", None, "binary", {"threshold": 0.05})
    assert (named.max_rows, named.threshold, named.dtype) == (50, 0.05, "float32")
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        paper: Any = keyed_strategy("driftsurf", None, "binary", {"variant": "authors"})
    assert (paper.significance, paper.threshold, paper.reactive_length) == (0.0, 0.3, 4)
    wide: Any = KeyedOptions().learner([f"x{i}" for i in range(100)]).strategy
    assert wide.max_rows == 606
    paired: Any = keyed_strategy("paired-learners")
    assert (paired.threshold, paired.max_rows) == (0.1, 2048)  # the threshold of paired learners has another meaning


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
def test_the_task_follows_from_the_classes(task: str, classes: Any, found: str) -> None:
    assert keyed_task(task, classes) == found
    assert keyed_task(task, classes, "regression") == ("regression" if (task, classes) == ("auto", None) else found)


@pytest.mark.parametrize(
    ("task", "classes", "message"),
    [
        ("regression", (0, 1), "classes"),
        ("binary", (0, 1, 2), "task"),
        ("ranking", None, "'auto', 'binary'"),
    ],
)
def test_a_task_that_contradicts_the_classes_is_an_error(task: str, classes: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        keyed_task(task, classes)


# ---------------------------------------------------------------------------- values


def test_the_error_of_a_regression_is_the_mean_absolute_error_however_visits_are_cut() -> None:
    own = rows()
    values = KeyRows(own.sequence, own.X, (3 * own.X[:, 0] + own.X[:, 1]).tolist())
    given_learner = learner(keyed_strategy("driftsurf", None, "regression"))
    assert given_learner.regression
    (whole,) = visits(given_learner, values)
    done = visits(given_learner, part(values, 0, 37), part(values, 37, 200))
    same_end(done, [whole])
    assert whole.summary.errors == 0
    scored = [abs(p - t) for p, t in zip(whole.predicted, whole.true, strict=True) if p is not None]
    assert whole.summary.error == pytest.approx(np.mean(scored))
    assert np.mean(scored[100:]) < 0.5


@pytest.mark.parametrize("engine_options", [{}, {"epoch": 40}])
def test_the_first_rows_decide_between_classes_and_numbers(tmp_path: Path, engine_options: dict[str, Any]) -> None:
    lines = [f"s{i % 2},{i},{i % 7},{i % 7 * 0.5}\n" for i in range(100)]
    (tmp_path / "a.csv").write_text("shop,at,price,cost\n" + "".join(lines))
    columns = Columns("shop", "at", "cost")
    folder = run_keyed(str(tmp_path / "a.csv"), tmp_path / "run", columns, KeyedOptions(), **engine_options)
    assert folder.regression
    assert all(entry["quarantine"] == "" for entry in folder.keys().values())
    (tmp_path / "a.csv").write_text("shop,at,price,cost\n" + "".join(lines) + "s0,200,1,1\n")
    again = run_keyed(str(tmp_path / "a.csv"), tmp_path / "run", columns, KeyedOptions(), **engine_options)
    assert again.regression
    strict = run_keyed(str(tmp_path / "a.csv"), tmp_path / "b", columns, KeyedOptions(), task="binary")
    assert not strict.regression


def test_a_regression_without_any_error_is_one(tmp_path: Path) -> None:
    lines = [f"s,{i},{i % 7},2.5\n" for i in range(100)]
    (tmp_path / "a.csv").write_text("shop,at,price,cost\n" + "".join(lines))
    options = KeyedOptions(strategy=keyed_strategy(task="regression"))
    folder = run_keyed(str(tmp_path / "a.csv"), tmp_path / "run", Columns("shop", "at", "cost"), options)
    assert KeyedRecord.read(folder)[0].measure == "MAE"


def test_a_keyed_run_can_be_a_regression(tmp_path: Path) -> None:
    given_rows = shops(400)
    for row in given_rows:
        row[2] = 2.0 * row[3] - row[4] + 5.0
    source = write_rows(tmp_path / "a.csv", given_rows)
    result = invoke("run", source, *BY_SHOP, "--task", "regression", "--out", tmp_path / "run", "--epoch", 150)
    assert result.exit_code == 0, result.output
    folder = KeyedFolder(tmp_path / "run")
    assert all(0 < entry["error"] < 2 for entry in folder.keys().values())
    assert {type(value) for value in predictions(folder).values()} == {float, type(None)}
    assert ", error " not in result.output
    assert "MAE 0." in result.output or "MAE 1." in result.output
    page = (tmp_path / "run" / "keys.html").read_text()
    assert "MAE of predictions" in page
    [told] = re.findall(r"The mean absolute error is [\d.]+, \d+ % better than \w+", " ".join(result.output.split()))
    assert page.index(told) < page.index('class="cards"')
    assert "of 4 keys" not in result.stderr
    whole = invoke("run", source, *BY_SHOP, "--task", "regression", "--out", tmp_path / "whole")
    assert whole.exit_code == 0
    assert folder.keys()["s1"]["digest"] == KeyedFolder(tmp_path / "whole").keys()["s1"]["digest"]


def test_a_regression_takes_booleans_as_numbers_and_refuses_text(tmp_path: Path) -> None:
    given_rows = [["s", at, at % 3 == 0, at % 7, 0.5, "x"] for at in range(60)]
    source = str(write_rows(tmp_path / "a.csv", given_rows))
    options = KeyedOptions(strategy=keyed_strategy("oblivious", None, "regression"), features=("price",))
    folder = run_keyed(source, tmp_path / "run", Columns("shop", "at", "bought"), options)
    assert isinstance(folder.read("predictions")["prediction"][-1], float)
    with pytest.raises(LabelError, match="'note'"):
        run_keyed(source, tmp_path / "other", Columns("shop", "at", "note"), options)
    assert not (tmp_path / "other").exists()


# ---------------------------------------------------------------------------- the command line


def test_a_named_model_is_recorded_and_resumed(tmp_path: Path) -> None:
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
    assert all(name in other.output for name in ("learner.strategy.name", "'ResetOnDrift'", "'AUE'"))


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        (("--model", "auer"), "'aue'"),
        (("--model", "aue", "--variant", "authors"), "'variant'"),
        (("--learner", "linear"), "linear"),
        (
            ("--learner", "sklearn.linear_model:SGDClassifier"),
            "SGDClassifier",
        ),
        (("--task", "regression", "--classes", "0,1"), "--classes"),
        (("--set", "max_rows=none"), "max_rows"),
    ],
)
def test_a_model_that_cannot_learn_keys_is_refused_before_anything_is_written(
    tmp_path: Path, given_options: tuple[str, ...], message: str
) -> None:
    source = write_rows(tmp_path / "a.csv", shops(30))
    result = invoke("run", source, *BY_SHOP, "--out", tmp_path / "run", *given_options)
    assert result.exit_code in (1, 2)
    assert message in " ".join(result.output.split())
    assert result.output.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "columns", "error", "message"),
    [
        ({"features": ("price", "cost")}, Columns("shop", "at", "bought"), SchemaError, "'cost'"),
        ({"drop": ("cost",)}, Columns("shop", "at", "bought"), SchemaError, "'cost'.*'price'"),
        ({"drop": ("age",), "features": ("price",)}, Columns("shop", "at", "bought"), OptionError, "features.*drop"),
        ({}, Columns("shop", "note", "bought"), DriftsurfError, "'note'"),
        ({}, Columns("shop", "at", "sold"), SchemaError, "'sold'"),
    ],
)
def test_columns_are_checked_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], columns: Columns, error: type[Exception], message: str
) -> None:
    source = str(write_rows(tmp_path / "a.csv", shops(30)))
    with pytest.raises(error, match=message):
        run_keyed(source, tmp_path / "run", columns, KeyedOptions(**options))
    assert not (tmp_path / "run").exists()


def test_columns_can_be_dropped(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.csv", shops(30))
    by_shop = BY_SHOP[:6]
    assert invoke("run", source, *by_shop, "--drop", "age", "--out", tmp_path / "run").exit_code == 0
    assert KeyedFolder(tmp_path / "run").about()["learner"]["features"] == ["price"]


def test_delimiter_and_encoding_reach_a_keyed_run(tmp_path: Path) -> None:
    lines = ["m\u00fcll;at;sold;preis", *(f"\u00e4;{at};{at % 2};{at % 5}" for at in range(50))]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode("latin-1"))
    columns = ("--key", "m\u00fcll", "--sequence", "at", "--label", "sold", "--delimiter", ";", "--encoding", "latin-1")
    assert invoke("run", tmp_path / "a.csv", *columns, "--out", tmp_path / "run").exit_code == 0
    assert list(KeyedFolder(tmp_path / "run").keys()) == ["\u00e4"]


def test_options_of_the_default_strategy_are_refused_beside_another() -> None:
    with pytest.raises(OptionError, match="l2"):
        KeyedOptions(strategy=keyed_strategy("aue"), l2=0.5).learner(("x",))


def test_a_learner_that_only_pickle_can_save_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"sklearn\.naive_bayes\.GaussianNB.*mode='refit'"):
        keyed_strategy("driftsurf:sklearn.naive_bayes.GaussianNB")
    refitted = keyed_strategy("driftsurf:sklearn.naive_bayes.GaussianNB", None, "binary", {"mode": "refit"})
    assert isinstance(refitted, DriftSurf)
    assert isinstance(keyed_strategy("oblivious"), Oblivious)


# ---------------------------------------------------------------------------- keys are independent


@pytest.mark.parametrize("model", [*STRATEGIES, "ddm"])
def test_keys_of_one_learner_share_no_mutable_object(model: str) -> None:
    given_learner = learner(keyed_strategy(model), classes=(0, 1))
    mine, theirs, alone = (given_learner.session(key) for key in ("mine", "theirs", "mine"))
    own, other = rows(200, seed=1), rows(200, seed=2)
    for start in range(0, 200, 40):
        part_of = slice(start, start + 40)
        mine.observe(own.X[part_of], own.y[part_of])
        theirs.observe(other.X[part_of], other.y[part_of])
    alone.observe(own.X, own.y)
    assert to_bytes(mine.state()) == to_bytes(alone.state())
    assert to_bytes(mine.state()) != to_bytes(theirs.state())
    assert mine.strategy.get_params()["seed"] == key_seed(0, "mine")
    assert theirs.strategy.get_params()["seed"] == key_seed(0, "theirs")
