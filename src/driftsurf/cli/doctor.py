"""``driftsurf doctor``: check the installation."""

from __future__ import annotations

import click

from driftsurf.cli.wording import say


@click.command()
@click.option("--warm", is_flag=True, help="Compile the common loops now, so that no later run has to wait for them.")
def doctor(warm: bool) -> None:
    """Check versions, compiled code and its cache, extras, data and cores.

    Each line says what to do if something is missing. The exit code is 1 if something required is missing or does not
    work, else 0; extras and data are optional.
    """
    from driftsurf.report import doctor as checks

    if warm:
        count = checks.warm(lambda name: say(f"compiling loops: {name} ..."))
        say(f"{count} compiled loops are in the cache")
    if not checks.print_findings():
        raise SystemExit(1)
