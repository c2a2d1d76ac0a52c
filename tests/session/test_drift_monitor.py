"""Drifts of a whole model: found on evidence, exact under saving, and silent where nothing changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from driftsurf import DriftSurfClassifier, DriftSurfRegressor, recommended
from driftsurf.core.drifts import Drifts
from driftsurf.core.state import to_bytes
from driftsurf.errors import OptionError, StateError
from driftsurf.estimators import AUEClassifier
from driftsurf.native import monitor as scan
from driftsurf.native.monitor import Follower
from driftsurf.saving import dumps, loads
from driftsurf.session.correction import Correction, Evidence, changed_columns
from driftsurf.session.drift_causes import source_column
from driftsurf.session.drift_evidence import DriftContest, Surroundings
from driftsurf.session.drift_monitor import DriftMonitor

CHANGE = 5_000
PLAIN = Follower()
"""What has seen no row, so that all losses count the same."""


def rows(seed: int, turned: float, noise: float = 0.05, late_noise: float | None = None) -> tuple[Any, Any]:
    """Return 8,000 rows of six columns whose rule is turned by an angle, or whose labels become noisier."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(8_000, 6))
    after = np.arange(len(X)) >= CHANGE
    angle = np.where(after, turned, 0.0)
    wrong = random.random(len(X)) < np.where(after & (late_noise is not None), late_noise or 0.0, noise)
    return X, ((X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0.0) ^ wrong).astype(int)


def learned(model: Any, X: Any, y: Any, size: int, classes: Any = (0, 1)) -> Any:
    for first in range(0, len(y), size):
        part = slice(first, first + size)
        model.partial_fit(X[part], y[part], **({} if classes is None else {"classes": classes}))
    return model


@pytest.mark.parametrize("size", [20, 200, 1_000])
def test_a_new_rule_is_found_where_it_begins(size: int) -> None:
    drifts = learned(DriftSurfClassifier(random_state=0), *rows(1, 1.2), size).drifts_
    assert len(drifts) == 1
    (drift,) = drifts
    assert drift.kind == "new rule"
    assert abs(drift.row - CHANGE) <= 50
    assert CHANGE < drift.detected_at_row < CHANGE + 300
    assert drift.step == drift.row // size
    assert drift.error_before < 0.12
    assert drift.error_peak > 0.25
    assert drift.recovered_after_rows is not None
    assert drift.evidence >= 100.0
    assert drift.columns[0] in ("column 0", "column 1")


@pytest.mark.parametrize("seed", range(6))
def test_rows_without_a_change_have_no_drift(seed: int) -> None:
    model = learned(DriftSurfClassifier(random_state=0), *rows(seed, 0.0), 100)
    assert model.drifts_ == Drifts()
    assert list(model.drifts_.to_frame().columns[:3]) == ["number", "row", "step"]


def test_noise_is_harm_and_not_a_new_rule() -> None:
    drifts = learned(DriftSurfClassifier(random_state=0), *rows(2, 0.0, late_noise=0.25), 200).drifts_
    assert [one.kind for one in drifts] in (["harm"], ["undecided"])


def test_inputs_that_move_alone_are_a_change_and_no_drift() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(30_000, 4))
    X[15_000:, 2] += 2.0  # the rule does not use it
    y = (X[:, 0] > 0).astype(int)
    model = learned(DriftSurfClassifier(random_state=0), X, y, 500)
    assert model.drifts_ == Drifts()
    assert [change.columns for change in model.changes_] == [("column 2",)]
    assert 15_000 <= model.changes_[0].row <= 20_000
    assert model.changes_.to_frame()["columns"].tolist() == [("column 2",)]


def test_a_drift_of_a_regression_is_told_in_the_unit_of_the_label() -> None:
    random = np.random.default_rng(3)
    X = random.normal(size=(8_000, 4))
    y = 100.0 * (X[:, 0] + np.where(np.arange(8_000) < CHANGE, 1.0, -1.0) * X[:, 1] + 0.3 * random.normal(size=8_000))
    (drift,) = learned(DriftSurfRegressor(random_state=0), X, y, 100, None).drifts_
    assert drift.metric == "root mean squared error"
    assert abs(drift.row - CHANGE) < 50
    assert 20.0 < drift.error_before < 60.0
    assert drift.error_peak > 100.0
    assert drift.columns[0] == "column 1"


def test_a_class_that_comes_is_named() -> None:
    random = np.random.default_rng(4)
    X = random.normal(size=(8_000, 4))
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    new = (np.arange(8_000) >= CHANGE) & (X[:, 1] > 0.5)
    y[new] = "c"
    drifts = learned(recommended("linear", random_state=0), X, y, 200, None).drifts_
    assert drifts[0].classes == ("new: c",)
    assert "'c' appeared" in drifts[0].describe()


def test_columns_of_a_table_have_their_names() -> None:
    X, y = rows(5, 1.2)
    model = DriftSurfClassifier(random_state=0)
    for first in range(0, len(y), 200):
        part = slice(first, first + 200)
        model.partial_fit({name: X[part, k] for k, name in enumerate("uvwxyz")}, y[part])
    assert set(model.drifts_[0].columns) <= {"u", "v"}


@pytest.mark.parametrize(
    "make", [DriftSurfClassifier, AUEClassifier, lambda random_state: recommended("light", random_state=random_state)]
)
def test_a_model_that_is_saved_and_loaded_finds_the_same_to_the_bit(make: Any) -> None:
    X, y = rows(6, 1.2)
    X, y = X[3_500:6_500], y[3_500:6_500]
    whole, saved = (make(random_state=0) for _ in range(2))
    for first in range(0, len(y), 100):
        part = slice(first, first + 100)
        whole.partial_fit(X[part], y[part], classes=(0, 1))
        saved.partial_fit(X[part], y[part], classes=(0, 1))
        saved = loads(dumps(saved))
    assert dumps(saved) == dumps(whole)
    assert saved.drifts_ == whole.drifts_
    assert len(whole.drifts_) == 1


def test_the_journal_has_every_stage_of_a_drift() -> None:
    model = learned(DriftSurfClassifier(random_state=0), *rows(1, 1.2), 200)
    stages = [drift for decision in model.journal_ for drift in decision.drifts]
    assert not stages[0].ended
    assert stages[0].number == stages[-1].number == 1
    assert stages[-1].ended
    assert model.journal_.drifts == model.drifts_


def test_options_are_checked_and_used() -> None:
    X, y = rows(1, 1.2)
    assert learned(DriftSurfClassifier().set_drift_monitor(enabled=False), X, y, 200).drifts_ == Drifts()
    assert learned(DriftSurfClassifier().set_drift_monitor(smallest_rise=0.6), X, y, 200).drifts_ == Drifts()
    with pytest.raises(OptionError, match="smallest_rise is 2"):
        DriftSurfClassifier().set_drift_monitor(smallest_rise=2.0)
    with pytest.raises(StateError, match="before the first batch"):
        learned(DriftSurfClassifier(), X[:100], y[:100], 100).set_drift_monitor()


def test_an_exception_in_a_step_leaves_the_monitor_as_it_was() -> None:
    X, y = rows(1, 1.2)
    model = learned(DriftSurfClassifier(random_state=0), X[:5_100], y[:5_100], 100)
    before = dumps(model)
    with pytest.raises(ValueError, match="column 0"):
        model.partial_fit(np.full((100, 6), np.nan), y[:100])
    assert dumps(model) == before


def slow_scan(losses: Any, usual: float, run_length: float) -> int:
    """Return the row of the first sign, as the docstring of the native loop says it."""
    sums = [0.0] * 3
    for row, loss in enumerate(losses.tolist()):
        for k in range(3):
            _, stake, gain = PLAIN.bet(usual, usual * (1.0 - usual), k)
            sums[k] = max(0.0, sums[k] + math.log1p(stake * (loss - usual)))
            if sums[k] > max(math.log(run_length * gain), 3.0):
                return row
    return -1


@pytest.mark.parametrize("seed", range(5))
def test_the_scan_equals_its_definition(seed: int) -> None:
    random = np.random.default_rng(seed)
    losses = (random.random(2_000) < np.where(np.arange(2_000) < 1_000, 0.1, 0.4)).astype(float)
    values = np.frombuffer(PLAIN.values).copy()
    values[scan.WEIGHT], values[scan.MEAN] = 10_000.0, 0.1
    follower = Follower()
    follower.set_numbers(values=values)
    usual = 0.1 + math.sqrt(0.1 * 0.9 / 10_000.0)
    assert follower.scan_losses(losses, np.zeros(2_000)) == slow_scan(losses, usual, scan.RUN_LENGTH)


@pytest.mark.parametrize("mean", [0.001, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("share", [0.01, 0.2, 1.0])
def test_a_bet_is_fair_and_never_loses_everything(mean: float, share: float) -> None:
    variance = share * mean * (1.0 - mean)
    for k in range(3):
        usual, stake, gain = PLAIN.bet(mean, variance, k)
        assert usual == mean  # so that 1 + stake * (loss - mean) has the expectation 1
        assert 1.0 - stake * usual >= 0.09 or share == 1.0
        assert 1.0 - stake * usual > 0.0
        assert gain > 0.0


@pytest.mark.parametrize("kind", ["binary", "uniform", "normal"])
def test_the_false_alarms_of_the_bet_are_bounded(kind: str) -> None:
    """The mean capital exceeds 100 in at most 1 % of sequences: Ville's inequality, with a margin for 2,000 of them."""
    random = np.random.default_rng(0)
    if kind == "binary":
        losses, mean = (random.random((2_000, 1_000)) < 0.1).astype(float), 0.1
    elif kind == "uniform":
        losses, mean = 0.4 * random.random((2_000, 1_000)), 0.2
    else:
        losses = np.minimum(0.27 * np.abs(random.normal(size=(2_000, 1_000))), 1.0)
        mean = 0.27 * math.sqrt(2.0 / math.pi)
    capital = np.zeros((2_000, 1_000))
    for k in range(3):
        usual, stake, _ = PLAIN.bet(mean, float(losses.var()), k)
        capital += np.exp(np.cumsum(np.log1p(stake * (losses - usual)), axis=1)) / 3.0
    assert (capital.max(axis=1) >= 100.0).mean() <= 0.01 + 3.0 * math.sqrt(0.01 / 2_000)


def test_a_contest_is_proven_hopeless_or_goes_on() -> None:
    """The native loop multiplies three capitals row by row, as its definition does."""
    random = np.random.default_rng(1)
    for rate, expected in ((0.3, "proven"), (0.05, "hopeless"), (0.13, "goes on")):
        losses = (random.random(400) < rate).astype(float)
        follower = Follower()
        follower.contest = DriftContest(1, 0, 0, None, 0.1, reference=0.1, spread=1.5, before=0.0)
        stop = follower.bet_on_losses(losses, True, needed=math.log(100.0), least=0.12)
        capitals, row, seen = np.ones(3), -1, "goes on"
        for row, loss in enumerate(losses.tolist()):
            for k in range(3):
                usual, stake, _ = PLAIN.bet(0.1, 0.09, k)
                capitals[k] *= (1.0 + stake * (loss - usual)) ** (1.0 / 1.5)
            if capitals.mean() >= 100.0 and losses[: row + 1].mean() >= 0.12:
                seen = "proven"
                break
            if row >= 149 and capitals.mean() < math.exp(-3.0):
                seen = "hopeless"
                break
        assert seen == expected
        assert stop == {"proven": row, "hopeless": -2 - row, "goes on": -1}[seen]
        np.testing.assert_allclose(np.exp(follower.capitals[:3]), capitals)
        assert follower.capitals[3:5] == (row + 1, losses[: row + 1].sum())


def test_a_correction_learns_what_columns_ask_for() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(2_000, 3))
    y = (X[:, 1] > 0.0).astype(float)
    correction = Correction.fitted(2, 1.0, X[:1_000], y[:1_000], np.zeros(1_000))
    assert correction.losses(X[1_000:], y[1_000:], np.zeros(1_000)).mean() < 0.08
    again = Correction.from_state(correction.state(), 2)
    assert (again.corrected(X, np.zeros(2_000)) == correction.corrected(X, np.zeros(2_000))).all()


def test_only_the_column_that_changed_is_named_and_none_by_chance() -> None:
    named = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        X = random.normal(size=(1_000, 5))
        X[:, 4] = X[:, 3] + 0.5 * random.normal(size=1_000)  # goes along with the column that changes
        margins = 2.0 * X[:, 0] + 2.0 * X[:, 3]
        y = (random.random(1_000) < 1.0 / (1.0 + np.exp(-margins))).astype(float)
        turned = (random.random(1_000) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] + 2.0 * X[:, 3]))).astype(float)
        old = Evidence(X[:500], y[:500], margins[:500])
        assert changed_columns(2, 1.0, old, Evidence(X[500:], turned[500:], margins[500:]), range(5), 5)[:1] == [3]
        named += bool(changed_columns(2, 1.0, old, Evidence(X[500:], y[500:], margins[500:]), range(5), 5))
    assert named <= 3


def test_encoded_columns_belong_to_their_source() -> None:
    assert [source_column(name) for name in ("city=Rome", "note (hash 7)", "age is missing", "age")] == [
        *("city", "note", "age", "age")
    ]


def test_a_rare_class_whose_rule_changes_is_noticed_although_it_becomes_rarer() -> None:
    """The number of rare rows varies more than the share of them that is wrong, which is what counts."""
    random = np.random.default_rng(3)
    X = random.normal(size=(20_000, 4))
    after = np.arange(len(X)) >= 12_000
    rare = np.where(after, X[:, 1] > 2.0, X[:, 0] > 1.7) & (random.random(len(X)) < 0.95)
    model = learned(recommended("linear", random_state=0), X, rare.astype(int), 200)
    (drift,) = model.drifts_
    assert drift.metric == "balanced error"
    assert abs(drift.row - 12_000) < 200
    assert drift.error_before < 0.2
    assert drift.error_peak > 0.35


def test_a_model_that_cannot_be_frozen_is_told_a_new_rule_by_models_of_new_and_old_rows() -> None:
    drifts = learned(AUEClassifier(random_state=0), *rows(7, 1.5), 200).drifts_
    assert [(one.kind, abs(one.row - CHANGE) < 100) for one in drifts] == [("new rule", True)]


@pytest.mark.parametrize("also", ["categories", "dates", "both"])
def test_columns_that_are_encoded_as_many_are_not_named_for_it(also: str) -> None:
    random = np.random.default_rng(11)
    count = 6_000
    price, weight = random.normal(size=(2, count))
    table: dict[str, Any] = {"price": price, "weight": weight}
    if also != "dates":
        table["city"] = random.choice(["Rome", "Oslo", "Bonn", "Lima"], count)
    if also != "categories":
        table["at"] = np.datetime64("2026-01-05T00:00") + np.arange(count) * np.timedelta64(10, "m")
    y = np.where(np.where(np.arange(count) < 3_000, price, -price) + 0.5 * weight > 0, "yes", "no")
    y = np.where(random.random(count) < 0.05, "no", y)
    model = recommended("linear", random_state=0)
    for first in range(0, count, 200):
        part = slice(first, first + 200)
        model.partial_fit({name: cells[part] for name, cells in table.items()}, y[part])
    assert model.drifts_[0].columns[:1] == ("price",)
    assert set(model.drifts_[0].columns) <= set(table)


def followed(monitor: DriftMonitor, seeds: list[int], size: int) -> DriftMonitor:
    """Return the monitor after a step of rows for each seed."""
    nothing: Any = None
    around = Surroundings(tuple, (0, 1), nothing)
    for seed in seeds:
        random = np.random.default_rng(seed)
        X = random.normal(size=(size, 3))
        y = (random.random(size) < 0.5).astype(float)
        monitor = monitor.after(monitor.rows, monitor.rows, X, y, random.normal(size=size), None, *around)
    return monitor


@pytest.mark.parametrize("size", [1, 20, 90])
def test_two_ways_to_go_on_do_not_disturb_each_other(size: int) -> None:
    common = followed(DriftMonitor(regression=False), [*range(15)], size)
    saved = to_bytes(common.state())
    ways = [followed(common, [seed, seed + 1, seed + 2], size) for seed in (100, 200)]
    alone = [
        followed(DriftMonitor(regression=False), [*range(15), seed, seed + 1, seed + 2], size) for seed in (100, 200)
    ]
    assert to_bytes(common.state()) == saved
    assert [to_bytes(one.state()) for one in ways] == [to_bytes(one.state()) for one in alone]


def test_sparse_rows_have_the_same_drifts() -> None:
    X, y = rows(8, 1.2)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.7)
    y = np.where(np.arange(len(y)) < CHANGE, X[:, 0] + 0.1 * X[:, 2] > 0.0, X[:, 1] + 0.1 * X[:, 3] > 0.0).astype(int)
    models = [DriftSurfClassifier(random_state=0) for _ in range(2)]
    for first in range(0, len(y), 200):
        part = slice(first, first + 200)
        models[0].partial_fit(X[part], y[part], classes=(0, 1))
        models[1].partial_fit(scipy.sparse.csr_array(X[part]), y[part], classes=(0, 1))
        if first == CHANGE + 200:
            models[1] = loads(dumps(models[1]))
    assert len(models[0].drifts_) == 1
    (one,), (other,) = models[0].drifts_, models[1].drifts_
    assert (one.row, one.detected_at_row, one.kind, one.columns) == (
        *(other.row, other.detected_at_row, other.kind, other.columns),
    )
