"""Checks of the installation for ``driftsurf doctor``: versions, the native core, extras, data."""

from __future__ import annotations

import json
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
from typing import Literal

import joblib
import numpy as np

from driftsurf import __version__, registry
from driftsurf.core.wording import optional
from driftsurf.data.datasets.known import DATASETS, find, folders
from driftsurf.report.terminal import console

FORMER_EXTRAS = (
    *("excel", "kafka", "mlflow", "mqtt", "nats", "objects", "onnx"),
    *("pandas", "postgresql", "rabbitmq", "redis", "telemetry"),
)
"""Names of 0.2 for extras that others contain now."""
OLDEST_PYTHON = 3, 11
_STYLES = {"good": "green", "note": "", "missing": "yellow", "bad": "bold red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    text: str
    state: Literal["good", "note", "missing", "bad"] = "good"
    """"missing" is optional and not installed; "bad" does not work."""


def print_findings() -> bool:
    """Print all findings; return whether none is bad."""
    screen, found = console(), list(examine())
    width = max(len(finding.what) for finding in found)
    for finding in found:
        mark = {"good": "ok", "note": "", "missing": "-", "bad": "BAD"}[finding.state]
        line = f"{mark:4}{finding.what:{width}}  {finding.text}"
        screen.print(line, hang=width + 6, style=_STYLES[finding.state])
    bad = sum(finding.state == "bad" for finding in found)
    screen.print("no problems found" if not bad else f"{bad} of {len(found)} checks failed")
    return not bad


def examine() -> Iterator[Finding]:
    """Run all checks, fast ones first."""
    yield Finding("driftsurf", f"{__version__} in {Path(__file__).parent.parent}, {installed_by()}")
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
    yield _core()
    yield _compiler()
    for extra, requirements in extras.items():
        yield _extra(extra, requirements)
    yield _cores()
    yield _data()


# ---------------------------------------------------------------------------- packages


def installed_by() -> str:
    """Return how the package was installed, for instance "installed by uv" or "an editable checkout"."""
    try:
        found = metadata.distribution("driftsurf")
    except metadata.PackageNotFoundError:
        return "run from source"
    if json.loads(found.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
        return "an editable checkout"
    parts = Path(sys.prefix).parts
    # Both keep each program in an environment of its own, below a folder with their name.
    if "pipx" in parts:
        return "installed by pipx"
    if parts[-3:-1] == ("uv", "tools"):
        return "installed by uv tool"
    return f"installed by {(found.read_text('INSTALLER') or 'an unknown program').strip()}"


def _requirements() -> tuple[list[str], dict[str, list[str]]]:
    """Return the requirements of the installed package, and those of each extra."""
    try:
        listed = metadata.requires("driftsurf") or []
    except metadata.PackageNotFoundError:  # run from source
        listed = [*("numpy", "scipy", "scikit-learn", "lightgbm", "pyarrow", "joblib", "click", "rich")]
    core, extras = list[str](), dict[str, list[str]]()
    for line in listed:
        requirement, _, marker = line.partition(";")
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker)
        if extra is None:
            core.append(requirement.strip())
        else:
            extras.setdefault(extra[1], []).append(requirement.strip())
    return core, {name: needs for name, needs in extras.items() if name not in {*FORMER_EXTRAS, "all"}}


def _dependency(requirement: str) -> Finding:
    name, least = _parsed(requirement)
    version = _version(name)
    remedy = f"pip install '{requirement}'"
    if version is None:
        return Finding(name, f"not installed: {remedy}", "bad")
    if _numbers(version) and _numbers(version) < _numbers(least):
        return Finding(name, f"{version} is older than {least}: {remedy}", "bad")
    if name == "lightgbm" and (lacking := registry.get("learner", name).remedy):
        return Finding(name, f"{version} cannot be used, and portfolios have no boosted trees: {lacking}", "bad")
    return Finding(name, version)


def _extra(extra: str, requirements: list[str]) -> Finding:
    found = {name: _version(name) for name, _ in map(_parsed, requirements)}
    if all(version is not None for version in found.values()):
        return Finding(f"[{extra}]", ", ".join(f"{name} {version}" for name, version in found.items()))
    return Finding(f"[{extra}]", f"not installed: pip install 'driftsurf[{extra}]'", "missing")


def _parsed(requirement: str) -> tuple[str, str]:
    """Return the name of a requirement and its lowest version.

    >>> _parsed("scikit-learn>=1.6,<3"), _parsed("rich")
    (('scikit-learn', '1.6'), ('rich', '0'))
    """
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    least = re.search(r">=\s*([0-9.]+)", requirement)
    return name[0] if name else requirement, least[1] if least else "0"


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, which can be compared.

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


def _core() -> Finding:
    """Check a result of the native core."""
    from driftsurf.native import linear

    ones = np.ones(3)
    right = tuple(linear.weighted_sum(ones, ones)) == (3.0, 3.0)
    return Finding(
        "native core",
        f"in {Path(linear.__file__).parent}" + optional(not right, ", but its results are wrong"),
        "good" if right else "bad",
    )


def _compiler() -> Finding:
    found = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if found is None:
        return Finding("C compiler", "not found; an installation from sources lets pip fetch one", "missing")
    return Finding("C compiler", f"{found}; only installations from sources use it")


# ---------------------------------------------------------------------------- machine and data


def _cores() -> Finding:
    every = os.cpu_count() or 1
    usable = joblib.cpu_count()  # respects the affinity and the container of the process
    return Finding("cores", f"{usable}" if usable == every else f"{usable} of {every} may be used")


def _data() -> Finding:
    found = [name for name in DATASETS if find(name) is not None]
    others = len(DATASETS) - len(found)
    where = ", ".join(str(folder) for folder in folders())
    if not found:
        text = f"none of the {others} published datasets in {where}; see 'driftsurf datasets'"
        return Finding("data", text, "missing")
    more = f"; {others} are missing, see 'driftsurf datasets'" if others else ""
    return Finding("data", f"{', '.join(found)} in {where}{more}")
