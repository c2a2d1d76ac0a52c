"""Output of ``driftsurf datasets``: the list of real datasets, and the progress of a download."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from driftsurf.core.wording import optional
from driftsurf.data.datasets.known import DATASETS, FOLDER_VARIABLE, Dataset, find, folders, how_to_get
from driftsurf.errors.visible import visible
from driftsurf.report.terminal import console

WIDTH = 100
_STYLES = {"found": "green", "missing": "yellow"}


def print_datasets() -> None:
    """Print all datasets of the paper and the stand-ins: whether they are found, source, licence and size."""
    screen = console()
    for entry in DATASETS.values():
        screen.print(Text(entry.name, style="bold"))
        for what, text in _facts(entry):
            screen.print(Text(_wrapped(f"  {what:9}", text), style=_STYLES.get(what, "")))
    screen.print()
    screen.print("Searched folders:")
    for folder in folders():
        screen.print(f"  {folder}" + optional(not folder.is_dir(), " (no such folder)"))
    screen.print(f"Set {FOLDER_VARIABLE} to search another folder.")


def _wrapped(label: str, text: str) -> str:
    indent = " " * len(label)
    return textwrap.fill(
        text, WIDTH, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _facts(entry: Dataset) -> Iterator[tuple[str, str]]:
    columns = "one-hot columns" if entry.columns is None else f"{entry.columns:,} columns"
    steps = f"{entry.batches} steps of {entry.batch_size:,} rows"
    yield "", f"{entry.label}: {entry.description}"
    yield "", f"{entry.rows:,} rows, {columns}{', sparse' * entry.sparse}; {steps}"
    if entry.stands_for:
        yield "", f"a stand-in for {entry.stands_for}, not the paper's data"
    path = find(entry.name)
    if path is None:
        yield "missing", how_to_get(entry)
    else:
        yield "found", f"{path} ({_megabytes(path.stat().st_size)})"
    yield "source", entry.page
    length = "size unknown" if entry.n_bytes is None else _megabytes(entry.n_bytes)
    sha256 = "digest unknown" if entry.sha256 is None else f"SHA-256 {entry.sha256}"
    checked = "number of rows" if entry.values is None else "values"
    for url in entry.urls:
        yield "file", f"{url} ({length}, {sha256}; checked by its {checked})"
    yield "licence", entry.licence


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB"


class FetchProgress:
    """A progress bar for a download; a line for each tenth if the output is not a terminal.

    ``errors`` shows it on standard error.
    """

    def __init__(self, name: str, *, errors: bool = False) -> None:
        self._name = name
        self._console = console(errors=errors)
        self._tenths = 0
        self._bar = RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task(visible(self._name), total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """Show that ``done`` of ``total`` bytes are downloaded."""
        self._bar.update(self._task, completed=done, total=total)
        tenths = 10 * done // total if total else 0
        if not self._console.is_terminal and tenths > self._tenths:
            self._console.print(f"{self._name}: {_megabytes(done)} of {_megabytes(total or done)}")
            self._tenths = tenths
