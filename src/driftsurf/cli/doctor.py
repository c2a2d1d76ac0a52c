"""Is everything there that it takes?"""

from __future__ import annotations

import click


@click.command()
def doctor() -> None:
    """Check versions, compiled code and its cache, extras, data and cores.

    Each line says what to do if something is missing. The exit code is 0 if all is well, 1 if something that is
    needed is not; extras and data are never needed.
    """
    from driftsurf.report.doctor import print_findings

    if not print_findings():
        raise SystemExit(1)
