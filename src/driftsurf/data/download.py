"""Download files, and copy files of the web: resumed after an interruption, checked, moved into place when complete."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias
from urllib.parse import unquote, urlsplit

from driftsurf.core import disk, files
from driftsurf.core.files import PARTIAL, parse_json
from driftsurf.core.secrets import split_address
from driftsurf.data.datasets.known import cache_folder
from driftsurf.data.download_progress import Report, show_download
from driftsurf.errors import DriftsurfError, FetchError, Message, OptionError, reason

CHUNK_BYTES = 2**16
TIMEOUT_SECONDS = 60


def fetch(
    urls: Sequence[str],
    path: Path,
    *,
    sha256: str | None = None,
    n_bytes: int | None = None,
    check: Callable[[Path], object] | None = None,
    report: Report = lambda done, total: None,
    replace: bool = False,
) -> bool:
    """Download a file from the first address that has it; return False if the file exists already.

    Until it is complete and checked, the file is called NAME.partial; NAME.partial.json beside it tells which version
    of the file it is the beginning of. An interrupted download is resumed if the server still has the same version, and
    otherwise starts over. A file that fails a check is deleted.

    Parameters
    ----------
    urls
        Addresses of the file, in the order of preference.
    path
        Where the file is saved. Its folder is created if necessary.
    sha256, n_bytes
        Digest and size that the file must have; None if they are not known.
    check
        Called with the downloaded file before it is moved into place; it raises an error of this package to refuse it.
    report
        Called after each piece.
    replace
        Whether to download the file also if it exists.
    """
    if not replace and path.is_file() and sha256 in (None, _sha256(path)):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    notes = partial.with_name(partial.name + ".json")
    with _alone(partial) as file:
        if replace and any(file.tell() == _read_notes(notes, url)[1] for url in urls):
            file.seek(file.truncate(0))  # complete, but the server may have a newer version
        url = _download(urls, file, notes, n_bytes, report)
        os.fsync(file.fileno())
        try:
            _verify(partial, url, sha256, check)
        except FetchError:
            partial.unlink()
            notes.unlink(missing_ok=True)
            raise
        os.replace(partial, path)
    notes.unlink(missing_ok=True)
    return True


class _UnavailableError(Exception):
    """This address does not have the file; another one may."""


@contextmanager
def _alone(partial: Path) -> Iterator[IO[bytes]]:
    """Open the partial file to append to it; raise FetchError if another process writes it."""
    with open(partial, "ab", opener=disk.private) as file:
        try:
            disk.lock(file.fileno())
            ours = os.path.samestat(os.fstat(file.fileno()), partial.stat())
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if not ours:
            raise FetchError(f"{partial} is being written by another process; wait until it has finished")
        try:
            yield file
        finally:
            if not file.tell():
                partial.unlink(missing_ok=True)


def _download(urls: Sequence[str], file: IO[bytes], notes: Path, n_bytes: int | None, report: Report) -> str:
    """Complete the partial file, and return the address that it came from."""
    failures = []
    for url in urls:
        try:
            _download_from(url, file, notes, n_bytes, report)
            return url
        except _UnavailableError as failure:
            failures.append(str(failure))
    raise FetchError(f"{'; '.join(failures)}. Try again later, or save the file in {notes.parent} yourself")


def _download_from(url: str, file: IO[bytes], notes: Path, n_bytes: int | None, report: Report) -> None:
    version, total = _read_notes(notes, url)
    if file.tell() and file.tell() == total:
        return  # it was complete, but not checked yet
    headers = {"Accept-Encoding": "identity", "User-Agent": "driftsurf"}
    if file.tell() and version is not None:
        headers |= {"Range": f"bytes={file.tell()}-", "If-Range": version}
    with _open(url, headers) as response:
        done = _begin(url, response, file.tell())
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        if n_bytes is not None and total not in (None, n_bytes):
            raise FetchError(f"{url} has {total:,} bytes, expected {n_bytes:,}: the published file has changed")
        file.seek(file.truncate(done))
        kept = {"url": _digest(url), "version": _validator(response), "total": total}
        notes.write_text(json.dumps(kept), encoding="utf-8")
        report(done, total)
        for piece in _pieces(url, response):
            file.write(piece)
            done += len(piece)
            report(done, total)
    file.flush()
    expected = total if n_bytes is None else n_bytes
    if expected is not None and done != expected:
        raise FetchError(_interrupted_message(url, f"{done:,} of {expected:,} bytes arrived"))


def _pieces(url: str, response: Any) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read(CHUNK_BYTES)
        except (http.client.HTTPException, OSError) as error:
            raise FetchError(_interrupted_message(url, repr(error))) from error
        if not piece:
            return
        yield piece


def _verify(partial: Path, url: str, sha256: str | None, check: Callable[[Path], object] | None) -> None:
    found = _sha256(partial) if sha256 else None
    if found != sha256:
        raise FetchError(f"{url} has SHA-256 {found}, expected {sha256}: the published file has changed; deleted")
    try:
        if check is not None:
            check(partial)
    except DriftsurfError as error:
        raise FetchError(f"{url} is not the expected file, and was deleted: {error}") from error


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirects to other addresses of the web only: urllib would also ask an ftp server."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the request that follows a redirect; URLError if it leads elsewhere."""
        if not newurl.lower().startswith(("http://", "https://")):
            fp.close()
            raise urllib.error.URLError(f"it redirects to {newurl!r}, which is no address of the web")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def check_address(url: str) -> None:
    """Raise FetchError, in which nothing of the address is shown, if it is none of the web, or holds a password."""
    try:
        parts = split_address(url)
    except OptionError as error:
        raise FetchError(*error.args) from None
    if "@" in parts.netloc:
        where = parts.netloc.rpartition("@")[2]
        raise FetchError(f"an address at {where!r} holds a user or a password, which are not sent; leave them out")
    if not url.isascii() or " " in url:
        raise FetchError("an address of the web holds signs that no address has; write them as %20 and so on")
    try:
        _ = parts.port
    except ValueError:
        raise FetchError("the port of an address of the web must be a number from 1 to 65535") from None


def open_address(request: urllib.request.Request) -> Any:
    """Send a request and return the response, from the web whatever redirects say."""
    check_address(request.full_url)
    return urllib.request.build_opener(_WebOnly).open(request, timeout=TIMEOUT_SECONDS)


def _open(url: str, headers: dict[str, str]) -> Any:
    """Send a request; if the server cannot resume at the requested byte, ask for the whole file."""
    request = urllib.request.Request(url, headers=headers)
    try:
        return open_address(request)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and "Range" in headers:
            return _open(url, {name: value for name, value in headers.items() if "Range" not in name})
        raise _UnavailableError(f"{url}: the server answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise _UnavailableError(f"{url} cannot be reached ({reason(error)}); check the network") from error
    except (http.client.HTTPException, OSError) as error:
        raise _UnavailableError(f"{url}: the server sent an invalid answer ({error!r})") from error


def _begin(url: str, response: Any, asked: int) -> int:
    """Return where the body begins: at the requested byte, or at 0 if the server sends the whole file anyway."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {asked}-"):
        raise FetchError(f"{url}: requested bytes {asked}-, received {response.headers.get('Content-Range')!r}")
    return asked


def _validator(response: Any) -> str | None:
    """Return what identifies this version of the file for If-Range: a strong entity tag, or its date."""
    tag: str | None = response.headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return tag
    date: str | None = response.headers.get("Last-Modified")
    return date


def _read_notes(notes: Path, url: str) -> tuple[str | None, int | None]:
    """Return which version of ``url`` the partial file is the beginning of, and its full length, as far as known."""
    try:
        kept = parse_json(notes.read_text(encoding="utf-8"))
        return (kept["version"], kept["total"]) if kept["url"] == _digest(url) else (None, None)
    except (OSError, ValueError, LookupError, TypeError):
        return None, None


def _digest(url: str) -> str:
    """Return what tells addresses apart without their secrets."""
    return hashlib.sha256(url.encode()).hexdigest()


def _interrupted_message(url: str, why: str) -> str:
    return f"{url}: the connection was interrupted ({why}); fetch it again to resume"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


VERSION_HEADERS = "ETag", "Last-Modified", "Content-Length"
NAME_LETTERS = 100
"""Number of characters that are kept of the name of a file: many file systems allow 255 bytes."""
_UNSAFE = re.compile(r"[^\w.+-]+")

_Version: TypeAlias = dict[str, str | None]


def local_copy(url: str) -> tuple[Path, Message | None]:
    """Return the local copy of a file, and a remark if nobody knows whether it is still current.

    It is in the cache folder of the user. An interrupted download is resumed. A new version is downloaded beside the
    copy, and takes its place only when it is complete.
    """
    check_address(url)
    name = local_name(url)
    path = cache_folder().parent / "web" / hashlib.sha256(url.encode()).hexdigest()[:16] / name
    notes = path.with_name(name + ".version.json")
    try:
        version = _version(url)
        if path.is_file() and any(version.values()) and version == _read(notes):
            return path, None
        with show_download.get()(name) as report:
            fetch([url], path, report=report, replace=True)
    except FetchError as error:
        if not path.is_file():
            raise
        return path, Message(f"the copy from an earlier download was read, {path}, because of this: {error}")
    files.write_text(notes, json.dumps(version))
    return path, None


def local_name(url: str) -> str:
    """Return the name of the local copy: the last part of the path, without what a file system may misunderstand.

    >>> local_name("https://example.org/data/sales%202024.csv?download=1"), local_name("https://example.org/..%2F..%2F")
    ('sales_2024.csv', 'file')
    """
    last = PurePosixPath(unquote(urlsplit(url).path, errors="replace").replace("\\", "/")).name
    plain = _UNSAFE.sub("_", last).lstrip("._-")
    return plain[-NAME_LETTERS:].lstrip("._-") or "file"


def _version(url: str) -> _Version:
    """Return what identifies the version of a file on its server; raise FetchError if the server does not answer.

    A server may refuse a HEAD request and still send the file, of a version that nobody knows.
    """
    request = urllib.request.Request(
        url, method="HEAD", headers={"Accept-Encoding": "identity", "User-Agent": "driftsurf"}
    )
    try:
        with open_address(request) as response:
            return {name: response.headers.get(name) for name in VERSION_HEADERS}
    except urllib.error.HTTPError as error:
        error.close()
        return {}
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise FetchError(f"{url} cannot be reached ({reason(error)}); check the address and the network") from error


def _read(notes: Path) -> object:
    try:
        return parse_json(files.read_text(notes))
    except (OSError, ValueError):
        return None
