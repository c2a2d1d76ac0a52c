"""Slack: a notice as a message of an incoming webhook."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from driftsurf.core.secrets import Secret
from driftsurf.service.alerts.channels._base import Channel, address, post
from driftsurf.service.alerts.notice import Notice

__all__ = ["SlackChannel"]

SIGNS = {"firing": ":red_circle:", "resolved": ":large_green_circle:", "event": ":information_source:"}


class SlackChannel(Channel):
    """Sends each notice as a message.

    Parameters
    ----------
    url
        Where the address of the incoming webhook is: ``file:PATH`` or ``env:NAME``, because it is a secret itself.
    """

    kind: ClassVar[str] = "slack"

    def __init__(self, url: str) -> None:
        self.url: Secret = address("url", url)

    def send(self, notices: Sequence[Notice]) -> None:
        """Deliver notices, one message each."""
        for notice in notices:
            # Slack reads these three characters as markup, as in <!channel>.
            text = notice.headline + (f" {notice.link}" if notice.link else "")
            text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            post(self.url, json.dumps({"text": f"{SIGNS[notice.kind]} {text}"}).encode(), {})
