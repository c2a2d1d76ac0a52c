"""Whether the packages of the extras ``service`` and ``telemetry`` are installed."""

from __future__ import annotations

from importlib.util import find_spec

from driftsurf.errors import MissingExtraError

__all__ = ["require_service", "require_telemetry"]

PACKAGES = "uvicorn", "httptools", "msgspec", "pyarrow"
TELEMETRY = "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"


def require_service() -> None:
    """Raise MissingExtraError if a package that serving needs is not installed."""
    missing = [name for name in PACKAGES if not _is_installed(name)]
    if missing:
        raise MissingExtraError(f"serving needs {', '.join(missing)}: pip install 'driftsurf[service]'")


def require_telemetry() -> None:
    """Raise MissingExtraError if a package that sending traces needs is not installed."""
    missing = [name for name in TELEMETRY if not _is_installed(name)]
    if missing:
        raise MissingExtraError(f"[telemetry] needs {', '.join(missing)}: pip install 'driftsurf[telemetry]'")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False
