"""L2-regularised logistic regression, trained by STRSAGA or SGD within a compute budget."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from driftsurf import _kernels
from driftsurf._buffer import Buffer, Touched
from driftsurf._options import choice, number, truth, whole
from driftsurf._values import replace
from driftsurf.base import (
    CSR,
    Batch,
    Capabilities,
    FloatArray,
    Growing,
    Parts,
    Rows,
    SampleStore,
    Segment,
    State,
    Undo,
)
from driftsurf.errors import CapabilityError, OptionError, StateError
from driftsurf.learners._linear import Linear, check_width, margins, margins_of_all
from driftsurf.sizes import squared_norms
from driftsurf.state import resolved

__all__ = ["LogisticRegression", "paper_learner"]

PARAMETERS = "optimizer", "step_size", "scale", "l2", "steps_per_row", "steps_per_batch", "fit_intercept", "start"
STEP_QUANTILE = 0.9
GROWN_ROWS = 1_000
NEVER = 2**61
OPTIMIZERS = "strsaga", "saga", "sgd", "one-pass"
AUTO_STEP = 0.1
"""Times 1 / L. SAGA converges up to 1 / (3 L); a tenth gave the lowest mean error on drifting streams."""


class LogisticRegression:
    r"""Linear model for two classes: minimises the mean of log(1 + exp(-y w.x)) plus mu/2 |w|^2.

    With ``optimizer="strsaga"`` new rows enter a waiting room; of the rho steps of an update every
    other one admits the oldest waiting row to the sample set S, the rest draw uniformly from S:

    .. math:: w \leftarrow (1 - \eta\mu) w - \eta (g - \alpha_p + A), \qquad \alpha_p \leftarrow g,

    where g is the gradient of the loss at row p, alpha_p the one from its last visit (0 at first)
    and A their average over S. A budget below two steps a row leaves rows waiting; they are admitted
    later, when there is time.

    Parameters
    ----------
    optimizer
        "strsaga"; "saga", whose set grows likewise while every step draws uniformly from it; "sgd", which
        draws uniformly from all rows and keeps no gradients; or "one-pass", which takes one SGD step at each
        new row in order of arrival, whatever the budget, and keeps no row.
    step_size
        eta. "auto" takes 0.1 / L, where L is the curvature of the loss at all but the largest
        tenth of the rows; it is worked out from the first rows, and again at each doubling up to 1,000.
    scale
        Whether to learn as if each column were divided by its usual size (a robust mean of its absolute
        non-zero values), and a column off zero (a price, degrees Kelvin) were first centred, so that
        columns of any unit need no preparation. "auto" does so when the step size is "auto" too; a step
        size of your own is meant for the columns as they are. Worked out when the step size is; rows
        stay as they are, and so does the model at that moment.
    l2
        mu. The intercept is the weight of a constant column and is regularised like the others.
    steps_per_row
        The budget: rho = steps_per_row times the number of new rows.
    steps_per_batch
        A fixed rho for every update, whatever arrives, in place of ``steps_per_row``.
    fit_intercept
        Whether there is a constant column.
    start
        Weights of a fresh model: "zeros", or "uniform" for independent uniform(0, 1) (the paper's).

    Examples
    --------
    >>> from driftsurf.samples import Samples
    >>> X = np.linspace(-1, 1, 200).reshape(-1, 1)
    >>> samples = Samples(n_features=1)
    >>> new = samples.append(X, (X[:, 0] > 0).astype(float))
    >>> model = LogisticRegression(l2=1e-3).fresh(seed=0, n_features=1, n_classes=2)
    >>> _ = model.update(samples, new, steps=2000)
    >>> bool(np.mean((model.scores(X) > 0) == (X[:, 0] > 0)) > 0.97)
    True

    References
    ----------
    E. Jothimurugesan, A. Tahmasbi, P. B. Gibbons, S. Tirthapura. Variance-reduced stochastic
    gradient descent on streaming data. NeurIPS 2018.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(anchor=True)

    def __init__(
        self,
        *,
        optimizer: Literal["strsaga", "saga", "sgd", "one-pass"] = "strsaga",
        step_size: float | Literal["auto"] = "auto",
        scale: bool | Literal["auto"] = "auto",
        l2: float = 1e-4,
        steps_per_row: float = 2.0,
        steps_per_batch: int | None = None,
        fit_intercept: bool = True,
        start: Literal["zeros", "uniform"] = "zeros",
    ) -> None:
        self.optimizer = optimizer
        self.step_size = step_size
        self.scale = scale
        self.l2 = l2
        self.steps_per_row = steps_per_row
        self.steps_per_batch = steps_per_batch
        self.fit_intercept = fit_intercept
        self.start = start

    def __repr__(self) -> str:
        return f"LogisticRegression({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"

    # -------------------------------------------------------------------- template

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the template."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise OptionError(f"LogisticRegression has no parameter {name!r}; choices: {', '.join(known)}")
            setattr(self, name, value)
        return self

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """A new model; ``seed`` fixes its start and all its draws."""
        self._check_params()
        if n_classes > 2:
            raise CapabilityError(
                f"LogisticRegression tells two classes apart, not {n_classes}: merge classes, or use a learner "
                "whose tasks include 'multiclass'."
            )
        weights, words = np.zeros(n_features + 1), 0
        if self.start == "uniform":
            words = _kernels.fill_uniform(weights[: n_features + self.fit_intercept], seed, 0)
        step_size = math.nan if self.step_size == "auto" else float(self.step_size)
        factor = np.ones(n_features + 1)
        factor[-1] = float(self.fit_intercept)
        gradient_sum, centre, anchor = np.zeros(n_features + 1), np.zeros(n_features + 1), np.zeros(0)
        return self._born(
            Linear(weights, gradient_sum, factor, centre, anchor, step_size=step_size, seed=seed, words=words)
        )

    def anchored(self, models: Sequence[Self], shares: FloatArray) -> Self:
        """This fresh model, held by the penalty to the weighted sum of ``models`` instead of the origin."""
        anchor = np.zeros_like(self._fitted.weights)
        for model, share in zip(models, shares, strict=True):
            anchor += share * model._fitted.raw_weights
        return self._born(replace(self._fitted, weights=self._fitted.weights - anchor, anchor=anchor))

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
        model._fitted = fitted
        model._table = Buffer(np.float64)
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
        before = self._fitted
        lo = new.lo if before.lo < 0 else before.lo
        admitted = lo if before.lo < 0 else before.admitted
        if self.optimizer == "one-pass":
            steps = new.hi - lo
        if new.hi == lo:
            steps = 0  # there is no row to draw
        rows = samples.view(Segment(lo, new.hi))
        check_width(rows.X, before.weights)
        order, words = np.empty(steps, np.int64), before.words
        table_length = len(self._table)
        touched: FloatArray | None = None

        def undo() -> None:
            if touched is not None:
                self._table.live[order] = touched
            self._table.truncate(table_length)
            self._fitted = before

        try:
            if self._tabled:
                schedule = _kernels.alternate if self.optimizer == "strsaga" else _kernels.grow_and_draw
                count, words = schedule(order, admitted - lo, new.hi - admitted, before.seed, words)
                admitted += count
                self._table.extend(count, math.nan)
                self._touched.add(order, self._table.first, limit=len(self._table))
                touched = np.empty(steps)
                _kernels.gather(self._table.live, order, touched)
            elif self.optimizer == "one-pass":
                order[:] = np.arange(steps)
                lo = admitted = new.hi
            else:
                words = _kernels.draw_uniformly(order, new.hi - lo, before.seed, words)
                admitted = new.hi
            after = replace(
                before,
                weights=before.weights.copy(),
                gradient_sum=before.gradient_sum.copy(),
                lo=lo,
                admitted=admitted,
                hi=new.hi,
                seen=before.seen + new.hi - (new.lo if before.lo < 0 else before.hi),
                gradients=before.gradients + steps,
                words=words,
            )
            after = self._renewed(after, rows)
            drawn = self._run(rows, order, after, self._table.live)
            after.check_finite()
            self._fitted = replace(after, drawn=drawn)
        except BaseException:
            undo()
            raise
        return undo

    @property
    def _tabled(self) -> bool:
        """Whether gradients are kept, one for each row of the sample set."""
        return self.optimizer in ("strsaga", "saga")

    def _run(self, rows: Batch, order: Any, fitted: Linear, table: FloatArray) -> int:
        X, y, weight, _ = rows
        how = fitted.step_size, float(self.l2), fitted.frame, fitted.offsets(X)
        if self._tabled:
            model = fitted.weights, fitted.gradient_sum, table
            if isinstance(X, CSR):
                sparse = X.data, X.indices, X.indptr, y, weight
                return int(_kernels.saga_csr(sparse, order, model, fitted.drawn, *how))
            return int(_kernels.saga_dense((X, y, weight), order, model, fitted.drawn, *how))
        if isinstance(X, CSR):
            _kernels.sgd_csr((X.data, X.indices, X.indptr, y, weight), order, fitted.weights, *how)
        else:
            _kernels.sgd_dense((X, y, weight), order, fitted.weights, *how)
        return 0

    def _renewed(self, fitted: Linear, rows: Batch) -> Linear:
        """Scale and step size worked out again, each time the number of rows has doubled, up to 1,000 rows.

        So a model born from one row is not bound to it; and one that is grown keeps its coordinates, in
        which its penalty and thereby its risks are measured. If the world changes its units, that is a
        drift, and a model born after it has the new ones.
        """
        automatic = self.step_size == "auto"
        scaled = automatic if self.scale == "auto" else self.scale
        if fitted.seen < fitted.renew_at or not (scaled or automatic):
            return fitted
        if scaled:
            fitted = fitted.reframed(rows)
        if automatic:
            fitted = replace(fitted, step_size=self._safe_step_size(fitted, rows))
        return replace(fitted, renew_at=2 * fitted.seen if fitted.seen < GROWN_ROWS else NEVER)

    def _safe_step_size(self, fitted: Linear, rows: Batch) -> float:
        """0.1 / L, L = mu + the 0.9 quantile over the rows of weight * |x|^2 / 4.

        A quantile, so that one absurd row cannot freeze learning.
        """
        counted = rows.weight > 0.0
        curvature = squared_norms(rows.X, fitted.factor, fitted.centre)[counted] * rows.weight[counted] / 4.0
        usual = float(np.quantile(curvature, STEP_QUANTILE, method="lower")) if len(curvature) else math.nan
        return AUTO_STEP / (float(self.l2) + (usual if math.isfinite(usual) and usual > 0.0 else 0.25))

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Drop the oldest rows, admitted or waiting; the gradients of the admitted leave the average."""
        before = self._fitted
        if before.lo < 0 or before_row <= before.lo:
            return lambda: None
        gradient_sum, drawn, count = before.gradient_sum.copy(), before.drawn, 0
        if self._tabled:
            gone = Segment(before.lo, min(before_row, before.admitted))
            count = len(gone)
            X, table, frame = samples.view(gone).X, self._table.live[:count], before.frame
            if isinstance(X, CSR):
                drawn -= int(_kernels.discharge_csr(X.data, X.indices, X.indptr, table, gradient_sum, frame))
            else:
                drawn -= int(_kernels.discharge_dense(X, table, gradient_sum, frame))
        after = replace(
            before,
            gradient_sum=gradient_sum,
            drawn=drawn,
            lo=before_row,
            admitted=max(before_row, before.admitted),
            hi=max(before_row, before.hi),
        )

        def undo() -> None:
            self._table.untrim(count)
            self._fitted = before

        self._table.trim(count)
        self._fitted = after
        return undo

    # -------------------------------------------------------------------- reading

    def scores(self, X: Rows) -> FloatArray:
        """Margins w.x + intercept: above 0 means class 1."""
        return margins(self._fitted.raw_weights, X)

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """``scores`` as it is now, whatever is learnt later: an update replaces the weights, never changes them."""
        return functools.partial(margins, self._fitted.raw_weights)

    @classmethod
    def joint_scorer(cls, models: Sequence[Self]) -> Callable[[Rows], FloatArray]:
        """``scorer`` of several models in one pass over the rows: a row of the result for each."""
        return functools.partial(margins_of_all, np.array([model._fitted.raw_weights for model in models]))

    def losses(self, batch: Batch) -> FloatArray:
        """Logistic loss of each row."""
        return self.row_losses(self.scores(batch.X), batch.y)

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """The loss of each row that has these scores."""
        values = np.empty(len(y))
        _kernels.logistic_losses(scores, y, values)
        return values

    def penalty(self) -> float:
        """mu/2 |u|^2, u the weights of the scaled columns."""
        return self._fitted.penalty(float(self.l2))

    def needs(self) -> int | None:
        """The first row of the sample set."""
        return None if self._fitted.lo < 0 else self._fitted.lo

    def grow(self, *, n_classes: int | None = None, n_features: int | None = None) -> None:
        """Refused: two classes and a fixed width are all it can do."""
        raise CapabilityError(
            f"LogisticRegression cannot grow to n_classes={n_classes}, n_features={n_features}: it tells two classes "
            "apart and keeps the columns it began with."
        )

    @property
    def coef(self) -> FloatArray:
        """The weights of the features."""
        return self._fitted.raw_weights[:-1].copy()

    @property
    def intercept(self) -> float:
        """The weight of the constant column."""
        return float(self._fitted.raw_weights[-1])

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
        return 4 * self._fitted.weights.nbytes + self._table.nbytes

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Everything that learning changes."""
        return resolved(self.parts()) | {"table": self._table.live.copy()}

    def parts(self) -> Parts:
        """The same, with the table as what grows with the rows."""
        state: Parts = {name: getattr(self._fitted, name) for name in Linear.__slots__}
        table, touched = self._table, self._touched
        stop = table.first + len(table)
        return state | {
            "table": Growing(table, table.first, stop, table.numbered, touched.version, changed=touched.since)
        }

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """The model that gave ``state``; ``template`` has its parameters."""
        try:
            fitted = Linear(**{name: state[name] for name in Linear.__slots__})
            table = state["table"]
        except KeyError as error:
            raise StateError(f"the saved model has no entry {error}: it is not a LogisticRegression") from error
        fitted.check(table, tabled=template._tabled)
        model = template._born(fitted)
        model._table.append(table)
        return model

    _fitted: Linear
    _table: Buffer
    _touched: Touched


def paper_learner(step_size: float | Literal["auto"], l2: float, **options: Any) -> LogisticRegression:
    """The paper's base learner: columns as they are, weights that start uniform in (0, 1).

    >>> paper_learner(1e-3, 1e-2).start
    'uniform'
    """
    return LogisticRegression(**({"step_size": step_size, "l2": l2, "scale": False, "start": "uniform"} | options))
