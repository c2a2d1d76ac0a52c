"""The folder of a served model: the settings that it fixes when it is made, and that later starts agree with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from driftsurf.core import files
from driftsurf.errors import Option, OptionError
from driftsurf.explanation.records import RunRecord, read_run
from driftsurf.runs.folder import ABOUT, MODEL, model_path
from driftsurf.runs.start import FinishedRun
from driftsurf.service.began import Began
from driftsurf.service.blueprint import Blueprint
from driftsurf.service.settings import CHECKPOINTS, SETTINGS_FILE, ModelSettings

__all__ = ["LOG", "began_with", "folder_blueprint", "written"]

START, LOG = "start", "log"
"""Folders of the model with which a served model began, and of its log."""
UNUSED = "max_pending", "timeout"
"""How labels are awaited, which belongs to the service: in the log each row has its label."""


def folder_blueprint(folder: Path, settings: ModelSettings | None) -> Blueprint:
    """Return the blueprint of a folder, which is made if it is new; OptionError if the settings are others."""
    file = folder / SETTINGS_FILE
    if file.exists():
        saved = ModelSettings.from_json(files.read_text(file))
        start = FinishedRun.read(folder / START) if saved.start_from is not None else None
        blueprint = Blueprint.of(folder.name, saved, start)
        if settings is not None:
            _check_same(saved, settings, blueprint, start)
        return blueprint
    if settings is None:
        raise OptionError(f"{str(folder)!r} has no {SETTINGS_FILE}; give the settings of a new model")
    start = None if settings.start_from is None else FinishedRun.read(Path(settings.start_from))
    if settings.task == "auto" and len(settings.classes) == 2:
        settings = replace(settings, task="binary")
    blueprint = Blueprint.of(folder.name, settings, start)
    decided = replace(blueprint.settings, model=blueprint.model, batch_size=blueprint.batch_size)
    blueprint = replace(blueprint, settings=decided)
    # Unusable options are refused before anything is written. What the first labels may decide are classes.
    blueprint.strategy(blueprint.task or "multiclass")
    files.make_folder(folder)
    if start is not None:
        files.make_folder(folder / START)
        origin = model_path(Path(str(settings.start_from)))
        files.write_bytes(folder / START / ABOUT, files.read_bytes(origin.parent / ABOUT))
        files.write_bytes(folder / START / MODEL, files.read_bytes(origin))
        Began.of_run(origin.parent).write(folder / START)
        files.sync_folder(folder / START)
    files.write_text(file, blueprint.settings.to_json())
    files.sync_folder(folder)
    files.sync_folder(folder.parent)
    return blueprint


def began_with(folder: Path) -> Began:
    """Return what is known of the run with which a served model began; nothing of one that began without a run."""
    return Began.read(folder / START)


def written(folder: Path, blueprint: Blueprint) -> RunRecord:
    """Return what the run behind a served model has written, as that of a run over the rows of its log."""
    found = read_run(folder / CHECKPOINTS)
    start = None if blueprint.start is None else str(folder / START)
    about = {name: one for name, one in found.about.items() if name not in UNUSED}
    own = {"source": str(folder / LOG), "served": True, "start_from": start}
    return replace(found, name=blueprint.name, about=about | own)


def _check_same(saved: ModelSettings, asked: ModelSettings, blueprint: Blueprint, start: FinishedRun | None) -> None:
    """Raise OptionError if a setting is given that differs from the saved one; one with its default is not given."""
    if asked.start_from is not None and saved.start_from is None:
        raise OptionError(
            Option("start_from"),
            f" is {asked.start_from!r}, and the model {blueprint.name!r} exists already and began without a run; leave "
            "it out, or serve the run under another name",
        )
    if asked.start_from is not None and not _is_same_path(asked.start_from, str(saved.start_from)):
        raise OptionError(
            Option("start_from"),
            f" was {saved.start_from} when the model {blueprint.name!r} was made, and is {asked.start_from}; leave it "
            "out, or serve the new run under another name or folder",
        )
    given, default = Blueprint.of(blueprint.name, asked, start).settings, ModelSettings()
    for name in ("label", "task", "model", "learner", "parameters", "seed", "batch_size", "columns", "categorical",
                 "classes", "max_pending", "timeout", "smallest_rise", "drift_risk"):  # fmt: skip
        was, now = getattr(saved, name), getattr(given, name)
        if getattr(asked, name) != getattr(default, name) and now != was:
            raise OptionError(
                Option(name),
                f" was {was!r} when the model {blueprint.name!r} was made, and is {now!r}; ",
                "leave it out, or serve another folder",
            )


def _is_same_path(one: str, other: str) -> bool:
    """Return whether two paths are the same one, as they are written or from the current folder."""
    return one == other or os.path.realpath(one) == os.path.realpath(other)
