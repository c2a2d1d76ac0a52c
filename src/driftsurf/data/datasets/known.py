"""Public data: those of the paper, stand-ins for them, and tables for comparisons, with facts and where to find files.

The facts are in ``datasets.toml``. Stand-ins have names of their own, so that their numbers never appear in a row of
the paper. Files are looked for in the folder that DRIFTSURF_DATA names, and in a cache of the user.
"""

from __future__ import annotations

import difflib
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files as resources
from pathlib import Path
from typing import Any, Literal

from driftsurf.errors import InputError, OptionError
from driftsurf.streams.base import Block

FOLDER_VARIABLE = "DRIFTSURF_DATA"
COMPRESSIONS = "", ".gz", ".bz2", ".xz", ".zip", ".zst"


def cache_folder() -> Path:
    """Return the user's folder for downloaded data sets; it need not exist yet.

    On Linux it is $XDG_CACHE_HOME/driftsurf/data, by default ~/.cache/driftsurf/data; elsewhere it is in the system's
    folder for caches.
    """
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
        base = chosen if chosen.is_absolute() else Path.home() / ".cache"  # XDG declares relative paths invalid
    return base / "driftsurf" / "data"


def folders() -> tuple[Path, ...]:
    """Return where files are looked for: the folder that DRIFTSURF_DATA names, then the cache."""
    named = os.environ.get(FOLDER_VARIABLE)
    return (*([Path(named)] if named else []), cache_folder())


def find_file(names: Iterable[str]) -> Path | None:
    """Return the first file that has one of these names, compressed or not; None if there is none.

    >>> find_file(["no-such-file.csv"]) is None
    True
    """
    candidates = (folder / f"{name}{ending}" for folder in folders() for name in names for ending in COMPRESSIONS)
    return next((path for path in candidates if path.is_file()), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """A set of real data: what it is, where it comes from, and how it becomes a stream."""

    name: str
    label: str
    """Name of the data set in tables and figures."""
    description: str
    rows: int
    columns: int | None = None
    """Number of columns; None where the file decides, as with one column for each airport."""
    batch_size: int
    """Rows of a time step; rows that do not fill a batch at the end are left out."""
    aware_steps: tuple[int, ...] = ()
    """Time steps at which Aware is reset, unless drift is injected."""
    paper_settings: tuple[float, float] | None = None
    """Step size and L2 regularisation of the paper's learner; None for a stand-in."""
    reader: Mapping[str, Any] = field(hash=False)
    """Name of a function of ``driftsurf.data.datasets._readers``, and its further arguments."""
    categories: int = 0
    """Number of one-hot categories with which each row begins ..."""
    numbers: int = 0
    """... and number of other columns, which follow the slots of all categories."""
    values: str | None = None
    """SHA-256 of rows and labels as read; None where the data were never available."""
    sparse: bool = False
    shuffled: bool = False
    tf_idf: bool = False
    injected: Literal["swap_labels", "rotate"] | None = None
    """Drift that is injected in rows 0.3 n to 0.6 n."""
    stands_for: str | None = None
    """Name of the paper's data whose place it takes."""

    files: tuple[str, ...]
    """Names under which it is found, compressed or not."""
    page: str
    """Where it is described."""
    urls: tuple[str, ...] = ()
    """Addresses of the published file; empty if they are not known."""
    saved_as: str = ""
    """Name of the file when it is downloaded."""
    sha256: str | None = None
    """SHA-256 of the published file, compressed as it is; None if it is not known."""
    n_bytes: int | None = None
    licence: str

    @property
    def exact(self) -> bool:
        """Whether these are the data of the paper."""
        return self.stands_for is None

    @property
    def batches(self) -> int:
        """Number of time steps."""
        return self.rows // self.batch_size

    def read(self, path: Path) -> Block:
        """Return rows and labels as they are in the file, before shuffling and drift."""
        from driftsurf.data.datasets._readers import READERS

        arguments = dict(self.reader)
        return READERS[arguments.pop("name")](path, **arguments)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownTable:
    """A public file that is read as a table, whose label is known."""

    title: str
    file: str
    label: str
    regression: bool = False
    drop: tuple[str, ...] = ()
    """Columns that reveal the label, or that only number the rows."""

    def find(self, name: str) -> Path:
        """Return the file; raise InputError that tells where it may be if it is not there."""
        found = find_file([self.file])
        if found is None:
            raise InputError(
                f"{name} was not found; set {FOLDER_VARIABLE} to a folder with {self.file}, plain or compressed"
            )
        return found


def _load() -> tuple[dict[str, Dataset], dict[str, KnownTable]]:
    facts = tomllib.loads((resources(__package__) / "datasets.toml").read_text(encoding="utf-8"))
    tables = {name: KnownTable(**_with_tuples(one)) for name, one in facts.pop("table").items()}
    return {name: Dataset(name=name, **_with_tuples(one)) for name, one in facts.items()}, tables


def _with_tuples(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in facts.items()}


DATASETS, TABLES = _load()
"""The paper's data in the order of its tables, then the stand-ins; tables that the paper does not use. By name."""


def get(name: str) -> Dataset:
    """Return the data set of this name; raise OptionError if there is none.

    >>> get("electricity").batches
    34
    >>> get("elec")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no data set is called 'elec'; did you mean 'electricity'? choices: rcv1, ...
    """
    entry = DATASETS.get(name)
    if entry is None:
        near = difflib.get_close_matches(name.lower(), DATASETS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OptionError(f"no data set is called {name!r}; {hint}choices: {', '.join(DATASETS)}")
    return entry


def find(name: str) -> Path | None:
    """Return the file of a data set in the folder that DRIFTSURF_DATA names or in the cache; None if there is none."""
    return find_file(get(name).files)


def require(name: str) -> Path:
    """Return the file of a data set; raise InputError that tells how to get it if it is not there."""
    path = find(name)
    if path is None:
        present = [other.name for other in DATASETS.values() if other.stands_for == name and find(other.name)]
        instead = f" (available in its place: {', '.join(present)})" if present else ""
        raise InputError(f"{name} is not available{instead}; {how_to_get(get(name))}")
    return path


def how_to_get(dataset: Dataset) -> str:
    """Return what a user can do who does not have the file."""
    by_hand = f"set {FOLDER_VARIABLE} to a folder that holds {dataset.files[0]}, compressed or not"
    if dataset.urls:
        return f"download it with 'driftsurf datasets fetch {dataset.name}', or {by_hand}"
    return f"download it from {dataset.page}, and {by_hand}"
