"""Predict new rows with the model of a finished run, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftsurf.core import files
from driftsurf.core.files import parse_json
from driftsurf.core.options import StrPath, check_bounds
from driftsurf.core.state import peek, read_header
from driftsurf.data import open_source
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.data.row_encoder import FrameEncoder, Target
from driftsurf.data.tables import Table
from driftsurf.errors import Option, OptionError, RunFolderError, SchemaError, StateError
from driftsurf.registry import find
from driftsurf.runs.batches import SourceReader, text_of
from driftsurf.runs.folder import ABOUT, check_not_input, files_of, model_path
from driftsurf.runs.options import PredictOptions
from driftsurf.runs.predictions import LabelType, PredictionBatch, by_class, label_text, predict_now, shown_classes
from driftsurf.runs.sinks import Closable, SinkContext, open_sink
from driftsurf.session.model_names import imported_class, make_strategy

if TYPE_CHECKING:
    from driftsurf.estimators.base import AdaptiveEstimator

BATCH_ROWS = 5_000
"""Rows that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class PredictedRows:
    """What became of the rows."""

    rows: int
    """Number of rows that were predicted."""
    skipped: int
    """Number of rows that could not be read, where bad rows are skipped."""


def predict(
    run: StrPath, source: StrPath, options: PredictOptions | None = None, reading: ReadingOptions | None = None
) -> PredictedRows:
    """Predict the rows of a source with the model of a finished run over tables.

    Parameters
    ----------
    run
        A run folder, a folder of checkpoints, or the file model.state. A learner of another library is imported by the
        name in run.json, and loaded if only pickle could save it, only with ``trust_config``.
    source
        A file, a folder, a pattern, "-" for standard input, or a URL. The label may be there or not.
    options
        Where predictions go. [default: CSV on standard output]
    reading
        How rows are read: options that differ from their defaults take the place of those of the run. ``drop`` names
        further columns to leave out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import driftsurf
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = [f"{i % 7},{'yes' if i % 7 > 3 else 'no'}" for i in range(700)]
    >>> _ = (folder / "sales.csv").write_text("\\n".join(["price,sold", *rows]))
    >>> finished = driftsurf.run(folder / "sales.csv", label="sold", batch_size=100, out=folder / "run").folder
    >>> _ = (folder / "new.csv").write_text("price\\n6\\n0\\n")
    >>> predict(finished, folder / "new.csv", PredictOptions(out=str(folder / "answers.csv"))).rows
    2
    >>> print((folder / "answers.csv").read_text()[:33])
    row,prediction,probability
    0,yes,
    """
    asked = PredictOptions() if options is None else options
    check_bounds(asked)
    about, model = _load(Path(run), trusted=asked.trust_config)
    frames = model._model.frames
    if frames is None:
        raise SchemaError(
            f"the model of {str(run)!r} has learned arrays of a built-in stream; predict arrays with driftsurf.load"
        )
    reader = _reader(os.fspath(source), frames, ReadingOptions() if reading is None else reading, asked, about)
    check_not_input("out", asked.out, files_of(reader.source))
    frames = replace(frames, reading=reader.source.reading)
    return _predicted(model, frames, reader, _id_column(reader.peek(), asked, about), asked)


def _load(path: Path, *, trusted: bool) -> tuple[Mapping[str, Any], AdaptiveEstimator]:
    """Return what was run, if that is known, and the model."""
    from driftsurf.estimators.classes import find_estimator

    file = model_path(path)
    data = files.read_with_backup(file, good=read_header)
    head: dict[str, Any] = peek(data)
    kind = find_estimator(str(head.get("estimator")))
    if kind is None:
        raise StateError(f"{str(file)!r} does not hold the model of a run")
    about: dict[str, Any] = {}
    if (file.parent / ABOUT).exists():
        try:
            about = parse_json(files.read_text(file.parent / ABOUT))
        except ValueError as error:
            raise RunFolderError(f"{str(file.parent / ABOUT)!r} is damaged: {error}") from error
        if not isinstance(about, dict):
            raise RunFolderError(f"{str(file.parent / ABOUT)!r} is damaged: it holds no object, but {about!r:.50}")
    learner = None
    if find("learner", str(head["learner"])) is None and "decided" in about:
        task = Target.from_json(about["decided"]["target"]).task
        foreign = imported_class(about["model"], about["learner"])
        if foreign and not trusted:
            raise OptionError(
                f"the learner of {str(path)!r} is {foreign}, which is not part of driftsurf; if you trust this run, "
                "import it with ",
                Option("trust_config", True),
            )
        learner = make_strategy(about["model"], about["learner"], task, about["parameters"]).learner
    if read_header(data).pickle and not trusted:
        raise OptionError(
            f"the model of {str(path)!r} contains pickles, which run code when they are loaded; if you trust this run, "
            "load it with ",
            Option("trust_config", True),
        )
    return about, kind.from_bytes(data, learner, trust_pickle=trusted)


def _reader(
    source: str, frames: FrameEncoder, given: ReadingOptions, asked: PredictOptions, about: Mapping[str, Any]
) -> SourceReader:
    """Return a reader of the rows, which takes columns for what they were in the run."""
    id = asked.id or about.get("id") or about.get("key")
    reading = frames.reading_for(given, {} if id is None else {id: "text"})
    opened = open_source(source, reading, batch_size=BATCH_ROWS)
    if opened.cells == "typed":  # a typed column has its kind already, and becomes what it was in the run later
        opened = open_source(source, replace(reading, kinds=given.kinds), batch_size=BATCH_ROWS)
    opened.check()
    return SourceReader(opened, raw=False)


def _id_column(first: Table, asked: PredictOptions, about: Mapping[str, Any]) -> str | None:
    """Return the column of ids: the one that was asked for, or that of the run if the rows have it."""
    if asked.id is not None and asked.id not in first.columns:
        raise SchemaError(Option("id"), f" is {asked.id!r}; the columns are {', '.join(map(repr, first.columns))}")
    name = asked.id or about.get("id") or about.get("key")
    return name if name in first.columns else None


def _predicted(
    model: AdaptiveEstimator, frames: FrameEncoder, reader: SourceReader, id: str | None, asked: PredictOptions
) -> PredictedRows:
    labels = model._session.targets.labels
    classes = shown_classes(model._session.strategy.learner, sorted(labels)) if asked.all_classes else ()
    context = SinkContext(
        _label_type(model),
        has_ids=id is not None,
        has_true=False,
        has_versions=False,
        classes=tuple(map(label_text, classes)),
        overwrite=asked.overwrite,
        option="out",
    )
    sink = open_sink(os.fspath(asked.out), context)
    count = 0
    try:
        for batch in _batches(model, frames, reader, id, classes):
            if not count:  # a first batch that cannot be predicted leaves no header
                sink.begin()
            sink.take(replace(batch, first_row=count))
            count += len(batch)
        sink.finish()
    finally:
        if isinstance(sink, Closable):
            sink.close()
    return PredictedRows(count, reader.skipped)


def _batches(
    model: Any, frames: FrameEncoder, reader: SourceReader, id: str | None, classes: tuple[Any, ...]
) -> Iterator[PredictionBatch]:
    session = model._session
    for read in reader.tables():
        seen = read.table if id is None or id in frames.columns else read.table.without(id)
        X = _encoded(frames, seen, reader)
        found = predict_now(session, X)
        shares = model._probabilities(session.now, session.scores(X)) if classes else np.zeros((0, 0))
        yield PredictionBatch(
            0,
            None,
            found.labels,
            None if _label_type(model) == "value" else found.probability,
            ids=None if id is None else text_of(read.table, id),
            by_class=by_class(shares, classes, classes),
        )


def _encoded(frames: FrameEncoder, table: Table, reader: SourceReader) -> Any:
    """Return the rows as numbers; an error about their columns names the source and the options that accept them."""
    try:
        return frames.rows(table)
    except SchemaError as error:
        raise SchemaError(
            f"{reader.source.name}: ",
            *error.args,
            "; leave added columns out with ",
            Option("on_schema_change", "ignore-added"),
            ", or also fill removed ones with ",
            Option("on_schema_change", "fill-removed"),
        ) from error


def _label_type(model: Any) -> LabelType:
    targets = model._session.targets
    if not targets.n_classes:
        return "value"
    return {"U": "text", "b": "boolean"}.get(targets.array.dtype.kind, "integer")  # type: ignore[return-value]
