"""Adapter of river classifiers, regressors and pipelines."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, Capabilities, Rows, SampleStore, Segment, n_rows, take_rows
from driftsurf.core.options import choice, number
from driftsurf.learners.foreign._base import COUNTED, FittedModel, ForeignLearner, Risk, extra, refuse, tasks_of, visits


class RiverLearner(ForeignLearner):
    """A river model as a base learner, trained row by row or batch by batch.

    It learns each batch on arrival and stores no rows. A dense row becomes a dictionary from column number to value, a
    sparse row a dictionary of its non-zero cells. An update works on a copy of the model, so that it can be undone.

    Parameters
    ----------
    model
        Template, never changed.
    mode
        "rows" calls ``learn_one``, "many" calls ``learn_many`` of models that have it.
    passes
        Number of passes over a batch.
    risk
        As for :class:`driftsurf.learners.foreign.SklearnLearner`.

    Examples
    --------
    >>> import numpy as np
    >>> from river.naive_bayes import GaussianNB
    >>> from driftsurf import DriftSurfClassifier
    >>> from driftsurf.streams import SEA
    >>> model = DriftSurfClassifier(RiverLearner(GaussianNB()), random_state=0)
    >>> errors = [(model.test_then_train(X, y) != y).mean() for X, y in SEA(n_rows=1_000).batches(250)]
    >>> print(f"{np.mean(errors[1:]):.1f}")
    0.1
    """

    def __init__(
        self, model: Any, *, mode: Literal["rows", "many"] = "rows", passes: float = 1.0, risk: Risk = "auto"
    ) -> None:
        self.model = model
        self.mode = mode
        self.passes = passes
        self.risk: Risk = risk

    def _capabilities(self) -> Capabilities:
        kinds = extra("river.base", "river")
        regression = isinstance(self.model, kinds.Regressor)
        return Capabilities(
            tasks=tasks_of(regression, multiclass=bool(getattr(self._last, "_multiclass", False))),
            sparse=self.mode == "rows",
            weights=self._weighted,
            can_memorise=True,
            exact_state=False,
            state_kind="pickle",
            probabilities=not regression,
            grows_classes=not regression,
            gradients=False,
        )

    @property
    def _last(self) -> Any:
        """Last model of a pipeline, or the model itself."""
        return getattr(self.model, "_last_step", self.model)

    @property
    def _weighted(self) -> bool:
        """Return whether the model takes a weight with each row."""
        return self.mode == "rows" and "w" in inspect.signature(self._last.learn_one).parameters

    @property
    def _keeps_rows(self) -> bool:
        return False

    def _check(self) -> None:
        choice("mode", self.mode, ("rows", "many"))
        number("passes", self.passes, above=0.0)
        kinds = extra("river.base", "river")
        if not isinstance(self.model, (kinds.Classifier, kinds.Regressor)):
            raise refuse(self.model, "is neither a classifier nor a regressor of river")
        if self.mode == "many" and not callable(getattr(self._last, "learn_many", None)):
            raise refuse(self.model, "has no learn_many; use mode='rows'")

    def budget(self, new: Segment) -> int:
        """Return ``passes`` visits for each new row."""
        return visits(self.passes, new)

    def _learn(self, known: FittedModel, samples: SampleStore, new: Segment, steps: int) -> FittedModel:
        if steps == 0 or len(new) == 0:
            return known
        model = self._new(known.seed) if known.model is None else copy.deepcopy(known.model)
        batch, left = samples.view(new), steps
        while left > 0:
            first = max(0, len(new) - left)
            left -= len(new) - first
            y = batch.y[first:] if known.n_classes == 0 else batch.y[first:].astype(np.int64)
            self._teach(model, take_rows(batch.X, first, len(new)), y, batch.weight[first:])
        return replace(known, model=model, present=np.arange(known.n_classes), gradients=known.gradients + steps)

    def _teach(self, model: Any, X: Rows, y: npt.NDArray[Any], weight: npt.NDArray[np.float64]) -> None:
        if self.mode == "many":
            counted = weight >= COUNTED
            model.learn_many(_frame(X)[counted], extra("pandas", "river").Series(y[counted]))
            return
        for row, target, share in zip(_dictionaries(X), y.tolist(), weight.tolist(), strict=True):
            if share == 1.0 or (not self._weighted and share >= COUNTED):
                model.learn_one(row, target)
            elif self._weighted and share > 0.0:
                model.learn_one(row, target, w=share)

    def _new(self, seed: int) -> Any:
        """Return a clone of the template, with our seed if it takes one."""
        seeded = {"seed": seed % 2**31} if "seed" in self.model._get_params() else {}
        return self.model.clone(seeded)

    def _outputs(self, fitted: FittedModel, X: Rows) -> npt.NDArray[Any]:
        model = fitted.model
        if fitted.n_classes == 0:
            if self.mode == "many":
                return np.asarray(model.predict_many(_frame(X)), np.float64)
            return np.array([model.predict_one(row) for row in _dictionaries(X)], np.float64)
        assert fitted.present is not None
        classes = len(fitted.present)
        shares = np.zeros((n_rows(X), classes))
        if self.mode == "many":
            table = model.predict_proba_many(_frame(X))
            shares[:, [int(code) for code in table.columns]] = np.nan_to_num(table.to_numpy(np.float64))
        else:
            for place, row in enumerate(_dictionaries(X)):
                for code, share in model.predict_proba_one(row).items():
                    shares[place, int(code)] = share
        total = shares.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(shares, total, out=np.full_like(shares, 1.0 / classes), where=total > 0.0))


def _dictionaries(X: Rows) -> Iterator[dict[int, float]]:
    if isinstance(X, CSR):
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            yield dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
    else:
        for row in X.tolist():
            yield dict(enumerate(row))


def _frame(X: Rows) -> Any:
    assert not isinstance(X, CSR)
    return extra("pandas", "river").DataFrame(X, columns=[str(column) for column in range(X.shape[1])])
