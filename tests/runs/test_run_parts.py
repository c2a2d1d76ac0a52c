"""Unit tests of the parts of a run over tables."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_runs import live_run, run_to_end

from driftsurf.core.state import to_bytes
from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.frames import read_table
from driftsurf.data.row_encoder import RowEncoder, Target, find_target
from driftsurf.data.sources.stdin import digest_rows
from driftsurf.data.tables import Table
from driftsurf.errors import RunStopped, StateError
from driftsurf.evaluation.prequential import prequential
from driftsurf.evaluation.scoring import Scorebook
from driftsurf.evaluation.summary import baselines, summarise_classification
from driftsurf.evaluation.trace import OTHER, PER_CLASS, Trace, TraceBuilder
from driftsurf.learners import LogisticRegression
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView
from driftsurf.runs.batches import SourceReader, StreamBatches, TableBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.late import Arrived, ArrivedLabels, LabelPace, LateSession
from driftsurf.runs.live import LiveRun
from driftsurf.runs.options import RunOptions
from driftsurf.runs.output import RolledFile, Rotation
from driftsurf.runs.plan_tables import plan_tables
from driftsurf.runs.predictions import Predicted, PredictionBatch
from driftsurf.runs.sinks import SinkContext, open_sink
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import ArrayStream


def test_task_is_inferred_from_labels() -> None:
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
    with pytest.raises(StateError, match=r"'\[\]'"):
        Target.from_json("[]")


def test_column_name_may_look_like_a_comparison() -> None:
    table = read_table({"a > 1": ["x", "y"], "a": [1, 2]})
    assert find_target("a > 1", "auto", table).test == ""


def test_mask_selects_dense_and_sparse_rows() -> None:
    from scipy import sparse

    table = Table({"x": read_table({"x": [1.0, 2.0, 3.0]})["x"]}, read_table(sparse.csr_array(np.eye(3))).features)
    kept = table.rows(1, 3).select(np.array([False, True]))
    assert kept["x"].values.tolist() == [3.0]
    assert kept.features is not None
    assert kept.features.indices.tolist() == [2]
    assert digest_rows("", table.rows(1, 2)) == digest_rows("", table.rows(1, 3).rows(0, 1))
    assert digest_rows("", table.rows(1, 2)) != digest_rows("", table.rows(2, 3))


def test_digest_of_rows_does_not_depend_on_category_codes() -> None:
    table = read_table({"city": ["Rome", "Oslo", None, "Rome"]})
    joined = Table.concatenate([table.rows(0, 1), table.rows(1, 4)])
    assert joined["city"].words != table["city"].words
    assert digest_rows("x", joined) == digest_rows("x", table)


def test_labels_are_due_after_batches_or_by_time() -> None:
    table = read_table({"t": [10.0, 25.0]})
    assert [LabelPace(2).is_due(0, table, rows, table) for rows in range(4)] == [False, False, False, True]
    pace = LabelPace(time="t", seconds=10.0)
    assert pace.is_due(9, read_table({"t": [3.0]}), 0, table)
    assert not pace.is_due(0, read_table({"t": [19.0]}), 0, table)
    assert pace.is_due(0, read_table({"t": [math.nan]}), 0, table)  # without a time, a label is not held back
    dates = read_table({"t": np.array(["2007-01-01", "2007-01-03"], "datetime64[us]")})
    assert LabelPace(time="t", seconds=86_400).is_due(0, dates.rows(0, 1), 0, dates.rows(1, 2))


def test_probability_is_that_of_the_predicted_label() -> None:
    seen = Observation(np.array(["a", "b"]), np.array([0, 1]), np.array([0, 0]), np.array([-1000.0, 0.0]), ())
    assert Predicted.of(seen, 3).probability == [1.0, 0.5]
    of_many = Observation(np.array(["b"]), np.array([1]), np.array([1]), np.log([[0.2, 0.8]]), ())
    assert of_many.probabilities
    assert Predicted.of(of_many, 0).probability == pytest.approx([0.8])
    margins = Observation(np.array(["b"]), np.array([1]), np.array([1]), np.array([3.0]), (), probabilities=False)
    assert Predicted.of(margins, 1) == Predicted(1, ["b"], [None])


def test_empty_observation_has_no_error() -> None:
    nothing = np.zeros(0)
    assert math.isnan(Observation(nothing, nothing, nothing, nothing, ()).error)


def test_keys_of_any_type_are_text_in_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet

    sink = open_sink(str(tmp_path / "p.parquet"), SinkContext("boolean", has_ids=True, has_true=False))
    sink.begin()
    sink.take(PredictionBatch(0, [1, 1], [True, None], [0.5, None], ids=[17, "x"]))
    sink.flush()
    sink.finish()
    assert pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist() == [
        {"row": 0, "id": "17", "prediction": True, "probability": 0.5, "version": 1},
        {"row": 1, "id": "x", "prediction": None, "probability": None, "version": 1},
    ]


def test_rolled_file_resumes_at_the_size_in_the_checkpoint(tmp_path: Path) -> None:
    file = RolledFile(tmp_path.joinpath, "j.jsonl", Rotation(part_bytes=4, keep=2))
    file.begin()
    for text in ("one\n", "two\n", "three\n", "x"):
        file.write(text)
        file.rotate()
    assert file.part_name == "j.jsonl-000003"
    assert file.text() == "two\nthree\nx"
    known = {file.part_name: (file.part.size, file.part.digest)}
    file.write("later, and lost\n")
    file.rotate()
    file.close()
    assert file.part_name == "j.jsonl-000004"
    again = RolledFile(tmp_path.joinpath, "j.jsonl", Rotation(part_bytes=4, keep=2))
    again.resume(known)
    assert again.text() == "three\nx"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["j.jsonl-000002", "j.jsonl-000003"]
    for _ in range(4):
        again.write("much more\n")
        again.rotate(["j.jsonl-000003", "another.csv"])
    assert again.text() == "x" + 4 * "much more\n"
    again.rotate()
    assert again.text() == 2 * "much more\n"
    with pytest.raises(StateError, match=r"j\.jsonl"):
        again.resume({})
    again.close()


def test_classes_that_appear_later_are_counted_and_those_beyond_the_limit_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("driftsurf.evaluation.scoring.MOST_CLASSES", 3)
    y = np.array(["a", "c", "d", "b", "d"])
    book, builder = Scorebook(("a", "b", OTHER)), TraceBuilder(("a", "b", OTHER))
    for true, predicted in ((y[:1], y[:1]), (y, np.array(["a", "a", "d", "b", "c"]))):
        book.step(true)
        builder.add(book.row("m", true, predicted, None, ()))
    trace = builder.build("s", 5, (), {})
    assert trace.labels == ("a", "b", "c", OTHER)
    saved = Trace.from_csv(trace.to_csv())
    assert saved.labels == trace.labels
    assert saved.to_csv() == trace.to_csv()
    counts = {what: [trace.columns[f"{what}:{label}"].tolist() for label in trace.labels] for what in PER_CLASS}
    assert counts == {
        "true": [[1, 1], [0, 1], [0, 1], [0, 2]],
        "predicted": [[1, 2], [0, 1], [0, 1], [0, 1]],
        "wrong": [[0, 0], [0, 0], [0, 1], [0, 1]],
    }
    again = Scorebook(("a", "b", OTHER))
    again.restore(book.state())
    for one in (book, again):
        one.step(y)
    assert again.row("m", y, y, np.zeros(5), ()) == book.row("m", y, y, np.zeros(5), ())
    assert again.row("m", y, y, None, ())["majority_errors"] == 4  # a and d came twice before


def test_kappa_is_not_known_where_classes_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftsurf.evaluation.scoring.MOST_CLASSES", 4)

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

    trace = prequential(Many(), Always(), batch_size=4)
    assert baselines(trace, "model").others["majority"] == 7 / 8  # a, then b
    assert np.isnan(summarise_classification(trace, "model").kappa)
    assert "kappa" not in render(RunView(trace, [], "model"))


def test_mean_so_far_is_a_baseline_for_regression() -> None:
    class RegressionTargets:
        name, classes, drifts, n_rows = "v", (), (), 4

        def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
            yield np.zeros((2, 1)), np.array([1.0, 3.0])
            yield np.zeros((2, 1)), np.array([2.0, 4.0])

    class Zero:
        n_features_in_ = 1

        def predict(self, X: Any) -> Any:
            return np.zeros(len(X))

        def partial_fit(self, X: Any, y: Any) -> None: ...

    found = baselines(prequential(RegressionTargets(), Zero(), batch_size=2), "model")
    assert found.own == pytest.approx((30 / 4) ** 0.5)
    assert found.others == {
        "mean": pytest.approx(((1 + 9 + 0 + 4) / 4) ** 0.5),
        "persistence": pytest.approx(((1 + 9 + 1 + 1) / 4) ** 0.5),
    }


def test_incomplete_states_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,y\n" + "".join(f"k{i},{i},{i % 2}\n" for i in range(50)))
    plain = plan_tables(str(tmp_path / "a.csv"), RunOptions.of(label="y", batch_size=10))
    late = plan_tables(str(tmp_path / "a.csv"), RunOptions.of(label="y", batch_size=10, delay=1))
    for plan in (plain, late):
        with pytest.raises(StateError):
            plan.source.restore({})
    with pytest.raises(StateError, match="decided"):
        plan_tables("a.csv", RunOptions.of(), {"about": "{}"})
    assert (plain.label_counts, late.label_counts is None) == (None, False)


def test_option_that_a_checkpoint_does_not_have_was_not_given(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    plan = plan_tables(str(tmp_path / "a.csv"), RunOptions.of(label="y", batch_size=10))

    def resume(about: dict[str, Any]) -> None:
        with CheckpointFolder(tmp_path / "live") as folder:
            with LiveRun(replace(plan, about=json.dumps(about)), folder.path.joinpath, folder) as live:
                live.begin()
            saved = folder.load()
            assert saved is not None
            with LiveRun(plan, folder.path.joinpath, folder) as live:
                live.resume(saved)

    about = json.loads(plan.about)
    assert (about["learner"], about["drop"], about["kinds"]) == (None, [], {})
    resume({name: value for name, value in about.items() if name not in ("learner", "drop", "kinds")})
    resume(dict(reversed(about.items())))
    with pytest.raises(StateError, match="seed was None and is 0"):
        resume({name: value for name, value in about.items() if name != "seed"})
    with pytest.raises(StateError, match="cannot be compared"):
        resume([])  # type: ignore[arg-type]


def test_late_session_continues_from_its_state(tmp_path: Path) -> None:
    def made() -> LateSession:
        return LateSession(Session(DriftSurf(LogisticRegression()), batch_size=20))

    X = np.linspace(-1, 1, 60).reshape(-1, 1)
    model = made()
    assert model.schema is None
    model.observe(Arrived(list(range(60)), X, False), [])
    seen = model.observe(None, [ArrivedLabels(list(range(30)), X[:30, 0] > -0.5)])
    assert (model.steps, len(seen.true), seen.rows) == (1, 0, 0)
    again = made()
    again.restore(model.state())
    for one in (model, again):
        assert one.reset("because") is not None
        one.observe(Arrived([99], X[:1], True), [ArrivedLabels(list(range(30, 60)), X[30:, 0] > -0.5)])
    assert to_bytes(again.state()) == to_bytes(model.state())


def test_signal_stops_a_run_that_waits_for_rows(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 2))
    stream = ArrayStream(X, np.where(X[:, 0] > 0, 1, -1))

    class Silent(StreamBatches):
        def batches(self, position: Any = None) -> Iterator[Any]:
            for step, batch in enumerate(super().batches(position)):
                if step == 3 and position is None:
                    os.kill(os.getpid(), signal.SIGTERM)
                    raise AssertionError("the signal did not stop the run")
                yield batch

    class Recorder:
        warmup_steps = 0
        estimated = False

        def head(self) -> str:
            return ""

        def lines(self, y: Any, seen: Any) -> str:
            return f"{len(y)}\n"

        def state(self) -> dict[str, Any]:
            return {}

        def restore(self, state: Any) -> None: ...

    def run(folder: CheckpointFolder) -> LiveRun:
        sessions = {"m": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}
        return live_run(Silent(stream, 50), sessions, Recorder(), folder, every=100)

    with CheckpointFolder(tmp_path) as folder, run(folder) as live:
        live.begin()
        with pytest.raises(RunStopped, match="SIGTERM") as stopped:
            run_to_end(live)
        assert stopped.value.step == 3
    with CheckpointFolder(tmp_path) as folder, run(folder) as live:
        saved = folder.load()
        assert saved is not None
        live.resume(saved)
        run_to_end(live)
        assert live.text("trace.csv") == "50\n" * 8
        assert live.rows == 400


def test_bad_rows_are_counted_once_when_a_batch_is_read_again(tmp_path: Path) -> None:
    lines = [f"{i},{i % 2}\n" for i in range(60)]
    lines[25] = "1,2,3\n"
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(lines))
    feed = SourceReader(FileSource(tmp_path / "a.csv", ReadingOptions(on_bad_row="skip"), batch_size=20))
    source = TableBatches(feed, RowEncoder(TableEncoder(), find_target("y", "auto", feed.peek())))
    batches = source.batches()
    _, _, place = next(batches)
    assert source.bad_rows() == ""
    state = source.state()
    assert state["skipped"] == 0
    next(batches)
    assert source.skipped == 0  # the run has not taken the batch yet
    assert (json.loads(source.bad_rows())["line"], source.skipped) == (27, 1)
    again = TableBatches(
        SourceReader(FileSource(tmp_path / "a.csv", ReadingOptions(on_bad_row="skip"), batch_size=20)), source.encoder
    )
    again.restore(state)
    next(again.batches(place))
    again.bad_rows()
    assert again.skipped == 1
