"""Public names of packages, whose modules are imported when a name is first used.

The stub beside a package, ``__init__.pyi``, lists every name once, for type checkers and for this module, as SPEC 1 of
Scientific Python recommends: ``from driftsurf.data.source import open_source as open_source``. A package without a stub
has these imports under ``if TYPE_CHECKING``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^ *from ([\w.]+) import (\([^)]*\)|.+)$", re.MULTILINE)
_NAME = re.compile(r"\w+ as (\w+)")


def exports(
    package: str, *others: str, found_by: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], Sequence[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that lists its names for type checkers.

    Parameters
    ----------
    package
        Name of the package.
    *others
        Public names that the package defines itself.
    found_by
        A module whose ``__getattr__`` finds names that are not listed, or whose classes are made at run time.
    """
    module: Any = sys.modules[package]
    get_data = module.__spec__.loader.get_data
    try:
        listed = get_data(re.sub(r"\.pyc?$", ".pyi", module.__file__))
    except FileNotFoundError:
        listed = get_data(module.__file__)
    homes = {name: home for home, names in _IMPORT.findall(listed.decode()) for name in _NAME.findall(names)}
    public = sorted({*homes, *others})

    def __getattr__(name: str) -> Any:
        home = homes.get(name, found_by)
        if not home or name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    def __dir__() -> list[str]:
        return sorted(public)

    return __getattr__, __dir__, public
