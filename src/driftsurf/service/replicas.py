"""Served models whose log is in a broker or a database, so that several processes, the replicas, serve the same one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from driftsurf import registry
from driftsurf.core import files
from driftsurf.core.files import parse_json
from driftsurf.core.secrets import split_address
from driftsurf.data.log.contract import Log
from driftsurf.errors import Option, OptionError, StateError
from driftsurf.errors.visible import safe_address
from driftsurf.runs.folder import MODEL
from driftsurf.service.settings import CHECKPOINTS, ModelSettings

LOG_FILE = "log.json"
"""File in the folder of a model that names its shared log."""


def open_shared_log(folder: Path, location: str, settings: ModelSettings, start: Path, known: int) -> Log:
    """Open the log of a model, which is made if it is new.

    Parameters
    ----------
    folder
        Folder of the model in this replica.
    location
        Address of the log.
    settings
        Settings of the model, which have to be the same on all replicas.
    start
        Folder with the model with which it begins, if there is one.
    known
        Number of records that the folder has applied.
    """
    scheme = split_address(location).scheme
    entry = registry.with_mark("log", scheme) if scheme else None
    if entry is None:
        choices = ", ".join(f"{name}://" for name in registry.names("log"))
        raise OptionError(Option("log"), f" is {safe_address(location)!r}; use an address that begins with {choices}")
    file = folder / LOG_FILE
    if not file.exists() and any((folder / CHECKPOINTS).glob("head-*")):
        raise OptionError(
            f"the model {folder.name!r} has its log in its folder, so that it cannot take another one with ",
            Option("log"),
            "; leave it out, or serve the model under another name",
        )
    log: Log = entry.make(location, about_model(settings, start))
    try:
        saved = parse_json(files.read_text(file)) if file.exists() else {"id": log.id}
        if saved["id"] != log.id or log.next < known:
            raise StateError(
                f"the folder {str(folder)!r} follows another log than the one that is at {log.name} now, which was "
                "made anew or restored from a backup; move the folder away, so that this replica begins again"
            )
        if not file.exists():
            files.write_text(file, json.dumps({"log": log.name, "id": log.id}))
    except BaseException:
        log.close()
        raise
    return log


def check_own_log(folder: Path) -> None:
    """Raise OptionError if the records of a model are not in its folder."""
    file = folder / LOG_FILE
    if file.exists():
        name = parse_json(files.read_text(file))["log"]
        raise OptionError(f"the log of the model {folder.name!r} is at {name}; name it with ", Option("log"))


def set_aside(folder: Path) -> None:
    """Move the checkpoints of a model away that differs from its replicas, so that it is built again from the log."""
    aside = folder / f"{CHECKPOINTS}-differing"
    if files.is_folder(aside):
        files.remove_tree(aside)
    files.publish(folder / CHECKPOINTS, aside)


def about_model(settings: ModelSettings, start: Path) -> str:
    """Return a digest of everything that decides what the records make of a model."""
    text = json.dumps({name: one for name, one in asdict(settings).items() if name != "start_from"}, sort_keys=True)
    model = files.read_bytes(start / MODEL) if settings.start_from is not None else b""
    return hashlib.sha256(text.encode() + hashlib.sha256(model).digest()).hexdigest()
