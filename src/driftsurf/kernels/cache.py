"""The cache of compiled code: where numba puts it, or a private temporary folder, or none.

Compiling a kernel takes up to a second, loading it from the cache milliseconds. The first compilation of a process is
announced on standard error, unless the environment variable DRIFTSURF_QUIET is set; ``driftsurf doctor --warm``
compiles the common kernels in advance.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import multiprocessing
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

log: logging.Logger = logging.getLogger("driftsurf")

QUIET = "DRIFTSURF_QUIET"
"""Environment variable; if it is set and not empty, nothing is printed while kernels are compiled."""
ANNOUNCED = "_DRIFTSURF_ANNOUNCED"
"""Environment variable that a process sets for those it starts, so that they print nothing either."""
_compiling = threading.RLock()
"""Held while a kernel is compiled: one thread compiles at a time, and may compile another kernel meanwhile."""
_locked: set[str | None] = set()
"""Cache folders that this process has locked; changed by the thread that holds ``_compiling``."""
_compiler: Any = global_compiler_lock._lock
if hasattr(os, "register_at_fork"):  # a thread that held one of them may not be in the forked process
    for _lock in (_compiling, _compiler):
        os.register_at_fork(after_in_child=lambda lock=_lock: lock._is_owned() or lock._at_fork_reinit())
COMPILING = "driftsurf: compiling code for its first use; later it is loaded from a cache"


def compile_cached(function: Callable[..., Any], signature: Any, **options: Any) -> Callable[..., Any]:
    """Compile a function for ``signature`` and cache the result on disk if possible.

    numba raises an error when neither the installation nor the home folder is writable, as in some containers. The
    package has to work there too.
    """
    try:
        return _compile(function, signature, cache=True, **options)
    except RuntimeError as error:
        if "cache" not in str(error):
            raise
    folder = private_folder()
    if folder is not None:
        _log_once(f"compiled code is cached in {folder}: neither the installation nor the home folder is writable")
        numba.config.CACHE_DIR = str(folder)
        return _compile(function, signature, cache=True, **options)
    _log_once("compiled code is not cached: no folder is writable")
    return _compile(function, signature, cache=False, **options)


@functools.cache
def _log_once(text: str) -> None:
    log.info(text)


def private_folder() -> Path | None:
    """Return a temporary folder that only this user can write to, or None.

    Cached code is executed as it is found, so a folder that another user prepared must not be used.
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
    with (
        _compiling,
        _alone(dispatcher.stats.cache_path if options["cache"] else None),
        event.install_listener("numba:compile", _Announcer()),
    ):
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    compiled: Callable[..., Any] = dispatcher
    return compiled


@functools.cache
def is_cached(function: Callable[..., Any]) -> bool:
    """Return whether code of a function is in the cache on disk, compiled by this process or by an earlier one."""
    try:
        folder = numba.njit(cache=True)(function).stats.cache_path
    except RuntimeError:  # there is no place for a cache
        return False
    return any(Path(folder).glob(f"*.{function.__qualname__}-{function.__code__.co_firstlineno}.*.nbi"))


class _Announcer(event.Listener):  # type: ignore[misc]
    """Announces that numba compiles, which it says only if the code is not in the cache."""

    def on_start(self, event: Any) -> None:
        _announce()

    def on_end(self, event: Any) -> None:
        pass


@functools.cache
def _announce() -> None:
    """Print once that kernels are being compiled; of the processes of a parallel run, only the first prints it."""
    process = multiprocessing.current_process().name
    first = process == "MainProcess" or process.endswith("-1")
    if first and not (os.environ.get(QUIET) or os.environ.get(ANNOUNCED)):
        print(COMPILING, file=sys.stderr, flush=True)
        os.environ[ANNOUNCED] = "1"


@contextlib.contextmanager
def _alone(folder: str | None) -> Iterator[None]:
    """Hold a lock on the cache folder, so that of many processes that start at once only one compiles a kernel.

    A kernel may compile another one that it calls by address. A folder that is locked already is not locked again: the
    process would wait for itself for ever.
    """
    handle = None
    if folder is not None and fcntl is not None and folder not in _locked:
        with contextlib.suppress(OSError):  # without the lock, at worst a kernel is compiled twice
            handle = os.open(Path(folder) / "driftsurf.lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            _locked.add(folder)
    try:
        yield
    finally:
        if handle is not None:
            _locked.discard(folder)
            os.close(handle)
