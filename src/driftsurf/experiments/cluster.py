"""Experiments on a Dask cluster: joblib hands the same tasks to other machines, with the same results."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from driftsurf.errors import CapabilityError, MissingExtraError
from driftsurf.experiments.runner import code_digest

__all__ = ["on_cluster"]

WAIT_SECONDS = 30


@contextlib.contextmanager
def on_cluster(address: str | None, jobs: int) -> Iterator[int]:
    """Inside, tasks run on the workers of this scheduler; None leaves them here, in ``jobs`` processes.

    Gives the number of tasks to run at a time. The ledger stays here, and a result comes into it once, whoever found
    it: the work of a worker that is lost is done again by another. Workers must have the same code, which is checked,
    and the same data.
    """
    if address is None:
        yield jobs
        return
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            f"a cluster needs dask.distributed, which is missing ({error}): pip install 'driftsurf[dask]'"
        ) from error
    from joblib import parallel_config

    with distributed.Client(address, timeout=WAIT_SECONDS) as client:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
        strange = [worker for worker, theirs in client.run(code_digest).items() if theirs != code_digest()]
        if strange:
            raise CapabilityError(
                f"{', '.join(sorted(strange))} runs another driftsurf, numpy, scipy or numba than this one: install "
                "the same versions there"
            )
        with parallel_config("dask", client=client):
            yield max(2, sum(client.nthreads().values()))
