"""Where compiled code is kept: where numba keeps it, else in a private temporary folder, else nowhere."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("driftsurf")


def compile_cached(function: Callable[..., Any], signature: Any, **options: Any) -> Callable[..., Any]:
    """Compile for ``signature`` and keep the result on disk if that is possible.

    numba refuses to cache, with an error, when neither the installation nor the home folder can be
    written to. The package must work there all the same.
    """
    try:
        return _compile(function, signature, cache=True, **options)
    except RuntimeError as error:
        if "cache" not in str(error):
            raise
    folder = private_folder()
    if folder is not None:
        _say_once(f"compiled code is kept in {folder}: neither the installation nor the home folder can be written")
        numba.config.CACHE_DIR = str(folder)
        return _compile(function, signature, cache=True, **options)
    _say_once("compiled code is not kept: there is no folder to write to")
    return _compile(function, signature, cache=False, **options)


@functools.cache
def _say_once(text: str) -> None:
    log.info(text)


def private_folder() -> Path | None:
    """A temporary folder that only this user can write to; None if there is none to be had.

    Cached code is run as it is found, so a folder that somebody else prepared is not used.
    """
    folder = Path(tempfile.gettempdir()) / f"driftsurf-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    closed = os.name == "nt" or stat.S_IMODE(status.st_mode) & 0o077 == 0
    return folder if stat.S_ISDIR(status.st_mode) and mine and closed and os.access(folder, os.W_OK) else None


def _compile(function: Callable[..., Any], signature: Any, **options: Any) -> Callable[..., Any]:
    dispatcher: Any = numba.njit(**options)(function)
    with _alone(dispatcher.stats.cache_path if options["cache"] else None):
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    compiled: Callable[..., Any] = dispatcher
    return compiled


@contextlib.contextmanager
def _alone(folder: str | None) -> Iterator[None]:
    """One process at a time: of many that start at once, one compiles a loop and the others find it."""
    handle = None
    if folder is not None and fcntl is not None:
        with contextlib.suppress(OSError):  # no lock to be had: the worst is that some work is done twice
            handle = os.open(Path(folder) / "driftsurf.lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
