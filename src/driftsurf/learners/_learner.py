"""Base class of the linear learners: waiting room, sample set, gradient table, budget, updates and their undo."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from driftsurf.core.changes import replace
from driftsurf.core.contracts import (
    AppendOnlyArray,
    Batch,
    Capabilities,
    FloatArray,
    IncrementalState,
    IntArray,
    Rows,
    SampleStore,
    Segment,
    State,
    Undo,
)
from driftsurf.core.fields import Fields
from driftsurf.core.options import parameter_names
from driftsurf.core.samples import Buffer, Touched
from driftsurf.core.state import resolved
from driftsurf.errors import CapabilityError, StateError
from driftsurf.learners._linear import Linear, blank, check_width, linear_fields, linear_from, usual_norm
from driftsurf.learners._options import LinearOptions
from driftsurf.native.linear import discharge, draw_uniformly, fill_uniform, schedule
from driftsurf.registry import name_of


class Update:
    """An update in progress. The model changes only in ``end``, apart from its gradient table."""

    __slots__ = ("_length", "before", "drawn", "fitted", "model", "order", "rows", "touched")

    rows: Batch
    """Sample set and waiting rows."""
    order: IntArray
    """Row that each step visits."""
    fitted: Linear
    """Model after the update; the steps change its weights and its gradient sum."""
    drawn: int
    """Number of rows with an entry in the gradient table after the steps."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.before: Linear = model._fitted
        self.touched: FloatArray | None = None
        """Entries of the table at ``order`` before the update, for the undo."""
        self._length = len(model._table)

    @property
    def table(self) -> FloatArray:
        """Gradient table of the model."""
        live: FloatArray = self.model._table.live
        return live

    def schedule(self, admitted: int, waiting: int, *, alternating: bool) -> int:
        """Fill ``order``, make room in the table for newly admitted rows, and return the next random word."""
        table, order, before = self.model._table, self.order, self.before
        table.lengthen(min(waiting, (len(order) + 1) // 2))
        live = table.live
        touched = np.empty((len(order), *live.shape[1:]))
        words = schedule(order, live, touched, admitted, waiting, before.seed, before.words, alternating)
        self.touched = touched
        if self.model._overwritten is not None:
            self.model._overwritten.append((table, order, table.first, touched))  # before the steps write
        self.model._touched.add(order, table.first, limit=len(live))
        return words

    def run(self) -> None:
        """Take the steps."""
        self.drawn = self.model._run(self.rows, self.order, self.fitted, self.table)

    def end(self) -> None:
        """Publish the updated model; DivergenceError if training diverged."""
        fitted = self.fitted
        fitted.check_finite()
        vars(fitted)["drawn"] = self.drawn  # frozen, but not published yet
        self.model._fitted = fitted

    def undo(self) -> None:
        """Restore the model, however far the update got."""
        if self.touched is not None:
            # A row that was visited twice has the same old entry in both places, so the order does not matter.
            self.table[self.order] = self.touched
        self.model._table.truncate(self._length)
        self.model._fitted = self.before


STEP_QUANTILE = 0.9
GROWN_ROWS = 1_000
NEVER = 2**61
AUTO_STEP = 0.1
"""Automatic step size times L. SAGA converges up to 1 / (3 L); 0.1 had the lowest mean error on drifting streams."""

Scorer = Callable[[Rows], FloatArray]


class LinearLearner(LinearOptions, ABC):
    """A linear model in training. A subclass defines its loss: curvature, steps and scores.

    The rows of a model have numbers. Rows ``lo`` to ``admitted`` are its sample set S, from which steps draw; rows
    ``admitted`` to ``hi`` are in the waiting room until there is budget to admit them. The gradient table has one entry
    (a scalar per output) for each row of S. An update writes the table in place and remembers what it overwrote; all
    else is one frozen value (:class:`~driftsurf.learners._linear.Linear`) that is replaced at the end.
    """

    capabilities: Capabilities
    curvature: ClassVar[float]
    """Largest second derivative of the loss of a row with respect to its score."""
    _fitted: Linear
    _unscaled: tuple[Linear, FloatArray, FloatArray]
    """A state of the model with its weights for unscaled columns and targets: as learned, and as used to predict."""
    _table: Buffer
    _touched: Touched
    _overwritten: list[tuple[Buffer, IntArray, int, FloatArray]] | None = None
    """Entries of the table that were overwritten since the last mark: their places, counted from the entry with this
    number, and their old values; None if it was never marked."""

    # -------------------------------------------------------------------- defined by a subclass

    @abstractmethod
    def _outputs(self, n_classes: int) -> int | None:
        """Return the number of weight columns for a number of classes (0: regression); None for one weight vector.

        CapabilityError if the learner does not support this number of classes.
        """

    @abstractmethod
    def _run(self, rows: Batch, order: IntArray, fitted: Linear, table: FloatArray) -> int:
        """Take one step at each row of ``order``, changing weights, gradient sum and table; return the rows drawn."""

    @abstractmethod
    def scores(self, X: Rows) -> FloatArray:
        """Return the scores of rows."""

    @abstractmethod
    def scorer(self) -> Scorer:
        """Return ``scores`` of the model as it is now; an update replaces the weights and never changes them."""

    @abstractmethod
    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of each row, given its score and its target."""

    def _met(self, fitted: Linear, samples: SampleStore, new: int) -> Linear:
        """Return the model after it has met the rows from number ``new`` on, and before it learns them."""
        return fitted

    def _recentred(self, fitted: Linear, rows: Batch) -> Linear:
        """Return the model with the centre of the targets subtracted, for regression."""
        return fitted

    # -------------------------------------------------------------------- template

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """Return a new model; ``seed`` fixes its first weights and all its draws."""
        self._check_params_once()
        start = blank(self._shape(n_features, n_classes), bool(self.fit_intercept))
        weights, words = start.weights, 0
        if self.start == "uniform":
            weights = weights.copy()
            words = fill_uniform(weights[: n_features + self.fit_intercept], seed, 0)
        step_size = math.nan if self.step_size == "auto" else float(self.step_size)
        return self._make(replace(start, weights=weights, step_size=step_size, seed=seed, words=words))

    def _check_params_once(self) -> None:
        """Raise OptionError if a parameter is invalid; values that were found valid are not checked again."""
        try:
            _check_params_of(type(self), *self.get_params().values())
        except TypeError:  # a value that cannot be remembered
            self._check_params()

    def _shape(self, n_features: int, n_classes: int) -> tuple[int, ...]:
        """Return the shape of the weights."""
        outputs = self._outputs(n_classes)
        return (n_features + 1,) if outputs is None else (n_features + 1, outputs)

    def fits(self, n_features: int, n_classes: int) -> bool:
        """Return whether the model was made for this many columns and classes."""
        return self._fitted.weights.shape == self._shape(n_features, n_classes)

    def _make(self, fitted: Linear) -> Self:
        # The constructor stores its arguments under their names and does nothing else, but takes twice as long.
        model = object.__new__(type(self))
        vars(model).update(self.get_params())
        full = fitted.full_weights
        model._fitted, model._unscaled = fitted, (fitted, full, fitted.predicting_weights(full))
        model._table = Buffer(np.float64, *fitted.weights.shape[1:])
        model._touched = Touched()
        return model

    # -------------------------------------------------------------------- learning

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Take ``steps`` gradient steps; the training set reaches to ``new.hi`` from now on."""
        return self.update_all((self,), samples, (new,), (steps,))

    @classmethod
    def update_all(
        cls, models: Sequence[Self], samples: SampleStore, new: Sequence[Segment], steps: Sequence[int]
    ) -> Undo:
        """Update several models made from one template, all or none, with the result of updating each in turn.

        A subclass that overrides ``update`` must override this too.
        """
        updates: list[Update] = []

        def undo() -> None:
            # In reverse order: if a model is updated twice, its first state comes back last.
            for update in reversed(updates):
                update.undo()

        try:
            for model, segment, count in zip(models, new, steps, strict=True):
                update = Update(model)
                updates.append(update)
                model._begin(update, samples, segment, count)
            cls._run_all(updates)
            for update in updates:
                update.end()
        except BaseException:
            undo()
            raise
        return undo

    @classmethod
    def _run_all(cls, updates: Sequence[Update]) -> None:
        """Take the steps of all updates."""
        for update in updates:
            update.run()

    def _begin(self, update: Update, samples: SampleStore, new: Segment, steps: int) -> None:
        """Prepare an update: the rows that its steps visit, room in the table, and the model that they change."""
        before, hi = update.before, new.hi
        lo, admitted, known = before.lo, before.admitted, before.hi
        if lo < 0:
            lo = admitted = known = new.lo
        if self.optimizer == "one-pass":
            steps = hi - lo
        if hi == lo:
            steps = 0  # there is no row to draw from
        update.rows = rows = samples.view(Segment(lo, hi))
        check_width(rows.X, before.weights)
        update.order = order = np.empty(steps, np.int64)
        if self._tabled:
            words = update.schedule(admitted - lo, hi - admitted, alternating=self.optimizer == "strsaga")
            admitted = lo + len(self._table)
        elif self.optimizer == "one-pass":
            order[:] = np.arange(steps)
            words, lo, admitted = before.words, hi, hi
        else:
            words, admitted = draw_uniformly(order, hi - lo, before.seed, before.words), hi
        after = replace(
            before,
            weights=before.weights.copy(),
            gradient_sum=before.gradient_sum.copy(),
            lo=lo,
            admitted=admitted,
            hi=hi,
            seen=before.seen + hi - known,
            gradients=before.gradients + steps,
            words=words,
        )
        if hi > known:
            after = self._met(after, samples, known)
        update.fitted = after if after.seen < after.rescale_at else self._rescaled(after, rows)

    def _rescaled(self, fitted: Linear, rows: Batch) -> Linear:
        """Return the model with scale and step size estimated again.

        That happens each time the number of rows has doubled, up to 1,000 rows. So a model born from one row is not
        bound to it, and a mature model keeps the coordinates in which its penalty, and thereby its risk, is measured.
        If the units of the data change later, that is a drift, and a model born after it has the new ones.
        """
        automatic = self.step_size == "auto"
        if not (self._scaled or automatic):
            return fitted
        if self._scaled:
            fitted = self._recentred(fitted.reframed(rows), rows)
        if automatic:
            fitted = replace(fitted, step_size=self._safe_step_size(fitted, rows))
        return replace(fitted, rescale_at=2 * fitted.seen if fitted.seen < GROWN_ROWS else NEVER)

    def _safe_step_size(self, fitted: Linear, rows: Batch) -> float:
        """Return 0.1 / L, where L is mu plus the 0.9 quantile over the rows of weight * |x|^2 * curvature.

        A quantile, so that one extreme row cannot stop learning.
        """
        usual = usual_norm(rows.X, rows.weight, fitted.factor, fitted.centre, STEP_QUANTILE)
        return AUTO_STEP / (float(self.l2) + self._curvature(fitted) * usual)

    def _curvature(self, fitted: Linear) -> float:
        """Return the curvature of the loss of this model."""
        return self.curvature

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Drop the oldest rows, admitted or waiting; the gradients of the admitted ones leave the average.

        The weights, and with them the scale and the range of the columns, stay as they are.
        """
        before = self._fitted
        if before.lo < 0 or before_row <= before.lo:
            return lambda: None
        gradient_sum, drawn = before.gradient_sum.copy(), before.drawn
        entries = self._table.live[:0]
        if self._tabled and before.admitted > before.lo:  # a retired model has no rows, nor has the store
            gone = Segment(before.lo, min(before_row, before.admitted))
            entries = self._table.live[: len(gone)].copy()
            drawn -= discharge(samples.view(gone).X, entries, gradient_sum, before.frame)
        after = replace(
            before,
            gradient_sum=gradient_sum,
            drawn=drawn,
            lo=before_row,
            admitted=max(before_row, before.admitted),
            hi=max(before_row, before.hi),
        )

        def undo() -> None:
            self._table.untrim(entries)
            self._fitted = before

        self._table.trim(len(entries))
        self._fitted = after
        return undo

    def mark(self) -> Any:
        """Return a mark of the model, for ``put_back``."""
        self._overwritten = []
        return vars(self).copy(), self._table.mark()

    def put_back(self, mark: Any) -> None:
        """Return to the marked model, from any point of ``update``, ``forget`` or ``grow``."""
        entries, place = mark
        table: Buffer = entries["_table"]
        table.put_back(place)
        for written, order, first, old in reversed(entries["_overwritten"]):
            if written is table:  # growing replaces the table
                places = order + (first - table.first)  # an update may have forgotten rows before it learned
                known = places < len(table)
                table.live[places[known]] = old[known]
        vars(self).update(entries)

    # -------------------------------------------------------------------- properties of the model

    def penalty(self) -> float:
        """Return mu/2 |u|^2, where u are the weights of the scaled columns."""
        return self._fitted.penalty(float(self.l2))

    def needs(self) -> int | None:
        """Return the first row of the sample set; None before the first update."""
        return None if self._fitted.lo < 0 else self._fitted.lo

    def grow(self, n_classes: int) -> Undo:
        """Raise CapabilityError: the number of classes is fixed when the model is made."""
        raise CapabilityError(
            f"the learner {name_of('learner', self)} cannot grow to {n_classes} classes (it lacks the capability "
            "'grows_classes'); pass all classes at the start, or use a learner that grows, such as softmax."
        )

    @property
    def _raw_weights(self) -> FloatArray:
        """Weights for unscaled columns and targets with which rows are predicted."""
        fitted, _, raw = self._unscaled
        return raw if fitted is self._fitted else self._both_weights()[1]

    def _both_weights(self) -> tuple[FloatArray, FloatArray]:
        """Return the weights for unscaled columns and targets, as learned and as used to predict.

        They are computed once for each state of the model.
        """
        fitted, full, raw = self._unscaled
        if fitted is not self._fitted:
            fitted = self._fitted
            full = fitted.full_weights
            raw = fitted.predicting_weights(full)
            self._unscaled = fitted, full, raw
        return full, raw

    @property
    def coef(self) -> FloatArray:
        """Weights of the columns; with several outputs, one row for each."""
        return np.array(_squeezed(self._raw_weights)[:-1].T)

    @property
    def ranges(self) -> tuple[FloatArray, FloatArray] | None:
        """Smallest and largest value of each column, to which rows are limited before they are scored; None: none."""
        limits = self._fitted.limits
        return None if limits is None else (limits[0], limits[1])

    @property
    def intercept(self) -> Any:
        """Intercept, a float; with several outputs, an array with one for each."""
        last = _squeezed(self._raw_weights)[-1]
        return float(last) if last.ndim == 0 else last.copy()

    @property
    def gradients(self) -> int:
        """Gradients computed so far."""
        return self._fitted.gradients

    @property
    def rows_admitted(self) -> int:
        """Size of the sample set S."""
        return self._fitted.admitted - self._fitted.lo

    @property
    def rows_waiting(self) -> int:
        """Number of rows in the waiting room."""
        return self._fitted.hi - self._fitted.admitted

    @property
    def nbytes(self) -> int:
        """Bytes held in addition to the rows."""
        return 2 * (self._fitted.weights.nbytes + self._fitted.factor.nbytes) + self._table.nbytes

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that learning changes; StateError for a template."""
        return resolved(self.incremental_state()) | {"table": self._table.live.copy()}

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with the gradient table as ``AppendOnlyArray``."""
        if "_fitted" not in vars(self):
            raise StateError(f"{self!r} is a template, which has no state; call fresh() first")
        entries = vars(self._fitted)
        state: IncrementalState = {
            name: entries[name] for name in self._fields(self._fitted.weights.ndim).entries if name != "table"
        }
        table, touched = self._table, self._touched
        stop = table.first + len(table)
        return state | {
            "table": AppendOnlyArray(table, table.first, stop, table.numbered, touched.version, changed=touched.since)
        }

    def _fields(self, dimensions: int) -> Fields:
        """Return the declaration of the saved entries of a model whose weights have this number of dimensions."""
        can = self.capabilities
        return linear_fields(dimensions, tabled=self._tabled, regression=can.regression, anchored=can.anchor)

    def _dimensions(self, saved: Any) -> int:
        """Return the number of dimensions that the weights of a saved model must have; ``saved`` are its own."""
        return 1 if self._outputs(self.capabilities.min_classes) is None else 2

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """Return the model that ``state()`` was called on; ``template`` has its parameters."""
        fields = template._fields(template._dimensions(state.get("weights")))
        known = fields.read(state)
        model = template._make(linear_from({name: known[name] for name in fields.entries if name != "table"}))
        model._table = Buffer.of(known["table"])
        return model

    def copied(self) -> Self:
        """Return the model that ``from_state`` would make from ``state()``; a subclass with more state overrides it."""
        model = self._make(self._fitted)  # an update replaces this value and never changes its arrays
        model._table = Buffer.of(self._table.live)
        return model

    def outside(self, stored: Segment) -> str:
        """Return the name of a saved row number that is not in the store; "" if all are."""
        fitted = self._fitted
        if fitted.hi > stored.hi:
            return "hi"
        # A retired model has no rows any more, and the store has dropped those before it.
        return "lo" if 0 <= fitted.lo < min(fitted.hi, stored.lo) else ""


@functools.lru_cache(maxsize=64, typed=True)
def _check_params_of(kind: Any, *values: Any) -> None:
    """Raise OptionError if one of these constructor arguments, in order, is invalid."""
    kind(**dict(zip(parameter_names(kind), values, strict=True)))._check_params()


def _squeezed(weights: FloatArray) -> FloatArray:
    """Return the weights of a single output as a vector."""
    return weights[:, 0] if weights.shape[1:] == (1,) else weights
