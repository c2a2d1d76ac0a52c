"""Run the command line inside the test process."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from driftsurf.cli import main, terminal

terminal.PATIENCE = 3600.0  # what a test sees does not depend on how long a command takes to start


def invoke(*arguments: Any, input: str | None = None, **environment: str) -> Result:
    """Run ``driftsurf`` with these arguments; an exception other than an exit fails the test.

    Parameters
    ----------
    *arguments
        Words of the command line; paths and numbers are converted to text.
    input
        Text of the standard input.
    **environment
        Environment variables. The terminal has 200 ``COLUMNS`` unless told otherwise, so that lines do not wrap.
    """
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(main, words, input=input, env={"COLUMNS": "200"} | environment, catch_exceptions=False)
