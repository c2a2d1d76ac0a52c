"""``driftsurf runs``: list all runs in a folder, and write a page that links to them."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["runs"]


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path("runs"))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page.  [default: FOLDER/index.html]",
)
def runs(folder: Path, out: Path | None) -> None:
    """List all runs in a FOLDER: runs, keyed runs and comparisons, finished or not.

    Prints a table and writes a page that can be sorted by source, model, error and so on, with small curves and links
    to the page of each run. FOLDER is "runs" unless another one is given. Folders that are damaged, or no runs, are
    named with the reason.
    """
    from driftsurf.report.index_page import INDEX, print_runs, write_runs_page

    print_runs(write_runs_page(folder, out), out or folder / INDEX)
