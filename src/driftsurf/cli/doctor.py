"""``driftsurf doctor``: check the installation."""

from __future__ import annotations

import click


@click.command()
def doctor() -> None:
    """Check versions, compiled code and its cache, extras, data and cores.

    Each line says what to do if something is missing. The exit code is 1 if something required is missing or does not
    work, else 0; extras and data are optional.
    """
    from driftsurf.report.doctor import print_findings

    if not print_findings():
        raise SystemExit(1)
