"""``driftsurf predict``: predict new rows with the model of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from driftsurf.cli.options import GroupedCommand, collect, option_group
from driftsurf.cli.wording import say
from driftsurf.core.option_fields import option_fields
from driftsurf.core.wording import agreeing, counted
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.runs.predict_options import PredictOptions

READING = {name: one for name, one in option_fields(ReadingOptions).items() if name != "categorical"}
"""Options of reading; which columns are categories was decided by the run."""


COMMON = ("out", "overwrite", "id", "all_classes", "trust_config", "drop", "rows", "on_bad_row", "on_schema_change")


@click.command(cls=GroupedCommand, common=COMMON)
@click.argument("run", type=click.Path(path_type=Path, exists=True))
@click.argument("source", metavar="ROWS")
@option_group(option_fields(PredictOptions), "Predictions")
@option_group(READING, "Reading of tables")
def predict(run: Path, source: str, **options: Any) -> None:
    """Predict ROWS with the model of a finished RUN.

    RUN is a run folder, a folder of checkpoints, or its file model.state. ROWS is a file, a folder, a pattern in
    quotes, or - for standard input. The rows are read as in the run, unless an option says otherwise; the label may be
    there or not, and so may columns that the run left out. Rows are read in batches, so a file may be larger than
    memory.

    The columns are row, id (if the run has one), prediction, and probability, which is that of the prediction.
    Regression has no probability.
    """
    from driftsurf.runs.predict import predict as predict_rows

    asked = PredictOptions(**collect(PredictOptions, options))
    found = predict_rows(run, source, asked, ReadingOptions(**collect(ReadingOptions, options)))
    if asked.out != "-":
        say(f"{counted(found.rows, 'row')} predicted: {asked.out}")
    if found.skipped:
        have = agreeing(found.skipped, "has", "have")
        say(f"{counted(found.skipped, 'row')} could not be read, and {have} no prediction", err=True)
