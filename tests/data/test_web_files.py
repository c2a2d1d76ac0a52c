"""Files on the web: downloaded to the cache once, again when they change, and resumed like local files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import invoke
from source_files import everything, write

from driftsurf.comparison.inputs import expand
from driftsurf.data import download, open_source
from driftsurf.data.advice import hints
from driftsurf.data.download import fetch, local_copy, local_name
from driftsurf.errors import FetchError


class Handler(SimpleHTTPRequestHandler):
    asked: list[str]
    refused: dict[str, int]
    """Status with which requests of a method are refused."""

    def send_head(self) -> Any:
        self.asked.append(f"{self.command} {self.path}")
        if self.command in self.refused:
            self.send_error(self.refused[self.command])
            return None
        return super().send_head()

    def log_message(self, *_: Any) -> None:
        """Be silent."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "site").mkdir()
    Handler.asked, Handler.refused = [], {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "site")))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    if thread.is_alive():
        server.shutdown()
        thread.join()
    server.server_close()


def test_a_file_is_downloaded_once_and_again_when_it_has_changed(site: str, tmp_path: Path) -> None:
    write(tmp_path / "site", "a b.csv", "n\n1\n2\n")
    url = f"{site}/a%20b.csv?download=1"
    assert everything(open_source(url)) == everything(open_source(url)) == [(1.0,), (2.0,)]
    assert [one.split()[0] for one in Handler.asked] == ["HEAD", "GET", "HEAD"]
    _, position = next(iter(open_source(url, batch_size=1).tables()))
    write(tmp_path / "site", "a b.csv", "n\n1\n2\n3\n")
    assert everything(open_source(url)) == [(1.0,), (2.0,), (3.0,)]
    assert everything(open_source(url), position) == [(2.0,), (3.0,)]


def test_a_copy_is_used_when_the_server_is_gone(site: str, tmp_path: Path) -> None:
    write(tmp_path / "site", "a.csv", "n\n1\n")
    url = f"{site}/a.csv"
    assert everything(open_source(url)) == [(1.0,)]
    (tmp_path / "site" / "a.csv").unlink()
    source = open_source(url)
    table, _ = next(iter(source.tables()))
    assert url in hints(source, table)[0]
    with pytest.raises(FetchError, match="404"):
        everything(open_source(f"{site}/other.csv"))


def test_a_copy_is_kept_until_the_new_version_is_complete(site: str, tmp_path: Path) -> None:
    write(tmp_path / "site", "a.csv", "n\n1\n")
    url = f"{site}/a.csv"
    assert everything(open_source(url)) == [(1.0,)]
    write(tmp_path / "site", "a.csv", "n\n1\n2\n")
    Handler.refused = {"GET": 503}
    source = open_source(url)
    assert everything(source) == [(1.0,)]
    assert "503" in str(source.remarks[0])  # type: ignore[attr-defined]
    Handler.refused = {}
    assert everything(open_source(url)) == [(1.0,), (2.0,)]
    folder = local_copy(url)[0].parent
    write(folder, "a.csv.partial", "n\n9\n")  # from a process that was killed before the rename
    about = {"url": url, "version": "Thu, 01 Jan 1970 00:00:00 GMT", "total": 4}
    write(folder, "a.csv.partial.json", json.dumps(about))
    write(tmp_path / "site", "a.csv", "n\n1\n2\n3\n")
    assert everything(open_source(url)) == [(1.0,), (2.0,), (3.0,)]


def test_a_copy_can_be_renewed_while_another_process_renews_it(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "site", "a.csv", "n\n1\n")
    url = f"{site}/a.csv"
    local_copy(url)
    write(tmp_path / "site", "a.csv", "n\n1\n2\n")

    def late(*arguments: Any, **options: Any) -> bool:
        """Download the file; then another process downloads it, too, before this one goes on."""
        found = fetch(*arguments, **options)
        monkeypatch.setattr(download, "fetch", fetch)
        other, remark = local_copy(url)
        assert (other.read_text(), remark) == ("n\n1\n2\n", None)
        return found

    monkeypatch.setattr(download, "fetch", late)
    path, remark = local_copy(url)
    assert (path.read_text(), remark) == ("n\n1\n2\n", None)


def test_a_server_that_refuses_head_requests_still_sends_new_versions(site: str, tmp_path: Path) -> None:
    Handler.refused = {"HEAD": 405}
    write(tmp_path / "site", "a.csv", "n\n1\n")
    assert everything(open_source(f"{site}/a.csv")) == [(1.0,)]
    write(tmp_path / "site", "a.csv", "n\n2\n")
    source = open_source(f"{site}/a.csv")
    assert everything(source) == [(2.0,)]
    assert source.remarks == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "path",
    [
        "..%2F..%2Fetc%2Fpasswd",
        "a%00b.csv",
        "..",
        ".",
        "",
        "a%5C..%5Cb.csv",
        "a.csv%2F..",
        "%2e%2e",
        "x" * 999 + ".csv",
    ],
)
def test_the_name_of_a_copy_is_one_plain_name(path: str) -> None:
    name = local_name(f"https://example.org/data/{path}?name=../x.csv#../y")
    assert Path(name).name == name
    assert name.isprintable()
    assert not name.startswith(".")
    assert len(name) <= 100
    assert not set(name) & set("/\\?#:\0")


def test_a_run_reads_a_web_address_and_shows_the_download(site: str, tmp_path: Path) -> None:
    lines = [f"{i * 7 % 11},{'yes' if i % 2 else 'no'}" for i in range(120)]
    write(tmp_path / "site", "sales.csv", "price,sold\n" + "\n".join(lines))
    result = invoke("run", f"{site}/sales.csv", "--label", "sold", "--batch-size", "40", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "sales.csv: 0.0 MB of 0.0 MB" in result.output
    assert expand((f"{site}/sales.csv?x=1",)) == (f"{site}/sales.csv?x=1",)


@pytest.mark.parametrize("elsewhere", ["ftp://127.0.0.1:9/rows.csv", "file:///etc/hostname", "data:,1"])
def test_a_redirect_to_another_kind_of_address_is_not_followed(
    site: str, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_head(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", elsewhere)
        handler.end_headers()

    monkeypatch.setattr(Handler, "send_head", send_head)
    with pytest.raises(FetchError) as caught:
        local_copy(f"{site}/rows.csv")
    assert elsewhere in str(caught.value)
