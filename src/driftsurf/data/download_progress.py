"""Progress of downloads: what is called with it, and how the command line shows it. Imports nothing heavy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol, TypeAlias


class Report(Protocol):
    """Function that is called with the progress of a download."""

    def __call__(self, done: int, total: int | None) -> None:
        """Report that ``done`` bytes have arrived, of ``total`` if the server tells."""
        ...


ShowDownload: TypeAlias = Callable[[str], AbstractContextManager[Report]]
"""Makes what shows the progress of the download of a file, from its name."""


def _silent(name: str) -> AbstractContextManager[Report]:
    return contextlib.nullcontext(lambda done, total: None)


show_download: ContextVar[ShowDownload] = ContextVar("show_download", default=_silent)
"""How downloads are shown: not at all, unless the command line sets it."""
