"""Alertmanager of Prometheus: alerts with a beginning and an end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from driftsurf.core.secrets import Secret, read_secret
from driftsurf.service.alerts.channels._base import Channel, address, post
from driftsurf.service.alerts.notice import Notice

__all__ = ["AlertmanagerChannel"]


class AlertmanagerChannel(Channel):
    """Sends alerts to ``/api/v2/alerts`` of an Alertmanager, again and again until they are resolved.

    Alertmanager resolves an alert by itself that it has not heard of for five minutes, hence the repetition. Events,
    such as transitions, have no end and are not sent.

    Parameters
    ----------
    url
        Address of the Alertmanager, such as ``http://localhost:9093``, or where it is: ``file:PATH`` or ``env:NAME``.
    token
        Where a bearer token is, if one is needed: ``file:PATH`` or ``env:NAME``.
    """

    kind: ClassVar[str] = "alertmanager"
    repeats: ClassVar[float | None] = 60.0

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url: Secret = Secret(f"{address('url', url).value.rstrip('/')}/api/v2/alerts")
        self.token: Secret | None = None if token is None else read_secret("token", token)

    def send(self, notices: Sequence[Notice]) -> None:
        """Deliver the alerts among the notices in one request."""
        alerts = [self.alert(notice) for notice in notices if notice.kind != "event"]
        if alerts:
            headers = {} if self.token is None else {"Authorization": f"Bearer {self.token.value}"}
            post(self.url, json.dumps(alerts).encode(), headers)

    def alert(self, notice: Notice) -> dict[str, Any]:
        """Return an alert as Alertmanager's API describes it; its labels identify it."""
        labels = {"alertname": f"driftsurf-{notice.rule}", "model": notice.model, "severity": notice.severity}
        labels |= {"subject": notice.subject} if notice.subject else {}
        ends = {} if notice.until is None else {"endsAt": _moment(notice.until)}
        return {
            "labels": labels,
            "annotations": {"summary": notice.headline},
            "startsAt": _moment(notice.since),
            **({"generatorURL": notice.link} if notice.link else {}),
            **ends,
        }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
