"""Downloads from a local server: complete, resumed, changed, interrupted, refused."""

from __future__ import annotations

import fcntl
import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.data import download as module
from driftsurf.data.datasets import known
from driftsurf.data.datasets import known as datasets
from driftsurf.data.download import fetch
from driftsurf.errors import FetchError, InputError
from driftsurf.report.datasets import FetchProgress

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Site:
    """What the server serves, how it behaves, and what it was asked."""

    url: str
    content: bytes = CONTENT
    etag: str | None = '"one"'
    date: str | None = None
    ranges: bool = True
    send: int | None = None
    """Bytes of a body after which the connection ends."""
    length: bool = True
    shift: int = 0
    """Bytes by which the range that the server announces is wrong."""
    asked: list[dict[str, str]] = field(default_factory=list)


class Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site = self.site
        site.asked.append(dict(self.headers))
        if self.path != "/file":
            self.send_error(404)
            return
        same = self.headers.get("If-Range") in (site.etag, site.date, None)
        start = 0
        if site.ranges and same and "Range" in self.headers:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(site.content):
                self.send_error(416)
                return
        body = site.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start + site.shift}-{len(site.content) - 1}/{len(site.content)}")
        if site.length:
            self.send_header("Content-Length", str(len(body)))
        if site.etag:
            self.send_header("ETag", site.etag)
        if site.date:
            self.send_header("Last-Modified", site.date)
        self.end_headers()
        self.wfile.write(body[: site.send])

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@pytest.fixture
def site() -> Iterator[Site]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.site = Site(f"http://127.0.0.1:{server.server_port}/file")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Handler.site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "file.bin"


def left_over(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir() if entry != path)


def stop_after(n_bytes: int) -> Any:
    def report(done: int, total: int | None) -> None:
        if done >= n_bytes:
            raise KeyboardInterrupt

    return report


def begin(site: Site, path: Path) -> int:
    """Interrupt a download in the middle; how much of it is there."""
    with pytest.raises(KeyboardInterrupt):
        fetch([site.url], path, report=stop_after(100_000))
    assert not path.exists()
    return path.with_name("file.bin.partial").stat().st_size


def test_a_file_is_downloaded_whole_and_only_once(site: Site, path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    assert fetch([site.url], path, sha256=SHA256, n_bytes=len(CONTENT), report=lambda *p: seen.append(p))
    assert path.read_bytes() == CONTENT
    assert left_over(path) == []
    assert seen[0] == (0, len(CONTENT))
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert not fetch([site.url], path, sha256=SHA256)
    assert not fetch([site.url], path)
    assert len(site.asked) == 1


@pytest.mark.parametrize(
    ("etag", "date", "version"),
    [
        ('"one"', "Sat, 01 Jan 2022 00:00:00 GMT", '"one"'),
        ('W/"weak"', "Sat, 01 Jan 2022 00:00:00 GMT", "Sat, 01 Jan 2022 00:00:00 GMT"),
        (None, "Sat, 01 Jan 2022 00:00:00 GMT", "Sat, 01 Jan 2022 00:00:00 GMT"),
    ],
)
def test_an_interrupted_download_is_resumed(
    site: Site, path: Path, etag: str | None, date: str | None, version: str
) -> None:
    site.etag, site.date = etag, date
    done = begin(site, path)
    assert 100_000 <= done < len(CONTENT)
    assert fetch([site.url], path, sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert site.asked[1]["Range"] == f"bytes={done}-"
    assert site.asked[1]["If-Range"] == version
    assert left_over(path) == []


def test_a_server_that_ignores_ranges_sends_the_whole_file(site: Site, path: Path) -> None:
    begin(site, path)
    site.ranges = False
    assert fetch([site.url], path, sha256=SHA256)
    assert "Range" in site.asked[1]
    assert path.read_bytes() == CONTENT


def test_the_download_of_a_changed_file_starts_over(site: Site, path: Path) -> None:
    begin(site, path)
    site.content, site.etag = CONTENT[::-1], '"two"'
    assert fetch([site.url], path)
    assert path.read_bytes() == CONTENT[::-1]


def test_the_download_of_a_file_that_became_shorter_starts_over(site: Site, path: Path) -> None:
    begin(site, path)
    site.content = CONTENT[:50]  # and the tag was kept
    assert fetch([site.url], path)
    assert path.read_bytes() == CONTENT[:50]
    assert ["Range" in asked for asked in site.asked] == [False, True, False]


@pytest.mark.parametrize("notes", [None, "no json", "[]", '{"url": "http://elsewhere", "version": "x", "total": 1}'])
def test_a_partial_file_of_unknown_version_is_downloaded_again(site: Site, path: Path, notes: str | None) -> None:
    begin(site, path)
    kept = path.with_name("file.bin.partial.json")
    kept.unlink() if notes is None else kept.write_text(notes)
    assert fetch([site.url], path, sha256=SHA256)
    assert "Range" not in site.asked[1]


def test_the_download_of_a_file_without_a_version_starts_over(site: Site, path: Path) -> None:
    site.etag = None
    begin(site, path)
    assert fetch([site.url], path, sha256=SHA256)
    assert "Range" not in site.asked[1]


def test_a_server_that_sends_another_range_is_refused(site: Site, path: Path) -> None:
    done = begin(site, path)
    site.shift = 1
    with pytest.raises(FetchError, match=f"{done}-.*'bytes {done + 1}-299999/300000'"):
        fetch([site.url], path)


def test_a_wrong_digest_is_refused_and_the_file_deleted(site: Site, path: Path) -> None:
    with pytest.raises(FetchError, match=f"{SHA256}.*{'0' * 64}"):
        fetch([site.url], path, sha256="0" * 64)
    assert not path.exists()
    assert left_over(path) == []


def test_a_wrong_length_is_refused_before_the_download(site: Site, path: Path) -> None:
    with pytest.raises(FetchError, match=r"300,000.*5"):
        fetch([site.url], path, n_bytes=5)
    assert left_over(path) == []


def test_a_file_that_fails_the_check_is_deleted(site: Site, path: Path) -> None:
    def check(candidate: Path) -> None:
        assert candidate.read_bytes() == CONTENT
        raise InputError("these are other rows")

    with pytest.raises(FetchError, match="these are other rows"):
        fetch([site.url], path, check=check)
    assert not path.exists()
    assert left_over(path) == []


def test_an_interrupted_check_is_repeated_without_a_download(site: Site, path: Path) -> None:
    def check(candidate: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([site.url], path, check=check)
    assert fetch([site.url], path, sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert len(site.asked) == 1


@pytest.mark.parametrize("length", [True, False])
def test_a_truncated_download_can_be_resumed(site: Site, path: Path, length: bool) -> None:
    site.send, site.length = 120_000, length
    with pytest.raises(FetchError, match=site.url):
        fetch([site.url], path, n_bytes=len(CONTENT))
    assert left_over(path) == ["file.bin.partial", "file.bin.partial.json"]
    site.send = None
    assert fetch([site.url], path, sha256=SHA256)
    assert site.asked[1]["Range"] == "bytes=120000-"


def test_a_download_can_be_resumed_after_a_failed_connection(
    site: Site, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = module._open

    def failing(url: str, headers: dict[str, str]) -> Any:
        response = opened(url, headers)
        pieces: Iterator[bytes] = iter([response.read(1000)])

        def read(_: int) -> bytes:
            try:
                return next(pieces)
            except StopIteration:
                raise ConnectionResetError("reset by peer") from None

        response.read = read
        return response

    monkeypatch.setattr(module, "_open", failing)
    with pytest.raises(FetchError, match="ConnectionResetError"):
        fetch([site.url], path)
    monkeypatch.undo()
    assert fetch([site.url], path, sha256=SHA256)
    assert site.asked[1]["Range"] == "bytes=1000-"


def test_an_existing_file_of_another_digest_is_replaced(site: Site, path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("old")
    assert fetch([site.url], path, sha256=SHA256)
    assert path.read_bytes() == CONTENT


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that is taken, and on which nobody listens: connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


def test_a_failed_download_names_every_address(site: Site, path: Path, unused_port: int) -> None:
    nowhere = f"http://127.0.0.1:{unused_port}/file"
    with pytest.raises(FetchError) as caught:
        fetch([f"{site.url}s", nowhere], path)
    for named in (f"{site.url}s", "404 Not Found", nowhere, str(path.parent)):
        assert named in str(caught.value)
    assert left_over(path) == []
    assert fetch([f"{site.url}s", nowhere, site.url], path, sha256=SHA256)


def test_two_downloads_of_one_file_do_not_mix(site: Site, path: Path) -> None:
    begin(site, path)
    with path.with_name("file.bin.partial").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FetchError, match=r"\.partial"):
            fetch([site.url], path)
    assert fetch([site.url], path, sha256=SHA256)


# ---------------------------------------------------------------------------- the command

ROWS = "117.4,127,0\n139.1,63.5,11\n69.55,0,12\n"


@pytest.fixture
def served(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A small PowerSupply on the local server, and no other data set."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(known.FOLDER_VARIABLE, raising=False)
    entry = replace(datasets.get("powersupply"), urls=(site.url,), rows=3, values=None)
    monkeypatch.setitem(datasets.DATASETS, "powersupply", entry)
    site.content = ROWS.encode()
    return site


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["datasets", "fetch", *arguments])


def test_fetch_saves_a_data_set_where_it_is_found(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 4)
    result = run("powersupply")
    assert result.exit_code == 0
    place = known.cache_folder() / "powersupply.arff"
    assert result.output.endswith(f"{place}\n")
    assert "powersupply: 0.0 MB of 0.0 MB" in result.output
    assert datasets.find("powersupply") == place
    assert run("powersupply").output.endswith(f"{place}\n")
    assert len(served.asked) == 1


def test_fetch_refuses_a_file_with_other_rows(served: Site) -> None:
    served.content = b"1,2,3\n"
    result = run("powersupply")
    assert result.exit_code == 1
    for named in (served.url, "powersupply.arff", " 1 ", " 3"):
        assert named in result.output
    assert list(known.cache_folder().iterdir()) == []


def test_fetch_reports_wrong_names_and_missing_files(served: Site) -> None:
    assert "'powersuply'" in run("powersuply").output
    assert "'powersupply'" in run("powersuply").output
    assert datasets.get("airline").page in run("airline").output
    assert run().exit_code == 2
    datasets.DATASETS["powersupply"] = replace(datasets.get("powersupply"), urls=(f"{served.url}s",))
    result = run("powersupply")
    assert result.exit_code == 1
    assert f"{served.url}s" in result.output
    assert "404" in result.output


def test_an_interrupted_fetch_is_resumed(served: Site) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_BYTES", 4)
        patch.setattr(FetchProgress, "__call__", lambda self, done, total: stop_after(10)(done, total))
        result = run("powersupply")
    assert result.exit_code == 130
    assert "interrupted" in result.output
    assert datasets.find("powersupply") is None
    assert run("powersupply").exit_code == 0
    assert served.asked[1]["Range"] == "bytes=12-"


def test_a_terminal_shows_a_progress_bar(served: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    output = run("powersupply").output
    assert "\x1b[" in output
    assert "MB of" not in output
