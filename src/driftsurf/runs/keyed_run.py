"""A run with a learner for each key, from the options of a run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from driftsurf.core.options import check_bounds, option_fields
from driftsurf.data import Source
from driftsurf.data.advice import hints
from driftsurf.data.reading_options import STANDARD_INPUT
from driftsurf.data.row_encoder import Target
from driftsurf.data.source import short_name
from driftsurf.data.tables import Table
from driftsurf.errors import ColumnWarning, Message, Option, OptionError, StateError
from driftsurf.keyed import Columns, EngineOptions, KeyedLearner, KeyedOptions, run_keyed
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.grouping import DerivedColumns
from driftsurf.keyed.models import keyed_strategy, keyed_task, summarise_columns
from driftsurf.keyed.options import SHARED_MODELS, Share
from driftsurf.keyed.run import EpochReport
from driftsurf.runs.folder import ABOUT
from driftsurf.runs.options import KEYED_GROUPS, NAMED_PARAMETERS, RunOptions
from driftsurf.runs.plan import OnStart, RunStart

KEYED_MODEL: Final = "driftsurf"
"""The model of each key, if none is named: there may be many keys with few rows each, so it must be cheap."""

ENGINE_OPTIONS: Final = tuple(name for name in option_fields(EngineOptions) if name not in ("engine", "ttl"))
"""Options that are passed to the engine: its own, without those of every engine."""
APPLICABLE: Final = frozenset(
    (
        *("key", "label", "drop", "rows", "header", "names", "sheet", "comment"),
        *("delimiter", "encoding", "decimal", "thousands", "missing", "date_formats"),
        *("batch_size", "delay", "max_pending", "seed", "out", "log_level", "fail_on_drift"),
        *("task", "model", "learner", "parameters", *NAMED_PARAMETERS),
    )
)
"""Options of other runs that apply to a keyed run."""
ALONE: Final = (
    *("engine", "model", "learner", "parameters", "batch_size", "delay", "max_pending", "max_bytes"),
    *NAMED_PARAMETERS,
)
"""Options of keys that learn alone: of their model, and an engine that does not share."""
ADVICE: Final[Mapping[str, Message]] = {
    **dict.fromkeys(
        ("checkpoint", "checkpoint_copy", "resume", "every", "keep"),
        Message("states are always saved, and the same call resumes the run"),
    ),
    **dict.fromkeys(("follow", "follow_for"), Message("the same call, made again, learns what is new")),
    **dict.fromkeys(("batch_seconds", "time"), Message("cut time steps by rows, with ", Option("batch_size"))),
    **dict.fromkeys(("categorical", "kinds"), Message("features are numbers; name them with ", Option("features"))),
    **dict.fromkeys(("on_bad_row", "raw"), Message("rows that cannot be read are skipped, and counted in epochs/")),
    "format": Message("the format is inferred from the file name"),
    "timeout": Message("set how late a label may be with ", Option("delay")),
    "overwrite": Message("choose another folder with ", Option("out")),
    **dict.fromkeys(("predictions", "all_classes"), Message("predictions are written to predictions/ as Parquet")),
}
"""What to do instead, by option that does not apply to a keyed run."""


def run_by_key(
    source: str, options: RunOptions, *, on_start: OnStart | None = None, on_epoch: EpochReport | None = None
) -> KeyedFolder:
    """Learn each key of a source by itself.

    Parameters
    ----------
    source
        A file, a folder, or a pattern.
    options
        Options of the run.
    on_start
        Called before anything is learned.
    on_epoch
        Called after each epoch with its number and its counts.
    """
    _check(source, options)
    key, sequence, label = options.key, options.sequence, options.label
    assert key is not None
    assert sequence is not None
    assert label is not None
    given, named = options.given(), options.model or KEYED_MODEL
    keyed_task(options.task, options.classes)  # before anything is read
    columns = Columns(key, sequence, label, options.id)
    parameters = options.all_parameters()
    same = "features", "classes", "max_bytes", "readmit", "on_gap", "delay", "max_pending", "seed"
    direct: dict[str, Any] = {name: given[name] for name in same if name in given}
    if options.batch_size is not None:
        direct["batch_size"] = None if options.batch_size == "epoch" else options.batch_size
    out = options.out_path
    assert out is not None
    resumes = (out / ABOUT).exists()
    share = _share(options, out if resumes else None)
    if share != "none":
        direct["share"] = share

    def start(files: Source, table: Table, learner: KeyedLearner, derived: DerivedColumns) -> None:
        if not resumes:
            _warn_of_columns(files, table, learner, columns.label, derived, named=bool(options.features))
        if on_start is not None:
            understood = None if resumes else summarise_columns(table, learner, columns, derived)
            name = short_name(source)
            model = named if share == "none" else SHARED_MODELS[share]
            on_start(RunStart(name=name, model=model, regression=learner.regression, columns=understood))

    return run_keyed(
        source,
        out,
        columns,
        KeyedOptions(drop=tuple(options.drop), **direct),
        engine=options.engine,
        ttl=options.ttl,
        reading=options.reading,
        task=options.task,
        make_strategy=lambda task, rows: keyed_strategy(named, options.learner, task, parameters, rows),
        on_columns=start,
        on_epoch=on_epoch,
        **{name: given[name] for name in ENGINE_OPTIONS if name in given},
    )


def _share(options: RunOptions, out: Path | None) -> Share:
    """Return what keys share, as the options say or, if they leave it open, the run in ``out`` that is resumed.

    A new run shares a model unless its options are for keys that learn alone.
    """
    own = [name for name in options.given() if name in ALONE]
    if out is not None:
        saved: Share = KeyedFolder(out).about()["learner"].get("share", "none")
        if options.share not in (None, saved):
            raise StateError(
                f"{str(out)!r} was started with other options (share was {saved!r} and is {options.share!r}): use the "
                "same ones, or start a new run with another ",
                Option("out"),
            )
        return saved
    if options.share in (None, "none"):
        return "none" if own or options.share else "default"
    if own:
        raise OptionError(
            Option(own[0]), " is for keys that learn alone; leave it out, or set ", Option("share", "none")
        )
    return options.share


def _warn_of_columns(
    files: Source, table: Table, learner: KeyedLearner, label: str, derived: DerivedColumns, *, named: bool
) -> None:
    """Warn of columns that may have been misunderstood, or that give the label away.

    If the features are ``named``, a column is left out by naming the others, else by dropping it.
    """
    target, y = derived.question or Target(label, "regression" if learner.regression else "binary"), None
    if learner.delay is None and table[target.column].kind != "date":
        table = table.select(~target.missing(table))
        y = target.read(table)
    used = {*learner.features, *derived.words}
    for hint in hints(files, table, target.column, y, regression=learner.regression, combined=False):
        drops = [part for part in hint.parts if isinstance(part, Option) and part.name == "drop"]
        if all(part.value in used for part in drops):  # other columns are not learned from anyway
            parts = [Option("features") if named and part in drops else part for part in hint.parts]
            warnings.warn(Message(*parts), ColumnWarning, stacklevel=2)


NEEDED = {"sequence": ": a column of integers or dates that increases along the rows of each key, such as a row number"}
"""What an option of a keyed run names."""


def _check(source: str, options: RunOptions) -> None:
    """Raise OptionError if options are missing, or do not apply to a keyed run."""
    check_bounds(options)
    own = options.given(*KEYED_GROUPS)
    wrong = sorted(name for name in options.given() if name not in APPLICABLE and name not in own)
    if wrong:
        advice: Any = ADVICE.get(wrong[0], Message("leave it out"))
        raise OptionError(
            Option(wrong[0]), " does not apply to a run with a learner for each key (", Option("key"), "); ", advice
        )
    needed = {
        "sequence": options.sequence,
        "label": options.label,
        "out": options.out,
    }
    for name, value in needed.items():
        if value is None:
            what = NEEDED.get(name, "")
            raise OptionError(Option("key"), " without ", Option("labels"), " needs ", Option(name), what)
    if source == STANDARD_INPUT:
        raise OptionError(Option("key"), " reads files, so that a run can resume; the source is '-'")
