"""``python -m driftsurf`` is the command ``driftsurf``."""

from driftsurf.cli import main

main(prog_name="driftsurf")
