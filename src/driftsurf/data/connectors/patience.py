"""Patience with systems that are restarted or slow: calls are repeated for a while before they fail.

A system that answers and refuses will refuse again, so that a refusal is told at once.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from driftsurf.errors import SourceError, SourceUnreachableError

__all__ = ["Patience", "tell", "watched"]

Result = TypeVar("Result")
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds between two attempts: they double from the first to the longest."""

log: logging.Logger = logging.getLogger("driftsurf.connectors")
_watching = threading.local()


@contextlib.contextmanager
def watched(failed: Callable[[str], object]) -> Iterator[None]:
    """Context in which failed attempts of this thread are told to a function; if it raises an error, they end."""
    _watching.failed = failed
    try:
        yield
    finally:
        del _watching.failed


def tell(reason: str) -> None:
    """Tell the function that watches this thread, if there is one, why a system cannot be reached."""
    getattr(_watching, "failed", _ignore)(reason)


@dataclass(slots=True)
class Patience:
    """Repeats what fails because a system cannot be reached, and tells of it in the log.

    Parameters
    ----------
    name
        Name of the system, without secrets.
    errors
        Exceptions of its client that mean that it cannot be reached now.
    seconds
        How long to go on trying before a call fails with SourceUnreachableError.
    reconnect
        Called before every further attempt.
    refuses
        Returns whether one of ``errors`` means that the system answers and refuses: user, password, permissions, or
        what the address names. A certificate that cannot be verified always does.
    """

    name: str
    errors: tuple[type[Exception], ...]
    seconds: float = 60.0
    reconnect: Callable[[], Any] | None = None
    refuses: Callable[[Exception], bool] | None = None
    failures: int = 0
    """Number of attempts that failed so far."""

    def call(self, act: Callable[[], Result]) -> Result:
        """Return what ``act`` returns, once it succeeds."""
        began, wait, before = time.monotonic(), FIRST_WAIT, self.failures
        while True:
            try:
                result = act()
                if self.failures > before:
                    log.info("%s is reached again", self.name)
                return result
            except self.errors as error:
                if _is_untrusted(error) or (self.refuses is not None and self.refuses(error)):
                    raise SourceError(
                        f"{self.name} refuses: {self._reason(error)}. Check user, password, permissions, certificates"
                    ) from error
                self.failures += 1
                tell(self._reason(error))
                left = self.seconds - (time.monotonic() - began)
                if left <= 0:
                    raise SourceUnreachableError(
                        f"{self.name} cannot be reached for {self.seconds:g} s: {self._reason(error)}. Start it, or "
                        "check host, port and credentials"
                    ) from error
                log.warning("%s cannot be reached, trying again: %s", self.name, self._reason(error))
                time.sleep(min(wait, left))
                wait = min(2 * wait, LONGEST_WAIT)
                self._reconnect()

    def _reconnect(self) -> None:
        if self.reconnect is not None:
            try:
                self.reconnect()
            except self.errors as error:
                log.debug("%s: %s", self.name, self._reason(error))

    @staticmethod
    def _reason(error: Exception) -> str:
        return str(error).strip() or type(error).__name__


def _is_untrusted(error: BaseException | None) -> bool:
    """Return whether an error comes from a certificate that cannot be verified; clients wrap it in errors of theirs."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        if isinstance(one, ssl.SSLCertVerificationError):
            return True
        seen.add(id(one))
        more = getattr(one, "exceptions", ())  # those of pika have the errors of all attempts
        waiting += [one.__cause__, one.__context__, getattr(one, "exception", None), *one.args]
        waiting += more if isinstance(more, list | tuple) else ()
    return False


def _ignore(reason: str) -> None:
    """Do nothing with the reason of a failure."""
