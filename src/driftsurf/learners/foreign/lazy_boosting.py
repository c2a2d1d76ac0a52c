"""Boosted trees of LightGBM that are refitted only when their loss has risen, or on a short window."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from driftsurf.core.changes import replace
from driftsurf.core.contracts import CSR, Batch, FloatArray, Rows, SampleStore, Segment, State
from driftsurf.core.fields import Array, FieldRule, Fields, Real, Text, Truth, Values, Whole
from driftsurf.core.options import number, truth, whole
from driftsurf.core.state import nest, pick
from driftsurf.errors import StateError
from driftsurf.learners.foreign._base import LEAST_PROBABILITY, FittedModel, Risk, declared
from driftsurf.learners.foreign._boosted import INSTALL, Boosted, lacks, lightgbm
from driftsurf.learners.foreign.boosting import MOST_DENSE, BoostedTrees, Size
from driftsurf.native.linear import weighted_sum
from driftsurf.native.trees import log_shares
from driftsurf.registry import ALL_TASKS, CLASSIFICATION, REGRESSION, Example, register

SUDDEN = 0.25
"""Summed excess at which a model on a short window is refitted before its turn: its concept has ended."""
KEPT = 0.8
"""Share of the old reference in the new one."""
MOST_BATCHES = 1_000
GATHERED, ALONE = 64, 30
"""Rows that small batches gather before they decide, since the loss on few rows is noise; and the rows of a batch that
decides alone."""
PARTS = 16
"""Small batches gather no less than this part of the window: a fit to more rows takes longer, and a few more of them
change it less."""


@dataclass(frozen=True)
class Pace:
    """Losses and counts since the last fit, which decide when the model is fitted again."""

    reference: float = math.nan
    """Usual loss on the first batch after a fit, for numbers never above a later loss; NaN before there was one."""
    excess: float = 0.0
    """Sum of the losses beyond the reference since the last fit, not below 0."""
    judged: bool = True
    """Whether the loss on the first batch after the last fit has been measured."""
    waited: int = 0
    """Number of gathered batches since the last fit."""
    starts: tuple[int, ...] = ()
    """First rows of the last gathered batches, for a window of them."""
    alone: int = ALONE
    """Rows of a batch that decides alone; 1 in a state of version 0.2, which gathered none."""
    rows: int = 0
    """Number of rows gathered so far."""
    mass: float = 0.0
    """Sum of their weights."""
    lost: float = 0.0
    """Weighted sum of their losses."""

    def gathered(self, rows: int, mass: float, lost: float) -> Pace:
        """Return the pace with more gathered rows."""
        return replace(self, rows=self.rows + rows, mass=self.mass + mass, lost=self.lost + lost)

    def decided(self) -> Pace:
        """Return the pace after the gathered rows have decided."""
        return replace(self, waited=self.waited + 1, rows=0, mass=0.0, lost=0.0)

    def after_loss(self, loss: float, *, falls: bool) -> Pace:
        """Return the pace after a loss of the model on a batch that it has not learned; NaN is no evidence.

        If the reference ``falls``, it is never above that loss. Squared errors differ between seasons by more than the
        tolerance: after a hard season a high reference would let no fit come for the rest of the stream.
        """
        if math.isnan(loss):
            return self
        reference = self.reference
        if not self.judged or math.isnan(reference):
            reference = loss if math.isnan(reference) else KEPT * reference + (1.0 - KEPT) * loss
        if falls:
            reference = min(reference, loss)
        return replace(self, reference=reference, excess=max(0.0, self.excess + loss - reference), judged=True)

    def after_fit(self) -> Pace:
        """Return the pace after the model has been fitted."""
        return replace(self, excess=0.0, judged=False, waited=0)


@register(
    "learner",
    "lightgbm-lazy",
    title="LightGBM, lazy",
    tasks=ALL_TASKS,
    requires=["lightgbm"],
    install=INSTALL,
    lacks=lacks,
    task_options={"regression": {"task": "regression"}},
    draws=False,
    examples=[
        Example({}, "classes", CLASSIFICATION),
        Example({"batches": 4}, "short window", CLASSIFICATION),
        Example({"task": "regression"}, "regression", REGRESSION),
    ],
)
class LazyBoostedTrees(BoostedTrees):
    r"""LightGBM with fewer trees than :class:`BoostedTrees`, refitted only when that promises to help.

    A fit costs a hundred times as much as a prediction, and most fits change little. Let :math:`\ell_t` be the log loss
    on batch t before learning it, and :math:`\bar\ell` its usual value right after a fit, a moving average in which
    each new value has the weight one fifth. The excess

    .. math:: s_t = \max(0, s_{t-1} + \ell_t - \bar\ell)

    starts from 0 at each fit. The model is fitted again when the excess is above ``tolerance``, when the share
    ``renewed`` of its window is new, or when a new class has come. For regression the loss is the squared error as a
    share of the variance, and :math:`\bar\ell` falls at once to a lower loss. Batches of fewer than 30 rows are
    gathered until they have 64 together, or a sixteenth of the window, and count as one, so that one row at a time is
    learned well too; only the first rows are fitted whenever they have about doubled. There are 25 trees of 31 leaves
    on the last 10,000 rows; with more than two classes rounds of trees of 15 leaves, 10 on the last 4,000 rows or, if
    ``thorough``, 20 on the last 10,000. The learning rate is 0.2.

    Parameters
    ----------
    task
        "classification" or "regression".
    batches
        None fits when needed. A number fits to the rows of that many last batches alone, once in half as many batches
        or as soon as the excess is above 0.25: a short window that follows fast drift.
    tolerance
        Summed excess of the loss above which the model is fitted again.
    least_new, renewed
        Shares of the window. The excess counts once the share ``least_new`` of the window is new; when the share
        ``renewed`` of it is new, the model is fitted in any case.
    bins
        Number of bins of a column.
    thorough
        Whether there are 20 rounds instead of 10 with more than two classes, on more rows: about twice the time.
    risk
        As for :class:`driftsurf.learners.foreign.SklearnLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import SEA
    >>> model = DriftSurfClassifier(LazyBoostedTrees(), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in SEA(n_rows=2_000).batches(400)]
    >>> print(f"{np.mean(errors[1:]):.1f}")
    0.1
    """

    sizes: ClassVar[tuple[Size, Size]] = (
        Size(trees=25, leaves=31, least=5, rows=10_000),
        Size(trees=10, leaves=15, least=20, rows=4_000),
    )
    larger: ClassVar[Size] = Size(trees=20, leaves=15, least=20, rows=10_000)

    def __init__(
        self,
        *,
        task: Literal["classification", "regression"] = "classification",
        batches: int | None = None,
        tolerance: float = 0.02,
        least_new: float = 0.0,
        renewed: float = 0.25,
        bins: int = 63,
        thorough: bool = False,
        risk: Risk = "auto",
    ) -> None:
        self.bins = bins
        super().__init__(task=task, risk=risk)
        self.batches = batches
        self.tolerance = tolerance
        self.least_new = least_new
        self.renewed = renewed
        self.thorough = thorough

    def _size(self, fitted: FittedModel) -> Size:
        # A state of version 0.2 goes on as it did.
        grows = self.thorough and (fitted.memory is None or fitted.memory.alone > 1)
        return self.larger if grows and fitted.n_classes > 2 else super()._size(fitted)

    def _settings(self) -> Mapping[str, Any]:
        return {"max_bin": self.bins, "learning_rate": 0.2}

    @cached_property
    def _fixed(self) -> dict[str, Any]:
        """Parameters of LightGBM that are the same for each fit."""
        wrapper = "n_estimators", "importance_type", "class_weight", "objective", "n_jobs"
        params = self.estimator.get_params()
        return {name: value for name, value in params.items() if name not in wrapper} | {"num_threads": 1}

    def _fit(self, known: FittedModel, X: Any, y: npt.NDArray[Any], weights: Mapping[str, FloatArray]) -> Any:
        # The interface for scikit-learn checks the rows again and copies the finished model: a tenth of a fit.
        package = lightgbm()
        chosen, coded = self._chosen(known), list[int]()
        if self._categories:
            X, coded = self._coding.coded_rows(X), self._coding.coded
        classes = int(y.max()) + 1 if known.n_classes else 0
        objective = {0: "regression", 2: "binary"}.get(classes, "multiclass")
        params = self._fixed | chosen | {"objective": objective, "random_state": known.seed % 2**31}
        params |= {"num_class": classes} if classes > 2 else {}
        trees = params.pop("n_estimators")
        matrix = X if isinstance(X, np.ndarray) else csr_matrix(X)
        rows = package.Dataset(
            matrix, y, weight=weights.get("sample_weight"), categorical_feature=coded or "auto", params=params
        )
        booster = package.Booster(params, rows)
        for _ in range(trees):
            booster.update()
        if matrix.shape[1] > MOST_DENSE:  # a copy has no histograms, which are large then
            booster = package.Booster(model_str=booster.model_to_string())
        return Boosted(booster)

    def _scored(self, fitted: FittedModel, X: Rows) -> FloatArray:
        if not isinstance(fitted.model, Boosted):
            return super()._scored(fitted, X)
        rows: Any = self._coding.coded_rows(self._matrix(X)) if self._categories else X
        if not isinstance(rows, CSR):
            rows = np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else _csr(rows)
        if not fitted.n_classes:
            return fitted.model.sums(rows)[:, 0]
        assert fitted.present is not None
        return log_shares(fitted.model.sums(rows), fitted.present, fitted.n_classes, LEAST_PROBABILITY)

    def _check(self) -> None:
        super()._check()
        number("tolerance", self.tolerance, at_least=0.0)
        number("least_new", self.least_new, at_least=0.0, below=1.0)
        number("renewed", self.renewed, above=0.0)
        whole("bins", self.bins, at_least=2, at_most=255)
        truth("thorough", self.thorough)
        if self.batches is not None:
            whole("batches", self.batches, at_least=1, at_most=MOST_BATCHES, otherwise=", or None")

    _given_scores: tuple[Segment, FloatArray] | None = None
    """Scores of rows that the next update learns, so that they are not predicted twice."""

    def set_scores(self, new: Segment, scores: FloatArray | None) -> None:
        """Pass the scores that the model gave for rows that the next update learns; None if they are not known."""
        self._given_scores = None if scores is None else (new, scores)

    def _learn(self, known: FittedModel, samples: SampleStore, new: Segment, steps: int) -> FittedModel:
        given, self._given_scores = self._given_scores, None
        pace: Pace = known.memory or Pace()
        if len(new) == 0:
            return known
        lo = max(known.lo, known.hi - self._size(known).rows)
        if self.batches is not None:
            starts = pace.starts if pace.rows and pace.starts else (*pace.starts, new.lo)[-self.batches :]
            pace = replace(pace, starts=starts)
            lo = max(lo, starts[0])
        if lo > known.lo:
            known = replace(known, lo=min(lo, known.hi))
        if known.fit is None or known.present is None:
            return self._fitted_again(known, pace.decided(), samples, steps)
        batch = samples.view(new)
        scores = given[1] if given is not None and given[0] == new else self._scored(known, batch.X)
        lost, mass = weighted_sum(self.row_losses(scores, batch.y), batch.weight)
        pace = pace.gathered(len(new), mass, lost)
        alone = len(new) >= pace.alone
        most = max(GATHERED, (known.hi - known.lo) // PARTS)
        if not alone and pace.rows < min(most, known.gradients):
            return replace(known, memory=pace)
        # A model of fewer rows than are gathered is no measure of later ones, and is soon replaced.
        due = not alone and pace.rows < most
        if not due:
            first = min(new.lo, max(known.lo, known.hi - pace.rows))
            falls = not known.n_classes and pace.alone > 1  # a state of version 0.2 goes on as it did
            pace = pace.after_loss(self._gathered_loss(known, pace, samples), falls=falls)
            due = self._is_due(known, pace, samples.view(Segment(first, known.hi)))
        pace = pace.decided()
        return self._fitted_again(known, pace, samples, steps) if due else replace(known, memory=pace)

    def _fitted_again(self, known: FittedModel, pace: Pace, samples: SampleStore, steps: int) -> FittedModel:
        fitted = self._refitted(known, samples, steps)
        return replace(fitted, memory=pace.after_fit() if fitted.fit is not known.fit else pace)

    def _is_due(self, known: FittedModel, pace: Pace, batch: Batch) -> bool:
        """Return whether the model has to be fitted again, after the gathered rows."""
        assert known.fit is not None
        if self.batches is not None:
            return pace.waited + 1 >= max(1, self.batches // 2) or pace.excess > SUDDEN
        new = (known.hi - known.fit.hi) / (known.hi - known.lo)
        if new >= self.renewed or (pace.excess > self.tolerance and new >= self.least_new):
            return True
        if known.present is None:
            return False
        counted = batch.y[batch.weight > 0.0].astype(np.int64)
        return bool(known.n_classes) and not np.isin(counted, known.present).all()

    def _gathered_loss(self, known: FittedModel, pace: Pace, samples: SampleStore) -> float:
        """Return the mean loss on the gathered rows; NaN if none has weight, or the variance is 0."""
        if not pace.mass > 0.0:
            return math.nan
        mean = pace.lost / pace.mass
        if known.n_classes:
            return mean
        variance = float(samples.view(Segment(known.lo, known.hi)).y.var())
        return mean / variance if variance > 0.0 else math.nan

    # -------------------------------------------------------------------- frozen values

    def freezes(self, fitted: FittedModel) -> bool:
        """Return whether a value that the model had can be saved by ``frozen_state``."""
        return fitted.model is None or isinstance(fitted.model, Boosted)

    def frozen_state(self, fitted: FittedModel) -> State:
        """Return the entries of a value that the model had: the trees as LightGBM writes them."""
        state: State = {"n_features": fitted.n_features, "n_classes": fitted.n_classes}
        if fitted.present is not None:
            state["present"] = np.asarray(fitted.present, np.int64)
        return state if fitted.model is None else state | {"trees": fitted.model.written}

    def frozen_scorer(self, state: Mapping[str, Any]) -> Callable[[Rows], FloatArray]:
        """Return the scores of a model with this template, as ``scorer`` did at the time of the state."""
        known = FROZEN.read(state)
        model = self.fresh(0, known["n_features"], known["n_classes"])
        fitted = replace(model._fitted, present=known.get("present"))
        if "trees" in known:
            fitted = replace(fitted, model=Boosted(written=known["trees"]))
            outputs, columns = fitted.model.trees.outputs, fitted.model.trees.columns
            if columns == fitted.n_features:  # fitted to rows without codes, whatever the template knows
                model._categories = ()
            classes = 0 if fitted.present is None else len(fitted.present)
            if outputs != (classes if classes > 2 else 1) or columns != model._width:
                raise StateError(f"the saved trees have {outputs} outputs and {columns} columns; the state has others")
        return functools.partial(model._scored, fitted)

    # -------------------------------------------------------------------- state

    def _model_state(self, fitted: FittedModel) -> State:
        pace: Pace = fitted.memory or Pace()
        own: State = {**vars(pace), "starts": np.array(pace.starts, np.int64)}
        return super()._model_state(fitted) | nest("pace", own)

    def _model_from(self, fitted: FittedModel, state: Mapping[str, Any]) -> FittedModel:
        known: dict[str, Any] = {"alone": 1, "rows": 0, "mass": 0.0, "lost": 0.0} | PACE.read(pick("pace", state))
        known["starts"] = tuple(known["starts"].tolist())
        pace = Pace(**{name: known[name] for name in vars(Pace())})
        return replace(super()._model_from(fitted, state), memory=pace)

    def _fields(self) -> Fields:
        known = super()._fields()
        return declared({name: known.entries[name] for name in ("probe_digest",)}, ["fit", "pace"])


def _csr(matrix: Any) -> CSR:
    """Return a CSR matrix of scipy as the core takes it."""
    indices, indptr = matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int64, copy=False)
    return CSR(matrix.data, indices, indptr, matrix.shape[1])


def _rise(known: Values) -> bool:
    starts = known["starts"]
    return len(starts) <= MOST_BATCHES and bool((starts[1:] > starts[:-1]).all())


PACE = Fields(
    {
        "reference": Real(missing=True),
        "excess": Real(0.0),
        "judged": Truth(),
        "waited": Whole(),
        "starts": Array(np.int64, ("*",), least=0),
        "alone": Whole(1),
        "rows": Whole(),
        "mass": Real(0.0),
        "lost": Real(),
    },
    optional=["alone", "rows", "mass", "lost"],
    rules=[FieldRule("starts", "must be rising row numbers", _rise)],
)
"""Saved entries of what decides when the model is fitted again."""


FROZEN = Fields(
    {
        "n_features": Whole(1),
        "n_classes": Whole(),
        "present": Array(np.int64, ("classes",), least=0, most="n_classes-1"),
        "trees": Text(),
    },
    optional=["present", "trees"],
)
"""Saved entries of a frozen value."""
