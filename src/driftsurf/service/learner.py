"""The thread that follows the log of a served model, saves checkpoints and publishes versions."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from driftsurf.core.json_text import parse_json
from driftsurf.core.platforms import give_way
from driftsurf.errors import AnswerGoneError, UnavailableError
from driftsurf.runs.orders import OrderRecord
from driftsurf.service.admission import Admitted
from driftsurf.service.contract import Phase
from driftsurf.service.following import UNKNOWN, Follower
from driftsurf.service.storage import storage_problem

__all__ = ["Learner"]

log: logging.Logger = logging.getLogger("driftsurf.serve")
IDLE_SECONDS = 0.5
"""Time after which a learner without work looks at the clock."""
GATHERED = 64
"""Records from which on a learner applies them at once; fewer wait for others, which are then applied together."""
GATHER_SECONDS = 0.002
ORDER_LINE = '"type":"order"'
"""Text that every line of an order in the journal contains, and no other line."""
OUTCOMES = 1000
"""Outcomes of orders that are remembered, for requests that are repeated."""


class Learner:
    """Thread that applies the log. If it fails, the model is read-only; other models go on.

    Parameters
    ----------
    follower
        What applies records.
    known
        Called in this thread before it applies anything.
    idle
        Called in this thread when there has been nothing to do for a while.
    needed
        Returns the first record that somebody else still has to read.
    clock
        Seconds by which checkpoints are timed; they decide nothing.
    """

    def __init__(
        self,
        follower: Follower,
        *,
        known: Callable[[], object],
        idle: Callable[[], object] = lambda: None,
        needed: Callable[[], int] = lambda: 2**62,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.follower = follower
        self.phase: Phase = "recovering"
        self.failure: str = ""
        self.error: BaseException | None = None
        """What made learning fail."""
        self.needed_from: dict[int, int] = {}
        """For each order that is not carried out yet and needs records: the first of them."""
        self._known = known
        self._idle = idle
        self._needed = needed
        self._clock = clock
        self._waiting: dict[int, list[Future[tuple[OrderRecord, int]]]] = {}
        """For each order that is not carried out yet: who waits for its outcome."""
        self._outcomes: dict[int, tuple[OrderRecord, int]] = {}
        self._process: int = os.getpid()
        self._carried_until: int = follower.position
        """Orders below this position were carried out, by this process or before it."""
        self._logged_before: int = follower.log.next
        """Records below this number were logged by an earlier process."""
        self._recovered = False
        """Whether these records have been applied."""
        self._lock = threading.Lock()
        self._dropping = threading.Lock()
        """Held while records of the log are dropped."""
        self._began: float = clock()
        self._saved = self._whole = self._began, 0
        """When the last checkpoint was saved, and the last one at the end of a record, with the rows applied then."""
        self._changed = threading.Event()
        self.follower.on_order = self._carried_out
        self.follower.on_pause = self._between_steps
        self._thread = threading.Thread(target=self._work, name=f"learner of {follower.log.folder}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait_ready(self, seconds: float | None = None) -> bool:
        """Wait until the model takes records, or the learner has failed; return whether it does."""
        self._changed.wait(seconds)
        return self.phase == "ready"

    def close(self) -> None:
        """Apply the rest of the log, save a checkpoint and end the thread."""
        with self._lock:
            if self.phase in ("recovering", "ready"):
                self.phase = "closing"
        self._thread.join()

    @contextlib.contextmanager
    def keeping_records(self) -> Iterator[Callable[[Admitted], object]]:
        """Let no record of the log be dropped until the order that is logged meanwhile is behind a checkpoint."""
        with self._dropping:
            first = self.follower.log.first

            def logged(admitted: Admitted) -> None:
                self.needed_from[admitted.position] = first

            yield logged

    @property
    def remedy(self) -> str:
        """What to do after learning has failed."""
        if self.error is not None and (problem := storage_problem(self.error, self.follower.log.folder.parent)):
            return f" ({problem}; a service then opens the model again)"
        return ". See its log, then restart the service"

    def refuse(self) -> None:
        """Raise UnavailableError unless records are taken."""
        if os.getpid() != self._process:  # without the threads that learn and flush, nothing would ever be answered
            raise UnavailableError(
                f"the model was opened by process {self._process}, from which this one, {os.getpid()}, was forked; "
                "send requests to the service, or open the model in one process only"
            )
        if self.phase == "ready":
            return
        why = {
            "recovering": "is being recovered from its log; try again soon",
            "failed": f"is read-only, because learning failed: {self.failure}{self.remedy}",
        }
        raise UnavailableError(f"the model {why.get(self.phase, 'is closed')}")

    # ------------------------------------------------------------------------ orders

    def outcome(self, position: int) -> Future[tuple[OrderRecord, int]]:
        """Return a future of what became of the order at a position, with the line of the journal."""
        future: Future[tuple[OrderRecord, int]] = Future()
        with self._lock:
            known = self._outcomes.get(position)
            before = position < self._carried_until
            if known is not None:
                future.set_result(known)
            elif before:
                pass
            elif self.phase in ("failed", "closed"):
                future.set_exception(UnavailableError("the model takes no orders any more"))
            else:
                self._waiting.setdefault(position, []).append(future)
        if before and known is None:  # by an earlier process, or long ago
            future.set_result(self._in_journal(position))
        return future

    def _in_journal(self, position: int) -> tuple[OrderRecord, int]:
        """Return the outcome of an order from the journal, with its line; AnswerGoneError if it is not kept."""
        for line, text in self.follower.feed.backwards():
            record = parse_json(text) if ORDER_LINE in text else {}
            if record.get("type") == "order" and record["number"] == position:
                return OrderRecord.from_dict(record), line
        raise AnswerGoneError(
            "the order was carried out under this idempotency key before, and the journal no longer has its outcome; "
            "use a new key for a new order"
        )

    def _carried_out(self, position: int, record: OrderRecord) -> None:
        with self._lock:
            found = record, self.follower.feed.lines
            self._outcomes[position] = found
            self._carried_until = position + 1
            if len(self._outcomes) > OUTCOMES:
                del self._outcomes[next(iter(self._outcomes))]
            futures = self._waiting.pop(position, [])
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(found)

    # ------------------------------------------------------------------------ the thread

    def _work(self) -> None:
        give_way()  # to the thread that answers requests
        try:
            self._began = self._clock()
            self._known()
            while True:
                closing = self.phase == "closing"  # read before the log: nothing is admitted after it
                applied = self.follower.apply()
                self._save_if_due(self._whole)
                self._be_ready_if_due()
                if not self._recovered and (not applied or self.follower.applied >= self._logged_before):
                    self._end_recovery()
                if closing and not applied:
                    break
                if not applied and not self.follower.log.wait(self.follower.position, IDLE_SECONDS):
                    self._idle()
                elif not closing and self.follower.log.next < self.follower.position + GATHERED:
                    # Applied one by one, records would take ten times as long, and the event loop would wait for that.
                    time.sleep(GATHER_SECONDS)
            self._save()
            self._end("closed", "")
        except BaseException as error:
            log.exception("learning of %s failed", self.follower.blueprint.name)
            self.error = error
            self._end("failed", f"{type(error).__name__}: {error}")
        finally:
            self._changed.set()

    def _between_steps(self) -> None:
        self._save_if_due(self._saved)
        self._be_ready_if_due()

    def _be_ready_if_due(self) -> None:
        """Take records once as much has been learned as an earlier process can have learned since its last checkpoint.

        What it had not learned waits then, as it did before.
        """
        if self.phase == "recovering" and self._clock() - self._began >= self.follower.keeping.checkpoint_seconds:
            self._be_ready()

    def _end_recovery(self) -> None:
        run = self.follower.run
        self._recovered = True
        if run is not None:
            # Until two checkpoints have these orders behind them, they may have to be carried out once more.
            last = self._logged_before - 1
            run.held = {number: last if order == UNKNOWN else order for number, order in run.held.items()}
        self._be_ready()

    def _be_ready(self) -> None:
        with self._lock:
            if self.phase == "recovering":
                self.phase = "ready"
        self._changed.set()

    def _save_if_due(self, last: tuple[float, int]) -> None:
        """Save a checkpoint if it has been long since the last one, or if many rows were applied since."""
        follower, keeping = self.follower, self.follower.keeping
        time, rows = last
        if (
            self._clock() - time >= keeping.checkpoint_seconds
            or follower.applied_rows - rows >= keeping.checkpoint_rows
        ):
            self._save()

    def _save(self) -> None:
        follower = self.follower
        self._saved = self._clock(), follower.applied_rows
        if follower.applied == follower.position:
            self._whole = self._saved
        if follower.checkpoint() and self._recovered:
            with self._dropping:
                self.needed_from = {at: first for at, first in self.needed_from.items() if at >= follower.saved}
                follower.drop_old_records(min([follower.saved, self._needed(), *self.needed_from.values()]))

    def _end(self, phase: Phase, failure: str) -> None:
        with self._lock:
            self.phase, self.failure = phase, failure
            futures = [future for waiting in self._waiting.values() for future in waiting]
            self._waiting.clear()
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_exception(
                    UnavailableError(
                        f"the model is {phase}; the order is in its log, and is carried out when it is opened again"
                    )
                )
