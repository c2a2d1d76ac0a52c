"""Local copies of files on the web: downloaded once, and again when the server has another version."""

from __future__ import annotations

import hashlib
import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from driftsurf.data.datasets.files import cache_folder
from driftsurf.data.download_progress import show_download
from driftsurf.data.fetch import TIMEOUT_SECONDS, fetch
from driftsurf.errors import Message

__all__ = ["is_web_address", "local_copy"]

VERSION_HEADERS = "ETag", "Last-Modified", "Content-Length"


def is_web_address(location: str) -> bool:
    """Whether a location is an address that begins with http:// or https://."""
    return location.lower().startswith(("http://", "https://"))


def local_copy(url: str) -> tuple[Path, Message | None]:
    """Return the local copy of a file, and a remark if nobody knows whether it is still current.

    It is in the cache folder of the user. An interrupted download is resumed.
    """
    name = PurePosixPath(unquote(urlsplit(url).path)).name or "file"
    path = cache_folder().parent / "web" / hashlib.sha256(url.encode()).hexdigest()[:16] / name
    notes = path.with_name(name + ".version.json")
    version = _version(url)
    if path.is_file():
        if version is None:
            return path, Message(f"{url} did not answer; the copy from an earlier download was read: {path}")
        if any(version.values()) and version == _read(notes):
            return path, None
        path.unlink()
    with show_download.get()(name) as report:
        fetch([url], path, report=report)
    notes.write_text(json.dumps(version), encoding="utf-8")
    return path, None


def _version(url: str) -> dict[str, str | None] | None:
    """Return what identifies the version of a file on its server; None if the server does not tell."""
    request = urllib.request.Request(
        url, method="HEAD", headers={"Accept-Encoding": "identity", "User-Agent": "driftsurf"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return {name: response.headers.get(name) for name in VERSION_HEADERS}
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError):
        return None


def _read(notes: Path) -> object:
    try:
        return json.loads(notes.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
