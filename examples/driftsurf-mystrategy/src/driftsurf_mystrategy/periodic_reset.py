"""Periodic reset: a fresh model every few batches, whether there was a drift or not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from driftsurf.core.contracts import Batch, FloatArray, Learner, Rows, State, Strategy
from driftsurf.core.decisions import Decision, ModelRecord, Transition
from driftsurf.core.options import whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick
from driftsurf.errors import StateError
from driftsurf.registry import ALL_TASKS, Example, register


@register("strategy", "periodic-reset", title="Periodic reset", tasks=ALL_TASKS, examples=[Example({"period": 3})])
class PeriodicReset(Strategy):
    """One model that a fresh one replaces every ``period`` batches.

    This is what a scheduled retraining does. It derives from the protocol for the default bodies of ``fresh`` and
    ``test_scores``; a class that has all members of the protocol need not derive from anything.

    Parameters
    ----------
    learner
        Template of the models.
    period
        Number of batches that a model learns.
    dtype
        Type of the stored rows, "float64" or "float32".
    seed
        Seed of every random number.
    """

    def __init__(self, learner: Learner, *, period: int = 10, dtype: str = "float64", seed: int = 0) -> None:
        self.learner = learner
        self.period = period
        self.dtype = dtype
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {"learner": self.learner, "period": self.period, "dtype": self.dtype, "seed": self.seed}

    def check(self) -> None:
        """Raise OptionError or CapabilityError if a parameter is invalid."""
        whole("period", self.period, at_least=1)
        self.learner.fresh(0, 1, self.learner.capabilities.min_classes)

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Create the store and the first model."""
        self._n_classes = n_classes
        self._steps = self._models = self._model_steps = 0
        self._first_seed = self.seed
        self._samples = Samples(n_features, sparse=sparse, dtype=self.dtype)
        self._model = self._new_model(n_classes)

    def _new_model(self, n_classes: int) -> Learner:
        # The state holds the seed, because a model may be loaded into a strategy with another seed.
        return self.learner.fresh(self._first_seed + self._models, self._samples.n_features, n_classes)

    def scores(self, X: Rows) -> FloatArray:
        """Return the scores of the model."""
        return self._model.scores(X)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch; an error leaves everything as it was."""
        replaced = self._model_steps == self.period
        n_classes = max(self._n_classes, 0 if self._n_classes == 0 else 1 + int(batch.y.max(initial=0.0)))
        with contextlib.ExitStack() as undo:
            models = self._models
            if replaced:
                undo.callback(setattr, self, "_models", models)
                self._models += 1
            model = self._new_model(n_classes) if replaced else self._model
            if n_classes > self._n_classes and not replaced:
                undo.callback(model.grow(n_classes))
            undo.callback(self._samples.truncate, self._samples.next_row)
            new = self._samples.append(batch.X, batch.y, batch.weight)
            before = model.gradients
            undo.callback(model.update(self._samples, new, model.budget(new)))
            undo.pop_all()  # from here on nothing can fail
        self._model, self._n_classes = model, n_classes
        self._model_steps = 1 + (0 if replaced else self._model_steps)
        self._steps += 1
        trained_from = model.needs()
        self._samples.release(new.lo if trained_from is None else trained_from)
        why = f"{self.period} batches are over"
        step = self._steps - 1
        return Decision(
            step=step,
            first_row=new.lo,
            rows=len(new),
            state="stable",
            predicted_by=models,
            trained_from=self._samples.first_row,
            predicts_next=self._models,
            models=(
                ModelRecord(
                    "predictive",
                    self._models,
                    self._model_steps - 1,
                    self._samples.first_row,
                    gradients=model.gradients - before,
                ),
            ),
            transitions=(Transition("reset", step, old=models, new=self._models, why=why),) if replaced else (),
        )

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and the model."""
        return self._samples.nbytes + self._model.nbytes

    def reset(self, why: str) -> Transition:
        """Start over with a fresh model."""
        self._models += 1
        self._model, self._model_steps = self._new_model(self._n_classes), 0
        self._samples.release(self._samples.next_row)
        return Transition("reset", self._steps, old=self._models - 1, new=self._models, why=why)

    def state(self) -> State:
        """Return everything that later steps depend on."""
        own: State = {
            "steps": self._steps,
            "models": self._models,
            "model_steps": self._model_steps,
            "first_seed": self._first_seed,
            "n_classes": self._n_classes,
        }
        return own | nest("samples", self._samples.state()) | nest("model", self._model.state())

    def restore(self, state: Mapping[str, Any], n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Take over a state that ``state()`` returned."""
        own_classes = int(state["n_classes"])
        samples = Samples.from_state(pick("samples", state), own_classes)
        if (samples.n_features, samples.sparse) != (n_features, sparse) or own_classes > n_classes:
            raise StateError(f"the saved rows have {samples.n_features} columns, not {n_features}")
        self._steps, self._models = int(state["steps"]), int(state["models"])
        self._model_steps, self._first_seed = int(state["model_steps"]), int(state["first_seed"])
        self._n_classes, self._samples = own_classes, samples
        self._model = type(self.learner).from_state(self.learner, pick("model", state))
