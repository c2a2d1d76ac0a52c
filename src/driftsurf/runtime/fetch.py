"""Downloads: resumed where they broke off, checked, and put in their place whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from driftsurf.errors import DriftsurfError, FetchError
from driftsurf.runtime.files import PARTIAL

__all__ = ["Report", "fetch"]

CHUNK_BYTES = 2**16
TIMEOUT_SECONDS = 60


class Report(Protocol):
    """Called as bytes arrive: for progress."""

    def __call__(self, done: int, total: int | None) -> None:
        """``done`` bytes are there, of ``total`` if the server said so."""
        ...


def fetch(
    urls: Sequence[str],
    path: Path,
    *,
    sha256: str | None = None,
    n_bytes: int | None = None,
    check: Callable[[Path], object] | None = None,
    report: Report = lambda done, total: None,
) -> bool:
    """Download a file from the first of some addresses that has it; False if it is there already.

    Until it is whole and checked the file is called NAME.partial; beside it NAME.partial.json says which
    version of the file it is the beginning of. An interrupted download continues from there if the server
    still has the same version, and else begins anew. A file that fails a check is not kept.

    Parameters
    ----------
    urls
        Where to get it, in the order of preference.
    path
        Where it shall be. Its folder is made if need be.
    sha256, n_bytes
        What the file must have, as far as known.
    check
        Called with the downloaded file before it is put in its place; it may refuse it by an error of ours.
    report
        Called after each piece.
    """
    if path.is_file() and sha256 in (None, _sha256(path)):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    notes = partial.with_name(partial.name + ".json")
    with _alone(partial) as file:
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
    """This address does not give the file; another may."""


@contextmanager
def _alone(partial: Path) -> Iterator[IO[bytes]]:
    """The partial file, open to be continued; FetchError if another process has it."""
    with open(partial, "ab") as file:
        try:
            import fcntl
        except ImportError:  # pragma: no cover - Windows has no such locks
            pass
        else:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                ours = os.path.samestat(os.fstat(file.fileno()), partial.stat())
            except (BlockingIOError, FileNotFoundError):
                ours = False
            if not ours:
                raise FetchError(f"{partial} is being written by another process; wait until that is done")
        try:
            yield file
        finally:
            if not file.tell():
                partial.unlink(missing_ok=True)


def _download(urls: Sequence[str], file: IO[bytes], notes: Path, n_bytes: int | None, report: Report) -> str:
    """Bring the partial file to its full length; the address that gave it."""
    failures = []
    for url in urls:
        try:
            _download_from(url, file, notes, n_bytes, report)
            return url
        except _UnavailableError as failure:
            failures.append(str(failure))
    raise FetchError(f"{'; '.join(failures)}. Try again later, or put the file into {notes.parent} by hand.")


def _download_from(url: str, file: IO[bytes], notes: Path, n_bytes: int | None, report: Report) -> None:
    version, total = _read_notes(notes, url)
    if file.tell() and file.tell() == total:
        return  # only the checks were left
    headers = {"Accept-Encoding": "identity", "User-Agent": "driftsurf"}
    if file.tell() and version is not None:
        headers |= {"Range": f"bytes={file.tell()}-", "If-Range": version}
    with _open(url, headers) as response:
        done = _begin(url, response, file.tell())
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        if n_bytes is not None and total not in (None, n_bytes):
            raise FetchError(f"{url} has {total:,} bytes, expected {n_bytes:,}: not the file it was")
        file.seek(file.truncate(done))
        kept = {"url": url, "version": _validator(response), "total": total}
        notes.write_text(json.dumps(kept), encoding="utf-8")
        report(done, total)
        for piece in _pieces(url, response):
            file.write(piece)
            done += len(piece)
            report(done, total)
    file.flush()
    expected = total if n_bytes is None else n_bytes
    if expected is not None and done != expected:
        raise FetchError(_broken(url, f"{done:,} of {expected:,} bytes came"))


def _pieces(url: str, response: Any) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read(CHUNK_BYTES)
        except (http.client.HTTPException, OSError) as error:
            raise FetchError(_broken(url, repr(error))) from error
        if not piece:
            return
        yield piece


def _verify(partial: Path, url: str, sha256: str | None, check: Callable[[Path], object] | None) -> None:
    found = _sha256(partial) if sha256 else None
    if found != sha256:
        raise FetchError(f"{url} has SHA-256 {found}, expected {sha256}: not the file it was, and not kept")
    try:
        if check is not None:
            check(partial)
    except DriftsurfError as error:
        raise FetchError(f"{url} is not what was expected, and not kept: {error}") from error


def _open(url: str, headers: dict[str, str]) -> Any:
    request = urllib.request.Request(url, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and "Range" in headers:
            return _open(url, {name: value for name, value in headers.items() if "Range" not in name})
        raise _UnavailableError(f"{url}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise _UnavailableError(f"{url} cannot be reached ({error.reason}: is there a network?)") from error
    except (http.client.HTTPException, OSError) as error:
        raise _UnavailableError(f"{url}: the server does not answer as servers do ({error!r})") from error


def _begin(url: str, response: Any, asked: int) -> int:
    """Where the body begins: where it was asked to, or at 0 if the server sends the whole file all the same."""
    if response.status != http.client.PARTIAL_CONTENT:
        return 0
    if not response.headers.get("Content-Range", "").startswith(f"bytes {asked}-"):
        raise FetchError(f"{url}: asked for bytes {asked}-, sent {response.headers.get('Content-Range')!r}")
    return asked


def _validator(response: Any) -> str | None:
    """What names this version of the file for If-Range: a strong entity tag, or else its date."""
    tag: str | None = response.headers.get("ETag")
    if tag is not None and not tag.startswith("W/"):
        return tag
    date: str | None = response.headers.get("Last-Modified")
    return date


def _read_notes(notes: Path, url: str) -> tuple[str | None, int | None]:
    """Which version of ``url`` the partial file is the beginning of, and its length, as far as known."""
    try:
        kept = json.loads(notes.read_text(encoding="utf-8"))
        return (kept["version"], kept["total"]) if kept["url"] == url else (None, None)
    except (OSError, ValueError, LookupError, TypeError):
        return None, None


def _broken(url: str, why: str) -> str:
    return f"{url}: the connection broke off ({why}); fetch it again to continue from there"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
