"""Idempotency keys: which requests were logged before, so that a repeated one is answered and not applied again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from driftsurf.core.contracts import State
from driftsurf.core.fields import Array, Fields, misfit
from driftsurf.data.log.records import DIGEST, Kinds, Record
from driftsurf.errors import IdempotencyError, InputError
from driftsurf.service.contract import Request
from driftsurf.service.packed import packed_texts, unpacked_texts

__all__ = ["KnownRequest", "RequestKeys", "check_request"]

LONGEST_KEY = 200


class KnownRequest(NamedTuple):
    """A request that was logged under a key."""

    digest: bytes
    position: int
    kind: int
    size: int
    """Number of rows or labels."""
    time: float


def check_request(request: Request | None) -> Request:
    """Return the request; InputError if its key cannot be used."""
    if request is None:
        return Request()
    if len(request.key) > LONGEST_KEY:
        raise InputError(f"the idempotency key has {len(request.key)} characters; use at most {LONGEST_KEY}")
    if request.key and len(request.digest) != DIGEST:
        raise InputError(f"an idempotency key needs the SHA-256 of its request, {DIGEST} bytes")
    return request


class RequestKeys:
    """The last requests with a key; the oldest are forgotten beyond ``most``."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[str, KnownRequest] = {}

    def find(self, request: Request, kind: Kinds) -> KnownRequest | None:
        """Return what was logged under the key; IdempotencyError if that was another request."""
        known = self._known.get(request.key) if request.key else None
        if known is not None and (known.digest != request.digest or known.kind != kind):
            raise IdempotencyError(
                f"the idempotency key {request.key!r} was used before with another body; use a new key",
                value=request.key,
            )
        return known

    def add(self, record: Record, position: int) -> None:
        """Remember a record, if it has a key."""
        if record.key:
            self._known.pop(record.key, None)
            self._known[record.key] = KnownRequest(record.digest, position, int(record.kind), record.count, record.time)
            if len(self._known) > self.most:
                del self._known[next(iter(self._known))]

    def copy(self) -> RequestKeys:
        """Return another object with the same requests."""
        other = RequestKeys(self.most)
        other._known = dict(self._known)
        return other

    def state(self) -> State:
        """Return the requests, for a checkpoint."""
        known = list(self._known.values())
        blob, lengths = packed_texts(self._known)
        return {
            "keys": blob,
            "lengths": lengths,
            "digests": np.frombuffer(b"".join([one.digest for one in known]), np.uint8).reshape(len(known), DIGEST),
            "positions": np.array([one.position for one in known], np.int64),
            "kinds": np.array([one.kind for one in known], np.int64),
            "counts": np.array([one.size for one in known], np.int64),
            "times": np.array([one.time for one in known], np.float64),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` returned."""
        saved = FIELDS.read(state)
        keys = unpacked_texts(saved["keys"], saved["lengths"])
        digests = [row.tobytes() for row in saved["digests"]]
        rest = (saved[name].tolist() for name in ("positions", "kinds", "counts", "times"))
        known = dict(zip(keys, map(KnownRequest, digests, *rest), strict=True))
        if len(known) != len(keys):
            raise misfit(state, "keys", "must be distinct")
        self._known = known


FIELDS = Fields(
    {
        "keys": Array(np.uint8, ("*",)),
        "lengths": Array(np.int64, ("requests",), least=0),
        "digests": Array(np.uint8, ("requests", DIGEST)),
        "positions": Array(np.int64, ("requests",), least=0),
        "kinds": Array(np.int64, ("requests",), least=0),
        "counts": Array(np.int64, ("requests",), least=0),
        "times": Array(np.float64, ("requests",)),
    }
)
"""Saved entries of the requests."""
