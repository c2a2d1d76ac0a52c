"""The paper's experiments on a Dask cluster: the same results, also when a worker is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("distributed", reason="distributed is not installed: run make test-engines")

from distributed import Client, LocalCluster

from driftsurf.comparison import runner
from driftsurf.errors import CapabilityError
from driftsurf.reproduction import grid_search, output_files
from driftsurf.reproduction.reproduce import reproduce

pytestmark = pytest.mark.filterwarnings("ignore")  # dask warns about ports and lost workers


@pytest.fixture(scope="module")
def two_workers() -> Iterator[Any]:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made:
        yield made


def results(
    folder: Path, address: str | None, experiment: str = "equal-model", names: tuple[str, ...] = ("mixed", "circles")
) -> bytes:
    with runner.on_cluster(address, 1) as jobs:
        done = reproduce(folder, [experiment], names=names, trials=1, jobs=jobs)
    output_files.write(folder, done)
    return (folder / "results.json").read_bytes()


def test_two_workers_give_the_results_of_one_process_even_if_one_is_killed(two_workers: Any, tmp_path: Path) -> None:
    expected = results(tmp_path / "here", None)
    assert results(tmp_path / "there", two_workers.scheduler_address) == expected
    ledger, killed = tmp_path / "killed" / "ledger.jsonl", []

    def kill() -> None:
        while not (ledger.exists() and ledger.read_text().count("\n") >= 3):
            time.sleep(0.01)
        nanny = next(iter(two_workers.workers.values()))
        killed.append(nanny.pid)
        os.kill(nanny.pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    assert results(tmp_path / "killed", two_workers.scheduler_address) == expected
    killer.join()
    assert len(killed) == 1


def test_the_grid_search_of_one_stream_is_distributed_over_workers(two_workers: Any, tmp_path: Path) -> None:
    expected = results(tmp_path / "here", None, "tune", ("circles",))
    with Client(two_workers.scheduler_address) as client:
        # A killed worker takes time to return, and with a single thread in the cluster joblib runs all tasks here.
        client.wait_for_workers(2, timeout=300)
        assert results(tmp_path / "there", two_workers.scheduler_address, "tune", ("circles",)) == expected
        done = client.run(_lines_done)
    assert sum(done.values()) == len(grid_search.L2S)
    assert min(done.values()) > 0


def _lines_done() -> int:
    """Return, on a worker, how many lines of a grid it has done; each of them asked for the rows once."""
    asked = grid_search._split.cache_info()
    return asked.hits + asked.misses


def test_workers_with_other_code_are_refused(two_workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getpid()
    monkeypatch.setattr(runner, "code_digest", lambda: "other" if os.getpid() == own else "theirs")
    with (
        pytest.raises(CapabilityError),
        runner.on_cluster(two_workers.scheduler_address, 1),
    ):
        pass
