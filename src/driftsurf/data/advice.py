"""Summary of how the columns of a table were read, and advice where columns or labels look misread."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from driftsurf.core.options import shown
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.formats._cells import (
    SPACES,
    Ways,
    infer_kind,
    number_reader,
    suggest_date_options,
    suggest_number_options,
)
from driftsurf.data.reading_options import LISTS, ReadingOptions
from driftsurf.data.source import Cells, Source, remarks_of
from driftsurf.data.tables import Column, Table
from driftsurf.errors import Message, Option

if TYPE_CHECKING:
    from driftsurf.data.row_encoder import Target

SAMPLED_ROWS = 1000
"""Number of rows that are examined."""
LEAST_OTHERS = 20
"""With fewer rows of other classes than the most frequent one (or fewer different numbers), a column may fit by
chance."""
ERROR_SHARE = 0.02
"""A column gives the label away if it leaves at most this share of the errors of the most frequent class ..."""
LARGEST_ERROR = 0.01
"""... and of all rows at most this share."""
LEAST_CORRELATION = 0.9995
"""A column that is so closely correlated with a number to be predicted gives it away."""
FEW_ROWS = 3
"""Fewer rows of another class between two of the same class are exceptions."""
MOST_CODES = 50
"""Numbers with at most this many different values are compared one by one; others by where they change the class."""


class Leak(NamedTuple):
    """A column that predicts the label by itself."""

    column: str
    rows: int
    """Number of rows that were examined."""
    right: int
    """Number of rows whose label follows from the column; for a number to be predicted, all rows."""


def find_leaks(table: Table, y: npt.NDArray[Any], *, regression: bool = False) -> Iterator[Leak]:
    """Yield the columns of the first rows that alone tell the label, where the most frequent class does not.

    Columns that only rise, such as clocks, are passed over: in a file that is sorted by its label they tell the label,
    too. So is a column that is the only one.

    >>> from driftsurf.data.frames import read_table
    >>> refund = [i % 3 == 0 for i in range(90)]
    >>> table = read_table({"size": [i % 7 for i in range(90)], "refund": [5.0 if r else None for r in refund]})
    >>> list(find_leaks(table, np.array(refund)))
    [Leak(column='refund', rows=90, right=90)]
    """
    if len(table.columns) < 2:
        return
    rows = min(len(table), len(y), SAMPLED_ROWS)
    table, y = table.rows(0, rows), y[:rows]
    if regression:
        for name, column in table.columns.items():
            if _is_correlated(column, np.asarray(y, np.float64)):
                yield Leak(name, rows, rows)
        return
    classes, codes = np.unique(y, return_inverse=True)
    others = rows - int(np.bincount(codes).max(initial=0))
    if others < LEAST_OTHERS:
        return
    for name, column in table.columns.items():
        wrong = _errors(column, codes, len(classes))
        if wrong <= min(ERROR_SHARE * others, LARGEST_ERROR * rows):
            yield Leak(name, rows, rows - wrong)


def _errors(column: Column, codes: npt.NDArray[np.int64], n_classes: int) -> int:
    """Return how many labels the column does not tell, in the best way to read it."""
    missing = column.missing()
    wrong = _group_errors(missing.astype(np.int64), codes, n_classes)
    if column.kind == "text":
        first: dict[str, int] = {}  # a word may occur twice
        values = np.array([*(first.setdefault(word, len(first)) for word in column.words), -1])[column.values]
        return min(wrong, _group_errors(values, codes, n_classes))
    if (
        column.kind in ("number", "date")
        and not missing.any()
        and bool((column.values[1:] >= column.values[:-1]).all())
    ):
        return len(codes)
    distinct = np.unique(column.values[~missing])
    values = np.searchsorted(distinct, column.values)
    values[missing] = -1
    if len(distinct) <= MOST_CODES:
        return min(wrong, _group_errors(values, codes, n_classes))
    return min(wrong, _interval_errors(values, codes, n_classes))


def _counts(values: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], n_classes: int) -> npt.NDArray[np.int64]:
    """Return how often each class occurs with each value, in the order of values."""
    groups, places = np.unique(values, return_inverse=True)
    return np.bincount(places * n_classes + codes, minlength=len(groups) * n_classes).reshape(len(groups), n_classes)


def _group_errors(values: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], n_classes: int) -> int:
    """Return the errors of predicting the most frequent class of each value. A value that occurs once tells nothing."""
    counts = _counts(values, codes, n_classes)
    single = counts.sum(axis=1) == 1
    return int(len(codes) - counts.max(axis=1)[~single].sum())


def _interval_errors(values: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], n_classes: int) -> int:
    """Return the errors of predicting one class for each of as many intervals as there are classes.

    Values are sorted and cut where their most frequent class changes. Intervals of a few rows are left out, and the
    longest of the others are chosen; all rows outside of them count as wrong.
    """
    counts = _counts(values, codes, n_classes)
    best, right = counts.argmax(axis=1), counts.max(axis=1)
    for least in (1, FEW_ROWS):
        starts = np.flatnonzero(np.diff(best, prepend=-1))
        best, right = best[starts], np.add.reduceat(right, starts)
        best, right = best[right >= least], right[right >= least]
    if not len(best):
        return len(codes)
    starts = np.flatnonzero(np.diff(best, prepend=-1))
    return int(len(codes) - np.sort(np.add.reduceat(right, starts))[-n_classes:].sum())


def _is_correlated(column: Column, y: npt.NDArray[np.float64]) -> bool:
    there = ~column.missing() & np.isfinite(y)
    if column.kind != "number" or there.sum() < LEAST_OTHERS:
        return False
    x, target = column.values[there], y[there]
    if min(len(np.unique(x)), len(np.unique(target))) < LEAST_OTHERS:  # a few odd rows would decide
        return False
    with np.errstate(all="ignore"):
        x, target = x - x.mean(), target - target.mean()
        scale = np.sqrt((x @ x) * (target @ target))
        return bool(np.isfinite(scale) and scale > 0 and abs(x @ target) >= LEAST_CORRELATION * scale)


UNITS = f"$€£¥%{SPACES}"
_BRACKETS = re.compile(r"\((.*)\)")
SAMPLED_WORDS = 200
"""Number of different words of a column that are examined."""
NUMBER_SHARE = 0.8
"""A text column with at least this share of numbers is a column of numbers with a few other words ..."""
MOST_OTHER_WORDS = 3
"""... if there are at most this many different ones."""
INFERRED = "text", "json"
"""How values arrive where the kinds of columns are inferred, so that reading options can change them."""
MOST_LEAKS = 5
"""Number of columns that give the label away that are pointed out."""


class _Hint(NamedTuple):
    """Advice about one column."""

    message: Message
    ways: Ways
    """Alternatives of options that follow the advice."""


def hints(
    source: Source,
    table: Table,
    label: str | None = None,
    y: npt.NDArray[Any] | None = None,
    *,
    regression: bool = False,
    read: Sequence[Table] = (),
    combined: bool = True,
) -> list[Message]:
    """Return advice about the columns of the first table of a source, of which ``label`` is to be predicted.

    With ``y``, what is to be predicted in each row of the table, columns that give it away are pointed out. ``read``
    are tables that were read with the same options, with columns that ``table`` may lack. If several columns have
    advice and it is ``combined``, a last line has all options that read them better.

    >>> import pathlib, tempfile
    >>> from driftsurf.data import open_source
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "preise.csv"
    >>> _ = path.write_text("tag;preis\\n31.12.2007;1,5\\n1.1.2008;12,25\\n")
    >>> source = open_source(path)
    >>> for hint in hints(source, next(source.tables())[0]):
    ...     print(hint)
    the column 'tag' was read as text but looks like dates ('31.12.2007'); try date_formats='%d.%m.%Y'
    the column 'preis' was read as text but looks like numbers ('1,5'); try decimal=','
    all at once: date_formats='%d.%m.%Y' decimal=','
    """
    reading, cells = source.reading, source.cells
    found = remarks_of(source)
    if reading.date_formats and not any(one.kind == "date" for each in (table, *read) for one in each.columns.values()):
        found.append(
            Message(
                "no column was read as dates of the format ",
                Option("date_formats", reading.date_formats[0]),
                "; if a column looks like numbers, or is rarely present, set its kind with ",
                Option("kinds"),
            )
        )
    of_columns = list[_Hint]()
    for name, column in table.columns.items():
        if column.kind == "text" and name not in reading.kinds and len(column.used()):
            of_columns += islice(_text_hints(name, column, reading, cells), 1)
    found += [hint.message for hint in of_columns]
    if combined:
        found += _all_at_once([hint.ways for hint in of_columns])
    if y is not None:
        columns = table if label is None else table.without(label)
        found += [_leak_hint(leak) for leak in islice(find_leaks(columns, y, regression=regression), MOST_LEAKS)]
    return found


def _all_at_once(advice: Sequence[Ways]) -> Iterator[Message]:
    """Yield the options of all hints that leave no choice, if they are more than those of one hint and agree."""
    sure = [[part for part in ways[0] if isinstance(part, Option)] for ways in advice if len(ways) == 1]
    values = dict[str, list[Any]]()
    for option in (option for options in sure for option in options):
        known = values.setdefault(option.name, [])
        known += [option.value] * (option.value not in known)
    if any(len(several) > 1 and name not in LISTS for name, several in values.items()):
        return
    if sum(map(len, values.values())) > max(map(len, sure), default=0):
        merged = [Option(name, several[0] if len(several) == 1 else tuple(several)) for name, several in values.items()]
        yield Message("all at once:", *(part for option in merged for part in (" ", option)))


def _leak_hint(leak: Leak) -> Message:
    return Message(
        f"the column {leak.column!r} alone tells the label in {leak.right:,} of the first {leak.rows:,} rows. If it is "
        "not known before the label is, the model will be worse on new rows than it seems; leave it out with ",
        Option("drop", leak.column),
    )


def number_hint(source: Source, column: Column) -> Message:
    """Return which options would read a text column as numbers, in brackets; an empty message if none would."""
    ways = _number_ways(_words(column), source.reading, source.cells) if column.kind == "text" else []
    return Message(" (it looks like numbers; try ", *_either(ways), ")") if ways else Message()


def _words(column: Column) -> list[str]:
    return [column.words[code] for code in column.used()[:SAMPLED_WORDS].tolist()]


def _number_ways(words: list[str], reading: ReadingOptions, cells: Cells) -> Ways:
    return suggest_number_options(words, reading) if words and cells in INFERRED else []


def _either(ways: Ways) -> list[str | Option]:
    return [part for place, way in enumerate(ways) for part in ([" or "] if place else []) + way]


def _text_hints(name: str, column: Column, reading: ReadingOptions, cells: Cells) -> Iterator[_Hint]:
    """Yield what a text column may really be, the most likely first."""
    words = _words(column)
    looks_like = {
        "numbers": _number_ways(words, reading, cells),
        "dates": suggest_date_options(words, reading) if cells in INFERRED else [],
    }
    for what, ways in looks_like.items():
        if ways:
            told = f"the column {name!r} was read as text but looks like {what} ({words[0]!r}); try "
            yield _Hint(Message(told, *_either(ways)), ways)
    yield from _unit_hint(name, words, reading)
    present = int((~column.missing()).sum())
    if cells == "text":
        others, count = _words_that_are_not_numbers(column, reading)
        if 0 < len(others) <= MOST_OTHER_WORDS and count <= (1 - NUMBER_SHARE) * present:
            advice: list[str | Option] = [part for word in others for part in (" ", Option("missing", word))]
            told = (
                f"the column {name!r} was read as text because of {', '.join(map(repr, others))} ({count:,} of "
                f"{present:,} cells); the other cells are numbers. If it means 'no value', pass"
            )
            yield _Hint(Message(told, *advice), [advice])


def _unit_hint(name: str, words: list[str], reading: ReadingOptions) -> Iterator[_Hint]:
    """Yield a hint if the words would be numbers without a unit, or with a minus in place of brackets."""
    bare = [word.strip(UNITS) for word in words]
    signed = [_BRACKETS.sub(r"-\1", word) for word in bare]
    if signed == words or not (infer_kind(signed, reading) == "number" or suggest_number_options(signed, reading)):
        return
    first = next(word for word, plain in zip(words, signed, strict=True) if word != plain)
    how = f"with a unit ({first!r}); write them without it"
    if signed != bare:
        how = f"in brackets ({first!r}); write them with a minus, if that is the meaning"
    yield _Hint(Message(f"the column {name!r} was read as text but looks like numbers {how}"), [])


def _words_that_are_not_numbers(column: Column, reading: ReadingOptions) -> tuple[list[str], int]:
    """Return the words that are not numbers, a few at most, and the number of cells that hold one."""
    read, others = number_reader(reading), list[int]()
    for code in column.used().tolist():
        try:
            read(column.words[code])
        except ValueError:
            others.append(code)
            if len(others) > MOST_OTHER_WORDS:
                break
    return [column.words[code] for code in others], sum(int((column.values == code).sum()) for code in others)


LEAST_ROWS = 20
"""With fewer labels, all of them may differ by chance."""
FEW_CLASSES = 10
"""At most so many different whole numbers are usually classes, such as digits or grades."""
MOST_SPELLINGS = 5
"""Number of classes with several spellings that are pointed out."""
ROWS_PER_CLASS = 10
"""Whole numbers that occur at least this many times each on average may be classes, however many there are."""


def label_hints(target: Target, task: str, y: npt.NDArray[Any]) -> list[Message]:
    """Return advice about the first labels ``y`` of a target; ``task`` is what was asked for, such as "auto".

    >>> from driftsurf.data.row_encoder import Target
    >>> classes = np.arange(1000) % 40
    >>> print(*label_hints(Target("class", "regression"), "auto", classes.astype(float)))
    the label 'class' has 40 different whole numbers in the first 1,000 rows and is predicted as a number \
(task='regression'); if they are classes, pass task='multiclass'
    """
    rows = len(y)
    if target.test:
        return []
    spellings = list(_spelling_hints(target.column, y))
    if spellings or rows < LEAST_ROWS:
        return spellings
    distinct, number = len(np.unique(y)), y.dtype.kind in "if"
    whole = number and bool((y == np.floor(y)).all())
    regression = target.task == "regression"
    is_new = distinct == rows if regression else 2 * distinct > rows
    if is_new and (whole or not regression):
        return [_identifier_hint(target.column, distinct, rows)]
    if task != "auto" or not whole or not (regression or distinct > FEW_CLASSES):
        return []
    if regression and distinct * ROWS_PER_CLASS > rows:
        return []
    meant, other = ("a number", "classes") if regression else ("a class", "amounts, counts or grades")
    return [
        Message(
            f"the label {target.column!r} has {distinct:,} different whole numbers in the first {rows:,} rows and is "
            f"predicted as {meant} (",
            Option("task", target.task),
            f"); if they are {other}, pass ",
            Option("task", "multiclass" if regression else "regression"),
        )
    ]


def _spelling_hints(column: str, y: npt.NDArray[Any]) -> Iterator[Message]:
    """Yield a hint for labels that differ only in case or blanks, unless nearly all labels differ."""
    labels = np.unique(y).tolist() if y.dtype.kind == "U" else []
    alike = dict[str, list[str]]()
    for label in labels if 2 * len(labels) <= len(y) else ():
        alike.setdefault(" ".join(label.casefold().split()), []).append(label)
    for same in islice((same for same in alike.values() if len(same) > 1), MOST_SPELLINGS):
        yield Message(
            f"the label {column!r} has {' and '.join(map(shown, same))}, which differ only in case or blanks and are "
            "learned as different classes; if they mean the same, write them alike in the source"
        )


def _identifier_hint(column: str, distinct: int, rows: int) -> Message:
    return Message(
        f"the label {column!r} has {distinct:,} different values in the first {rows:,} rows; if it identifies the row, "
        "nothing can be learned: name the column to predict with ",
        Option("label"),
    )


MOST_CLASSES = 20
"""Largest number of classes that are listed; more are only counted."""


class ColumnSummary(TypedDict):
    """Columns by what they were read as: plain values, ready for JSON."""

    numbers: list[str]
    booleans: list[str]
    dates: list[str]
    names: dict[str, int]
    """Text columns with a slot for each word, and their number of words in the first batch."""
    hashed: dict[str, int]
    """Text columns with more words, which share slots."""
    empty: list[str]
    """Columns without a value in the first batch, which are treated as text."""
    features: int
    """Number of sparse features."""
    left_out: list[str]
    label: str
    task: str
    n_classes: int
    """Number of classes; 0 for regression."""
    classes: list[Any]


def summarise_columns(
    encoder: TableEncoder, table: Table, target: Target, y: npt.NDArray[Any], left_out: Iterable[str] = ()
) -> ColumnSummary:
    """Return what the columns of the first batch become, from the encoder that was fitted on it, and its labels.

    >>> from driftsurf.data.frames import read_table
    >>> from driftsurf.data.row_encoder import find_target
    >>> table = read_table({"price": [1.5, 2.5], "city": ["Rome", "Oslo"], "sold": [True, False]})
    >>> columns = table.without("sold")
    >>> target = find_target("sold", "auto", table)
    >>> summary = summarise_columns(TableEncoder().fit(columns), columns, target, target.read(table))
    >>> summary["numbers"], summary["names"], summary["classes"]
    (['price'], {'city': 2}, [False, True])
    """
    classes = [] if target.task == "regression" else np.unique(y).tolist()
    summary = ColumnSummary(
        numbers=[],
        booleans=[],
        dates=[],
        names={},
        hashed={},
        empty=[],
        features=0 if table.features is None else table.features.n_features,
        left_out=list(dict.fromkeys(left_out)),
        label=f"{target.column} {target.test} {target.value}".strip(),
        task=target.task,
        n_classes=len(classes),
        classes=classes[:MOST_CLASSES],
    )
    for slots in encoder.layout.columns:
        match slots.kind:
            case "number":
                summary["numbers"].append(slots.name)
            case "boolean":
                summary["booleans"].append(slots.name)
            case "date":
                summary["dates"].append(slots.name)
            case "text" if slots.gaps:
                summary["empty"].append(slots.name)
            case "text" if slots.words:
                summary["names"][slots.name] = len(slots.words)
            case "text":
                summary["hashed"][slots.name] = len(table[slots.name].as_text().used())
    return summary
