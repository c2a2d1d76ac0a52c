"""Adapter of PyTorch modules."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import CSR, Capabilities, FloatArray, Rows, SampleStore, Segment, State
from driftsurf.core.fields import Fields, Json
from driftsurf.core.options import choice, number, whole
from driftsurf.core.state import pick
from driftsurf.errors import CapabilityError, StateError
from driftsurf.learners.foreign._base import (
    FittedModel,
    ForeignLearner,
    Risk,
    declared,
    extra,
    refuse,
    tasks_of,
    visits,
)
from driftsurf.native.linear import draw_uniformly


class TorchLearner(ForeignLearner):
    """A PyTorch module as a base learner, trained on mini-batches of its own sample set.

    The mini-batches are drawn uniformly from the rows since the model was made. It is saved as the tensors of the
    module and of the optimiser; the functions that make these have to be passed again when it is loaded.

    Parameters
    ----------
    module
        Function of the number of columns and the number of outputs (the classes; 1 for regression) that returns the
        ``torch.nn.Module``. Outputs for classes are logits.
    task
        "classification" or "regression".
    loss
        Function of outputs and targets that returns a number for each row; None for cross entropy, or the squared error
        for regression.
    optimizer
        Function of the parameters that returns the optimiser; None for ``Adam(lr=0.001)``.
    batch_size
        Number of rows of a mini-batch.
    passes
        Budget in visits of rows, as a multiple of the new rows.
    rows
        Largest sample set.
    device
        Device of the module: "cpu", "cuda", ...
    risk
        As for :class:`driftsurf.learners.foreign.SklearnLearner`.

    Examples
    --------
    >>> from driftsurf import DriftSurfClassifier
    >>> def module(n_columns, n_outputs):
    ...     from torch import nn
    ...     return nn.Sequential(nn.Linear(n_columns, 16), nn.ReLU(), nn.Linear(16, n_outputs))
    >>> model = DriftSurfClassifier(TorchLearner(module, batch_size=64, passes=4.0), random_state=0)
    >>> model.learner.batch_size, model.learner.device
    (64, 'cpu')
    """

    def __init__(
        self,
        module: Callable[[int, int], Any],
        *,
        task: Literal["classification", "regression"] = "classification",
        loss: Callable[[Any, Any], Any] | None = None,
        optimizer: Callable[[Any], Any] | None = None,
        batch_size: int = 32,
        passes: float = 2.0,
        rows: int = 10_000,
        device: str = "cpu",
        risk: Risk = "auto",
    ) -> None:
        self.module = module
        self.task = task
        self.loss = loss
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.passes = passes
        self.rows = rows
        self.device = device
        self.risk: Risk = risk

    def _capabilities(self) -> Capabilities:
        regression = self.task == "regression"
        return Capabilities(
            tasks=tasks_of(regression),
            sparse=False,
            can_memorise=True,
            state_kind="tensors",
            probabilities=not regression,
        )

    @property
    def _keeps_rows(self) -> bool:
        return True

    def _check(self) -> None:
        extra("torch", "torch")
        choice("task", self.task, ("classification", "regression"))
        whole("batch_size", self.batch_size, at_least=1)
        number("passes", self.passes, above=0.0)
        whole("rows", self.rows, at_least=1)
        if not callable(self.module) or isinstance(self.module, extra("torch", "torch").nn.Module):
            raise refuse(
                self.module, "is not a function that makes a module; pass lambda columns, outputs: torch.nn..."
            )

    def budget(self, new: Segment) -> int:
        """Return ``passes`` visits for each new row."""
        return visits(self.passes, new)

    def _learn(self, known: FittedModel, samples: SampleStore, new: Segment, steps: int) -> FittedModel:
        known = replace(known, lo=max(known.lo, known.hi - self.rows))
        X, y, weight, _ = samples.view(Segment(known.lo, known.hi))
        assert not isinstance(X, CSR)
        if steps == 0 or not weight.any():
            return known
        torch = extra("torch", "torch")
        order = np.empty(steps, np.int64)
        words = draw_uniformly(order, known.hi - known.lo, known.seed, known.words)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed((known.seed + known.words) % 2**63)
            module, optimizer = self._new(known, torch) if known.model is None else copy.deepcopy(known.model)
            module.train()
            for first in range(0, steps, self.batch_size):
                part = order[first : first + self.batch_size]
                self._step(torch, module, optimizer, X[part], y[part], weight[part])
        module.eval()
        return replace(
            known,
            model=(module, optimizer),
            present=np.arange(known.n_classes),
            words=words,
            gradients=known.gradients + steps,
        )

    def _step(self, torch: Any, module: Any, optimizer: Any, X: Any, y: FloatArray, weight: FloatArray) -> None:
        regression = self.task == "regression"
        target = self._tensor(torch, y, torch.float32 if regression else torch.int64)
        outputs = module(self._tensor(torch, X, torch.float32))
        outputs = outputs.reshape(-1) if regression else outputs
        if self.loss is not None:
            losses = self.loss(outputs, target)
        elif regression:
            losses = torch.nn.functional.mse_loss(outputs, target, reduction="none")
        else:
            losses = torch.nn.functional.cross_entropy(outputs, target, reduction="none")
        if losses.shape != target.shape:
            raise refuse(self.loss, f"returned shape {tuple(losses.shape)} for {len(y)} rows; use reduction='none'")
        optimizer.zero_grad()
        (losses * self._tensor(torch, weight, torch.float32)).mean().backward()
        optimizer.step()

    def _new(self, known: FittedModel, torch: Any) -> tuple[Any, Any]:
        module = self.module(known.n_features, max(1, known.n_classes)).to(self.device)
        make = self.optimizer or torch.optim.Adam
        return module, make(module.parameters())

    def _tensor(self, torch: Any, array: Any, dtype: Any) -> Any:
        return torch.as_tensor(np.asarray(array), dtype=dtype, device=self.device)

    def _outputs(self, fitted: FittedModel, X: Rows) -> npt.NDArray[Any]:
        assert not isinstance(X, CSR)
        torch = extra("torch", "torch")
        with torch.no_grad():
            outputs = fitted.model[0](self._tensor(torch, X.copy(), torch.float32))
            if fitted.n_classes:
                outputs = torch.softmax(outputs, dim=1)
        result = outputs.cpu().numpy().astype(np.float64)
        return np.asarray(result if fitted.n_classes else result.reshape(-1))

    # -------------------------------------------------------------------- state

    def _model_state(self, fitted: FittedModel) -> State:
        if fitted.model is None:
            return {}
        torch = extra("torch", "torch")
        module, optimizer = fitted.model
        saved = optimizer.state_dict()
        plain: dict[str, dict[str, Any]] = {}
        tensors: dict[str, Any] = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
        for place, values in saved["state"].items():
            for name, value in values.items():
                if torch.is_tensor(value):
                    tensors[f"optimizer.{place}.{name}"] = value
                else:
                    plain.setdefault(str(place), {})[name] = value
        try:
            rest = {name: json.dumps(value) for name, value in (("groups", saved["param_groups"]), ("plain", plain))}
            arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
        except (TypeError, ValueError, AttributeError) as error:
            raise CapabilityError(
                f"the state of {type(optimizer).__name__} or of the module cannot be saved: it holds something other "
                f"than tensors and numbers ({error})"
            ) from error
        return arrays | rest

    def _fields(self) -> Fields:
        return declared({"groups": Json(list), "plain": Json(dict)}, ["module", "optimizer"])

    def _model_from(self, fitted: FittedModel, state: Mapping[str, Any]) -> FittedModel:
        if "groups" not in state:
            return fitted
        torch = extra("torch", "torch")
        with torch.random.fork_rng(devices=[]):  # the first weights are drawn and then overwritten
            module, optimizer = self._new(fitted, torch)
        kept: dict[int, dict[str, Any]] = {int(place): values for place, values in json.loads(state["plain"]).items()}
        for name, array in pick("optimizer", state).items():
            place, _, entry = name.partition(".")
            kept.setdefault(int(place), {})[entry] = torch.as_tensor(array)
        try:
            module.load_state_dict({name: torch.as_tensor(array) for name, array in pick("module", state).items()})
            optimizer.load_state_dict({"state": kept, "param_groups": json.loads(state["groups"])})
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"the saved tensors do not fit the module and optimiser that were passed: {error}"
            ) from error
        module.eval()
        return replace(fitted, model=(module, optimizer))
