"""The linear learner on a stream: waiting room, sample set, gradient table, budget, undo. The loss is a subclass's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from driftsurf import _kernels
from driftsurf._buffer import Buffer, Touched
from driftsurf._options import choice, number, truth, whole
from driftsurf._values import replace
from driftsurf.base import (
    Batch,
    Capabilities,
    FloatArray,
    Growing,
    IntArray,
    Parts,
    Rows,
    SampleStore,
    Segment,
    State,
    Undo,
)
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners._linear import SAVED, SAVED_OF_CLASSES, Frame, Linear, blank, check_width, revived
from driftsurf.learners._update import Update
from driftsurf.sizes import squared_norms
from driftsurf.state import resolved

STEP_QUANTILE = 0.9
GROWN_ROWS = 1_000
NEVER = 2**61
OPTIMIZERS = "strsaga", "saga", "sgd", "one-pass"
AUTO_STEP = 0.1
"""Times 1 / L. SAGA converges up to 1 / (3 L); a tenth gave the lowest mean error on drifting streams."""

Optimizer = Literal["strsaga", "saga", "sgd", "one-pass"]
Scorer = Callable[[Rows], FloatArray]


class LinearLearner(ABC):
    """A linear model in training. A subclass says its loss: curvature, steps, scores."""

    capabilities: ClassVar[Capabilities]
    parameters: ClassVar[tuple[str, ...]] = (
        *("optimizer", "step_size", "scale", "l2", "steps_per_row", "steps_per_batch", "fit_intercept", "start"),
    )
    """The names of the constructor's arguments."""
    curvature: ClassVar[float]
    """The largest second derivative of the loss of a row, by its score."""
    quadratic: bool = False
    """Whether the loss of a row grows with the square of its score, not in proportion to it."""

    optimizer: Optimizer
    step_size: float | Literal["auto"]
    scale: bool | Literal["auto"]
    l2: float
    steps_per_row: float
    steps_per_batch: int | None
    fit_intercept: bool
    start: Literal["zeros", "uniform"]
    _fitted: Linear
    _raw: tuple[Linear, FloatArray]
    _table: Buffer
    _touched: Touched

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    # -------------------------------------------------------------------- what a subclass says

    @abstractmethod
    def _outputs(self, n_classes: int) -> int | None:
        """Columns of the weights for so many classes (0: values); None for one vector. CapabilityError if it cannot."""

    @abstractmethod
    def _run(self, rows: Batch, order: IntArray, fitted: Linear, table: FloatArray) -> int:
        """Take one step at each row of ``order``, changing weights, gradient sum and table; returns rows drawn."""

    @abstractmethod
    def _discharge(self, X: Rows, table: FloatArray, gradient_sum: FloatArray, frame: Frame) -> int:
        """Take the gradients of these rows out of the gradient sum; returns how many of them were drawn."""

    @abstractmethod
    def scores(self, X: Rows) -> FloatArray:
        """What the model says of rows."""

    @abstractmethod
    def scorer(self) -> Scorer:
        """``scores`` as it is now, whatever is learnt later: an update replaces the weights, never changes them."""

    @abstractmethod
    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """The loss of each row that has these scores."""

    def _recentred(self, fitted: Linear, rows: Batch) -> Linear:
        """Where targets are values: the same model with their usual place taken off."""
        return fitted

    # -------------------------------------------------------------------- template

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in self.parameters}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the template."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise OptionError(f"{type(self).__name__} has no parameter {name!r}; choices: {', '.join(known)}")
            setattr(self, name, value)
        return self

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """A new model; ``seed`` fixes its start and all its draws."""
        self._check_params()
        start = blank(self._shape(n_features, n_classes), bool(self.fit_intercept))
        weights, words = start.weights, 0
        if self.start == "uniform":
            weights = weights.copy()
            words = _kernels.fill_uniform(weights[: n_features + self.fit_intercept].reshape(-1), seed, 0)
        step_size = math.nan if self.step_size == "auto" else float(self.step_size)
        return self._born(replace(start, weights=weights, step_size=step_size, seed=seed, words=words))

    def _shape(self, n_features: int, n_classes: int) -> tuple[int, ...]:
        """The shape of the weights."""
        outputs = self._outputs(n_classes)
        return (n_features + 1,) if outputs is None else (n_features + 1, outputs)

    def fits(self, n_features: int, n_classes: int) -> bool:
        """Whether it is made for rows of so many columns and classes."""
        return self._fitted.weights.shape == self._shape(n_features, n_classes)

    def one_pass(self) -> Self:
        """A template like this one that learns each row once and keeps none."""
        return type(self)(**(self.get_params() | {"optimizer": "one-pass"}))

    def budget(self, new: Segment) -> int:
        """Rho for these rows. Fractions of a step are carried over by counting from row 0."""
        if self.optimizer == "one-pass":
            return len(new)
        if self.steps_per_batch is not None:
            return int(self.steps_per_batch)
        per_row = float(self.steps_per_row)
        return math.floor(per_row * new.hi) - math.floor(per_row * new.lo)

    def _born(self, fitted: Linear) -> Self:
        model = type(self)(**self.get_params())
        model._fitted, model._raw = fitted, (fitted, fitted.raw_weights)
        model._table = Buffer(np.float64, *fitted.weights.shape[1:])
        model._touched = Touched()
        return model

    def _check_params(self) -> None:
        choice("optimizer", self.optimizer, OPTIMIZERS)
        choice("start", self.start, ("zeros", "uniform"))
        truth("fit_intercept", self.fit_intercept)
        number("l2", self.l2, at_least=0.0)
        number("steps_per_row", self.steps_per_row, above=0.0)
        if self.steps_per_batch is not None:
            whole("steps_per_batch", self.steps_per_batch, at_least=1, otherwise=", or None")
        if self.scale != "auto":
            truth("scale", self.scale)
        if self.step_size != "auto":
            product = number("step_size", self.step_size, above=0.0, otherwise=", or 'auto'") * self.l2
            if product >= 1.0:
                raise OptionError(
                    f"step_size * l2 is {product:g}; it must be below 1 for the shrinking step "
                    "(1 - step_size * l2) to stay positive. Lower step_size."
                )

    # -------------------------------------------------------------------- learning

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Take ``steps`` gradient steps; the rows up to ``new.hi`` are known from now on."""
        return self.update_all((self,), samples, (new,), (steps,))

    @classmethod
    def update_all(
        cls, models: Sequence[Self], samples: SampleStore, new: Sequence[Segment], steps: Sequence[int]
    ) -> Undo:
        """``update`` of several models made from one template, all or none: the same, perhaps faster.

        A subclass that changes ``update`` changes this as well.
        """
        begun: list[Update] = []

        def undo() -> None:
            for update in reversed(begun):
                update.undo()

        try:
            for model, segment, count in zip(models, new, steps, strict=True):
                update = Update(model)
                begun.append(update)
                model._begin(update, samples, segment, count)
            cls._run_all(begun)
            for update in begun:
                update.end()
        except BaseException:
            undo()
            raise
        return undo

    @classmethod
    def _run_all(cls, updates: Sequence[Update]) -> None:
        """Take the steps of all."""
        for update in updates:
            update.run()

    def _begin(self, update: Update, samples: SampleStore, new: Segment, steps: int) -> None:
        """All of an update but its steps: which rows they visit, room in the table, the model to be changed."""
        before, hi = update.before, new.hi
        lo, admitted, known = before.lo, before.admitted, before.hi
        if lo < 0:
            lo = admitted = known = new.lo
        if self.optimizer == "one-pass":
            steps = hi - lo
        if hi == lo:
            steps = 0  # there is no row to draw
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
            words, admitted = _kernels.draw_uniformly(order, hi - lo, before.seed, before.words), hi
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
        update.fitted = after if after.seen < after.renew_at else self._renewed(after, rows)

    @property
    def _tabled(self) -> bool:
        """Whether gradients are kept, one for each row of the sample set."""
        return self.optimizer in ("strsaga", "saga")

    def _renewed(self, fitted: Linear, rows: Batch) -> Linear:
        """Scale and step size worked out again: each time the number of rows has doubled, up to 1,000 rows.

        So a model born from one row is not bound to it; and one that is grown keeps its coordinates, in
        which its penalty and thereby its risks are measured. If the world changes its units, that is a
        drift, and a model born after it has the new ones.
        """
        automatic = self.step_size == "auto"
        scaled = automatic if self.scale == "auto" else self.scale
        if not (scaled or automatic):
            return fitted
        if scaled:
            fitted = self._recentred(fitted.reframed(rows), rows)
        if automatic:
            fitted = replace(fitted, step_size=self._safe_step_size(fitted, rows))
        return replace(fitted, renew_at=2 * fitted.seen if fitted.seen < GROWN_ROWS else NEVER)

    def _safe_step_size(self, fitted: Linear, rows: Batch) -> float:
        """0.1 / L, L = mu + the 0.9 quantile over the rows of weight * |x|^2 * curvature.

        A quantile, so that one absurd row cannot freeze learning.
        """
        counted = rows.weight > 0.0
        sizes = squared_norms(rows.X, fitted.factor, fitted.centre)[counted] * rows.weight[counted]
        usual = float(np.quantile(sizes, STEP_QUANTILE, method="lower")) if len(sizes) else math.nan
        usual = usual if math.isfinite(usual) and usual > 0.0 else 1.0
        return AUTO_STEP / (float(self.l2) + self.curvature * usual)

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Drop the oldest rows, admitted or waiting; the gradients of the admitted leave the average."""
        before = self._fitted
        if before.lo < 0 or before_row <= before.lo:
            return lambda: None
        gradient_sum, drawn = before.gradient_sum.copy(), before.drawn
        entries = self._table.live[:0]
        if self._tabled:
            gone = Segment(before.lo, min(before_row, before.admitted))
            entries = self._table.live[: len(gone)].copy()
            drawn -= self._discharge(samples.view(gone).X, entries, gradient_sum, before.frame)
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

    # -------------------------------------------------------------------- reading

    def losses(self, batch: Batch) -> FloatArray:
        """The loss of each row, without the penalty."""
        return self.row_losses(self.scores(batch.X), batch.y)

    def penalty(self) -> float:
        """mu/2 |u|^2, u the weights of the scaled columns."""
        return self._fitted.penalty(float(self.l2))

    def needs(self) -> int | None:
        """The first row of the sample set."""
        return None if self._fitted.lo < 0 else self._fitted.lo

    def grow(self, *, n_classes: int | None = None, n_features: int | None = None) -> Undo:
        """Refused: the classes and the columns that it began with are all that it can do."""
        raise CapabilityError(
            f"{type(self).__name__} cannot grow to n_classes={n_classes}, n_features={n_features} (it has not the "
            "capability 'grows_classes' or 'grows_features'): name all classes and columns at the start, or use "
            "a learner that grows, such as SoftmaxRegression for classes."
        )

    @property
    def _raw_weights(self) -> FloatArray:
        """The weights for columns and targets as they are: worked out once for each state of the model."""
        fitted, raw = self._raw
        if fitted is not self._fitted:
            raw = self._fitted.raw_weights
            self._raw = self._fitted, raw
        return raw

    @property
    def coef(self) -> FloatArray:
        """The weights of the features; with several outputs, a row for each."""
        return np.array(_squeezed(self._raw_weights)[:-1].T)

    @property
    def intercept(self) -> Any:
        """The weight of the constant column, for each output."""
        last = _squeezed(self._raw_weights)[-1]
        return float(last) if last.ndim == 0 else last.copy()

    @property
    def gradients(self) -> int:
        """Gradients computed so far."""
        return self._fitted.gradients

    @property
    def rows_admitted(self) -> int:
        """|S|, the size of the sample set."""
        return self._fitted.admitted - self._fitted.lo

    @property
    def rows_waiting(self) -> int:
        """Rows in the waiting room."""
        return self._fitted.hi - self._fitted.admitted

    @property
    def nbytes(self) -> int:
        """Bytes held beside the rows."""
        return 2 * (self._fitted.weights.nbytes + self._fitted.factor.nbytes) + self._table.nbytes

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Everything that learning changes."""
        return resolved(self.parts()) | {"table": self._table.live.copy()}

    def parts(self) -> Parts:
        """The same, with the table as what grows with the rows."""
        state: Parts = {name: getattr(self._fitted, name) for name in self._saved_names}
        table, touched = self._table, self._touched
        stop = table.first + len(table)
        return state | {
            "table": Growing(table, table.first, stop, table.numbered, touched.version, changed=touched.since)
        }

    @property
    def _saved_names(self) -> list[str]:
        """The entries of the fitted model that are saved."""
        return SAVED if self.capabilities.values else SAVED_OF_CLASSES

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """The model that gave ``state``; ``template`` has its parameters."""
        try:
            fitted = revived({name: state[name] for name in template._saved_names})
            table = state["table"]
        except KeyError as error:
            raise StateError(f"the saved model has no entry {error}: it is not a {cls.__name__}") from error
        dimensions = 1 if template._outputs(template.capabilities.least_classes) is None else 2
        fitted.check(table, tabled=template._tabled, dimensions=dimensions)
        model = template._born(fitted)
        model._table = Buffer.of(table)
        return model


def _squeezed(weights: FloatArray) -> FloatArray:
    return weights[:, 0] if weights.shape[1:] == (1,) else weights
