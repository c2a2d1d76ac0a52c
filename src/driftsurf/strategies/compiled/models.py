"""Rows and models in the arrays of a cell: taken from the generic path, marked, put back, saved, and given back."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from driftsurf.core.buffer import Buffer, Touched
from driftsurf.core.contracts import CSR, AppendOnlyArray, Batch, FloatArray, IncrementalState, Learner, Rows, Segment
from driftsurf.core.random import MASK
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest
from driftsurf.learners._linear import Linear, linear_from, margins
from driftsurf.learners._multi import score_rows
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies.compiled.addresses import Kernels
from driftsurf.strategies.compiled.layout import (
    EVIDENCE,
    LOGISTIC,
    RANGES,
    STEPS,
    Rule,
    make_cell,
    make_scratch,
)
from driftsurf.strategies.compiled.rows import (
    allocated_bytes,
    copied,
    entries_of,
    entry_names,
    saved_rows,
    stored_between,
    used_bytes,
    with_room,
    write,
)
from driftsurf.strategies.compiled.suitable import COPIED, outgrows_cell, training_of
from driftsurf.strategies.compiled.table import kernel_addresses

# Fields of the counts and of the models are read as arrays: numpy 2 crashes if it has no memory for a record scalar.


class CellModels:
    """Rows and models of a linear learner, in the arrays of a cell.

    A subclass lets compiled code work on them. An object is made from a pool and its models, and gives them back.

    Parameters
    ----------
    pool
        Pool with the rows, which are copied.
    rule
        Parameters of the compiled step.
    sides
        Number of models for which there is room.
    longest
        Number of rows for whose scores there is room.
    """

    def __init__(self, pool: Pool, rule: Rule, *, sides: int, longest: int = 0) -> None:
        samples = pool.samples
        self._pool, self._rule, self._sides = copy.copy(pool), rule, sides
        self._training = training = training_of(
            pool.template, pool.n_classes, samples.n_features, sparse=samples.sparse
        )
        rows = samples.view(Segment(samples.first_row, samples.next_row))
        self._cell, self._small = make_cell(copied(rows.X), rows.y.copy(), rows.weight.copy(), rule, training, sides)
        self._scratch = make_scratch(samples.n_features, longest, len(samples), 0, training.outputs, sides)
        self._owners = {name: object() for name in entry_names(self._cell.X)}
        """Owners of the saved rows."""
        self._log: dict[int, tuple[object, Touched]] | None = None
        """For each model, the owner of its saved gradient table and its overwritten entries; None if never saved."""
        counts = self._cell.counts
        self._counts = {name: counts[name] for name in ("base", "next", "step", "predictive", "challenged")}
        """Counts that every step reads, as views, which stay valid: making a view takes longer than reading it."""
        counts["base"] = counts["first"] = samples.first_row
        counts["next"] = samples.next_row
        counts["seed"], counts["made"] = pool.seed & MASK, pool.made
        self._pool.samples = Samples(samples.n_features, sparse=samples.sparse, dtype=samples.dtype)
        self._pool._tested = None

    @property
    def template(self) -> Learner:
        """Template of the models."""
        return self._pool.template

    @functools.cached_property
    def _kernels(self) -> Kernels:
        """Addresses of the kernels, which are compiled for the first step."""
        samples = self._pool.samples
        return kernel_addresses(samples.dtype, self._rule, self._training, sparse=samples.sparse)

    def _put(self, side: int, member: Member) -> None:
        """Copy a model to this side."""
        cell, model = self._cell, self._cell.models[side : side + 1]
        learner: Any = member.learner
        fitted: Linear = learner._fitted
        model["id"], model["born"], model["first_row"] = member.id, member.born, member.first_row
        model["best"], model["seed"] = member.best_risk, fitted.seed
        for name in COPIED:
            model[name] = getattr(fitted, name)
        gain, centre, centred = fitted.frame
        model["centred"] = len(centred)
        cell.w[side], cell.G[side] = fitted.weights.reshape(-1), fitted.gradient_sum.reshape(-1)
        cell.factor[side], cell.gain[side], cell.centre[side] = fitted.factor, gain, centre
        cell.raw[side], cell.centred[side, : len(centred)] = self._turned(learner._raw_weights).reshape(-1), centred
        if self._training.regression:
            ranges = self._ranges(side)
            ranges[0], ranges[1] = math.inf, -math.inf
            if fitted.limits is not None:
                ranges[0], ranges[1], ranges[2:] = fitted.low, fitted.high, fitted.limits
            self._evidence(side)[:] = fitted.evidence if len(fitted.evidence) else 0.0
        if fitted.lo >= 0:
            start = fitted.lo - cell.counts["base"].item()
            table = learner._table.live
            entries_of(cell)[side, start : start + len(table)] = table.reshape(len(table), self._training.outputs)

    # -------------------------------------------------------------------- learning

    @property
    def _n_features(self) -> int:
        width: int = self._cell.factor.shape[1]
        return width - 1

    @property
    def _end(self) -> int:
        """Place of the next row."""
        end: int = self._counts["next"].item() - self._counts["base"].item()
        return end

    def _outgrown(self, count: int, end: int) -> bool:
        """Return whether the rows become too many for a cell with ``count`` more, given the place of the next row."""
        X = self._cell.X
        return end + count > len(self._cell.y) and outgrows_cell(
            self._pool, used_bytes(stored_between(X, 0, end)) + self._further_bytes(end), end
        )

    def _further_bytes(self, rows: int) -> int:
        """Return the bytes that so many rows take beside their values, where these are far more than the values."""
        return 0

    def _store(self, batch: Batch, steps: int, end: int) -> None:
        """Write rows to their places, and make room for as many gradient steps, given the place of the next row."""
        count = len(batch.y)
        start = self._reserve(batch.X, count, steps, end)
        cell = self._cell
        write(cell.X, start, batch.X)
        cell.y[start : start + count] = batch.y
        cell.weight[start : start + count] = batch.weight

    def _reserve(self, X: Rows, count: int, steps: int, end: int) -> int:
        """Make room for more rows and for their gradient steps; return the place of the next row, which was ``end``."""
        scratch = self._scratch
        if isinstance(X, CSR) or end + count > len(self._cell.y):  # dense rows mostly have room
            self._cell = with_room(self._cell, X, self._rule.max_rows)
            end = self._end
        rows, most_steps, values = len(scratch.losses), scratch.orders.shape[1], len(self._cell.y)
        if rows < count or most_steps < steps or len(scratch.values) < values:
            # It never becomes smaller: the batches of T are scored again at the end of a reactive state.
            most = max(rows, count), values, max(most_steps, steps)
            self._scratch = make_scratch(self._n_features, *most, self._training.outputs, self._sides)
        return end

    # -------------------------------------------------------------------- going back

    def mark(self) -> Any:
        """Return a mark of rows and models, for ``put_back``."""
        self._scratch.whole[STEPS:] = 0
        return self._cell, self._scratch, self._small.copy()

    def put_back(self, mark: Any) -> None:
        """Return to the mark from any point of a step; a second call changes nothing."""
        cell, scratch, small = mark
        whole, K = self._scratch.whole, self._training.outputs
        if self._cell.tables is cell.tables:
            base = cell.counts["base"].item()
            for side, (steps, lo) in enumerate(whole[STEPS:].reshape(-1, 2).tolist()):
                places = self._scratch.orders[side, :steps] + (lo - base)
                before = self._scratch.overwritten[side, : steps * K].reshape(steps, K)
                entries_of(cell)[side, places] = before
        # The rows may have moved in this step. A second call would find the base from before and the wrong places.
        whole[STEPS:] = 0
        self._cell, self._scratch = cell, scratch
        self._small[:] = small

    # -------------------------------------------------------------------- predicting, and the generic path

    def _scorer_of(self, side: int) -> Callable[[Rows], FloatArray]:
        """Return the function that scores rows with the model on this side; later steps do not affect it."""
        cell = self._cell
        raw = cell.raw[side].copy()
        if self._training.kind == LOGISTIC:
            return functools.partial(margins, raw)
        template: Any = self._pool.template
        limits = self._ranges(side)[2:].copy() if self._is_ranged(side) else None
        K = self._training.outputs
        weights = raw.reshape(-1, K) if isinstance(cell.X, CSR) else raw.reshape(K, -1).T
        return functools.partial(score_rows, template.read, weights, limits)

    def _turned(self, weights: FloatArray) -> FloatArray:
        """Return weights in the order by which rows are scored: output by output for dense rows."""
        return weights if isinstance(self._cell.X, CSR) else weights.T

    def _ranges(self, side: int) -> FloatArray:
        """Return the lowest and the highest value of each column, and the lower and the upper limit, as a view."""
        d = self._n_features
        start = RANGES + 4 * (self._sides - 2) + 4 * side * d
        return self._cell.judged[start:][: 4 * d].reshape(4, d)

    def _evidence(self, side: int) -> FloatArray:
        return self._cell.judged[EVIDENCE + 4 * side :][:4]

    def _is_ranged(self, side: int) -> bool:
        """Return whether values are limited to their ranges before this model scores them."""
        if not self._training.regression:
            return False
        low, high = self._ranges(side)[:2, 0].tolist()
        return bool(low <= high)

    def generic_pool(self) -> Pool:
        """Return the pool of the generic path, with copies of the rows."""
        cell, counts = self._cell, self._cell.counts
        a, b = ((counts[name] - counts["base"]).item() for name in ("first", "next"))
        empty = self._pool.samples
        samples = Samples(empty.n_features, sparse=empty.sparse, dtype=empty.dtype)
        samples.first_row = counts["first"].item()
        samples.append(stored_between(cell.X, a, b), cell.y[a:b], cell.weight[a:b])
        pool = copy.copy(self._pool)
        pool.samples, pool.made = samples, counts["made"].item()
        return pool

    def _fitted(self, side: int) -> Linear:
        """Return the model on this side, without its gradient table."""
        cell, model = self._cell, self._cell.models[side : side + 1]
        arrays = {"weights": cell.w, "gradient_sum": cell.G, "factor": cell.factor, "centre": cell.centre}
        entries: dict[str, Any] = {name: values[side].copy() for name, values in arrays.items()}
        if self._is_ranged(side):
            entries["low"], entries["high"] = self._ranges(side)[:2].copy()
        if (evidence := self._evidence(side))[0].item() > 0.0:
            entries["evidence"] = evidence.copy()
        for name in ("weights", "gradient_sum"):
            entries[name] = self._by_output(entries[name])
        entries |= {name: model[name].item() for name in COPIED} | {"seed": model["seed"].item()}
        return linear_from(entries)

    def _by_output(self, values: FloatArray) -> FloatArray:
        """Return values with one column for each output, as all losses but the logistic one have them."""
        return values if self._training.kind == LOGISTIC else values.reshape(-1, self._training.outputs)

    def trained(self, side: int) -> Any:
        """Return a copy of the model on this side, as the generic path has it."""
        template: Any = self._pool.template
        learner = template._make(self._fitted(side))
        learner._table = Buffer.of(self._table(side))
        return learner

    def _table(self, side: int) -> FloatArray:
        """Return the gradient table of a model, as a view."""
        cell, model = self._cell, self._cell.models[side : side + 1]
        base = cell.counts["base"].item()
        return self._entries(side, max(0, model["lo"].item() - base), max(0, model["admitted"].item() - base))

    def _entries(self, side: int, a: int, b: int) -> FloatArray:
        """Return the entries of a gradient table at the places a to b, as a view."""
        K = self._training.outputs
        return self._by_output(self._cell.tables[side, a * K : b * K])

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        cell = self._cell
        return int(
            allocated_bytes(cell.X) + cell.y.nbytes + cell.weight.nbytes + cell.tables.nbytes + self._small.nbytes
        )

    # -------------------------------------------------------------------- state

    def pool_state(self) -> IncrementalState:
        """Return the saved state of the pool; from now on, overwritten entries of saved tables are remembered."""
        if self._log is None:
            self._log = {}
        pool = self._pool
        counters = {"made": self._cell.counts["made"].item(), "seed": pool.seed, "n_classes": pool.n_classes}
        return counters | nest("samples", saved_rows(lambda: self._cell, self._owners))

    def learner_state(self, side: int) -> IncrementalState:
        """Return the saved entries of the model on this side."""
        fitted, model = self._fitted(side), self._cell.models[side : side + 1]
        template: Any = self._pool.template
        if self._log is None:
            self._log = {}
        owner, touched = self._log.setdefault(model["id"].item(), (object(), Touched()))
        lo, stop = max(0, fitted.lo), max(0, fitted.admitted)

        def entries(lo: int, hi: int) -> npt.NDArray[Any]:
            base = self._cell.counts["base"].item()
            return self._entries(side, lo - base, hi - base)

        table = AppendOnlyArray(owner, lo, stop, entries, touched.version, changed=touched.since)
        known, names = vars(fitted), template._fields(fitted.weights.ndim).entries
        return {name: known[name] for name in names if name != "table"} | {"table": table}

    def _log_touched(self) -> None:
        """Remember which entries of saved gradient tables the last step has overwritten, for the next checkpoint."""
        if self._log is None:
            return
        models, kept = self._cell.models, {}
        for side, (steps, lo) in enumerate(self._scratch.whole[STEPS:].reshape(-1, 2).tolist()):
            id = models["id"][side].item()
            if id in self._log:
                kept[id] = self._log[id]
                if steps:
                    order = self._scratch.orders[side, :steps].copy()
                    kept[id][1].add(order, lo, limit=models["hi"][side].item() - lo)
        self._log = kept
