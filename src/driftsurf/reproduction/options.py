"""Options of a reproduction, each defined once: ``driftsurf reproduce``, its library function and the docs follow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from driftsurf.comparison.options import WorkOptions
from driftsurf.core.options import OptionGroup, StrPath, option


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceOptions:
    """Which part of the paper's evaluation is run."""

    names: Iterable[str] | None = option(
        None,
        "Streams, separated by commas.  [default: all whose data are available]",
        flag="--datasets",
        metavar="STREAM,...",
        commas=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceWorkOptions(WorkOptions):
    """The options of work with the defaults of a reproduction: the paper's number of trials, a folder of its own."""

    trials: int = option(
        5, "Number of runs of each model, with different seeds; the rows are the same in all.", at_least=1
    )
    out: StrPath = option("reproduction", "The folder for results.", metavar="DIRECTORY")


REPRODUCE_GROUPS: Final = (
    OptionGroup("streams", "Streams", ReproduceOptions),
    OptionGroup("work", "Work", ReproduceWorkOptions),
)
"""All options of ``driftsurf reproduce``, in the order of documentation."""
