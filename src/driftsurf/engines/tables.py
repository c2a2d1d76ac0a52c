"""The folder of a keyed run: what was run, and for each epoch its predictions, its journal and its keys, as Parquet.

An epoch is written whole, in place of what an earlier try has left of it, and counts once its mark is there: so a
reader never sees half of one, nor two tries of one. All of it is on the medium before its mark is.
"""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from driftsurf import __version__
from driftsurf.engines.keyed import KeyedLearner, KeySummary, Visit
from driftsurf.errors import MissingExtraError, Option, OptionError, RunFolderError, StateError
from driftsurf.runtime import files

__all__ = ["FORMAT", "TABLES", "KeyedFolder", "Name", "fitted", "key_columns", "key_entry"]

FORMAT = 1
Name: TypeAlias = Literal["predictions", "journal", "keys"]
TABLES: tuple[Name, ...] = get_args(Name)
COMPACT = "keys.parquet"
_PYTHON: dict[str, type] = {"int64": int, "string": str, "bool_": bool, "float64": float}
_SUMMARY = tuple(entry.name for entry in fields(KeySummary))
_TYPES = {kind.__name__: name for name, kind in _PYTHON.items()}


def arrow(module: str = "pyarrow") -> Any:
    """A module of pyarrow, or an error that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"the tables of a keyed run need pyarrow, which is missing ({error}): pip install 'driftsurf[sources]'"
        ) from error


def fitted(values: Iterable[Any], kind: str) -> list[Any]:
    """Values of one kind ("int64", "float64", "bool_"); None for those that are of another. A "string" is any as text.

    >>> fitted([True, 2.0, 2.7, None, "3"], "int64")
    [1, 2, None, None, None]
    """
    return [value if value is None else _fit(value, _PYTHON[kind]) for value in values]


def _fit(value: Any, kind: type) -> Any:
    if kind is str:
        return str(value)
    try:
        found = None if isinstance(value, str) else kind(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if kind is float or found == value else None


def key_entry(visit: Visit) -> dict[str, Any]:
    """The entry of a key in the table of keys: its summary, its error, the checksum of its state."""
    own = {name: getattr(visit.summary, name) for name in _SUMMARY}
    return {**own, "error": visit.summary.error, "digest": visit.digest}


def key_columns() -> dict[str, str]:
    """The columns of the table of keys beside the key, and their types as pyarrow calls them."""
    own = {entry.name: _TYPES[str(entry.type).split(" ")[0]] for entry in fields(KeySummary)}
    return own | {"error": "float64", "digest": "string"}


class KeyedFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # -------------------------------------------------------------------- beginning

    def open(self, engine: str, learner: KeyedLearner, columns: Mapping[str, Any]) -> bool:
        """Begin the run, or go on with it; returns whether it goes on. StateError if what is there is another's.

        OptionError if the learner readmits a key that the run does not have.
        """
        now = {"format": FORMAT, "engine": engine, "columns": dict(columns), "learner": learner.about()}
        if not (self.path / "run.json").exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise RunFolderError(
                    f"{str(self.path)!r} exists and is no keyed run: give another folder with ", Option("out")
                )
            self._check_readmitted(learner, {})
            above = [self.path.parent, *(one.parent for one in self.path.parents if not files.is_folder(one))]
            files.make_folder(self.path)
            text = json.dumps(now | {"driftsurf": __version__}, indent=1, sort_keys=True)
            files.write_text(self.path / "run.json", text + "\n")
            for folder in (self.path, *above):
                files.sync_folder(folder)
            return False
        was = self.about()
        if was.get("format") != FORMAT:
            raise StateError(
                f"{str(self.path)!r} has format {was.get('format')!r}; this is driftsurf {__version__}, which goes on "
                f"with format {FORMAT}"
            )
        if was.get("learner", {}).get("format") != learner.about()["format"]:
            raise StateError(
                f"{str(self.path)!r} was written by an earlier version of driftsurf, with states that this one cannot "
                "go on with: begin a new run with another ",
                Option("out"),
            )
        other = _differences(was, json.loads(json.dumps(now)))
        if other:
            raise StateError(
                f"{str(self.path)!r} was begun with other options ({'; '.join(other)}): go on with the same ones, or "
                "begin a new run with another ",
                Option("out"),
            )
        self._check_readmitted(learner, self.keys() if learner.readmit else {})
        return True

    def _check_readmitted(self, learner: KeyedLearner, keys: Iterable[Any]) -> None:
        unknown = {str(key) for key in learner.readmit} - {str(key) for key in keys}
        if unknown:
            raise OptionError(
                f"{str(self.path)!r} has no key {', '.join(sorted(unknown))} to readmit: give keys as its table of "
                "keys shows them"
            )

    def about(self) -> dict[str, Any]:
        """What was run."""
        try:
            told: dict[str, Any] = json.loads(files.read_text(self.path / "run.json"))
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{str(self.path)!r} is not the folder of a keyed run ({error})") from error
        return told

    # -------------------------------------------------------------------- writing

    def part(self, name: Name, epoch: int) -> Path:
        """Where one table of one epoch lies."""
        return self.path / name / f"epoch={epoch:08d}"

    def write(self, epoch: int, visits: Mapping[Any, Visit], types: tuple[str, str], counts: Mapping[str, int]) -> None:
        """Write an epoch; ``types`` are those of keys and labels, as pyarrow calls them."""
        tables = _tables(visits, *types)
        self.unmark(epoch)
        for name, table in tables.items():
            folder = self.part(name, epoch)
            files.make_folder(folder)
            for left in files.names(folder):
                files.remove(folder / left)
            self._put(folder / "part-0.parquet", table)
            files.sync_folder(folder)
            files.sync_folder(folder.parent)
        self.mark(epoch, counts)

    def unmark(self, epoch: int) -> None:
        """Take back what an earlier try has said of an epoch, before it is written again."""
        mark = self._mark(epoch)
        if mark.exists():
            for path in (self.path / COMPACT, mark):  # the table of keys first: it may hold what that try found
                files.remove(path)
                files.sync_folder(path.parent)

    def mark(self, epoch: int, counts: Mapping[str, int]) -> None:
        """Say that an epoch is whole."""
        path = self._mark(epoch)
        files.make_folder(path.parent)
        files.sync_folder(self.path)
        files.write_text(path, json.dumps(dict(counts), sort_keys=True) + "\n")
        files.sync_folder(path.parent)

    def _mark(self, epoch: int) -> Path:
        return self.path / "epochs" / f"{epoch:08d}.json"

    # -------------------------------------------------------------------- reading

    def epochs(self) -> dict[int, dict[str, int]]:
        """The epochs that are whole, with their counts."""
        found = sorted((self.path / "epochs").glob("[0-9]*.json"))
        return {int(path.stem): json.loads(files.read_text(path)) for path in found}

    def read(self, name: Name, columns: list[str] | None = None, *, after: int = -1) -> dict[str, list[Any]]:
        """One table of all whole epochs ``after`` one, in their order, as lists; and the epoch of each row."""
        parquet, table = arrow("pyarrow.parquet"), dict[str, list[Any]]()
        for epoch in (number for number in self.epochs() if number > after):
            for path in sorted(self.part(name, epoch).glob("*.parquet")):
                part = parquet.ParquetFile(path).read(columns=columns).to_pydict()
                count = len(next(iter(part.values())))
                part["epoch"] = [epoch] * count
                rows = len(table.get("epoch", ()))
                for column in part.keys() | table.keys():  # an earlier version may have written fewer
                    table.setdefault(column, [None] * rows).extend(part.get(column, [None] * count))
        return table

    def keys(self) -> dict[Any, dict[str, Any]]:
        """The last entry of each key, in order of the keys: those of ``keys.parquet``, and what is newer."""
        parquet, place = arrow("pyarrow.parquet"), self.path / COMPACT
        known = parquet.read_table(place).to_pydict() if place.exists() else {}
        newer = self.read("keys", after=max(known.get("epoch", ()), default=-1))
        last: dict[Any, dict[str, Any]] = {}
        for table in (known, newer):
            names = [name for name in table if name != "key"]
            place_of = {key: row for row, key in enumerate(table.get("key", ()))}
            last |= {key: {name: table[name][row] for name in names} for key, row in place_of.items()}
        return dict(sorted(last.items()))

    def compact(self) -> dict[Any, dict[str, Any]]:
        """The same, kept as ``keys.parquet``, so that the next call reads what is newer only."""
        keys = self.keys()
        pa = arrow()
        kind = "string" if any(isinstance(key, str) for key in keys) else "int64"
        types = {"key": kind, **key_columns(), "epoch": "int64"}
        entries = [{"key": key, **entry} for key, entry in keys.items()]
        columns = {
            name: pa.array([entry.get(name) for entry in entries], getattr(pa, own)()) for name, own in types.items()
        }
        self._put(self.path / COMPACT, pa.table(columns))
        return keys

    @staticmethod
    def _put(path: Path, table: Any) -> None:
        buffer = io.BytesIO()
        arrow("pyarrow.parquet").write_table(table, buffer, compression="zstd")
        files.write_bytes(path, buffer.getvalue())


def _tables(visits: Mapping[Any, Visit], key: str, label: str) -> dict[Name, Any]:
    pa = arrow()
    done = list(visits.values())

    def column(values: Iterable[Any], kind: str) -> Any:
        return pa.array(fitted(values, kind), getattr(pa, kind)())

    def keys(name: str) -> Any:
        return column((own for own, visit in visits.items() for _ in getattr(visit, name)), key)

    def of(name: str, kind: str) -> Any:
        return column((value for visit in done for value in getattr(visit, name)), kind)

    entries = [key_entry(visit) for visit in done]
    return {
        "predictions": pa.table(
            {
                "key": keys("sequence"),
                "sequence": of("sequence", "int64"),
                "predicted": of("predicted", label),
                "true": of("true", label),
            }
        ),
        "journal": pa.table(
            {
                "key": keys("decided_at"),
                "sequence": of("decided_at", "int64"),
                "transitions": of("transitions", "string"),
                "record": of("decisions", "string"),
            }
        ),
        "keys": pa.table(
            {"key": column(visits, key)}
            | {name: column((entry[name] for entry in entries), kind) for name, kind in key_columns().items()}
        ),
    }


def _differences(was: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> list[str]:
    if was.get("name") != now.get("name"):  # another strategy has other options: they say nothing more
        now = {"name": now.get("name")}
    found = []
    for name, value in now.items():
        if isinstance(value, dict) and isinstance(was.get(name), dict):
            found += _differences(was[name], value, f"{where}{name}.")
        elif was.get(name) != value:
            found.append(f"{where}{name} was {was.get(name)!r} and is {value!r}")
    return found
