"""The blocks of a fleet as flat entries and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray, State
from driftsurf.core.fields import Array, Entry, Fields, Text, misfit
from driftsurf.core.state import nest
from driftsurf.core.targets import LARGEST_VALUE
from driftsurf.keyed.key_store import MEANS, REASONS
from driftsurf.keyed.layout import Blocks, Shape
from driftsurf.keyed.norms import MEMORY, Norms
from driftsurf.learners._learner import NEVER
from driftsurf.strategies._cell_arrays import NO_RIVAL, REACTIVE, STABLE, Rule, Training
from driftsurf.strategies._unit import WINDOW

__all__ = [
    "KEY_FIELDS",
    "MODEL_FIELDS",
    "blocks_state",
    "guard_state",
    "guards_state",
    "pending_state",
    "restored_blocks",
]

COUNT_FIELDS = "step", "made", "reactive_step", "predictive", "challenged"
JUDGED_FIELDS = "chosen", "units"
"""Counts that are saved if a key keeps numbers by which its models are judged."""
KEY_FIELDS = (
    *COUNT_FIELDS,
    *("pending", "errors", "refused", "quarantine", "transitions", "last_kind", "last_step"),
)
"""Saved counts of a key; its seed follows from its name, and all else from these and the counts of its models."""
MODEL_FIELDS = "id", "born", "admitted", "words", "gradients", "drawn", "rescale_at", "best", "step_size"
GUARD_ROWS = {"total": 2, "mass": 3, "excess": 4}
"""Saved numbers of a range guard, with their rows in its array."""
SCALES = "factor", "centre"
"""Arrays that are saved if columns are scaled."""
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


def blocks_state(blocks: Blocks, n: int, *, scaled: bool) -> State:
    """Return the first ``n`` blocks as flat entries, without places that are not in use."""
    shape = blocks.shape
    fields = {name: _key_field(blocks, name)[:n] for name in _key_fields(shape)}
    state: State = nest(
        "key", {name: own.astype(np.float64 if own.dtype.kind == "f" else np.int64) for name, own in fields.items()}
    )
    if not shape.valued:
        state["key.errors"] = (blocks.keys["errors"][:n] + blocks.keys["waiting"][:n]).astype(np.int64)
    if shape.growing:
        state["key.waiting"] = blocks.keys["waiting"][:n].astype(np.int64)
    state |= nest("model", {name: blocks.models[name][:n].copy() for name in _model_fields(shape)})
    rows = int(_rows(blocks, n).sum())
    X, y = np.empty((rows, shape.n_features), shape.row_type), np.empty(rows, shape.label_type)
    weight = np.empty(rows if shape.weighted else 0)
    tables = np.empty((int(_entries(blocks, n)[1].sum()), shape.outputs))
    for live in _live(blocks, n):
        X[live.rows] = blocks.X[live.keys][live.row_places]
        y[live.rows] = blocks.y[live.keys][live.row_places]
        if shape.weighted:
            weight[live.rows] = blocks.weight[live.keys][live.row_places]
        tables[live.entries] = blocks.tables[live.keys][live.entry_places]
    state |= {"weights": blocks.w[:n].copy(), "sums": blocks.G[:n].copy()}
    if scaled:
        state |= {name: getattr(blocks, name)[:n].copy() for name in SCALES}
    if shape.weighted:
        state["row_weights"] = weight
    if shape.judged:
        state["judged"] = blocks.judged[:n].copy()
    if shape.filled:
        state["means"] = blocks.means[:n].copy()
    return state | {"rows": X, "labels": y, "tables": tables.reshape(-1)}


def guards_state(blocks: Blocks, norms: Norms, n: int) -> State:
    """Return the numbers of the range guards of the first ``n`` keys as flat entries."""
    sums = {f"guard.{name}": blocks.guard[:n, row].copy() for name, row in GUARD_ROWS.items()}
    state: State = {**sums, "guard.counts": norms.counts[:n].copy(), "guard.norms": norms.joined(n)}
    return state | ({"range": blocks.range[:n].copy()} if blocks.shape.valued else {})


def restored_blocks(
    state: Mapping[str, Any],
    seeds: npt.NDArray[np.uint64],
    shape: Shape,
    rule: Rule,
    training: Training,
    n_classes: int,
) -> tuple[Blocks, Norms]:
    """Return the blocks that ``blocks_state`` saved, with norms of rows; StateError if the entries do not fit together.

    What the loop ``complete`` works out is left to the caller.
    """
    n, scaled, width = len(seeds), training.scaled, shape.n_features + 1
    sizes = {"n_features": shape.n_features, "n_weights": width * shape.outputs, "n_judged": shape.judged}
    known = _fields(shape, n_classes, scaled=scaled).read(state, n_keys=n, **sizes)
    saved = sum(array.nbytes for array in known.values() if isinstance(array, np.ndarray))
    if (n + 1) * shape.bytes_per_key > MOST_UNUSED + MOST_SPARSE * saved:
        raise misfit(
            state, "fleet", f"makes {shape.bytes_per_key:,} bytes of each of {n} keys, of {saved:,} in the file"
        )
    blocks = Blocks(n, shape)
    blocks.clear()
    blocks.counts["seed"] = seeds
    for name, most in _most(shape).items():
        if not (known[f"key.{name}"] <= most).all():
            raise misfit(state, f"key.{name}", f"must be at most {most}")
    for name in _key_fields(shape):
        _key_field(blocks, name)[:] = known[f"key.{name}"]
    for name in _model_fields(shape):
        blocks.models[name] = known[f"model.{name}"]
    if shape.judged:
        blocks.judged[:] = known["judged"]
    if shape.filled:
        blocks.means[:] = known["means"]
    norms = Norms(n)
    if shape.guarded:
        norms = _restored_guards(state, known, blocks)
    blocks.w[:], blocks.G[:] = known["weights"], known["sums"]
    for name, usual in (("factor", 1.0), ("centre", 0.0)):
        getattr(blocks, name)[:] = known[name] if scaled else usual
    if not scaled and not training.intercept:
        blocks.factor[:, :, -1] = 0.0
    for entry, good in _checks(blocks):
        if not good:
            raise misfit(state, entry, "contradicts the other counts of a key")
    _derive(blocks, prequential=rule.prequential)
    n_tables = _entries(blocks, n)[1].sum() * shape.outputs
    for entry, count in (("rows", _rows(blocks, n).sum()), ("tables", n_tables)):
        if len(known[entry]) != count:
            raise misfit(state, entry, f"has {len(known[entry])} rows, but the counts of the keys make {count}")
    tables = known["tables"].reshape(-1, shape.outputs)
    for live in _live(blocks, n):
        blocks.X[live.keys][live.row_places] = known["rows"][live.rows]
        blocks.y[live.keys][live.row_places] = known["labels"][live.rows]
        if shape.weighted:
            blocks.weight[live.keys][live.row_places] = known["row_weights"][live.rows]
        blocks.tables[live.keys][live.entry_places] = tables[live.entries]
    return blocks, norms


def _restored_guards(state: Mapping[str, Any], known: Mapping[str, Any], blocks: Blocks) -> Norms:
    """Put back what ``guards_state`` saved; return the norms of rows."""
    for name, row in GUARD_ROWS.items():
        blocks.guard[:, row] = known[f"guard.{name}"]
    if blocks.shape.valued:
        blocks.range[:] = known["range"]
        if not (blocks.range[:, 0] <= blocks.range[:, 1]).all():
            raise misfit(state, "range", "must have no lowest number above the highest one")
    counts, values = known["guard.counts"], known["guard.norms"]
    if len(values) != counts.sum():
        raise misfit(state, "guard.norms", f"has {len(values)} norms, but the counts of the keys make {counts.sum()}")
    return Norms.of_joined(counts, values)


def _key_fields(shape: Shape) -> tuple[str, ...]:
    """Return the names of the saved counts of keys."""
    return KEY_FIELDS + JUDGED_FIELDS * (shape.judged > 0) + ("waiting",) * shape.growing


def _model_fields(shape: Shape) -> tuple[str, ...]:
    """Return the names of the saved numbers of models."""
    return MODEL_FIELDS + ("target",) * shape.valued


def _key_field(blocks: Blocks, name: str) -> npt.NDArray[Any]:
    """Return a count of every key."""
    own = name in COUNT_FIELDS or name in JUDGED_FIELDS
    values: npt.NDArray[Any] = (blocks.counts if own else blocks.keys)[name]
    return values


def _entries(blocks: Blocks, n: int) -> tuple[IntArray, IntArray]:
    """Return, for each model, the place of the first row of its sample set and the number of its table entries."""
    models, base = blocks.models[:n], blocks.counts["base"][:n, np.newaxis]
    lo = models["lo"]
    return np.maximum(lo - base, 0), np.where(lo < 0, 0, models["admitted"] - lo)


def _rows(blocks: Blocks, n: int) -> IntArray:
    """Return how many rows each key holds, including those that wait for a full time step."""
    counts = blocks.counts[:n]
    count: IntArray = counts["next"] + blocks.keys["pending"][:n] - counts["first"]
    return count


def _live(blocks: Blocks, n: int) -> Iterator[Live]:
    """Yield where rows and table entries are, for some keys at a time."""
    rows, entries = 0, 0
    first, n_rows = (blocks.counts["first"] - blocks.counts["base"])[:n], _rows(blocks, n)
    starts, n_entries = _entries(blocks, n)
    for start in range(0, n, KEYS_AT_ONCE):
        part = slice(start, min(n, start + KEYS_AT_ONCE))
        at = _places(first[part], n_rows[part])
        model, place = _places(starts[part].ravel(), n_entries[part].ravel())
        some, others = slice(rows, rows + len(at[0])), slice(entries, entries + len(place))
        yield Live(part, some, at, others, (model // 2, model % 2, place))
        rows, entries = some.stop, others.stop


def _places(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return i, and the place, of each of ``counts[i]`` rows from place ``first[i]`` on."""
    owner = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) + (first - before)[owner]


def _first_rows(blocks: Blocks) -> IntArray:
    """Return the first row of the sample set of each model, of those rows that are kept."""
    shape = blocks.shape
    end = blocks.counts["step"] * shape.batch_size
    lo: IntArray = np.maximum(blocks.models["born"] * shape.batch_size, (end - shape.max_rows)[:, np.newaxis])
    return lo


def _checks(blocks: Blocks) -> Iterator[tuple[str, Any]]:
    """Yield each condition between counts, with the entry to blame; a condition assumes those before it.

    Saved bytes can be forged, and compiled code does not check indices: no count may lead it outside of its arrays.
    """
    shape, keys, counts, models = blocks.shape, blocks.keys, blocks.counts, blocks.models
    yield "key.waiting", (keys["waiting"] <= keys["errors"]).all()
    n = np.arange(len(keys))
    step, made = counts["step"], counts["made"]
    old, new = models[n, counts["predictive"]], models[n, 1 - counts["predictive"]]
    end = step * shape.batch_size
    reactive, alone = counts["reactive_step"] > 0, made == 1
    yield "key.made", (made >= 1).all()
    yield "model.id", (models["id"] < np.maximum(made, 2)[:, np.newaxis]).all()
    yield "model.born", (old["born"] <= step).all()
    born = np.where(reactive, new["born"] == step - counts["reactive_step"], new["born"] <= step)
    yield "model.born", born.all()
    yield "model.admitted", ((old["admitted"] >= 0) == (step > 0)).all()
    yield "key.challenged", (reactive >= (counts["challenged"] > 0)).all()
    yield "key.made", not (alone & (reactive | (counts["predictive"] > 0) | (new["admitted"] > 0))).any()
    first = _first_rows(blocks)
    for side in range(2):
        lo, admitted = first[:, side], models["admitted"][:, side]
        young = (admitted == -1) & (models["born"][:, side] == step)
        absent = alone & (side == 1)
        yield "model.admitted", (young | absent | ((lo <= admitted) & (admitted <= end) & (lo < end))).all()


def _derive(blocks: Blocks, *, prequential: bool) -> None:
    """Work out all counts of cells that follow from the saved ones."""
    shape, counts, models = blocks.shape, blocks.counts, blocks.models
    n = np.arange(len(counts))
    end, made = counts["step"] * shape.batch_size, counts["made"]
    reactive, alone = counts["reactive_step"] > 0, made == 1
    rival = 1 - counts["predictive"]
    start = models["born"][n, rival] * shape.batch_size
    lo = _first_rows(blocks)
    untrained = models["admitted"] < 0
    untrained[alone, 1] = True
    models["first_row"] = models["born"] * shape.batch_size
    models["lo"] = np.where(untrained, -1, lo)
    models["hi"] = np.where(untrained, -1, end[:, np.newaxis])
    models["seen"] = np.where(untrained, 0, end[:, np.newaxis] - models["first_row"])
    first = lo[n, counts["predictive"]]
    # The rows of T are needed for the risks after training.
    counts["first"] = first if prequential else np.where(reactive, np.minimum(first, start), first)
    counts["base"], counts["next"] = counts["first"], end
    counts["rival"] = np.where(alone, NO_RIVAL, np.where(reactive, REACTIVE, STABLE))
    counts["reacted"] = ~alone
    blocks.bounds[:] = start[:, np.newaxis] + shape.batch_size * np.arange(shape.reactive_length + 1)


def _most(shape: Shape) -> dict[str, int]:
    """Return the largest value of each count that is bounded."""
    most = {
        "pending": shape.batch_size - 1,
        "reactive_step": shape.reactive_length - 1,
        "predictive": 1,
        "challenged": 1,
        "quarantine": len(REASONS) - 1,
        "last_kind": 4,
    }
    return most | ({"chosen": 1, "units": WINDOW} if shape.judged else {})


# ---------------------------------------------------------------------------- one key


def pending_state(blocks: Blocks, slot: int) -> State:
    """Return the rows of a key that wait, as a session saves them."""
    shape, counts = blocks.shape, blocks.counts[slot]
    first, base = int(counts["next"]), int(counts["base"])
    count = int(blocks.keys[slot]["pending"])
    places = slice(first - base, first - base + count)
    return {
        "n_features": shape.n_features,
        "sparse": False,
        "dtype": shape.row_type,
        "first_row": first,
        "y": blocks.y[slot, places].astype(np.float64),
        "weight": blocks.weight[slot, places].copy() if shape.weighted else np.ones(count),
        "X": blocks.X[slot, places].copy(),
    }


def guard_state(blocks: Blocks, norms: Norms, slot: int, factor: float) -> State:
    """Return the range guard of a key, as a session saves it."""
    state: State = {"factor": float(factor), "recent": norms.of(slot)}
    if blocks.counts["step"][slot]:  # before the first step a guard knows no columns
        state |= {name: blocks.guard[slot, row].copy() for name, row in GUARD_ROWS.items()}
    return state


# ---------------------------------------------------------------------------- declaration


def _fields(shape: Shape, n_classes: int, *, scaled: bool) -> Fields:
    """Return the saved entries of a fleet; its keys are declared by their index."""
    entries = dict(_ALWAYS) | {"rows": Array(np.dtype(shape.row_type).type, ("n_rows", "n_features"))}
    entries["labels"] = Array(np.uint8, ("n_rows",), most=n_classes - 1)
    if scaled:
        entries |= dict.fromkeys(SCALES, Array(np.float64, ("n_keys", 2, "n_features+1")))
    if shape.weighted:
        entries["row_weights"] = Array(np.float64, ("n_rows",), least=0)
    if shape.judged:
        entries |= {"judged": Array(np.float64, ("n_keys", "n_judged"), missing=True)}
        entries |= {f"key.{name}": _COUNT for name in JUDGED_FIELDS}
    if shape.filled:
        entries["means"] = MEANS
    if shape.growing:
        entries["key.waiting"] = _COUNT
    if shape.guarded:
        entries |= _GUARDS | ({"range": Array(np.float64, ("n_keys", 2), missing=True)} if shape.valued else {})
    if shape.valued:
        entries["labels"] = Array(np.float64, ("n_rows",), least=-LARGEST_VALUE, most=LARGEST_VALUE)
        entries |= {"key.errors": Array(np.float64, ("n_keys",), least=0.0), "model.target": _REAL_PAIR}
    return Fields(entries, parts=["keys"])


_SUMS = Array(np.float64, ("n_keys", "n_features"), least=0.0)
_GUARDS: dict[str, Entry] = {
    **{f"guard.{name}": _SUMS for name in GUARD_ROWS},
    "guard.counts": Array(np.int64, ("n_keys",), least=0, most=MEMORY),
    "guard.norms": Array(np.float64, ("n_norms",), least=0.0, missing=True),  # infinite if a square overflowed
}
_COUNT = Array(np.int64, ("n_keys",), least=0, most=MOST - 1)
_PAIR = Array(np.int64, ("n_keys", 2), least=0, most=MOST - 1)
_REAL_PAIR = Array(np.float64, ("n_keys", 2), missing=True)
_WEIGHTS = Array(np.float64, ("n_keys", 2, "n_weights"))
_ALWAYS: dict[str, Entry] = {
    "fleet": Text(),
    **{f"key.{name}": _COUNT for name in KEY_FIELDS},
    **{f"model.{name}": _PAIR for name in MODEL_FIELDS},
    "model.admitted": Array(np.int64, ("n_keys", 2), least=-1, most=MOST - 1),
    "model.rescale_at": Array(np.int64, ("n_keys", 2), least=0, most=NEVER),
    "model.best": _REAL_PAIR,
    "model.step_size": _REAL_PAIR,
    "weights": _WEIGHTS,
    "sums": _WEIGHTS,
    "tables": Array(np.float64, ("*",)),
}
