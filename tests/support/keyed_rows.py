"""Rows of several keys, their files, and visits of one key."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftsurf.core.state import from_bytes, pick
from driftsurf.keyed import Columns, KeyedFolder, KeyedLearner, KeyedOptions, KeyRows, Visit
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.serving import unpacked
from driftsurf.learners import LogisticRegression
from driftsurf.strategies import DriftSurf

COLUMNS = Columns("shop", "at", "bought")


class SavedStates:
    """Saved bytes of keys without rows after them; ``get`` returns those of a key, or None."""

    def __init__(self, get: Callable[[Any], bytes | None]) -> None:
        self.get = get

    def tails(self, keys: Collection[Any]) -> Iterator[RowsByKey]:
        return iter(())


OPTIONS = KeyedOptions(features=("price", "age"), classes=(0, 1), batch_size=10, step_size=0.1, threshold=0.2)


def write_rows(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["shop", "at", "bought", "price", "age", "note"], *rows])
    return path


def shops(n: int = 1200, n_keys: int = 4, start: int = 0) -> list[list[Any]]:
    """Rows of shops; the meaning of the price flips half-way."""
    rng = np.random.default_rng(start)
    rows: list[list[Any]] = []
    for at in range(start, start + n):
        shop, price, age = int(rng.integers(n_keys)), round(rng.normal(), 3), round(rng.normal(), 3)
        rows.append([f"s{shop}", at, int((price > 0) == (at < start + n // 2)), price, age, "x"])
    return rows


def predictions(folder: KeyedFolder) -> dict[tuple[Any, int], Any]:
    table = folder.read("predictions")
    found = list(zip(table["key"], table["sequence"], table["prediction"], strict=True))
    assert len({row[:2] for row in found}) == len(found), "a row was predicted twice"
    return {(key, at): label for key, at, label in found}


def learner(**options: Any) -> KeyedLearner:
    rule = DriftSurf(LogisticRegression(step_size=0.1), threshold=0.1, max_rows=30, dtype="float32")
    given: dict[str, Any] = {"strategy": rule, "features": ("a", "b"), "classes": (0, 1), "batch_size": 10, "seed": 3}
    return KeyedLearner(**(given | options))


def rows(n: int = 200, start: int = 0, seed: int = 0) -> KeyRows:
    """Rows of one key; the meaning of the first column flips half-way."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = ((X[:, 0] > 0) == (np.arange(n) < n // 2)).astype(int)
    return KeyRows(np.arange(start, start + n), X, y.tolist())


def part(given: KeyRows, *bounds: int) -> KeyRows:
    """Return the rows from the first to the second bound, from the third to the fourth, and so on."""
    ranges = [np.arange(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=True)]
    return given.take(np.concatenate([np.zeros(0, np.int64), *ranges]))


def visits(given: KeyedLearner, *parts: KeyRows, key: Any = 7) -> list[Visit]:
    state, done = None, []
    for one in parts:
        done.append(given.visit(key, state, one))
        state = done[-1].state
    return done


def joined(done: list[Visit], name: str) -> list[Any]:
    return [value for visit in done for value in getattr(visit, name)]


def same_end(one: list[Visit], other: list[Visit]) -> None:
    for name in ("sequence", "predicted", "true", "decided_at", "decisions", "transitions"):
        assert joined(one, name) == joined(other, name), name
    assert one[-1].state == other[-1].state
    assert one[-1].summary == other[-1].summary


def late_rows(n: int = 100, wait: int = 15) -> KeyRows:
    """A row at every even number; its label, alone, ``wait`` rows later at an odd one."""
    own = rows(n)
    events = [(2 * i, i, own.X[i], None) for i in range(n)]
    events += [(2 * (i + wait) + 1, i, np.full(2, np.nan), own.y[i]) for i in range(n)]
    events.sort(key=lambda event: event[0])
    sequence, ids, X, y = zip(*events, strict=True)
    return KeyRows(np.array(sequence), np.array(X), list(y), list(ids))


def model_entries(state: bytes, given: KeyedLearner | None = None, key: Any = 7) -> Any:
    """Return the entries of a key's model, as those of its session, or of its late labels."""
    saved = pick("model", from_bytes(state))
    if "late" in saved:
        return unpacked(saved["late"])
    return (given or learner())._open(key, state)[1].session.state()
