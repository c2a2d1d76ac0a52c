"""The small parts of a run over tables, each by itself."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from driftsurf.assembly.models import DETECTORS, LEARNERS, STRATEGIES, make_strategy
from driftsurf.assembly.tables import TableSettings, assemble
from driftsurf.encoding import TableEncoder
from driftsurf.errors import OptionError, StateError
from driftsurf.evaluation.baselines import baselines
from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.summary import summarise
from driftsurf.evaluation.trace import OTHER
from driftsurf.learners import LinearRegression, LinearSVM, LogisticRegression, SoftmaxRegression
from driftsurf.report.page import render
from driftsurf.runtime.checkpoint import CheckpointFolder
from driftsurf.runtime.feed import Feed, _chained
from driftsurf.runtime.late import Arrived, DelayedSession, Pace
from driftsurf.runtime.predictions import Given, given_by, prediction_sink
from driftsurf.runtime.rolled import RolledFile, Rotation
from driftsurf.runtime.run import Run, Stopped
from driftsurf.runtime.session import Observation, Session
from driftsurf.runtime.source import StreamSource
from driftsurf.runtime.table_source import Encoded, TableSource, kept_rows
from driftsurf.runtime.target import Target, find_target
from driftsurf.sources import Source
from driftsurf.state import to_bytes
from driftsurf.strategies import DriftSurf
from driftsurf.streams import ArrayStream
from driftsurf.tables import Table, read_table


@pytest.mark.parametrize("model", [*STRATEGIES, *DETECTORS])
def test_every_model_can_be_made_by_its_name(model: str) -> None:
    assert make_strategy(model, None, "binary", seed=3).seed == 3  # type: ignore[attr-defined]


def test_every_learner_can_be_made_by_its_name_and_has_its_task() -> None:
    kinds = {"logistic": LogisticRegression, "softmax": SoftmaxRegression, "svm": LinearSVM, "linear": LinearRegression}
    assert list(LEARNERS) == [*kinds, "lightgbm"]
    for name, kind in kinds.items():
        task: Any = sorted(kind.capabilities.tasks)[0]
        assert isinstance(make_strategy("driftsurf", name, task).learner, kind)
    assert isinstance(make_strategy("driftsurf", "logistic", "multiclass").learner, SoftmaxRegression)
    made = make_strategy("driftsurf", "river.linear_model:LogisticRegression", "binary", {"l2": 0.1})
    assert made.learner.model.l2 == 0.1  # type: ignore[attr-defined]
    for model, learner in (("aue:softmax", None), ("aue", "softmax")):
        assert isinstance(make_strategy(model, learner, "binary").learner, SoftmaxRegression)
    tree = make_strategy("driftsurf:sklearn.tree.DecisionTreeClassifier", None, "binary", {"max_depth": 3})
    assert tree.learner.estimator.max_depth == 3  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match="cannot be made"):
        make_strategy("driftsurf", "sklearn.pipeline:Pipeline", "binary")
    with pytest.raises(OptionError, match="cannot be made"):
        make_strategy("driftsurf", "river.linear_model:LogisticRegression", "binary", {"loss": 3, "l1": 1, "l2": 1})


def test_a_name_may_carry_options_and_those_beside_it_count_more() -> None:
    made: Any = make_strategy("driftsurf(threshold=0.2, greedy=False):softmax(l2=0.5)", None, "binary", {"l2": 0.25})
    assert (made.threshold, made.greedy, made.learner.l2) == (0.2, False, 0.25)
    made = make_strategy("mddm-a(growth=0.02)", "svm(l2=0.5)", "binary", {"growth": 0.03})
    assert (made.detector.weighting, made.detector.growth, made.learner.l2) == ("arithmetic", 0.03, 0.5)
    made = make_strategy("aue:sklearn.tree:DecisionTreeClassifier(max_depth=3, passes=2.0)", None, "multiclass")
    assert (made.learner.estimator.max_depth, made.learner.passes) == (3, 2.0)
    made = make_strategy("recommended-linear", None, "multiclass", {"reactive_length": 3})
    assert (made.judge, made.learner.steps_per_row, made.reactive_length) == ("prequential", 8.0, 3)


class Generous(LinearSVC):  # type: ignore[misc]
    """Takes whatever it is given."""

    def __init__(self, C: float = 1.0, **more: Any) -> None:
        super().__init__(C=C)
        self.more = more


def test_a_class_that_takes_any_option_gets_those_that_nobody_else_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "generous", SimpleNamespace(Generous=Generous))
    made: Any = make_strategy("oblivious:generous:Generous(depth=3)", None, "binary", {"passes": 2, "C": 0.5})
    assert (made.learner.estimator.more, made.learner.estimator.C, made.learner.passes) == ({"depth": 3}, 0.5, 2)


@pytest.mark.parametrize(
    ("model", "learner", "message"),
    [
        ("aue:softmax", "svm", "model is 'aue:softmax', which has a learner, and learner is 'svm'; name it once"),
        ("recommended", "svm", "model is 'recommended', which has a learner"),
        ("recommended(threshold=1)", None, "a recommended model stands alone: change driftsurf:lightgbm"),
        ("recommendd", None, "did you mean 'recommended'? choices: driftsurf, "),
        ("driftsurf(l2=1)", None, "driftsurf has no parameter 'l2'; "),
        ("ddm(drift=1)", None, "ddm has no parameter 'drift'; did you mean 'drift_level'? choices: min_rows, "),
        ("driftsurf(1)", None, "'driftsurf(1)' in 'driftsurf(1)' cannot be read; give a name, or name(option=value"),
        ("driftsurf(threshold=-1.0)", None, "threshold is -1.0"),
        ("driftsurf:svm(l2=-1.0)", None, "l2 is -1.0"),
    ],
)
def test_a_name_that_cannot_be_used_says_why(model: str, learner: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        make_strategy(model, learner, "binary")


def test_which_task_labels_are_for() -> None:
    columns = {
        "binary": ["a", "b", "a"],
        "multiclass": ["a", "b", "c"],
        "one": ["a", "a", "a"],
        "flag": [True, False, None],
        "few": [1, 2, 7],
        "regression": [1.5, 2.0, None],
    }
    table = read_table(columns | {"many": [1, 2, 3]})
    expected = {"one": "multiclass", "flag": "binary", "few": "multiclass"}
    for name in columns:
        assert find_target(name, "auto", table).task == expected.get(name, name)
    assert find_target("y", "auto", read_table({"y": list(range(30))})).task == "regression"
    assert find_target("y", "multiclass", read_table({"y": list(range(30))})).task == "multiclass"
    assert find_target("few != 2", "multiclass", table).task == "multiclass"
    flag = read_table({"flag": [True, False, True]})
    assert find_target("flag == true", "auto", flag).read(flag).tolist() == [True, False, True]
    with pytest.raises(StateError, match="the saved target cannot be read"):
        Target.from_json("[]")


def test_a_column_may_be_called_like_a_question() -> None:
    table = read_table({"a > 1": ["x", "y"], "a": [1, 2]})
    assert find_target("a > 1", "auto", table).test == ""


def test_rows_are_kept_by_a_mask_sparse_or_not() -> None:
    from scipy import sparse

    table = Table({"x": read_table({"x": [1.0, 2.0, 3.0]})["x"]}, read_table(sparse.csr_array(np.eye(3))).features)
    kept = kept_rows(table.rows(1, 3), np.array([False, True]))
    assert kept["x"].values.tolist() == [3.0]
    assert kept.features is not None
    assert kept.features.indices.tolist() == [2]
    assert _chained("", table.rows(1, 2)) == _chained("", table.rows(1, 3).rows(0, 1))
    assert _chained("", table.rows(1, 2)) != _chained("", table.rows(2, 3))


def test_the_digest_of_a_table_does_not_depend_on_how_its_words_were_coded() -> None:
    table = read_table({"city": ["Rome", "Oslo", None, "Rome"]})
    joined = Table.concatenate([table.rows(0, 1), table.rows(1, 4)])
    assert joined["city"].words != table["city"].words
    assert _chained("x", joined) == _chained("x", table)


def test_labels_are_due_by_batches_or_by_time() -> None:
    table = read_table({"t": [10.0, 25.0]})
    assert [Pace(2).due(0, table, rows, table) for rows in range(4)] == [False, False, False, True]
    pace = Pace(time="t", seconds=10.0)
    assert pace.due(9, read_table({"t": [3.0]}), 0, table)
    assert not pace.due(0, read_table({"t": [19.0]}), 0, table)
    assert pace.due(0, read_table({"t": [math.nan]}), 0, table)  # nobody knows: it is not held back
    dates = read_table({"t": np.array(["2007-01-01", "2007-01-03"], "datetime64[us]")})
    assert Pace(time="t", seconds=86_400).due(0, dates.rows(0, 1), 0, dates.rows(1, 2))


def test_probabilities_are_those_of_the_predicted_label() -> None:
    seen = Observation(np.array(["a", "b"]), np.array([0, 1]), np.array([0, 0]), np.array([-1000.0, 0.0]), ())
    assert given_by(seen, 7, 3).probability == [1.0, 0.5]
    of_many = Observation(np.array(["b"]), np.array([1]), np.array([1]), np.log([[0.2, 0.8]]), ())
    assert of_many.probabilities
    assert given_by(of_many, 0, 0).probability == pytest.approx([0.8])
    margins = Observation(np.array(["b"]), np.array([1]), np.array([1]), np.array([3.0]), (), probabilities=False)
    assert list(given_by(margins, 5, 1).rows()) == [{"row": 5, "version": 1, "label": "b", "probability": None}]


def test_an_observation_of_nothing_has_no_error() -> None:
    nothing = np.zeros(0)
    assert math.isnan(Observation(nothing, nothing, nothing, nothing, ()).error)


def test_keys_are_text_in_parquet_whatever_they_were(tmp_path: Path) -> None:
    import pyarrow.parquet

    sink = prediction_sink(str(tmp_path / "p.parquet"), "boolean", keyed=True, parts=False)
    sink.begin()
    sink.take(Given(0, 1, [True, None], [0.5, None], [17, "x"]))
    sink.flush()
    sink.finish()
    assert pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist() == [
        {"row": 0, "key": "17", "version": 1, "label": True, "probability": 0.5},
        {"row": 1, "key": "x", "version": 1, "label": None, "probability": None},
    ]


def test_a_rolled_file_goes_on_where_a_checkpoint_says(tmp_path: Path) -> None:
    file = RolledFile(tmp_path.joinpath, "j.jsonl", Rotation(part_bytes=4, keep=2))
    file.begin()
    for text in ("one\n", "two\n", "three\n", "x"):
        file.write(text)
        file.turn()
    assert file.part_name == "j.jsonl-000003"
    assert file.text() == "two\nthree\nx"
    known = {file.part_name: (file.part.size, file.part.digest)}
    file.write("later, and lost\n")
    file.turn()
    file.close()
    assert file.part_name == "j.jsonl-000004"
    again = RolledFile(tmp_path.joinpath, "j.jsonl", Rotation(part_bytes=4, keep=2))
    again.resume(known)
    assert again.text() == "three\nx"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.jsonl-000002", "j.jsonl-000003"]
    for _ in range(4):
        again.write("much more\n")
        again.turn(["j.jsonl-000003", "another.csv"])
    assert again.text() == "x" + 4 * "much more\n"
    again.turn()
    assert again.text() == 2 * "much more\n"
    with pytest.raises(StateError, match="says nothing of j"):
        again.resume({})
    again.close()


def test_a_trace_counts_classes_that_were_not_known_together() -> None:
    book = Scorebook(("a", "b", OTHER))
    y = np.array(["a", "c", "d", "b"])
    book.step(y)
    row = book.row("m", y, np.array(["a", "a", "d", "b"]), None, ())
    assert (row["true:(other)"], row["predicted:(other)"], row["errors"]) == (2, 1, 1)
    again = Scorebook(("a", "b", OTHER))
    again.restore(book.state())
    book.step(y)
    again.step(y)
    assert to_bytes(again.state()) == to_bytes(book.state())


def test_no_rule_predicts_the_classes_that_are_counted_together() -> None:
    class Many:
        name, classes, drifts, n_rows = "m", ("a", "b", OTHER), (), 8

        def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
            yield np.zeros((4, 1)), np.array(["b", "c", "d", "e"])
            yield np.zeros((4, 1)), np.array(["b", "f", "g", "h"])

    class Always:
        n_features_in_ = 1

        def predict(self, X: Any) -> Any:
            return np.full(len(X), "b")

        def partial_fit(self, X: Any, y: Any, classes: Any = None) -> None: ...

    trace = prequential(Many(), Always(), batch_size=4)  # type: ignore[arg-type]
    assert baselines(trace, "model").others["majority"] == 7 / 8  # a, then b
    assert np.isnan(summarise(trace, "model").kappa)
    assert "kappa" not in render(trace, [], model="model")
    unnamed = replace(trace, labels=(OTHER,))
    assert baselines(unnamed, "model").others == {"persistence": 1.0}


def test_the_mean_so_far_is_a_rule_for_values() -> None:
    class Values:
        name, classes, drifts, n_rows = "v", (), (), 4

        def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
            yield np.zeros((2, 1)), np.array([1.0, 3.0])
            yield np.zeros((2, 1)), np.array([2.0, 4.0])

    class Zero:
        n_features_in_ = 1

        def predict(self, X: Any) -> Any:
            return np.zeros(len(X))

        def partial_fit(self, X: Any, y: Any) -> None: ...

    found = baselines(prequential(Values(), Zero(), batch_size=2), "model")  # type: ignore[arg-type]
    assert found.own == pytest.approx((30 / 4) ** 0.5)
    assert found.others == {
        "mean": pytest.approx(((1 + 9 + 0 + 4) / 4) ** 0.5),
        "persistence": pytest.approx(((0 + 4 + 1 + 4) / 4) ** 0.5),
    }


def test_states_of_other_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,y\n" + "".join(f"k{i},{i},{i % 2}\n" for i in range(50)))
    plain = assemble(TableSettings(str(tmp_path / "a.csv"), label="y", batch_size=10))
    late = assemble(TableSettings(str(tmp_path / "a.csv"), label="y", batch_size=10, delay=1))
    for made, words in ((plain, "run over tables"), (late, "run with late labels")):
        with pytest.raises(StateError, match=words):
            made.source.restore({})
    with pytest.raises(StateError, match="not one of a run over tables"):
        assemble(TableSettings("a.csv"), {"about": "{}"})
    assert (plain.late_counts, late.late_counts is None) == (None, False)


def test_a_session_with_late_labels_has_a_state(tmp_path: Path) -> None:
    def made() -> DelayedSession:
        return DelayedSession(Session(DriftSurf(LogisticRegression()), batch_size=20))

    X = np.linspace(-1, 1, 60).reshape(-1, 1)
    model = made()
    assert model.schema is None
    model.observe(Arrived(list(range(60)), X, False), [])
    seen = model.observe(None, [(list(range(30)), X[:30, 0] > -0.5)])
    assert (model.steps, len(seen.truth), seen.rows) == (1, 0, 0)
    again = made()
    again.restore(model.state())
    for one in (model, again):
        assert one.renew("because") is not None
        one.observe(Arrived([99], X[:1], True), [(list(range(30, 60)), X[30:, 0] > -0.5)])
    assert to_bytes(again.state()) == to_bytes(model.state())


def test_a_signal_wakes_a_run_that_waits_for_rows(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 2))
    stream = ArrayStream(X, np.where(X[:, 0] > 0, 1, -1))

    class Silent(StreamSource):
        def batches(self, position: Any = None) -> Iterator[Any]:
            for step, batch in enumerate(super().batches(position)):
                if step == 3 and position is None:
                    os.kill(os.getpid(), signal.SIGTERM)
                    raise AssertionError("the signal was not heard")
                yield batch

    class Recorder:
        def head(self) -> str:
            return ""

        def lines(self, y: Any, seen: Any) -> str:
            return f"{len(y)}\n"

        def state(self) -> dict[str, Any]:
            return {}

        def restore(self, state: Any) -> None: ...

    def run(folder: CheckpointFolder) -> Run:
        sessions = {"m": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}
        return Run(Silent(stream, 50), sessions, Recorder(), folder.path.joinpath, folder=folder, every=100)

    with CheckpointFolder(tmp_path) as folder, run(folder) as live:
        live.begin()
        with pytest.raises(Stopped, match="SIGTERM before step 3"):
            live.go()
    with CheckpointFolder(tmp_path) as folder, run(folder) as live:
        saved = folder.load()
        assert saved is not None
        live.resume(saved)
        live.go()
        assert live.text("trace.csv") == "50\n" * 8
        assert live.rows == 400


def test_bad_rows_of_an_interrupted_wait_are_told_once(tmp_path: Path) -> None:
    lines = [f"{i},{i % 2}\n" for i in range(60)]
    lines[25] = "1,2,3\n"
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(lines))
    feed = Feed(Source(tmp_path / "a.csv", batch_size=20, on_bad_row="skip"))
    source = TableSource(feed, Encoded(TableEncoder(), find_target("y", "auto", feed.first())))
    batches = source.batches()
    _, _, place = next(batches)
    assert source.bad_rows() == ""
    state = source.state()
    assert state["skipped"] == 0
    next(batches)
    assert source.skipped == 0  # nobody has taken the batch yet
    assert (json.loads(source.bad_rows())["line"], source.skipped) == (27, 1)
    again = TableSource(Feed(Source(tmp_path / "a.csv", batch_size=20, on_bad_row="skip")), source.encoded)
    again.restore(state)
    next(again.batches(place))
    again.bad_rows()
    assert again.skipped == 1
