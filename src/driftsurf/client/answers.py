"""Answers and errors of a service as its client returns and raises them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from driftsurf.errors import DriftsurfError

if TYPE_CHECKING:
    import httpx

LATER = 408, 429, 502, 503, 504
"""Statuses after which the same request may succeed; so it may after 409 if the first one is still under way."""


class ServiceRefusal(DriftsurfError):
    """The service refused a request; ``problem`` has its kind, and the row, column and value if it is about one.

    Examples
    --------
    >>> import httpx
    >>> from driftsurf.client import Client
    >>> def refuse(request):  # stands for the service
    ...     problem = {"type": "urn:driftsurf:problem:bad-row", "detail": "price must be a number", "row": 0}
    ...     return httpx.Response(422, json=problem)
    >>> try:
    ...     Client(transport=httpx.MockTransport(refuse)).model("sales").predict([{"price": "cheap"}])
    ... except ServiceRefusal as refusal:
    ...     print(refusal.status, refusal.kind, refusal.may_pass, refusal)
    422 bad-row False price must be a number
    """

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"status {status}")
        self.status = status
        self.problem: dict[str, Any] = dict(problem)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.problem)

    @property
    def kind(self) -> str:
        """Kind of the problem, such as "bad-row"."""
        return str(self.problem.get("type", "")).rpartition(":")[2]

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in LATER or self.kind == "under-way"


class UnreachableError(DriftsurfError, ConnectionError):
    """The service answered no attempt; a request that changes something may still have been carried out.

    Examples
    --------
    >>> import httpx
    >>> from driftsurf.client import Client
    >>> def lose(request):  # stands for a network without the service
    ...     raise httpx.ConnectError("Connection refused")
    >>> Client(retry_seconds=0, transport=httpx.MockTransport(lose)).models()
    Traceback (most recent call last):
        ...
    driftsurf.client.answers.UnreachableError: the service at http://localhost:8470 does not answer, ...
    """


@dataclass(frozen=True, slots=True)
class Predictions:
    """Predictions in the order of the rows.

    Examples
    --------
    >>> import httpx
    >>> from driftsurf.client import Client
    >>> answer = {"predictions": ["yes", "no"], "version": 12, "probabilities": [0.9, 0.6]}
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, json=answer))  # stands for the service
    >>> found = Client(transport=service).model("sales").predict([{"price": 2.0}, {"price": 9.0}])
    >>> list(found), found.probabilities, found.version
    (['yes', 'no'], [0.9, 0.6], 12)
    """

    predictions: list[Any]
    version: int
    """Number of time steps that the model had learned."""
    probabilities: list[float] | dict[str, list[float]] | None = None
    ids: list[str] | None = None
    skipped: int = 0
    bad_rows: list[dict[str, Any]] = field(default_factory=list)
    guess: bool = False
    """Whether the model has learned nothing yet, and predicts the most frequent label, or the mean, so far."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.predictions)

    def __len__(self) -> int:
        return len(self.predictions)


@dataclass(frozen=True, slots=True)
class ServedEvent:
    """A frame of an event stream.

    Examples
    --------
    >>> import httpx
    >>> from driftsurf.client import Client
    >>> frames = 'id: 7\\nevent: frame\\ndata: {"step": 12}\\n\\n'
    >>> service = httpx.MockTransport(lambda request: httpx.Response(200, text=frames))  # stands for the service
    >>> next(Client(transport=service).model("sales").events())
    ServedEvent(line=7, kind='frame', data={'step': 12})
    """

    line: int
    """Last line of the journal that the frame includes; pass it as ``since`` to continue from there."""
    kind: str
    """ "history" for the first frame, then "frame"."""
    data: dict[str, Any]


def refusal_of(answer: httpx.Response) -> ServiceRefusal:
    """Return the error for an answer that is a problem, or no JSON at all."""
    try:
        problem = answer.json()
    except ValueError:
        problem = {}
    return ServiceRefusal(answer.status_code, problem if isinstance(problem, dict) else {})


def read_events(lines: Iterable[str]) -> Iterator[ServedEvent]:
    """Yield the events of lines of ``text/event-stream``."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield ServedEvent(int(fields.get("id", 0)), fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}
