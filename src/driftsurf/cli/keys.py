"""``driftsurf keys``: print and draw how the keys of a keyed run are doing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

__all__ = ["keys", "show_keys"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Keys to print.")
def keys(run: Path, limit: int) -> None:
    """Show the keys of a keyed RUN: their errors, states and drifts.

    Prints a table of the keys that need attention and writes RUN/keys.html, with a map of which keys drifted when.
    `driftsurf run SOURCE --key COLUMN --sequence COLUMN` makes such a RUN.
    """
    show_keys(run, limit)


def show_keys(run: Path, limit: int) -> Mapping[Any, Mapping[str, Any]]:
    """Print the keys of a run that need attention and write its page; return the entries of all keys."""
    from driftsurf.core import files
    from driftsurf.errors import RunFolderError
    from driftsurf.keyed.folder import PAGE, KeyedFolder
    from driftsurf.report.keys import print_keys, write_keyed_page
    from driftsurf.runs.folder import JOURNAL

    if files.is_folder(run) and JOURNAL in files.names(run):
        raise RunFolderError(f"{str(run)!r} is a run of one model, not a keyed run: driftsurf explain {run}")
    record = write_keyed_page(KeyedFolder(run))
    print_keys(record.keys, limit=limit, dates=record.dates)
    click.echo(f"page: {run / PAGE}")
    return record.keys
