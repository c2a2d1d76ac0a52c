"""A cell has no lock of its own: whoever holds it calls it under the lock of its session, fleet or share of the work.

Without the global interpreter lock, two calls of one cell at once would write over each other. So the locks are checked
at every call, while threads learn, predict, save, copy and reset.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from driftsurf import DriftSurfClassifier, Fleet
from driftsurf.core import changes as threads
from driftsurf.keyed.keys import Threads
from driftsurf.keyed.work import BankRows
from driftsurf.saving import dumps
from driftsurf.strategies import _cell_models as models

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6_000, 3))
Y = (X[:, 0] > 0).astype(int)
Y[3_000:] = 1 - Y[3_000:]


class Watched:
    """Passes everything on to an object, and notes what is asked of it while no lock is held."""

    def __init__(self, watched: Any, is_held: Callable[[], bool], seen: list[str]) -> None:
        vars(self).update(_watched=watched, _is_held=is_held, _seen=seen)

    def __getattr__(self, name: str) -> Any:
        self._seen.append(name if self._is_held() else f"{name} without a lock")
        return getattr(self._watched, name)


def at_once(calls: Sequence[Callable[[], Any]]) -> None:
    """Run functions at once, each in a thread."""
    errors = list[BaseException]()

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


def test_the_cell_of_a_session_is_called_under_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[str]()
    native: Any = vars(models)["NativeCell"]
    locks: Any = threads._locks
    monkeypatch.setattr(
        models,
        "NativeCell",
        lambda *parts: Watched(native(*parts), lambda: any(lock._is_owned() for lock in list(locks)), seen),
    )

    def in_parts(session: Any, *_: Any) -> None:
        seen.append("usual_step" if session.lock._is_owned() else "usual_step without a lock")

    monkeypatch.setattr("driftsurf.session.session.usual_step", in_parts)
    model: Any = DriftSurfClassifier(random_state=0)
    model.partial_fit(X[:2], Y[:2])
    session = model._fitted.session
    done = threading.Event()

    def learn(first: int) -> None:
        for at in range(first, 6_000, 100):
            model.partial_fit(X[at : at + 50], Y[at : at + 50])

    def look() -> None:
        while not done.is_set():
            model.predict(X[:20])
            dumps(model)
            copied = copy.deepcopy(model)
            copied.partial_fit(X[:50], Y[:50])
            session.scores(X[:2])

    def both() -> None:
        try:
            at_once([lambda: learn(0), lambda: learn(50)])
        finally:
            done.set()

    at_once([both, look, look])
    session.reset("for the test")
    assert len(seen) > 200
    assert not [one for one in seen if one.endswith("without a lock")]


def test_the_loop_of_a_fleet_is_called_under_its_lock_and_by_each_share_under_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, held, run = list[str](), list[bool](), BankRows.run

    def watched(self: BankRows, using: Threads | None) -> None:
        shares: list[Any] = self._shares
        loop, slots = self._loop, np.concatenate([share.groups[0] for share in shares])
        assert len(np.unique(slots)) == len(slots)  # no key is in two shares

        class Checked:
            @staticmethod
            def observe(*given: Any) -> None:
                held.append(any(share.room is given[-1] and share.lock.locked() for share in shares))
                loop.observe(*given)

        self._loop = Checked  # type: ignore[assignment]
        run(self, using)

    monkeypatch.setattr(BankRows, "run", watched)
    monkeypatch.setattr("driftsurf.keyed.keys.ROWS_PER_THREAD", 50)
    fleet: Any = Fleet(n_features=3, batch_size=20, threads=2)
    keys = np.arange(6_000) % 40
    fleet.observe(keys[:400], X[:400], Y[:400])
    fleet._serving = fleet._serving._replace(backend=Watched(fleet._backend, fleet.lock._is_owned, seen))
    done = threading.Event()

    def learn() -> None:
        try:
            for at in range(400, 6_000, 400):
                fleet.observe(keys[at : at + 400], X[at : at + 400], Y[at : at + 400])
        finally:
            done.set()

    def look() -> None:
        while not done.is_set():
            fleet.predict(keys[:40], X[:40])
            fleet.weights(3)
            fleet.to_bytes()
            fleet.transitions()

    at_once([learn, look, look])
    assert len(seen) > 40
    assert not [one for one in seen if one.endswith("without a lock")]
    assert len(held) > len(range(400, 6_000, 400))
    assert all(held)
