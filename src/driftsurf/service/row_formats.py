"""How the rows of a served model are read: by its options, and otherwise as in the run with which it began."""

from __future__ import annotations

from dataclasses import replace

from driftsurf.core.option_fields import options_given
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import Option, OptionError
from driftsurf.runs.start import FinishedRun
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.http.formats import ModelFormats
from driftsurf.service.options import ServedOptions

__all__ = ["DEFAULT_ID", "formats_of"]

DEFAULT_ID = "id"
"""Column of ids, unless an option or a run names another."""


def formats_of(blueprint: Blueprint, options: ServedOptions) -> ModelFormats:
    """Return how the rows of a model are read; OptionError if its column of ids is one that it learns from."""
    start, label, reading = blueprint.start, blueprint.settings.label, options.reading()
    run_id = None if start is None else start.id
    id = (run_id or DEFAULT_ID) if options.id is None else options.id
    if id and id in blueprint.settings.columns:
        raise OptionError(
            Option("id"), f" is {id!r}, which is a column that the model {blueprint.name!r} learns from; name another"
        )
    hints = (
        {} if id == DEFAULT_ID else {DEFAULT_ID: f"ids are in the column {id!r}; driftsurf serve --id names another"}
    )
    if start is None:
        return ModelFormats(id, label, reading, hints=hints)
    if run_id not in (None, id):
        hints[str(run_id)] = f"the run had its ids there: serve it with --id {run_id}"
    left_out = tuple(name for name in start.frames.ignored if name not in (id, label, run_id))
    return ModelFormats(id, label, _reading(start, reading), left_out, hints)


def _reading(start: FinishedRun, given: ReadingOptions) -> ReadingOptions:
    """Return how text becomes values: as in the run, unless it is said. Cells of CSV are always between commas."""
    before = ReadingOptions() if start.frames.reading is None else start.frames.reading
    own = ReadingOptions(
        decimal=before.decimal,
        thousands=before.thousands,
        missing=before.missing,
        date_formats=before.date_formats,
        on_schema_change=before.on_schema_change,
    )
    return replace(own, **options_given(given))
