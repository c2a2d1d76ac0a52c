"""Options of ``[models.NAME.sources.X]`` and ``[models.NAME.sinks.Y]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from driftsurf.core.option_fields import check_bounds, option
from driftsurf.core.options import choice
from driftsurf.data.connectors.decoding import FORMATS
from driftsurf.errors import OptionError

__all__ = ["LEAST_KEYS", "SinkKind", "SinkOptions", "SourceKind", "SourceOptions"]

SourceKind: TypeAlias = Literal["predict", "learn", "label"]
SinkKind: TypeAlias = Literal["predictions", "journal"]
LARGEST_BATCH = 10_000
LEAST_KEYS = 2 * LARGEST_BATCH
"""Idempotency keys that a model with sources has to remember: those of batches that are read again after a crash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """A broker or database from which a model reads rows or labels."""

    address: str = option("", "Address, such as redis://host/0/orders.")
    kind: str = option(
        "", "What is done with rows, as over HTTP: predict, learn or label.", choices=get_args(SourceKind)
    )
    format: str = option("jsonl", "Format of a message.", choices=FORMATS)
    names: tuple[str, ...] = option((), "Columns of a message that is a line of CSV.", repeated=True)
    id: str | None = option(None, "Column of ids.  [default: that of the model]")
    label: str | None = option(None, "Column of labels.  [default: that of the model]")
    drop: tuple[str, ...] = option((), "Columns that are left out.", repeated=True)
    batch_size: int = option(1000, "Messages of a batch at most.", at_least=1)
    batch_wait: float = option(0.2, "Seconds after which a batch is taken that is not full yet.", above=0.0)

    def check(self, where: str) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        check_bounds(self)
        _check_given(where, self.address, self.kind, get_args(SourceKind))
        choice(f"{where}: format", self.format, FORMATS)
        if self.batch_size > LARGEST_BATCH:
            raise OptionError(f"{where}: batch-size is {self.batch_size:,}; use at most {LARGEST_BATCH:,}")
        if self.format == "csv" and not self.names:
            raise OptionError(f'{where}: lines of CSV have no header; name their columns, names = ["price", "sold"]')
        if self.names and self.format != "csv":
            raise OptionError(f"{where}: names is for lines of CSV, and the format is {self.format!r}; leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """A broker or database to which a model writes its predictions or its journal."""

    address: str = option("", "Address, such as postgresql://host/dw/scores.")
    kind: str = option("", "What is written: predictions or journal.", choices=get_args(SinkKind))
    overwrite: bool = option(False, "Whether rows that are there when the sink is first used are removed.")

    def check(self, where: str) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        _check_given(where, self.address, self.kind, get_args(SinkKind))


def _check_given(where: str, address: str, kind: str, kinds: tuple[str, ...]) -> None:
    if not address:
        raise OptionError(f'{where} needs an address, such as address = "redis://host/0/orders"')
    choice(f"{where}: kind", kind, kinds)
