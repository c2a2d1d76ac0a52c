"""Models by name: strategies, detectors and learners with options, and what is wrong with a name."""

from __future__ import annotations

import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest
from sklearn.svm import LinearSVC

from driftsurf.errors import OptionError
from driftsurf.learners import (
    LinearRegression,
    LinearSVM,
    LogisticRegression,
    NaiveBayes,
    NearestNeighbours,
    Perceptron,
    SoftmaxRegression,
)
from driftsurf.registry import names
from driftsurf.session.model_names import make_strategy, model_names, read_model


def test_a_strategy_that_needs_more_than_a_learner_is_not_a_model_name() -> None:
    assert set(names("strategy")) - set(model_names()) == {"aware", "reset-on-drift"}
    for name in ("aware", "reset-on-drift"):
        with pytest.raises(OptionError, match=name):
            read_model(name)


@pytest.mark.parametrize("model", model_names())
def test_every_model_can_be_made_by_name(model: str) -> None:
    assert make_strategy(model, None, "binary", seed=3).seed == 3  # type: ignore[attr-defined]


def test_every_learner_can_be_made_by_name_for_its_tasks() -> None:
    kinds: dict[str, Any] = {
        "logistic": LogisticRegression,
        "softmax": SoftmaxRegression,
        "svm": LinearSVM,
        "linear": LinearRegression,
        "perceptron": Perceptron,
        "naive-bayes": NaiveBayes,
        "nearest-neighbours": NearestNeighbours,
    }
    assert set(names("learner")) == {*kinds, "lightgbm", "lightgbm-lazy"}
    for name, kind in kinds.items():
        task: Any = sorted(kind().capabilities.tasks)[0]
        assert isinstance(make_strategy("driftsurf", name, task).learner, kind)
    assert isinstance(make_strategy("driftsurf", "logistic", "multiclass").learner, SoftmaxRegression)
    for model, learner in (("aue:softmax", None), ("aue", "softmax")):
        assert isinstance(make_strategy(model, learner, "binary").learner, SoftmaxRegression)


def test_a_class_of_another_library_is_named_by_module_and_class() -> None:
    made = make_strategy("driftsurf", "river.linear_model:LogisticRegression", "binary", {"l2": 0.1})
    assert made.learner.model.l2 == 0.1  # type: ignore[attr-defined]
    tree = make_strategy("driftsurf:sklearn.tree.DecisionTreeClassifier", None, "binary", {"max_depth": 3})
    assert tree.learner.estimator.max_depth == 3  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="Pipeline"):
        make_strategy("driftsurf", "sklearn.pipeline:Pipeline", "binary")
    with pytest.raises(OptionError, match="LogisticRegression"):
        make_strategy("driftsurf", "river.linear_model:LogisticRegression", "binary", {"loss": 3, "l1": 1, "l2": 1})


def test_separate_parameters_take_precedence_over_options_in_the_name() -> None:
    made: Any = make_strategy("driftsurf(threshold=0.2, greedy=False):softmax(l2=0.5)", None, "binary", {"l2": 0.25})
    assert (made.threshold, made.greedy, made.learner.l2) == (0.2, False, 0.25)
    made = make_strategy("mddm-a(growth=0.02)", "svm(l2=0.5)", "binary", {"growth": 0.03})
    assert (made.detector.weighting, made.detector.growth, made.learner.l2) == ("arithmetic", 0.03, 0.5)
    made = make_strategy("aue:sklearn.tree:DecisionTreeClassifier(max_depth=3, passes=2.0)", None, "multiclass")
    assert (made.learner.estimator.max_depth, made.learner.passes) == (3, 2.0)
    made = make_strategy("recommended-linear", None, "multiclass", {"reactive_length": 3})
    assert (made.judge, made.learner.steps_per_row, made.reactive_length) == ("prequential", 8.0, 3)


class AnyOption(LinearSVC):  # type: ignore[misc]
    """A classifier that accepts any keyword argument."""

    def __init__(self, C: float = 1.0, **more: Any) -> None:
        super().__init__(C=C)
        self.more = more


def test_a_class_that_accepts_any_option_gets_those_that_no_other_part_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "any_option", SimpleNamespace(AnyOption=AnyOption))
    made: Any = make_strategy("oblivious:any_option:AnyOption(depth=3)", None, "binary", {"passes": 2, "C": 0.5})
    assert (made.learner.estimator.more, made.learner.estimator.C, made.learner.passes) == ({"depth": 3}, 0.5, 2)


class NoFit:
    """Lacks one method of a scikit-learn estimator."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def partial_fit(self, X: Any, y: Any) -> None: ...

    def predict(self, X: Any) -> None: ...


class Picky(NoFit):
    def __init__(self) -> None:
        raise ValueError("too picky")


OWN_MODELS = types.ModuleType("own_models")
vars(OWN_MODELS).update(NoFit=NoFit, Picky=Picky)


@pytest.mark.parametrize(
    ("written", "quoted"),
    [
        ("driftsurf(judge=prequential)", "driftsurf(judge='prequential')"),
        ("driftsurf:logistic(optimizer=strsaga, l2=.1)", "driftsurf:logistic(optimizer='strsaga', l2=0.1)"),
        ("driftsurf(greedy=false, max_rows=none)", "driftsurf(greedy=False, max_rows=None)"),
    ],
)
def test_a_word_is_read_as_on_a_command_line(written: str, quoted: str) -> None:
    assert read_model(written).text == read_model(quoted).text == quoted


def test_a_hint_to_install_a_package_is_given_only_if_it_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "own_models", OWN_MODELS)
    for name, missing in (("NoFit", False), ("Picky", False), ("NoPart", True)):
        with pytest.raises(OptionError) as refused:
            make_strategy("driftsurf", f"own_models:{name}", "binary")
        assert ("Install" in str(refused.value)) == missing


@pytest.mark.parametrize(
    ("model", "learner", "named"),
    [
        ("aue:softmax", "svm", ["'aue:softmax'", "'svm'"]),
        ("recommended", "svm", ["'recommended'", "'svm'"]),
        ("recommended(threshold=1)", None, ["recommended(threshold=1)", "portfolio:softmax"]),
        ("recommendd", None, ["'recommendd'", "'recommended'", "driftsurf"]),
        ("driftsurf:forest", None, ["'forest'", "logistic, naive-bayes, nearest-neighbours, perceptron, softmax, svm"]),
        ("driftsurf(l2=1)", None, ["driftsurf", "'l2'"]),
        ("ddm(drift=1)", None, ["ddm", "'drift'", "'drift_level'", "min_rows"]),
        ("driftsurf(1)", None, ["driftsurf(1)"]),
        ("driftsurf(variant=algorithm-1)", None, ["driftsurf(variant=algorithm-1)", "quotes"]),
        ("driftsurf(judge=jury)", None, ["judge", "'jury'", "prequential"]),
        ("driftsurf:own_models.NoFit", None, ["own_models.NoFit", "no fit", "scikit-learn"]),
        ("driftsurf:own_models.NoPart", None, ["own_models", "NoPart", "correct the name"]),
        ("driftsurf:own_models.Picky", None, ["own_models.Picky", "too picky", "options"]),
        ("driftsurf(threshold=-1.0)", None, ["threshold", "-1.0"]),
        ("driftsurf:svm(l2=-1.0)", None, ["l2", "-1.0"]),
    ],
)
def test_a_bad_name_is_refused_with_the_value_and_the_choices(
    model: str, learner: str | None, named: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "own_models", OWN_MODELS)
    with pytest.raises(OptionError) as refused:
        make_strategy(model, learner, "binary")
    assert [words for words in named if words not in str(refused.value)] == []
