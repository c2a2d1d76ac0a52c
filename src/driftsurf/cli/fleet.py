"""How the keys of a keyed run are doing, from the command line; ``driftsurf run --key`` makes such runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["fleet", "show_keys"]

DATES = 10**14, 4_102_444_800_000_000
"""Sequence numbers between them are taken for the microseconds of dates, from March 1973 to the end of 2099."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Keys to print.")
def fleet(run: Path, limit: int) -> None:
    """Print how the keys of a RUN are doing, and write its page: which keys drifted when.

    `driftsurf run SOURCE --key COLUMN --sequence COLUMN` makes such a RUN: a learner for each key.
    """
    show_keys(run, limit)


def show_keys(run: Path, limit: int) -> dict[Any, dict[str, Any]]:
    """Print the first keys of a run, and write its page; returns how all keys are doing."""
    from driftsurf.engines.tables import KeyedFolder
    from driftsurf.errors import RunFolderError
    from driftsurf.report import fleet as report
    from driftsurf.runtime import files

    folder = KeyedFolder(run)
    if files.is_folder(run) and "journal.jsonl" in files.names(run):
        raise RunFolderError(f"{str(run)!r} is a run of one model, not one by key: driftsurf explain {run}")
    folder.about()
    if not folder.epochs():
        raise RunFolderError(f"{str(run)!r} has no whole epoch yet: there are no keys to show")
    keys = folder.compact()
    journal = folder.read("journal", ["key", "sequence", "transitions"])
    rows = zip(journal["key"], journal["sequence"], journal["transitions"], strict=True)
    changes = [report.Change(*row) for row in rows if row[2]]
    sequence = folder.read("predictions", ["sequence"])["sequence"]
    first = min(sequence, default=None)
    dates = bool(sequence) and DATES[0] < min(sequence) <= max(sequence) < DATES[1]
    report.print_keys(keys, limit=limit, dates=dates)
    page = report.render(f"Keys of {run.name}", keys, changes, start=first, dates=dates)
    files.write_text(run / "fleet.html", page)
    click.echo(f"page: {run / 'fleet.html'}")
    return keys
