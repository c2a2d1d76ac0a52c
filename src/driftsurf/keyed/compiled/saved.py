"""The blocks of a fleet as flat entries and back, and one key as the state of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray, State
from driftsurf.core.fields import Array, Fields, Text, misfit
from driftsurf.core.state import nest
from driftsurf.core.targets import ClassTargets
from driftsurf.kernels.random import derive
from driftsurf.keyed.compiled.layout import KEY, MODEL, Shape, Store

__all__ = ["KEY_FIELDS", "MODEL_FIELDS", "restored_store", "session_state", "store_state"]

KEY_FIELDS = tuple(name for name in KEY.names or () if name != "seed")  # seeds follow from the keys
MODEL_FIELDS = tuple(MODEL.names or ())
KEYS_AT_ONCE = 4096
"""Keys that are saved at a time, which bounds the memory for their indices."""
MOST_UNUSED = 2**30
"""Largest number of bytes of the blocks of a saved fleet, whatever its file holds ..."""
MOST_SPARSE = 10_000
"""... and, for a larger one, the largest number for each byte in its file."""
MOST = 2**40
"""No count of a key reaches this; what follows from counts stays far below 2**63."""


class Live(NamedTuple):
    """Where the rows and the table entries of some keys are: in the saved arrays, and in their blocks."""

    keys: slice
    rows: slice
    row_places: tuple[IntArray, ...]
    entries: slice
    entry_places: tuple[IntArray, ...]


def store_state(store: Store, n: int) -> State:
    """Return the first ``n`` blocks as flat entries, without places that are not in use."""
    shape = store.shape
    state: State = nest("key", {name: store.keys[name][:n].copy() for name in KEY_FIELDS})
    state |= nest("model", {name: store.models[name][:n].copy() for name in MODEL_FIELDS})
    n_rows = int(_rows(store.keys[:n], shape).sum())
    rows, labels = np.empty((n_rows, shape.n_features), np.float32), np.empty(n_rows, np.uint8)
    tables = np.empty(int(_entries(store.keys[:n], store.models[:n], shape)[1].sum()))
    for live in _live(store.keys[:n], store.models[:n], shape):
        rows[live.rows] = store.rows[live.keys][live.row_places]
        labels[live.rows] = store.labels[live.keys][live.row_places]
        tables[live.entries] = store.tables[live.keys][live.entry_places]
    state |= {"weights": store.weights[:n].copy(), "sums": store.sums[:n].copy()}
    return state | {"rows": rows, "labels": labels, "tables": tables}


def restored_store(state: Mapping[str, Any], n: int, shape: Shape) -> Store:
    """Return the blocks of ``n`` keys that ``store_state`` saved; StateError if the entries do not fit together."""
    known = FIELDS.read(state, n_keys=n, n_features=shape.n_features)
    saved = sum(array.nbytes for array in known.values() if isinstance(array, np.ndarray))
    if (n + 1) * shape.bytes_per_key > MOST_UNUSED + MOST_SPARSE * saved:
        raise misfit(
            state, "fleet", f"makes {shape.bytes_per_key:,} bytes of each of {n} keys, of {saved:,} in the file"
        )
    store = Store(n, shape)
    for array, part in ((store.keys, "key"), (store.models, "model")):
        for name in KEY_FIELDS if part == "key" else MODEL_FIELDS:
            array[name] = known[f"{part}.{name}"]
    store.weights[:], store.sums[:] = known["weights"], known["sums"]
    for entry, good in _checks(store.keys, store.models, shape):
        if not good:
            raise misfit(state, entry, "contradicts the other counts of a key")
    for entry, count in (
        ("rows", _rows(store.keys, shape)),
        ("tables", _entries(store.keys, store.models, shape)[1]),
    ):
        if len(known[entry]) != count.sum():
            raise misfit(state, entry, f"has {len(known[entry])} rows, but the counts of the keys make {count.sum()}")
    for live in _live(store.keys, store.models, shape):
        store.rows[live.keys][live.row_places] = known["rows"][live.rows]
        store.labels[live.keys][live.row_places] = known["labels"][live.rows]
        store.tables[live.keys][live.entry_places] = known["tables"][live.entries]
    return store


def _entries(keys: npt.NDArray[Any], models: npt.NDArray[Any], shape: Shape) -> tuple[IntArray, IntArray]:
    """Return, for each model, the first row of its sample set and the number of its table entries."""
    lo = np.maximum(
        models["born"] * shape.batch_size, (keys["step"] * shape.batch_size - shape.max_rows)[:, np.newaxis]
    )
    return lo, np.maximum(models["admitted"] - lo, 0)


def _rows(keys: npt.NDArray[Any], shape: Shape) -> IntArray:
    """Return how many rows each key holds, including those that wait for a full time step."""
    count: IntArray = keys["step"] * shape.batch_size + keys["pending"] - keys["first"]
    return count


def _live(keys: npt.NDArray[Any], models: npt.NDArray[Any], shape: Shape) -> Iterator[Live]:
    """Yield where rows and table entries are, for some keys at a time."""
    rows, entries = 0, 0
    for start in range(0, len(keys), KEYS_AT_ONCE):
        part = slice(start, start + KEYS_AT_ONCE)
        first_rows, counts = _entries(keys[part], models[part], shape)
        at = _places(keys["first"][part], _rows(keys[part], shape), shape.n_rows)
        model, place = _places(first_rows.ravel(), counts.ravel(), shape.n_rows)
        some, others = slice(rows, rows + len(at[0])), slice(entries, entries + len(place))
        yield Live(part, some, at, others, (model // 2, model % 2, place))
        rows, entries = some.stop, others.stop


def _places(first: IntArray, counts: IntArray, n_rows: int) -> tuple[IntArray, IntArray]:
    """Return the ring i, and the place in it, of each of ``counts[i]`` rows from number ``first[i]`` on."""
    ring = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return ring, (np.arange(len(ring)) + (first - before)[ring]) % n_rows


def _checks(keys: npt.NDArray[Any], models: npt.NDArray[Any], shape: Shape) -> Iterator[tuple[str, Any]]:
    """Yield each condition between counts, with the entry to blame; a condition assumes those before it.

    Saved bytes can be forged, and compiled code does not check indices: no count may lead it outside of its arrays.
    """
    for name, most in _most(shape).items():
        yield f"key.{name}", (keys[name] <= most).all()
    n = np.arange(len(keys))
    old, new = models[n, keys["predictive"]], models[n, 1 - keys["predictive"]]
    end = keys["step"] * shape.batch_size
    reactive, alone = keys["reactive_step"] > 0, keys["made"] == 1
    first = np.maximum(old["born"] * shape.batch_size, end - shape.max_rows)
    first = np.where(reactive, np.minimum(first, new["born"] * shape.batch_size), first)
    yield "key.made", (keys["made"] >= 1).all()
    yield "model.number", (models["number"] < np.maximum(keys["made"], 2)[:, np.newaxis]).all()
    yield "key.first", (keys["first"] == first).all()
    yield "model.born", (old["born"] <= keys["step"]).all()
    born = np.where(reactive, new["born"] == keys["step"] - keys["reactive_step"], new["born"] <= keys["step"])
    yield "model.born", born.all()
    yield "model.admitted", ((old["admitted"] >= 0) == (keys["step"] > 0)).all()
    yield "key.challenged", (reactive >= (keys["challenged"] > 0)).all()
    yield "key.made", not (alone & (reactive | (keys["predictive"] > 0) | (new["admitted"] > 0))).any()
    for side in range(2):
        model = models[:, side]
        lo = np.maximum(model["born"] * shape.batch_size, end - shape.max_rows)
        admitted = model["admitted"]
        young = (admitted == -1) & (model["born"] == keys["step"])
        absent = alone & (side == 1)
        yield "model.admitted", (young | absent | ((lo <= admitted) & (admitted <= end) & (lo < end))).all()


def _most(shape: Shape) -> dict[str, int]:
    """Return the largest value of each count that is bounded."""
    return {
        "pending": shape.batch_size - 1,
        "reactive_step": shape.reactive_length - 1,
        "predictive": 1,
        "challenged": 1,
        "quarantine": 3,
        "last_kind": 4,
    }


# ---------------------------------------------------------------------------- one key


def session_state(store: Store, slot: int, classes: ClassTargets, step_size: float) -> State:
    """Return the state of a session that continues with the models of one key."""
    shape, key = store.shape, store.keys[slot]
    step, first, pending = int(key["step"]), int(key["first"]), int(key["pending"])
    end, old = step * shape.batch_size, int(key["predictive"])
    reactive_step, made = int(key["reactive_step"]), int(key["made"])
    born = int(store.models[slot, 1 - old]["born"])
    strategy: State = {
        "strategy": "DriftSurf",
        "step": step,
        "reactive_step": reactive_step,
        "trial": np.array(
            [(s * shape.batch_size, (s + 1) * shape.batch_size) for s in range(born, step) if reactive_step], np.int64
        ).reshape(-1, 2),
        "challenged": bool(key["challenged"]),
        "reacted": made > 1,
    }
    strategy |= nest("pool", {"made": made, "seed": int(key["seed"]), "n_classes": 2})
    strategy |= nest("pool.samples", _samples(store, slot, first, end))
    strategy |= nest("predictive", _member(store, slot, old, step_size))
    if made > 1:
        rival = "reactive" if reactive_step else "stable"
        strategy |= nest(rival, _member(store, slot, 1 - old, step_size))
    state: State = {"steps": step, "n_classes_learned": 2 if step else 0, "started": True}
    state |= nest("classes", classes.state()) | nest("strategy", strategy)
    state |= nest("schema", {"n_features": shape.n_features, "sparse": False, "names": ""})
    return state | nest("pending", _samples(store, slot, end, end + pending))


def _samples(store: Store, slot: int, first: int, end: int) -> State:
    places = np.arange(first, end) % store.rows.shape[1]
    return {
        "n_features": store.rows.shape[2],
        "sparse": False,
        "dtype": "float32",
        "first_row": first,
        "y": store.labels[slot, places].astype(np.float64),
        "weight": np.ones(end - first),
        "X": store.rows[slot, places],
    }


def _member(store: Store, slot: int, side: int, step_size: float) -> State:
    """Return the state of one model of a key, as a strategy saves it."""
    shape, key, model = store.shape, store.keys[slot], store.models[slot, side]
    end = int(key["step"]) * shape.batch_size
    first_row = int(model["born"]) * shape.batch_size
    number, admitted = int(model["number"]), int(model["admitted"])
    lo = -1 if admitted < 0 else max(first_row, end - shape.max_rows)
    width = shape.n_features + 1
    learner: State = {
        "weights": store.weights[slot, side].copy(),
        "gradient_sum": store.sums[slot, side].copy(),
        "factor": np.ones(width),
        "centre": np.zeros(width),
        "anchor": np.zeros(0),
        "drawn": max(0, admitted - lo),
        "lo": lo,
        "admitted": admitted,
        "hi": -1 if lo < 0 else end,
        "seen": 0 if lo < 0 else end - first_row,
        "step_size": step_size,
        "rescale_at": 0,
        "seed": derive(int(key["seed"]), number),
        "words": int(model["words"]),
        "gradients": int(model["gradients"]),
        "table": store.tables[slot, side, np.arange(lo, admitted) % shape.n_rows] if lo >= 0 else np.zeros(0),
    }
    own: State = {"id": number, "born": int(model["born"]), "first_row": first_row, "best_risk": float(model["best"])}
    return own | nest("learner", learner)


# ---------------------------------------------------------------------------- declaration

_COUNT = Array(np.int64, ("n_keys",), least=0, most=MOST - 1)
_PAIR = Array(np.int64, ("n_keys", 2), least=0, most=MOST - 1)
_WEIGHTS = Array(np.float64, ("n_keys", 2, "n_features+1"))
FIELDS = Fields(
    {
        "fleet": Text(),
        **{f"key.{name}": _COUNT for name in KEY_FIELDS},
        **{f"model.{name}": _PAIR for name in MODEL_FIELDS},
        "model.admitted": Array(np.int64, ("n_keys", 2), least=-1, most=MOST - 1),
        "model.best": Array(np.float64, ("n_keys", 2), missing=True),
        "weights": _WEIGHTS,
        "sums": _WEIGHTS,
        "rows": Array(np.float32, ("n_rows", "n_features")),
        "labels": Array(np.uint8, ("n_rows",), most=1),
        "tables": Array(np.float64, ("*",)),
    },
    parts=["keys"],
)
"""Saved entries of a fleet; its keys are declared by their index."""
