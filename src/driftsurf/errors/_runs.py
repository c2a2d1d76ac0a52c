"""Errors about folders, sources, runs and served models; and all warnings."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from driftsurf.errors._message import DriftsurfError, DriftsurfWarning, Message


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


class LogError(DriftsurfError, OSError):
    """The log of a served model is damaged, broken or closed, or no longer has a record.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data.log.file_log import FileLog
    >>> with FileLog(Path(tempfile.mkdtemp())) as log:
    ...     number = log.add(b"a record")
    >>> log.add(b"another one")
    Traceback (most recent call last):
        ...
    driftsurf.errors.LogError: the log in ... is closed
    """


class LogUnreachableError(LogError):
    """The log of a served model, which is on another machine, cannot be reached now. Nothing is lost with that.

    Examples
    --------
    >>> from driftsurf.errors import LogError, LogUnreachableError
    >>> isinstance(LogUnreachableError("nats://broker/SALES cannot be reached"), LogError)
    True
    """


class LogConflictError(LogError):
    """Records were not appended to a log, because its next record has another number: another process writes to it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data.log.file_log import FileLog
    >>> with FileLog(Path(tempfile.mkdtemp())) as log:
    ...     log.append([b"a record"], expected=7)
    Traceback (most recent call last):
        ...
    driftsurf.errors.LogConflictError: the next record of ... is 0, and not 7: another process writes to it
    """


class ServiceError(DriftsurfError, RuntimeError):
    """A served model cannot carry out a request now; nothing was logged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.service.model import open_model
    >>> from driftsurf.service.settings import ModelSettings
    >>> model = open_model(Path(tempfile.mkdtemp()) / "sales", ModelSettings(label="sold"))
    >>> model.close()
    >>> try:
    ...     model.label({"o-17": "yes"})
    ... except ServiceError as error:
    ...     print(f"{type(error).__name__}: {error}")
    UnavailableError: the model is closed
    """


class UnavailableError(ServiceError):
    """A served model has learned nothing yet, has failed, or is closed.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from pathlib import Path
    >>> from driftsurf.service.model import open_model
    >>> from driftsurf.service.settings import ModelSettings
    >>> with closing(open_model(Path(tempfile.mkdtemp()) / "sales", ModelSettings(label="sold"))) as model:
    ...     model.report()
    Traceback (most recent call last):
        ...
    driftsurf.errors.UnavailableError: the model 'sales' has learned nothing here yet; ... after 100 labelled rows
    """


class NotLeadingError(UnavailableError):
    """Another replica takes rows, labels and orders of a served model.

    Parameters
    ----------
    leader
        Where that replica answers; empty if it is not known.

    Examples
    --------
    >>> raise NotLeadingError("http://10.0.0.5:8470")
    Traceback (most recent call last):
        ...
    driftsurf.errors.NotLeadingError: another replica takes rows: http://10.0.0.5:8470
    """

    def __init__(self, leader: str) -> None:
        super().__init__(f"another replica takes rows: {leader or 'its address is not known now'}")
        self.leader: str = leader


class ReplicaDiffersError(ServiceError):
    """The state of a replica of a served model is not that of the replica that writes its log.

    Examples
    --------
    >>> raise ReplicaDiffersError("the model differs at record 10,000")
    Traceback (most recent call last):
        ...
    driftsurf.errors.ReplicaDiffersError: the model differs at record 10,000
    """


class NameTakenError(ServiceError):
    """An order adds a challenger to a served model under the name of another one.

    Examples
    --------
    >>> from driftsurf.service.http.problems import problem_of
    >>> problem_of(NameTakenError("there is a challenger 'trees'"))[0].status
    409
    """


class OverloadedError(ServiceError):
    """Too many rows wait to be learned; ``retry_after`` is the number of seconds after which to ask again.

    Examples
    --------
    >>> from driftsurf.service.http.problems import problem_of
    >>> problem, headers = problem_of(OverloadedError("5,000 rows and labels wait to be learned", retry_after=2.0))
    >>> problem.status, headers
    (429, {'retry-after': '2'})
    """

    def __init__(self, *parts: object, retry_after: float = 1.0) -> None:
        super().__init__(*parts)
        self.retry_after = retry_after


class StorageFullError(ServiceError):
    """The disk of a served model is nearly full, so it no longer learns; it still predicts.

    Examples
    --------
    >>> import tempfile
    >>> from contextlib import closing
    >>> from pathlib import Path
    >>> from driftsurf.service.model import open_model
    >>> from driftsurf.service.settings import Keeping, ModelSettings
    >>> settings, keeping = ModelSettings(label="sold"), Keeping(least_free_bytes=2**60)
    >>> with closing(open_model(Path(tempfile.mkdtemp()) / "sales", settings, keeping)) as model:
    ...     ready = model.wait_ready()
    ...     model.label({"o-17": "yes"})
    Traceback (most recent call last):
        ...
    driftsurf.errors.StorageFullError: the disk of ... has ... free, less than 1,048,576 TiB ...; free some of it
    """


class DeliveryError(DriftsurfError, OSError):
    """A receiver did not accept an alert; ``later`` is true if another attempt may succeed.

    Examples
    --------
    >>> from driftsurf.runs.alerts.channels import WebhookChannel
    >>> from driftsurf.runs.alerts.channels import Notice
    >>> notice = Notice("1", "firing", "sales", "lag", "warning", "9 rows wait to be learned", 0.0)
    >>> try:
    ...     WebhookChannel("http://127.0.0.1:9/").send([notice])
    ... except DeliveryError as error:
    ...     print(error.later)
    True
    """

    def __init__(self, *parts: object, later: bool) -> None:
        super().__init__(*parts)
        self.later = later


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
