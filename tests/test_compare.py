"""Models beside each other: their names, their inputs, their matches, the standings and the command."""

from __future__ import annotations

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from driftsurf import recommended
from driftsurf.assembly.models import DETECTORS, RECOMMENDED, STRATEGIES, names
from driftsurf.cli import main
from driftsurf.errors import (
    BadRowError,
    CapabilityError,
    InputError,
    LabelError,
    MissingExtraError,
    OptionError,
    RunFolderError,
    SchemaError,
)
from driftsurf.experiments import inputs, matches, models, peers
from driftsurf.experiments.compare import USUAL, USUAL_FOR_VALUES, Comparison, compare, stand
from driftsurf.experiments.inputs import FILES, REAL, Input, expand, load
from driftsurf.experiments.matches import Match, Score
from driftsurf.experiments.models import Situation, model
from driftsurf.report import comparison
from driftsurf.report.comparison_picture import picture
from driftsurf.streams import files

TREE = "sklearn.tree.DecisionTreeClassifier(max_depth=4)"
TWO = Situation(n_classes=2, batch_size=50)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A file whose label is told by the sign of a, and turns around in its second half."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 600))
    labels = np.where((a > 0) == (np.arange(600) < 300), "up", "down")
    lines = [f'{{"a": {x}, "b": {y}, "label": "{z}"}}\n' for x, y, z in zip(a, b, labels, strict=True)]
    path = tmp_path / "turning.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


# ---------------------------------------------------------------------------- models by name


@pytest.mark.parametrize(
    "name",
    [
        "driftsurf:logistic",
        "driftsurf(threshold=0.2, greedy=False):softmax(l2=0.001)",
        "oblivious:svm",
        f"sliding-window(window=200):{TREE}",
        f"oblivious:{TREE}",
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


def test_options_reach_the_strategy_and_the_learner() -> None:
    session = model("driftsurf(threshold=0.3):logistic(l2=0.5)").make(TWO)
    assert session.strategy.threshold == 0.3
    assert session.strategy.learner.l2 == 0.5


@pytest.mark.parametrize("name", [*STRATEGIES, *DETECTORS])
def test_what_can_be_run_can_be_compared(name: str) -> None:
    assert model(name).name == name
    assert model(name).make(TWO).strategy.seed == TWO.seed
    assert re.fullmatch(r"numba [\d.]+", model(name).built_on)


def test_options_reach_the_detector_and_stay_in_their_model() -> None:
    assert model("ddm(drift_level=5.0):svm").make(TWO).strategy.detector.drift_level == 5.0
    assert model("ddm:svm").make(TWO).strategy.detector.drift_level == 3.0


def test_more_than_two_classes_take_softmax_regression() -> None:
    session = model("driftsurf:logistic").make(Situation(n_classes=3))
    assert type(session.strategy.learner).__name__ == "SoftmaxRegression"


def test_a_budget_is_divided_among_the_models_of_a_strategy() -> None:
    at = Situation(n_classes=2, gradients_per_row=3.0)
    session = model("driftsurf:logistic").make(at)
    assert session.strategy.budget == "divided"
    assert session.strategy.learner.steps_per_row == 3.0
    assert model(f"oblivious:{TREE}").make(at).strategy.learner.passes == 3.0
    with pytest.raises(OptionError, match="has no budget to set"):
        models._budgeted(object(), 3.0, "mine:mine")  # type: ignore[arg-type]


def test_a_budget_holds_over_a_run(table: Path) -> None:
    what = Input(str(table), "label", batch_size=50)
    score = Match(what, "driftsurf:logistic", gradients_per_row=4.0).perform()
    assert score.gradients == pytest.approx(4.0 * 600, rel=0.01)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("driftsurfing:logistic", "model is 'driftsurfing'; did you mean 'driftsurf'? choices: "),
        ("driftsurf:forest", "learner is 'forest'; choices: logistic, softmax, svm"),
        ("best", "model is 'best'; choices: driftsurf, "),
        ("driftsurf(0.2):logistic", "cannot be read"),
        ("driftsurf(threshold=):logistic", "cannot be read"),
        ("driftsurf(threshold=x):logistic", "cannot be read"),
        ("drift surf:logistic", "cannot be read"),
        ("driftsurf(**{}):logistic", "cannot be read"),
    ],
)
def test_a_name_that_cannot_be_read_is_refused_with_the_choices(name: str, words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        model(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("driftsurf(thresold=0.2):logistic", "driftsurf has no parameter 'thresold'; did you mean 'threshold'?"),
        ("driftsurf:logistic(depth=2)", "logistic has no parameter 'depth'; choices: "),
        ("oblivious:sklearn.tree.Oak", "cannot be made: module"),
        ("oblivious:nowhere_at_all.Oak", "install its package, or correct it"),
        ("aware:logistic", "has to be told of the drifts"),
    ],
)
def test_what_only_shows_when_a_model_is_made_is_refused_then(name: str, words: str) -> None:
    with pytest.raises((OptionError, MissingExtraError), match=re.escape(words)):
        model(name).make(TWO)


def test_a_class_is_imported_from_its_module_however_the_two_are_joined() -> None:
    assert model("oblivious:sklearn.tree:DecisionTreeClassifier(max_depth=4)").name == f"oblivious:{TREE}"


def test_a_list_of_models_is_cut_at_commas_outside_of_brackets() -> None:
    assert names(" a:b , c(x=1, y=2):d(z=3),, e ") == ["a:b", "c(x=1, y=2):d(z=3)", "e"]


def test_a_model_says_what_it_stands_on() -> None:
    assert re.fullmatch(r"scikit-learn [\d.]+", model(f"oblivious:{TREE}").built_on)
    assert re.fullmatch(r"numba [\d.]+", model("driftsurf:logistic").built_on)
    assert model("oblivious:nowhere_at_all.Oak").built_on == "nowhere_at_all"


def test_a_class_of_the_users_own_is_known_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    built = []
    for text in ("class Oak: ...", "class Oak: pass"):
        (tmp_path / "own_model_of_mine.py").write_text(text)
        built.append(model("oblivious:own_model_of_mine.Oak").built_on)
    assert built[0] != built[1]
    assert built[0].startswith("own_model_of_mine ")


def test_the_registry_and_the_library_recommend_the_same() -> None:
    mine = model("recommended-linear").make(TWO).strategy
    face = recommended("linear", random_state=0)
    assert (mine.judge, mine.threshold, mine.reactive_length) == (face.judge, face.threshold, face.reactive_length)
    assert mine.learner.get_params() == face.learner.get_params()
    values, face_of_values = (
        model("recommended-linear").make(Situation(0)).strategy,
        recommended("linear", task="regression"),
    )
    assert values.learner.get_params() == face_of_values.learner.get_params()
    assert (values.judge, values.threshold) == (face_of_values.judge, face_of_values.threshold)
    assert model("recommended").name == "recommended"
    assert RECOMMENDED["recommended"] == "driftsurf:lightgbm"
    with pytest.raises(OptionError, match="choices: 'trees', 'linear'"):
        recommended("forest")  # type: ignore[call-overload]


# ---------------------------------------------------------------------------- peers


def test_trivial_peers_predict_the_most_frequent_and_the_last_class() -> None:
    X, y = np.zeros((5, 1)), np.array([2, 2, 2, 0, 1])
    for peer, expected in ((peers.Majority(), 2), (peers.Persistence(), 1)):
        assert not hasattr(peer, "classes_")
        peer.partial_fit(X, y, classes=np.arange(3))
        assert peer.predict(X).tolist() == [expected] * 5


@pytest.mark.skipif(find_spec("river") is None, reason="river is not installed")
def test_river_s_forest_and_any_other_of_its_classifiers_take_part(table: Path) -> None:
    what = Input(str(table), "label", batch_size=50)
    for name in ("river:ARF3", "river:tree.HoeffdingTreeClassifier(grace_period=20)"):
        assert Match(what, name).perform().error[1:].mean() < 0.6
    with pytest.raises(OptionError, match=r"river\.tree has no 'Oak'"):
        model("river:tree.Oak").make(TWO)
    with pytest.raises(OptionError, match="does not take these options"):
        model("river:tree.HoeffdingTreeClassifier(height=2)").make(TWO)
    with pytest.raises(CapabilityError, match="does not learn classes; take a classifier"):
        model("river:tree.HoeffdingTreeRegressor").make(TWO)
    with pytest.raises(OptionError, match="river has no part"):
        model("river:wood.Oak").make(TWO)


@pytest.mark.skipif(find_spec("capymoa") is None, reason="capymoa is not installed")
def test_forests_of_capymoa_take_part(table: Path) -> None:  # pragma: no cover
    for name in ("capymoa:ARF3", "capymoa:SRP3", "capymoa:NaiveBayes"):
        assert Match(Input(str(table), "label", batch_size=50), name).perform().error[1:].mean() < 0.6


class _Instance:
    @staticmethod
    def from_array(schema: Any, x: Any, label: float | None = None) -> Any:
        return x if label is None else (x, label)


class _Echo:
    """Stands in for a model of CapyMOA: predicts the label that it learnt last, nothing before."""

    def __init__(self, schema: Any, random_seed: int = 0, ensemble_size: int = 100) -> None:
        self.schema, self.ensemble_size = schema, ensemble_size
        self.label: float | None = None

    def train(self, instance: tuple[Any, float]) -> None:
        self.label = instance[1]

    def predict(self, instance: Any) -> float | None:
        return self.label


def test_a_classifier_of_capymoa_is_told_the_classes_and_learns_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Schema:
        @staticmethod
        def from_custom(columns: list[str], **about: Any) -> Any:
            return columns, about

    class Package:
        Instance = LabeledInstance = RegressionInstance = _Instance
        AdaptiveRandomForestClassifier = AdaptiveRandomForestRegressor = _Echo

    Package.Schema = Schema  # type: ignore[attr-defined]
    monkeypatch.setattr(peers, "_package", lambda name, module: Package)
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


def test_a_peer_that_is_not_installed_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(module: str) -> Any:
        raise ModuleNotFoundError(f"No module named {module!r}", name="capymoa")

    monkeypatch.setattr(peers, "import_module", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'driftsurf\[capymoa\]'"):
        peers._package("capymoa", "capymoa.core")


# ---------------------------------------------------------------------------- inputs


def test_a_file_becomes_batches_of_coded_rows(table: Path) -> None:
    rows = load(Input(str(table), "label"))
    assert (rows.batch_size, rows.n_rows, rows.labels, rows.drift_steps) == (6, 600, ("down", "up"), None)
    assert rows.classes == (0, 1)
    assert [len(y) for _, y in rows.batches(250)] == [250, 250, 100]
    assert load(Input(str(table), "label", drop=("b",))).X.shape[1] == rows.X.shape[1] - 1
    short = load(Input(str(table), "label", batch_size=70, rows=450))
    assert (short.n_rows, short.batch_size) == (420, 70)
    assert load(Input(str(table), "label", rows=200)).batch_size == 2


def test_a_file_is_read_as_by_a_run(tmp_path: Path) -> None:
    path = tmp_path / "eu.txt"
    cells = [f"{i % 7},5;{1 + i % 28}.1.2007;{i % 3};{'ja' if i % 2 else 'nein'}\n" for i in range(60)]
    cells[3] = "2,5;kaputt;1;ja\n"
    cells[5] = cells[7] = "2,5;1.1.2007;1;\n"
    path.write_text("preis;tag;art;verkauft\n" + "".join(cells))
    said: dict[str, Any] = {"decimal": ",", "date_format": ("%d.%m.%Y",), "kind": (("tag", "date"),)}
    with pytest.raises(BadRowError, match=r"eu.txt, line 5: column 'tag' is a date.* on_bad_row='skip'"):
        load(Input(str(path), "verkauft", **said))
    said["missing"] = ("kaputt",)
    with pytest.raises(LabelError, match=r"'verkauft' is missing in 2 rows, the first of them row 5. .*='skip'"):
        load(Input(str(path), "verkauft", **said, on_bad_row=1))
    for allowed in ("skip", 2):
        rows = load(Input(str(path), "verkauft", **said, on_bad_row=allowed))
        assert (rows.n_rows, rows.labels) == (58, ("ja", "nein"))
        assert rows.X[0].tolist()[0] == 0.5
    named = load(Input(str(path), "verkauft", **said, on_bad_row="skip", categorical=("art",)))
    assert named.X.shape[1] > rows.X.shape[1]


def test_the_command_takes_the_options_of_a_run_that_say_how_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "eu.csv"
    lines = [f"{i};{(i * 37) % 11},5;{'ja' if (i * 37) % 11 > 5 else 'nein'}\n" for i in range(200)]
    path.write_text("nr;preis;verkauft\n" + "".join(lines))
    common = ["--label", "verkauft", "--drop", "nr", "--batch-size", "20", "--jobs", "1", "--quiet"]
    common += ["--models", "driftsurf:logistic,majority"]
    found = invoke("compare", str(path), *common, "--decimal", ",", "--out", str(tmp_path / "out"))
    assert found.exit_code == 0
    assert "driftsurf:logistic wins" in found.output
    assert "warning" not in found.output
    found = invoke("compare", str(path), *common, "--out", str(tmp_path / "text"))
    hint = "eu.csv: the column 'preis' was taken for text, and looks like numbers ('0,5'): try --decimal ,"
    assert found.stderr.splitlines() == [f"warning: {hint}"]
    spoilt = tmp_path / "spoilt.csv"
    spoilt.write_text(path.read_text().replace("\n4;5,5", "\n4;x,5"))
    again = invoke("compare", str(spoilt), *common, "--decimal", ",", "--out", str(tmp_path / "out"))
    assert again.exit_code == 1
    assert "line 6: column 'preis' is a number, and 'x,5' is none. Correct it, or leave" in again.output
    assert "--on-bad-row skip" in again.output


def test_the_help_names_the_files_that_are_known_and_the_usual_models() -> None:
    told = "".join(invoke("compare", "--help").output.split())  # lines end behind hyphens too
    usual = [name.split(":")[0] for name in f"{USUAL},{USUAL_FOR_VALUES}".split(",")]
    assert [name for name in (*FILES, *usual, "river:SRP10") if name not in told] == []


def test_nothing_is_said_of_columns_that_are_known() -> None:
    assert Input("sea0").hints() == Input("insects").hints() == []


def test_a_column_with_a_comma_in_its_name_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "comma.csv"
    path.write_text('"a,b",c,y\n' + "1,2,x\n3,4,z\n" * 20)
    assert load(Input(str(path), "y", drop=("a,b",))).X.shape[1] == load(Input(str(path), "y")).X.shape[1] - 1
    common = ["compare", str(path), "--label", "y", "--jobs", "1", "--quiet", "--models", "majority,persistence"]
    assert invoke(*common, "--drop", "a,b", "--out", str(tmp_path / "out")).exit_code == 0
    refused = invoke(*common, "--drop", "a,b", "--drop", "c,y", "--out", str(tmp_path / "out"))
    assert "--drop names 'c,y'" in refused.output
    assert "Name one column at a time." in refused.output


def test_a_stream_of_the_catalogue_knows_its_batches_and_drifts() -> None:
    rows = load(Input("sine1"))
    assert (rows.batch_size, rows.n_rows, rows.drift_steps) == (100, 10_000, (20, 40, 60, 80))
    assert load(Input("sine1", rows=1_000)).batch_size == 10
    assert Input("sine1").title == "sine1"
    assert Input("electricity").title == "Electricity"
    assert Input("rialto").title == "Rialto, 10 classes"


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        ({}, OptionError, "label is not given: name the column to predict; the columns are 'a', 'b'"),
        ({"label": "a", "task": "multiclass"}, LabelError, "600 different values.*task='regression'"),
        ({"label": "label", "task": "regression"}, LabelError, "has to be numbers"),
        ({"label": "label", "task": "guess"}, OptionError, "task is 'guess'; choices: 'auto', 'binary'"),
        ({"label": "price"}, SchemaError, "label is 'price'; the columns are"),
        ({"label": "label", "batch_size": 400}, InputError, "batches of 400 make no two"),
    ],
)
def test_what_cannot_be_compared_on_is_refused(
    table: Path, what: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        load(Input(str(table), **what))


@pytest.mark.parametrize(("cell", "told"), [("2.5", "2.5"), ("x", "'x'"), ("7", "7")])
def test_one_label_alone_is_nothing_to_predict(cell: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "same.csv"
    path.write_text("a,y\n" + f"1,{cell}\n" * 30)
    with pytest.raises(LabelError, match=f"is always {told}: there is nothing to predict"):
        load(Input(str(path), "y"))


def test_a_source_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DRIFTSURF_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"set DRIFTSURF_DATA to a folder with rialto\.csv"):
        Input("rialto").digest()
    with pytest.raises(OptionError, match="did you mean 'sea0'"):
        Input("sea").digest()
    with pytest.raises(InputError, match="electricity is not at hand"):
        Input("electricity").digest()
    with pytest.raises(InputError, match="standard input can be read but once"):
        Input("-").digest()
    assert Input("sea0").digest() == "generated"
    (tmp_path / "driftsurf_sine1.csv").write_text("x,y,label\n", encoding="utf-8")
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    assert Input("sine1").paths() == [str(tmp_path / "driftsurf_sine1.csv")]
    with pytest.raises(OSError, match="nowhere"):
        load(Input("nowhere.jsonl", "label"))


def test_the_bytes_of_files_identify_their_rows(table: Path) -> None:
    before = Input(str(table)).digest()
    assert Input(str(table.parent / "*.jsonl")).digest() == before
    table.write_text(table.read_text(encoding="utf-8") + '{"a": 1.0, "b": 1.0, "label": "up"}\n', encoding="utf-8")
    assert Input(str(table)).digest() != before


def test_a_known_file_is_found_in_the_folder_of_data(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTSURF_DATA", str(tmp_path))
    monkeypatch.setitem(FILES, "turning", inputs.KnownFile("Turning", table.name, "label"))
    assert load(Input("turning")).name == "Turning"
    assert Input("turning").digest() == Input(str(table)).digest()


@pytest.mark.skipif("DRIFTSURF_DATA" not in os.environ, reason="DRIFTSURF_DATA is not set")
@pytest.mark.parametrize(
    ("name", "classes", "columns"),
    [("noaa-weather", 2, 8), ("insects", 6, 33), ("rialto", 10, 27), ("outdoor", 40, 21), ("phishing", 2, 46)],
)
def test_the_known_files_have_their_classes(name: str, classes: int, columns: int) -> None:
    if files.find([FILES[name].file]) is None:
        pytest.skip(f"{name} is not at hand")
    rows = load(Input(name))
    assert (len(rows.labels), rows.X.shape[1]) == (classes, columns + 1)  # the last one says: a gap
    assert rows.n_rows // rows.batch_size >= 100
    assert np.isfinite(rows.X).all()


def test_real_stands_for_the_ten_and_each_source_is_taken_once() -> None:
    assert expand(("sea0", "real", "rialto")) == ("sea0", *REAL)


def test_sparse_rows_are_made_dense_for_those_who_take_no_others() -> None:
    from scipy.sparse import csr_array

    X = csr_array(np.eye(4))
    rows = inputs.Rows("eye", X, np.arange(4) % 2, (0, 1), 2, None)
    assert rows.dense().X.tolist() == np.eye(4).tolist()
    assert rows.dense().dense().X.shape == (4, 4)
    short = inputs.Rows("eye", X, np.arange(4) % 2, (0, 1), 2, None, compact=np.arange(4.0)[:, None])
    assert short.first(2).dense().X.tolist() == [[0.0], [1.0]]


def test_flights_are_twelve_columns_without_one_hot() -> None:
    from scipy.sparse import csr_array

    slots = np.arange(7) * 2
    one_hot = np.zeros((2, 19))
    one_hot[0, slots] = one_hot[1, slots + 1] = 1.0
    one_hot[:, 14:] = [[0.5, 0.0, 0.25, 0.1, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]]
    compact = inputs._flights(csr_array(one_hot))
    assert compact[0].tolist() == [*slots.tolist(), 0.5, 0.0, 0.25, 0.1, 1.0]
    assert compact[1].tolist() == [*(slots + 1).tolist(), 0.0, 0.0, 0.0, 0.0, 0.0]


def test_a_stream_of_flights_is_compact_for_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.sparse import csr_array

    X = csr_array(np.hstack([np.ones((20, 7)), np.full((20, 5), 0.5)]))

    class Entry:
        batch_size = 5
        dataset = None
        values = False

        @staticmethod
        def make() -> Any:
            return Entry

        @staticmethod
        def arrays() -> Any:
            return X, np.tile([-1, 1], 10)

        @staticmethod
        def drift_steps(size: int) -> tuple[int, ...]:
            return ()

    monkeypatch.setattr("driftsurf.streams.catalogue.get", lambda name: Entry)
    load.cache_clear()
    rows = load(Input("airline-2007"))
    load.cache_clear()
    assert rows.sparse
    assert rows.dense().X.shape == (20, 12)
    assert rows.drift_steps is None
    monkeypatch.setattr(matches, "load", lambda what: rows)
    assert len(Match(Input("airline-2007"), "majority").perform().error) == 4


# ---------------------------------------------------------------------------- standings


def scores(*errors: list[float], seconds: float = 1.0, gradients: int = 200) -> list[Score]:
    return [Score(np.array([0.9, *error]), 100, gradients, seconds) for error in errors]


def two_sources() -> Comparison:
    easy = {"a": scores([0.1, 0.2] * 8, [0.2, 0.2] * 8), "b": scores([0.3, 0.4] * 8, [0.3, 0.4] * 8, gradients=0)}
    hard = {"a": scores([0.5] * 16, [0.5] * 16), "b": scores([0.4] * 16, [0.4] * 16, gradients=0)}
    return stand([("easy", easy), ("hard", hard)], seeds=(0, 1), gradients_per_row=None)


def test_standings_leave_the_first_batch_out_and_average_over_seeds_and_sources() -> None:
    result = two_sources()
    easy, hard = result.sources
    assert [one.error.value for one in easy.models] == pytest.approx([0.175, 0.35])
    assert easy.winner.model == "a"
    assert hard.winner.model == "b"
    assert easy.sure
    assert easy.second.behind.low > 0.1
    assert result.overall.winner.model == "a"
    assert result.overall.winner.error.value == pytest.approx((0.175 + 0.5) / 2)
    assert [one.rank for one in result.overall.models] == [1.5, 1.5]
    assert [one.seconds for one in result.overall.models] == [2.0, 2.0]
    assert [one.gradients_per_row for one in result.overall.models] == [2.0, 0.0]
    assert result.overall.models[0].wins + result.overall.models[1].wins == pytest.approx(1.0)


def test_a_winner_by_chance_is_called_so() -> None:
    rng = np.random.default_rng(0)
    a, b = (scores(list(0.3 + 0.1 * rng.normal(size=30))) for _ in range(2))
    only = stand([("noise", {"a": a, "b": b})], seeds=(0,), gradients_per_row=2.0)
    assert not only.overall.sure
    assert "not surely ahead" in only.overall.verdict()
    assert only.overall is only.sources[0]
    text = comparison.markdown(only)
    assert "one seed" in text
    assert "2 gradients a row for all" in text
    assert "| source |" not in text


def test_the_report_has_the_tables_the_verdict_and_the_picture(tmp_path: Path) -> None:
    result = two_sources()
    comparison.write(tmp_path, result)
    text = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    assert "| easy | **0.175** | 0.350 |" in text
    assert "| mean rank | 1.50 | 1.50 |" in text
    found = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert found["winner"] == "a"
    assert found["overall"]["models"][0]["error"]["value"] == pytest.approx(0.3375)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert "**" not in page
    assert picture(result) == (tmp_path / "comparison.svg").read_text(encoding="utf-8")
    assert picture(result).count("<circle") == 6


def test_more_models_than_sources_stand_below_each_other() -> None:
    three = {name: scores([error] * 16) for name, error in (("a", 0.1), ("b", 0.2), ("c", 0.3))}
    text = comparison.markdown(stand([("easy", three), ("hard", three)], seeds=(0,), gradients_per_row=None))
    assert "| model | easy | hard | mean | mean rank | CPU s in all |" in text
    assert "| a | **0.100** | **0.100** | **0.100** | 1.00 | 2.0 |" in text


def test_a_long_name_is_cut_in_the_picture() -> None:
    name = "oblivious:" + "x" * 60
    result = stand([("s", {name: scores([0.1, 0.2]), "b": scores([0.2, 0.3])})], (0,), None)
    assert f">{name[:45]}…<" in picture(result)


# ---------------------------------------------------------------------------- the command


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def test_the_command_compares_on_a_file_and_goes_on_from_its_ledger(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = f"driftsurf:logistic,oblivious:logistic,sliding-window(window=100):{TREE},majority"
    arguments = ["compare", str(table), "--label", "label", "--batch-size", "50", "--models", chosen, "--jobs", "1"]
    arguments += ["--trials", "2", "--out", str(tmp_path / "out"), "--quiet"]
    first = invoke(*arguments)
    assert first.exit_code == 0
    assert re.search(r"driftsurf:logistic wins|sliding-window.* wins", first.output)
    before = (tmp_path / "out" / "comparison.json").read_text(encoding="utf-8")
    monkeypatch.setattr(Match, "perform", lambda self: pytest.fail("done twice"))
    assert invoke(*arguments).output == first.output
    assert (tmp_path / "out" / "comparison.json").read_text(encoding="utf-8") == before


def test_results_do_not_depend_on_the_number_of_processes(table: Path, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        what = [Input(str(table), "label", batch_size=50)]
        result = compare(tmp_path / str(jobs), what, ["driftsurf:logistic", f"driftsurf:{TREE}"], trials=2, jobs=jobs)
        found.append([(one.model, one.error) for one in result.overall.models])
    assert found[0] == found[1]


def test_an_interrupted_comparison_says_that_it_goes_on(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Match) -> Score:
        raise KeyboardInterrupt

    monkeypatch.setattr(Match, "perform", stop)
    result = invoke("compare", str(table), "--label", "label", "--jobs", "1", "--out", str(tmp_path / "out"))
    assert result.exit_code == 130
    assert "goes on from there" in result.output


def test_a_comparison_needs_two_models_a_source_and_a_folder_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="give two at least"):
        compare(tmp_path, [Input("sine1")], ["majority", "majority"])
    with pytest.raises(OptionError, match="no source"):
        compare(tmp_path, [], ["majority", "persistence"])
    with pytest.raises(OptionError, match="gradients_per_row is 0"):
        compare(tmp_path, [Input("sine1")], ["majority", "persistence"], gradients_per_row=0)
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunFolderError, match="holds files of others"):
        compare(tmp_path, [Input("sine1")], ["majority", "persistence"])


def test_a_mistake_on_the_command_line_is_one_line(tmp_path: Path) -> None:
    result = invoke("compare", "sine1", "--models", "driftsurf:forest,majority", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert result.output.startswith("Error: learner is 'forest'")


def test_a_narrow_terminal_has_fewer_columns_and_whole_names() -> None:
    row = ["driftsurf:logistic", "0.1234", "0.1200 to 0.1300", "0.0000", "0.0000 to 0.0000", "100%", "1.00", "9.0", "2"]
    first, sources = comparison._sheets(two_sources())
    sheet = first._replace(rows=[row])
    assert comparison._fitting(sheet, 140) == list(range(9))
    assert comparison._fitting(sheet, 80) == [0, 1, 2, 3, 5]
    assert comparison._fitting(sheet, 10) == [0, 1, 3]
    assert comparison._fitting(sources, 3) == [0, 1, 2]
