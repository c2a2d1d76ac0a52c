"""The learning of one call of a fleet, prepared in shares for several threads: completely or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import IntArray
from driftsurf.core.forks import ChangeLock
from driftsurf.keyed.compiled.layout import Groups, Scratch, TransitionLog
from driftsurf.keyed.compiled.threads import Threads

__all__ = ["PreparedWork", "Share"]

COMPLETE = 1
"""Place in ``TransitionLog.length`` that the loop over a share sets last."""


class Share(NamedTuple):
    """The groups of one thread, with the memory that it needs."""

    groups: Groups
    scratch: Scratch
    log: TransitionLog
    lock: ChangeLock
    """Held while the loop runs, since a thread may still run when nobody waits for it any more."""


class PreparedWork:
    """The learning of one call, which allocates nothing that could fail half-way.

    Exceptions come between lines of Python, never inside the compiled loop over a share, and the loop itself notes in
    the log of the share that it is complete; it does nothing to a share that is. So if an exception breaks the work
    off, ``finish`` completes it.
    """

    def __init__(
        self,
        serve: Callable[[Share], None],
        shares: list[Share],
        predicted: npt.NDArray[Any],
        touched: IntArray,
        diverged: Any,
    ) -> None:
        self.predicted = predicted
        self._serve = serve
        self._shares = shares
        self._touched, self._diverged = touched, diverged
        self._started = False
        self._transitions: npt.NDArray[Any] | None = None

    def carry_out(self, threads: Threads) -> None:
        """Learn the rows, on several threads if there are several shares."""
        if len(self._shares) > 1:
            self._started = True
        threads.map(self._run, self._shares)

    def finish(self) -> bool:
        """Complete work that an exception broke off; return False, and do nothing, if no row was learned yet.

        If this is broken off, calling it again completes it.
        """
        if not self.begun:
            return False
        for share in self._shares:
            self._run(share)
        return True

    @property
    def begun(self) -> bool:
        """Whether any row may have been learned."""
        return self._started or bool(self._shares[0].log.length[COMPLETE])

    def _run(self, share: Share) -> None:
        with share.lock:
            self._serve(share)

    @property
    def transitions(self) -> npt.NDArray[Any]:
        """The transitions of the completed work, the same object each time."""
        if self._transitions is None:
            self._transitions = np.concatenate([share.log.entries[: share.log.length[0]] for share in self._shares])
        return self._transitions

    @property
    def diverged(self) -> IntArray:
        """The slots in which training diverged."""
        slots: IntArray = self._touched[self._diverged]
        return slots
