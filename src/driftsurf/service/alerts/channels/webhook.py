"""Webhook: a notice as JSON, signed."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import ClassVar

from driftsurf.core.secrets import Secret, read_secret
from driftsurf.service.alerts.channels._base import Channel, address, post
from driftsurf.service.alerts.notice import Notice
from driftsurf.visible import visible

__all__ = ["WebhookChannel", "signature"]


def signature(secret: str, moment: int, body: bytes) -> str:
    """Return the signature of a body that is sent at a moment: HMAC-SHA-256 of ``"MOMENT.BODY"``, in hexadecimal.

    A receiver computes it again, compares both in constant time, and refuses moments that are minutes old.

    Examples
    --------
    >>> signature("hunter2", 0, b"{}")[:16]
    'ad048b93a603a7cf'
    """
    return hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()


class WebhookChannel(Channel):
    """Sends each notice as a POST request with a JSON body.

    The header ``Driftsurf-Signature`` is ``t=MOMENT,v1=SIGNATURE`` if there is a secret (see :func:`signature`). A
    notice is delivered at least once; ``Driftsurf-Notice`` holds its id, by which a receiver can drop repetitions.

    Parameters
    ----------
    url
        Address of the receiver, or where it is: ``file:PATH`` or ``env:NAME``.
    secret
        Where the secret for the signature is: ``file:PATH`` or ``env:NAME``.
    """

    kind: ClassVar[str] = "webhook"

    def __init__(self, url: str, secret: str | None = None) -> None:
        self.url: Secret = address("url", url)
        self.secret: Secret | None = None if secret is None else read_secret("secret", secret)

    def send(self, notices: Sequence[Notice]) -> None:
        """Deliver notices, one request each."""
        for notice in notices:
            body = json.dumps(asdict(notice), allow_nan=False).encode()
            moment = int(time.time())
            headers = {"Driftsurf-Notice": visible(notice.id).encode("ascii", "backslashreplace").decode()}
            if self.secret is not None:
                headers["Driftsurf-Signature"] = f"t={moment},v1={signature(self.secret.value, moment, body)}"
            post(self.url, body, headers)
