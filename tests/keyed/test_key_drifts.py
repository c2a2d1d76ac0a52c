"""Drifts of the keys of a keyed run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import invoke
from pyarrow import parquet

import driftsurf
from driftsurf.core.drifts import Drifts
from driftsurf.errors import OptionError, RunDrifted
from driftsurf.keyed import Columns, Fleet, KeyedFolder, KeyedOptions, run_keyed
from driftsurf.keyed.drifts import JudgedRows, KeyDrifts, RunningDrifts, drifts_of_key
from driftsurf.report.keys import KeyedRecord, render

COLUMNS = Columns("key", "at", "y")


def _table(path: Path, n_keys: int, rows: int, drifting: Collection[int] = (), kind: str = "flip") -> str:
    """Write rows of keys; from the middle on, the rule of some of them is another one."""
    rng = np.random.default_rng(0)
    n = n_keys * rows
    key, turn = np.tile(np.arange(n_keys), rows), np.repeat(np.arange(rows), n_keys)
    X = rng.normal(size=(n, 3))
    new = np.isin(key, list(drifting)) & (turn >= rows // 2)
    score = X[:, 0] + 0.5 * X[:, 1]
    y: Any
    if kind == "numbers":
        y = 3.0 * score + rng.normal(size=n)
        y = np.where(new, -y, y)
    elif kind == "rare":
        y = np.where(new, rng.random(n) < 0.08, score > np.quantile(score, 0.92)).astype(int)
    else:
        y = (np.where(new & (kind == "flip"), -score, score) > 0.0) ^ (
            rng.random(n) < np.where(new & (kind == "noise"), 0.5, 0.1)
        )
        y = y.astype(int)
    columns = {f"x{place}": X[:, place] for place in range(3)}
    parquet.write_table(pa.table({"key": [f"k{k}" for k in key], "at": np.arange(n), "y": y, **columns}), path)
    return str(path)


def _run(tmp_path: Path, *given: Any, name: str = "run", epoch: int = 100_000, **more: Any) -> KeyedFolder:
    source = _table(tmp_path / "rows.parquet", *given, **more)
    return run_keyed(source, tmp_path / name, COLUMNS, KeyedOptions(), epoch=epoch)


def test_one_key_of_50_drifts_and_is_named(tmp_path: Path) -> None:
    folder = _run(tmp_path, 50, 800, [7])
    drifts = folder.drifts()
    assert drifts.keys == ("k7",)
    assert drifts.verdict == "1 of 50 keys drifted: k7."
    (one,) = drifts.of("k7")
    assert abs(one.row - 400) < 10
    assert one.row < one.detected_at_row < 464
    assert one.step == one.row // 32
    assert one.time == f"sequence {50 * one.row + 7:,}"
    assert (one.kind, one.metric, one.cause) == ("new rule", "error", "unexamined")
    assert one.error_after is not None
    assert one.error_before < 0.3 < one.error_after + 0.3 < one.error_peak
    assert one.recovered_after_rows is not None
    assert one.evidence > 100.0
    frame = drifts.to_frame()
    assert frame["key"].tolist() == ["k7"]
    assert frame["row"].tolist() == [one.row]
    page = render(KeyedRecord.read(folder)[0], paged=["k7"])
    assert page.index("1 of 50 keys drifted: k7.") < page.index("<h2>Drifts</h2>") < page.index("<h2>Which models")
    assert page.count('<a href="key_pages/k7-') == 2


def test_epochs_and_a_kill_do_not_change_drifts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(tmp_path, 6, 800, [2, 5])
    assert whole.drifts().keys == ("k2", "k5")
    mark = KeyedFolder.mark

    def killed(folder: KeyedFolder, epoch: int, counts: Mapping[str, int]) -> None:
        if epoch == 8:
            raise KeyboardInterrupt
        mark(folder, epoch, counts)

    monkeypatch.setattr(KeyedFolder, "mark", killed)
    with pytest.raises(KeyboardInterrupt):
        _run(tmp_path, 6, 800, [2, 5], name="parts", epoch=370)
    monkeypatch.setattr(KeyedFolder, "mark", mark)
    assert KeyedFolder(tmp_path / "parts").epochs()
    parts = _run(tmp_path, 6, 800, [2, 5], name="parts", epoch=370)
    assert len(parts.epochs()) == 13
    assert parts.drifts() == whole.drifts()


def test_steady_keys_have_no_drift(tmp_path: Path) -> None:
    drifts = _run(tmp_path, 200, 600).drifts()
    assert not drifts
    assert drifts.verdict == "No drift in 200 keys."
    assert drifts.to_frame().empty
    assert list(drifts.to_frame().columns[:3]) == ["key", "number", "row"]


@pytest.mark.parametrize(
    ("kind", "metric"), [("numbers", "mean absolute error"), ("rare", "balanced error"), ("noise", "error")]
)
def test_numbers_rare_labels_and_noise(tmp_path: Path, kind: str, metric: str) -> None:
    drifts = _run(tmp_path, 4, 6000 if kind == "rare" else 1000, [3], kind=kind).drifts()
    assert drifts.keys == ("k3",)
    one = drifts.of("k3")[0]
    assert one.metric == metric
    assert one.error_before < one.error_peak
    assert (one.kind, one.ended) == (("new rule", True) if kind == "numbers" else ("harm", False))
    assert bool(drifts.drifting) != one.ended


def test_keys_with_few_rows_are_not_judged(tmp_path: Path) -> None:
    folder = _run(tmp_path, 3, 150, [1])
    assert folder.drifts().verdict == (
        "No drift in 3 keys (3 of them have fewer than 200 scored rows, too few to tell)."
    )
    with pytest.raises(OptionError, match="drift_risk"):
        folder.drifts(drift_risk=1.5)


def test_noise_makes_no_drift_among_many_keys() -> None:
    rng = np.random.default_rng(5)
    n_keys, rows = 4000, 500  # with the bound for one key, a tenth of such runs would report drifts
    key, true = np.repeat(np.arange(n_keys), rows), np.zeros(n_keys * rows)
    running = RunningDrifts(n_keys, regression=False)
    running.add(key, np.arange(len(key)), (rng.random(len(key)) < 0.05).astype(float), true)
    assert not len(running.drifted())


def test_a_rise_after_the_model_was_replaced_is_no_drift() -> None:
    rng = np.random.default_rng(0)
    true, rows = np.zeros(1000), np.arange(1000)
    predicted = (rng.random(1000) < np.where((rows >= 600) & (rows < 660), 0.7, 0.1)).astype(float)

    def found(*replaced: int) -> Drifts:
        steps = np.arange(20, 1000, 20)
        given = JudgedRows(predicted, true, rows, steps, np.array(replaced, np.int64), lambda row: str(row))
        return drifts_of_key(given, 10, regression=False)

    assert [one.kind for one in found()] == ["harm"]
    assert [one.kind for one in found(640)] == ["new rule"]
    assert not len(found(580))


def test_the_watch_is_a_function_of_the_rows_of_a_key_in_order() -> None:
    rng = np.random.default_rng(1)
    n = 3000
    key, sequence, true = rng.integers(3, size=n), np.arange(n), rng.integers(3, size=n)
    wrong = rng.random(n) < np.where((key == 1) & (sequence > 2000), 0.8, 0.2)
    predicted = np.where(wrong, (true + 1) % 3, true)
    whole, parts = RunningDrifts(3, regression=False), RunningDrifts(3, regression=False)
    whole.add(key, sequence, predicted, true)
    for start in range(0, n, 17):
        cut = slice(start, start + 17)
        parts.add(key[cut], sequence[cut], predicted[cut], true[cut])
    assert whole.drifted().tolist() == parts.drifted().tolist() == [1]
    assert (whole._values == parts._values).all()


def test_commands_tell_drifts_and_can_fail(tmp_path: Path) -> None:
    source = _table(tmp_path / "rows.parquet", 5, 800, [2])
    given = ("--key", "key", "--sequence", "at", "--label", "y")
    result = invoke("run", source, *given, "--out", tmp_path / "runs" / "a", "--fail-on-drift")
    assert result.exit_code == 3, result.output
    assert "1 of 5 keys drifted: k2." in result.output
    assert "drift of k2: From row " in result.output
    one = invoke("keys", tmp_path / "runs" / "a", "k2")
    assert "drift of k2: From row " in one.output
    page = next((tmp_path / "runs" / "a" / "key_pages").glob("k2-*.html")).read_text()
    assert "One drift: from row " in page
    with pytest.raises(RunDrifted, match="1 of 5 keys drifted") as raised:
        driftsurf.run(
            source, key="key", sequence="at", label="y", out=tmp_path / "b", fail_on_drift=True, progress=False
        )
    drifts = raised.value.result.drifts
    assert isinstance(drifts, KeyDrifts)
    assert ">k2</td>" in raised.value.result._repr_html_()
    assert repr(drifts) == "<KeyDrifts: 1 in 1 of 5 keys>"
    assert raised.value.result.explain().splitlines()[1].startswith("k2: From row ")


def test_a_fleet_says_that_it_has_no_drifts() -> None:
    with pytest.raises(AttributeError, match="keyed run"):
        _ = Fleet().drifts_


@pytest.mark.parametrize(("usual", "risen", "length"), [(0.05, 0.6, 100), (0.12, 0.64, 400), (0.01, 1.0, 40)])
def test_a_drift_begins_where_the_errors_rise_and_its_recovery_excludes_the_peak(
    usual: float, risen: float, length: int
) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        true, rows = np.zeros(4000), np.arange(4000)
        peak = (rows >= 2000) & (rows < 2000 + length)
        predicted = (rng.random(4000) < np.where(peak, risen, usual)).astype(float)
        steps = np.arange(20, 4000, 20)
        given = JudgedRows(predicted, true, rows, steps, np.array([2100]), lambda row: str(row))
        (one,) = drifts_of_key(given, 10, regression=False)
        assert abs(one.row - 2000) < 15
        assert one.error_peak > 0.7 * risen
        assert one.recovered_after_rows is not None
        assert one.recovered_after_rows > one.detected_at_row - one.row
        assert one.error_after is not None
        assert one.error_after < one.error_before + 0.2 * (one.error_peak - one.error_before)
