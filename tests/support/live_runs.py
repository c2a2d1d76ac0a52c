"""Runs put together from parts, without a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftsurf.evaluation.scoring import StepReport
from driftsurf.runs.batches import BatchSource
from driftsurf.runs.checkpoint import CheckpointFolder
from driftsurf.runs.execute import RunLoop
from driftsurf.runs.live import LiveRun
from driftsurf.runs.plan import Recorder, RunPlan
from driftsurf.session.protocols import Model


def live_run(
    source: BatchSource,
    models: Mapping[str, Model],
    recorder: Recorder,
    folder: Path | CheckpointFolder,
    **plan: Any,
) -> LiveRun:
    """Return a run, not yet begun, whose files go to ``folder``; with checkpoints if that is a folder of them."""
    made = RunPlan(name="test", source=source, models=models, recorder=recorder, **plan)
    if isinstance(folder, CheckpointFolder):
        return LiveRun(made, folder.path.joinpath, folder)
    return LiveRun(made, folder.joinpath)


def run_to_end(live: LiveRun, on_step: StepReport | None = None) -> None:
    """Run to the end of the source; ``on_step`` is called after each step, this time only."""
    live.listeners = [] if on_step is None else [on_step]
    RunLoop(live).run()
