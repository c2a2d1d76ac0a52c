"""The saved bytes of open keys: those that a visit would save, written straight from their cells."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np

from driftsurf import __version__
from driftsurf.core.contracts import FloatArray, IntArray, State
from driftsurf.core.state import FORMAT, PREFIX, Header, compact, nest, resolved
from driftsurf.keyed.layout import MODEL_ARRAYS, Blocks
from driftsurf.keyed.results import KeySummary
from driftsurf.keyed.serving import ALIGNED, array_bytes, packed
from driftsurf.keyed.visit import _NOT_SAVED, KeyedLearner
from driftsurf.native.store import KeyLoop, Room
from driftsurf.strategies._cell_arrays import CONTEST, COUNTS, CREDIT, CREDIT_GAIN, MODEL, NO_RIVAL, REACTIVE, STABLE
from driftsurf.strategies._cell_models import CellModels

WORD = 8
FIRST, SECOND, THIRD, FOURTH = "111111111", "222222222", "333333333", "444444444"
"""Stand for what differs between keys."""
_COUNT = {name: place for place, name in enumerate(COUNTS.names or ())}
_MODEL = {name: place for place, name in enumerate(MODEL.names or ())}


class StateWriter:
    """Writes the bytes of ``KeyedLearner._state``, given the parts of a key's state."""

    def __init__(self, learner: KeyedLearner, around: State) -> None:
        self._fills = learner.on_gap == "fill"
        means = [["means", "array", "<f8", [2, len(learner.features)]]] if self._fills else []
        entries = [
            ["keyed", "str", learner.options_digest],
            *means,
            ["model.around", "array", "|u1", [int(SECOND)]],
            ["model.strategy", "array", "|u1", [int(THIRD)]],
            ["summary", "str", FOURTH],
        ]
        header = Header(FORMAT, __version__, int(FIRST), entries).to_bytes().decode()
        self._header = _split(header, [FIRST, SECOND, THIRD, f'"{FOURTH}"'])
        self._names = compact(list(around)).encode()
        self._values = ["" if isinstance(value, np.ndarray) else compact(value) for value in around.values()]
        self._places = {name: place for place, name in enumerate(around)}
        self._rows_type: str = np.asarray(around["pending.X"]).dtype.str
        self._columns = len(learner.features)

    def around(self, changes: dict[str, Any], y: bytes, X: bytes, count: int) -> bytes:
        """Return the packed surroundings of a session: some scalar entries, and ``count`` rows that wait."""
        values, at = self._values.copy(), self._places
        for name, value in changes.items():
            values[at[name]] = compact(value)
        values[at["pending.y"]] = values[at["pending.weight"]] = f'["<f8",{count}]'
        values[at["pending.X"]] = f'["{self._rows_type}",{count},{self._columns}]'
        text = f"[{','.join(values)}]".encode()
        lengths = len(self._names).to_bytes(WORD, "little"), len(text).to_bytes(WORD, "little")
        return b"".join([*lengths, y, _ONE * count, X, bytes(-len(X) % ALIGNED), self._names, text])

    def state(self, summary: KeySummary, around: bytes, strategy: bytes, means: bytes) -> bytes:
        """Return the saved bytes of a key."""
        own = json.dumps({name: value for name, value in vars(summary).items() if name not in _NOT_SAVED})
        a, b, c, d, e = self._header
        size = len(means) + len(around) + len(strategy)
        header = f"{a}{size}{b}{len(around)}{c}{len(strategy)}{d}{compact(own)}{e}".encode()
        body = b"".join([PREFIX, len(header).to_bytes(WORD, "little"), header, means, around, strategy])
        return body + hashlib.sha256(body).digest()


_ONE = np.ones(1).tobytes()


class _Form(NamedTuple):
    """How the state of a strategy is written: the same for all keys with models in the same roles."""

    names: bytes
    values: list[Any]
    """Values of all entries; those that differ between keys are replaced."""
    numbers: list[tuple[int, int, int]]
    """Scalar entries: their place, the record they are in (0: counts, 1 and 2: models) and the place in it."""
    truths: list[tuple[int, int]]
    """Counts that are saved as truth values: the place of the entry, and of the count."""
    seed: int
    """Place of the seed."""
    arrays: list[tuple[int, str, int]]
    """Arrays: the place of the entry, the name, and the number of the model."""


class StrategyWriter:
    """Writes the packed state of a strategy, given a cell.

    The first state in each form is written by the classes that it belongs to. If it has an entry that is not known
    here, they write all others too.
    """

    def __init__(self, models: CellModels, strategy: Any, blank: FloatArray) -> None:
        self._models = models
        self._strategy = strategy
        self._blank = blank
        self._forms: dict[int, _Form | None] = {}

    def prepare(self, blocks: Blocks, loop: KeyLoop, room: Room) -> None:
        """Find out how the states of keys are written that have one model, or two in each pair of roles.

        ``blocks`` is memory for one key, which has learned no row.
        """
        slot = np.zeros(1, np.int64)
        for rival in (NO_RIVAL, STABLE, REACTIVE):
            loop.begin(blocks.bytes, slot, np.zeros(1, np.uint64), self._blank, room)
            blocks.counts["rival"] = rival
            blocks.counts["made"] = 1 + (rival != NO_RIVAL)
            for name in ("models", *MODEL_ARRAYS):
                own = getattr(blocks, name)
                own[:, 1] = own[:, 0]
            blocks.models["id"][:, 1] = 1
            self._form_of(blocks, 0, 0, blocks.counts[0].item(), blocks.models[0].tolist())

    def packed(
        self, blocks: Blocks, slot: int, seed: int, counts: tuple[Any, ...], models: list[tuple[Any, ...]]
    ) -> bytes:
        """Return the packed state; ``counts`` and ``models`` are the records of the slot."""
        form = self._form_of(blocks, slot, seed, counts, models)
        if form is None:
            return bytes(packed(self._state(blocks.cell(slot, self._blank), seed)))
        return self._written(form, blocks, slot, seed, counts, models)

    def sizes(self, blocks: Blocks, slots: IntArray, seeds: list[int]) -> IntArray:
        """Return the bytes of the arrays in the packed state of each slot."""
        counts, models = blocks.counts[slots], blocks.models[slots]
        made = np.zeros(len(slots), np.int64)
        n = np.arange(len(slots))
        base, rows = counts["base"], counts["next"] - counts["first"]
        old = models[n, counts["predictive"]], models[n, 1 - counts["predictive"]]
        tables = [np.maximum(0, one["admitted"] - base) - np.maximum(0, one["lo"] - base) for one in old]
        for rival in np.unique(counts["rival"]).tolist():
            own = np.flatnonzero(counts["rival"] == rival)
            first = int(own[0])
            form = self._form_of(
                blocks, int(slots[first]), seeds[first], counts[first].tolist(), models[first].tolist()
            )
            if form is None:
                states = [self._state(blocks.cell(int(slots[i]), self._blank), seeds[i]) for i in own.tolist()]
                made[own] = [array_bytes(packed(state)) for state in states]
                continue
            for place, name, which in form.arrays:
                shape, item = form.values[place].shape, form.values[place].dtype.itemsize
                if name == "table":
                    size = tables[which - 1][own] * WORD
                elif name == "trial":
                    size = counts["reactive_step"][own] * 2 * WORD * self._has_trial(rival)
                elif name.startswith("pool.samples."):
                    size = rows[own] * int(np.prod(shape[1:])) * item
                else:
                    size = np.full(len(own), int(np.prod(shape)) * item)
                made[own] += size + -size % ALIGNED
        return made

    def _judged(self, blocks: Blocks, slot: int) -> bytes:
        own: bytes = (blocks.judged[slot] if blocks.shape.judged else self._blank).tobytes()
        return own

    def _has_trial(self, rival: int) -> bool:
        return rival == REACTIVE and not self._models._rule.prequential

    def _form_of(
        self, blocks: Blocks, slot: int, seed: int, counts: tuple[Any, ...], models: list[tuple[Any, ...]]
    ) -> _Form | None:
        """Return the form of the state of a slot; None if it has an entry that is not known here."""
        rival = counts[_COUNT["rival"]]
        if rival not in self._forms:
            state = self._state(blocks.cell(slot, self._blank), seed)
            form = self._form(state)
            if form is not None and self._written(form, blocks, slot, seed, counts, models) != bytes(packed(state)):
                form = None
            self._forms[rival] = form
        return self._forms[rival]

    def _state(self, cell: Any, seed: int) -> State:
        models = self._models
        models._cell, models._log, models._pool.seed = cell, None, seed
        live, pool = models.incremental_state()
        state: Any = {"strategy": type(self._strategy).__name__} | self._strategy._saved(live) | nest("pool", pool)
        return resolved(state)

    def _form(self, state: State) -> _Form | None:
        """Return the form of a state; None if an entry is not known here."""
        form = _Form(compact(list(state)).encode(), list(state.values()), [], [], 0, [])
        for place, (name, value) in enumerate(state.items()):
            role, _, own = name.partition(".")
            which = {"predictive": 1, "stable": 2, "reactive": 2}.get(role, 0)
            field = own.removeprefix("learner.") if which else name
            if isinstance(value, np.ndarray):
                if field not in _ARRAYS:
                    return None
                form.arrays.append((place, field, which))
            elif name == "pool.seed":
                form = form._replace(seed=place)
            elif which and (field in _MODEL or field == "best_risk"):
                form.numbers.append((place, which, _MODEL["best" if field == "best_risk" else field]))
            elif name in _SCALARS:
                form.numbers.append((place, 0, _COUNT[_SCALARS[name]]))
            elif name in ("challenged", "reacted"):
                form.truths.append((place, _COUNT[name]))
            elif name not in _CONSTANT:
                return None
        return form

    def _written(
        self, form: _Form, blocks: Blocks, slot: int, seed: int, counts: tuple[Any, ...], models: list[tuple[Any, ...]]
    ) -> bytes:
        old = counts[_COUNT["predictive"]]
        records = counts, models[old], models[1 - old]
        values = form.values.copy()
        for place, record, at in form.numbers:
            values[place] = records[record][at]
        for place, at in form.truths:
            values[place] = bool(counts[at])
        values[form.seed] = seed
        offsets, base = blocks.shape.offsets, counts[_COUNT["base"]]
        start, rows = slot * blocks.shape.block_bytes, blocks.stored(slot)
        numbers = blocks.bytes[start : start + offsets["means"]].tobytes()
        first, stop = counts[_COUNT["first"]] - base, counts[_COUNT["next"]] - base
        parts = [b"", b""]
        for place, name, which in form.arrays:
            shape = form.values[place].shape
            if which:
                side = old if which == 1 else 1 - old
                if name == "table":
                    model = records[which]
                    a, b = max(0, model[_MODEL["lo"]] - base), max(0, model[_MODEL["admitted"]] - base)
                    data, shape = rows.tables[side, a:b].tobytes(), (b - a, *shape[1:])
                elif name == "anchor":
                    data = b""
                else:
                    width = (len(shape) > 0) * shape[0] * WORD
                    begin = offsets[_ARRAYS[name]] + side * width
                    data = numbers[begin : begin + width]
                dtype = "<f8"
            elif name == "trial":
                n = counts[_COUNT["reactive_step"]] if self._has_trial(counts[_COUNT["rival"]]) else 0
                ends = np.frombuffer(numbers, np.int64, n + 1, offsets["bounds"])
                data, shape, dtype = np.stack([ends[:-1], ends[1:]], 1).tobytes(), (n, 2), "<i8"
            elif name == "contest":
                data, dtype = self._judged(blocks, slot)[CONTEST * WORD :][: shape[0] * WORD], "<f8"
            elif name == "credit":
                gains = self._judged(blocks, slot)[CREDIT * WORD : (CREDIT_GAIN + 1) * WORD]
                data, dtype = gains + np.float64(counts[_COUNT["chosen"]]).tobytes(), "<f8"
            elif name == "pool.samples.X":
                data, dtype = rows.X[first:stop].tobytes(), form.values[place].dtype.str
                shape = (stop - first, *shape[1:])
                data += bytes(-len(data) % ALIGNED)
            else:
                own = rows.y[first:stop]
                data = own.astype(np.float64).tobytes() if name == "pool.samples.y" else _ONE * (stop - first)
                shape, dtype = (stop - first,), "<f8"
            parts.append(data)
            values[place] = [dtype, *shape]
        text = compact(values).encode()
        parts[0], parts[1] = len(form.names).to_bytes(WORD, "little"), len(text).to_bytes(WORD, "little")
        return b"".join([*parts, form.names, text])


_ARRAYS = {
    "weights": "w",
    "gradient_sum": "G",
    "factor": "factor",
    "centre": "centre",
    **dict.fromkeys(("anchor", "table"), ""),
    **dict.fromkeys(("trial", "contest", "credit", "pool.samples.X", "pool.samples.y", "pool.samples.weight"), ""),
}
"""Arrays that can be written, with the names that they have in a cell."""
_SCALARS = {
    **{name: name for name in ("step", "reactive_step")},
    "pool.made": "made",
    "pool.samples.first_row": "first",
}
"""Counts by the names under which they are saved."""
_CONSTANT = {"strategy", "pool.n_classes", "pool.samples.n_features", "pool.samples.sparse", "pool.samples.dtype"}


def _split(text: str, values: list[str]) -> list[str]:
    """Return the parts of a text before, between and after these values."""
    parts = []
    for value in values:
        before, found, text = text.partition(value)
        assert found
        parts.append(before)
    return [*parts, text]
