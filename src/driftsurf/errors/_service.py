"""Errors of a served model."""

from __future__ import annotations

from driftsurf.errors._message import DriftsurfError


class LogError(DriftsurfError, OSError):
    """The log of a served model is damaged, broken or closed, or no longer has a record.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from driftsurf.data.log.file_log import Log
    >>> with Log(Path(tempfile.mkdtemp())) as log:
    ...     number = log.append(b"a record")
    >>> log.append(b"another one")
    Traceback (most recent call last):
        ...
    driftsurf.errors.LogError: the log in ... is closed
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
    >>> from driftsurf.alerts.channels import WebhookChannel
    >>> from driftsurf.alerts.channels import Notice
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
