"""Runs that were stopped halfway, kept in ``tests/golden/format-N/runs`` for each state format N that is read.

``python tests/support/golden_states.py`` writes those of the current format again.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import golden_states

import driftsurf
from driftsurf.core import state
from driftsurf.core.state import FORMAT, resolved
from driftsurf.keyed import KeyedFolder
from driftsurf.keyed import folder as keyed_folder
from driftsurf.keyed.store import StateStore
from driftsurf.runs import plan_streams, plan_tables
from driftsurf.runs.checkpoint import CheckpointFolder

ROWS = 160
"""Rows of a source; half of them were learned when the run was stopped."""
VERSION = "0.0.0"
"""Version that runs and states say they were written by, so that equal results have equal bytes in every version."""
_COMMON: dict[str, Any] = {"checkpoint": "live", "every": 2, "batch_size": 16, "predictions": "predictions.csv"}
_KEYED: dict[str, Any] = {"key": "shop", "sequence": "at", "out": "live", "epoch": 40, "batch_size": 8, "max_rows": 20}
RUNS: dict[str, dict[str, Any]] = {
    "classes": {"source": "rows.csv", "label": "sold", "drop": ["id", "at"], "model": "driftsurf", **_COMMON},
    "ensemble": {"source": "rows.jsonl", "label": "city", "drop": ["id"], "model": "aue:softmax", **_COMMON},
    "numbers": {"source": "rows.csv", "label": "price", "drop": ["id"], "model": "recommended-linear", **_COMMON},
    "late": {
        "source": "rows.csv",
        "label": "sold",
        "key": "id",
        "labels": "labels.csv",
        "model": "recommended-trees",
        **_COMMON,
    },
    "stream": {"source": "sine1", "rows": 480, "seed": 3, **_COMMON, "batch_size": 48},
    "keyed": {"source": "rows.csv", "label": "sold", "drop": ["id"], **_KEYED},
    "keyed-late": {"source": "rows.csv", "label": "sold", "id": "id", "delay": 5.0, **_KEYED},
}
"""Arguments of ``driftsurf.run`` for each run, by its name."""
RESULTS = "trace.csv", "journal.jsonl", "columns.csv", "run.json", "model.state", "report.html"


class Stop(BaseException):
    """Simulates kill -9: the run writes nothing more."""


def write_sources(place: Path) -> None:
    """Write the files that the runs read: rows with numbers, text and gaps whose meaning changes, and late labels."""
    chance = random.Random(7)
    rows: list[dict[str, Any]] = []
    for i in range(ROWS):
        price, size = round(chance.gauss(0, 1), 2), chance.choice((1, 2, 3, None))
        sold = (price + 0.2 * (size or 0) > 0.3) != (ROWS // 3 < i < 2 * ROWS // 3)
        city = "Rome" if price > 0.5 else "Oslo" if price < -0.5 else "Bern"
        shop = chance.choice("abc")
        rows.append({"id": f"r{i}", "at": i, "shop": shop, "price": price, "size": size, "city": city, "sold": sold})
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = [",".join(rows[0])] + [
        ",".join("" if value is None else str(value) for value in row.values()) for row in rows
    ]
    (place / "rows.csv").write_text("\n".join(table) + "\n")
    late = [f"{row['id']},{row['sold']}" for row in sorted(rows, key=lambda row: row["at"] + 13 * (row["at"] % 3))]
    (place / "labels.csv").write_text("\n".join(["id,sold", *late]) + "\n")


def run(name: str, place: Path, stop_at: int | None = None) -> list[int]:
    """Begin or resume a run in a folder, where its sources are; return the steps or epochs that were learned."""
    options, done = RUNS[name], list[int]()

    def count(at: int, *_: Any) -> None:
        done.append(at)
        if at == stop_at:
            raise Stop

    own = {"on_epoch": count} if _keyed(name) else {"on_step": count, "resume": True}
    with contextlib.ExitStack() as stack:
        for module in (state, plan_tables, plan_streams, keyed_folder):  # files name the version that began a run
            stack.enter_context(mock.patch.object(module, "__version__", VERSION))
        stack.enter_context(contextlib.chdir(place))
        stack.enter_context(contextlib.suppress(Stop))
        driftsurf.run(progress=False, **options, **own)
    return done


def _keyed(name: str) -> bool:
    return "epoch" in RUNS[name]


def results(name: str, place: Path) -> dict[str, Any]:
    """Return what a run has written, without what depends on time or on other packages."""
    live = place / "live"
    if not _keyed(name):
        files = [
            path for path in sorted(place.rglob("*")) if path.name in RESULTS or path.name.startswith("predictions")
        ]
        return {str(path.relative_to(place)): path.read_bytes() for path in files}
    folder = KeyedFolder(live)
    found: dict[str, Any] = {table: folder.read(table) for table in ("predictions", "journal", "keys")}
    with contextlib.closing(StateStore(live / "state.sqlite")) as store:
        found |= {f"state of {key}": store.get(key) for key in list(folder.keys())}
    return found


def checkpoint(name: str, place: Path) -> dict[str, bytes]:
    """Return the saved states of a run that was stopped.

    The files of a checkpoint may divide the same state in several ways, so its entries are compared.
    """
    if _keyed(name):
        return {one: value for one, value in results(name, place).items() if one.startswith("state of")}
    saved = CheckpointFolder(place / "live").load()
    assert saved is not None
    return {"state": state.to_bytes(resolved(saved.state))}


def stop(name: str, place: Path) -> None:
    """Begin a run, and stop it where those in ``tests/golden`` were stopped."""
    run(name, place, stop_at=1 if _keyed(name) else 5)


def archive(name: str, number: int = FORMAT) -> Path:
    """Return the file with the folder of a stopped run."""
    return golden_states.folder(number) / "runs" / f"{name}.tar.xz"


def restore(name: str, number: int, place: Path) -> None:
    """Unpack a stopped run at a place, and write the sources that it reads."""
    write_sources(place)
    shutil.unpack_archive(archive(name, number), place)


def write() -> None:
    """Write the runs of the current format."""
    for name in RUNS:
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            write_sources(place)
            sources = list(place.iterdir())
            stop(name, place)
            for path in (*sources, *(place / "live" / left for left in ("lock", "fence", "timings.json"))):
                path.unlink(missing_ok=True)
            archive(name).parent.mkdir(exist_ok=True)
            with tarfile.open(archive(name), "w:xz") as file:
                for path in sorted(place.iterdir()):
                    file.add(path, path.name, filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry of an archive without what depends on who writes it, and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry
