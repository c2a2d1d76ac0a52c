"""A strategy written against the public protocol alone: checked, saved, resumed from a checkpoint, run per key."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_runs import live_run, run_to_end

from driftsurf.checks import check_strategy
from driftsurf.core.contracts import Batch, FloatArray, Learner, Rows, State, Strategy
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.samples import Samples
from driftsurf.core.state import from_bytes, nest, pick, to_bytes
from driftsurf.errors import CheckError, OptionError, StateError
from driftsurf.estimators import estimator_class
from driftsurf.evaluation.scoring import TraceRecorder
from driftsurf.keyed import Columns, KeyedLearner, KeyedOptions, KeyRows, key_seed, run_keyed
from driftsurf.learners import LinearRegression, LogisticRegression, SoftmaxRegression
from driftsurf.runs.batches import StreamBatches
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.session.session import Session
from driftsurf.strategies import SingleModel
from driftsurf.streams import SEA

LEARNER = LogisticRegression(start="uniform")
"""Its first weights depend on the seed, so that every seed predicts differently."""


class Counts:
    """An object that a strategy creates for itself and changes in place."""

    def __init__(self) -> None:
        self.steps = 0
        self.rows = 0


class NewestBatch:
    """Predict with a model that was trained on the newest batch alone. It derives from no class of the package."""

    def __init__(self, learner: Learner, *, passes: int = 2, dtype: str = "float64", seed: int = 0) -> None:
        self.learner = learner
        self.passes = passes
        self.dtype = dtype
        self.seed = seed
        self.counts = Counts()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"learner": self.learner, "passes": self.passes, "dtype": self.dtype, "seed": self.seed}

    def check(self) -> None:
        if self.passes < 1:
            raise OptionError(f"passes is {self.passes}; it must be at least 1")
        self.learner.fresh(0, 1, self.learner.capabilities.min_classes)

    def fresh(self, seed: int) -> NewestBatch:
        return NewestBatch(self.learner, passes=self.passes, dtype=self.dtype, seed=seed)

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        self.shape = n_features, sparse
        self.n_classes = n_classes
        self.counts = Counts()
        self.draws = self.seed
        self.samples = Samples(n_features, sparse=sparse, dtype=self.dtype)
        self.model = self._new_model()

    def _new_model(self) -> Learner:
        return self.learner.fresh(self.draws + self.counts.steps, self.shape[0], self.n_classes)

    def scores(self, X: Rows) -> FloatArray:
        return self.model.scores(X)

    def test_scores(self, batch: Batch) -> FloatArray:
        return self.scores(batch.X)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        samples = Samples(self.shape[0], sparse=self.shape[1], dtype=self.dtype)
        new = samples.append(batch.X, batch.y, batch.weight)
        n_classes, self.n_classes = self.n_classes, max(self.n_classes, self._classes_in(batch))
        try:
            model = self._new_model()
            model.update(samples, new, self.passes * model.budget(new))
        except BaseException:
            self.n_classes = n_classes
            raise
        step, first_row = self.counts.steps, self.counts.rows
        self.samples, self.model = samples, model
        self.counts.steps, self.counts.rows = step + 1, first_row + len(new)
        record = ModelRecord("predictive", step, 0, first_row, gradients=model.gradients)
        return Decision(
            step=step,
            first_row=first_row,
            rows=len(new),
            state="stable",
            predicted_by=step - 1,
            trained_from=first_row,
            predicts_next=step,
            models=(record,),
        )

    def _classes_in(self, batch: Batch) -> int:
        return 0 if self.n_classes == 0 else 1 + int(batch.y.max(initial=0.0))

    @property
    def nbytes(self) -> int:
        return self.samples.nbytes + self.model.nbytes

    def reset(self, why: str) -> Transition:
        self.samples = Samples(self.shape[0], sparse=self.shape[1], dtype=self.dtype)
        self.model = self._new_model()
        return Transition("reset", self.counts.steps, old=self.counts.steps - 1, new=self.counts.steps, why=why)

    def state(self) -> State:
        own: State = {"draws": self.draws, "steps": self.counts.steps, "rows": self.counts.rows}
        own |= {"n_classes": self.n_classes}
        return own | nest("samples", self.samples.state()) | nest("model", self.model.state())

    def restore(self, state: Mapping[str, Any], n_features: int, *, sparse: bool, n_classes: int) -> None:
        samples = Samples.from_state(pick("samples", state), state["n_classes"])
        if (samples.n_features, samples.sparse) != (n_features, sparse) or state["n_classes"] > n_classes:
            raise StateError(f"the saved rows have {samples.n_features} columns, not {n_features}")
        self.shape, self.n_classes, self.draws = (n_features, sparse), state["n_classes"], state["draws"]
        self.counts = Counts()
        self.counts.steps, self.counts.rows = state["steps"], state["rows"]
        self.samples = samples
        self.model = type(self.learner).from_state(self.learner, pick("model", state))


def rows(count: int = 200, seed: int = 0) -> tuple[FloatArray, Any]:
    X = np.random.default_rng(seed).normal(size=(count, 3))
    return X, np.where(X[:, 0] > 0, "up", "down")


def test_it_is_a_strategy_to_a_type_checker() -> None:
    strategy: Strategy = NewestBatch(LEARNER)
    assert strategy.learner is LEARNER


@pytest.mark.parametrize("learner", [LEARNER, SoftmaxRegression(), LinearRegression()])
def test_it_passes_the_checks(learner: Any) -> None:
    check_strategy(NewestBatch(learner))


def test_it_may_derive_from_the_protocol_for_its_defaults() -> None:
    class Derived(Strategy):
        get_params = NewestBatch.get_params
        begin, scores, step, reset = NewestBatch.begin, NewestBatch.scores, NewestBatch.step, NewestBatch.reset
        state, restore, nbytes = NewestBatch.state, NewestBatch.restore, NewestBatch.nbytes
        _new_model, _classes_in = NewestBatch._new_model, NewestBatch._classes_in
        __init__ = NewestBatch.__init__

    made: Any = Derived
    check_strategy(made(LEARNER))


def test_a_class_that_derives_from_the_protocol_cannot_lack_a_member() -> None:
    class Unfinished(Strategy):
        def __init__(self, learner: Learner, seed: int = 0) -> None:
            self.learner, self.seed, self.dtype = learner, seed, "float64"

        begin, scores, step, nbytes = NewestBatch.begin, NewestBatch.scores, NewestBatch.step, NewestBatch.nbytes

    made: Any = Unfinished
    with pytest.raises(TypeError) as refused:
        made(LEARNER)
    assert all(name in str(refused.value) for name in ("get_params", "reset", "restore", "state"))
    assert not any(f"'{name}'" in str(refused.value) for name in ("check", "fresh", "test_scores", "step"))


def test_every_missing_member_is_named() -> None:
    with pytest.raises(CheckError) as refused:
        check_strategy(object())  # type: ignore[arg-type]
    members = {name for name in (*vars(Strategy), *Strategy.__annotations__) if not name.startswith("_")}
    assert len(members) > 10
    assert [name for name in members if name not in str(refused.value)] == []


class Periodic(SingleModel):
    """Replaces its model every few steps, and counts how often."""

    def __init__(self, learner: Learner, *, period: int = 3, seed: int = 0) -> None:
        super().__init__(learner, seed=seed)
        self.period = period

    def first_memory(self) -> int:
        return 0

    def watch(self, step: int, memory: int, batch: Batch, scores: Any) -> tuple[str, int]:
        if step == 0 or step % self.period:
            return "", memory
        return f"period {memory + 1} is over", memory + 1

    def memory_state(self, memory: int) -> State:
        return {"periods": memory}

    def memory_from(self, state: Mapping[str, Any]) -> int:
        return int(state["periods"])


class Forgets(Periodic):
    """Saves the count and ignores it when it is restored."""

    def state(self) -> State:
        return super().state() | {"memory.periods": 0}


@pytest.mark.parametrize("period", [3, 5, 20, 50])
def test_a_count_that_matters_only_when_the_rule_acts_again_must_be_restored(period: int) -> None:
    check_strategy(Periodic(LEARNER, period=period))
    with pytest.raises(CheckError, match="restored after"):
        check_strategy(Forgets(LEARNER, period=period))


class SharesCounts(NewestBatch):
    """The mistake that copying ``__dict__`` makes: two strategies count with one object."""

    def fresh(self, seed: int) -> SharesCounts:
        made = type(self)(self.learner, passes=self.passes, dtype=self.dtype, seed=seed)
        made.counts = self.counts
        return made

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        counts = self.counts
        super().begin(n_features, sparse=sparse, n_classes=n_classes)
        self.counts = counts


def test_strategies_that_share_an_object_fail_the_checks() -> None:
    with pytest.raises(CheckError, match="counts"):
        check_strategy(SharesCounts(LEARNER))


# ---------------------------------------------------------------------------- saved and loaded


@pytest.mark.parametrize("batch_size", [None, 30])
def test_a_session_around_it_is_saved_and_loaded_exactly(batch_size: int | None) -> None:
    X, y = rows()
    one, other = (Session(NewestBatch(LEARNER, seed=seed), batch_size=batch_size) for seed in (5, 6))
    one.observe(X[:100], y[:100])
    other.restore(from_bytes(to_bytes(one.state())))
    for session in (one, other):
        session.observe(X[100:], y[100:])
    assert to_bytes(one.state()) == to_bytes(other.state())
    assert one.predict(X).tolist() == other.predict(X).tolist()


def test_a_saved_session_of_other_columns_is_refused() -> None:
    one = Session(NewestBatch(LEARNER))
    one.learn(*rows())
    with pytest.raises(StateError, match="7"):
        Session(NewestBatch(LEARNER)).restore(one.state() | {"schema.n_features": 7})


NewestBatchClassifier = estimator_class(NewestBatch)


def test_an_estimator_around_it_is_saved_and_loaded_exactly() -> None:
    X, y = rows()
    one = NewestBatchClassifier(LEARNER, passes=3).partial_fit(X[:100], y[:100])
    for other in (NewestBatchClassifier.from_bytes(one.to_bytes()), pickle.loads(pickle.dumps(one))):
        assert other.get_params()["passes"] == 3
        assert other.partial_fit(X[100:], y[100:]).predict(X).tolist() == (
            pickle.loads(pickle.dumps(one)).partial_fit(X[100:], y[100:]).predict(X).tolist()
        )


# ---------------------------------------------------------------------------- checkpoint and resume


class Interrupted(StreamBatches):
    """A source that breaks off before a step."""

    at = -1

    def batches(self, position: Any = None) -> Iterator[Any]:
        for X, y, row in super().batches(position):
            if row == self.at * self.batch_size:
                raise RuntimeError(f"broken off before row {row}")
            yield X, y, row


def run_to(path: Path, at: int = -1) -> dict[str, bytes]:
    """Run 30 steps under checkpoints, or up to a step; the outputs and the final state."""
    stream = SEA(n_rows=1_500)
    source = Interrupted(stream, 50)
    source.at = at
    sessions = {"newest": Session(NewestBatch(LEARNER, seed=1), classes=stream.classes)}
    with (
        CheckpointFolder(path) as folder,
        live_run(source, sessions, TraceRecorder(stream, 50), folder, every=4) as run,
    ):
        saved = folder.load()
        if saved is None:
            run.begin()
        else:
            run.resume(saved)
        run_to_end(run)
        outputs = {name: run.text(name).encode() for name in ("journal.jsonl", "trace.csv")}
        return outputs | {"state": to_bytes(sessions["newest"].state())}


def test_a_run_with_it_resumes_from_a_checkpoint_with_the_same_bytes(tmp_path: Path) -> None:
    whole = run_to(tmp_path / "whole")
    for at in (1, 10, 23):
        with pytest.raises(RuntimeError, match=str(50 * at)):
            run_to(tmp_path / "broken", at)
    assert run_to(tmp_path / "broken") == whole


# ---------------------------------------------------------------------------- per key


def keyed(**options: Any) -> KeyedLearner:
    made = KeyedLearner(
        strategy=NewestBatch(LEARNER), features=("a", "b", "c"), classes=("down", "up"), batch_size=20, **options
    )
    made.check()
    return made


def test_each_key_has_a_strategy_of_its_own_with_its_own_seed() -> None:
    learner = keyed(seed=9)
    sessions = {key: learner.session(key) for key in ("one", "two")}
    one, two = (session.strategy for session in sessions.values())
    assert isinstance(one, NewestBatch)
    assert isinstance(two, NewestBatch)
    assert (one.seed, two.seed) == (key_seed(9, "one"), key_seed(9, "two"))
    for session in sessions.values():
        session.learn(*rows(40))
    shared = [name for name, value in vars(one).items() if value is vars(two)[name] and name in ("counts", "samples")]
    assert shared == []
    assert one.model is not two.model
    assert (one.counts.rows, two.counts.rows) == (40, 40)
    assert not np.array_equal(one.scores(rows()[0]), two.scores(rows()[0]))


def test_a_key_is_what_the_strategy_would_be_alone_however_its_visits_are_cut() -> None:
    X, y = rows(100)
    learner = keyed(seed=9)
    visits: dict[str, list[Any]] = {"whole": [0, 100], "cut": [0, 7, 8, 60, 100]}
    ends = {}
    for name, cuts in visits.items():
        state: bytes | None = None
        predicted: list[Any] = []
        for start, stop in itertools.pairwise(cuts):
            part = KeyRows(np.arange(start, stop), X[start:stop], y[start:stop].tolist())
            visit = learner.visit("one", state, part)
            state = visit.state
            predicted += visit.predicted
        ends[name] = state, predicted
    assert ends["whole"] == ends["cut"]
    alone = Session(NewestBatch(LEARNER, seed=key_seed(9, "one")), classes=("down", "up"), batch_size=20, guard=None)
    assert ends["whole"][1] == alone.observe(X, y).labels.tolist()


def test_a_keyed_run_over_files_uses_it(tmp_path: Path) -> None:
    X, y = rows(200)
    lines = ["shop,at,a,b,c,sold"]
    lines += [f"s{i % 2},{i},{a},{b},{c},{label}" for i, ((a, b, c), label) in enumerate(zip(X, y, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = KeyedOptions(strategy=NewestBatch(LEARNER), classes=("down", "up"), batch_size=20, seed=9)
    columns = Columns(key="shop", sequence="at", label="sold")
    folder = run_keyed(str(tmp_path / "rows.csv"), tmp_path / "run", columns, options, epoch=70)
    table = folder.keys()
    assert sorted(table) == ["s0", "s1"]
    assert [entry["steps"] for entry in table.values()] == [5, 5]
    assert all(len(entry["digest"]) == 16 for entry in table.values())
    assert len({entry["error"] for entry in table.values()}) == 2
