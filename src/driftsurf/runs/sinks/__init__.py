"""Sinks: where the predictions of a run go. One sink, one file.

A sink is registered under its name, with the endings of file names or the schemes of URLs that it opens::

    @register("sink", "log", endings=(".log",))
    class LogSink(FileSink): ...

:func:`open_sink` finds it by that ending or scheme. Another package adds sinks through the entry points
``driftsurf.sinks``. Only writing belongs here: predictions are made in :mod:`driftsurf.runs`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Protocol, runtime_checkable

from driftsurf import registry
from driftsurf.errors import Option, OptionError
from driftsurf.runs.predictions import LabelType, PredictionBatch, prediction_columns

__all__ = ["Closable", "Filing", "Sink", "SinkContext", "is_file", "open_sink"]


STANDARD_OUTPUT = "-"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink has to know about the run before the first prediction."""

    label_type: LabelType
    has_ids: bool = False
    """Whether each row has an id beside its number."""
    has_true: bool = True
    """Whether the true labels are known, since they come with their rows."""
    has_versions: bool = True
    """Whether rows are predicted by a model that learns, so that each has the version of the model."""
    classes: tuple[str, ...] = ()
    """Classes of which each has a column with its probability; none for the probability of the predicted class."""
    checkpoints: bool = False
    """Whether the run has checkpoints, so that it may resume from the last one."""
    keep: int | None = None
    """How many files to keep where there is one for each checkpoint; None keeps all."""
    overwrite: bool = False
    """Whether earlier predictions in the same place are replaced."""
    option: str = "predictions"
    """The option that names the destination, for messages."""
    other_columns: dict[str, LabelType] | None = None
    """Names and types of the columns of something else than predictions, such as a copy of the journal."""

    @property
    def columns(self) -> dict[str, LabelType]:
        """Names and types of the columns, in order; every record of a batch has them."""
        if self.other_columns is not None:
            return self.other_columns
        return prediction_columns(
            self.label_type,
            has_ids=self.has_ids,
            has_true=self.has_true,
            has_versions=self.has_versions,
            classes=self.classes,
        )


@runtime_checkable
class Sink(Protocol):
    """Destination of predictions.

    Its constructor takes the destination as it was given and a :class:`SinkContext`. It opens nothing: a run that
    cannot start must not leave an empty file.
    """

    def begin(self) -> None:
        """Prepare for row 0."""
        ...

    def resume(self, row: int) -> int:
        """Prepare for a run that repeats its rows from this number on; return the first row that the sink lacks.

        A sink that can take back what it wrote does so and returns ``row``. Rows below the returned number are not
        written again.
        """
        ...

    def take(self, predictions: PredictionBatch) -> None:
        """Write the predictions of a batch."""
        ...

    def flush(self) -> None:
        """Make everything durable that was taken: the checkpoint that follows relies on it."""
        ...

    def finish(self) -> None:
        """Close the sink after the last batch."""
        ...


@runtime_checkable
class Closable(Protocol):
    """A sink that keeps something open, which a run that fails before ``finish`` has to close."""

    def close(self) -> None:
        """Close what is open; a second call does nothing."""
        ...


@runtime_checkable
class Filing(Protocol):
    """A sink that writes files of its own."""

    def written(self) -> tuple[Path, ...]:
        """Return the complete files, in the order of their rows."""
        ...

    def announced(self) -> str:
        """Return what users should know about the names of the files before there are any; "" if nothing."""
        ...


def is_file(destination: str) -> bool:
    """Return whether a destination is a file on this machine.

    >>> is_file("predictions.csv"), is_file("kafka://host/predictions"), is_file("-")
    (True, False, False)
    """
    return destination != STANDARD_OUTPUT and _SCHEME.match(destination) is None


def open_sink(destination: str, context: SinkContext) -> Sink:
    """Open a sink for predictions.

    Parameters
    ----------
    destination
        "-" for standard output, a file whose ending belongs to a registered sink (.csv, .jsonl, .parquet), or a URL
        whose scheme does.
    context
        What the sink has to know about the run.

    Examples
    --------
    >>> open_sink("predictions.txt", SinkContext("text"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    driftsurf.errors.OptionError: predictions must end in .csv, .jsonl, .parquet...; got 'predictions.txt'
    """
    found = _SCHEME.match(destination)
    scheme = found[1].lower() if found else ""
    mark = scheme or (destination if destination == STANDARD_OUTPUT else PurePath(destination).suffix)
    entry = registry.with_mark("sink", mark)
    if entry is not None:
        sink: Sink = entry.make(destination, context)
        return sink
    known = [one for other in registry.entries("sink") for one in other.marks]
    endings = [one for one in known if one.startswith(".")]
    urls = [f"{one}://" for one in known if one not in (*endings, STANDARD_OUTPUT)]
    begin = f", or begin with {', '.join(urls)}" if urls else ""
    raise OptionError(Option(context.option), f" must end in {', '.join(endings)}, be '-'{begin}; got {destination!r}")
