"""Streams of NATS JetStream as sources and destinations."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nats")

from tests.integration.services.kills import Command, orders
from tests.integration.services.nats_streams import create, held, purge, remove, send
from tests.integration.services.private_servers import NatsServer
from tests.integration.services.servers import require

from driftsurf.checks import SeekableCase, WriterCase, check_seekable, check_writer
from driftsurf.checks.connectors import COLUMNS
from driftsurf.connectors.nats.sink import NatsWriter
from driftsurf.connectors.nats.source import NatsSource, NatsStream
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import OptionError, SourceError, StateError

SHARED = "nats://127.0.0.1:4222"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A server of its own, which takes messages of more than a megabyte."""
    made = NatsServer(tmp_path_factory.mktemp("nats"))
    yield made
    made.kill()


@pytest.fixture
def shared(unique: str) -> Iterator[str]:
    """The server of this machine; the stream of the test is removed from it."""
    require("nats")
    yield SHARED
    asyncio.run(remove(SHARED, unique))


def rows(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"n": n}).encode() for n in range(first, first + count)]


def put(server: str, name: str, messages: Sequence[bytes], subject: str | None = None) -> None:
    asyncio.run(send(server, name, messages, subject))


def values(reader: NatsStream, most: int) -> list[bytes]:
    return [one.value for plan in iter(lambda: reader.plan(most, 0.0), None) for one in reader.read(plan.ranges)]


@pytest.mark.parametrize("subject", [None, "orders.eu"])
def test_the_reader_conforms(server: NatsServer, unique: str, subject: str | None) -> None:
    asyncio.run(create(server.url, unique, subjects=[unique, "orders.*"]))

    def forget(count: int) -> None:
        asyncio.run(purge(server.url, unique, seq=count + 1))

    def post(messages: Sequence[bytes]) -> None:
        for part in (messages[:50], messages[50:]):
            if subject is not None:
                put(server.url, unique, [b"other"], "orders.us")
            put(server.url, unique, part, subject or unique)

    address = f"{server.url}/{unique}" + (f"?subject={subject}" if subject else "")
    check_seekable(SeekableCase(lambda: NatsStream(address), post, forget))
    asyncio.run(remove(server.url, unique))


def test_the_writer_conforms(shared: str, unique: str) -> None:
    def rows_held() -> list[dict[str, Any]]:
        return [json.loads(value) for value, _ in asyncio.run(held(shared, unique))]

    check_writer(WriterCase(lambda: NatsWriter(f"{shared}/{unique}", COLUMNS), rows_held))


def test_a_writer_that_was_cleared_writes_again(shared: str, unique: str) -> None:
    writer = NatsWriter(f"{shared}/{unique}", COLUMNS)
    writer.open()
    for _ in range(2):  # the server remembers the ids of messages that were removed
        writer.write(0, [{"row": n} for n in range(30)])
        writer.flush()
        assert len(asyncio.run(held(shared, unique))) == 30
        writer.clear()
    writer.close()


def test_another_writer_is_refused(shared: str, unique: str) -> None:
    writer, other = (NatsWriter(f"{shared}/{unique}", COLUMNS) for _ in range(2))
    assert (writer.open(), other.open()) == (0, 0)
    writer.write(0, [{"row": n} for n in range(10)])
    writer.flush()
    other.write(0, [{"row": n} for n in range(20)])  # as a process that was thought to be dead
    other.flush()
    assert [row for _, row in asyncio.run(held(shared, unique))] == [str(n) for n in range(20)]
    put(shared, unique, [b"{}"], unique)
    writer.write(10, [{"row": n} for n in range(10, 30)])
    with pytest.raises(SourceError, match="no rows of a run"):
        writer.flush()
    for one in (writer, other):
        one.close()
    with pytest.raises(SourceError, match="no rows of a run"):
        NatsWriter(f"{shared}/{unique}", COLUMNS).open()


def test_a_stream_with_several_subjects_needs_one(server: NatsServer, unique: str) -> None:
    asyncio.run(create(server.url, unique, subjects=["a.*"]))
    with pytest.raises(SourceError, match=r"takes messages of the subjects \['a.\*'\]"):
        NatsWriter(f"{server.url}/{unique}", COLUMNS).open()
    writer = NatsWriter(f"{server.url}/{unique}?subject=a.b", COLUMNS)
    assert writer.open() == 0
    writer.write(0, [{"row": 0}])
    writer.flush()
    assert writer.open() == 1
    writer.close()
    asyncio.run(remove(server.url, unique))


def test_deleted_messages_are_passed_over_and_lost_ones_named(server: NatsServer, unique: str) -> None:
    url = f"{server.url}/{unique}"
    put(server.url, unique, rows(100))
    reader = NatsStream(url)
    reader.open(None, bounded=False)
    first = reader.plan(10, 0.0)
    assert first is not None
    assert (first.ranges, first.end, first.certain) == ([[1, 10, 10]], 10, True)
    asyncio.run(purge(server.url, unique, seq=61))
    # What was asked for already may still come, and what follows it does not.
    with pytest.raises(SourceError, match=r"the messages \d+ to 60 were removed before they were read"):
        values(reader, 10)
    with pytest.raises(SourceError, match="the messages 11 to 60 were removed before they were read"):
        reader.open(first.end, bounded=True)
    reader.open(None, bounded=True)
    with pytest.raises(SourceError, match="the messages 5 to 60"):
        reader.read([[5, 9, 5]])
    reader.open(None, bounded=True)
    assert values(reader, 7) == rows(40, first=60)
    with pytest.raises(SourceError, match="ends at sequence 100, but was read up to 200"):
        reader.open(200, bounded=True)
    with pytest.raises(StateError, match="not a position"):
        reader.open("5", bounded=True)
    reader.close()
    asyncio.run(remove(server.url, unique))


def test_a_stream_that_does_not_exist_is_named(server: NatsServer) -> None:
    with pytest.raises(SourceError, match="the server has no stream 'NOTHING'"):
        NatsStream(f"{server.url}/NOTHING").open(None, bounded=True)


def test_hostile_messages_go_to_the_side(server: NatsServer, unique: str) -> None:
    hostile = [b"", b"\x00", b"\xff{", b"[" * 100_000, b'{"n": 1e999}', b'"' + b"x" * 2**20 + b'"']
    put(server.url, unique, [*rows(3), *hostile, *rows(2, first=3)])
    source = NatsSource(f"{server.url}/{unique}", ReadingOptions(on_bad_row="skip"), batch_size=4)
    bad: list[Any] = []
    found = [n for table, _ in source.tables(on_skip=bad.append) for n in table["n"].values.tolist()]
    assert found == [0, 1, 2, 3, 4]
    assert [one.file.rpartition(", ")[2] for one in bad] == [f"sequence {n}" for n in range(4, 10)]
    asyncio.run(remove(server.url, unique))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("nats://host", "does not name a stream; write nats://HOST:PORT/STREAM"),
        ("nats://host/a/b", "names more than a stream"),
        ("nats://host/a.b", "no name of a stream"),
        ("nats://host/a?tls=maybe", "must be true or false"),
        ("nats://host/a?tokn=env:X", "did you mean 'token'"),
    ],
)
def test_wrong_addresses_are_refused(text: str, match: str) -> None:
    with pytest.raises(OptionError, match=match):
        NatsStream(text)


def test_passwords_and_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_SECRET", "hunter2")
    monkeypatch.setenv("NATS_WRONG", "hunter3")
    for settings, user, parameter in (
        ("authorization { token: hunter2 }", "", "token"),
        ("authorization { user: me, password: hunter2 }", "me@", "password"),
    ):
        folder = tmp_path / parameter
        folder.mkdir()
        made = NatsServer(folder, settings)
        try:
            address = f"nats://{user}127.0.0.1:{made.port}/s?{parameter}=env:"
            writer = NatsWriter(address + "NATS_SECRET", COLUMNS)
            assert writer.open() == 0
            writer.close()
            with pytest.raises(SourceError, match="refuses: user, password or token") as caught:
                NatsWriter(address + "NATS_WRONG", COLUMNS).open()
            assert "hunter" not in str(caught.value)
        finally:
            made.kill()


def test_a_run_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_SECRET", "hunter2")
    made = NatsServer(tmp_path, "authorization { token: hunter2 }")
    try:
        put(f"nats://hunter2@127.0.0.1:{made.port}", "orders", orders(500))
        command = Command(
            tmp_path / "run", f"{made.url}/orders?token=env:NATS_SECRET", f"{made.url}/scores?token=env:NATS_SECRET"
        )
        command.words[command.words.index("--quiet")] = "--log-level"
        process = subprocess.run([*command.words, "debug"], capture_output=True, check=False)
        shown = process.stdout + process.stderr
        assert process.returncode == 0, shown
        files = [one for one in command.folder.rglob("*") if one.is_file()]
        assert b"NATS_SECRET" in b"".join(one.read_bytes() for one in files)
        assert not any(b"hunter2" in text for text in [shown, *(one.read_bytes() for one in files)])
    finally:
        made.kill()


def test_tls_with_a_certificate_of_ones_own(tmp_path: Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("no openssl is installed")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} -out {cert}"
    subprocess.run([program, *make.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    made = NatsServer(tmp_path, f'tls {{ cert_file: "{cert}", key_file: "{key}" }}')
    try:
        writer = NatsWriter(f"{made.url}/scores?ca={cert}", COLUMNS)
        assert writer.open() == 0
        writer.write(0, [{"row": 0}])
        writer.flush()
        assert writer.open() == 1
        writer.close()
        stranger = NatsWriter(f"{made.url}/scores?tls=true", COLUMNS)
        with pytest.raises(SourceError, match="certificate verify failed"):
            stranger.open()
        with pytest.raises(SourceError, match="the certificates cannot be read"):
            NatsWriter(f"{made.url}/scores?ca={tmp_path / 'none.pem'}", COLUMNS).open()
    finally:
        made.kill()


# ---------------------------------------------------------------------------- servers that are killed or slow


def test_a_reader_and_a_writer_go_on_after_a_restart(tmp_path: Path) -> None:
    made = NatsServer(tmp_path)
    try:
        put(made.url, "orders", rows(500))
        reader, writer = NatsStream(f"{made.url}/orders"), NatsWriter(f"{made.url}/scores", COLUMNS)
        reader.open(None, bounded=True)
        writer.open()
        found = list[bytes]()
        for part in range(5):
            plan = reader.plan(100, 0.0)
            assert plan is not None
            found += [one.value for one in reader.read(plan.ranges)]
            writer.write(part * 100, [{"row": part * 100 + n} for n in range(100)])
            made.kill()
            starting = threading.Timer(0.3, made.start)
            starting.start()
            writer.flush()
            starting.join()  # it may be still looking whether the server takes connections
        assert found == rows(500)
        assert reader.plan(100, 0.0) is None
        reader.close()
        writer.close()
        assert [int(row) for _, row in asyncio.run(held(made.url, "scores"))] == list(range(500))
    finally:
        made.kill()


def test_a_server_that_answers_late_is_waited_for(tmp_path: Path) -> None:
    made = NatsServer(tmp_path)
    try:
        put(made.url, "orders", rows(300))
        reader = NatsStream(f"{made.url}/orders")
        reader.open(None, bounded=True)
        found = list[bytes]()
        for _ in range(3):
            made.signal(signal.SIGSTOP)
            waking = threading.Timer(0.5, made.signal, [signal.SIGCONT])
            waking.start()
            plan = reader.plan(100, 0.0)
            assert plan is not None
            found += [one.value for one in reader.read(plan.ranges)]
            waking.join()  # messages that had come before the server stopped are read without waiting for it
        assert found == rows(300)
        reader.close()
    finally:
        made.kill()


def test_a_server_that_is_gone_is_named(tmp_path: Path) -> None:
    made = NatsServer(tmp_path)
    put(made.url, "orders", rows(10))
    reader = NatsStream(f"{made.url}/orders")
    reader.open(None, bounded=False)
    reader._link.retry.seconds = 0.3
    made.kill()
    with pytest.raises(SourceError, match=r"cannot be reached for 0.3 s"):
        reader.plan(10, 0.0)
    reader.close()
