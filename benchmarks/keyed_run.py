"""Cost of a row in a keyed run of the local engine, beyond reading it; and with a visit to each key instead.

python -m benchmarks.keyed_run [KEYS [EPOCHS]]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.fleet import N_FEATURES, stream
from driftsurf.data import FileSource
from driftsurf.keyed import Columns, KeyedOptions, local
from driftsurf.keyed.key_cache import KeyCache

ROWS_A_VISIT = 10
FEATURES = tuple(f"x{column}" for column in range(N_FEATURES))


class Visits(KeyCache):
    """Visits each key on its own."""

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self._suits = False


def write(path: Path, n_keys: int, epochs: int) -> int:
    """Write epochs in which each key has ten rows on average; return the rows of an epoch."""
    n_rows = ROWS_A_VISIT * n_keys
    parts = [stream(n_keys, n_rows, epoch) for epoch in range(epochs)]
    keys, X, y = (np.concatenate([part[place] for part in parts]) for place in range(3))
    features = {name: X[:, column].astype(np.float64) for column, name in enumerate(FEATURES)}
    parquet.write_table(pa.table({"key": keys, "at": np.arange(len(keys)), "label": y, **features}), path)
    return n_rows


def microseconds_a_row(path: Path, out: Path, n_rows: int, server: type[KeyCache]) -> list[float]:
    """Return the CPU time of each epoch, divided by its rows, less that of reading them."""
    start = time.process_time()
    read = sum(len(table) for table, _ in FileSource(str(path), batch_size=n_rows).tables())
    reading = (time.process_time() - start) / read
    ends = [time.process_time()]

    def mark(epoch: int, counts: Mapping[str, int]) -> None:
        ends.append(time.process_time())

    vars(local)["KeyCache"] = server
    learner = KeyedOptions(classes=(False, True)).learner(FEATURES)
    source = FileSource(str(path), batch_size=n_rows)
    local.run_local(source, out, learner, Columns("key", "at", "label"), on_epoch=mark)
    return [(spent / n_rows - reading) * 1e6 for spent in np.diff(ends).tolist()]


def main() -> None:
    """Print the cost of each epoch but the first, in which keys are new."""
    n_keys, epochs = (int(given) for given in (sys.argv[1:] + ["10000", "8"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.parquet"
        n_rows = write(path, n_keys, epochs)
        print(
            f"{n_keys:,} keys, {ROWS_A_VISIT} rows a visit, {N_FEATURES} columns; CPU microseconds a row beyond reading"
        )
        for name, server in (("blocks", KeyCache), ("visits", Visits)):
            spent = microseconds_a_row(path, Path(place) / name, n_rows, server)[1:]
            print(f"{name}: {min(spent):.1f} at best; by epoch {' '.join(f'{one:.1f}' for one in spent)}")


if __name__ == "__main__":
    main()
