"""``driftsurf doctor``: check the installation."""

from __future__ import annotations

import click


@click.command()
def doctor() -> None:
    """Check versions, the native core, extras, data and cores.

    Each line says what to do if something is missing. The exit code is 1 if something required is missing or does not
    work, else 0; extras and data are optional.
    """
    from driftsurf.report import doctor as checks

    if not checks.print_findings():
        raise SystemExit(1)
