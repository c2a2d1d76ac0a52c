"""Warnings of the package, and those of former spellings, at the line of the user's code that has one."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from driftsurf.errors._message import DriftsurfWarning

_OWN = str(Path(__file__).parents[1]) + os.sep, contextlib.__file__, functools.__file__
"""Where the code of this package is, and that of its decorators."""
_reading = ContextVar("_reading", default=False)


class ColumnWarning(DriftsurfWarning):
    """A column may have been misunderstood; the message says how to change that.

    Examples
    --------
    >>> import tempfile, warnings
    >>> from pathlib import Path
    >>> import driftsurf
    >>> sales = Path(tempfile.mkdtemp()) / "sales.csv"
    >>> _ = sales.write_text("price,sold\\n" + "$1.5,yes\\n$0.5,no\\n" * 100)
    >>> with warnings.catch_warnings(record=True) as issued:
    ...     warnings.simplefilter("always", ColumnWarning)
    ...     _ = driftsurf.run(sales, label="sold", model="driftsurf:logistic", out=sales.parent / "run", progress=False)
    >>> print(issued[0].message)
    the column 'price' was read as text but looks like numbers with a unit ('$1.5'); write them without it
    """


class RunWarning(DriftsurfWarning):
    """A finished run was resumed although its source has more rows, or checkpoints could not be copied.

    Examples
    --------
    >>> import tempfile, warnings
    >>> from pathlib import Path
    >>> import driftsurf
    >>> folder, rows = Path(tempfile.mkdtemp()), "1.5,yes\\n0.5,no\\n" * 100
    >>> options = {"label": "sold", "model": "driftsurf:logistic", "checkpoint": folder / "run", "progress": False}
    >>> _ = (folder / "sales.csv").write_text("price,sold\\n" + rows)
    >>> _ = driftsurf.run(folder / "sales.csv", **options)
    >>> _ = (folder / "sales.csv").write_text("price,sold\\n" + 2 * rows)
    >>> with warnings.catch_warnings(record=True) as issued:
    ...     warnings.simplefilter("always", RunWarning)
    ...     _ = driftsurf.run(folder / "sales.csv", resume=True, **options)
    >>> print(issued[0].message)
    this run is finished, and sales has more rows than it has read; learn them with follow
    """


class StateWarning(DriftsurfWarning):
    """A saved state was damaged, and the previous one was used instead.

    Examples
    --------
    >>> import tempfile, warnings
    >>> from pathlib import Path
    >>> from driftsurf import load, save
    >>> from driftsurf.detectors import ADWIN
    >>> file = Path(tempfile.mkdtemp()) / "adwin.state"
    >>> save(ADWIN(), file)
    >>> save(ADWIN(), file)
    >>> _ = file.write_bytes(b"damaged")
    >>> with warnings.catch_warnings(record=True) as issued:
    ...     warnings.simplefilter("always", StateWarning)
    ...     detector = load(file)
    >>> str(issued[0].message)
    '...adwin.state cannot be read (7 bytes are too few ...); its backup ...adwin.state.previous was loaded instead.'
    """


class SmallBatchWarning(DriftsurfWarning):
    """The time steps have too few rows for a reliable estimate of the risk.

    Examples
    --------
    >>> import warnings
    >>> from driftsurf import DriftSurfClassifier
    >>> model = DriftSurfClassifier()
    >>> with warnings.catch_warnings(record=True) as issued:
    ...     warnings.simplefilter("always", SmallBatchWarning)
    ...     for _ in range(20):
    ...         _ = model.partial_fit([[0.0], [1.0]], [0, 1])
    >>> print(issued[0].message)
    the first 20 time steps had 2 rows each on average; ... (batch_size collects rows ...)
    """


class CompilationWarning(DriftsurfWarning):
    """Not issued any more, because nothing is compiled when it is used; filters that name it go on working.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CompilationWarning)
    """


class RegistryWarning(DriftsurfWarning):
    """A component cannot be used: an entry point of another package names one that fails, or LightGBM cannot be loaded.

    Examples
    --------
    >>> import warnings
    >>> from driftsurf import registry
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", RegistryWarning)  # fail rather than run without a plugin that is broken
    ...     "driftsurf" in registry.names("strategy")
    True
    """


def warn_of_former_spelling(message: str) -> None:
    """Issue a FutureWarning that names the innermost caller outside of this package.

    Nothing is issued while saved options are read: these are spelled as the version that wrote them did.
    """
    if _reading.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, FutureWarning, stacklevel=level)


@contextlib.contextmanager
def reading_saved_options() -> Iterator[None]:
    """Make parts from saved options, whose former spellings are no reason to warn."""
    token = _reading.set(True)
    try:
        yield
    finally:
        _reading.reset(token)
