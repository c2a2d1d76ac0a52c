"""Errors about folders, sources and runs."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from driftsurf.errors._message import DriftsurfError, Message


class LockedError(DriftsurfError, OSError):
    """Another process is working on the folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> from driftsurf.runs.checkpoint import CheckpointFolder
    >>> folder = Path(tempfile.mkdtemp())
    >>> with CheckpointFolder(folder):  # held by a run that is under way
    ...     driftsurf.run("sea0", rows=1_000, checkpoint=folder, progress=False)
    Traceback (most recent call last):
        ...
    driftsurf.errors.LockedError: ... is locked by process ... Wait for it, stop it, or use another folder.
    """


class RunFolderError(DriftsurfError, OSError):
    """A run folder exists already, or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import driftsurf
    >>> driftsurf.run("sea0", rows=1_000, out=tempfile.mkdtemp(), progress=False)
    Traceback (most recent call last):
        ...
    driftsurf.errors.RunFolderError: the run folder ... already exists; ... or replace it with overwrite=True
    """


class FetchError(DriftsurfError, OSError):
    """A file could not be downloaded, or its content is not as expected.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data.download import fetch
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "published.csv").write_text("price,sold\\n")
    >>> fetch([(folder / "published.csv").as_uri()], folder / "sales.csv", sha256="0" * 64)
    Traceback (most recent call last):
        ...
    driftsurf.errors.FetchError: ...published.csv has SHA-256 cafc..., expected 0000...: the published file ...
    """


class SourceError(DriftsurfError, OSError):
    """A data source is missing, damaged, or not in the format that its name promises.

    Examples
    --------
    >>> from driftsurf.data import open_source
    >>> next(open_source("missing.csv").tables())
    Traceback (most recent call last):
        ...
    driftsurf.errors.SourceError: missing.csv does not exist
    """


class SourceUnreachableError(SourceError):
    """A broker or database cannot be reached; a later attempt may succeed.

    Examples
    --------
    >>> from driftsurf.data.messages.client import RetryPolicy
    >>> def connect():
    ...     raise ConnectionRefusedError("Connection refused")
    >>> RetryPolicy("redis://localhost/sales", errors=(OSError,), seconds=0.0).call(connect)
    Traceback (most recent call last):
        ...
    driftsurf.errors.SourceUnreachableError: redis://localhost/sales cannot be reached for 0 s: Connection refused. ...
    """


class RunStopped(DriftsurfError):
    """A run was asked to stop, by a signal or by a call, and did so after it saved a checkpoint.

    Examples
    --------
    >>> import signal, tempfile
    >>> import driftsurf
    >>> folder = tempfile.mkdtemp()
    >>> try:
    ...     driftsurf.run(
    ...         "sea0", rows=2_000, batch_size=100, checkpoint=folder, progress=False,
    ...         on_step=lambda *step: signal.raise_signal(signal.SIGTERM),
    ...     )
    ... except RunStopped as stopped:
    ...     print(stopped, stopped.exit_code, sep="; ")
    stopped by SIGTERM before step 1; 143
    >>> driftsurf.run("sea0", rows=2_000, batch_size=100, checkpoint=folder, progress=False, resume=True).first_step
    1
    """

    def __init__(self, step: int, signal_number: int | None = None) -> None:
        cause = "on request" if signal_number is None else f"by {signal.Signals(signal_number).name}"
        super().__init__(f"stopped {cause} before step {step}")
        self.step = step
        """The step with which the run resumes."""
        self.signal_number = signal_number
        self.exit_code: int = 0 if signal_number is None else 128 + signal_number
        """The exit code of a process that this signal ended, by convention."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.step, self.signal_number)


class RunDrifted(DriftsurfError):
    """A run with ``fail_on_drift`` has found a drift. It is complete; ``result`` is what it would have returned.

    Examples
    --------
    >>> try:  # as driftsurf.run(..., fail_on_drift=True) ends
    ...     raise RunDrifted("One drift: from row 6,000 on, the error rose from 7 % to 57 %.", None)
    ... except RunDrifted as found:
    ...     print(found, found.exit_code)
    One drift: from row 6,000 on, the error rose from 7 % to 57 %. 3
    """

    exit_code: int = 3
    """The exit code of ``driftsurf run --fail-on-drift``."""

    def __init__(self, text: str, result: Any) -> None:
        super().__init__(text)
        self.result = result

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.result)


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C ended a run without checkpoints; ``folder`` holds what it wrote so far.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import driftsurf
    >>> def control_c(*step):
    ...     raise KeyboardInterrupt
    >>> try:
    ...     driftsurf.run("sea0", rows=2_000, out=Path(tempfile.mkdtemp(), "run"), progress=False, on_step=control_c)
    ... except RunInterrupted as stopped:
    ...     print(stopped.step, stopped.folder.name)
    1 run.partial
    """

    def __init__(self, step: int, folder: Path) -> None:
        super().__init__(Message(f"interrupted at step {step}; what was written so far is in {folder}"))
        self.step = step
        self.folder = folder
