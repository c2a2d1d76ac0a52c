"""A command that is told of every transition of a run."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess

from driftsurf._options import number
from driftsurf.decisions import Decision, Transition

__all__ = ["TransitionCommand", "TransitionLog"]

log = logging.getLogger("driftsurf.run")


class TransitionLog:
    """Says every transition, and every step at the level DEBUG, to the logger ``driftsurf.run``."""

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Log one step of one model."""
        log.debug("%s: step %d, error %.4f", model, step, error)
        for decision in decisions:
            for transition in decision.transitions:
                log.info("%s: %s", model, transition.describe())


class TransitionCommand:
    """Runs a command of the shell for every transition of one model, and waits for it.

    It gets the transition as a line of JSON on its standard input, as the journal has it, with the
    name of the model; and DRIFTSURF_MODEL, DRIFTSURF_STEP, DRIFTSURF_KIND and DRIFTSURF_TEXT in its
    environment. One that fails or takes too long is logged and never stops the run. A run that was
    killed repeats what came after its last checkpoint: the command may be told of a transition twice.

    Parameters
    ----------
    command
        For the shell.
    model
        The name of the model whose transitions count.
    timeout
        Seconds after which it is killed, with all that it has started.
    """

    def __init__(self, command: str, model: str, timeout: float = 30.0) -> None:
        self.command = command
        self.model = model
        self.timeout = number("timeout", timeout, above=0.0)

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Run it for the transitions of one step."""
        if model != self.model:
            return
        for decision in decisions:
            for transition, record in zip(decision.transitions, decision.transition_dicts(), strict=True):
                self._tell(transition, json.dumps({"model": model, **record}) + "\n")

    def _tell(self, transition: Transition, line: str) -> None:
        told = {"MODEL": self.model, "STEP": transition.step, "KIND": transition.kind, "TEXT": transition.describe()}
        try:
            child = subprocess.Popen(
                self.command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=os.environ | {f"DRIFTSURF_{name}": str(value) for name, value in told.items()},
                start_new_session=True,  # Ctrl-C is for the run, and a late command is killed with its children
            )
        except OSError as error:
            log.warning("the command for transitions cannot be run: %s", error)
            return
        try:
            child.communicate(line.encode(), timeout=self.timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            log.warning("step %d: the command took more than %g s and was killed", transition.step, self.timeout)
            return
        if child.returncode:
            log.warning("step %d: the command left with exit code %d", transition.step, child.returncode)
