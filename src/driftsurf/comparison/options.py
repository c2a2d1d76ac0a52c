"""Options of a comparison, each defined once: ``driftsurf compare``, its library function and the docs follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from driftsurf.core.options import OptionGroup, StrPath, option
from driftsurf.data.reading_options import ReadingOptions


def _parse_models(text: str) -> Sequence[str]:
    from driftsurf.session.model_names import split_names  # imports numpy, which --help does not need

    return split_names(text)


@dataclass(frozen=True)
class InputOptions:
    """A source, and what is taken from it; :class:`~driftsurf.comparison.inputs.Input` adds how files are read."""

    source: str
    """A name of the catalogue or of a known table, or a path as :class:`driftsurf.data.FileSource` takes it."""
    label: str | None = option(
        None, "Column of a file to predict, or a question such as 'delay > 0'.", metavar="COLUMN"
    )
    batch_size: int | None = option(
        None, "Rows in a time step.  [default: the paper's, or a hundredth of the rows]", at_least=1
    )
    task: str = option("auto", "Task of a file: binary, multiclass, regression, or auto to infer it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Which models are compared, with how much compute, and what is kept of them."""

    models: Sequence[str] | None = option(
        None,
        "Models, separated by commas; best-schedule is the best of 27 schedules of retraining.  [default: "
        "recommended, recommended-linear (for a "
        "built-in stream driftsurf around a linear learner), LightGBM retrained and frozen where it is installed, aue, "
        "oblivious and trivial rules]",
        metavar="MODEL,...",
        parse=_parse_models,
        runs_code="model",
    )
    gradients_per_row: float | None = option(
        None,
        "Give every algorithm the same number of gradients per row, divided among its models.  [default: the budget "
        "of each learner]",
        above=0.0,
    )
    probabilities: bool = option(
        False, "Also write the probabilities that each model gave to every row, to evaluate mixtures of models."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """How often each experiment is repeated, where it runs, and where its results go."""

    trials: int = option(
        1, "Number of runs of each model, with different seeds; the rows are the same in all.", at_least=1
    )
    seed: int = option(0, "The first seed.", at_least=0)
    jobs: int | None = option(
        None, "Number of processes.  [default: one for each core; in Python a single one]", at_least=1
    )
    cluster: str | None = option(
        None, "Run on this Dask scheduler, such as tcp://host:8786.", metavar="ADDRESS", runs_code="always"
    )
    out: StrPath | None = option(
        None,
        "The folder for results.  [default: runs/compare-SOURCE, a new one for other sources]",
        metavar="DIRECTORY",
    )


COMPARE_GROUPS: Final = (
    OptionGroup("input", "Sources", InputOptions),
    OptionGroup("reading", "Reading of tables", ReadingOptions),
    OptionGroup("models", "Models", CompareOptions),
    OptionGroup("work", "Work", WorkOptions),
)
"""All options of ``driftsurf compare``, in the order of documentation."""
