"""The session of one key of a fleet."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Self

from driftsurf.core.contracts import FloatArray
from driftsurf.core.decisions import Decision
from driftsurf.core.input import Schema
from driftsurf.core.journal import Journal
from driftsurf.core.samples import Samples
from driftsurf.core.targets import ClassTargets, RegressionTargets
from driftsurf.session.session import Session
from driftsurf.session.snapshot import Snapshot

__all__ = ["KeySession", "TakenPart"]


class TakenPart(NamedTuple):
    """The result for rows that came in one call and are in one time step."""

    codes: FloatArray
    """The true labels by code, or numbers."""
    known: ClassTargets | RegressionTargets
    scores: FloatArray
    decisions: tuple[Decision, ...]


class KeySession(Session):
    """The session of one key, which records no journal.

    It notes the result for each part of a call before the part is published. If an exception comes right after that,
    ``rows_taken`` tells how many rows the session has, and ``parts`` holds the results for all of them.
    """

    parts: list[TakenPart] | None = None
    """Results since the list was set; None if nobody asks for them."""

    def fresh(self, seed: int) -> Self:
        """Return a session with the same options that has seen no row, and whose strategy has another seed."""
        made = super().fresh(seed)
        made.journal = self.journal  # which keeps nothing
        return made

    @property
    def rows_taken(self) -> int:
        """Rows of complete time steps, and rows in the buffer."""
        now, pending = self.standing()
        assert self.batch_size is not None
        return now.steps * self.batch_size + pending

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        if self.schema is None:
            return 0
        return self.strategy.nbytes + (0 if self._pending is None else self._pending.nbytes)

    def check_weights(self) -> None:
        """Raise CapabilityError if rows cannot have weights."""
        self._check_capabilities(Schema(1), True)

    def take(self, X: Any, y: Any, weight: FloatArray | None) -> None:
        """Predict and learn rows; the results go to ``parts``."""
        self._take(X, y, None, weight, predict=True)

    def _has_room(self, pending: Samples, count: int) -> bool:
        return self.parts is None and super()._has_room(pending, count)  # ``_learned`` notes the parts

    def _learned(self, X: Any, y: FloatArray, *rest: Any) -> tuple[Snapshot, Any]:
        now, result = super()._learned(X, y, *rest)
        if self.parts is not None:
            known, scores, outcome = result
            assert scores is not None  # ``take`` asks for them
            self.parts.append(TakenPart(y, known, scores, () if outcome is None else (outcome.decision(),)))
        return now, result

    def take_back_pending(self) -> None:
        """Empty the buffer as if its rows had never come; on an empty buffer this does nothing."""

        def step(pending: Samples) -> tuple[Snapshot, None]:
            pending.truncate(pending.first_row)
            return self._now, None

        with self.lock:
            if self._pending is not None:
                self._change(step, self._pending)

    def separate(self) -> Session:
        """Return a copy that is an ordinary session, with a journal."""
        made = Session.__new__(Session)
        with self.lock:
            self.settle()
            own = {name: value for name, value in self._entries().items() if name not in ("parts", "journal")}
            vars(made).update(copy.deepcopy(own))
        made.journal = Journal()
        return made
