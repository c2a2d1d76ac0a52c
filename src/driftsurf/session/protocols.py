"""Contracts of the models that a run drives: a session, or a session whose labels arrive late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from driftsurf.core.contracts import IncrementalState, State
from driftsurf.core.decisions import Transition
from driftsurf.core.input import Schema
from driftsurf.session.label_counts import LabelCounts
from driftsurf.session.observation import Observation
from driftsurf.session.session import Session


class Model(Protocol):
    """A model that a run feeds, saves and rolls back."""

    @property
    def schema(self) -> Schema | None:
        """Columns of the rows; None before the first rows were learned."""
        ...

    @property
    def steps(self) -> int:
        """Number of time steps so far, which is the version of the model."""
        ...

    @property
    def rows_pending(self) -> int:
        """Rows that have arrived and were not learned yet."""
        ...

    def observe(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict a batch, then learn it."""
        ...

    def reset(self, why: str) -> Transition | None:
        """Start over with fresh models; None if nothing was learned yet."""
        ...

    def state(self) -> State:
        """Return everything that later steps depend on."""
        ...

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a state that ``state()`` returned."""
        ...

    def return_to(self, state: Mapping[str, Any]) -> None:
        """Roll back to what had been learned in an earlier state; rows that wait for a label keep waiting."""
        ...


@runtime_checkable
class Pinnable(Protocol):
    """A model that can be pinned: it predicts labelled rows without learning them."""

    def judge(self, X: Any, y: Any, *, classes: Any = None) -> Observation:
        """Predict rows whose labels are known, and learn nothing."""
        ...


@runtime_checkable
class LateLabelled(Protocol):
    """A model whose labels arrive later than their rows."""

    @property
    def label_counts(self) -> LabelCounts:
        """Counts of the rows and labels so far, by what was done with them."""
        ...


@runtime_checkable
class SessionMaker(Protocol):
    """An object with the parameters of a session, such as an estimator."""

    def make_session(self) -> Session:
        """Return a session with these parameters that has seen no row."""
        ...
