"""The streams by name: registered generators and real data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial

from driftsurf import registry
from driftsurf.data.datasets.known import DATASETS, Dataset
from driftsurf.errors import OptionError
from driftsurf.registry import REGRESSION
from driftsurf.streams.base import Stream

STEPS = 100
"""Number of time steps into which a generated stream is cut, as in the paper."""


class StreamEntry:
    """A stream by name, as it is registered."""

    def __init__(self, entry: registry.Entry) -> None:
        self.entry = entry
        self.name: str = entry.name

    @property
    def description(self) -> str:
        """One line about the stream, for tables."""
        return str(self.entry.details.get("description", self.entry.summary))

    @property
    def make(self) -> Callable[..., Stream]:
        """Function that makes the stream. It takes ``seed`` and ``n_rows``; the defaults are the paper's values.

        A real data set is made only if its file is available, and has whole batches only unless ``n_rows`` is given.
        """
        if not self.entry.details.get("published"):
            return self.entry.make
        from driftsurf.data.datasets.authors import (
            published,  # with the reader of their files, which others do not need
        )

        return partial(published, self.name)

    @cached_property
    def _default(self) -> Stream:
        stream: Stream = self.entry.make()
        return stream

    @property
    def dataset(self) -> Dataset | None:
        """Facts about a real data set; None for a generated stream."""
        return DATASETS.get(self.name)

    @property
    def n_rows(self) -> int:
        """Number of rows, unless ``make`` is given another one."""
        return int(self._default.n_rows if self.dataset is None else self.entry.options["n_rows"])

    @property
    def n_features(self) -> int | None:
        """Number of columns; None if only the file tells."""
        return self._default.n_features if self.dataset is None else self.dataset.columns

    @property
    def batch_size(self) -> int:
        """Number of rows in a time step of the paper's experiments."""
        return max(1, self.n_rows // STEPS) if self.dataset is None else self.dataset.batch_size

    @property
    def regression(self) -> bool:
        """Whether it is a stream for regression."""
        return bool(self.entry.tasks) and self.entry.tasks <= REGRESSION

    @property
    def paper_settings(self) -> tuple[float, float] | None:
        """Step size and L2 regularisation of the paper's learner; None if the paper has no such stream."""
        real = self.dataset
        if real is not None:
            return real.paper_settings if real.stands_for is None else DATASETS[real.stands_for].paper_settings
        settings: tuple[float, float] | None = self.entry.details.get("paper_settings")
        return settings

    @property
    def in_paper(self) -> bool:
        """Whether it is one of the fifteen streams of the paper."""
        return "table_row" in self.entry.details or (self.dataset is not None and self.dataset.exact)


class Catalogue(Mapping[str, StreamEntry]):
    """All streams by name: the fifteen of the paper in the order of its tables, stand-ins for real data, all others.

    A single name is looked up without importing the streams of other packages, which takes as long as all others.
    """

    def __init__(self) -> None:
        self._made: dict[str, StreamEntry] = {}

    def __getitem__(self, name: str) -> StreamEntry:
        if name not in self._made:
            entry = registry.lookup("stream", name)
            if entry is None:
                raise KeyError(name)
            self._made[name] = StreamEntry(entry)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        entries = registry.entries("stream")
        of_tables = [entry for entry in entries if "table_row" in entry.details]
        of_tables.sort(key=lambda entry: int(entry.details["table_row"]))
        return iter(dict.fromkeys([*(entry.name for entry in of_tables), *DATASETS, *(one.name for one in entries)]))

    def __len__(self) -> int:
        return len(registry.entries("stream"))

    @property
    def paper(self) -> tuple[str, ...]:
        """Names of the paper's streams, in its order."""
        return tuple(name for name, entry in self.items() if entry.in_paper)

    @property
    def for_experiments(self) -> tuple[str, ...]:
        """Names of the paper's streams and of the stand-ins, on which its experiments can run."""
        return tuple(name for name, entry in self.items() if entry.in_paper or entry.dataset is not None)


CATALOGUE = Catalogue()


def get(name: str) -> StreamEntry:
    """Return the entry of this name; raise OptionError if there is none.

    >>> get("sea10").make(n_rows=1_000)
    SEA(noise=0.1, gradual=False, seed=1, n_rows=1000)
    >>> get("sea-gradul")
    Traceback (most recent call last):
    driftsurf.errors.OptionError: no stream is called 'sea-gradul'; did you mean 'sea-gradual'? choices: sea0, ...
    """
    entry = CATALOGUE.get(name)
    if entry is None:
        near = registry.nearest(name.lower(), CATALOGUE)
        raise OptionError(f"no stream is called {name!r}; {near}choices: {', '.join(CATALOGUE)}")
    return entry
