"""Output files of a reproduction: results.json, timings.json, and the tables as CSV and Markdown."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from driftsurf import __version__
from driftsurf.comparison.runner import data_digest
from driftsurf.core import files
from driftsurf.data import catalogue
from driftsurf.reproduction import plan
from driftsurf.reproduction.cells import ErrorCell, agreement, to_csv, to_markdown
from driftsurf.reproduction.plan import AlgorithmColumn, PaperTable
from driftsurf.reproduction.published import COMPACT, STREAMS, PublishedStream
from driftsurf.reproduction.reproduce import Reproduction, title_of


def write(folder: Path, result: Reproduction) -> None:
    """Write all files. ``results.json`` holds no time and no path, so equal results give equal bytes."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for name in (*plan.TABLES, "compact"):  # an earlier run may have left tables that this one does not have
        for kind in ("csv", "md"):
            (folder / "tables" / f"{name}.{kind}").unlink(missing_ok=True)
    files.write_text(
        folder / "results.json", json.dumps(results(result), indent=1, allow_nan=False) + "\n", shared=True
    )
    files.write_text(
        folder / "timings.json", json.dumps({"cells": list(_timings(result))}, indent=1) + "\n", shared=True
    )
    titles = {name: title_of(name) for name in result.datasets}
    for table in result.tables:
        cells = [cell for cell in result.cells if cell.table == table.name]
        files.write_text(folder / "tables" / f"{table.name}.csv", to_csv(cells), shared=True)
        files.write_text(folder / "tables" / f"{table.name}.md", to_markdown(table, cells, titles), shared=True)
    compact = [cell for cell in result.cells if cell.table == COMPACT.table and cell.dataset in COMPACT.streams]
    if compact:
        columns = tuple(column for column in plan.TABLES[COMPACT.table].columns if column.name in COMPACT.algorithms)
        table = PaperTable(COMPACT.table, "The table of the main text: rho = 2m for each model", columns)
        cells = [cell for cell in compact if cell.algorithm in COMPACT.algorithms]
        files.write_text(folder / "tables" / "compact.csv", to_csv(cells), shared=True)
        files.write_text(folder / "tables" / "compact.md", to_markdown(table, cells, titles), shared=True)
    for name, rows in _settings():
        files.write_text(folder / "tables" / f"{name}.md", _markdown(rows), shared=True)
        files.write_text(
            folder / "tables" / f"{name}.csv", "".join(",".join(map(_quoted, row)) + "\n" for row in rows), shared=True
        )


def results(result: Reproduction) -> dict[str, Any]:
    """Return the content of results.json, with None for NaN and infinity."""
    near = agreement(result.cells)
    everything = {
        "driftsurf": __version__,
        "experiments": result.experiments,
        "seeds": result.seeds,
        "datasets": {
            name: {
                "title": title_of(name),
                "data": "generated" if data_digest(name) == "generated" else "file",
                "paper": name in catalogue.CATALOGUE.paper,
            }
            for name in result.datasets
        },
        "missing": result.missing,
        "agreement": {"cells": near.cells, "within 0.010": near.within_10, "within 0.020": near.within_20},
        "cells": [asdict(cell) for cell in result.cells],
        "tune": [tuning.to_dict() for tuning in result.tunings],
        "claims": [
            {
                "id": verdict.claim.id,
                "says": verdict.claim.text,
                "where": verdict.claim.source,
                "rule": verdict.claim.criterion,
                "holds": verdict.holds,
                "holds in print": verdict.holds_in_print,
                "evidence": verdict.evidence,
                "stand-in": verdict.stand_in,
            }
            for verdict in result.verdicts
        ],
        "analysis": {
            "competition": [competition.to_dict() for competition in result.competitions],
            "bounds": [asdict(bounds) for bounds in result.bounds],
        },
    }
    plain: dict[str, Any] = _finite(everything)
    return plain


def seconds_of(result: Reproduction, cell: ErrorCell) -> float:
    """Return the median seconds of the trials of a cell."""
    table = plan.TABLES[cell.table]
    column: AlgorithmColumn = next(column for column in table.columns if column.name == cell.algorithm)
    trials = (plan.trial(table, column, cell.dataset, cell.variant, seed) for seed in result.seeds)
    return statistics.median(result.outcomes[trial].seconds for trial in trials)


def _timings(result: Reproduction) -> Iterator[dict[str, Any]]:
    for cell in result.cells:
        yield {
            "table": cell.table,
            "dataset": cell.dataset,
            "algorithm": cell.algorithm,
            "variant": cell.variant,
            "seconds": seconds_of(result, cell),
        }


def _settings() -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Return the paper's tables of datasets, drifts and hyperparameters, and our departures from them."""
    streams = STREAMS.values()
    yield (
        "datasets",
        [
            ("Stream", "Rows", "Columns", "Source"),
            *((s.title, f"{s.n_rows}", f"{s.n_features}", "file" if s.file_based else "generated") for s in streams),
        ],
    )
    yield (
        "drifts",
        [
            ("Stream", "Drift", "Aware resets at steps"),
            *((s.title, s.drift_type or "not known", " ".join(map(str, s.aware_steps)) or "none") for s in streams),
        ],
    )
    yield (
        "hyperparameters",
        [
            ("Stream", "mu", "eta (printed)", "eta (used)", "Batch size (printed)", "Batch size (used)", "Steps"),
            *((s.title, *(f"{value:g}" for value in _numbers(s))) for s in streams),
        ],
    )
    yield (
        "departures",
        [
            ("Stream", "What", "Printed", "Ours", "Why"),
            *((s.title, d.what, d.printed, d.ours, d.why) for s in streams for d in s.departures),
        ],
    )


def _numbers(s: PublishedStream) -> tuple[float, ...]:
    return s.l2, s.printed_step_size, s.step_size, s.printed_batch_size, s.batch_size, s.n_steps


def _markdown(rows: Iterable[tuple[str, ...]]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _quoted(text: str) -> str:
    return f'"{text}"' if "," in text else text


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
