"""No part of an address that may be a secret is shown or stored, wherever the address goes."""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import invoke

import driftsurf
from driftsurf.core.options import shown
from driftsurf.core.secrets import storable
from driftsurf.data.source import open_source, short_name
from driftsurf.errors import DriftsurfError, Message, OptionError
from driftsurf.errors.visible import escape, safe_address, visible, without_secrets

SECRET = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(24))
PARTS = (
    f"{SECRET}@HOST/0/rows",
    f"{SECRET}:@HOST/0/rows",
    f":{SECRET}@HOST/0/rows",
    f"me:{SECRET}@HOST/0/rows",
    f"me:pa/{SECRET}@HOST/0/rows",
    f"me:pa?{SECRET}@HOST/0/rows",
    f"me:pa#{SECRET}@HOST/0/rows",
    f"me:pa@{SECRET}@HOST/0/rows",
    f"me:pa'{SECRET}@HOST/0/rows",
    f"me:pa {SECRET}@HOST/0/rows",
    f"{SECRET}@HOST",
    f"HOST/0/rows.csv?{SECRET}",
    f"HOST/0/rows.csv?{SECRET}=1",
    f"HOST/0/rows.csv?sv=2020&sig={SECRET}",
    f"HOST/0/rows.csv?sig='{SECRET}'",
    f"HOST/0/rows.csv?a=1&password={SECRET}",
    f"HOST/0/rows.csv?token={SECRET}&subject=x",
    f"HOST?key={SECRET}",
    f"HOST/0/rows.csv#{SECRET}",
    f"HOST/0/rows.csv?a=1#access_token={SECRET}",
)
AWKWARD = (
    f"pa {SECRET}@HOST/0/rows",
    f"{SECRET} pa@HOST/0/rows",
    f"pa/{SECRET}@HOST/0/rows",
    f"{SECRET}/pa@HOST/0/rows",
    f"pa?{SECRET}@HOST/0/rows",
    f"pa#{SECRET}@HOST/0/rows",
    f"pa://{SECRET}@HOST/0/rows",
    f"pa\n{SECRET}@HOST/0/rows",
    f"pa\t/{SECRET}@HOST/0/rows",
    f"me:pa/ {SECRET}@HOST/0/rows",
    f"me:pa@x/{SECRET}@HOST/0/rows",
    f"[{SECRET}]pa@HOST/0/rows",
    f"me:[pa]{SECRET}@HOST/0/rows",
    f"me:pa'{SECRET}\"{SECRET}@HOST/0/rows",
    f"HOST/0/rows.csv?sig=pa {SECRET}",
    f"HOST/0/rows.csv?sig=pa\n{SECRET}",
    f"HOST/0/rows.csv?sig=pa\"'{SECRET}",
    f"{10 * SECRET}@HOST/0/rows",
)
"""What no client takes, but people type: signs that should be written as %2F and so on."""
BROKERS = "kafka", "nats", "redis", "rediss", "amqp", "amqps", "mqtt", "mqtts", "postgresql", "postgres"
STORAGES = "s3", "gs", "az", "abfs", "hdfs", "sftp", "ssh", "smb"
SCHEMES = ("http", "https", "HTTPS", *BROKERS, *STORAGES, "unknown")


def addresses(*schemes: str, host: str = "127.0.0.1:1", parts: tuple[str, ...] = (*PARTS, *AWKWARD)) -> list[str]:
    return [f"{scheme}://{part.replace('HOST', host)}" for scheme in schemes for part in parts]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_part_of_an_address_in_every_scheme(scheme: str) -> None:
    for address in addresses(scheme, host="data.example:443", parts=PARTS):
        assert scheme in without_secrets(address)
        for text in (address, f"{address!r} cannot be read, {address}, ({address}).", json.dumps({"source": address})):
            for safe in (without_secrets(text), visible(text), escape(text), str(Message(text)), str(storable([text]))):
                assert SECRET not in safe, (address, safe)
                assert "data.example" in safe
        assert SECRET not in short_name(address)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_awkward_addresses_as_a_whole_and_between_quotation_marks(scheme: str) -> None:
    for address in addresses(scheme, host="data.example:443", parts=AWKWARD):
        for safe in (
            safe_address(address),
            str(storable({"source": [address]})),
            visible(f"{address!r} cannot be read"),
            str(Message("no source opens ", repr(address), "; choices: -")),
            visible(shown(address)),
            visible(json.dumps({"source": address, "label": "y"})),
        ):
            assert SECRET not in safe, (address, safe)


def test_an_address_that_a_path_has_shortened() -> None:
    shortened = str(Path(f"https://me:{SECRET}@host/rows.csv?sig={SECRET}"))
    assert SECRET not in visible(f"{shortened} is no run folder")


def test_a_host_that_looks_like_a_user_is_shown_where_it_is_certain() -> None:
    for address in ("redis://cache:6379/0/a@b", "https://data.example/a@b?...", "kafka://a,b/orders@eu"):
        assert without_secrets(address) == address
    assert without_secrets("https://me:pass") == "https://***@"


def test_text_with_many_beginnings_of_addresses_takes_no_long_time() -> None:
    for part in ("'aa:/", "aa://", 'aa:/"', "aa://a,", "aa://a:b,", "aa://'a@", "aa://[", "@aa://b:c@d/"):
        assert visible(20_000 * part)


@pytest.mark.parametrize(
    "address",
    [
        "data/a?.csv#x",
        "file:///data/a?.csv",
        "https://host:8080/a@b/c.csv",
        "https://[::1]:80/a@b",
        "redis://localhost:6379/0/a@b?password=env:NAME",
        "nats://a:1,b:2/ORDERS?subject=orders.eu&token=file:/run/token",
        "kafka://a:1,b:2/orders?partition=2&security.protocol=SASL_SSL",
        "mqtt://host/sensors/+/#",
        "mqtt://host/#?password=env:NAME&client=a",
        "postgresql://host/dw/orders?order=id&xid=written&query=file:orders.sql",
        "redis://USER@localhost/...?password=env:NAME",
        "kafka://HOST:PORT/TOPIC",
        "postgresql://USER@HOST:PORT/DATABASE/TABLE",
    ],
)
def test_what_is_harmless_is_shown(address: str) -> None:
    assert without_secrets(f"({address!r}, and so on)") == f"({address!r}, and so on)"


def told(address: str) -> str:
    """Return everything that an error says, with its notes."""
    with pytest.raises((DriftsurfError, OSError)) as caught:
        driftsurf.run(address, label="y", checkpoint=None, progress=False)
    return "\n".join([str(caught.value), repr(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("driftsurf.data.messages.client.RetryPolicy.call", _once)


def _once(self: Any, act: Any) -> Any:
    """Call once: nothing listens, and waiting for it tells nothing about secrets."""
    try:
        return act()
    except self.errors as error:
        raise driftsurf.errors.SourceUnreachableError(f"{self.name} cannot be reached: {error}") from error


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_errors_of_the_web(scheme: str) -> None:
    for address in addresses(scheme):
        assert SECRET not in told(address), address


@pytest.mark.parametrize("scheme", ["nats", "redis", "amqp", "mqtt", "postgresql", "unknown", "kafka"])
def test_errors_of_brokers(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "driftsurf")
    for address in addresses(scheme):
        with contextlib.suppress(OptionError):  # most name too little, and say so
            name = open_source(address).name
            assert SECRET not in visible(name), address
        for line in invoke("run", address, "--label", "y", "--format", "nothing").output.splitlines():
            assert SECRET not in line, (address, line)
    assert SECRET not in caplog.text


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends a table, or an error for a path that says so."""

    def do_GET(self) -> None:
        rows = "".join(f"{i % 7},{i % 3},{i},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(400))
        body = f"x,k,i,y\n{rows}".encode()
        status = 403 if "refused" in self.path else 302 if "elsewhere" in self.path else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"ftp://me:{SECRET}@127.0.0.1/rows?a={SECRET}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def found(folder: Path) -> list[str]:
    """Return the files that hold the secret, or have it in their names."""
    secret = SECRET.encode()
    return [
        str(one)
        for one in sorted(folder.rglob("*"))
        if SECRET in one.name or (one.is_file() and secret in one.read_bytes())
    ]


@pytest.mark.filterwarnings("ignore::driftsurf.errors.DriftsurfWarning")
def test_a_run_leaves_no_secret_behind(web: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "driftsurf")
    address = f"{web}/rows.csv?sv=2020&sig={SECRET}&{SECRET}#{SECRET}"
    words = ["--label", "y", "--batch-size", 50, "--model", "recommended-linear", "--log-level", "debug"]
    runs: list[list[Any]] = [
        ["run", address, *words, "--out", "one", "--metrics", "metrics.prom", "--predictions", "p.csv"],
        ["run", address, *words, "--checkpoint", "durable"],
        ["run", address, *words, "--checkpoint", "durable", "--resume", "--overwrite"],
        ["run", f"{web}/refused.csv?sig={SECRET}", *words, "--out", "two"],
        ["run", f"{web}/elsewhere.csv?sig={SECRET}", *words, "--out", "three"],
        ["run", address, "--label", "no such column", "--out", "four"],
        ["compare", address, "--label", "y", "--models", "majority", "--jobs", 1, "--out", "compared"],
        ["predict", "one", address, "--out", "answers.csv"],
        ["predict", "one", f"{web}/refused.csv?sig={SECRET}"],
        ["explain", "one"],
        ["runs", "."],
        ["run", address, "--label", "y", "--key", "k", "--sequence", "i", "--out", "keyed"],
        ["keys", "keyed"],
    ]
    failed = list[str]()
    for one in runs:
        result = invoke(*one)
        assert SECRET not in result.output, one
        failed += [one[1]] * (result.exit_code != 0)
    assert len(failed) == 4, failed
    assert SECRET not in caplog.text
    assert found(tmp_path) == []
    source = json.loads((tmp_path / "one" / "run.json").read_text())["source"]
    assert source == f"{web}/rows.csv?...#..."


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_no_process_of_a_configured_command_shows_a_secret(web: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(f'source = "{web}/rows.csv?sig={SECRET}"\nlabel = "y"\n')
    seen, ended = set[bytes](), threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            for one in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    seen.add(one.read_bytes())

    watching = threading.Thread(target=look)
    watching.start()
    try:
        command = [sys.executable, "-m", "driftsurf", "run", "--config", "run.toml", "--out", "one"]
        assert subprocess.run(command, check=False, capture_output=True, timeout=600).returncode == 0
        # Two workers, which get their source otherwise than by their command lines.
        code = """
import os
from driftsurf.comparison.compare import compare
from driftsurf.comparison.inputs import Input
if __name__ == "__main__":
    compare("two", [Input(os.environ["SOURCE"], label="y")], ["majority", "persistence"], jobs=2)
"""
        (tmp_path / "compare.py").write_text(code)
        environment = {**os.environ, "SOURCE": f"{web}/rows.csv?sig={SECRET}"}
        done = subprocess.run([sys.executable, "compare.py"], check=False, capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert SECRET.encode() not in done.stdout + done.stderr
    finally:
        ended.set()
        watching.join()
    assert any(b"run.toml" in one for one in seen)
    assert not any(SECRET.encode() in one for one in seen)


def test_a_configuration_with_a_secret_is_private(web: str, tmp_path: Path) -> None:
    for address, mode in ((f"{web}/rows.csv?sig={SECRET}", 0o600), (f"{web}/rows.csv", 0o644)):
        result = invoke("run", address, "--label", "y", "--write-config", "run.toml", "--overwrite")
        assert result.exit_code == 0, result.output
        assert SECRET not in result.output
        assert (tmp_path / "run.toml").stat().st_mode & 0o777 == mode
        (tmp_path / "run.toml").unlink()
