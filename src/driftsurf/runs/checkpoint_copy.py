"""Copies of checkpoints in object storage, from which a run continues on another machine."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import re
import secrets
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from driftsurf.core import disk, files
from driftsurf.core.files import parse_json
from driftsurf.errors import MissingExtraError, Option, OptionError, RunFolderError, RunWarning, StateError
from driftsurf.errors.visible import safe_address, user_of
from driftsurf.runs.checkpoint import HEAD, OWNER, SEGMENT, CheckpointFolder

log: logging.Logger = logging.getLogger("driftsurf.runs")
FETCHES = 10
"""How often a checkpoint is fetched that another run replaces meanwhile."""
LONGEST_END = 60.0
"""Seconds for which the end of a run waits for its last copy."""
TRIMMED = "plans", "joins", "messages"
"""Beginnings of the names of files from which a run removes what its own checkpoints need no more."""
_PLACE = re.compile(r"((messages[^/]*|orders)/)?[^/]+")


class CheckpointCopy:
    """Copies the newest checkpoint of a folder to an address of fsspec, in a thread of its own.

    A copy begins once the checkpoint is on the local disk, where it stays until it is copied. If the storage is slow,
    checkpoints are left out; if it fails, the failure is logged and counted, and the next checkpoint is copied. The
    head of a checkpoint is copied last and the files of the one before it are removed after that, so that the storage
    always has a whole checkpoint.

    The file ``owner`` beside the head names the folder that copies to the address. A run that continues from the copy
    writes its own folder there, and the run before it then copies nothing more, even if it still runs.

    Parameters
    ----------
    checkpoints
        The local folder.
    address
        Folder in the storage, such as ``s3://bucket/orders``.
    new
        Whether the run begins with its first row, so that it replaces any checkpoint of the address.
    """

    def __init__(self, checkpoints: CheckpointFolder, address: str, *, new: bool = False) -> None:
        self._storage, self._root = _opened(address)
        self.checkpoints = checkpoints
        self.address: str = safe_address(address.partition("?")[0])
        """The address without its parameters, for messages."""
        self.made: int = 0
        """Number of copies that were made."""
        self.failed: int = 0
        """Number of copies that failed."""
        self._replaces = new
        self._there: set[str] = set()
        """Segments that this process has copied."""
        self._changed = threading.Condition()
        self._wanted: int | None = None
        """Number of the checkpoint that is to be copied next."""
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="checkpoint-copy", daemon=True)

    # -------------------------------------------------------------------- before a run

    def check_not_foreign(self) -> None:
        """Raise RunFolderError if the address has files that are no copy, which the first copy would remove."""
        with self._explained("read"):
            names = self._names()
            foreign = bool(names) and not self._owner().get("folder")
        if foreign and not any(name.startswith(f"{HEAD}-") for name in names):
            raise RunFolderError(
                f"{self.address!r} has files that do not belong to a checkpoint, such as {names[0]!r}; name an empty "
                "folder as ",
                Option("checkpoint_copy"),
            )

    def check_unused(self) -> None:
        """Raise RunFolderError if the address has a checkpoint, which a new run would replace."""
        if self._heads():
            raise RunFolderError(
                f"{self.address!r} already has a checkpoint; continue with ",
                Option("resume", True),
                ", or replace it with ",
                Option("overwrite", True),
            )

    def check_own(self) -> None:
        """Raise RunFolderError if the address has a checkpoint that is no copy of one of the local folder."""
        heads, local = self._heads(), self.checkpoints.generations()
        if not heads:
            return
        with self._explained("read"):
            owner = self._owner()
        newest = self.checkpoints.file(HEAD, local[-1]).name if local else ""
        mark = self._mark()
        if owner.get("folder") not in (mark.get("folder"), mark.get("fetched_from", "")) or heads[-1] > newest:
            raise RunFolderError(
                f"{self.address!r} has a checkpoint that is not from {str(self.checkpoints.path)!r} but from "
                f"{files.process_text(owner) or 'another run'}; continue from it with an empty folder as ",
                Option("checkpoint"),
                ", or from this folder with another address as ",
                Option("checkpoint_copy"),
            )

    def fetch(self) -> bool:
        """Copy the checkpoint of the address to the local folder, which has none; return whether there is one.

        Another run may still copy to the address. If it replaces the checkpoint meanwhile, the new one is fetched.
        """
        for attempt in range(1, FETCHES + 1):
            heads = self._heads()
            if not heads:
                return False
            try:
                self._fetch(heads)
            except StateError:
                if attempt == FETCHES or self._heads() == heads:
                    raise
            else:
                break
        return True

    def _fetch(self, heads: Sequence[str]) -> None:
        """Copy the checkpoint with these heads to the local folder."""
        for name in [name for name in self._names() if name not in (*heads, OWNER)]:
            self._fetch_file(name)
        # If the process ends before it owns the address, the next one knows by this that it may continue from here.
        with self._explained("read"):
            fetched_from = self._owner().get("folder", "")
        files.write_text(self.checkpoints.path / OWNER, json.dumps({"fetched_from": fetched_from}))
        for name in reversed(heads):
            self._fetch_file(name)
        files.sync_folder(self.checkpoints.path)

    def _fetch_file(self, name: str) -> None:
        if ".." in name.split("/"):
            raise StateError(f"{self.address} holds {name!r}, which is no file of a checkpoint")
        local = self.checkpoints.path / name
        if local.parent != self.checkpoints.path:
            files.make_folder(local.parent)
        try:
            data: bytes = self._storage.cat_file(f"{self._root}/{name}")
        except Exception as error:  # every storage has exceptions of its own
            raise StateError(f"{name} cannot be read from {self.address}: {error}") from error
        files.write_bytes(local, data)

    # -------------------------------------------------------------------- during a run

    def start(self) -> None:
        """Begin to copy; from now on the address belongs to the local folder, and to no other."""
        mark, place = self._mark(), self.checkpoints.path / OWNER
        if not self._folder():
            files.write_text(place, json.dumps(mark | {"folder": secrets.token_hex(8)}))
        with self._explained("written"):
            self._claim()
            if self._replaces:  # now, and not with the first copy: a resumed run must not find them
                self._remove(self._heads())
        if "fetched_from" in mark:
            files.write_text(place, json.dumps({"folder": self._folder()}))
        self._thread.start()

    def saved(self, number: int) -> None:
        """Note that a checkpoint is on the local disk; this takes no time."""
        with self._changed:
            self._wanted = number
            self._changed.notify()

    def close(self) -> None:
        """Wait a while for the last copy, and warn if copies failed."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(LONGEST_END)
        if self._thread.is_alive() or self.failed:
            last = ", and the last one is not done" if self._thread.is_alive() else ""
            text = f"copies of checkpoints to {self.address}: {self.failed} failed, {self.made} were made{last}"
            text += "; the log says why" if self.failed else ""
            warnings.warn(text, RunWarning, stacklevel=2)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._ended)
                number, self._wanted = self._wanted, None
                # Here, before a save can announce a newer checkpoint: until then the folder keeps this one anyway.
                self.checkpoints.pinned = frozenset(() if number is None else (number,))
            if number is None:
                return
            try:
                self._copy(number)
                self.made += 1
            except Exception as error:  # every storage has exceptions of its own, and none may end the run
                self.failed += 1
                log.warning("checkpoint %d was not copied to %s: %s", number, self.address, error)
                if isinstance(error, RunFolderError):  # another run owns the address
                    self.checkpoints.pinned = frozenset()
                    return

    def _copy(self, number: int) -> None:
        needed = self.checkpoints.needed(number)
        head = self.checkpoints.file(HEAD, number).name
        # The run soon removes some of what these files hold, so they are read before anything takes long.
        early = {name: self._read(name, None) for name in needed if name.startswith(TRIMMED)}
        there = self._names()
        self._there.intersection_update(there)
        self._check_owner()
        heads = [name for name in there if name.startswith(f"{HEAD}-")]
        if max(heads, default="") > head:
            raise self._lost_to_another()
        for name, size in needed.items():
            if name == head or name in self._there:
                continue
            data = early[name] if name in early else self._read(name, size)
            if data is not None:
                self._put(name, data)
            if name.startswith(f"{SEGMENT}-"):
                self._there.add(name)
        self._put(head, files.read_bytes(self.checkpoints.path / head))
        self._check_owner()
        self._remove([name for name in there if name not in needed and name != OWNER])

    def _read(self, name: str, size: int | None) -> bytes | None:
        """Return a local file; None if it was removed since it was listed, and the checkpoint can do without it."""
        try:
            return files.read_bytes(self.checkpoints.path / name)[:size]
        except FileNotFoundError:
            if size is not None or name.startswith(f"{SEGMENT}-"):
                raise
            return None

    def _put(self, name: str, data: bytes) -> None:
        """Write a file of a checkpoint, unless another run has taken the address over."""
        self._check_owner()
        self._write(name, data)

    def _write(self, name: str, data: bytes) -> None:
        place = f"{self._root}/{name}"
        try:
            self._make(place, data)
        except FileNotFoundError:  # a storage that has folders
            self._storage.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._make(place, data)

    def _make(self, place: str, data: bytes) -> None:
        """Write a file; on a disk of this machine only its owner may read it."""
        protocol = self._storage.protocol
        if "file" in ((protocol,) if isinstance(protocol, str) else protocol):
            os.close(disk.private(place, os.O_WRONLY | os.O_CREAT))
        self._storage.pipe_file(place, data)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._storage.rm_file(f"{self._root}/{name}")

    # -------------------------------------------------------------------- whose it is

    def _mark(self) -> dict[str, Any]:
        """Return what the local folder holds about its copy: its mark, and before that from whom it was fetched."""
        return files.read_object(self.checkpoints.path / OWNER)

    def _folder(self) -> str:
        """Return the mark of the local folder; "" if it has none yet."""
        return str(self._mark().get("folder", ""))

    def _owner(self) -> dict[str, Any]:
        """Return what the storage holds about the run that copies to the address."""
        try:
            found = parse_json(self._storage.cat_file(f"{self._root}/{OWNER}"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _claim(self) -> None:
        self._write(OWNER, json.dumps({"folder": self._folder()} | files.this_process()).encode())

    def _check_owner(self) -> None:
        """Raise an error if another process has taken the folder or the address over since."""
        self.checkpoints.check_held()
        owner = self._owner()
        if not owner:  # somebody has emptied the storage
            self._claim()
        elif owner.get("folder") != self._folder():
            raise self._lost_to_another()

    def _lost_to_another(self) -> RunFolderError:
        by = files.process_text(self._owner()) or "another run"
        return RunFolderError(f"{self.address!r} was taken over by {by}; this run copies nothing more to it")

    # -------------------------------------------------------------------- what is there

    def _names(self) -> list[str]:
        """Return the names of the files at the address where a copy has files: not those of other folders below it."""
        self._storage.invalidate_cache()
        found: list[str] = []
        with contextlib.suppress(FileNotFoundError):  # a folder that nobody has made yet
            found = [str(one).removeprefix(self._root).lstrip("/") for one in self._storage.find(self._root)]
        return sorted(name for name in found if _PLACE.fullmatch(name))

    def _heads(self) -> list[str]:
        with self._explained("read"):
            return [name for name in self._names() if name.startswith(f"{HEAD}-")]

    @contextlib.contextmanager
    def _explained(self, done: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # every storage has exceptions of its own
            raise StateError(f"{self.address} cannot be {done}: {error}") from error


def _opened(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it; OptionError if it has none."""
    scheme, _, rest = address.partition("://")
    if ":" in user_of(rest):
        raise OptionError(
            Option("checkpoint_copy"),
            " must not hold a password, because addresses are shown; set "
            f"FSSPEC_{scheme.rpartition(':')[2].upper()}_PASSWORD in the environment, or configure fsspec",
        )
    try:
        fsspec: Any = importlib.import_module("fsspec")
        storage, root = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise MissingExtraError(
            f"copies of checkpoints need a package: {error}. pip install 'driftsurf[connectors]', and that of the "
            "storage"
        ) from error
    except (OSError, ValueError) as error:
        raise OptionError(Option("checkpoint_copy"), f" cannot be {address.partition('?')[0]!r}: {error}") from error
    return storage, str(root).rstrip("/")
