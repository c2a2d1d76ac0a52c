"""The blocks of a fleet as flat entries and back, and the block of one key as bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray, State
from driftsurf.core.fields import Array, FieldEntry, Fields, Text, misfit
from driftsurf.core.state import nest
from driftsurf.core.targets import LARGEST_VALUE
from driftsurf.errors import StateError
from driftsurf.keyed.layout import MEANS, REASONS, TABLE, VALUES, WEIGHT, Blocks, Bytes, KeyShape
from driftsurf.learners._learner import NEVER
from driftsurf.native.guard import MEMORY
from driftsurf.strategies._cell_arrays import EVIDENCE, NO_RIVAL, RANGES, REACTIVE, STABLE, StepRule, Training
from driftsurf.strategies.driftsurf_state import WINDOW

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
MOST_UNUSED = 2**30
"""Largest number of bytes of the blocks of a saved fleet, whatever its file holds ..."""
MOST_SPARSE = 10_000
"""... and, for a larger one, the largest number for each byte in its file."""
MOST = 2**40
"""No count of a key reaches this; what follows from counts stays far below 2**63."""


def blocks_state(blocks: Blocks, slots: IntArray, *, scaled: bool, by_role: bool = False) -> State:
    """Return some blocks as flat entries, without places that are not in use.

    With ``by_role``, the predictive model comes first, so that equal models in other places give the same entries.
    """
    shape, sides = blocks.shape, _sides(blocks, slots, by_role=by_role)
    n = np.arange(len(slots))[:, np.newaxis]
    fields = {name: _key_field(blocks, name)[slots] for name in _key_fields(shape)}
    state: State = nest(
        "key", {name: own.astype(np.float64 if own.dtype.kind == "f" else np.int64) for name, own in fields.items()}
    )
    if not shape.valued:
        state["key.errors"] = (blocks.keys["errors"][slots] + blocks.keys["waiting"][slots]).astype(np.int64)
    if shape.growing:
        state["key.waiting"] = blocks.keys["waiting"][slots].astype(np.int64)
    state |= nest("model", {name: blocks.models[name][slots][n, sides] for name in _model_fields(shape)})
    state |= {"weights": blocks.w[slots][n, sides], "sums": blocks.G[slots][n, sides]}
    if scaled:
        state |= {name: getattr(blocks, name)[slots][n, sides] for name in SCALES}
    places = _row_places(blocks, slots)
    if shape.weighted:
        state["row_weights"] = blocks.rows.read(slots, WEIGHT, *places, np.float64)
    if shape.judged:
        state["judged"] = _judged_by(blocks.judged[slots], sides, shape.n_features)
    if shape.filled:
        state["means"] = blocks.means[slots]
    return (
        state
        | {
            "rows": blocks.rows.read(slots, VALUES, *places, shape.row_type).reshape(-1, shape.n_features),
            "labels": blocks.rows.read(slots, shape.y_part, *places, shape.label_type),
            "tables": blocks.rows.read(*_table_places(blocks, slots, sides), np.float64),
        }
        | ({"key.predictive": np.zeros(len(slots), np.int64)} if by_role else {})
    )


def _sides(blocks: Blocks, slots: IntArray, *, by_role: bool) -> IntArray:
    """Return the sides of the two models of keys in the order in which they are saved."""
    if by_role:
        first = blocks.counts["predictive"][slots]
        return np.stack([first, 1 - first], axis=1)
    return np.tile([0, 1], (len(slots), 1))


def _judged_by(judged: FloatArray, sides: IntArray, columns: int) -> FloatArray:
    """Put what is known of the rows of each model into the order of the sides."""
    n = np.arange(len(judged))[:, np.newaxis]
    for start, size in ((EVIDENCE, 4), (RANGES, 4 * columns)):
        part = judged[:, start : start + 2 * size]
        if part.size:
            part[:] = part.reshape(len(judged), 2, size)[n, sides].reshape(len(judged), -1)
    return judged


def guards_state(blocks: Blocks, slots: IntArray) -> State:
    """Return the numbers of the range guards of some keys as flat entries."""
    sums = {f"guard.{name}": blocks.guard[slots, row] for name, row in GUARD_ROWS.items()}
    counts = blocks.keys["norms"][slots].astype(np.int64)
    state: State = {
        **sums,
        "guard.counts": counts,
        "guard.norms": blocks.norms.read(slots, 0, 0, counts, np.float64),
    }
    return state | ({"range": blocks.range[slots]} if blocks.shape.valued else {})


def restored_blocks(
    state: Mapping[str, Any],
    seeds: npt.NDArray[np.uint64],
    shape: KeyShape,
    rule: StepRule,
    training: Training,
) -> Blocks:
    """Return the blocks that ``blocks_state`` saved; StateError if the entries do not fit together.

    What the loop ``complete`` works out is left to the caller, as are classes that keys learn on their own.
    """
    n, scaled, width = len(seeds), training.scaled, shape.n_features + 1
    sizes = {"n_features": shape.n_features, "n_weights": width * shape.outputs, "n_judged": shape.judged}
    known = _fields(shape, scaled=scaled).read(state, n_keys=n, **sizes)
    saved = sum(array.nbytes for array in known.values() if isinstance(array, np.ndarray))
    if (n + 1) * shape.block_bytes > MOST_UNUSED + MOST_SPARSE * saved:
        raise misfit(state, "fleet", f"makes {shape.block_bytes:,} bytes of each of {n} keys, of {saved:,} in the file")
    blocks = Blocks(n, shape)
    blocks.bytes[:] = 0
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
    if shape.guarded:
        _restore_guards(state, known, blocks)
    blocks.w[:], blocks.G[:] = known["weights"], known["sums"]
    for name, usual in (("factor", 1.0), ("centre", 0.0)):
        getattr(blocks, name)[:] = known[name] if scaled else usual
    if not scaled and not training.intercept:
        blocks.factor[:, :, -1] = 0.0
    for entry, good in _checks(blocks):
        if not good:
            raise misfit(state, entry, "contradicts the other counts of a key")
    _derive(blocks, prequential=rule.prequential)
    slots = np.arange(n)
    places, tables = _row_places(blocks, slots), _table_places(blocks, slots)
    for entry, count in (("rows", places[1].sum()), ("tables", tables[3].sum() * shape.outputs)):
        if len(known[entry]) != count:
            raise misfit(state, entry, f"has {len(known[entry])} rows, but the counts of the keys make {count}")
    blocks.rows = blocks.rows.with_places(slots, places[1])
    blocks.rows.write(slots, VALUES, *places, known["rows"])
    blocks.rows.write(slots, shape.y_part, *places, known["labels"])
    blocks.rows.write(*tables, known["tables"])
    if shape.weighted:
        blocks.rows.write(slots, WEIGHT, *places, known["row_weights"])
    return blocks


def _restore_guards(state: Mapping[str, Any], known: Mapping[str, Any], blocks: Blocks) -> None:
    """Put back what ``guards_state`` saved."""
    for name, row in GUARD_ROWS.items():
        blocks.guard[:, row] = known[f"guard.{name}"]
    if blocks.shape.valued:
        blocks.range[:] = known["range"]
        if not (blocks.range[:, 0] <= blocks.range[:, 1]).all():
            raise misfit(state, "range", "must have no lowest number above the highest one")
    counts, values = known["guard.counts"], known["guard.norms"]
    if len(values) != counts.sum():
        raise misfit(state, "guard.norms", f"has {len(values)} norms, but the counts of the keys make {counts.sum()}")
    slots = np.arange(len(counts))
    blocks.keys["norms"] = counts
    blocks.norms = blocks.norms.with_places(slots, counts)
    blocks.norms.write(slots, 0, 0, counts, values)


def _key_fields(shape: KeyShape) -> tuple[str, ...]:
    """Return the names of the saved counts of keys."""
    return KEY_FIELDS + JUDGED_FIELDS * (shape.judged > 0) + ("waiting",) * shape.growing


def _model_fields(shape: KeyShape) -> tuple[str, ...]:
    """Return the names of the saved numbers of models."""
    return MODEL_FIELDS + ("target",) * shape.valued


def _key_field(blocks: Blocks, name: str) -> npt.NDArray[Any]:
    """Return a count of every key."""
    own = name in COUNT_FIELDS or name in JUDGED_FIELDS
    values: npt.NDArray[Any] = (blocks.counts if own else blocks.keys)[name]
    return values


def _row_places(blocks: Blocks, slots: IntArray) -> tuple[IntArray, IntArray]:
    """Return the first place of the rows that each key holds, those that wait included, and how many they are."""
    counts = blocks.counts[slots]
    first = counts["first"]
    return first - counts["base"], counts["next"] + blocks.keys["pending"][slots] - first


def _table_places(
    blocks: Blocks, slots: IntArray, sides: IntArray | None = None
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the slot and the part of the gradient table of each model, its first place, and its number of entries."""
    models, base = blocks.models[slots], blocks.counts["base"][slots, np.newaxis]
    sides = _sides(blocks, slots, by_role=False) if sides is None else sides
    models = models[np.arange(len(slots))[:, np.newaxis], sides]
    lo = models["lo"]
    first, counts = np.maximum(lo - base, 0), np.where(lo < 0, 0, models["admitted"] - lo)
    return np.repeat(slots, 2), TABLE + sides.ravel(), first.ravel(), counts.ravel()


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
    yield "centre", not blocks.centre[:, :, -1].any()  # the intercept has none
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


def _most(shape: KeyShape) -> dict[str, int]:
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

RAGGED = {"rows": 0, "labels": 0, "row_weights": 0, "tables": 1, "guard.norms": 2}
"""Saved entries that have any number of elements for each key, with the place of that number in ``element_counts``."""
COUNTED = 3


def element_counts(blocks: Blocks, slots: IntArray) -> IntArray:
    """Return how many rows, gradients of both models, and norms of rows some keys have saved: shape (keys, 3)."""
    gradients = _table_places(blocks, slots)[3].reshape(-1, 2).sum(axis=1)
    return np.stack([_row_places(blocks, slots)[1], gradients, blocks.keys["norms"][slots].astype(np.int64)], axis=1)


class CellBytes:
    """The cells of single keys as bytes: the numbers of elements, entries of fixed size, then the elements.

    Parameters
    ----------
    empty
        The entries of no keys, which tell the names, types and shapes of all.
    """

    def __init__(self, empty: State) -> None:
        self._empty: dict[str, npt.NDArray[Any]] = {name: np.asarray(value) for name, value in empty.items()}
        self._fixed = [name for name in self._empty if name not in RAGGED and name not in TALLIES]
        self._ragged = [name for name in self._empty if name in RAGGED]
        sizes = [self._empty[name].dtype.itemsize * math.prod(self._empty[name].shape[1:]) for name in self._fixed]
        self._ends: list[int] = list(itertools.accumulate(sizes, initial=8 * COUNTED))

    def sizes(self, counts: IntArray, outputs: int) -> IntArray:
        """Return the bytes of cells with these numbers of elements."""
        each = np.zeros(COUNTED, np.int64)
        for name in self._ragged:
            each[RAGGED[name]] += self._item(name, outputs)
        made: IntArray = self._ends[-1] + counts @ each
        return made

    def _item(self, name: str, outputs: int) -> int:
        own = self._empty[name]
        return own.dtype.itemsize * (outputs if name == "tables" else math.prod(own.shape[1:]))

    def write(self, state: State, counts: IntArray, outputs: int) -> list[bytes]:
        """Return the bytes of each key."""
        n = len(counts)
        if not n:
            return []
        parts = [np.ascontiguousarray(one).reshape(n, -1) for one in (counts, *(state[name] for name in self._fixed))]
        heads = np.concatenate([part.view(np.uint8).reshape(n, -1) for part in parts], axis=1)
        columns = []
        for name in self._ragged:
            ends = np.append(0, np.cumsum(counts[:, RAGGED[name]])) * self._item(name, outputs)
            columns.append((np.ascontiguousarray(state[name]).reshape(-1).view(np.uint8).data, ends.tolist()))
        return [
            b"".join([head.tobytes(), *(data[ends[k] : ends[k + 1]] for data, ends in columns)])
            for k, head in enumerate(heads)
        ]

    def read(self, cells: Sequence[Bytes], outputs: int) -> State:
        """Return the entries of keys; StateError for bytes that ``write`` would not have written."""
        n, head = len(cells), self._ends[-1]
        heads = np.zeros((n, head), np.uint8)
        for k, cell in enumerate(cells):
            if len(cell) < head:
                raise StateError("the saved cell of a key is too short", entry="cell")
            heads[k] = cell[:head]
        counts = heads[:, : 8 * COUNTED].copy().view(np.int64)
        if not ((counts >= 0) & (counts < MOST_ELEMENTS)).all() or not np.array_equal(
            self.sizes(counts, outputs), [len(cell) for cell in cells]
        ):
            raise StateError("the saved cell of a key has another length than its numbers of rows say", entry="cell")
        state: State = {"fleet": ""}
        for name, (a, b) in zip(self._fixed, itertools.pairwise(self._ends), strict=True):
            own = self._empty[name]
            state[name] = heads[:, a:b].copy().view(own.dtype).reshape(n, *own.shape[1:])
        starts = np.full(n, head)
        for name in self._ragged:
            own, sizes = self._empty[name], counts[:, RAGGED[name]] * self._item(name, outputs)
            parts = [cell[a : a + size] for cell, a, size in zip(cells, starts.tolist(), sizes.tolist(), strict=True)]
            state[name] = np.concatenate([np.zeros(0, np.uint8), *parts]).view(own.dtype).reshape(-1, *own.shape[1:])
            starts = starts + sizes
        if "guard.counts" in self._empty and not np.array_equal(state["guard.counts"], counts[:, 2]):
            raise StateError("the saved cell of a key has another number of norms than it says", entry="cell")
        return state | {name: np.zeros(n, own.dtype) for name, own in self._empty.items() if name in TALLIES}


TALLIES = {
    f"key.{name}" for name in ("errors", "refused", "quarantine", "transitions", "last_kind", "last_step", "waiting")
}
"""Counts of a key of a fleet, which single keys have in their summaries."""
MOST_ELEMENTS = 2**31
"""No key has so many rows, gradients or norms, so that sums of their sizes stay far below 2**63."""


def pending_state(blocks: Blocks, slot: int) -> State:
    """Return the rows of a key that wait, as a session saves them."""
    shape, counts = blocks.shape, blocks.counts[slot]
    first, base = int(counts["next"]), int(counts["base"])
    count = int(blocks.keys[slot]["pending"])
    places, rows = slice(first - base, first - base + count), blocks.stored(slot)
    return {
        "n_features": shape.n_features,
        "sparse": False,
        "dtype": shape.row_type,
        "first_row": first,
        "y": rows.y[places].astype(np.float64),
        "weight": rows.weight[places].copy() if shape.weighted else np.ones(count),
        "X": rows.X[places].copy(),
    }


def guard_state(blocks: Blocks, slot: int, factor: float) -> State:
    """Return the range guard of a key, as a session saves it."""
    counts = blocks.keys["norms"][slot : slot + 1].astype(np.int64)
    recent = blocks.norms.read(slice(slot, slot + 1), 0, 0, counts, np.float64)
    state: State = {"factor": float(factor), "recent": recent}
    if blocks.counts["step"][slot]:  # before the first step a guard knows no columns
        state |= {name: blocks.guard[slot, row].copy() for name, row in GUARD_ROWS.items()}
    return state


# ---------------------------------------------------------------------------- declaration


def _fields(shape: KeyShape, *, scaled: bool) -> Fields:
    """Return the saved entries of a fleet; its keys are declared by their index."""
    entries = dict(_ALWAYS) | {"rows": Array(np.dtype(shape.row_type).type, ("n_rows", "n_features"))}
    entries["labels"] = Array(np.uint8, ("n_rows",), most=255 if shape.growing else shape.classes - 1)
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
_GUARDS: dict[str, FieldEntry] = {
    **{f"guard.{name}": _SUMS for name in GUARD_ROWS},
    "guard.counts": Array(np.int64, ("n_keys",), least=0, most=MEMORY),
    "guard.norms": Array(np.float64, ("n_norms",), least=0.0, missing=True),  # infinite if a square overflowed
}
_COUNT = Array(np.int64, ("n_keys",), least=0, most=MOST - 1)
_PAIR = Array(np.int64, ("n_keys", 2), least=0, most=MOST - 1)
_REAL_PAIR = Array(np.float64, ("n_keys", 2), missing=True)
_WEIGHTS = Array(np.float64, ("n_keys", 2, "n_weights"))
_ALWAYS: dict[str, FieldEntry] = {
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
