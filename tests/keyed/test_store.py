"""The states of keys in a file: bytes written in one of many epochs, and the rows that came since."""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keyed_rows import COLUMNS, OPTIONS, learner, part, rows, shops, write_rows

from driftsurf.core.state import to_bytes
from driftsurf.errors import StateError, StateVersionError
from driftsurf.keyed import KeyRows, run_keyed, store
from driftsurf.keyed.key_cache import KeyCache
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.store import EpochProgress, StateStore

KEYS = "a", "b", "c"


@pytest.fixture
def states(tmp_path: Path) -> Iterator[StateStore]:
    with contextlib.closing(StateStore(tmp_path / "state.sqlite")) as made:
        yield made


def epoch_of(number: int, keys: Any = KEYS) -> RowsByKey:
    return RowsByKey.of({key: part(rows(400), 5 * number, 5 * number + 5) for key in keys})


def learned(states: StateStore, epochs: range, keys: Any = KEYS) -> KeyCache:
    """Serve some epochs, and keep their states."""
    serving = KeyCache(learner())
    for number in epochs:
        done = serving.serve(epoch_of(number, keys), states)
        assert not done.visits
        whole = functools.partial(serving.states, states=states, served=done.parts)
        states.keep(done, EpochProgress(number + 1), whole)
    return serving


def tables(path: Path, query: str) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_a_key_is_written_as_a_whole_once_in_a_span_and_tails_are_kept_for_as_long(
    states: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SPAN", 4)
    learned(states, range(9))
    written = tables(states.path, "SELECT key, epochs FROM state ORDER BY key")
    assert [key for key, _ in written] == list(KEYS)
    assert all(6 <= epochs <= 9 for _, epochs in written)
    assert tables(states.path, "SELECT epoch FROM tail") == [(6,), (7,), (8,)]
    whole = learner().visit("a", None, part(rows(400), 0, 45))
    assert KeyCache(learner()).states(["a"], states) == {"a": whole.state}


def test_silent_keys_are_written_as_a_whole_before_their_rows_are_dropped(
    states: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SPAN", 3)
    learned(states, range(2), ["silent"])
    learned(states, range(2, 12))
    whole = learner().visit("silent", None, part(rows(400), 0, 10))
    assert states.get("silent") == whole.state


def test_a_dropped_key_starts_over_though_its_rows_are_still_there(states: StateStore) -> None:
    serving = learned(states, range(3))
    last = serving.states(["a"], states)["a"]
    assert last is not None
    serving.forget(["a"])
    states.keep({"a": learner().expire("a", last)}, EpochProgress(4))
    assert states.get("a") is None
    assert len(tables(states.path, "SELECT epoch FROM tail")) == 3
    reopened = StateStore(states.path)
    assert list(reopened.tails(["a"])) == []
    assert reopened.silent(10**9) == ["b", "c"]
    reopened.close()


def test_a_file_of_an_earlier_version_is_refused_by_its_number(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "state.sqlite")) as db, db:
        db.execute("CREATE TABLE progress (one INTEGER PRIMARY KEY, value TEXT)")
    with pytest.raises(StateVersionError, match="layout 0"):
        StateStore(tmp_path / "state.sqlite")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"starts": np.array([0, 9, 5, 15])}, "starts"),
        ({"starts": np.array([0, 5, 10, 16])}, "starts"),
        ({"starts": np.array([0, 5, 15])}, "starts"),
        ({"order": np.arange(1, 16)}, "order"),
        ({"order": np.arange(-1, 14)}, "order"),
        ({"codes": np.full(15, 2)}, "codes"),
        ({"codes": np.full(15, -2)}, "codes"),
        ({"codes": np.zeros(14, np.int64)}, "codes"),
        ({"X": np.zeros((14, 2))}, "X"),
        ({"X": np.zeros((15, 2), np.float32)}, "X"),
        ({"names": json.dumps(["a", "b", "a"])}, "names"),
        ({"names": json.dumps({"a": 1})}, "names"),
        ({"words": json.dumps([[]])}, "words"),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(change: dict[str, Any], named: str) -> None:
    state = epoch_of(0).state()
    assert list(RowsByKey.from_state(state)) == list(KEYS)
    with pytest.raises(StateError, match=named):
        RowsByKey.from_state(state | change)


@pytest.mark.parametrize("damage", [b"", b"rows", to_bytes({"names": "[]"}), "text"])
def test_damaged_rows_are_named_with_their_file_and_epoch(tmp_path: Path, damage: Any) -> None:
    source, run = str(write_rows(tmp_path / "a.csv", shops(90))), tmp_path / "run"
    run_keyed(source, run, COLUMNS, OPTIONS, epoch=30)
    with contextlib.closing(sqlite3.connect(run / "state.sqlite")) as db, db:
        assert db.execute("UPDATE tail SET bytes = ? WHERE epoch = 1", (damage,)).rowcount == 1
    write_rows(tmp_path / "a.csv", [*shops(90), *shops(30, start=90)])
    with pytest.raises(StateError, match=r"state\.sqlite.*epoch 1"):
        run_keyed(source, run, COLUMNS, OPTIONS, epoch=30)


def test_rows_of_a_key_are_made_on_demand() -> None:
    own = KeyRows(np.array([4, 2]), np.ones((2, 1)), [True, 1], ["x", "y"])
    given = RowsByKey.of({"k": own, "l": own})
    assert [(type(label), label) for label in given["l"].y] == [(bool, True), (int, 1)]
    assert given["l"].ids == ["x", "y"]
    assert "m" not in given
    assert given.only(["k"])["k"].sequence.tolist() == [4, 2]
