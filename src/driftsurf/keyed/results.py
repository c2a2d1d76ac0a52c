"""Results of an epoch of a keyed run: predictions, time steps and summaries of keys, as tables of pyarrow."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from driftsurf.core.contracts import FloatArray, IntArray
from driftsurf.errors import MissingExtraError
from driftsurf.keyed.rows import RowsByKey
from driftsurf.keyed.summary import key_columns
from driftsurf.keyed.visit import NEW, Visit

__all__ = ["NEVER", "TABLES", "Name", "Part", "Predicted", "Results", "Steps", "arrow", "arrow_type", "fitted"]

Name: TypeAlias = Literal["predictions", "journal", "keys"]
TABLES: tuple[Name, ...] = get_args(Name)
NEVER = np.iinfo(np.int64).min
"""Sequence number of what has not happened."""
_PYTHON: dict[str, type] = {"int64": int, "string": str, "bool_": bool, "float64": float}


def arrow(module: str = "pyarrow") -> Any:
    """Import a module of pyarrow; MissingExtraError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"the tables of a keyed run need pyarrow, which cannot be imported ({error}): pip install pyarrow"
        ) from error


def arrow_type(name: str) -> Any:
    """Return a type of pyarrow by its name."""
    pa = arrow()
    return {"int64": pa.int64, "float64": pa.float64, "bool_": pa.bool_, "string": pa.string}[name]()


def fitted(values: Iterable[Any], kind: str) -> list[Any]:
    """Convert values to one type; those that it cannot hold exactly become None. All values have a form as "string".

    >>> fitted([True, 2.0, 2.7, None, "3"], "int64")
    [1, 2, None, None, None]
    """
    given = list(values)
    if set(map(type, given)) <= {_PYTHON[kind], type(None)}:  # the usual case
        return given
    return [value if value is None else _fit(value, _PYTHON[kind]) for value in given]


def _fit(value: Any, kind: type) -> Any:
    if kind is str:
        return str(value)
    try:
        found = None if isinstance(value, str) else kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if kind is float or found == value else None


def _column(values: Iterable[Any], kind: str) -> Any:
    return arrow().array(fitted(values, kind), arrow_type(kind))


class Predicted(NamedTuple):
    """Predictions as places in a list of values, -1 where there was nothing to predict with."""

    values: list[Any] | FloatArray
    places: IntArray


class Steps(NamedTuple):
    """The time steps of several keys, in the order of the keys."""

    group: list[int]
    """Number of the key."""
    at: list[int]
    """Sequence number of the last row."""
    records: list[str]
    kinds: list[str]
    """The kinds of transitions, separated by commas."""
    states: list[str]
    """The state in which the next batch will be learned."""


class Part(NamedTuple):
    """Predictions, time steps and summaries of keys that were served together, in columns."""

    rows: RowsByKey
    keys: IntArray
    """Numbers of the keys in ``rows``, in rising order."""
    order: IntArray
    """Places of the rows of these keys in ``rows``, key by key."""
    starts: IntArray
    predicted: Predicted
    """Predictions of the rows, in the order of ``order``."""
    steps: Steps
    """Time steps that the rows completed; their keys are numbered by the places in ``keys``."""
    summaries: dict[str, npt.NDArray[Any]]
    """Summaries after these rows, in columns; fields that are not here have the values of a new key."""

    @property
    def names(self) -> list[Any]:
        """The keys."""
        return [self.rows.names[number] for number in self.keys.tolist()]

    def tables(self, key: str, label: str) -> dict[Name, Any]:
        """Return the tables of these keys."""
        pa = arrow()
        keys = pa.array(self.names, arrow_type(key))
        places = np.repeat(np.arange(len(self.keys)), np.diff(self.starts))
        words = _column([*self.rows.words, None], label)
        true = self.rows.codes[self.order]
        group, at, records, kinds, _ = self.steps
        return {
            "predictions": pa.table(
                {
                    "key": keys.take(pa.array(places)),
                    "sequence": pa.array(self.rows.sequence[self.order]),
                    "prediction": _taken(_column([*self.predicted.values, None], label), self.predicted.places),
                    "true": _taken(words, true),
                }
            ),
            "journal": pa.table(
                {
                    "key": keys.take(pa.array(group, pa.int64())),
                    "sequence": pa.array(at, pa.int64()),
                    "transitions": pa.array(kinds, pa.string()),
                    "record": pa.array(records, pa.string()),
                }
            ),
            "keys": pa.table({"key": keys} | {name: self._entry(name, kind) for name, kind in key_columns().items()}),
        }

    def _entry(self, name: str, kind: str) -> Any:
        """Return a column of the table of keys."""
        pa, own = arrow(), self.summaries
        if name == "error":
            scored = own["scored"]
            total = own["errors"] + own["deviation"]
            return pa.array(total / np.maximum(scored, 1), mask=scored == 0)
        if name not in own:
            return pa.repeat(pa.scalar(getattr(NEW, name), arrow_type(kind)), len(self.keys))
        values = own[name]
        if kind == "int64":
            return pa.array(values, mask=values == NEVER)
        return pa.array(values, arrow_type(kind))


def _taken(values: Any, places: IntArray) -> Any:
    """Return values at these places; the last value stands for -1."""
    return values.take(arrow().array(np.where(places < 0, len(values) - 1, places)))


class Results:
    """Results of all keys of an epoch: of keys that were served together, and of keys that were visited.

    Parameters
    ----------
    visits
        Results of keys that were served on their own, and of keys that have expired.
    parts
        Results of keys that were served together.
    """

    def __init__(self, visits: Mapping[Any, Visit] | None = None, parts: Iterable[Part] = ()) -> None:
        self.visits: dict[Any, Visit] = dict(visits or {})
        self.parts: list[Part] = list(parts)

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return len(self.visits) + sum(len(part.keys) for part in self.parts)

    @property
    def n_rows(self) -> int:
        """How many rows were taken or refused."""
        return sum(len(visit.sequence) for visit in self.visits.values()) + sum(len(part.order) for part in self.parts)

    def high_waters(self) -> dict[Any, int]:
        """Return the largest sequence number of each key that has one."""
        found = {key: visit.summary.high_water for key, visit in self.visits.items()}
        high = {key: value for key, value in found.items() if value is not None}
        for part in self.parts:
            high.update(zip(part.names, part.summaries["high_water"].tolist(), strict=True))
        return high

    def tables(self, key: str, label: str) -> dict[Name, Any]:
        """Return the tables of an epoch, in the order of the keys; the types are as pyarrow names them."""
        made = [part.tables(key, label) for part in self.parts]
        if self.visits or not made:
            made.append(_tables_of_visits(dict(sorted(self.visits.items())), key, label))
        if len(made) == 1:
            return made[0]
        together = {name: arrow().concat_tables([tables[name] for tables in made]) for name in TABLES}
        return {name: _in_order(table) for name, table in together.items()}


def _in_order(table: Any) -> Any:
    """Return a table in the order of its keys; the rows of a key stay in their order."""
    codes = table["key"].combine_chunks().dictionary_encode()
    names = codes.dictionary.to_pylist()
    rank = np.empty(len(names), np.int64)
    rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
    return table.take(arrow().array(np.argsort(rank[codes.indices.to_numpy()], kind="stable")))


def _tables_of_visits(visits: Mapping[Any, Visit], key: str, label: str) -> dict[Name, Any]:
    pa = arrow()
    done = list(visits.values())

    def repeated(lists: Iterable[list[int]]) -> Any:
        """Return the key of each visit as often as its list is long."""
        counted = zip(visits, map(len, lists), strict=True)
        return _column(itertools.chain.from_iterable(itertools.starmap(itertools.repeat, counted)), key)

    def joined(lists: Iterable[list[Any]], kind: str) -> Any:
        return _column(itertools.chain.from_iterable(lists), kind)

    entries = [{**vars(visit.summary), "error": visit.summary.error} for visit in done]
    return {
        "predictions": pa.table(
            {
                "key": repeated(visit.sequence for visit in done),
                "sequence": joined((visit.sequence for visit in done), "int64"),
                "prediction": joined((visit.predicted for visit in done), label),
                "true": joined((visit.true for visit in done), label),
            }
        ),
        "journal": pa.table(
            {
                "key": repeated(visit.decided_at for visit in done),
                "sequence": joined((visit.decided_at for visit in done), "int64"),
                "transitions": joined((visit.transitions for visit in done), "string"),
                "record": joined((visit.decisions for visit in done), "string"),
            }
        ),
        "keys": pa.table(
            {"key": _column(visits, key)}
            | {name: _column((entry[name] for entry in entries), kind) for name, kind in key_columns().items()}
        ),
    }
