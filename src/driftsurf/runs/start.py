"""Start a run with the model of a finished one: its settings, its encoding and what it has learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from driftsurf.core import files
from driftsurf.core.files import parse_json
from driftsurf.core.state import from_bytes, peek, pick, read_header
from driftsurf.core.targets import ClassTargets
from driftsurf.data.reading_options import BATCH_ROWS
from driftsurf.data.row_encoder import FrameEncoder
from driftsurf.errors import Option, OptionError, RunFolderError, StateError
from driftsurf.runs.folder import ABOUT, model_path
from driftsurf.runs.options import GROUPS, RunOptions
from driftsurf.runs.plan import KEPT_ROWS
from driftsurf.session.described import described_option, distinguish
from driftsurf.session.model_names import imported_class
from driftsurf.session.saved import estimator_name
from driftsurf.session.session import Session

INHERITED_GROUPS: Final = ("tables", "reading", "labels", "model")
"""Groups of options whose settings are taken over. Where a run writes, and the command that it calls at a transition,
are never taken from a file."""
NOT_INHERITED: Final = ("rows", "labels", "key", "delay", "max_pending", "timeout", "start_from", "kinds")
"""Settings that belong to the rows of one run."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Model and settings of a finished run over tables."""

    path: Path
    about: Mapping[str, Any]
    """Settings of the run, as in ``run.json``."""
    state: Mapping[str, Any]
    """The saved model."""

    @classmethod
    def read(cls, path: Path, *, trusted: bool = False) -> FinishedRun:
        """Read the model and the settings from a run folder, or from a folder of checkpoints.

        A learner that only pickle can save is loaded only if the run is ``trusted``; such a model cannot be restored
        otherwise.
        """
        file = model_path(path)
        try:
            about = parse_json(files.read_text(file.parent / ABOUT))
            about["decided"]["target"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunFolderError(
                f"{str(path)!r} is not the folder of a finished run over tables, with which a run can start"
            ) from error
        data = files.read_with_backup(file, good=read_header)
        return cls(path, about, from_bytes(data, trust_pickle=True) if trusted else peek(data))

    @property
    def frames(self) -> FrameEncoder:
        """How tables become the rows that the model learns."""
        return FrameEncoder.from_state(pick("encoder", self.state))

    @property
    def classes(self) -> list[Any]:
        """The classes that the model knows, in order; none for regression."""
        saved = pick("session.classes", self.state)
        return sorted(ClassTargets.from_state(saved).labels) if "labels" in saved else []

    @property
    def id(self) -> str | None:
        """The column of ids of the run; None if it had none."""
        return self.about.get("id") or self.about.get("key")

    @property
    def batch_rows(self) -> int | None:
        """Rows in a time step of the run; None if it cut steps by time."""
        size = self.about.get("batch_size") or self.about["decided"].get("batch_size")
        if size is None and self.about.get("batch_seconds") is None:
            return BATCH_ROWS
        return size if isinstance(size, int) else None

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the model: those that were given, and the rows that it keeps if the table decided that."""
        kept = {name: value for name, value in self.about["decided"].items() if name == KEPT_ROWS}
        return {**kept, **self.about.get("parameters", {})}

    def restore(self, session: Session) -> None:
        """Let a new session continue where the model of the run stopped."""
        was = self.state["estimator"], f"{self.state['learner']}({self.state['learner_params']})"
        now = estimator_name(session.strategy), described_option(session.strategy.learner)
        if was != now:
            old, new = (was[0], now[0]) if was[0] != now[0] else distinguish(was[1], now[1])
            raise StateError(f"the model of {str(self.path)!r} is {old}, not {new}; give no other model or learner")
        own = pick("session", self.state)
        if any(name.startswith("pending.") for name in own) != (session.batch_size is not None):
            late = "late" if session.batch_size is None else "with their rows"
            raise OptionError(
                Option("start_from"), f" is {str(self.path)!r}, whose labels came {late}; those of this run do not"
            )
        monitor = session.now.monitor
        if monitor is not None and any(name.startswith("monitor.") for name in own):
            # What is told of drifts is a matter of this run, not of the one before.
            own |= {f"monitor.{name}": getattr(monitor, name) for name in ("smallest_rise", "drift_risk")}
        session.restore(own)


def with_settings_of(run: FinishedRun, options: RunOptions) -> RunOptions:
    """Return options with the settings of a finished run wherever they have their default value."""
    encoder, given = run.frames.encoder, options.given()
    known = {name for group in GROUPS if group.name in INHERITED_GROUPS for name in group.fields}
    settings = {
        name: value
        for name, value in run.about.items()
        if name in known and name not in NOT_INHERITED and value is not None
    }
    foreign = imported_class(settings.get("model"), settings.get("learner"))
    if foreign and not {"model", "learner"} & given.keys():
        own = "learner" if settings.get("learner") else "model"
        raise OptionError(
            f"the learner of {str(run.path)!r} is {foreign}, which is not part of driftsurf; if you trust this run, "
            "name it yourself with ",
            Option(own, settings[own]),
        )
    kinds = {one.name: one.kind for one in encoder.layout.columns if one.name not in encoder.categorical}
    if given.get("label", run.about.get("label")) != run.about.get("label"):
        raise OptionError(
            Option("label"),
            f" is {given['label']!r}, but the model of {str(run.path)!r} predicts {run.about.get('label')!r}; ",
            "leave it out",
        )
    if run.about.get("key") is not None and "key" not in given:
        settings["drop"] = [*settings.get("drop", ()), run.about["key"]]
    parameters = {**run.about.get("parameters", {}), **options.all_parameters()}
    return RunOptions.of(**settings | given | {"parameters": parameters, "kinds": {**kinds, **options.kinds}})
