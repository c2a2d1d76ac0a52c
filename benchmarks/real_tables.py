"""Errors of ``driftsurf run`` on published tables, compared with simple rules and a pipeline that is refitted.

``DRIFTSURF_DATA=folder python -m benchmarks.real_tables`` runs each command in a folder of its own and prints a
table. The pipeline is scikit-learn's usual one (medians and scaling for numbers, one-hot names, logistic regression),
refitted before every batch on the last ten. The first batch does not count, since no model can know anything about it.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from click.testing import CliRunner

from benchmarks.mixed import csv_text, mixed_rows
from driftsurf import Trace
from driftsurf.cli import main as driftsurf
from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.tables import Table
from driftsurf.data.target import find_target
from driftsurf.evaluation.baselines import baselines

__all__ = ["COMMANDS", "Command", "errors"]

WINDOW = 10
"""Number of batches that the pipeline is fitted on."""


@dataclass(frozen=True)
class Command:
    """One run, as typed on the command line."""

    name: str
    file: str
    label: str
    options: str

    @property
    def text(self) -> str:
        """Return the command as text."""
        return f"driftsurf run {self.file} --label {shlex.quote(self.label)} {self.options}"

    @property
    def batch_size(self) -> int:
        """Return the number of rows of a batch."""
        return int(self.options.split("--batch-size ")[1].split()[0])

    @property
    def dropped(self) -> list[str]:
        """Return the columns that are dropped."""
        words = self.options.split()
        return [name for option, name in pairwise(words) if option == "--drop"]


COMMANDS = (
    Command("Electricity", "elec2.csv.gz", "class", "--batch-size 453 --drop date"),
    Command("NOAA weather", "noaa_weather.csv.gz", "target", "--batch-size 182"),
    Command("Airline 2007", "airline_2007_first50482.csv.gz", "ArrDelay > 0", "--batch-size 505"),
    Command("phishing", "phishing.csv.gz", "target", "--batch-size 110"),
    Command("mixed types", "sales.csv", "sold", "--batch-size 200 --drop id"),
)
"""Runs of the table. A batch is a hundredth of the rows, as in the paper; ``sales.csv`` is generated."""


def errors(command: Command, folder: Path, *, retrained: bool = True) -> dict[str, float]:
    """Return the error rates after the first batch: of the command, the simple rules, and the retrained pipeline."""
    out = folder / command.name
    source = folder / command.file
    arguments = ["run", str(source), "--label", command.label, *command.options.split(), "--quiet", "--out", str(out)]
    CliRunner().invoke(driftsurf, arguments, catch_exceptions=False)
    trace = Trace.load(out / "trace.csv")
    measured = baselines(trace, trace.models[0])
    found = {"driftsurf": measured.own, **measured.others}
    if retrained:
        found["retrained pipeline"] = _retrained(list(_batches(command, source)))
    return found


def _batches(command: Command, source: Path) -> Iterator[tuple[Any, npt.NDArray[Any]]]:
    """Yield batches of frames without the label, and their labels."""
    target = None
    for table, _ in FileSource(source, ReadingOptions(drop=command.dropped), batch_size=command.batch_size).tables():
        target = find_target(command.label, "auto", table) if target is None else target
        yield _frame(table.without(target.column)), target.read(table)


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


def _retrained(batches: list[tuple[Any, npt.NDArray[Any]]]) -> float:
    import pandas as pd
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=1000))
    wrong = rows = 0
    for place in range(1, len(batches)):
        window = batches[max(0, place - WINDOW) : place]
        X, y = pd.concat([frame for frame, _ in window]), np.concatenate([labels for _, labels in window])
        now, true = batches[place]
        predicted = model.fit(X, y).predict(now) if len(np.unique(y)) > 1 else np.full(len(true), y[0])
        wrong += int(np.count_nonzero(predicted != true))
        rows += len(true)
    return wrong / rows


def linked(data: Path, folder: Path) -> Path:
    """Create a folder with the published files and the generated one."""
    for command in COMMANDS:
        if (data / command.file).exists():
            (folder / command.file).symlink_to(data / command.file)
    (folder / "sales.csv").write_text(csv_text(mixed_rows(20_000)))
    return folder


def main() -> None:
    names = "driftsurf", "majority", "persistence", "retrained pipeline"
    print(f"| stream | {' | '.join(names)} | command |\n|---|{'---:|' * len(names)}---|")
    with tempfile.TemporaryDirectory() as place:
        folder = linked(Path(os.environ["DRIFTSURF_DATA"]), Path(place))
        for command in COMMANDS:
            found = errors(command, folder)
            cells = " | ".join(f"{found[name]:.4f}" for name in names)
            print(f"| {command.name} | {cells} | `{command.text}` |", flush=True)


if __name__ == "__main__":
    main()
