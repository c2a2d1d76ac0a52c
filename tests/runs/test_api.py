"""``driftsurf.run``: a durable run as a library call, and its part that is pushed."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from live_runs import live_run
from table_files import mixed_rows, write_csv

import driftsurf
from driftsurf.comparison.compare import compare
from driftsurf.comparison.inputs import Input
from driftsurf.core.decisions import Decision
from driftsurf.errors import OptionError, RunStopped
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.learners import LogisticRegression
from driftsurf.report import comparison
from driftsurf.runs.batches import PushedBatches, StreamBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.execute import RunLoop
from driftsurf.runs.folder import JOURNAL, TRACE
from driftsurf.runs.options import PredictOptions
from driftsurf.runs.orders import PendingOrder
from driftsurf.runs.predict import predict
from driftsurf.session.session import Session
from driftsurf.strategies import DriftSurf
from driftsurf.streams import Mixed


def test_library_call_and_command_write_the_same_files(tmp_path: Path) -> None:
    source = write_csv(tmp_path, mixed_rows(600))
    result = driftsurf.run(source, label="sold", drop=["id", "when"], batch_size=100, out=tmp_path / "call")
    words: list[Any] = ["--label", "sold", "--drop", "id", "--drop", "when", "--batch-size", 100, "--quiet"]
    words += ["--out", tmp_path / "typed"]
    assert invoke("run", source, *words).exit_code == 0
    for name in (TRACE, JOURNAL, "run.json", "report.html"):
        assert (result.folder / name).read_bytes() == (tmp_path / "typed" / name).read_bytes()
    assert result.folder == tmp_path / "call"
    assert result.n_steps == len(result.decisions) == 6
    assert result.summary is not None
    assert result.models[result.model].steps == 6
    assert result.keys is None


def test_paths_and_their_texts_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = write_csv(tmp_path, mixed_rows(300))
    labels = tmp_path / "labels.csv"
    labels.write_text("id,sold\n" + "".join(f"{row['id']},{row['sold']}\n" for row in mixed_rows(300)))
    about = set()
    places: tuple[Any, ...] = Path, str
    for place in places:
        result = driftsurf.run(
            place(rows),
            label="sold",
            labels=place(labels),
            key="id",
            drop=["when"],
            batch_size=100,
            model="recommended-linear",
            predictions=place("answers.csv"),
            metrics=place("metrics.prom"),
            checkpoint=place("saved"),
            out=place("run"),
            overwrite=True,
            progress=False,
        )
        about.add((tmp_path / "run" / "run.json").read_text())
        assert Path("metrics.prom").exists()
        assert isinstance(driftsurf.load(place("run")), driftsurf.DriftSurfClassifier)
        told = PredictOptions(out=place("new.csv"), overwrite=True)
        assert predict(place(result.folder), place(rows), told).rows == 300
        compared = compare(place("compared"), [Input(place(rows), label="sold")], ["majority", "persistence"])
        comparison.write(place("compared"), compared)
    assert len(about) == 1


def test_options_that_do_not_apply_are_refused_by_name(tmp_path: Path) -> None:
    for options, name in (({"label": "y"}, "label"), ({"sequence": "t"}, "sequence"), ({"resume": True}, "checkpoint")):
        with pytest.raises(OptionError, match=name):
            driftsurf.run("sea0", **options, out=tmp_path / "r")


def test_a_built_in_stream_is_run_with_any_named_model_beside_an_oracle_with_its_learner(tmp_path: Path) -> None:
    told: dict[str, Any] = {"rows": 2000, "progress": False}
    plain = driftsurf.run("circles", **told, out=tmp_path / "paper")
    same = driftsurf.run("circles", **told, model="driftsurf", out=tmp_path / "same")
    assert (plain.folder / TRACE).read_bytes() == (same.folder / TRACE).read_bytes()
    own = driftsurf.run("circles", **told, model="ddm(drift_level=4)", learner="svm", seed=3, out=tmp_path / "own")
    assert (own.trace.models, own.oracle) == (("ddm(drift_level=4)", "aware"), "aware")
    assert own.trace.drifts == plain.trace.drifts
    about = json.loads((tmp_path / "own" / "run.json").read_text())
    assert about["made"] == {"strategy": "ResetOnDrift", "learner": "LinearSVM", "work": "gradients"}
    assert (about["model"], about["batch_size"], about["given"]["learner"]) == ("ddm(drift_level=4)", 20, "svm")
    assert driftsurf.load(tmp_path / "own").detector.drift_level == 4


@pytest.mark.parametrize("model", [None, "driftsurf(threshold=0.2)"])
def test_a_run_of_the_authors_variant_is_described_as_in_version_0_2(model: str | None, tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="driftsurf-authors") as found:
        driftsurf.run("sea0", rows=2000, progress=False, variant="authors", model=model, out=tmp_path / "stream")
    assert [one.filename for one in found] == [__file__]
    about = json.loads((tmp_path / "stream" / "run.json").read_text())
    assert (about["made"]["strategy"], about["strategy"]["variant"]) == ("DriftSurf", "authors")
    if model is not None:  # all options of the strategy as it was in version 0.2
        given: dict[str, Any] = {"threshold": 0.2, "variant": "authors"}
        plain = DriftSurf(LogisticRegression()).get_params(deep=False)
        assert about["strategy"] == {k: v for k, v in (plain | given).items() if k not in ("learner", "seed")}


def test_a_table_run_of_the_authors_variant_resumes_one_of_version_0_2(tmp_path: Path) -> None:
    source = write_csv(tmp_path, mixed_rows(600))
    options: dict[str, Any] = {"label": "sold", "drop": ["id", "when"], "batch_size": 100, "progress": False}
    options |= {"variant": "authors", "model": "driftsurf", "checkpoint": tmp_path / "run"}
    with pytest.warns(FutureWarning, match="driftsurf-authors"):
        result = driftsurf.run(source, **options)
    made = json.loads((result.folder / "run.json").read_text())["made"]
    assert made["strategy"] == "DriftSurf"


def test_the_model_of_a_stream_resumes_with_the_same_results(tmp_path: Path) -> None:
    told: dict[str, Any] = {"rows": 2000, "model": "sliding-window(window=300):logistic", "progress": False}
    whole = driftsurf.run("circles", **told, checkpoint=tmp_path / "whole")
    with pytest.raises(RuntimeError, match="stop"):
        driftsurf.run("circles", **told, checkpoint=tmp_path / "parts", on_step=_stop_at_50)
    resumed = driftsurf.run("circles", **told, checkpoint=tmp_path / "parts", resume=True)
    for name in (TRACE, JOURNAL):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def _stop_at_50(step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
    if step == 50:
        raise RuntimeError("stop")


def test_run_is_pushed_from_another_thread_without_touching_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Mixed(n_rows=1000)
    handlers: list[Any] = []
    monkeypatch.setattr(signal, "signal", lambda *arguments: handlers.append(arguments))
    models = {"m": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}
    with CheckpointFolder(tmp_path) as folder:
        with live_run(PushedBatches((-1, 1)), models, TraceRecorder(stream, 100), folder, every=2) as live:
            live.begin()

            def push() -> None:
                for position, (X, y) in enumerate(stream.batches(100), start=1):
                    live.take(X, y, position)

            thread = threading.Thread(target=push)
            thread.start()
            thread.join()
            assert live.apply(PendingOrder(1, "pin")).pinned
            live.checkpoint()
            live.finish()
        saved = folder.load()
    assert saved is not None
    assert (saved.state["step"], saved.state["position"], saved.state["pinned"]) == (10, "10", True)
    assert handlers == []


def test_loop_is_stopped_from_another_thread_after_a_checkpoint(tmp_path: Path) -> None:
    stream = Mixed(n_rows=1000)
    models = {"m": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}
    with CheckpointFolder(tmp_path) as folder:
        with live_run(StreamBatches(stream, 100), models, TraceRecorder(stream, 100), folder, every=100) as live:
            live.begin()
            loop = RunLoop(live, handle_signals=False)
            live.listeners.append(lambda step, *_: loop.stop() if step == 3 else None)
            with pytest.raises(RunStopped) as stopped:
                loop.run()
        assert (stopped.value.step, stopped.value.signal_number, stopped.value.exit_code) == (4, None, 0)
        saved = folder.load()
    assert saved is not None
    assert saved.state["step"] == 4


def test_listener_that_raises_leaves_a_complete_step(tmp_path: Path) -> None:
    stream = Mixed(n_rows=300)
    models = {"m": Session(DriftSurf(LogisticRegression()), classes=(-1, 1))}

    def fail(step: int, model: str, error: float, decisions: Any) -> None:
        raise RuntimeError(f"listener of step {step}")

    with CheckpointFolder(tmp_path) as folder:
        with live_run(PushedBatches((-1, 1)), models, TraceRecorder(stream, 100), folder) as live:
            live.begin()
            live.listeners.append(fail)
            for position, (X, y) in enumerate(stream.batches(100), start=1):
                with pytest.raises(RuntimeError, match=f"listener of step {position - 1}"):
                    live.take(X, y, position)
            live.checkpoint()
        saved = folder.load()
    assert saved is not None
    # Otherwise a run that resumes would learn the last batch again.
    assert (saved.state["step"], saved.state["position"], saved.state["rows"]) == (3, "3", 300)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files cannot be listed")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_run_that_fails_leaves_no_file_open(tmp_path: Path, ending: str) -> None:
    def fail(step: int, model: str, error: float, decisions: Any) -> None:
        raise RuntimeError("stop")

    source = write_csv(tmp_path, mixed_rows(200))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"):
            driftsurf.run(
                source,
                label="sold",
                drop=["id", "when"],
                batch_size=100,
                out=tmp_path / "run",
                predictions=str(tmp_path / f"p.{ending}"),
                overwrite=True,
                on_step=fail,
            )
    still_open = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert [path for path in still_open if path.startswith((str(tmp_path / "run"), str(tmp_path / "p.")))] == []
