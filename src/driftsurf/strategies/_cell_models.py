"""Models of a strategy in a cell: made from those of the generic step, stepped by the native core, and given back."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from driftsurf.core.abilities import TakenStep
from driftsurf.core.changes import UndoStack
from driftsurf.core.contracts import CSR, AppendOnlyArray, Batch, FloatArray, IncrementalState, Rows, Segment
from driftsurf.core.numeric import MASK
from driftsurf.core.samples import Buffer, Samples, Touched
from driftsurf.core.state import nest
from driftsurf.learners._linear import Linear, diverged, linear_from
from driftsurf.learners._multi import score_rows
from driftsurf.native.cell import Cell as NativeCell
from driftsurf.native.guard import RangeGuard
from driftsurf.native.linear import largest
from driftsurf.strategies._cell_arrays import (
    CONTEST,
    CREDIT,
    CREDIT_GAIN,
    DIVERGED,
    EVIDENCE,
    FULL,
    LEARNED,
    LOGISTIC,
    NO_RIVAL,
    RANGES,
    REACTIVE,
    ROLES,
    SIDES,
    STABLE,
    UNIT_CENTRE,
    UNITS,
    Cell,
    DecisionReader,
    StepRule,
    allocated_bytes,
    copied,
    entries_of,
    entry_names,
    make_cell,
    saved_rows,
    stored_between,
    training_of,
    with_room,
)
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies.driftsurf_state import Contest, Credit, DriftSurfState, RiskUnit

COPIED = "drawn", "lo", "admitted", "hi", "seen", "words", "gradients", "rescale_at", "step_size", "target"
"""Numbers of a model with the same name in ``Linear``."""
Fading = Callable[[int, int], FloatArray]
"""Returns the factors of the weights of rows, from one number to another."""
_taken = tuple.__new__  # takes half the time of calling a named tuple
SIDE = 0
"""Side of the only model of a strategy that has one model at a time."""

# Fields of the counts and of the models are read as arrays: numpy 2 crashes if it has no memory for a record scalar.


class CellModels:
    """Rows and models of a strategy around a linear learner, in the arrays of a cell.

    It is made from a pool and its models, takes the same steps with the same bits, and gives them back. A step starts
    from a ``mark``; a step that fails leaves everything as it was marked.

    Parameters
    ----------
    pool
        Pool with the rows, which are copied.
    live
        Models and counts.
    rule
        Parameters of DriftSurf.
    details
        Fields of every decision that do not change.
    """

    def __init__(self, pool: Pool, live: DriftSurfState, rule: StepRule, details: dict[str, Any]) -> None:
        samples = pool.samples
        self._pool: Pool = copy.copy(pool)
        self._rule: StepRule = rule
        self._training = training_of(pool.template, pool.n_classes, samples.n_features, sparse=samples.sparse)
        rows = samples.view(Segment(samples.first_row, samples.next_row))
        self._cell = cell = make_cell(copied(rows.X), rows.y.copy(), rows.weight.copy(), rule, self._training)
        longest = max(map(len, live.trial), default=0)
        self.native: NativeCell = NativeCell(cell.parts, cell.small, rule, self._training, SIDES, longest)
        self._move: tuple[Cell, int, int] | None = None
        """Arrays with more room that are about to be used, and what ``NativeCell.move`` takes with them."""
        self._owners: dict[str, object] = {name: object() for name in entry_names(cell.X)}
        """Owners of the saved rows."""
        self._log: dict[int, tuple[object, Touched]] | None = None
        """For each model, the owner of its saved gradient table and its overwritten entries; None if never saved."""
        cell.counts["base"] = cell.counts["first"] = samples.first_row
        cell.counts["next"] = samples.next_row
        cell.counts["seed"], cell.counts["made"] = pool.seed & MASK, pool.made
        self._pool.samples = Samples(samples.n_features, sparse=samples.sparse, dtype=samples.dtype)
        self._pool._tested = None
        self._outputs = self._training.outputs
        self.reader: DecisionReader = DecisionReader(rule, details)
        template: Any = pool.template
        per_batch = 0 if template.steps_per_batch is None else int(template.steps_per_batch)
        self.native.set_budget(per_batch, float(template.steps_per_row), pool.capabilities.quadratic_loss)
        self._fill(live)
        self.mark()

    def _fill(self, live: DriftSurfState) -> None:
        """Copy the counts and the models."""
        cell, counts = self._cell, self._cell.counts
        for name in ("step", "reactive_step", "reacted"):
            counts[name] = getattr(live, name)
        counts["challenged"] = live.reactive_predicts
        counts["rival"] = REACTIVE if live.reactive is not None else NO_RIVAL if live.stable is None else STABLE
        for place, part in enumerate(live.trial):
            cell.bounds[place], cell.bounds[place + 1] = part.lo, part.hi
        counts["chosen"], counts["units"] = live.credit.chosen, len(live.unit.recent)
        cell.judged[:EVIDENCE] = *live.contest.numbers, live.credit.value, live.credit.gain, live.unit.centre
        cell.judged[UNITS : UNITS + len(live.unit.recent)] = live.unit.recent
        for side, member in enumerate(live.members):
            self._put(side, member)

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

    def observe(
        self,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        guard: RangeGuard | None = None,
        tested: FloatArray | None = None,
        fading: Fading | None = None,
        *,
        predict: bool = False,
        test: bool = False,
    ) -> TakenStep | None:
        """Check, guard, predict and learn a batch; None if that cannot be, for instance because of a new class.

        Unless the batch is learned, everything is as it was at the last mark. ``tested`` are the scores of the rows, if
        they are known; ``predict`` and ``test`` ask for them. A single model may learn with other weights of the rows,
        whose factors ``fading`` returns.
        """
        native = self.native
        try:
            status = native.observe(X, y, weight, tested, fading, guard, predict)
            if status == FULL:
                self._make_room(X)
                status = native.observe(X, y, weight, tested, fading, guard, predict)
            if status == LEARNED:
                if native.limited:
                    X = self.newest(len(y)).X
                if self._log is not None:
                    self._log_touched()
                return _taken(TakenStep, native.taken(X, test, self.reader, self.scorer))
        except BaseException:
            self.put_back()
            raise
        if status == DIVERGED:
            raise diverged(*native.divergence)
        return None

    def _make_room(self, X: Rows) -> None:
        """Make room for more rows, which changes nothing else."""
        self._move = with_room(self._cell, X, self._rule.max_rows)
        self._complete_move()

    def _complete_move(self) -> None:
        """Use arrays with more room, if there are new ones; if this is broken off, calling it again completes it."""
        if self._move is not None:
            cell, base, values = self._move
            self.native.move(cell.parts, base, values)
            self._cell = cell
            self._move = None

    def with_classes_of(self, y: FloatArray) -> CellModels | None:
        """Return a copy of the cell with room for the classes of a batch; None if there are no new ones."""
        if not self._pool.grows or not largest(y) >= self._pool.n_classes:
            return None
        pool, live = self.generic()
        pool.grow(y, live.members, UndoStack())  # copies: nothing has to be undone
        return CellModels(pool, live, *self.reader)

    # -------------------------------------------------------------------- a single model

    def newest(self, count: int) -> Batch:
        """Return the last ``count`` rows, as views that are valid until the next step."""
        cell, b = self._cell, self.native.end
        a = b - count
        return Batch(stored_between(cell.X, a, b), cell.y[a:b], cell.weight[a:b], self.native.next_row - count)

    def renew(self, step: int) -> int:
        """Replace the only model by a fresh one, which starts at this step with the next row; return its number.

        The rows so far stay until the end of the step, so that it can be undone.
        """
        counts, pool = self._cell.counts, self._pool
        pool.made = counts["made"].item()
        fresh = pool.make(step, counts["next"].item())
        self._put(SIDE, fresh)
        counts["made"] = pool.made
        return fresh.id

    def renew_after_step(self, step: int) -> int:
        """Replace the only model by a fresh one after a step, and drop all rows so far; return its number."""
        number = self.renew(step)
        counts = self._cell.counts
        counts["first"] = counts["next"]
        return number

    def forget_risk(self) -> None:
        """Forget the lowest risk of the only model, which did not predict the last batch."""
        self._cell.models["best"][SIDE] = math.inf

    # -------------------------------------------------------------------- going back

    def mark(self) -> None:
        """Mark rows and models, for ``put_back``."""
        self.native.mark()

    def put_back(self) -> None:
        """Return to the mark from any point of a step; a second call changes nothing."""
        self._complete_move()
        self.native.put_back()

    # -------------------------------------------------------------------- predicting, and the generic step

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return the function that scores rows with the model that predicts now; later steps do not affect it."""
        if self._training.kind == LOGISTIC:
            return self.native.margin_scorer()
        side, cell = self.native.predictor, self._cell
        raw = cell.raw[side].copy()
        template: Any = self._pool.template
        limits = self._limits(side)
        K = self._training.outputs
        weights = raw.reshape(-1, K) if isinstance(cell.X, CSR) else raw.reshape(K, -1).T
        return functools.partial(score_rows, template.read, weights, limits)

    @property
    def _n_features(self) -> int:
        width: int = self._cell.factor.shape[1]
        return width - 1

    def _turned(self, weights: FloatArray) -> FloatArray:
        """Return weights in the order by which rows are scored: output by output for dense rows."""
        return weights if isinstance(self._cell.X, CSR) else weights.T

    def _ranges(self, side: int) -> FloatArray:
        """Return the lowest and the highest value of each column, and the lower and the upper limit, as a view."""
        d = self._n_features
        start = RANGES + 4 * side * d
        return self._cell.judged[start:][: 4 * d].reshape(4, d)

    def _limits(self, side: int) -> FloatArray | None:
        """Return the limits of columns, to which values are limited before this model scores them; None: no limits."""
        if not self._training.regression:
            return None
        ranges = self._ranges(side)
        return ranges[2:].copy() if ranges[0, 0] <= ranges[1, 0] else None

    def _evidence(self, side: int) -> FloatArray:
        return self._cell.judged[EVIDENCE + 4 * side :][:4]

    def generic_pool(self) -> Pool:
        """Return the pool of the generic step, with copies of the rows."""
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
        if self._limits(side) is not None:
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
        """Return a copy of the model on this side, as the generic step has it."""
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
            allocated_bytes(cell.X) + cell.y.nbytes + cell.weight.nbytes + cell.tables.nbytes + cell.small.nbytes
        )

    def generic(self) -> tuple[Pool, DriftSurfState]:
        """Return pool and models of the generic step, with copies of everything."""
        return self.generic_pool(), self._live(self.trained)

    def without_rows(self) -> tuple[Pool, DriftSurfState]:
        """Return a pool without rows and untrained models, to replace those that the cell was made from."""
        return self._pool, self._live(lambda side: self._pool.untrained())

    def _live(self, learner: Callable[[int], Any]) -> DriftSurfState:
        """Return models and counts; ``learner`` makes the learner on a side."""
        counts = self._cell.counts
        old = counts["predictive"].item()
        rival = counts["rival"].item()
        members: dict[str, Any] = {ROLES[rival]: self._member(1 - old, learner)} if rival else {}
        reacting = rival == REACTIVE and not self._rule.prequential
        judged = self._cell.judged.tolist()
        bounds = self._cell.bounds.tolist() if reacting else []
        ends = bounds[: counts["reactive_step"].item() + 1]
        return DriftSurfState(
            self._member(old, learner),
            **members,
            step=counts["step"].item(),
            reactive_step=counts["reactive_step"].item(),
            trial=tuple(Segment(*pair) for pair in itertools.pairwise(ends)),
            reactive_predicts=bool(counts["challenged"].item()),
            reacted=bool(counts["reacted"].item()),
            unit=RiskUnit(tuple(judged[UNITS : UNITS + counts["units"].item()]), judged[UNIT_CENTRE]),
            contest=Contest(*judged[CONTEST:CREDIT]),
            credit=Credit(judged[CREDIT], judged[CREDIT_GAIN], bool(counts["chosen"].item())),
        )

    def _member(self, side: int, learner: Callable[[int], Any]) -> Member:
        model = self._cell.models[side : side + 1]
        born, first_row = model["born"].item(), model["first_row"].item()
        return Member(model["id"].item(), learner(side), born, first_row, model["best"].item())

    @property
    def predicting(self) -> Any:
        """Copy of the model that predicts now."""
        return self.trained(self.native.predictor)

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
        assert self._log is not None
        models, kept = self._cell.models, {}
        for side in range(SIDES):
            id = models["id"][side].item()
            if id in self._log:
                kept[id] = self._log[id]
                order, lo = self.native.steps_of(side)
                if order:
                    places = np.frombuffer(order, np.int64)
                    kept[id][1].add(places, lo, limit=models["hi"][side].item() - lo)
        self._log = kept

    def incremental_state(self) -> tuple[DriftSurfState, IncrementalState]:
        """Return the models and counts, whose learners are their saved states, and the saved state of the pool."""
        return self._live(lambda side: _Saved(self.learner_state(side))), self.pool_state()


class _Saved:
    """Stands for a learner where it is saved."""

    def __init__(self, state: IncrementalState) -> None:
        self._state = state

    def incremental_state(self) -> IncrementalState:
        """Return the saved entries."""
        return self._state
