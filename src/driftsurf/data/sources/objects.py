"""Files in object storage and on other hosts, by addresses such as ``s3://bucket/orders/*.parquet``, through fsspec."""

from __future__ import annotations

import hashlib
import importlib
from functools import cached_property
from pathlib import Path
from typing import Any

from driftsurf.data.datasets.known import cache_folder
from driftsurf.data.download import local_name
from driftsurf.data.download_progress import show_download
from driftsurf.data.formats._bytes import ByteFile
from driftsurf.data.sources.files import FileSource
from driftsurf.errors import MissingExtraError, Option, OptionError, SourceError, reason
from driftsurf.registry import register

SCHEMES = "s3", "s3a", "gs", "gcs", "az", "abfs", "hdfs", "webhdfs", "oci", "oss", "sftp", "ssh", "smb", "memory"
"""Storages that fsspec opens; most need a package of their own beside it."""
PIECE_BYTES = 2**22


@register("source", "objects", schemes=SCHEMES, requires=("fsspec",), install="pip install 'driftsurf[connectors]'")
class ObjectSource(FileSource):
    """A file, a folder or a pattern in object storage.

    A file is copied to the cache folder of the user when its rows are needed, and again when the storage has another
    version of it. Credentials are those that the package of the storage finds by itself, in its own configuration or in
    environment variables. Positions name files by their addresses, so that a run can resume on another machine.
    """

    @cached_property
    def _storage(self) -> Any:
        """The file system of the address."""
        fsspec: Any = importlib.import_module("fsspec")
        try:
            return fsspec.core.url_to_fs(self.name)[0]
        except ImportError as error:
            raise MissingExtraError(f"{self.scheme}:// needs another package: {error}") from error
        except (OSError, ValueError) as error:
            raise SourceError(f"{self.name} cannot be opened: {error}") from error

    @property
    def scheme(self) -> str:
        """Scheme of the address."""
        return self.name.partition("://")[0]

    @property
    def seekable(self) -> bool:
        """True: objects can be read again."""
        return True

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        super().check()
        if self.follow is not None:
            raise OptionError(Option("follow"), f" needs a growing file; the objects of {self.scheme}:// do not grow")

    @cached_property
    def _found(self) -> list[str]:
        storage, path = self._storage, self._storage._strip_protocol(self.name)
        try:
            if storage.isdir(path):
                found = [one["name"] for one in storage.ls(path, detail=True) if one["type"] == "file"]
                found = [one for one in found if one.rpartition("/")[2][:1] not in ("", ".", "_")]
                found = [one for one in found if self._known_format(one)]
            elif any(sign in path for sign in "*?["):
                found = [one for one in storage.glob(path) if storage.isfile(one)]
            else:
                found = [path] if storage.isfile(path) else []
        except Exception as error:  # every storage has exceptions of its own
            raise self._unreadable(error) from error
        if not found:
            raise SourceError(f"{self.name} does not exist, or holds no file that can be read")
        return [f"{self.scheme}://{one.lstrip('/')}" for one in sorted(found)]

    def files(self) -> list[str]:
        """Return the addresses of the files in the order in which they are read."""
        return self._found

    def _bytes_of(self, path: str, block_bytes: int) -> ByteFile:
        return ByteFile(str(self._copy(path)), block_bytes, shown=path)

    def _copy(self, address: str) -> Path:
        """Return the local copy of a file, which is made if there is none of this version."""
        storage = self._storage
        inner = storage._strip_protocol(address)
        try:
            version = f"{address}\0{storage.ukey(inner)}"
            folder = cache_folder().parent / "objects" / hashlib.sha256(version.encode()).hexdigest()[:32]
            path = folder / local_name(address)
            if not path.is_file():
                self._download(inner, path)
        except Exception as error:  # every storage has exceptions of its own
            raise self._unreadable(error) from error
        return path

    def _download(self, inner: str, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".part")
        size = self._storage.info(inner).get("size")
        shown = show_download.get()(path.name)
        with shown as report, self._storage.open(inner, "rb") as remote, partial.open("wb") as local:
            while piece := remote.read(PIECE_BYTES):
                local.write(piece)
                report(local.tell(), size)
        partial.replace(path)

    def _unreadable(self, error: Exception) -> SourceError:
        return SourceError(f"{self.name} cannot be read: {reason(error) if isinstance(error, OSError) else error}")
