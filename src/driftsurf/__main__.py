"""``python -m driftsurf`` is the command ``driftsurf``."""

from driftsurf.cli import main

if __name__ == "__main__":
    main(prog_name="driftsurf")
