"""Kafka clusters for readers and writers of topics: addresses, settings of the client, the bounds of partitions."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from driftsurf.core.secrets import read_secret
from driftsurf.data.connectors.address import PASSWORD, Address
from driftsurf.data.connectors.patience import Patience, log
from driftsurf.errors import OptionError, SourceError

__all__ = ["SECONDS", "Cluster", "bounds", "consumer_settings", "lost_messages"]

FORM = "kafka://HOST:PORT/TOPIC"
PARTITION = "partition"
RESERVED = "bootstrap.servers", "enable.auto.commit", "enable.partition.eof", "auto.offset.reset", "enable.idempotence"
"""Settings of librdkafka on which exact reading and writing depend."""
_SECRET = re.compile(r"password|secret|key\.pem|oauthbearer\.config|token", re.IGNORECASE)
SECONDS = 30.0
"""How long to wait for the brokers, where nobody waits for an answer."""
ANSWER = 10.0
"""Seconds that one request may take."""

Result = TypeVar("Result")


class _Unreachable(Exception):
    """The brokers do not answer now."""


class Cluster:
    """The brokers and the topic of an address."""

    def __init__(self, location: str) -> None:
        self.address = address = Address.parse(location, port=9092, known=None)
        self.topic = address.part(0, "a topic", FORM)
        if len(address.path) > 1:
            raise OptionError(f"the address {address.name!r} names more than a topic; write {FORM}")
        self.partition = address.number(PARTITION, 0) if PARTITION in address.parameters else None
        self.own = {name: text for name, text in address.parameters.items() if name not in (PASSWORD, PARTITION)}
        for name, text in self.own.items():
            if name in RESERVED:
                raise OptionError(f"the parameter {name!r} of {self.name!r} is set by driftsurf; leave it out")
            if _SECRET.search(name) and not text.startswith(("env:", "file:")):
                raise OptionError(
                    f"the parameter {name!r} of {self.name!r} must name where the secret is: env:NAME or file:PATH"
                )
        if address.user and not {"sasl.mechanism", "sasl.mechanisms"} & self.own.keys():
            raise OptionError(
                f"the address {self.name!r} names a user; add the parameters security.protocol and sasl.mechanism, "
                "such as security.protocol=SASL_SSL&sasl.mechanism=SCRAM-SHA-512"
            )
        # Imported here, so that this file can be imported where the client is not installed.
        self.library: Any = importlib.import_module("confluent_kafka")
        self.patience = Patience(self.name, (_Unreachable,))
        self.down = False
        """Whether no broker could be reached lately."""
        self._refused = ""

    @property
    def name(self) -> str:
        """The address without its parameters."""
        return self.address.name

    @property
    def answer(self) -> float:
        """Seconds that one request may take."""
        return min(ANSWER, self.patience.seconds)

    def settings(self) -> dict[str, Any]:
        """Return the settings of librdkafka that the address has, with their secrets."""
        own: dict[str, Any] = {
            name: read_secret(name, text).value if _SECRET.search(name) else text for name, text in self.own.items()
        }
        password = self.address.password()
        if self.address.user:
            own["sasl.username"] = self.address.user
        if password is not None:
            own["sasl.password"] = password.value
        # Errors come to error_cb; librdkafka would repeat each of them on the console.
        return own | {"error_cb": self._note, "log_level": 2}

    @property
    def servers(self) -> str:
        """Where the brokers are."""
        return self.address.hosts or "localhost"

    def make(self, kind: str, settings: dict[str, Any]) -> Any:
        """Return a client of librdkafka."""
        try:
            return getattr(self.library, kind)(settings)
        except self.library.KafkaException as error:
            raise OptionError(f"{self.name}: {error.args[0].str()}") from None  # the cause may show a secret

    def _note(self, error: Any) -> None:
        """Note an error that librdkafka itself will try to mend."""
        codes = self.library.KafkaError
        if error.code() in (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED, codes._SSL):
            self._refused = error.str()
        elif error.code() == codes._ALL_BROKERS_DOWN and not self.down:
            self.down = True
            log.warning("%s cannot be reached, trying again: %s", self.name, error.str())

    def ask(self, act: Callable[[], Result], serve: Callable[[], Any] | None = None) -> Result:
        """Return the answer of the brokers; SourceError if they cannot be reached for long, or refuse.

        ``serve`` lets librdkafka call ``error_cb``, which tells why the brokers refuse.
        """

        def attempt() -> Result:
            try:
                return act()
            except self.library.KafkaException as error:
                if serve is not None:
                    serve()
                if self._refused:
                    raise SourceError(f"{self.name}: {self._refused}") from error
                if self.passes(error.args[0]):
                    raise _Unreachable(error.args[0].str()) from error
                raise SourceError(f"{self.name}: {error.args[0].str()}") from error

        answer = self.patience.call(attempt)
        self.down, self._refused = False, ""  # a broker that is starting refuses users whom it knows later
        return answer

    def passes(self, error: Any) -> bool:
        """Return whether an error may pass by itself."""
        codes = self.library.KafkaError
        brief = (
            *(codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE, codes._WAIT_COORD),
            *(codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION, codes.REQUEST_TIMED_OUT),
        )
        return error.retriable() or error.code() in brief

    def place(self, partition: int, offset: int = 0) -> Any:
        """Return a place in the topic for librdkafka."""
        return self.library.TopicPartition(self.topic, partition, offset)


def consumer_settings(servers: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer that reads ranges of offsets, with those of the user."""
    return {
        "bootstrap.servers": servers,
        "group.id": "driftsurf",  # required, but unused: the offsets are kept by the reader
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
        **own,
    }


def bounds(consumer: Any, topic: str, make_place: Any, seconds: float) -> dict[int, tuple[int, int]]:
    """Return the first offset that is there, and the one after the last, for each partition of a topic.

    ``make_place`` is ``confluent_kafka.TopicPartition``.
    """
    about = consumer.list_topics(topic, seconds).topics[topic]
    if about.error is not None:
        raise SourceError(f"the topic {topic!r} cannot be read: {about.error.str()}")
    return {
        number: consumer.get_watermark_offsets(make_place(topic, number), seconds)
        for number in sorted(about.partitions)
    }


def lost_messages(topic: str, partition: int, first: int, low: int) -> SourceError:
    """Return the error for messages that the brokers deleted before they were read."""
    return SourceError(
        f"messages {first} to {low - 1} of {topic!r}, partition {partition}, were deleted by the brokers before they "
        "were read: raise the topic's retention, and start a new run"
    )
