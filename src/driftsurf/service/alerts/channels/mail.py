"""E-mail: a notice as a message to one or several people."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from email.message import EmailMessage
from email.utils import formatdate
from typing import ClassVar

from driftsurf.core.options import choice, shown
from driftsurf.core.secrets import Secret, read_secret
from driftsurf.errors import DeliveryError, Option, OptionError, reason
from driftsurf.service.alerts.channels._base import TIMEOUT, Channel
from driftsurf.service.alerts.notice import Notice
from driftsurf.visible import visible

__all__ = ["MailChannel"]

PERMANENT = 500
"""Answers of a mail server from this code on say that the same message will never be taken."""


class MailChannel(Channel):
    """Sends each notice as a message through a mail server.

    Parameters
    ----------
    host, port
        The mail server.
    sender, to
        Address of the sender, and a list of those who are told.
    security
        "starttls" or "tls"; "none" sends everything readable, and no password.
    user, password
        Name of the account, and where its password is: ``file:PATH`` or ``env:NAME``.
    """

    kind: ClassVar[str] = "mail"

    def __init__(
        self,
        host: str,
        sender: str,
        to: Sequence[str],
        port: int = 587,
        security: str = "starttls",
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        choice("security", security, ("starttls", "tls", "none"))
        people = [to] if isinstance(to, str) else list(to)
        for one in (sender, *people):
            if not isinstance(one, str) or "@" not in one or any(sign.isspace() for sign in one):
                raise OptionError(f"{shown(one)} is not an e-mail address; write one such as 'ops@example.org'")
        if not people:
            raise OptionError(Option("to"), " is empty; name those who are told")
        if password is not None and security == "none":
            raise OptionError(Option("password"), " would be sent readable; set ", Option("security", "starttls"))
        self.host = host
        self.port = port
        self.sender = sender
        self.to = people
        self.security = security
        self.user = user
        self.password: Secret | None = None if password is None else read_secret("password", password)

    def send(self, notices: Sequence[Notice]) -> None:
        """Deliver notices, one message each, over one connection."""
        try:
            with self._connection() as server:
                if self.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if self.user is not None and self.password is not None:
                    server.login(self.user, self.password.value)
                for notice in notices:
                    server.send_message(self.message(notice))
        except smtplib.SMTPResponseException as error:
            later = error.smtp_code < PERMANENT
            raise DeliveryError(f"the mail server answered {error.smtp_code}", later=later) from None
        except smtplib.SMTPRecipientsRefused as error:
            later = any(code < PERMANENT for code, _ in error.recipients.values())
            raise DeliveryError("the mail server refused those who are to be told", later=later) from None
        except OSError as error:  # smtplib's other errors derive from it too
            raise DeliveryError(f"the mail server cannot be reached: {reason(error)}", later=True) from None

    def message(self, notice: Notice) -> EmailMessage:
        """Return the message of a notice."""
        message = EmailMessage()
        message["Subject"] = f"[driftsurf] {visible(notice.headline)}"[:200]
        message["From"] = self.sender
        message["To"] = ", ".join(self.to)
        message["Date"] = formatdate(notice.since if notice.until is None else notice.until)
        message["Auto-Submitted"] = "auto-generated"
        lines = [notice.headline, "", f"rule: {notice.rule}", f"severity: {notice.severity}"]
        lines += [f"since: {formatdate(notice.since)}"]
        lines += [] if notice.until is None else [f"until: {formatdate(notice.until)}"]
        lines += [f"page: {notice.link}"] if notice.link else []
        message.set_content("\n".join(map(visible, lines)))
        return message

    def _connection(self) -> smtplib.SMTP:
        if self.security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=TIMEOUT)
