"""Errors of our models on real and generated tables, beside the trivial rule and LightGBM refitted by hand.

``DRIFTSURF_DATA=folder python -m benchmarks.real_tables`` runs ``driftsurf run`` on each table as it comes, once with
each model, and prints a table; published tables whose file is missing are skipped with a line. The rule is that of
:func:`driftsurf.evaluation.summary.baselines`: the most frequent class before each step, or the mean. *By hand* is
what a careful engineer would write: before every step LightGBM is fitted to the last 10,000 rows, with pandas
categories for names, 50 trees (20 rounds for more than two classes) and otherwise the library's defaults. The first
step does not count, since no model can know anything about it.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import driftsurf
from benchmarks.tables import GENERATED
from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.row_encoder import find_target
from driftsurf.data.tables import Table
from driftsurf.errors import ColumnWarning
from driftsurf.evaluation.summary import baselines

__all__ = ["MODELS", "TABLES", "Measured", "RealTable", "measure", "prepared"]

MODELS = "driftsurf", "recommended-linear", "recommended-trees", "recommended"
HAND_ROWS = 10_000
"""Number of rows that the model by hand is fitted on."""


@dataclass(frozen=True)
class RealTable:
    """A table, what to predict in it, and the number of rows in a step."""

    name: str
    file: str
    label: str
    batch_size: int
    drop: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that is run, without the model."""
        dropped = "".join(f" --drop {name}" for name in self.drop)
        return f"driftsurf run {self.file} --label {shlex.quote(self.label)} --batch-size {self.batch_size}{dropped}"


TABLES = (
    RealTable("Electricity", "elec2.csv.gz", "class", 453, ("date",)),
    RealTable("NOAA weather", "noaa_weather.csv.gz", "target", 182),
    RealTable("Airline 2007", "airline_2007_first50482.csv.gz", "ArrDelay > 0", 505),
    RealTable("phishing", "phishing.csv.gz", "target", 110),
    RealTable("Luxembourg", "luxembourg.csv.gz", "label", 19),
    RealTable("PowerSupply", "powersupply.csv.gz", "class", 299),
    RealTable("INSECTS", "insects_gradual_balanced.csv.gz", "class", 241),
    RealTable("outdoor", "outdoor.csv.gz", "class", 40),
    RealTable("Electricity, price", "elec2.csv.gz", "nswprice", 453, ("date", "class")),
    *(
        RealTable(name.replace("_", " "), f"{name}.csv", label, batch_size, drop)
        for name, label, batch_size, drop in (
            ("heavy_tails", "late", 200, ()),
            ("rare_class", "fraud", 200, ()),
            ("seasonal", "pm25", 168, ()),
            ("particles", "pm25", 168, ()),
            ("air_quality", "co", 96, ()),
            ("demand", "rentals", 168, ()),
            ("bike_sharing", "rentals", 168, ()),
            ("padded", "income", 200, ()),
            ("gaps", "fault", 200, ()),
            ("flips", "click", 100, ()),
            ("new_label", "state", 150, ()),
            ("static", "bought", 200, ()),
            ("mixed_types", "sold", 200, ("id",)),
        )
    ),
)
"""Published tables, then generated ones. A step is about a hundredth of the rows."""


@dataclass(frozen=True)
class Measured:
    """Errors on one table after the first step: shares of wrong rows, or root mean squared errors."""

    rule: float
    """The error of the trivial rule."""
    models: dict[str, float]
    log_loss: dict[str, float]
    """Mean log loss of each model; NaN for regression."""
    base_rate: float
    """Log loss of the shares of the classes before each step; NaN for regression."""
    by_hand: float = math.nan
    """The error of LightGBM refitted by hand."""


def measure(table: RealTable, folder: Path, models: Sequence[str] = MODELS, *, by_hand: bool = True) -> Measured:
    """Run the models on a table whose file is in ``folder``."""
    rule, errors, log_loss, base_rate = math.nan, dict[str, float](), dict[str, float](), math.nan
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnWarning)  # hints about columns: the tables are run as they come
            result = driftsurf.run(
                folder / table.file,
                label=table.label,
                batch_size=table.batch_size,
                drop=table.drop,
                model=model,
                out=folder / f"{table.name} {model}",
            )
        trace, name = result.trace, result.model
        found = baselines(trace, name)
        errors[model], rule = found.own, found.others.get("majority", found.others.get("mean", math.nan))
        counted = trace.counted(name)
        if trace.labels:
            log_loss[model] = float(np.average(counted["log_loss"], weights=counted["rows"]))
            run = trace.of(name)
            base_rate = _base_rate(np.column_stack([run[f"true:{label}"] for label in trace.labels]))
        else:
            log_loss[model] = math.nan
    hand = math.nan
    if by_hand:
        hand = _by_hand(list(_batches(table, folder / table.file)))
    return Measured(rule, errors, log_loss, base_rate, hand)


def _base_rate(counts: npt.NDArray[np.int64]) -> float:
    """Return the log loss of predicting the shares of the classes in all steps before; each class counts one more."""
    before = np.cumsum(counts, axis=0)[:-1] + 1.0
    shares = before / before.sum(axis=1, keepdims=True)
    return float(-(counts[1:] * np.log(shares)).sum() / counts[1:].sum())


def _batches(table: RealTable, source: Path) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
    """Yield frames without the label, and their labels; rows without a label are left out."""
    target = None
    for part, _ in FileSource(source, ReadingOptions(drop=table.drop), batch_size=table.batch_size).tables():
        target = find_target(table.label, "auto", part) if target is None else target
        labelled = part.select(~target.missing(part))
        yield _frame(labelled.without(target.column)), target.read(labelled)


def _frame(table: Table) -> Any:
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, column in table.columns.items():
        if column.kind == "text":
            columns[name] = np.array([*column.words, None], object)[column.values]
        elif column.kind == "date":
            columns[name] = column.values.astype("datetime64[us]").astype(np.int64) / 86_400e6
        else:
            columns[name] = column.values
    return pd.DataFrame(columns)


def _by_hand(batches: list[tuple[Any, npt.NDArray[Any]]]) -> float:
    import pandas as pd
    from lightgbm import LGBMClassifier, LGBMRegressor

    regression = batches[0][1].dtype.kind == "f" and len(np.unique(np.concatenate([y for _, y in batches[:3]]))) > 20
    rows = pd.concat([frame for frame, _ in batches], ignore_index=True)
    names = [name for name in rows.columns if rows[name].dtype == object or str(rows[name].dtype) in ("str", "string")]
    rows = rows.astype(dict.fromkeys(names, "category"))
    y = np.concatenate([labels for _, labels in batches])
    stops = np.cumsum([len(labels) for _, labels in batches])
    same = {"n_jobs": 1, "verbose": -1, "deterministic": True, "force_col_wise": True}
    error = 0.0
    for start, stop in pairwise(stops):
        window = slice(max(0, start - HAND_ROWS), start)
        seen = np.unique(y[window])
        if regression:
            model = LGBMRegressor(n_estimators=50, **same)
        else:
            model = LGBMClassifier(n_estimators=50 if len(seen) <= 2 else 20, **same)
        if len(seen) == 1:
            predicted = np.full(stop - start, seen[0])
        else:
            predicted = model.fit(rows[window], y[window]).predict(rows[start:stop])
        error += float(np.square(predicted - y[start:stop]).sum() if regression else (predicted != y[start:stop]).sum())
    mean = error / (stops[-1] - stops[0])
    return math.sqrt(mean) if regression else mean


def prepared(data: Path | None, folder: Path, seed: int = 0) -> list[RealTable]:
    """Put the files of the tables into a folder; return the tables whose file is there."""
    for name, made in GENERATED.items():
        (folder / f"{name}.csv").write_text(made(seed))
    for file in {table.file for table in TABLES}:
        if data is not None and (data / file).exists() and not (folder / file).exists():
            (folder / file).symlink_to(data / file)
    return [table for table in TABLES if (folder / table.file).exists()]


def _line(table: RealTable, found: Measured) -> str:
    cells = [*(f"{found.models[model]:.3f}" for model in MODELS), f"{found.rule:.3f}", f"{found.by_hand:.3f}"]
    losses = "" if math.isnan(found.base_rate) else f"{found.log_loss['driftsurf']:.3f} ({found.base_rate:.3f})"
    return f"| {table.name} | {' | '.join(cells)} | {losses} | `{table.command}` |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_tables", description="Measure errors on tables.")
    parser.add_argument("names", nargs="*", help="tables to measure (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated tables (default: 0)")
    options = parser.parse_args()
    data = os.environ.get("DRIFTSURF_DATA")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        available = prepared(None if data is None else Path(data), folder, options.seed)
        for table in TABLES:
            if table not in available:
                print(f"skipped: {table.name}; {table.file} is not in the folder that DRIFTSURF_DATA names")
        print(f"| table | {' | '.join(MODELS)} | rule | LightGBM by hand | log loss (base rate) | command |")
        print(f"|---|{'---:|' * (len(MODELS) + 3)}---|")
        for table in available:
            if not options.names or table.name in options.names:
                print(_line(table, measure(table, folder)), flush=True)


if __name__ == "__main__":
    main()
