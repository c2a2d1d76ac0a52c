"""Local copies of files on the web: downloaded once, and again when the server has another version."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from driftsurf.core import files
from driftsurf.core.json_text import parse_json
from driftsurf.data.datasets.files import cache_folder
from driftsurf.data.download_progress import show_download
from driftsurf.data.fetch import check_address, fetch, open_address
from driftsurf.errors import FetchError, Message, reason

__all__ = ["is_web_address", "local_copy"]

VERSION_HEADERS = "ETag", "Last-Modified", "Content-Length"
NAME_LETTERS = 100
"""Number of characters that are kept of the name of a file: many file systems allow 255 bytes."""
_UNSAFE = re.compile(r"[^\w.+-]+")

_Version: TypeAlias = dict[str, str | None]


def is_web_address(location: str) -> bool:
    """Whether a location is an address that begins with http:// or https://."""
    return location.lower().startswith(("http://", "https://"))


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
