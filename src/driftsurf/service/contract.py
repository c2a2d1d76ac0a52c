"""The API between a served model and its front ends, such as HTTP: values, receipts and events.

A front end turns requests into tables and labels, calls a :class:`~driftsurf.service.model.ServedModel`, and turns
answers, receipts and errors into responses. It never touches a session, a checkpoint or the log.

Threads: every method may be called from any thread. ``predict``, ``status`` and the other readers never wait for
learning. ``learn``, ``label`` and ``order`` validate, write one record to the log and return a future at once; the
future ends in another thread, so a front end that runs an event loop waits for it there (``service.committer``).

Errors, all raised before anything is logged:

=========================== =========================================================================
``SchemaError``             columns are added, removed or of another kind than the first rows had
``InputError``, subclasses  a value, an id or a label cannot be used; ``row``, ``column``, ``value`` say which
``NameTakenError``          an order adds a challenger under a name that another one has
``OptionError``             an order names no model, challenger or restore point that exists
``IdempotencyError``        the key was used before with another body
``AnswerGoneError``         the request was carried out before, and the log no longer has its answer
``OverloadedError``         too many rows wait to be learned; ``retry_after`` says for how long to wait
``StorageFullError``        the disk is nearly full; predictions go on
``UnavailableError``        the model is read-only because its learner or its log failed, or it is closed
=========================== ========================================================================="""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy.typing as npt

from driftsurf.core.contracts import FloatArray
from driftsurf.core.drifts import Drift, InputChange
from driftsurf.core.wording import ERROR, ROOT_MEAN_SQUARED_ERROR
from driftsurf.data.reading_options import Kind
from driftsurf.data.row_encoder import Task
from driftsurf.evaluation.summary import RareClass, Verdict
from driftsurf.session.label_counts import LabelCounts


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a served model, and the drifts behind it."""

    verdict: Verdict
    drifts: tuple[Drift, ...] = ()
    """The newest drifts, oldest first."""
    changes: tuple[InputChange, ...] = ()
    """The newest moves of the inputs without harm, oldest first."""


UNJUDGED: Final = Judgement(Verdict("waiting", "No row was scored yet.", ""))
"""Judgement of a model before its first row is scored."""


Durability: TypeAlias = Literal["process", "disk"]
"""What an acknowledged record survives: "process" a kill of the process, "disk" a power loss, too."""
Phase: TypeAlias = Literal["recovering", "ready", "following", "failed", "closing", "closed"]
"""Life of a served model. In "recovering" and "failed" it predicts rows without ids, with the last version that it has,
and takes nothing (``UnavailableError``)."""
OrderKind: TypeAlias = Literal["pin", "unpin", "reset", "rollback", "promote", "warm", "challenge", "dismiss", "mark"]
ORDERS: tuple[OrderKind, ...] = get_args(OrderKind)


# ---------------------------------------------------------------------------- predicting


@dataclass(frozen=True, slots=True)
class ServedColumn:
    """A column that the model is given, by name, and the kind of its values."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Answer:
    """Predictions of rows by one version of a model.

    A model that has learned nothing answers version 0 with a guess: the most frequent label, or the mean, of those that
    have come; without labels before the first one. Guesses count in no error. Rows with ids are taken all the same.
    """

    version: int
    """Number of time steps that the model had learned."""
    labels: npt.NDArray[Any] | None
    """Predicted labels, or numbers for regression, one for each row; None for version 0 before any label came."""
    classes: tuple[Any, ...] = ()
    """The classes of the columns of ``probabilities``; empty for regression."""
    probabilities: FloatArray | None = None
    """Probabilities, one row for each row and one column for each class; None if the model has none."""
    position: int | None = None
    """Number of the record of rows with ids; None for rows that were not logged."""
    repeated: bool = False
    """Whether this is the answer that was given before to the same idempotency key."""

    @property
    def guess(self) -> bool:
        """Whether the labels are the most frequent one, or the mean, because the model has learned nothing yet."""
        return self.version == 0 and self.labels is not None


# ---------------------------------------------------------------------------- learning and orders


@dataclass(frozen=True, slots=True)
class Request:
    """What a front end knows about a request besides its rows."""

    key: str = ""
    """Idempotency key; empty for none. At most 200 characters."""
    digest: bytes = b""
    """SHA-256 of the body, by which a repeated key is told from a reused one; required with a key."""
    by: str = ""
    """Who asks, such as the name of an API key; orders put it into the journal."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Acknowledgement: the record is in the log, and will be applied exactly once."""

    position: int
    """Number of the record in the log; a model with ``ModelStatus.applied`` above it has learned it."""
    count: int
    """Number of rows or labels in the record."""
    time: float
    """Log time of the record: seconds since 1970."""
    durability: Durability = "disk"
    repeated: bool = False
    """Whether this request was acknowledged before, under the same idempotency key."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of an operator.

    Examples
    --------
    >>> Order("challenge", model="trees", options={"learner": "lightgbm"}).model
    'trees'
    """

    kind: OrderKind
    model: str = ""
    """For "promote", "warm", "challenge" and "dismiss": the name of the challenger."""
    to: int | None = None
    """For "rollback": the position of a restore point (``ModelStatus.restore_points``)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For "challenge": ``model``, ``learner``, ``parameters`` and ``seed``, as of ``driftsurf run``."""
    replace: bool = False
    """For "challenge": whether it may take the place of a challenger of that name, whose comparison is then lost."""
    mark: str = ""
    """For "mark": what is said about a drift, "expected", "false" or "none"."""
    drift: int | None = None
    """For "mark": the number of the drift; None for the newest one."""


@dataclass(frozen=True, slots=True)
class OrderReceipt(Receipt):
    """Acknowledgement of an order that has been carried out, or refused by the model."""

    done: bool = True
    reason: str = ""
    """Short code of why it was refused, such as "nothing-learned"; empty if it was carried out."""
    text: str = ""
    """The outcome as a sentence."""
    line: int = 0
    """Number of the line of the journal with the outcome."""


# ---------------------------------------------------------------------------- watching


@dataclass(frozen=True, slots=True)
class ChallengerStatus:
    """A challenger, compared with the leading model on the same rows, each predicted before it was learned."""

    name: str
    version: int
    error: float
    """Error over the compared steps."""
    leading_error: float
    """Error of the leading model over the same steps."""
    difference: float
    """``error - leading_error``; below 0 the challenger is better."""
    low: float
    high: float
    """95 % interval of the difference, by a paired block bootstrap; NaN with too few steps."""
    steps: int
    """Number of compared steps."""
    failed: str = ""
    """Why it learns no more; empty as long as it learns."""


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """An earlier state of the leading model to which "rollback" returns."""

    position: int
    version: int
    time: float
    """Log time of the last record that it has applied."""


@dataclass(frozen=True, slots=True)
class Event:
    """A line of the journal. Its number is the ``id`` of a server-sent event, so that a reconnect loses nothing."""

    line: int
    """Number of the line, from 1."""
    record: Mapping[str, Any]
    """The line as an object: ``type`` is "step", "order", ... as in ``journal.jsonl``."""


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """A broker or database from which a model reads rows or labels, or to which it writes predictions."""

    name: str
    direction: Literal["source", "sink"]
    kind: str
    """How messages of a source are used, "predict", "learn" or "label"; or the content of a sink, "predictions" or
    "journal"."""
    address: str
    """The address without its parameters."""
    state: Literal["connecting", "running", "reconnecting", "waiting", "stopped"]
    """"waiting" is for the model, "stopped" for good: because of an error, or because the service ends."""
    rows: int
    """Rows or labels that were taken, or rows that were written, since the connection was first made."""
    bad_rows: int
    """Messages that are no rows, or that the model refused; for a sink, records that were dropped unwritten."""
    lag: int | None
    """Messages that were not read yet, or records that were not written yet; None if that is not known."""
    reconnects: int
    """Attempts to reach the system that failed since the process began."""
    error: str
    """The last error; empty if all is well."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """A served model at one moment, as plain values: for ``/v1/models``, metrics, health and the page."""

    name: str
    phase: Phase
    failure: str
    """Why the model is read-only; empty otherwise."""
    model: str
    """Name of the leading model, as of ``driftsurf run --model``."""
    task: Task | None
    label: str
    """Name of the column of labels; "" if it has none."""
    version: int
    """Number of time steps that the leading model has learned, those of the run with which it began included."""
    steps: int
    """Number of time steps that were learned here."""
    pinned: bool
    applied: int
    """Records below this number have been applied to the model, and the time steps that they complete are learned."""
    logged: int
    """Number of the next record."""
    durable: int
    """Records below this number survive a power loss."""
    lag_rows: int
    """Rows and labels that are logged and not applied: those of other records, and of time steps that are full and not
    learned. A row that waits for its label, or for other rows of its time step, does not count."""
    lag_seconds: float
    """Log time between the last record and the last one applied."""
    log_bytes: int
    free_bytes: int
    checkpoint: int
    """Position of the last checkpoint."""
    rows: int
    """Rows learned."""
    labels: LabelCounts
    """Rows and labels so far, by what became of them; its error is that of the answers that users saw."""
    early: int
    """Labels that wait for their row."""
    last_label: float | None
    """Log time of the last label; None before the first."""
    error: float
    """Error of the answers in the last five steps, or in as many as have 500 rows; NaN before the first. For regression
    the root mean squared error, as for all errors here."""
    error_rows: int
    """Rows of these steps."""
    usual_error: float
    """Error over all steps so far."""
    trivial_error: float
    """Error of the rule without a model, such as the most frequent class, over the same steps as ``error``."""
    restore_points: tuple[RestorePoint, ...]
    challengers: tuple[ChallengerStatus, ...]
    rare: RareClass | None = None
    """How well the rare class is found over all steps; None if labels are not imbalanced, and for regression."""
    connections: tuple[ConnectionStatus, ...] = ()
    """Brokers and databases that the model reads from and writes to."""
    oldest_waiting: float | None = None
    """Log time at which the oldest row that waits for its label came; None if none waits."""
    drifts: int = 0
    """Number of drifts since the model is served."""
    drifting: bool = False
    """Whether a drift goes on."""
    batch_size: int = 0
    """Labelled rows of a time step."""
    in_step: int = 0
    """Labelled rows of the step that is not complete yet."""

    @property
    def metric(self) -> str:
        """What the errors are: the share of wrong rows, or the root mean squared error."""
        return ROOT_MEAN_SQUARED_ERROR if self.task == "regression" else ERROR

    @property
    def ready(self) -> bool:
        """Whether the model takes rows, or another replica does, and it has applied what was logged before."""
        return self.phase in ("ready", "following")
