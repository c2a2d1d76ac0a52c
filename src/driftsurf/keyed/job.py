"""What an engine is given, and what it has to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from driftsurf.data import ReadingOptions
from driftsurf.data.kinds import Kind
from driftsurf.keyed.derived import DerivedColumns
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.grouping import Columns
from driftsurf.keyed.visit import KeyedLearner

__all__ = ["Engine", "EpochReport", "KeyedJob"]

EpochReport: TypeAlias = Callable[[int, Mapping[str, int]], None]
"""Called after each epoch with its number and its counts."""


@dataclass(frozen=True, kw_only=True)
class KeyedJob:
    """A keyed run over files, ready for an engine: options are checked, columns are known.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.keyed import Columns, KeyedOptions, run_keyed
    >>> from driftsurf.keyed.engines.local import LocalEngine
    >>> class Announced(LocalEngine):
    ...     def run(self, job):
    ...         print(job.columns.key, job.learner.features, job.unused)
    ...         return super().run(job)
    >>> table = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = table.write_text("shop,day,price,sold,note\\n1,1,9.5,no,a\\n1,2,2.5,yes,b\\n")
    >>> columns = Columns(key="shop", sequence="day", label="sold")
    >>> _ = run_keyed(str(table), table.parent / "run", columns, KeyedOptions(), engine=Announced())
    shop ('price',) ('note',)
    """

    source: str
    """A file, a folder or a pattern."""
    files: tuple[str, ...]
    """The files that it has now."""
    out: Path
    """The run folder."""
    learner: KeyedLearner
    columns: Columns
    kinds: Mapping[str, Kind]
    """Kinds of the columns that are used, as the first rows have them."""
    unused: tuple[str, ...]
    """Columns that need not be read."""
    reading: ReadingOptions
    """How text is read."""
    ttl: float | None = None
    """Keys that are silent for longer are dropped, in units of the sequence."""
    on_epoch: EpochReport | None = None
    derived: DerivedColumns
    """Columns that the engine adds to each table before it groups the rows."""


@runtime_checkable
class Engine(Protocol):
    """Groups rows by key, keeps the bytes of each key and calls ``KeyedLearner.visit``.

    An engine is registered under its name (kind "engine", in ``driftsurf.keyed.engines`` or through the entry points
    ``driftsurf.engines``). The parameters of its constructor are the options that only this engine has. It imports what
    it needs when it runs, so that its module can be imported, and its name listed, without that.

    Examples
    --------
    >>> from driftsurf import registry
    >>> engine = registry.get("engine", "local").make(epoch=500)
    >>> isinstance(engine, Engine), engine.first_rows
    (True, 500)
    """

    @property
    def first_rows(self) -> int:
        """How many rows are read to find out what the columns hold."""
        ...

    def check(self, reading: ReadingOptions) -> None:
        """Raise OptionError if an option of this engine, or of reading text, cannot be used."""
        ...

    def run(self, job: KeyedJob) -> KeyedFolder:
        """Learn all rows that the source has now, resuming an earlier run, and return the run folder."""
        ...
