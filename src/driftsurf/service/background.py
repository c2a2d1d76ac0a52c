"""A thread of the service that works while a context is entered."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self

__all__ = ["Background"]


class Background(ABC):
    """Context in which a thread works; leaving it asks the thread to end, and waits for that.

    Parameters
    ----------
    name
        Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._ended = threading.Event()
        """Set when the context is left."""
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    @abstractmethod
    def _work(self) -> None:
        """Work until ``_ended`` is set."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
