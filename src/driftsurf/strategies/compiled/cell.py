"""Models of DriftSurf in a cell: made from those of the generic path, stepped by compiled code, and turned back."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from driftsurf.core.buffer import Buffer, Touched
from driftsurf.core.contracts import CSR, AppendOnlyArray, Batch, FloatArray, IncrementalState, Rows, Segment
from driftsurf.core.decisions import Decision
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest
from driftsurf.kernels.random import MASK
from driftsurf.learners._linear import Linear, diverged, linear_from, margins
from driftsurf.learners._multi import score_rows
from driftsurf.strategies._pool import Member, Pool
from driftsurf.strategies._reaction import Contest, Credit, Live
from driftsurf.strategies._unit import RiskUnit
from driftsurf.strategies.compiled.addresses import Kernels
from driftsurf.strategies.compiled.layout import (
    CONTEST,
    CREDIT,
    CREDIT_GAIN,
    EVIDENCE,
    LEARNED,
    LOGISTIC,
    NO_RIVAL,
    ORIGINS,
    RANGES,
    REACTIVE,
    STABLE,
    STEPS,
    TRANSITIONS,
    UNIT_CENTRE,
    UNITS,
    UNSUITED,
    Rule,
    make_cell,
    make_scratch,
)
from driftsurf.strategies.compiled.outcome import ROLES, Outcome
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
from driftsurf.strategies.compiled.step import learn, learn_sparse
from driftsurf.strategies.compiled.suitable import COPIED, outgrows_cell, training_of
from driftsurf.strategies.compiled.table import kernel_addresses

# Fields of the counts and of the models are read as arrays: numpy 2 crashes if it has no memory for a record scalar.


class CompiledModels:
    """Rows and models of a DriftSurf around a linear learner, in the arrays of a cell.

    It is made from a pool and its models, takes the same steps with the same bits, and gives them back.

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

    def __init__(self, pool: Pool, live: Live, rule: Rule, details: dict[str, Any]) -> None:
        samples = pool.samples
        self._pool, self._rule, self._details = copy.copy(pool), rule, details
        self._training = training = training_of(
            pool.template, pool.n_classes, samples.n_features, sparse=samples.sparse
        )
        self._learn = learn_sparse if samples.sparse else learn
        rows = samples.view(Segment(samples.first_row, samples.next_row))
        self._cell, self._small = make_cell(copied(rows.X), rows.y.copy(), rows.weight.copy(), rule, training)
        longest = max(map(len, live.trial), default=0)
        self._scratch = make_scratch(samples.n_features, longest, len(samples), 0, training.outputs)
        self._owners = {name: object() for name in entry_names(self._cell.X)}
        """Owners of the saved rows."""
        self._log: dict[int, tuple[object, Touched]] | None = None
        """For each model, the owner of its saved gradient table and its overwritten entries; None if never saved."""
        self._fill(live)
        self._pool.samples = Samples(samples.n_features, sparse=samples.sparse, dtype=samples.dtype)
        self._pool._tested = None

    @functools.cached_property
    def _kernels(self) -> Kernels:
        """Addresses of the kernels, which are compiled for the first step."""
        samples = self._pool.samples
        return kernel_addresses(samples.dtype, self._rule, self._training, sparse=samples.sparse)

    def _fill(self, live: Live) -> None:
        """Copy the counts and the models."""
        cell, samples, counts = self._cell, self._pool.samples, self._cell.counts
        counts["base"] = counts["first"] = samples.first_row
        counts["next"] = samples.next_row
        counts["seed"], counts["made"] = self._pool.seed & MASK, self._pool.made
        for name in ("step", "reactive_step", "challenged", "reacted"):
            counts[name] = getattr(live, name)
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

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision | None:
        """Learn one batch, and return the decision; None if only the generic step can go on, and nothing was changed.

        An error leaves everything as it was.
        """
        count, end = len(batch.y), self._end
        X = self._cell.X
        if end + count > len(self._cell.y) and outgrows_cell(self._pool, used_bytes(stored_between(X, 0, end)), end):
            return None
        mark = self.mark()
        try:
            steps = self._steps(count)
            start = self._reserve(batch.X, count, steps, end)
            cell, scratch = self._cell, self._scratch
            write(cell.X, start, batch.X)
            cell.y[start : start + count] = batch.y
            cell.weight[start : start + count] = batch.weight
            scored = count * self._training.outputs
            known = tested is not None and tested.size == scored
            if tested is not None and known:
                scratch.scores[:scored] = tested.reshape(-1)
            status = self._run_learn(count, steps, known)
            if status == LEARNED:
                return self._outcome(count, scratch.whole[TRANSITIONS].item()).decision()
            if status != UNSUITED:
                raise diverged(*scratch.real[:2].tolist())
        except BaseException:
            self.put_back(mark)
            raise
        self.put_back(mark)
        return None

    def _run_learn(self, count: int, steps: int, known: bool) -> int:
        """Learn rows that are in their places; with ``known``, so are their scores. Return the result of ``learn``."""
        how = self._rule, self._training, self._scratch, self._kernels
        status: int = self._learn(self._cell, count, steps, known, *how)
        return status

    @property
    def _n_features(self) -> int:
        width: int = self._cell.factor.shape[1]
        return width - 1

    @property
    def _end(self) -> int:
        """Place of the next row."""
        counts = self._cell.counts
        end: int = (counts["next"] - counts["base"]).item()
        return end

    def _steps(self, count: int) -> int:
        """Return rho, the number of gradient steps for a batch of ``count`` rows."""
        template: Any = self._pool.template
        row = self._cell.counts["next"].item()
        steps: int = template.budget(Segment(row, row + count))
        return steps

    def _reserve(self, X: Rows, count: int, steps: int, end: int) -> int:
        """Make room for more rows and for their gradient steps; return the place of the next row, which was ``end``."""
        scratch = self._scratch
        if isinstance(X, CSR) or end + count > len(self._cell.y):  # dense rows mostly have room
            self._cell = with_room(self._cell, X)
            end = self._end
        rows, most_steps, values = len(scratch.losses), scratch.orders.shape[1], len(self._cell.y)
        if rows < count or most_steps < steps or len(scratch.values) < values:
            # It never becomes smaller: the batches of T are scored again at the end of a reactive state.
            most = max(rows, count), values, max(most_steps, steps)
            self._scratch = make_scratch(self._n_features, *most, self._training.outputs)
        return end

    def _outcome(self, count: int, transitions: int) -> Outcome:
        """Return the outcome of the step that has just been taken."""
        counts = self._cell.counts
        if self._log is not None:
            self._log_touched(self._scratch.whole.tolist())
        numbers = counts["step"].item() - 1, counts["next"].item() - count, count
        return Outcome(self._scratch, numbers, transitions, self._rule, self._details)

    def decision_of(self, whole: list[int], real: list[float], step: int, first_row: int, count: int) -> Decision:
        """Return the decision of a step that left these numbers behind."""
        return Outcome.decision_of(whole, real, step, first_row, count, self._rule, self._details)

    # -------------------------------------------------------------------- going back

    def mark(self) -> Any:
        """Return a mark of rows and models, for ``put_back``."""
        self._scratch.whole[STEPS : STEPS + 2] = 0
        return self._cell, self._scratch, self._small.copy()

    def put_back(self, mark: Any) -> None:
        """Return to the mark from any point of a step; a second call changes nothing."""
        cell, scratch, small = mark
        whole, K = self._scratch.whole, self._training.outputs
        if self._cell.tables is cell.tables:
            base = cell.counts["base"].item()
            for side in range(2):
                steps, lo = int(whole[STEPS + side]), int(whole[ORIGINS + side])
                places = self._scratch.orders[side, :steps] + (lo - base)
                before = self._scratch.overwritten[side, : steps * K].reshape(steps, K)
                entries_of(cell)[side, places] = before
        # The rows may have moved in this step. A second call would find the base from before and the wrong places.
        whole[STEPS : STEPS + 2] = 0
        self._cell, self._scratch = cell, scratch
        self._small[:] = small

    # -------------------------------------------------------------------- predicting, and the generic path

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """Return the function that scores rows with the model that predicts now; later steps do not affect it."""
        cell, side = self._cell, self._predictor
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
        return self._cell.judged[RANGES + 4 * side * d :][: 4 * d].reshape(4, d)

    def _evidence(self, side: int) -> FloatArray:
        return self._cell.judged[EVIDENCE + 4 * side :][:4]

    def _is_ranged(self, side: int) -> bool:
        """Return whether values are limited to their ranges before this model scores them."""
        if not self._training.regression:
            return False
        low, high = self._ranges(side)[:2, 0].tolist()
        return bool(low <= high)

    @property
    def _predictor(self) -> int:
        counts = self._cell.counts
        return int(counts["predictive"].item()) ^ int(counts["challenged"].item())

    def generic(self) -> tuple[Pool, Live]:
        """Return pool and models of the generic path, with copies of everything."""
        cell, counts = self._cell, self._cell.counts
        a, b = ((counts[name] - counts["base"]).item() for name in ("first", "next"))
        empty = self._pool.samples
        samples = Samples(empty.n_features, sparse=empty.sparse, dtype=empty.dtype)
        samples.first_row = counts["first"].item()
        samples.append(stored_between(cell.X, a, b), cell.y[a:b], cell.weight[a:b])
        pool = copy.copy(self._pool)
        pool.samples, pool.made = samples, counts["made"].item()
        return pool, self._live(self._trained)

    def without_rows(self) -> tuple[Pool, Live]:
        """Return a pool without rows and untrained models, to replace those that the cell was made from."""
        return self._pool, self._live(lambda side: self._pool.untrained())

    def _live(self, learner: Callable[[int], Any]) -> Live:
        """Return models and counts; ``learner`` makes the learner on a side."""
        counts = self._cell.counts
        old = counts["predictive"].item()
        rival = counts["rival"].item()
        members: dict[str, Any] = {ROLES[rival]: self._member(1 - old, learner)} if rival else {}
        reacting = rival == REACTIVE and not self._rule.prequential
        judged = self._cell.judged.tolist()
        bounds = self._cell.bounds.tolist() if reacting else []
        ends = bounds[: counts["reactive_step"].item() + 1]
        return Live(
            self._member(old, learner),
            **members,
            step=counts["step"].item(),
            reactive_step=counts["reactive_step"].item(),
            trial=tuple(Segment(*pair) for pair in itertools.pairwise(ends)),
            challenged=bool(counts["challenged"].item()),
            reacted=bool(counts["reacted"].item()),
            unit=RiskUnit(tuple(judged[UNITS : UNITS + counts["units"].item()]), judged[UNIT_CENTRE]),
            contest=Contest(*judged[CONTEST:CREDIT]),
            credit=Credit(judged[CREDIT], judged[CREDIT_GAIN], bool(counts["chosen"].item())),
        )

    def _member(self, side: int, learner: Callable[[int], Any]) -> Member:
        model = self._cell.models[side : side + 1]
        born, first_row = model["born"].item(), model["first_row"].item()
        return Member(model["id"].item(), learner(side), born, first_row, model["best"].item())

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

    def _trained(self, side: int) -> Any:
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
    def predicting(self) -> Any:
        """Copy of the model that predicts now."""
        return self._trained(self._predictor)

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        cell = self._cell
        return int(
            allocated_bytes(cell.X) + cell.y.nbytes + cell.weight.nbytes + cell.tables.nbytes + self._small.nbytes
        )

    # -------------------------------------------------------------------- state

    def incremental_state(self) -> tuple[Live, IncrementalState]:
        """Return the models and counts, whose learners are their saved states, and the saved state of the pool."""
        if self._log is None:
            self._log = {}
        pool = self._pool
        counters = {"made": self._cell.counts["made"].item(), "seed": pool.seed, "n_classes": pool.n_classes}
        rows = saved_rows(lambda: self._cell, self._owners)
        return self._live(self._learner_state), counters | nest("samples", rows)

    def _learner_state(self, side: int) -> _Saved:
        fitted, model = self._fitted(side), self._cell.models[side : side + 1]
        template: Any = self._pool.template
        assert self._log is not None
        owner, touched = self._log.setdefault(model["id"].item(), (object(), Touched()))
        lo, stop = max(0, fitted.lo), max(0, fitted.admitted)

        def entries(lo: int, hi: int) -> npt.NDArray[Any]:
            base = self._cell.counts["base"].item()
            return self._entries(side, lo - base, hi - base)

        table = AppendOnlyArray(owner, lo, stop, entries, touched.version, changed=touched.since)
        known, names = vars(fitted), template._fields(fitted.weights.ndim).entries
        return _Saved({name: known[name] for name in names if name != "table"} | {"table": table})

    def _log_touched(self, whole: list[int]) -> None:
        """Remember which entries of the gradient tables the last step has overwritten, for the next checkpoint."""
        assert self._log is not None
        models = self._cell.models
        kept = {}
        for side in range(2):
            id = models["id"][side].item()
            if id in self._log:
                kept[id] = self._log[id]
                steps, lo = whole[STEPS + side], whole[ORIGINS + side]
                if steps:
                    order = self._scratch.orders[side, :steps].copy()
                    kept[id][1].add(order, lo, limit=models["hi"][side].item() - lo)
        self._log = kept


class _Saved:
    """Stands for a learner where it is saved."""

    def __init__(self, state: IncrementalState) -> None:
        self._state = state

    def incremental_state(self) -> IncrementalState:
        """Return the saved entries."""
        return self._state
