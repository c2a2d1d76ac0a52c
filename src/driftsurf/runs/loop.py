"""The loop of a run: it pulls batches from the source, and owns the signals while it does."""

from __future__ import annotations

import contextlib
import threading

from driftsurf.errors import RunStopped
from driftsurf.runs.live import LiveRun
from driftsurf.runs.orders import OrderReport
from driftsurf.runs.signals import Signals, Woken
from driftsurf.session.interrupts import deferred_interrupts

__all__ = ["RunLoop"]


class RunLoop:
    """Runs a :class:`~driftsurf.runs.live.LiveRun` to the end of its source.

    Parameters
    ----------
    live
        The run, begun or resumed.
    handle_signals
        Whether SIGINT and SIGTERM end the run after a checkpoint (with :class:`RunStopped`), instead of at once.
        Only in the main thread, and only if the run has checkpoints; without checkpoints, Ctrl-C waits for the end of
        the step under way. False leaves all signal handlers alone.
    on_order
        Called with each order of an operator that was carried out or refused.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.runs import LiveRun, RunOptions
    >>> from driftsurf.runs.streams import plan_stream
    >>> plan = plan_stream("sea0", RunOptions.of(rows=2_000, batch_size=100))
    >>> with LiveRun(plan, Path(tempfile.mkdtemp()).joinpath) as live:
    ...     live.begin()
    ...     RunLoop(live).run()
    >>> live.step, live.done
    (20, True)
    """

    def __init__(self, live: LiveRun, *, handle_signals: bool = True, on_order: OrderReport | None = None) -> None:
        self.live = live
        self.on_order = on_order
        self.handle_signals = handle_signals
        self._asked_to_stop = threading.Event()

    def stop(self) -> None:
        """Ask the run to stop after the step under way; may be called from any thread."""
        self._asked_to_stop.set()

    def run(self) -> None:
        """Run to the end of the source; RunStopped if it was asked to stop before."""
        durable = self.live.checkpoints is not None
        with contextlib.ExitStack() as stack:
            if self.handle_signals and not durable:
                stack.enter_context(deferred_interrupts())
            signals = stack.enter_context(Signals(held=self.handle_signals and durable))
            self._pull(signals)

    def _apply_orders(self) -> None:
        for record in self.live.apply_waiting_orders():
            if self.on_order is not None:
                self.on_order(record)

    def _pull(self, signals: Signals) -> None:
        live, source = self.live, self.live.plan.source
        self._apply_orders()
        batches = iter(() if live.done else source.batches(live.position))
        while True:
            try:
                with signals.waking():
                    batch = next(batches, None)
            except Woken:
                # The batch that was waited for is read again when the run resumes, with its bad rows.
                live.checkpoint()
                raise RunStopped(live.step, signals.received[0]) from None
            if batch is None:
                break
            live.take(*batch, bad_rows=source.bad_rows())
            if signals.received or self._asked_to_stop.is_set() or live.batches % live.plan.every == 0:
                live.checkpoint()
                self._apply_orders()
            # Asked again: a signal that comes during the checkpoint must not wait for the next batch.
            if signals.received or self._asked_to_stop.is_set():
                raise RunStopped(live.step, signals.received[0] if signals.received else None)
        if not live.done:
            live.write_bad_rows(source.bad_rows())
        live.finish()
