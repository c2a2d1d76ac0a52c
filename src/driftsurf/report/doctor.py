"""Whether everything that the package needs is there: versions, compiled code, extras, data."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.text import Text

from driftsurf import __version__
from driftsurf.report.terminal import console
from driftsurf.streams import files
from driftsurf.streams.datasets import DATASETS, find

__all__ = ["Finding", "examine", "print_findings"]

OLDEST_PYTHON = 3, 11
_STYLES = {"good": "green", "note": "", "missing": "yellow", "bad": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    text: str
    state: Literal["good", "note", "missing", "bad"] = "good"
    """"missing" is what one may want and does not have; "bad" what does not work."""


def print_findings() -> bool:
    """Print what is found; returns whether all is well."""
    screen, found = console(), list(examine())
    width = max(len(finding.what) for finding in found)
    for finding in found:
        mark = {"good": "ok", "note": "", "missing": "-", "bad": "BAD"}[finding.state]
        screen.print(Text(f"{mark:4}{finding.what:{width}}  {finding.text}", style=_STYLES[finding.state]))
    bad = sum(finding.state == "bad" for finding in found)
    screen.print("all is well" if not bad else f"{bad} of {len(found)} things are wrong")
    return not bad


def examine() -> Iterator[Finding]:
    """Look at everything, cheap things first."""
    yield Finding("driftsurf", f"{__version__} in {Path(__file__).parent.parent}")
    old = sys.version_info[:2] < OLDEST_PYTHON
    needed = ".".join(map(str, OLDEST_PYTHON))
    yield Finding(
        "python",
        f"{platform.python_version()} on {platform.system()} {platform.machine()}"
        + f"; too old: install {needed} or newer" * old,
        "bad" if old else "good",
    )
    core, extras = _requirements()
    for requirement in core:
        yield _dependency(requirement)
    yield from _compiled()
    yield _compiler()
    for extra, requirements in extras.items():
        yield _extra(extra, requirements)
    yield _cores()
    yield _data()


# ---------------------------------------------------------------------------- packages


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """What the installed package says that it needs, and what each extra adds."""
    try:
        told = metadata.requires("driftsurf") or []
    except metadata.PackageNotFoundError:  # run from its source
        told = [*("numpy", "scipy", "scikit-learn", "numba", "joblib", "click", "rich")]
    core, extras = list[str](), dict[str, list[str]]()
    for line in told:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker)
        if extra is None:
            core.append(requirement.strip())
        else:
            extras.setdefault(extra[1], []).append(requirement.strip())
    return core, extras


def _dependency(requirement: str) -> Finding:
    name, least = _parsed(requirement)
    version = _version(name)
    remedy = f"pip install '{requirement}'"
    if version is None:
        return Finding(name, f"not installed: {remedy}", "bad")
    if _numbers(version) and _numbers(version) < _numbers(least):
        return Finding(name, f"{version} is older than {least}: {remedy}", "bad")
    return Finding(name, version)


def _extra(extra: str, requirements: list[str]) -> Finding:
    found = {name: _version(name) for name, _ in map(_parsed, requirements)}
    if all(version is not None for version in found.values()):
        return Finding(f"[{extra}]", ", ".join(f"{name} {version}" for name, version in found.items()))
    return Finding(f"[{extra}]", f"not installed: pip install 'driftsurf[{extra}]'", "missing")


def _parsed(requirement: str) -> tuple[str, str]:
    """The name of a requirement, and the least version it asks for.

    >>> _parsed("scikit-learn>=1.6,<3"), _parsed("rich")
    (('scikit-learn', '1.6'), ('rich', '0'))
    """
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    least = re.search(r">=\s*([0-9.]+)", requirement)
    return name[0] if name else requirement, least[1] if least else "0"


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers a version begins with, to be compared.

    >>> _numbers("2.10.1rc1") > _numbers("2.9")
    True
    """
    begin = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in begin[0].split(".")) if begin else ()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of unknown version" if find_spec(name.replace("-", "_")) else None


# ---------------------------------------------------------------------------- compiled code


def _compiled() -> Iterator[Finding]:
    """Compile one loop, or find it compiled, and see where it is kept."""
    import numba

    from driftsurf import _kernels

    if numba.config.DISABLE_JIT:
        yield Finding("compiled loops", "switched off by NUMBA_DISABLE_JIT: everything is slow", "note")
        return
    try:
        ones = np.ones(3)
        right = _kernels.weighted_sum(ones, ones)[0] == 3.0
        loop: Any = _kernels.weighted_sum
        stats = loop.compiled_for(ones.dtype, False).stats
    except Exception as error:  # whatever a compiler may raise, the finding is the same
        yield Finding("compiled loops", f"a loop cannot be compiled: {error}", "bad")
        return
    llvm = _version("llvmlite")
    yield Finding(
        "compiled loops",
        f"by numba with llvmlite {llvm}" + "; but they calculate wrongly" * (not right),
        "good" if right else "bad",
    )
    yield _cache(stats)


def _cache(stats: Any) -> Finding:
    folder = Path(stats.cache_path) if stats.cache_path else None
    if folder is None:
        return Finding(
            "cache", "compiled code is kept nowhere: set NUMBA_CACHE_DIR to a folder that can be written", "bad"
        )
    kept = len(list(folder.glob("*.nbc")))
    if not os.access(folder, os.W_OK) and not stats.cache_hits:
        return Finding("cache", f"{folder} cannot be written: set NUMBA_CACHE_DIR to a folder that can be", "bad")
    warm = "warm" if stats.cache_hits else "cold until now: each loop is compiled on first use, once"
    closed = "" if os.access(folder, os.W_OK) else ", read-only"
    return Finding("cache", f"{warm}; {kept} loops in {folder}{closed}")


def _compiler() -> Finding:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        return Finding("C compiler", "none; only the benchmarks beside C want one", "missing")
    return Finding("C compiler", f"{found}; only the benchmarks beside C use it")


# ---------------------------------------------------------------------------- machine and data


def _cores() -> Finding:
    there = os.cpu_count() or 1
    ours = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    return Finding("cores", f"{ours}" if ours == there else f"{ours} of {there} may be used")


def _data() -> Finding:
    at_hand = [name for name in DATASETS if find(name) is not None]
    others = len(DATASETS) - len(at_hand)
    where = ", ".join(str(folder) for folder in files.folders())
    if not at_hand:
        text = f"none of the {others} published sets in {where}; 'driftsurf datasets' says how to get them"
        return Finding("data", text, "missing")
    more = f"; {others} more: 'driftsurf datasets'" if others else ""
    return Finding("data", f"{', '.join(at_hand)} in {where}{more}")
