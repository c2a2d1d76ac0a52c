"""The folder of a keyed run: its options, and for each epoch Parquet tables of predictions, journal and keys.

An epoch is valid once its mark exists. It is written completely before that, over whatever an earlier attempt has left,
so that a reader never sees half an epoch, or two attempts of one. Its tables are on the disk before its mark is.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftsurf import __version__
from driftsurf.core import files
from driftsurf.core.drifts import DRIFT_RISK, SMALLEST_RISE
from driftsurf.core.files import parse_json
from driftsurf.core.secrets import storable
from driftsurf.core.state import FORMAT
from driftsurf.errors import (
    Option,
    OptionError,
    RunFolderError,
    StateError,
    StateVersionError,
    reason,
)
from driftsurf.keyed.results import TABLES, Name, Results, Visit, arrow, arrow_type, key_columns
from driftsurf.keyed.visit import KeyedLearner
from driftsurf.session.described import distinguish

if TYPE_CHECKING:
    from driftsurf.keyed.drifts import KeyDrifts

ABOUT = "run.json"
COMPACT = "keys.parquet"
SHARED = "shared.json"
"""File with the drifts that the model shared by keys has seen."""
PAGE = "keys.html"
"""The page that shows the keys."""
_OWN = {
    *(ABOUT, COMPACT, SHARED, PAGE, "key_pages", "epochs", "lock", "fence", *TABLES),
    *("state.sqlite", "state.sqlite-wal", "state.sqlite-shm", "checkpoint", "rebucketed"),
}
"""Names of what a run and its engine write."""


def is_keyed_run(folder: Path) -> bool:
    """Return whether a folder is that of a keyed run."""
    return ABOUT in (names := files.names(folder)) and "epochs" in names


class KeyedFolder:
    """The folder of a keyed run, with its settings, predictions, decisions and table of keys.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.keyed import Columns, KeyedOptions, run_keyed
    >>> rows = "".join(f"{n % 2},{n},{n % 7},{n % 7 > 3}\\n" for n in range(200))
    >>> table = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = table.write_text(f"shop,day,price,sold\\n{rows}")
    >>> columns = Columns(key="shop", sequence="day", label="sold")
    >>> folder = run_keyed(str(table), table.parent / "run", columns, KeyedOptions(batch_size=20))
    >>> {shop: (about["rows"], about["errors"]) for shop, about in folder.keys().items()}
    {0: (100, 5), 1: (100, 0)}
    >>> sorted(folder.read("predictions"))
    ['epoch', 'key', 'prediction', 'sequence', 'true']
    """

    def __init__(self, path: str | Path) -> None:
        self.path: Path = Path(path)
        self.check_held: Callable[[], None] = _not_held
        """Raises LockedError if another process has taken the folder over since it was locked here."""

    # -------------------------------------------------------------------- opening

    def open(
        self,
        engine: str,
        learner: KeyedLearner,
        columns: Mapping[str, Any],
        words: Mapping[str, Sequence[str]] | None = None,
    ) -> bool:
        """Start a run, or resume it; return whether it is resumed.

        ``words`` of text columns, as the first rows of a new run have them, are kept with its options.

        StateError if the run in the folder has other options; OptionError if the learner readmits an unknown key.
        """
        now = {"format": FORMAT, "engine": engine, "columns": dict(columns), "learner": learner.about()}
        if not (self.path / ABOUT).exists():
            self._check_unused()
            self._check_readmitted(learner, {})
            task = "regression" if learner.regression else "classification"
            decided = {"task": task, "words": {name: list(own) for name, own in (words or {}).items()}}
            if self._begin(_about_text(now | {"driftsurf": __version__, "decided": decided})):
                return False
        was = self.about()
        if was.get("format") != FORMAT:
            raise StateVersionError(
                f"{str(self.path)!r} has state format {was.get('format')!r}; this is driftsurf {__version__}, which "
                f"uses format {FORMAT}. Start a new run with another ",
                Option("out"),
            )
        other = _differences(was, json.loads(json.dumps(now)))
        if other:
            raise StateError(
                f"{str(self.path)!r} was started with other options ({'; '.join(other)}): use the same ones, or start "
                "a new run with another ",
                Option("out"),
            )
        self._check_readmitted(learner, self.keys() if learner.readmit else {})
        return True

    def _check_unused(self) -> None:
        """Raise RunFolderError if the folder holds anything but the lock of a process that ended before it began."""
        if self.path.exists() and {one.name for one in self.path.iterdir()} - {files.LOCK, files.FENCE}:
            raise RunFolderError(
                f"{str(self.path)!r} exists and is not a keyed run: choose another folder with ", Option("out")
            )

    def _begin(self, about: str) -> bool:
        """Write run.json under the lock of the folder; return False if another process has begun a run since."""
        above = [self.path.parent, *(one.parent for one in self.path.parents if not files.is_folder(one))]
        files.make_folder(self.path)
        with files.FolderLock(self.path):
            if (self.path / ABOUT).exists():
                return False
            files.write_text(self.path / ABOUT, about, shared=True)
            for folder in (self.path, *above):
                files.sync_folder(folder)
        return True

    def _check_readmitted(self, learner: KeyedLearner, keys: Iterable[Any]) -> None:
        unknown = {str(key) for key in learner.readmit} - {str(key) for key in keys}
        if unknown:
            raise OptionError(
                f"{str(self.path)!r} has no key {', '.join(sorted(unknown))} to readmit: name keys as its table of "
                "keys shows them"
            )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Context in which this process alone writes epochs; LockedError if another one does."""
        with files.FolderLock(self.path) as lock:
            self.check_held = lock.check
            try:
                yield
            finally:
                self.check_held = _not_held

    def about(self) -> dict[str, Any]:
        """Return what run.json says: engine, columns, options, versions."""
        try:
            about: dict[str, Any] = parse_json(files.read_text(self.path / ABOUT))
            if not isinstance(about, dict):
                raise ValueError(f"{ABOUT} holds no object")
            if "engine" not in about:
                raise ValueError(f"{ABOUT} is that of another kind of run")
        except (OSError, ValueError) as error:
            raise RunFolderError(f"{str(self.path)!r} is not the folder of a keyed run ({reason(error)})") from error
        return about

    def decided(self) -> dict[str, Any]:
        """Return what the first rows decided: ``task`` ("regression" or "classification"), and ``words``."""
        saved: dict[str, Any] | None = self.about().get("decided")
        if saved is None:  # written by an earlier version, which told numbers by their errors
            numbers = any(entry["deviation"] for entry in self.keys().values())
            saved = {"task": "regression" if numbers else "classification", "words": {}}
        return saved

    @property
    def regression(self) -> bool:
        """Whether the run predicts numbers rather than classes."""
        return bool(self.decided()["task"] == "regression")

    def name_source(self, source: str) -> None:
        """Add the name of the source to run.json, unless it has one."""
        if "source" not in self.about():
            self.note("source", storable(source))

    def note(self, name: str, value: Any) -> None:
        """Set an entry of run.json."""
        files.write_text(self.path / ABOUT, _about_text(self.about() | {name: value}), shared=True)

    def discard(self, *, new: bool = False) -> bool:
        """Remove the folder of a run that has learned nothing; return whether it was removed.

        It stays if another process is at work in it, or if it holds anything but a run. ``new`` says that this process
        has made the folder, so that all of it belongs to the run.
        """
        try:
            lock = files.FolderLock(self.path)
        except OSError:  # another process has the lock, or there is no folder
            return False
        try:
            removed = (new or set(files.names(self.path)) <= _OWN) and not self.has_learned()
            if removed:
                files.remove_tree(self.path)
        finally:
            lock.release()
        return removed

    # -------------------------------------------------------------------- writing

    def part(self, name: Name, epoch: int) -> Path:
        """Return the folder of one table of one epoch."""
        return self.path / name / f"epoch={epoch:08d}"

    def write(
        self,
        epoch: int,
        results: Results | Mapping[Any, Visit],
        types: tuple[str, str],
        counts: Mapping[str, int],
    ) -> None:
        """Write an epoch; ``types`` are the types of keys and labels, as pyarrow names them."""
        tables = (results if isinstance(results, Results) else Results(results)).tables(*types)
        self.unmark(epoch)
        for name, table in tables.items():
            folder = self.part(name, epoch)
            files.make_folder(folder)
            for left in files.names(folder):
                files.remove(folder / left)
            self._write_parquet(folder / "part-0.parquet", table)
            files.sync_folder(folder)
            files.sync_folder(folder.parent)
        self.mark(epoch, counts)

    def write_shared(self, report: Mapping[str, Any]) -> None:
        """Write what the model that keys share has seen, in place of what was written before."""
        self.check_held()
        files.write_text(self.path / SHARED, json.dumps(dict(report), indent=1) + "\n", shared=True)

    def shared(self) -> dict[str, Any] | None:
        """Return what the model that keys share has seen: its name, its rows, and its drifts; None if keys share none.

        Of each drift, ``keys_hit`` of ``keys_judged`` keys made more errors by at least half of its rise.
        """
        path = self.path / SHARED
        if not path.exists():
            return None
        with _intact(path):
            found: dict[str, Any] = parse_json(files.read_text(path))
        return found

    def unmark(self, epoch: int) -> None:
        """Remove the mark of an epoch before it is written again."""
        self.check_held()
        mark = self._mark(epoch)
        if mark.exists():
            for path in (self.path / COMPACT, mark):  # first the compact table, which may hold results of the epoch
                files.remove(path)
                files.sync_folder(path.parent)

    def mark(self, epoch: int, counts: Mapping[str, int]) -> None:
        """Mark an epoch as complete."""
        self.check_held()
        path = self._mark(epoch)
        files.make_folder(path.parent)
        files.sync_folder(self.path)
        files.write_text(path, json.dumps(dict(counts), sort_keys=True) + "\n", shared=True)
        files.sync_folder(path.parent)

    def _mark(self, epoch: int) -> Path:
        return self.path / "epochs" / f"{epoch:08d}.json"

    # -------------------------------------------------------------------- reading

    def epochs(self) -> dict[int, dict[str, int]]:
        """Return the complete epochs, with their counts."""
        found: dict[int, dict[str, int]] = {}
        for path in sorted((self.path / "epochs").glob("[0-9]*.json")):
            with _intact(path):
                found[int(path.stem)] = parse_json(files.read_text(path))
        return found

    def parts(
        self,
        name: Name,
        columns: Sequence[str] | None = None,
        *,
        keys: Collection[Any] | None = None,
        after: int = -1,
    ) -> Iterator[tuple[int, Any]]:
        """Yield one table part by part, as pyarrow tables with their epochs, so that it need not fit into memory.

        Parameters
        ----------
        name, columns
            The table, and which of its columns are read; None for all.
        keys
            Yield only rows of these keys.
        after
            Yield only epochs after this one.
        """
        parquet = arrow("pyarrow.parquet")
        for epoch in (number for number in self.epochs() if number > after):
            for path in sorted(self.part(name, epoch).glob("*.parquet")):
                with _intact(path):
                    file = parquet.ParquetFile(path)
                for group in range(file.num_row_groups):
                    with _intact(path):
                        part = file.read_row_group(group, columns=None if columns is None else list(columns))
                    yield epoch, part if keys is None else _of_keys(part, keys)

    def read(self, name: Name, columns: Sequence[str] | None = None, *, after: int = -1) -> dict[str, list[Any]]:
        """Return one table over all complete epochs ``after`` one, as lists, with the epoch of each row."""
        table = dict[str, list[Any]]()
        for epoch, part in self.parts(name, columns, after=after):
            for column, values in (part.to_pydict() | {"epoch": [epoch] * len(part)}).items():
                table.setdefault(column, []).extend(values)
        return table

    def keys(self) -> dict[Any, dict[str, Any]]:
        """Return the latest entry of each key, in order of the keys: from ``keys.parquet``, and newer epochs."""
        parquet, place = arrow("pyarrow.parquet"), self.path / COMPACT
        with _intact(place):
            known = parquet.read_table(place).to_pydict() if place.exists() else {}
        newer = self.read("keys", after=max(known.get("epoch", ()), default=-1))
        last: dict[Any, dict[str, Any]] = {}
        for table in (known, newer):
            names = [name for name in table if name != "key"]
            place_of = {key: row for row, key in enumerate(table.get("key", ()))}
            last |= {key: {name: table[name][row] for name in names} for key, row in place_of.items()}
        return dict(sorted(last.items()))

    def drifts(self, *, smallest_rise: float = SMALLEST_RISE, drift_risk: float = DRIFT_RISK) -> KeyDrifts:
        """Return the drifts of all keys, from the predictions and labels of the complete epochs.

        Parameters
        ----------
        smallest_rise
            Smallest rise of the error that matters: in shares of rows, or for regression in units of four usual errors.
        drift_risk
            Largest probability with which a run in which nothing changes at any key reports a drift.
        """
        from driftsurf.keyed.outcomes import Outcomes  # reads folders

        return Outcomes.read(self, smallest_rise=smallest_rise, drift_risk=drift_risk).drifts

    def has_learned(self) -> bool:
        """Return whether any key has learned a row, or was able to after one of the epochs."""
        if not self.epochs():
            return False
        parts = (part.to_pydict() for _, part in self.parts("keys", ("rows", "quarantine")))
        return any(
            rows or not held for part in parts for rows, held in zip(part["rows"], part["quarantine"], strict=True)
        )

    def compact(self) -> dict[Any, dict[str, Any]]:
        """Write the latest entries to ``keys.parquet``, so that the next call reads only newer epochs; return them."""
        keys = self.keys()
        pa = arrow()
        kind = "string" if any(isinstance(key, str) for key in keys) else "int64"
        types = {"key": kind, **key_columns(), "epoch": "int64"}
        entries = [{"key": key, **entry} for key, entry in keys.items()]
        columns = {
            name: pa.array([entry.get(name) for entry in entries], arrow_type(own)) for name, own in types.items()
        }
        self._write_parquet(self.path / COMPACT, pa.table(columns))
        return keys

    @staticmethod
    def _write_parquet(path: Path, table: Any) -> None:
        buffer = io.BytesIO()
        arrow("pyarrow.parquet").write_table(table, buffer, compression="zstd")
        files.write_bytes(path, buffer.getvalue(), shared=True)


def _not_held() -> None:
    """Check nothing: the folder is not locked here."""


@contextlib.contextmanager
def _intact(path: Path) -> Iterator[None]:
    """Context in which a file of a run is read; StateError that names it if it is damaged."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system: pyarrow has errors without a number
            raise
        raise StateError(f"{str(path)!r} is damaged ({reason(error)}); put back a copy, or start a new run") from error


def _of_keys(part: Any, keys: Collection[Any]) -> Any:
    """Return the rows of these keys in a part of a table; its keys are text, or integers."""
    pa, kind = arrow(), part["key"].type
    wanted = pa.array([key for key in keys if isinstance(key, str) == (kind == "string")], kind)
    return part.filter(arrow("pyarrow.compute").is_in(part["key"], value_set=wanted))


def _about_text(about: Mapping[str, Any]) -> str:
    return json.dumps(about, indent=1, sort_keys=True) + "\n"


def _differences(was: Mapping[str, Any], now: Mapping[str, Any], where: str = "") -> list[str]:
    """Return in words which options differ."""
    if was.get("name") != now.get("name"):  # another strategy: that its options differ too needs no mention
        now = {"name": now.get("name")}
    found = []
    for name, value in now.items():
        if isinstance(value, dict) and isinstance(was.get(name), dict):
            found += _differences(was[name], value, f"{where}{name}.")
        elif was.get(name) != value:
            old, new = was.get(name), value
            if isinstance(old, str) and isinstance(new, str):
                old, new = distinguish(old, new)
            found.append(f"{where}{name} was {old!r} and is {new!r}")
    return found
