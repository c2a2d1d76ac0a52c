"""Keys that share a model: what a key predicts from its first row on, exact resumption, bad rows and options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import invoke
from pyarrow import parquet

import driftsurf
from driftsurf.data.tables import Column, Table
from driftsurf.errors import InputError, OptionError, StateError
from driftsurf.keyed import Columns, KeyedFolder, KeyedOptions, run_keyed
from driftsurf.keyed.shared_keys import SharedKeys
from driftsurf.keyed.sharing import ColumnScales, SharedModel
from driftsurf.keyed.store import StateStore
from driftsurf.report.keys import KeyedRecord, render, shared_verdict

COLUMNS = Columns("key", "at", "y")
SHARED = KeyedOptions(share="linear")


def _rows(n: int, n_keys: int, common: float = 1.0, seed: int = 0, zipf: bool = False) -> dict[str, Any]:
    """Return rows whose rule is partly that of all keys, and partly the key's own."""
    rng = np.random.default_rng(seed)
    together, own = rng.normal(size=3), rng.normal(size=(n_keys, 3))
    rule = np.sqrt(common) * together / np.linalg.norm(together)
    rule = rule + np.sqrt(1 - common) * own / np.linalg.norm(own, axis=1)[:, np.newaxis]
    often = 1 / np.arange(1, n_keys + 1) if zipf else np.ones(n_keys)
    keys, X = rng.choice(n_keys, size=n, p=often / often.sum()), rng.normal(size=(n, 3))
    y = rng.random(n) < 1 / (1 + np.exp(-4 * (X * rule[keys]).sum(axis=1)))
    table = {"key": [f"k{key}" for key in keys], "at": np.arange(n), "y": np.where(y, "yes", "no")}
    return table | {f"x{column}": 5 + 10 * X[:, column] for column in range(3)}


def _write(path: Path, rows: dict[str, Any], start: int = 0, stop: int | None = None) -> None:
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table({name: values[start:stop] for name, values in rows.items()}), path)


def _run(tmp_path: Path, rows: dict[str, Any], options: KeyedOptions = SHARED, name: str = "run", **more: Any) -> Any:
    if not (tmp_path / "rows.parquet").exists():
        _write(tmp_path / "rows.parquet", rows)
    return run_keyed(str(tmp_path / "rows.parquet"), tmp_path / name, COLUMNS, options, **more)


def _predictions(folder: KeyedFolder) -> dict[tuple[str, int], tuple[Any, ...]]:
    found = folder.read("predictions")
    rows = zip(*(found[name] for name in ("key", "sequence", "prediction", "true", "shared")), strict=True)
    return {(key, at): rest for key, at, *rest in rows}  # type: ignore[misc]


def _states(folder: KeyedFolder) -> tuple[dict[Any, bytes | None], bytes | None]:
    store = StateStore(folder.path / "state.sqlite")
    server = SharedKeys(SHARED.learner(("x0", "x1", "x2")), "key", ("at", "y"))  # type: ignore[arg-type]
    data = store.shared()
    assert data is not None
    server.model.restore(data)
    found = server.states(list(folder.keys()), store), data
    store.close()
    return found


def _error(predictions: dict[Any, Any], column: int = 0) -> float:
    scored = [(row[column], row[1]) for row in predictions.values() if row[column] is not None]
    return float(np.mean([predicted != true for predicted, true in scored]))


def test_a_key_of_20_rows_is_as_good_as_a_lone_one_of_500(tmp_path: Path) -> None:
    rows = _rows(20_000, 1000, seed=3)
    shared = _predictions(_run(tmp_path, rows))
    count: dict[str, int] = {}
    young = {}
    for (key, at), row in sorted(shared.items(), key=lambda one: one[0][1]):
        count[key] = count.get(key, 0) + 1
        if at > 2_000 and count[key] <= 20:
            young[key, at] = row
    lone_rows = _rows(5_000, 10, seed=3)
    _write(tmp_path / "lone" / "rows.parquet", lone_rows)
    lone = run_keyed(
        str(tmp_path / "lone" / "rows.parquet"), tmp_path / "alone", COLUMNS, KeyedOptions(classes=("no", "yes"))
    ).read("predictions")
    grown = [
        prediction != true
        for at, prediction, true in zip(lone["sequence"], lone["prediction"], lone["true"], strict=True)
        if at > 3_000
    ]
    assert _error(young) < np.mean(grown) + 0.01


@pytest.mark.parametrize("common", [0.0, 0.5, 1.0])
def test_keys_are_not_worse_than_the_better_of_one_model_and_one_for_each(tmp_path: Path, common: float) -> None:
    rows = _rows(12_000, 30, common, seed=5, zipf=True)
    shared = _predictions(_run(tmp_path, rows))
    alone = _run(tmp_path, rows, KeyedOptions(classes=("no", "yes")), name="alone").read("predictions")
    each = np.mean([a != b for a, b in zip(alone["prediction"], alone["true"], strict=True)])
    assert _error(shared) < min(_error(shared, 2), each) + 0.005
    if common == 0.5:
        assert _error(shared) < min(_error(shared, 2), each) - 0.02


def test_epochs_and_what_is_open_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(3_000, 40, 0.5)
    whole = _run(tmp_path, rows)
    monkeypatch.setattr(SharedKeys.__init__, "__defaults__", ((), 3_000))  # a few keys stay open
    made = _run(tmp_path, rows, name="small", epoch=700)
    assert _predictions(made) == _predictions(whole)
    summaries = made.keys(), whole.keys()
    for own in summaries:
        for entry in own.values():
            entry.pop("epoch")
    assert summaries[0] == summaries[1]
    assert _states(made)[0] == _states(whole)[0]


def test_a_run_that_is_stopped_anywhere_resumes_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows(2_500, 25, 0.5)
    whole = _run(tmp_path, rows, epoch=300)
    kept, written = StateStore.keep, KeyedFolder.write
    fails: list[int] = [1]

    def failing(function: Callable[..., Any], before: bool) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            fails[0] += 1
            if fails[0] % 3 == 0 and before:
                raise MemoryError
            found = function(*args, **named)
            if fails[0] % 3 == 0:
                raise MemoryError
            return found

        return call

    monkeypatch.setattr(StateStore, "keep", failing(kept, before=False))
    monkeypatch.setattr(KeyedFolder, "write", failing(written, before=True))
    for _ in range(60):
        try:
            made = _run(tmp_path, rows, name="stopped", epoch=300)
        except MemoryError:
            continue
        break
    assert _predictions(made) == _predictions(whole)
    assert _states(made) == _states(whole)


def test_the_same_command_learns_what_is_new(tmp_path: Path) -> None:
    rows = _rows(2_000, 20, 0.5)
    whole = _run(tmp_path, rows)
    # Words of the first rows decide how the shared model sees keys: all keys are among them.
    _write(tmp_path / "more" / "0.parquet", rows, 0, 900)
    first = run_keyed(str(tmp_path / "more"), tmp_path / "grown", COLUMNS, SHARED)
    assert len(_predictions(first)) == 900
    _write(tmp_path / "more" / "1.parquet", rows, 900)
    again = run_keyed(str(tmp_path / "more"), tmp_path / "grown", COLUMNS, SHARED)
    assert _predictions(again) == _predictions(whole)
    assert _states(again)[0] == _states(whole)[0]


def test_rows_that_come_again_are_dropped_and_change_nothing(tmp_path: Path) -> None:
    rows = _rows(1_500, 10, 0.5)
    whole = _run(tmp_path, rows)
    _write(tmp_path / "twice" / "0.parquet", rows)
    run_keyed(str(tmp_path / "twice"), tmp_path / "again", COLUMNS, SHARED)
    _write(tmp_path / "twice" / "1.parquet", rows, 300, 900)
    again = run_keyed(str(tmp_path / "twice"), tmp_path / "again", COLUMNS, SHARED)
    assert sum(entry["duplicates"] for entry in again.keys().values()) == 600
    assert _predictions(again) == _predictions(whole)


def test_numbers_classes_that_come_later_gaps_and_rows_without_a_label(tmp_path: Path) -> None:
    rows = _rows(2_000, 8, 0.5)
    score = rows["x0"] - 5
    third = np.where(np.arange(2_000) > 900, score > 8, False)
    labels = [
        None if at % 7 == 3 else "many" if more else y
        for at, (more, y) in enumerate(zip(third, rows["y"], strict=True))
    ]
    _write(tmp_path / "rows.parquet", rows | {"y": labels, "x1": np.where(rows["x1"] > 20, np.nan, rows["x1"])})
    whole = _run(tmp_path, {})
    keys = whole.keys()
    assert sum(entry["gaps"] for entry in keys.values()) == int((rows["x1"] > 20).sum())
    assert sum(entry["rows"] for entry in keys.values()) == 2_000
    parts = _run(tmp_path, {}, name="parts", epoch=450)
    late = {place: row for place, row in _predictions(parts).items() if place[1] > 1_400 and row[1] is not None}
    assert {row[0] for row in late.values()} == {"yes", "no", "many"}
    assert _error(late) < 0.3
    assert _error(_predictions(parts)) == pytest.approx(_error(_predictions(whole)), abs=0.01)
    (tmp_path / "rows.parquet").unlink()
    own = np.array([int(key[1:]) for key in rows["key"]])
    numbers = 100 + 3 * score + own * 50 + np.random.default_rng(0).normal(size=2_000)
    made = _run(tmp_path, rows | {"y": numbers}, name="numbers", task="regression")
    found = [row for (_, at), row in _predictions(made).items() if at > 1_000]
    error, alone = (np.mean([abs(row[column] - row[1]) for row in found]) for column in (0, 2))
    assert error < alone < 3
    entry = made.keys()["k3"]
    assert entry["deviation"] > 0
    assert entry["errors"] == 0


def test_a_bad_row_puts_its_key_in_quarantine_and_no_other(tmp_path: Path) -> None:
    rows = _rows(1_200, 6, 0.5)
    labels = rows["y"].astype(object)
    bad = next(at for at in range(600, 1_200) if rows["key"][at] == "k2")
    labels[bad] = "perhaps"
    options = KeyedOptions(share="linear", classes=("no", "yes"))
    made = _run(tmp_path, rows | {"y": labels}, options, epoch=250)
    entry = made.keys()["k2"]
    assert (entry["quarantine"], entry["quarantined_at"]) == ("bad_label", bad)
    behind = [at for at in range(bad, 1_200) if rows["key"][at] == "k2"]
    assert entry["refused"] == len(behind)
    found = _predictions(made)
    assert all(found["k2", at][0] is not None and found["k2", at][1] is None for at in behind)
    assert all(one["quarantine"] == "" for key, one in made.keys().items() if key != "k2")
    without = [at for at in range(1_200) if at not in behind]
    clean = {name: np.asarray(values)[without] for name, values in rows.items()}
    _write(tmp_path / "clean" / "rows.parquet", clean)
    other = run_keyed(str(tmp_path / "clean"), tmp_path / "other", COLUMNS, options)
    assert {place: row for place, row in found.items() if place[1] not in behind} == _predictions(other)
    again = KeyedOptions(share="linear", classes=("no", "yes"), readmit={"k2": bad})
    more = {name: np.concatenate([np.asarray(values), np.asarray(values)[:60]]) for name, values in rows.items()}
    more["at"] = np.arange(1_260)
    labels = np.append(labels, rows["y"][:60])
    _write(tmp_path / "rows.parquet", more | {"y": labels})
    assert _run(tmp_path, {}, again).keys()["k2"]["quarantine"] == ""


def test_options_say_who_shares(tmp_path: Path) -> None:
    _write(tmp_path / "rows.parquet", _rows(600, 3))
    given: dict[str, Any] = {"key": "key", "sequence": "at", "label": "y"}
    source = str(tmp_path / "rows.parquet")

    def shared(name: str, **more: Any) -> Any:
        driftsurf.run(source, out=tmp_path / name, **given, **more)
        return KeyedFolder(tmp_path / name).about()["learner"].get("share")

    assert shared("a") == "default"
    assert shared("a") == "default"  # it resumes
    assert shared("b", share="light") == "light"
    assert shared("b") == "light"
    assert shared("c", share="none") is None
    assert shared("c") is None
    assert shared("d", threshold=0.2) is None
    with pytest.raises(StateError, match="share was 'default'"):
        shared("a", share="none")
    with pytest.raises(StateError, match="share was 'none'"):
        shared("c", share="light")
    with pytest.raises(OptionError, match="learn alone"):
        shared("e", share="light", model="ddm")
    with pytest.raises(OptionError, match="learn alone"):
        KeyedOptions(share="light", batch_size=16).learner(["x0"])
    result = invoke("keys", tmp_path / "a", "k1", "--page", tmp_path / "k1.html")
    assert result.exit_code == 0, result.output


def test_silent_keys_expire_and_a_damaged_model_is_named(tmp_path: Path) -> None:
    rows = _rows(1_000, 5)
    rows["key"] = [key if at < 500 or key != "k4" else "k0" for at, key in enumerate(rows["key"])]
    made = _run(tmp_path, rows, epoch=200, ttl=300)
    assert [key for key, entry in made.keys().items() if entry["expired"]] == ["k4"]
    store = StateStore(made.path / "state.sqlite")
    store._db.execute("UPDATE shared SET bytes = ?", (b"nonsense",))
    store.close()
    with pytest.raises(StateError):
        _run(tmp_path, rows, epoch=200, ttl=300)


def test_a_run_whose_rows_are_all_bad_leaves_nothing(tmp_path: Path) -> None:
    rows = _rows(50, 2)
    with pytest.raises(InputError, match="no row could be learned"):
        _run(tmp_path, rows, KeyedOptions(share="linear", classes=("a", "b")))
    assert not (tmp_path / "run").exists()


def test_scales_do_not_depend_on_calls() -> None:
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1e6, 1e-6, 0.0] + [1e9, 0.0, 7.0]
    X[::17, 1] = np.nan
    whole = ColumnScales(3).scaled(X)
    parts = ColumnScales(3)
    assert np.array_equal(np.vstack([parts.scaled(X[a : a + 33]) for a in range(0, 500, 33)]), whole, equal_nan=True)
    assert np.nanstd(whole[250:, 0]) == pytest.approx(1, abs=0.1)
    assert not whole[:, 2].any()


def test_a_shared_model_continues_from_its_bytes() -> None:
    learner: Any = SHARED.learner(("x0", "x1", "x2"))
    rows = _rows(700, 4)
    words, codes = np.unique(rows["key"], return_inverse=True)
    numbers = {name: Column("number", rows[name]) for name in ("x0", "x1", "x2")}
    table = Table({"key": Column("text", codes, tuple(words.tolist())), **numbers})
    first, learned = SharedModel(learner, "key"), np.ones(700, np.bool_)
    X = first.encoded(table)
    expected = first.observe(X, rows["y"].tolist(), learned)
    half, again = SharedModel(learner, "key"), SharedModel(learner, "key")
    half.encoded(table)
    before = half.observe(X[:333], rows["y"][:333].tolist(), learned[:333])
    again.restore(half.to_bytes())
    after = again.observe(X[333:], rows["y"][333:].tolist(), learned[333:])
    assert np.array_equal(np.vstack([before, after]), expected, equal_nan=True)
    assert again.to_bytes() == first.to_bytes() or again.drifts == first.drifts


def test_a_drift_of_all_keys_is_seen_by_the_shared_model_and_that_of_one_is_the_keys(tmp_path: Path) -> None:
    rows = _rows(8_000, 20, seed=2)
    turned = np.where(np.arange(8_000) < 5_000, rows["y"], np.where(rows["y"] == "yes", "no", "yes"))
    every = _run(tmp_path, rows | {"y": turned}, epoch=1_500)
    seen = every.shared()
    assert seen is not None
    (drift,) = seen["drifts"]
    assert abs(drift["row"] - 5_000) < 100
    assert drift["keys_judged"] >= 18
    assert drift["keys_hit"] >= 0.9 * drift["keys_judged"]
    record, _ = KeyedRecord.read(every)
    assert "saw one drift in 8,000 rows" in shared_verdict(record)
    page = render(record, about=every.about())
    assert page.index("All keys share recommended-linear") < page.index("of predictions")
    (tmp_path / "rows.parquet").unlink()
    own = np.where(np.asarray(rows["key"]) == "k7", turned, rows["y"])
    single = _run(tmp_path, rows | {"y": own}, name="single", epoch=1_500)
    found = single.shared()
    assert found is not None
    assert all(one["keys_hit"] <= 2 for one in found["drifts"])  # one key in 20 raises the error of all a little
    assert set(single.drifts().keys) <= {"k7"}
    assert "saw no drift" in shared_verdict(KeyedRecord.read(single)[0])
