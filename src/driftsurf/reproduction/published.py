"""The paper's streams, settings and printed tables, read from ``published.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from driftsurf.core.options import choice

if TYPE_CHECKING:
    from driftsurf.strategies import BudgetRule

DriftType: TypeAlias = Literal["abrupt", "gradual"]
Update: TypeAlias = Literal["strsaga", "sgd"]


@dataclass(frozen=True)
class Departure:
    """A setting that differs from the printed one, or that the paper does not print."""

    what: str
    printed: str
    ours: str
    why: str


@dataclass(frozen=True, kw_only=True)
class PublishedStream:
    """A stream of the paper, with its entries in the tables of datasets, drifts and hyperparameters."""

    name: str
    title: str
    """Its name in the paper's tables of results."""
    n_rows: int
    n_features: int
    """Number of columns, without the constant 1 that every model gets."""
    drift_type: DriftType | None
    """None for real data: the paper does not give it."""
    aware_steps: tuple[int, ...]
    """Steps, from 0, at which Aware resets: at both ends of a gradual drift."""
    l2: float
    """mu: the weight of the regularisation."""
    step_size: float
    """eta, as we use it."""
    printed_step_size: float
    """eta as printed.

    >>> STREAMS["powersupply"].printed_step_size, STREAMS["powersupply"].step_size
    (0.1, 0.02)
    """
    printed_batch_size: int
    n_steps: int
    """b: the number of time steps of the stream."""
    file_based: bool
    """Whether it needs a data file; the other streams are generated."""
    departures: tuple[Departure, ...]

    @property
    def batch_size(self) -> int:
        """m: rows of a step. Rows that do not fill the last step are dropped.

        >>> STREAMS["electricity"].batch_size, STREAMS["electricity"].printed_batch_size
        (1332, 1333)
        """
        return self.n_rows // self.n_steps


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A table of mean errors: how it was run, and the printed numbers."""

    name: str
    title: str
    algorithms: tuple[str, ...]
    errors: Mapping[str, Mapping[str, float]]
    """By stream, then by algorithm."""
    bold: frozenset[tuple[str, str]]
    """Pairs of stream and algorithm that are printed bold."""
    budget: BudgetRule
    """Whether each model gets all gradient steps, or the models of an algorithm share them."""
    steps_per_row: int
    """rho / m: gradient steps for each row."""
    update: Update


@dataclass(frozen=True)
class Excerpt:
    """A table that repeats some rows and columns of another table."""

    table: str
    streams: tuple[str, ...]
    algorithms: tuple[str, ...]


def published(table: str, stream: str, algorithm: str) -> float | None:
    """Return the printed error; None if the table has no such column.

    >>> published("rho-4m", "powersupply", "candor")
    0.282
    >>> published("greedy", "powersupply", "candor") is None
    True
    >>> published("rho-8m", "powersupply", "candor")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: table is 'rho-8m'; choices: 'equal-model', 'rho-4m', ...
    """
    choice("table", table, tuple(TABLES))
    choice("stream", stream, tuple(STREAMS))
    choice("algorithm", algorithm, tuple(ALGORITHMS))
    return TABLES[table].errors[stream].get(algorithm)


def best(row: Mapping[str, float]) -> frozenset[str]:
    """Return the algorithms that the paper prints bold: those with the lowest error of the row, Aware aside.

    >>> sorted(best({"aware": 0.071, "driftsurf": 0.088, "mddm-g": 0.088, "aue": 0.094}))
    ['driftsurf', 'mddm-g']
    """
    rivals = {algorithm: error for algorithm, error in row.items() if algorithm != "aware"}
    lowest = min(rivals.values(), default=None)
    return frozenset(algorithm for algorithm, error in rivals.items() if error == lowest)


def _rows(text: str) -> Iterator[dict[str, str]]:
    """Iterate over the lines of a plain-text table as dictionaries from column to cell."""
    head, *lines = (line.split() for line in text.strip().splitlines())
    return (dict(zip(head, line, strict=True)) for line in lines)


def _read_stream(row: Mapping[str, str], departures: list[dict[str, Any]]) -> PublishedStream:
    return PublishedStream(
        name=row["stream"],
        title=row["title"],
        n_rows=int(row["rows"]),
        n_features=int(row["features"]),
        drift_type=None if row["drift"] == "-" else cast("DriftType", row["drift"]),
        aware_steps=() if row["aware"] == "-" else tuple(map(int, row["aware"].split(","))),
        l2=float(row["mu"]),
        step_size=float(row["eta"]),
        printed_step_size=float(row["eta"] if row["printed"] == "-" else row["printed"]),
        printed_batch_size=int(row["batch"]),
        n_steps=int(row["steps"]),
        file_based=row["source"] == "file",
        departures=tuple(
            Departure(item["what"], item["printed"], item["ours"], item["why"])
            for item in departures
            if row["stream"] in item["streams"]
        ),
    )


def _read_table(name: str, section: Mapping[str, Any]) -> PublishedTable:
    cells = {row.pop("stream"): row for row in _rows(section["errors"])}
    return PublishedTable(
        name=name,
        title=section["title"],
        algorithms=tuple(next(iter(cells.values()))),
        errors={stream: {name: float(cell.rstrip("*")) for name, cell in row.items()} for stream, row in cells.items()},
        bold=frozenset((stream, name) for stream, row in cells.items() for name, cell in row.items() if "*" in cell),
        budget=section["budget"],
        steps_per_row=section["steps_per_row"],
        update=section["update"],
    )


_PAPER = tomllib.loads(files("driftsurf.reproduction").joinpath("published.toml").read_text(encoding="utf-8"))

TRIALS: Final[int] = _PAPER["trials"]
"""Number of trials behind a printed error: the mean over the steps of a stream, then the median over the trials."""

ALGORITHMS: Final[Mapping[str, str]] = _PAPER["algorithms"]
"""Titles of the algorithms as printed, by name."""

STREAMS: Final[Mapping[str, PublishedStream]] = {
    row["stream"]: _read_stream(row, _PAPER["departures"]) for row in _rows(_PAPER["streams"])
}
"""The fifteen streams by name, in the paper's order."""

TABLES: Final[Mapping[str, PublishedTable]] = {
    name: _read_table(name, section) for name, section in _PAPER["tables"].items()
}
"""The six tables of results by name. Their rows have the order of STREAMS; two print Mixed before SINE1."""

COMPACT: Final = Excerpt(
    table=_PAPER["compact"]["table"],
    streams=tuple(name for name in STREAMS if name not in _PAPER["compact"]["without_streams"]),
    algorithms=tuple(_PAPER["compact"]["algorithms"]),
)
"""The table of the main text. Its bold cells are the best among its own columns."""


REACTIVE_LENGTH = 4
"""r: the number of steps of a reactive state."""
OPTIONS = {"class_share": 0.0}
"""Options of DriftSurf that differ from the defaults: the paper does not ask which classes a model has seen."""


def settings_of(dataset: str) -> PublishedStream:
    """Return the paper's settings for a stream; a stand-in has those of the stream that it stands in for.

    >>> settings_of("airline-2007").l2
    0.001
    """
    from driftsurf.data.datasets.known import DATASETS  # only here: the tables are read without numpy

    real = DATASETS.get(dataset)
    return STREAMS[dataset if real is None or real.stands_for is None else real.stands_for]
