"""Listeners of a run: the log, and a command that is called for every transition."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys

from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.options import number

__all__ = ["TransitionCommand", "TransitionLog"]

log: logging.Logger = logging.getLogger("driftsurf.run")


class TransitionLog:
    """Logs every transition at level INFO and every step at level DEBUG, to the logger ``driftsurf.run``."""

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Log one step of one model."""
        log.debug("%s: step %d, error %.4f", model, step, error)
        for decision in decisions:
            for transition in decision.transitions:
                log.info("%s: %s", model, transition.describe())


class TransitionCommand:
    """Runs a shell command for every transition of one model, and waits for it.

    The command gets the transition on its standard input, as a line of JSON like that in the journal with the name of
    the model added, and the variables DRIFTSURF_MODEL, DRIFTSURF_STEP, DRIFTSURF_KIND and DRIFTSURF_TEXT in its
    environment. A command that fails or takes too long is logged and never stops the run. A run that was killed
    repeats what came after its last checkpoint, so the command may be called twice for the same transition.

    Parameters
    ----------
    command
        Command for the shell.
    model
        Name of the model whose transitions count.
    timeout
        Seconds after which the command is killed, together with the processes it started.
    """

    def __init__(self, command: str, model: str, timeout: float = 30.0) -> None:
        self.command = command
        self.model = model
        self.timeout: float = number("on_transition_timeout", timeout, above=0.0)

    def __call__(self, step: int, model: str, error: float, decisions: tuple[Decision, ...]) -> None:
        """Run the command for the transitions of one step."""
        if model != self.model:
            return
        for decision in decisions:
            for transition, record in zip(decision.transitions, decision.transition_dicts(), strict=True):
                self._call(transition, json.dumps({"model": model, **record}) + "\n")

    def _call(self, transition: Transition, line: str) -> None:
        variables = {
            "MODEL": self.model,
            "STEP": transition.step,
            "KIND": transition.kind,
            "TEXT": transition.describe(),
        }
        try:
            child = subprocess.Popen(
                self.command,
                shell=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=os.environ | {f"DRIFTSURF_{name}": str(value) for name, value in variables.items()},
                # A session of its own: Ctrl-C is for the run, and a late command is killed with its children.
                start_new_session=True,
            )
        except OSError as error:
            log.warning("the command for transitions cannot be started: %s", error)
            return
        try:
            child.communicate(line.encode(), timeout=self.timeout)
        except subprocess.TimeoutExpired:
            _kill(child)
            child.wait()
            log.warning(
                "step %d: the command for transitions took more than %g s and was killed", transition.step, self.timeout
            )
            return
        if child.returncode:
            log.warning("step %d: the command returned exit code %d", transition.step, child.returncode)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a command with the processes it has started; on Windows, which has no sessions, the command alone."""
    if sys.platform == "win32":
        child.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
