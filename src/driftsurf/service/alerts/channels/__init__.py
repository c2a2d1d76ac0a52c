"""Channels of alerts: how a notice reaches people. Each module has one kind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from driftsurf.core.options import choice
from driftsurf.errors import OptionError
from driftsurf.service.alerts.channels._base import Channel
from driftsurf.service.alerts.channels.alertmanager import AlertmanagerChannel
from driftsurf.service.alerts.channels.mail import MailChannel
from driftsurf.service.alerts.channels.slack import SlackChannel
from driftsurf.service.alerts.channels.webhook import WebhookChannel

__all__ = ["AlertmanagerChannel", "Channel", "MailChannel", "SlackChannel", "WebhookChannel", "channel_of"]

KINDS: dict[str, type[Channel]] = {
    "webhook": WebhookChannel,
    "slack": SlackChannel,
    "mail": MailChannel,
    "alertmanager": AlertmanagerChannel,
}


def channel_of(name: str, settings: Mapping[str, Any]) -> Channel:
    """Return the channel of a table ``[alerts.channels.NAME]``: its ``kind``, and the options of that kind.

    Examples
    --------
    >>> channel_of("ops", {"kind": "webhook", "url": "https://ops.example/hook"}).kind
    'webhook'
    """
    where = f"alerts.channels.{name}"
    kind = settings.get("kind")
    choice(f"{where}.kind", kind, tuple(KINDS))
    channel = KINDS[str(kind)]
    parameters = inspect.signature(channel).parameters
    given = {key: value for key, value in settings.items() if key != "kind"}
    for key in given:
        choice(f"option of [{where}]", key, tuple(parameters))
    missing = [key for key, one in parameters.items() if one.default is inspect.Parameter.empty and key not in given]
    if missing:
        raise OptionError(f"[{where}] needs {missing[0]!r}; add it")
    try:
        return channel(**given)
    except OptionError as error:
        raise OptionError(f"[{where}]: ", error.args[0]) from error
