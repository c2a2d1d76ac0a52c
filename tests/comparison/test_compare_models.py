"""Models that can be compared: by name, with a budget, and those of other libraries."""

from __future__ import annotations

import json
import re
import sys
import types
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from scipy.sparse import csr_array
from table_files import write_inverted

from driftsurf import prequential, recommended
from driftsurf.comparison import models, peers
from driftsurf.comparison.inputs import Input, load
from driftsurf.comparison.matches import Match
from driftsurf.comparison.models import Situation, model
from driftsurf.detectors import DDM
from driftsurf.errors import (
    CapabilityError,
    MissingExtraError,
    OptionError,
)
from driftsurf.estimators import ObliviousClassifier
from driftsurf.evaluation.summary import baselines
from driftsurf.learners import LogisticRegression
from driftsurf.session.model_names import RECOMMENDED, model_names, split_names
from driftsurf.session.observation import Observation
from driftsurf.strategies import SingleModel
from driftsurf.streams.base import Stream

TREE = "sklearn.tree.DecisionTreeClassifier(max_depth=4)"
TWO = Situation(n_classes=2, batch_size=50)


# ---------------------------------------------------------------------------- models by name


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_inverted(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "driftsurf:logistic",
        "driftsurf(threshold=0.2, greedy=False):softmax(l2=0.001)",
        "oblivious:svm",
        f"sliding-window(window=200):{TREE}",
        f"oblivious:{TREE}",
        f"retrained(every=2, window=3):{TREE}",
        f"retrained(every=2, rows=130):{TREE}",
        f"frozen:{TREE}",
        "aue:logistic",
        "recommended-linear",
        "majority",
        "persistence",
    ],
)
def test_a_model_is_made_by_its_name_and_learns(name: str, table: Path) -> None:
    one = Match(Input(str(table), "label", batch_size=50), name)
    score = one.perform()
    assert model(name).name == name
    assert len(score.error) == 12
    assert 0.0 <= score.error[1:].mean() < 0.7
    assert score.seconds >= 0.0
    again = Match.decode(json.loads(json.dumps(score.to_dict())))
    assert again.error.tolist() == score.error.tolist()
    assert (again.n_rows, again.gradients) == (600, score.gradients)


class FitsRecorded(peers.Majority):
    """Records the first and last value of the rows of each fit."""

    fits: ClassVar[list[tuple[float, float]]] = []

    def learn(self, X: Any, y: Any, *, classes: Any = None) -> tuple[()]:
        self.partial_fit(X, y, classes)
        return ()

    def judge(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        return Observation(self.predict(X), self.predict(X), y, np.zeros(len(y)), (), probabilities=False)

    def _learn(self, X: Any, y: Any) -> None:
        super()._learn(X, y)
        self.fits.append((X[0, 0], X[-1, 0]))


@pytest.mark.parametrize(
    ("every", "window", "fits"),
    [(3, 4, [(0, 0), (0, 1), (0, 2), (2, 5), (5, 8)]), (1, 2, [(0, 0), (0, 1), (1, 2)]), (None, 2, [(0, 0), (0, 1)])],
)
def test_a_model_on_a_schedule_is_fitted_to_its_window_and_a_frozen_one_to_the_first_batches(
    every: int | None, window: int, fits: list[tuple[float, float]]
) -> None:
    FitsRecorded.fits.clear()
    one = peers.Scheduled(cast("Any", lambda rows: FitsRecorded()), window=window, every=every)
    for step in range(3 if every == 1 else 10):
        one.observe(np.full((2, 1), float(step)), np.array([0, 1]), classes=range(2))
    assert FitsRecorded.fits == fits


def test_a_schedule_may_be_in_rows_and_is_fitted_ever_more_rarely_until_its_first_time() -> None:
    FitsRecorded.fits.clear()
    one = peers.Scheduled(cast("Any", lambda rows: FitsRecorded()), rows=5, every=4)
    for step in range(9):
        one.learn(np.full((2, 1), float(step)), np.array([0, 1]), classes=range(2))
        assert one.predict(np.zeros((1, 1))).tolist() == [int(step >= 2)]  # the last five labels are 1, 0, 1, 0, 1
    assert FitsRecorded.fits == [(0, 0), (0, 1), (0, 2), (1, 3), (5, 7)]  # five rows are two batches and a half
    FitsRecorded.fits.clear()
    one = peers.Scheduled(cast("Any", lambda rows: FitsRecorded()), rows=1_000, every=200)
    for step in range(200):
        one.learn(np.full((1, 1), float(step)), np.array([0]), classes=range(2))
    last = [int(stop) for _, stop in FitsRecorded.fits]
    assert last[:20] == list(range(20))
    assert len(last) < 60
    assert last[-1] == 199
    with pytest.raises(OptionError, match="window and rows"):
        model("retrained(window=3, rows=5):logistic").make(TWO)


def test_a_refitted_model_of_another_library_learns_all_rows_of_its_schedule() -> None:
    found = model(f"retrained(rows=12000):{TREE}").make(TWO)
    X = np.arange(24_000.0).reshape(-1, 1)
    for start in range(0, len(X), 4_000):
        found.learn(X[start : start + 4_000], (X[start : start + 4_000, 0] % 2).astype(int), classes=range(2))
    fitted = found._model.strategy.learner
    assert fitted.rows == 12_000
    assert model(f"retrained:{TREE}").make(TWO)._fresh(50).strategy.learner.rows == 10_000


def test_the_schedules_of_a_comparison_are_models_of_each_task() -> None:
    for regression in (False, True):
        name, found = models.schedules("best-schedule", regression=regression)
        assert name == "best-schedule"
        kinds = {"Regressor"} if regression else {"Classifier"}
        assert {one.learner for one in found} >= {"linear" if regression else "logistic"}
        assert {kind for one in found for kind in ("Regressor", "Classifier") if kind in one.learner} == kinds
        assert {(one.every, one.rows) for one in found} == {(n, m) for n in models.EVERY for m in models.ROWS}
        assert all(model(one.model).name == one.model for one in found)
    name, found = models.schedules(f" best-schedule( every=3, rows=[9, 50] ):{TREE}", regression=False)
    assert name == f"best-schedule(every=3, rows=[9, 50]):{TREE}"
    assert [one.model for one in found] == [f"retrained(every=3, rows={rows}):{TREE}" for rows in (9, 50)]
    assert models.schedules("retrained:logistic", regression=False) == ("retrained:logistic", ())
    for wrong, words in (("(evrey=1)", "'evrey'; did you mean"), ("(rows=[0])", "rows"), (":forest", "'forest'")):
        with pytest.raises(OptionError, match=words):
            models.schedules(f"best-schedule{wrong}", regression=False)


def test_a_model_on_a_schedule_takes_sparse_rows_and_regressions() -> None:
    assert Match(Input("friedman", rows=2_000), "retrained:linear").perform().error[1:].mean() < 1.0
    found = model("retrained(every=2, window=2):logistic").make(TWO)
    for _ in range(4):
        seen = found.observe(csr_array(np.eye(4)), np.array([0, 1, 0, 1]), classes=range(2))
    assert seen.true.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("retrained(evrey=3):logistic", "'evrey'; did you mean 'every'"),
        ("frozen(every=3):logistic", "'every'"),
        ("retrained(every=0):logistic", "every"),
        ("frozen(window=0):logistic", "window"),
    ],
)
def test_wrong_options_of_a_schedule_are_refused(name: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        model(name).make(TWO)


def test_a_budget_does_not_apply_to_a_model_on_a_schedule() -> None:
    with pytest.raises(OptionError, match="gradients_per_row"):
        model("retrained:logistic").make(replace(TWO, gradients_per_row=2.0))


def test_options_reach_the_strategy_and_the_learner() -> None:
    session = model("driftsurf(threshold=0.3):logistic(l2=0.5)").make(TWO)
    assert session.strategy.threshold == 0.3
    assert session.strategy.learner.l2 == 0.5


@pytest.mark.parametrize("name", model_names())
def test_every_model_of_a_run_can_be_compared(name: str) -> None:
    assert model(name).name == name
    assert model(name).make(TWO).strategy.seed == TWO.seed
    assert model(name).built_on.split(" ")[0] == ("lightgbm" if name == "portfolio" and find_spec("lightgbm") else "")


def test_options_reach_the_detector_and_stay_in_their_model() -> None:
    assert model("ddm(drift_level=5.0):svm").make(TWO).strategy.detector.drift_level == 5.0
    assert model("ddm:svm").make(TWO).strategy.detector.drift_level == 3.0


def test_more_than_two_classes_use_softmax_regression() -> None:
    session = model("driftsurf:logistic").make(Situation(n_classes=3))
    assert type(session.strategy.learner).__name__ == "SoftmaxRegression"


def test_a_budget_is_divided_among_the_models_of_a_strategy() -> None:
    at = Situation(n_classes=2, gradients_per_row=3.0)
    session = model("driftsurf:logistic").make(at)
    assert session.strategy.budget == "divided"
    assert session.strategy.learner.steps_per_row == 3.0
    assert model(f"oblivious:{TREE}").make(at).strategy.learner.passes == 3.0
    with pytest.raises(OptionError, match="gradients_per_row"):
        models._with_budget(DDM(), 3.0, "mine:mine")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("oblivious:logistic", "strsaga"),
        ("oblivious:logistic(optimizer='sgd')", "sgd"),
        ("obl:logistic", "saga"),
        ("obl:logistic(optimizer='strsaga')", "strsaga"),
        ("obl:logistic(optimizer='sgd')", "sgd"),
    ],
)
def test_only_the_variant_of_the_paper_changes_an_optimizer_that_was_not_chosen(name: str, optimizer: str) -> None:
    assert model(name).make(Situation(2)).strategy.learner.optimizer == optimizer


def test_no_adaptation_has_the_error_of_the_estimator_that_never_adapts() -> None:
    rows = load(Input("mixed", rows=4_000))
    found = Match(Input("mixed", rows=4_000), "oblivious:logistic").perform()
    alone = ObliviousClassifier(LogisticRegression(), max_rows=None, random_state=0)
    errors = [np.mean(alone.test_then_train(X, y) != y) for X, y in rows.batches(rows.batch_size)]
    assert found.error[1:].mean() == np.mean(errors[1:])


def test_a_budget_holds_over_a_run(table: Path) -> None:
    what = Input(str(table), "label", batch_size=50)
    score = Match(what, "driftsurf:logistic", gradients_per_row=4.0).perform()
    assert score.gradients == pytest.approx(4.0 * 600, rel=0.01)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("driftsurfing:logistic", "'driftsurfing'; did you mean 'driftsurf'?"),
        ("softmax", "that is a learner, write driftsurf:softmax"),
        ("driftsurf:forest", "'forest'"),
        ("best", "'best'"),
        ("driftsurf(0.2):logistic", "driftsurf"),
        ("driftsurf(threshold=):logistic", "driftsurf"),
        ("driftsurf(threshold=x.y):logistic", "driftsurf"),
        ("drift surf:logistic", "drift surf"),
        ("driftsurf(**{}):logistic", "driftsurf"),
    ],
)
def test_an_unreadable_name_is_refused(name: str, words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        model(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("driftsurf(thresold=0.2):logistic", "driftsurf has no parameter 'thresold'; did you mean 'threshold'?"),
        ("driftsurf:logistic(depth=2)", "logistic has no parameter 'depth'; choices: "),
        ("oblivious:sklearn.tree.Oak", "sklearn.tree.Oak"),
        ("oblivious:nowhere_at_all.Oak", "nowhere_at_all"),
        ("aware:logistic", "aware:logistic"),
        ("driftsurf(threshold=x):logistic", "threshold is 'x'"),
    ],
)
def test_a_model_that_cannot_be_made_is_refused(name: str, words: str) -> None:
    with pytest.raises((OptionError, MissingExtraError), match=re.escape(words)):
        model(name).make(TWO)


def test_a_class_is_imported_from_its_module_however_the_two_are_joined() -> None:
    assert model("oblivious:sklearn.tree:DecisionTreeClassifier(max_depth=4)").name == f"oblivious:{TREE}"


def test_a_list_of_models_is_cut_at_commas_outside_of_brackets() -> None:
    assert split_names(" a:b , c(x=1, y=2):d(z=3),, e ") == ["a:b", "c(x=1, y=2):d(z=3)", "e"]


def test_a_model_names_the_packages_it_comes_from() -> None:
    assert re.fullmatch(r"scikit-learn [\d.]+", model(f"oblivious:{TREE}").built_on)
    assert model("driftsurf:logistic").built_on == ""
    assert re.fullmatch(r"lightgbm [\d.]+", model("driftsurf:lightgbm").built_on)
    assert model("oblivious:nowhere_at_all.Oak").built_on == "nowhere_at_all"


def test_a_class_of_the_user_is_identified_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    built = []
    for text in ("class Oak: ...", "class Oak: pass"):
        (tmp_path / "own_model_of_mine.py").write_text(text)
        built.append(model("oblivious:own_model_of_mine.Oak").built_on)
    assert built[0] != built[1]
    assert built[0].startswith("own_model_of_mine ")


@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_a_strategy_of_a_script_or_a_notebook_can_be_compared(
    kind: str, register: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = types.ModuleType("__main__")  # a script has a file and no spec, a notebook has neither
    if kind == "script":
        main.__file__ = str(tmp_path / "own.py")
        (tmp_path / "own.py").write_text("...")
    monkeypatch.setitem(sys.modules, "__main__", main)
    own = type("Own", (SingleModel,), {"__module__": "__main__"})
    register("strategy", "own-of-mine", tasks=["binary"])(own)
    built = model("own-of-mine:logistic").built_on
    assert re.fullmatch(r"__main__ \w{12}" if kind == "script" else "__main__", built)
    assert isinstance(model("own-of-mine:logistic").make(TWO).strategy, own)


def test_the_recommended_models_are_the_same_by_name_and_in_python() -> None:
    mine = model("recommended-linear").make(TWO).strategy
    estimator = recommended("linear", random_state=0)
    assert (mine.judge, mine.threshold, mine.reactive_length) == (
        estimator.judge,
        estimator.threshold,
        estimator.reactive_length,
    )
    assert mine.learner.get_params() == estimator.learner.get_params()
    mine_regression, regressor = (
        model("recommended-linear").make(Situation(0)).strategy,
        recommended("linear", task="regression"),
    )
    assert mine_regression.learner.get_params() == regressor.learner.get_params()
    assert (mine_regression.judge, mine_regression.threshold) == (regressor.judge, regressor.threshold)
    assert model("recommended").name == "recommended"
    assert RECOMMENDED["recommended-trees"] == "driftsurf:lightgbm"
    for name, classes in (("recommended", 2), ("recommended-light", 2), ("recommended", 0)):
        portfolio = model(name).make(Situation(classes)).strategy
        kind: Any = name.removeprefix("recommended-").replace("recommended", "portfolio")
        same = recommended(kind, task="classification" if classes else "regression")
        assert portfolio.learner.get_params() == same.learner.get_params()
        assert (portfolio.experts, portfolio.half_life) == (same.experts, same.half_life)
    with pytest.raises(OptionError, match="choices: 'portfolio', 'light', 'trees', 'linear'"):
        recommended("forest")  # type: ignore[call-overload]


def test_models_without_random_numbers_are_known_and_do_not_depend_on_the_seed() -> None:
    models = ["driftsurf:naive-bayes", "aue:naive-bayes", "ddm:naive-bayes"]
    models += ["driftsurf:lightgbm", "recommended-trees", "oblivious:lightgbm-lazy"] if find_spec("lightgbm") else []
    for name in models:
        assert not model(name).seeded
        first, second = (Match(Input("sea10", rows=600, batch_size=100), name, seed=seed).perform() for seed in (0, 1))
        assert np.array_equal(first.error, second.error)
    for name in ("driftsurf:logistic", "perm:naive-bayes", "dwmil:naive-bayes", "recommended", f"oblivious:{TREE}"):
        assert model(name).seeded


# ---------------------------------------------------------------------------- peers


def test_majority_predicts_the_most_frequent_class() -> None:
    X, y = np.zeros((5, 1)), np.array([2, 2, 2, 0, 1])
    peer = peers.Majority()
    assert not hasattr(peer, "classes_")
    peer.partial_fit(X, y, classes=np.arange(3))
    assert peer.predict(X).tolist() == [2] * 5


@pytest.mark.parametrize("source", ["sea0", "friedman"])
def test_persistence_is_the_same_rule_in_a_comparison_and_beside_a_run(source: str) -> None:
    rows = load(Input(source, rows=500, batch_size=50))
    trace = prequential(cast("Stream", rows), peers.Persistence(), batch_size=50)
    found = baselines(replace(trace, warmup_steps=1), "model")
    assert found.own == pytest.approx(found.others["persistence"])


@pytest.mark.skipif(find_spec("river") is None, reason="river is not installed")
def test_classifiers_of_river_can_be_compared(table: Path) -> None:
    what = Input(str(table), "label", batch_size=50)
    for name in ("river:ARF3", "river:tree.HoeffdingTreeClassifier(grace_period=20)"):
        assert Match(what, name).perform().error[1:].mean() < 0.6
    with pytest.raises(OptionError, match="Oak"):
        model("river:tree.Oak").make(TWO)
    with pytest.raises(OptionError, match="height"):
        model("river:tree.HoeffdingTreeClassifier(height=2)").make(TWO)
    with pytest.raises(CapabilityError, match=r"tree\.HoeffdingTreeRegressor"):
        model("river:tree.HoeffdingTreeRegressor").make(TWO)
    with pytest.raises(OptionError, match=r"river\.wood"):
        model("river:wood.Oak").make(TWO)


@pytest.mark.skipif(find_spec("capymoa") is None, reason="capymoa is not installed")
def test_classifiers_of_capymoa_can_be_compared(table: Path) -> None:  # pragma: no cover
    for name in ("capymoa:ARF3", "capymoa:SRP3", "capymoa:NaiveBayes"):
        assert Match(Input(str(table), "label", batch_size=50), name).perform().error[1:].mean() < 0.6


class _Instance:
    @staticmethod
    def from_array(schema: Any, x: Any, label: float | None = None) -> Any:
        return x if label is None else (x, label)


class _Echo:
    """Stands in for a model of CapyMOA: predicts the label that it learned last."""

    def __init__(self, schema: Any, random_seed: int = 0, ensemble_size: int = 100) -> None:
        self.schema, self.ensemble_size = schema, ensemble_size
        self.label: float | None = None

    def train(self, instance: tuple[Any, float]) -> None:
        self.label = instance[1]

    def predict(self, instance: Any) -> float | None:
        return self.label


def test_a_classifier_of_capymoa_gets_the_classes_and_learns_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Schema:
        @staticmethod
        def from_custom(columns: list[str], **about: Any) -> Any:
            return columns, about

    class Package:
        Instance = LabeledInstance = RegressionInstance = _Instance
        AdaptiveRandomForestClassifier = AdaptiveRandomForestRegressor = _Echo

    Package.Schema = Schema  # type: ignore[attr-defined]
    monkeypatch.setattr(peers, "_import", lambda name, module: Package)
    peer = model("capymoa:ARF7").make(Situation(n_classes=3))
    peer.partial_fit(np.zeros((2, 2)), np.array([0, 2]), classes=np.arange(3))
    assert peer.predict(np.zeros((3, 2))).tolist() == [2, 2, 2]
    columns, about = peer._model.schema
    assert columns == ["x0", "x1", "label"]
    assert about["categories"] == {"label": ["0", "1", "2"]}
    assert peer._model.ensemble_size == 7
    regressor = model("capymoa:ARF7").make(Situation(n_classes=0))
    regressor.partial_fit(np.zeros((2, 2)), np.array([0.5, 2.5]))
    assert regressor.predict(np.zeros((1, 2))).tolist() == [2.5]
    assert regressor._model.schema[1]["categories"] == {}


def test_a_missing_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> Any:
        raise ModuleNotFoundError(f"No module named {module!r}", name="capymoa")

    monkeypatch.setattr(peers, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'driftsurf\[capymoa\]'"):
        peers._import("capymoa", "capymoa.core")
