"""Where compiled code is kept: where numba keeps it, else in a private temporary folder, else nowhere."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

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
        log.info("compiled code is kept in %s: neither the installation nor the home folder can be written", folder)
        numba.config.CACHE_DIR = str(folder)
        return _compile(function, signature, cache=True, **options)
    log.info("compiled code is not kept: there is no folder to write to")
    return _compile(function, signature, cache=False, **options)


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
    compiled: Callable[..., Any] = numba.njit(signature, **options)(function)
    return compiled
