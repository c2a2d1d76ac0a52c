"""Experiments on a Dask cluster: joblib sends the tasks to other machines, and the results are the same."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from driftsurf.comparison.runner import code_digest
from driftsurf.errors import CapabilityError, MissingExtraError

__all__ = ["on_cluster"]

WAIT_SECONDS = 30


@contextlib.contextmanager
def on_cluster(address: str | None, jobs: int) -> Iterator[int]:
    """Context in which tasks run on the workers of a Dask scheduler; without an address, in ``jobs`` local processes.

    Yields the number of tasks to run at a time. The ledger stays on this machine, and each result is written to it
    once: the tasks of a lost worker are repeated by another one. Workers must have the same data and the same code;
    the code is checked.
    """
    if address is None:
        yield jobs
        return
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            f"a cluster needs dask.distributed, which is not installed ({error}): pip install 'driftsurf[dask]'"
        ) from error
    from joblib import parallel_config

    with distributed.Client(address, timeout=WAIT_SECONDS) as client:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
        different = [worker for worker, digest in client.run(code_digest).items() if digest != code_digest()]
        if different:
            raise CapabilityError(
                f"{', '.join(sorted(different))}: the versions of driftsurf, numpy or scipy differ from "
                "those of this process; install the same versions there"
            )
        with parallel_config("dask", client=client):
            yield max(2, sum(client.nthreads().values()))
