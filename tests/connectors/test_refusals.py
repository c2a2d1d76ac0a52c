"""Which errors of clients are refusals, told at once, and which may pass."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from driftsurf.connectors.mqtt import MqttInbox
from driftsurf.connectors.nats.client import _is_refusal
from driftsurf.connectors.postgresql.client import refuses
from driftsurf.data.messages.client import RetryPolicy
from driftsurf.errors import SourceError, SourceUnreachableError


def calls(error: Exception, retry: RetryPolicy) -> int:
    """Return how often a call that fails is made; SourceError has to be raised."""
    made = list[int]()

    def act() -> None:
        made.append(1)
        raise error

    with pytest.raises(SourceError) as caught:
        retry.call(act)
    assert isinstance(caught.value, SourceUnreachableError) == (len(made) > 1)
    return len(made)


def test_a_refusal_is_not_tried_again() -> None:
    retry = RetryPolicy("x://host/y", (OSError,), seconds=0.15, refuses=lambda error: "password" in str(error))
    assert calls(OSError("wrong password"), retry) == 1
    assert calls(OSError("connection reset"), retry) > 1


def test_a_certificate_that_cannot_be_verified_is_a_refusal_however_it_is_wrapped() -> None:
    untrusted = ssl.SSLCertVerificationError("self-signed certificate")

    def caused(error: Exception, cause: Exception) -> Exception:
        error.__cause__ = cause
        return error

    holder: Any = OSError("attempts")
    holder.exceptions = [OSError("first"), OSError(untrusted)]
    for error in (untrusted, caused(OSError("outer"), caused(OSError("inner"), untrusted)), holder):
        assert calls(error, RetryPolicy("x://host/y", (OSError,), seconds=0.15)) == 1


@pytest.mark.parametrize(
    ("text", "code", "refusal"),
    [
        ('FATAL:  password authentication failed for user "a"', None, True),
        ('FATAL:  database "x" does not exist', None, True),
        ("fe_sendauth: no password supplied", None, True),
        ("server does not support SSL, but SSL was required", None, True),
        ("Connection refused\n\tconnection to ::1 failed\nFATAL:  no pg_hba.conf entry for host", None, True),
        ("Connection refused", None, False),
        ("FATAL:  the database system is starting up", None, False),
        ("FATAL:  le système de bases de données se lance", None, False),
        ('FATAL:  role "a" is not permitted to log in', None, True),
        ("FATAL:  sorry, too many clients already", None, False),
        ("FATAL:  remaining connection slots are reserved", None, False),
        ("FATAL:  terminating connection due to administrator command", None, False),
        ("server closed the connection unexpectedly", None, False),
        ("x", "28P01", True),
        ("x", "3D000", True),
        ("x", "57P01", False),
        ("x", "53300", False),
        ("x", "08006", False),
    ],
)
def test_postgresql(text: str, code: str | None, refusal: bool) -> None:
    error: Any = OSError(text)
    error.sqlstate = code
    assert refuses(error) == refusal


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("nats: 'Authorization Violation'", True),
        ("nats: 'User Authentication Expired'", True),
        ('nats: permissions violation for publish to "$js.api.stream.info.s"', True),
        ("nats: empty response from server when expecting INFO message", False),
        ("nats: maximum connections exceeded", False),
        ("nats: 'Authentication Timeout'", False),
    ],
)
def test_nats(text: str, refusal: bool) -> None:
    assert _is_refusal(OSError(text)) == refusal


@pytest.mark.parametrize(("value", "refusal"), [(134, True), (135, True), (136, False), (137, False), (139, False)])
def test_mqtt(value: int, refusal: bool) -> None:
    pytest.importorskip("paho.mqtt")
    own = MqttInbox("mqtt://localhost/rows")._own
    own._ready = False
    reason = SimpleNamespace(is_failure=True, value=value)
    own._on_connect(SimpleNamespace(on_message=None), None, None, reason, None)
    if refusal:
        with pytest.raises(SourceError):
            own.check()
    else:
        own.check()


@pytest.mark.parametrize(
    ("kind", "text", "refusal"),
    [
        ("ProbableAuthenticationError", "ConnectionClosedByBroker: (403) 'ACCESS_REFUSED - Login was refused'", True),
        ("ProbableAuthenticationError", "ConnectionClosedByBroker: (320) 'CONNECTION_FORCED - shutdown'", False),
        ("ProbableAuthenticationError", "StreamLostError: ('Transport indicated EOF',)", False),
        ("ProbableAccessDeniedError", "ConnectionClosedByBroker: (530) 'NOT_ALLOWED - vhost nothing not found'", True),
        ("ProbableAccessDeniedError", "ConnectionClosedByBroker: (530) 'NOT_ALLOWED - vhost / is down'", False),
        ("ProbableAccessDeniedError", "StreamLostError: ('Transport indicated EOF',)", False),
    ],
)
def test_rabbitmq(kind: str, text: str, refusal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pika = pytest.importorskip("pika")
    from driftsurf.connectors.rabbitmq import Queue

    made = list[int]()

    def connect(parameters: Any) -> None:
        made.append(1)
        raise getattr(pika.exceptions, kind)(text)

    monkeypatch.setattr(pika, "BlockingConnection", connect)
    queue = Queue("amqp://localhost/rows")
    queue.retry.seconds = 0.15
    with pytest.raises(SourceError) as caught:
        queue.ask(queue.connect)
    assert (len(made) == 1) is refusal
    assert isinstance(caught.value, SourceUnreachableError) is not refusal


def test_a_refusal_of_kafka_that_has_passed_is_forgotten() -> None:
    confluent = pytest.importorskip("confluent_kafka")
    from driftsurf.connectors.kafka import Cluster

    own = Cluster("kafka://localhost:1/rows")
    own.retry.seconds = 0.15
    codes = confluent.KafkaError

    def fails() -> None:
        raise confluent.KafkaException(codes(codes._TRANSPORT))

    own._note(codes(codes._AUTHENTICATION))
    with pytest.raises(SourceError) as refused:
        own.ask(fails)
    assert not isinstance(refused.value, SourceUnreachableError)
    assert own.ask(lambda: 1) == 1
    with pytest.raises(SourceUnreachableError):
        own.ask(fails)
