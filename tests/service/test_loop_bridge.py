"""Results of other threads in the event loop: one wake-up for many, and nothing lost when loops end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from driftsurf.errors import LogError
from driftsurf.service.committer import LoopBridge


def end_all(futures: list[Future[int]]) -> None:
    def work() -> None:
        for place, future in enumerate(futures):
            future.set_result(place)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_futures_that_end_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, wakes = LoopBridge(), list[Any]()

    async def wait(count: int) -> list[int]:
        loop = asyncio.get_running_loop()
        usual = loop.call_soon_threadsafe

        def counted(*what: Any) -> Any:
            wakes.append(what)
            return usual(*what)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        futures: list[Future[int]] = [Future() for _ in range(count)]
        tasks = [asyncio.create_task(bridge.result(future)) for future in futures]
        await asyncio.sleep(0)
        end_all(futures)  # in another thread, while this loop does not run
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(wait(50)) == list(range(50))
    assert len(wakes) == 1
    assert asyncio.run(wait(3)) == [0, 1, 2]
    assert len(wakes) == 2


def test_errors_cancelled_waiters_and_closed_loops_leave_the_others_alone() -> None:
    bridge = LoopBridge()
    left: Future[int] = Future()

    async def wait() -> None:
        failed, gone, good, done = (Future[int]() for _ in range(4))
        done.set_result(7)
        tasks = [asyncio.create_task(bridge.result(one)) for one in (failed, gone, good, left)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        failed.set_exception(LogError("the log is broken"))
        gone.set_result(1)
        good.set_result(2)
        found = await asyncio.gather(*tasks[:3], return_exceptions=True)
        assert [type(one) for one in found] == [LogError, asyncio.CancelledError, int]
        assert await bridge.result(done) == 7
        tasks[3].cancel()

    asyncio.run(wait())
    left.set_result(3)  # its loop is closed
    asyncio.run(wait())
