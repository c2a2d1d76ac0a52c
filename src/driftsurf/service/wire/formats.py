"""Formats of bodies and answers, and the readers that are made from the columns of a model."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
import numpy as np

from driftsurf.core.contracts import FloatArray
from driftsurf.data.reading_options import ReadingOptions
from driftsurf.errors import OptionError
from driftsurf.runs.predictions import class_column, label_text
from driftsurf.service.contract import Answer, ServedColumn
from driftsurf.service.http.answers import PredictionsAnswer
from driftsurf.service.http.problems import HttpProblem
from driftsurf.service.wire.arrow_rows import ArrowRows
from driftsurf.service.wire.csv_rows import CsvRows
from driftsurf.service.wire.json_rows import JsonRows
from driftsurf.service.wire.rows import OnBadRow, RowsRead, WireColumn, WireFormat
from driftsurf.service.wire.tensors import TensorRows

Format: TypeAlias = Literal["json", "ndjson", "csv", "arrow"]
Purpose: TypeAlias = Literal["predict", "learn", "label"]
Read: TypeAlias = Callable[[bytes, OnBadRow, int], RowsRead]
MEDIA: Final[dict[Format, str]] = {
    "json": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "arrow": "application/vnd.apache.arrow.stream",
}
_FORMATS: Final[dict[str, Format]] = {
    **{media: name for name, media in MEDIA.items()},
    "": "json",
    "application/x-www-form-urlencoded": "json",  # what curl -d says of any body
    "application/jsonl": "ndjson",
    "application/ndjson": "ndjson",
}


def body_format(content_type: str) -> Format:
    """Return the format of a body; HttpProblem for one that is not known.

    >>> body_format("text/csv; charset=utf-8")
    'csv'
    """
    media = content_type.partition(";")[0].strip().lower()
    found = _FORMATS.get(media)
    if found is None:
        raise HttpProblem("no-format", f"Content-Type is {media[:100]!r}; choices: {', '.join(MEDIA.values())}")
    return found


def answer_format(accept: str, body: Format) -> Format:
    """Return the format of an answer: the first one accepted, or that of the body if any is.

    >>> answer_format("*/*", "arrow"), answer_format("text/html, text/csv;q=0.9", "json")
    ('arrow', 'csv')
    """
    if accept in ("", "*/*"):
        return body
    ranked = []
    for place, part in enumerate(accept.split(",")[:20]):
        media, *parameters = (one.strip().lower() for one in part.split(";"))
        ranked.append((-_quality(parameters), place, media))
    for negative, _, media in sorted(ranked):
        if media in ("", "*/*", "application/*") and negative < 0:
            return body
        if media in _FORMATS and negative < 0:
            return _FORMATS[media]
    raise HttpProblem("not-acceptable", f"Accept is {accept[:100]!r}; choices: {', '.join(MEDIA.values())}")


def _quality(parameters: list[str]) -> float:
    for one in parameters:
        name, _, value = one.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


class RowShape(Protocol):
    """What the rows of a model look like; a version of the model is one."""

    @property
    def columns(self) -> tuple[ServedColumn, ...]:
        """The columns of a row; empty before the first rows of a model without declared columns."""
        ...

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes that are known."""
        ...


@dataclass(slots=True)
class ModelFormats:
    """Readers of the rows of a model, made when its columns or classes change.

    Parameters
    ----------
    id
        The column of ids; "" if rows never have one.
    label
        The column of labels; "" if rows never have one.
    reading
        How text becomes dates, and what to do with added and missing columns.
    drop
        Further columns that rows may have and that are not read.
    hints
        What to do about columns that a user may expect to be known, by name.
    """

    id: str = "id"
    label: str = ""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    drop: tuple[str, ...] = ()
    hints: Mapping[str, str] = field(default_factory=dict)
    _made_for: tuple[Any, Any] | None = None
    _newest: RowShape | None = None
    """The last version asked for, whose columns need not be compared again."""
    _readers: dict[tuple[Purpose, Format], Read] = field(default_factory=dict)

    def reader(self, snapshot: RowShape, purpose: Purpose, format: Format) -> Read:
        """Return what reads the rows of a request."""
        if snapshot is not self._newest:
            made_for = snapshot.columns, snapshot.classes
            if made_for != self._made_for:
                self._made_for, self._readers = made_for, {}
            self._newest = snapshot
        found = self._readers.get((purpose, format))
        if found is None:
            found = self._readers[purpose, format] = self._make(snapshot, purpose, format)
        return found

    def tensors(self, snapshot: RowShape) -> TensorRows:
        """Return what reads the rows of tensors."""
        return TensorRows(self._wire(snapshot, "predict"))

    def _wire(self, snapshot: RowShape, purpose: Purpose) -> WireFormat:
        known = tuple(WireColumn(one.name, one.kind) for one in snapshot.columns)
        wire = WireFormat(
            known or None,
            id=self.id or None,
            ignored=self.drop,
            reading=self.reading,
            classes=tuple(snapshot.classes),
            hints=self.hints,
        )
        if purpose == "predict":
            wire = replace(wire, ignored=(*self.drop, *([self.label] if self.label else [])))
        else:
            if not self.label:
                raise OptionError("this model has no column of labels; name it with driftsurf serve --label COLUMN")
            wire = replace(wire, label=self.label)
        if purpose == "label":
            others = tuple(one.name for one in known)
            wire = replace(wire, columns=(), id_required=True, ignored=(*self.drop, *others))
        return wire

    def _make(self, snapshot: RowShape, purpose: Purpose, format: Format) -> Read:
        wire = self._wire(snapshot, purpose)
        match format:
            case "json":
                return JsonRows(wire).read
            case "ndjson":
                return JsonRows(wire).read_lines
            case "csv":
                return CsvRows(wire).read
            case "arrow":
                return ArrowRows(wire).read


# ---------------------------------------------------------------------------- answers


_ENCODER = msgspec.json.Encoder()
FEW_CLASSES = 8
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
"""Last bytes of a stream of Arrow."""


def encode_answer(name: str, answer: Answer, rows: RowsRead, format: Format, *, all_classes: bool) -> bytes:
    """Return predictions in a format: an object in JSON; in lines, CSV and Arrow a row for each row."""
    if format == "json":
        return _ENCODER.encode(predictions_of(name, answer, rows, all_classes=all_classes))
    columns = _columns(answer, rows, all_classes=all_classes)
    if format == "arrow":
        return _arrow(columns, answer.classes)
    listed = [one.tolist() if isinstance(one, np.ndarray) else one for one in columns.values()]
    records = zip(*listed, strict=True)
    if format == "ndjson":
        return _ENCODER.encode_lines([dict(zip(columns, record, strict=True)) for record in records])
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([["" if cell is None else _cell(cell) for cell in record] for record in records])
    return text.getvalue().encode()


def predictions_of(name: str, answer: Answer, rows: RowsRead, *, all_classes: bool) -> PredictionsAnswer:
    """Return an answer as it is written in JSON."""
    shares = answer.probabilities
    probabilities: Any = None
    if shares is not None and all_classes:
        probabilities = {label_text(one): shares[:, place].tolist() for place, one in enumerate(answer.classes)}
    elif shares is not None:
        probabilities = _largest(shares).tolist()
    return PredictionsAnswer(
        name,
        answer.version,
        [None] * len(rows) if answer.labels is None else answer.labels.tolist(),
        probabilities,
        rows.ids,
        answer.position,
        answer.repeated,
        rows.n_skipped,
        list(rows.faults) or None,
        answer.guess,
    )


def _cell(value: Any) -> Any:
    return label_text(value) if isinstance(value, bool) else value


def _columns(answer: Answer, rows: RowsRead, *, all_classes: bool) -> dict[str, Any]:
    """Return predictions as columns of equal length, as ``driftsurf predict`` writes them."""
    columns: dict[str, Any] = {} if rows.ids is None else {"id": rows.ids}
    columns["prediction"] = [None] * len(rows) if answer.labels is None else answer.labels
    shares = answer.probabilities
    if shares is not None and all_classes:
        columns |= {class_column(label_text(one)): shares[:, place] for place, one in enumerate(answer.classes)}
    elif shares is not None:
        columns["probability"] = _largest(shares)
    columns["version"] = np.full(len(rows), answer.version)
    return columns


def _largest(shares: FloatArray) -> FloatArray:
    """Return the largest share of each row; that of two is found without a loop over short rows."""
    if shares.shape[1] == 2:
        return np.maximum(shares[:, 0], shares[:, 1])
    return np.asarray(np.maximum.reduce(shares, axis=1))


def _arrow_labels(labels: Any, classes: tuple[Any, ...]) -> Any:
    """Return labels as an Arrow array; converting text of numpy one by one would take longer than predicting it."""
    import pyarrow as pa

    if not 0 < len(classes) <= FEW_CLASSES or not isinstance(labels, np.ndarray) or labels.dtype.kind != "U":
        return pa.array(labels)
    codes = (labels == classes[-1]).view(np.int8) * np.int8(len(classes) - 1)
    for code, one in enumerate(classes[1:-1], 1):
        codes[labels == one] = code
    return pa.array(classes).take(pa.array(codes))


def _arrow(columns: Mapping[str, Any], classes: tuple[Any, ...]) -> bytes:
    import pyarrow as pa

    arrays = {name: pa.array(values) for name, values in columns.items() if name != "prediction"}
    arrays["prediction"] = _arrow_labels(columns["prediction"], classes)
    batch = pa.record_batch({name: arrays[name] for name in columns})
    data: bytes = batch.schema.serialize().to_pybytes() + batch.serialize().to_pybytes() + END_OF_STREAM
    return data
