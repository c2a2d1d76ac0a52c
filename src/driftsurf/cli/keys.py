"""``driftsurf keys``: print and draw how the keys of a keyed run are doing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from driftsurf.cli.options import GroupedOption
from driftsurf.cli.wording import say

if TYPE_CHECKING:
    from driftsurf.keyed.folder import KeyedFolder

__all__ = ["keys", "show_keys"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("key", required=False)
@click.option(
    "--limit",
    cls=GroupedOption,
    type=click.IntRange(min=1),
    metavar="N",
    help="Keys to print, those that need attention first.  [default: only those that need attention, at most 20]",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the page of KEY.  [default: a file in RUN/key_pages]",
)
def keys(run: Path, key: str | None, limit: int | None, page: Path | None) -> None:
    """Show the keys of a keyed RUN: their errors, states and drifts.

    Prints a table of the keys that need attention and the drifts, and writes RUN/keys.html, with a map of which models
    changed when, and pages of the keys that need attention most. With KEY, prints this key alone and writes its page.
    `driftsurf run SOURCE --key COLUMN --sequence COLUMN` makes such a RUN.
    """
    if key is not None:
        _show_key(run, key, page)
        return
    if page is not None:
        raise click.UsageError("--page needs KEY, the key whose page is written")
    show_keys(run, limit)


def show_keys(run: Path, limit: int | None = None) -> Mapping[Any, Mapping[str, Any]]:
    """Print the keys of a run that need attention and write its page; return the entries of all keys."""
    from driftsurf.keyed.folder import PAGE
    from driftsurf.report.keys import no_better_warning, print_keys, write_keyed_page

    record = write_keyed_page(_folder(run))
    print_keys(record, limit=limit)
    say(f"page: {run / PAGE}")
    warning = no_better_warning(record)
    if warning:
        say(f"warning: {warning}", err=True)
    return record.keys


def _show_key(run: Path, name: str, page: Path | None) -> None:
    """Print one key and write its page."""
    from driftsurf.core import files
    from driftsurf.report.html import check_replaceable
    from driftsurf.report.key_page import KEY_PAGES, key_page_name, render_key
    from driftsurf.report.keys import KeyedRecord, find_key, print_keys

    folder = _folder(run)
    record, outcomes = KeyedRecord.read(folder)
    key = find_key(record.keys, name)
    own = run / KEY_PAGES / key_page_name(key)
    text = render_key(folder, outcomes, key, record.keys[key], link=page is None)
    if page is None:
        files.make_folder(own.parent)
    else:
        check_replaceable(page)
    files.write_text(page or own, text, shared=True)
    print_keys(record.only(key), limit=1)
    say(f"page: {page or own}")


def _folder(run: Path) -> KeyedFolder:
    """Return the folder of a keyed run; RunFolderError if it is another kind of run."""
    from driftsurf.core import files
    from driftsurf.errors import RunFolderError
    from driftsurf.keyed.folder import KeyedFolder
    from driftsurf.runs.folder import JOURNAL

    if files.is_folder(run) and JOURNAL in files.names(run):
        raise RunFolderError(f"{str(run)!r} is a run of one model, not a keyed run: driftsurf explain {run}")
    return KeyedFolder(run)
