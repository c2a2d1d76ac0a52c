"""Channels of alerts: how a notice reaches people."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import inspect
import json
import smtplib
import ssl
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, ClassVar, Literal, TypeAlias

from driftsurf.core.options import choice, shown
from driftsurf.core.secrets import Secret, read_secret, split_address
from driftsurf.errors import DeliveryError, Option, OptionError, reason
from driftsurf.errors.visible import visible

NoticeKind: TypeAlias = Literal["firing", "resolved", "event"]
Severity: TypeAlias = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell a person: an alert that fires or is resolved, or an event that needs no end."""

    id: str
    """Identifier of the notice, equal at every delivery, so that a receiver can drop a repetition."""
    kind: NoticeKind
    model: str
    rule: str
    severity: Severity
    summary: str
    since: float
    """When the condition began, or the event happened, in seconds since 1970."""
    until: float | None = None
    """When the condition ended, if it has."""
    subject: str = ""
    value: float | None = None
    limit: float | None = None
    drift: Mapping[str, Any] | None = None
    """For the rule "drift": the drift with all its numbers, as in the journal."""
    link: str = ""
    """Address of the live page of the model; empty if it is not known."""

    @property
    def headline(self) -> str:
        """The notice in one line.

        >>> Notice("1", "firing", "sales", "lag", "warning", "9 rows wait to be learned", 0.0).headline
        'sales: 9 rows wait to be learned'
        """
        return f"{self.model}: {'resolved: ' * (self.kind == 'resolved' and self.drift is None)}{self.summary}"


TIMEOUT = 10.0
"""Seconds that a receiver may take."""
TRY_LATER = 408, 425, 429
"""Refusals by which a receiver asks to be tried again; others below 500 say that the request itself is wrong."""


class Channel(ABC):
    """A way to tell people of a notice."""

    kind: ClassVar[str]
    repeats: ClassVar[float | None] = None
    """Seconds after which alerts that have not ended are sent again; None if telling once is enough."""

    @abstractmethod
    def send(self, notices: Sequence[Notice]) -> None:
        """Deliver notices, or raise DeliveryError."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: a secret in a header or an address must reach nobody else."""

    def redirect_request(self, *_: object) -> None:
        return None


def address(name: str, url: object) -> Secret:
    """Return an address for ``post``, which ``url`` gives itself or names as ``file:PATH`` or ``env:NAME``."""
    known = isinstance(url, str) and url.startswith(("http://", "https://"))
    found = Secret(str(url)) if known else read_secret(name, url)
    try:
        parts = split_address(found.value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (OptionError, ValueError):  # whose messages may show parts of it
        usable = False
    if not usable or not found.value.isascii() or " " in found.value:
        raise OptionError(Option(name), " must be an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise OptionError(Option(name), " must not hold a name or a password")
    return found


def post(url: Secret, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a body of JSON to an address, and raise DeliveryError unless it is taken."""
    request = urllib.request.Request(
        url.value, body, {"Content-Type": "application/json", "User-Agent": "driftsurf", **headers}, method="POST"
    )
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler())
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        with error:  # it holds the connection
            later = error.code >= 500 or error.code in TRY_LATER
            raise DeliveryError(f"the receiver answered {error.code}", later=later) from None
    except (OSError, http.client.HTTPException, ssl.SSLError) as error:
        why = reason(error) if isinstance(error, OSError) else type(error).__name__
        raise DeliveryError(f"the receiver cannot be reached: {why}", later=True) from None


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
