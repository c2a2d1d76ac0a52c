"""Whether the packages of the extra ``service`` are installed."""

from __future__ import annotations

from importlib.util import find_spec

from driftsurf.errors import MissingExtraError

__all__ = ["require_service"]

PACKAGES = "uvicorn", "httptools", "msgspec", "pyarrow"


def require_service() -> None:
    """Raise MissingExtraError if a package that serving needs is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingExtraError(f"serving needs {', '.join(missing)}: pip install 'driftsurf[service]'")
