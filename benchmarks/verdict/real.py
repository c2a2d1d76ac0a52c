"""Real streams, as they are or shuffled and changed in one way. A shuffled stream is steady before the change."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.verdict.judging import Task
from benchmarks.verdict.streams import Made, compare_errors
from driftsurf.comparison.inputs import Input, load
from driftsurf.core.contracts import FloatArray

__all__ = ["changed"]

FITTED, TESTED = 6_000, 3_000
"""Rows before the change from which a forest learns the old rule, and rows on which its error is measured."""
MATTERS = 0.03
"""Rise of the error of the forest from which on a column matters."""


class _Rows(NamedTuple):
    X: FloatArray
    y: npt.NDArray[Any]


def changed(task: Task) -> Made:
    """Return a real stream, shuffled unless it is taken as it is, with the change of a task after about one half."""
    rows = load(Input(task.family)).numbered()
    X, y, classes = np.asarray(rows.X, float), np.asarray(rows.y), tuple(range(len(rows.labels)))
    random = np.random.default_rng([task.seed, *task.kind.encode(), *task.family.encode()])
    if task.kind == "as-is":
        return _made(task, _Rows(X, y), classes, None)
    order = random.permutation(len(y))[: task.rows]
    X, y = X[order], y[order]
    change = int(len(y) * random.uniform(0.45, 0.55))
    if task.kind == "shuffled":
        return _made(task, _Rows(X, y), classes, None)
    if task.kind.startswith("class-"):
        return _with_class(task, _Rows(X, y), classes, change, random)
    return _injected(task, _Rows(X, y), classes, change, random)


def _made(
    task: Task,
    rows: _Rows,
    classes: tuple[int, ...],
    change: int | None,
    errors: tuple[float, float, float] = (0.0, 0.0, np.inf),
    columns: tuple[int, ...] = (),
    one: int | None = None,
) -> Made:
    names = tuple(f"x{k}" for k in range(rows.X.shape[1]))
    metric, changes = "error" if classes else "absolute error", () if change is None else (change,)
    return Made(
        *(task.kind, task.family, task.seed, np.ascontiguousarray(rows.X), rows.y, classes, names, metric),
        *(change, changes, *errors, tuple(names[k] for k in columns), one),
    )


def _injected(task: Task, rows: _Rows, classes: tuple[int, ...], change: int, random: np.random.Generator) -> Made:
    """Return the stream with another relation of columns, other labels, or other inputs from the change on."""
    X, y = rows.X.copy(), rows.y.copy()
    forest = _forest(task.family, task.seed, task.kind, X[:change], y[:change])
    tested = slice(max(0, change - TESTED), change)
    columns: tuple[int, ...] = ()
    if task.kind in ("swapped", "permuted"):
        first = _column(forest, X[tested], y[tested], random)
        columns = (first,)
        if task.kind == "permuted":
            X[change:, first] = random.permutation(X[change:, first])
        else:
            second = int(random.choice(np.delete(np.arange(X.shape[1]), first)))
            columns = (first, second)
            X[change:, [first, second]] = X[change:, [second, first]]
    elif task.kind == "flipped":
        y[change:] = (y[change:] + 1) % len(classes) if classes else 2.0 * np.median(y) - y[change:]
    else:  # rows are drawn again, more often if a column is large: the rule is the same in every row
        column = int(random.integers(X.shape[1]))
        rank = X[change:, column].argsort().argsort() / (len(X) - change)
        drawn = change + random.choice(
            len(X) - change, len(X) - change, p=np.exp(2.0 * rank) / np.exp(2.0 * rank).sum()
        )
        X[change:], y[change:] = X[drawn], y[drawn]
    new = slice(change, change + TESTED)
    errors = compare_errors(
        "error" if classes else "absolute error",
        (y[tested], forest.predict(X[tested])),
        (y[new], forest.predict(X[new])),
    )
    return _made(task, _Rows(X, y), classes, change, errors, columns)


def _with_class(task: Task, rows: _Rows, classes: tuple[int, ...], change: int, random: np.random.Generator) -> Made:
    """Return the stream without one class before or after the change."""
    shares = np.bincount(rows.y, minlength=len(classes)) / len(rows.y)
    one = int(random.choice(np.flatnonzero(shares >= min(0.05, np.median(shares)))))
    there = np.arange(len(rows.y)) >= change
    keep = (rows.y != one) | (there if task.kind == "class-comes" else ~there)
    change = int(keep[:change].sum())
    rise = float(shares[one]) if task.kind == "class-comes" else 0.0
    return _made(task, _Rows(rows.X[keep], rows.y[keep]), classes, change, (0.0, rise, np.inf), one=one)


@functools.lru_cache(maxsize=1)
def _forest_of() -> dict[Any, Any]:
    return {}


def _forest(family: str, seed: int, kind: str, X: FloatArray, y: npt.NDArray[Any]) -> Any:
    """Return a forest that has learned rows before the change; the last one is kept for the other model."""
    from sklearn.ensemble import ExtraTreesClassifier

    kept, key = _forest_of(), (family, seed, kind)
    if key not in kept:
        kept.clear()
        stop = max(1, len(y) - TESTED)
        forest = ExtraTreesClassifier(50, min_samples_leaf=2, random_state=0, n_jobs=1)
        kept[key] = forest.fit(X[max(0, stop - FITTED) : stop], y[max(0, stop - FITTED) : stop])
    return kept[key]


def _column(forest: Any, X: FloatArray, y: npt.NDArray[Any], random: np.random.Generator) -> int:
    """Return a column that matters: at random among those without which the error rises enough."""
    usual, rises = float((forest.predict(X) != y).mean()), []
    for column in range(X.shape[1]):
        other = X.copy()
        other[:, column] = random.permutation(other[:, column])
        rises.append(float((forest.predict(other) != y).mean()) - usual)
    enough = np.flatnonzero(np.array(rises) >= MATTERS)
    return int(random.choice(enough)) if len(enough) else int(np.argmax(rises))
