"""Notices reach their receivers over real connections, survive failures and restarts, and lose no order."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import logging
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drifting import BEGAN, GREW, OVER
from receivers import Receiver, receiving

from driftsurf.errors import DeliveryError
from driftsurf.runs.alerts import AlertOptions, AlertThread, Notice, Reading, read_alerts
from driftsurf.runs.alerts.channels import AlertmanagerChannel, MailChannel, SlackChannel, WebhookChannel
from driftsurf.runs.alerts.delivery import MOST_WAITING, Outbox
from driftsurf.runs.alerts.rules import Change

NOTICE = Notice("sales/lag//1.000/firing", "firing", "sales", "lag", "warning", "9 rows wait", 1.0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def test_webhook_is_signed(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2\n")
    WebhookChannel(f"{receiver.url}/hook", f"file:{tmp_path / 'key'}").send([NOTICE])
    path, headers, body, raw = receiver.requests[0]
    parts = dict(part.split("=") for part in headers["Driftsurf-Signature"].split(","))
    expected = hmac.new(b"hunter2", parts["t"].encode() + b"." + raw, hashlib.sha256).hexdigest()
    assert (path, parts["v1"], headers["Driftsurf-Notice"]) == ("/hook", expected, NOTICE.id)
    assert (body["model"], body["kind"], body["rule"], body["since"]) == ("sales", "firing", "lag", 1.0)


def test_hostile_names_cannot_add_headers_or_markup(receiver: Receiver) -> None:
    hostile = Notice("a\r\nX-Evil: 1", "firing", "<!channel>", "lag", "warning", "late\n", 1.0)
    WebhookChannel(receiver.url).send([hostile])
    SlackChannel(receiver.url).send([hostile])
    assert "X-Evil" not in receiver.requests[0][1]
    assert "<" not in receiver.requests[1][2]["text"]
    mail = MailChannel("localhost", "a@b", ["c@d"]).message(hostile)
    assert "\n" not in mail["Subject"]
    assert mail["To"] == "c@d"


def test_alertmanager_hears_of_alerts_and_their_ends_but_not_of_events(receiver: Receiver) -> None:
    ended = Notice("1", "resolved", "sales", "lag", "warning", "late", 1.0, until=60.0, subject="x")
    event = Notice("2", "event", "sales", "transition", "info", "switched", 1.0)
    AlertmanagerChannel(receiver.url).send([NOTICE, ended, event])
    AlertmanagerChannel(receiver.url).send([event])
    (path, _, alerts, _), *others = receiver.requests
    assert (path, len(alerts), others) == ("/api/v2/alerts", 2, [])
    assert alerts[0]["labels"] == {"alertname": "driftsurf-lag", "model": "sales", "severity": "warning"}
    assert "endsAt" not in alerts[0]
    assert alerts[1]["endsAt"] == "1970-01-01T00:01:00+00:00"


@pytest.mark.parametrize(
    ("code", "later"), [(500, True), (503, True), (429, True), (400, False), (404, False), (302, False)]
)
def test_answers_of_a_receiver(receiver: Receiver, code: int, later: bool) -> None:
    receiver.codes = [code]
    with pytest.raises(DeliveryError, match=str(code)) as caught:
        WebhookChannel(receiver.url).send([NOTICE])
    assert caught.value.later is later
    assert len(receiver.requests) == 1  # a redirect is not followed


def test_a_receiver_that_is_away_is_tried_later_and_its_address_stays_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "http://127.0.0.1:9/T000/hunter2")
    with pytest.raises(DeliveryError) as caught:
        SlackChannel("env:HOOK").send([NOTICE])
    assert caught.value.later
    assert "hunter2" not in str(caught.value)


class _Mail(socketserver.StreamRequestHandler):
    """A mail server that takes every message, unless it is told to answer otherwise."""

    def handle(self) -> None:
        server: Any = self.server
        self.wfile.write(b"220 here\r\n")
        message = None
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if message is not None:
                if line == ".":
                    server.messages.append("\n".join(message))
                    message = None
                    self.wfile.write(b"250 taken\r\n")
                else:
                    message.append(line)
            elif line.upper() == "DATA":
                message = list[str]()
                self.wfile.write(b"354 go on\r\n")
            elif line.upper().startswith("RCPT") and server.refuses:
                self.wfile.write(f"{server.refuses} no\r\n".encode())
            elif line.upper() == "QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 ok\r\n")


@pytest.mark.parametrize("refuses", [None, 450, 550])
def test_mail(refuses: int | None) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Mail) as server:
        state: Any = server
        state.messages, state.refuses = [], refuses
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        channel = MailChannel("127.0.0.1", "a@b", ["c@d"], port=server.server_address[1], security="none")
        if refuses is None:
            channel.send([NOTICE, NOTICE])
            assert len(state.messages) == 2
            assert "Subject: [driftsurf] sales: 9 rows wait" in state.messages[0]
        else:
            with pytest.raises(DeliveryError) as caught:
                channel.send([NOTICE])
            assert caught.value.later is (refuses == 450)
        server.shutdown()


class Service:
    """A served model whose state the test sets, and a clock that it moves."""

    def __init__(self, url: str, path: Path, **options: Any) -> None:
        self.time, self.reading, self.path = 0.0, dict[str, Any](), path
        channels = {"ops": {"kind": "webhook", "url": url}}
        self.options: AlertOptions = read_alerts(
            {"hold": 0, "lag-rows": 5, "transitions": True, "channels": channels, **options}
        )
        self.restart()

    def restart(self) -> None:
        self.alerts = AlertThread(self.options, self.path, self.readings, lambda: self.time)

    def readings(self) -> list[Reading]:
        return [Reading(model="sales", time=self.time, **self.reading)]

    def tick(self, time: float, **reading: Any) -> None:
        self.time, self.reading = time, reading
        self.alerts.tick()


def _kinds(receiver: Receiver) -> list[str]:
    return [body["kind"] for _, _, body, _ in receiver.requests]


def test_notices_wait_for_a_receiver_through_a_restart(receiver: Receiver, tmp_path: Path) -> None:
    receiver.codes = [503, 503]
    service = Service(receiver.url, tmp_path / "alerts.json")
    service.tick(0.0, lag_rows=9)
    service.tick(1.0, lag_rows=9)  # too early for another attempt
    assert len(receiver.requests) == 1
    assert service.alerts.status["channels"]["ops"]["waiting"] == 1
    service.restart()
    service.tick(3.0, lag_rows=0)
    assert len(receiver.requests) == 2
    service.tick(60.0)
    assert _kinds(receiver)[2:] == ["firing", "resolved"]
    assert len({body["id"] for _, _, body, _ in receiver.requests[:3]}) == 1
    assert service.alerts.status == {
        "active": [],
        "channels": {"ops": {"kind": "webhook", "waiting": 0, "refused": 0, "problem": ""}},
        "dropped": 0,
    }


def test_a_restart_repeats_nothing(receiver: Receiver, tmp_path: Path) -> None:
    service = Service(receiver.url, tmp_path / "alerts.json")
    for time in range(4):
        service.tick(float(time), lag_rows=9, changes=[Change(time, "switched")])
        service.restart()
    assert _kinds(receiver) == ["firing", "event", "event", "event"]


def test_a_drift_reaches_a_webhook_and_alertmanager_with_its_cause_numbers_and_link(
    receiver: Receiver, tmp_path: Path
) -> None:
    channels = {"ops": {"kind": "webhook", "url": receiver.url}, "am": {"kind": "alertmanager", "url": receiver.url}}
    service = Service(receiver.url, tmp_path / "alerts.json", channels=channels, address="https://ml.example.org")
    service.tick(0.0)
    for time, drift in enumerate((BEGAN, GREW, OVER), start=1):
        service.tick(float(time), changes=[Change(time, drift.describe(), drift)])
        service.restart()
    told = [body for path, _, body, _ in receiver.requests if path == "/"]
    assert [(body["rule"], body["kind"], body["drift"]["news"]) for body in told] == [
        ("drift", "firing", "began"),
        ("drift", "resolved", "over"),
    ]
    assert all(BEGAN.cause_sentence() in body["summary"] for body in told)
    numbers = {name: told[1]["drift"][name] for name in ("row", "error_before", "error_peak", "recovered_after_rows")}
    assert numbers == {"row": 600, "error_before": 0.07, "error_peak": 0.57, "recovered_after_rows": 800}
    assert {body["link"] for body in told} == {"https://ml.example.org/#sales"}
    alerts = [alert for path, _, body, _ in receiver.requests if path == "/api/v2/alerts" for alert in body]
    assert ["endsAt" in alert for alert in alerts][:: len(alerts) - 1] == [False, True]
    assert len({json.dumps([alert["labels"], alert["startsAt"]]) for alert in alerts}) == 1


def test_a_refused_notice_does_not_block_the_next(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.codes = [400]
    service = Service(receiver.url, tmp_path / "alerts.json")
    service.tick(0.0, lag_rows=9)
    service.tick(1.0)
    assert _kinds(receiver) == ["firing", "resolved"]
    assert service.alerts.status["channels"]["ops"]["refused"] == 1
    assert any(record.levelno == logging.ERROR for record in caplog.records)


def test_active_alerts_are_repeated_to_alertmanager_until_they_end(receiver: Receiver, tmp_path: Path) -> None:
    channels = {"am": {"kind": "alertmanager", "url": receiver.url}}
    service = Service(receiver.url, tmp_path / "alerts.json", channels=channels)
    for time in range(0, 300, 30):
        service.tick(float(time), lag_rows=9 if time < 200 else 0)
    sent = [[("endsAt" in alert) for alert in alerts] for _, _, alerts, _ in receiver.requests]
    assert sent == [[False], [False], [False], [False], [False], [True]]


def test_other_options_keep_what_is_known(receiver: Receiver, tmp_path: Path) -> None:
    receiver.codes = [503]
    service = Service(receiver.url, tmp_path / "alerts.json")
    service.tick(0.0, lag_rows=9)
    more = {"ops": {"kind": "webhook", "url": receiver.url}, "chat": {"kind": "slack", "url": receiver.url}}
    service.alerts.change(read_alerts({"hold": 0, "lag-rows": 5, "channels": more}))
    service.tick(60.0)
    assert [body.get("kind", "slack") for _, _, body, _ in receiver.requests] == ["firing"] * 2 + ["resolved", "slack"]


def test_too_many_notices_drop_the_oldest(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "alerts.json", ["ops"])
    many = [Notice(str(number), "event", "sales", "transition", "info", "", 0.0) for number in range(MOST_WAITING + 7)]
    outbox.put(many, {})
    assert (outbox.dropped, outbox.waiting["ops"][0].id) == (7, "7")
    assert Outbox(tmp_path / "alerts.json", ["ops"]).waiting == outbox.waiting


def test_a_full_disk_stops_no_alert_and_is_logged_once(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(receiver.url, tmp_path / "alerts.json")
    with monkeypatch.context() as full:

        def write(path: Path, text: str) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        full.setattr("driftsurf.core.files.write_text", write)
        service.tick(0.0, lag_rows=9)
        service.tick(1.0)
        service.tick(2.0)
    assert _kinds(receiver) == ["firing", "resolved"]
    assert sum("cannot be written" in record.message for record in caplog.records) == 1
    service.tick(3.0)
    service.restart()
    service.tick(4.0)
    assert _kinds(receiver) == ["firing", "resolved"]


def test_the_level_of_the_log_is_that_of_the_severity(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(receiver.url, tmp_path / "alerts.json")
    caplog.set_level(logging.INFO)
    service.tick(0.0)
    service.tick(1.0, lag_rows=9, failure="no memory", changes=[Change(7, "switched")])
    levels = {record.levelname: record.message for record in caplog.records if record.name == "driftsurf.runs.alerts"}
    assert {level: text.split()[1] for level, text in levels.items()} == {
        "INFO": "switched",
        "WARNING": "9",
        "ERROR": "the",
    }


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"book": '])
def test_a_damaged_outbox_does_not_stop_the_service(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "alerts.json").write_bytes(content)
    assert Outbox(tmp_path / "alerts.json", ["ops"]).waiting == {"ops": []}
    assert "cannot be read" in caplog.text


def test_the_thread_survives_a_failure_and_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    called = threading.Semaphore(0)

    def readings() -> list[Reading]:
        called.release()
        raise OSError("no disk")

    with AlertThread(AlertOptions(interval=0.001), tmp_path / "alerts.json", readings):
        for _ in range(3):
            assert called.acquire(timeout=30)
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 1


def test_the_end_does_not_wait_for_a_receiver_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        service = Service(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path / "alerts.json")
        service.reading = {"lag_rows": 9}
        with service.alerts as alerts:
            connection, _ = silent.accept()
        assert alerts._thread.is_alive()
        assert len(Outbox(tmp_path / "alerts.json", ["ops"]).waiting["ops"]) == 1
        connection.close()
        alerts._thread.join()
