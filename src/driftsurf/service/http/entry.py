"""A served model behind the HTTP door, with what the door keeps for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from driftsurf.service.contract import Served
from driftsurf.service.http.crossing import Crossing
from driftsurf.service.http.formats import ModelFormats
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.http.request import HttpRequest
from driftsurf.service.page.content import LiveContent

__all__ = ["Entry"]

P = ParamSpec("P")
T = TypeVar("T")
LARGE = 2**16
"""Bytes from which on work is done in another thread."""


@dataclass(slots=True)
class Entry:
    """A served model with its formats, the threads that work for it, and the requests under way."""

    served: Served
    formats: ModelFormats
    readers: ThreadPoolExecutor
    counts: dict[str, int] = field(default_factory=dict)
    """Rows predicted, learned, labelled and skipped since the process began, and requests refused for their content."""
    content: LiveContent = field(init=False)
    """What the live page shows of the model."""
    crossing: Crossing = field(default_factory=Crossing)
    """How results of the threads of the model reach the event loop."""
    refuse: Callable[[], object] | None = None
    """Raises the error that says why the model takes nothing, as long as it is not open; None once it is."""
    _keys: set[str] = field(default_factory=set)
    """Idempotency keys of requests under way."""

    def __post_init__(self) -> None:
        """Make what belongs to the model."""
        self.content = LiveContent(self.served)

    def serve(self, served: Served, formats: ModelFormats) -> None:
        """Serve a model that has been opened, in place of what stood for it."""
        self.content, self.formats, self.served = LiveContent(served), formats, served
        self.refuse = None

    @contextmanager
    def under_way(self, request: HttpRequest) -> Iterator[None]:
        """Context of a request that changes something; HttpProblem if its idempotency key is under way already."""
        key = request.headers.get("idempotency-key", "")
        if not key:
            yield
            return
        if key in self._keys:
            raise HttpProblem(
                "under-way", f"a request with the Idempotency-Key {key[:100]!r} is under way; wait for it"
            )
        self._keys.add(key)
        try:
            yield
        finally:
            self._keys.discard(key)

    async def call(self, size: int, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function, in another thread if the body has many bytes."""
        if size < LARGE:
            return function(*arguments, **options)
        return await self.in_thread(function, *arguments, **options)

    async def in_thread(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function in another thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.readers, lambda: function(*arguments, **options))

    def count(self, what: str, rows: int) -> None:
        """Count rows, for the metrics."""
        if rows:
            self.counts[what] = self.counts.get(what, 0) + rows

    def columns(self) -> list[dict[str, str]]:
        """Return the columns of a row as plain values."""
        return [{"name": one.name, "kind": one.kind} for one in self.served.columns]

    def classes(self) -> list[Any]:
        """Return the classes that can be predicted."""
        return list(self.served.snapshot.classes)
