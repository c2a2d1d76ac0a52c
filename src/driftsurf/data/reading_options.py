"""Options that say how files and messages become tables: every one is defined here, and only here."""

from __future__ import annotations

import codecs
import datetime
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

from driftsurf.core.options import choice, number, option, whole
from driftsurf.errors import Option, OptionError

BATCH_ROWS = 1000
"""Rows of a time step of tables, if nothing else is asked for."""
STANDARD_INPUT = "-"
"""Location of standard input, as a source."""
FRAME = "<frame>"
"""What stands for the location of a frame, which has none."""

Kind: TypeAlias = Literal["number", "boolean", "date", "text"]
"""Kind of the values of a column."""
KINDS: tuple[Kind, ...] = get_args(Kind)
OnSchemaChange: TypeAlias = Literal["fail", "ignore-added", "fill-removed"]
OnBadRow: TypeAlias = Literal["fail", "skip"] | int

MISSING = "", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A"
"""Cells that always mean "no value"."""
DECIMALS = ".", ","
ROW_BYTES = 2**22
"""Largest number of bytes of a row of text, unless an option allows more."""
LISTS = "categorical", "drop", "names", "date_formats", "missing"
"""Options that are lists of strings."""
DATE_EXAMPLES = "use the codes of strptime and include the year, as in %d.%m.%Y or '%m/%d/%Y %I:%M %p'"


def _parse_on_bad_row(text: str) -> OnBadRow:
    if text == "fail":
        return "fail"
    if text == "skip":
        return "skip"
    number = text.removeprefix("stop-after").lstrip(" =")
    if not number.isdecimal():
        raise ValueError("choices: fail, skip, or a number of rows")
    return int(number)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How the rows of a source are read. The defaults suit files that follow the usual conventions.

    Parameters
    ----------
    categorical
        Columns whose numbers are names, such as postal codes.
    drop
        Columns to leave out.
    kinds
        "number", "boolean", "date" or "text" for columns that would be inferred as something else.
    rows
        Number of rows to read; None for all. Rows that are skipped because they are bad do not count.
    format
        Name of a registered format, such as "csv"; None infers it from the file name.
    delimiter
        Character between the cells of CSV; None infers comma, semicolon, tab or bar from the first line.
    header
        Whether the first line of a CSV file, or the first row of an Excel sheet, holds the names of columns. None looks
        at it: numbers above columns of numbers are a row. Columns without names are called "column_1" and so on.
    names
        Names of columns, for a file without a header line or, with ``header=True``, in place of its names.
    sheet
        Name of the sheet of an Excel file; None for the first.
    comment
        Character with which lines that are not rows begin, such as "#". Before the header line of CSV, such lines with
        "#" are always passed over.
    decimal
        Decimal mark of numbers in CSV and ARFF, and of numbers that JSON holds as text: "." or ",".
    thousands
        Character between groups of digits, such as "." in 1.234.567,8. A space or an apostrophe stands for all its
        typographic variants. None: numbers have no groups.
    date_formats
        Formats of dates besides ISO 8601, in the notation of ``datetime.strptime``: ("%d.%m.%Y",).
    missing
        Cells of CSV and texts of JSON that mean "no value", besides the usual ones ("", "NA", "null", "?" ...).
    encoding
        Encoding of text, as Python names it: "cp1252", "latin-1", "utf-16" ... None reads UTF-8, and cp1252 if the
        first rows are not UTF-8; a byte order mark decides first.
    on_schema_change
        What to do when a later file has other columns: "fail"; "ignore-added" drops added columns; "fill-removed" also
        fills removed columns with missing values. A column of another kind is always an error.
    on_bad_row
        What to do with a row that cannot be read: "fail", "skip", or a number to fail after that many skipped rows.
    max_row_bytes
        Largest number of bytes of a row of text. A longer one cannot be read: see ``on_bad_row``.
    batch_wait
        Seconds after which a batch of messages of a broker or database is taken that is not full yet, if the source is
        followed.
    sample_rows
        Number of rows at the start of the first file from which the kinds of columns are inferred; of a growing file
        that is followed at most 100, so that it need not be waited for longer.
    n_features
        Number of columns of a LIBSVM file; None takes the largest index in the first ``sample_rows`` rows.
    zero_based
        Whether the indices of a LIBSVM file start at 0 instead of 1.
    block_bytes
        Number of bytes read at a time. Affects speed and memory only.

    Examples
    --------
    >>> ReadingOptions(decimal=",", kinds={"zip": "text"}).check()
    >>> ReadingOptions(delimiter=";;").check()
    Traceback (most recent call last):
    driftsurf.errors.OptionError: delimiter must be one character that is not a quote, a letter or a digit; got ';;'
    """

    categorical: Sequence[str] = option(
        (), "A column whose numbers are names; can be repeated.", metavar="COLUMN", repeated=True
    )
    drop: Sequence[str] = option((), "A column to leave out; can be repeated.", metavar="COLUMN", repeated=True)
    kinds: Mapping[str, Kind] = option(
        {},
        "Kind of a column: number, boolean, date or text; can be repeated.",
        flag="--kind",
        metavar="COLUMN=KIND",
        pairs=True,
    )
    rows: int | None = option(
        None,
        "Use only the first rows; a built-in stream is generated with that many, and keeps its drifts.  [default: all; "
        "of a generated stream, as many as in the paper]",
        at_least=1,
    )
    format: str | None = option(
        None, "Format of the files, such as csv or parquet.  [default: from the file name]", metavar="NAME"
    )
    delimiter: str | None = option(None, "Character between the cells of a CSV file.  [default: inferred]")
    header: bool | None = option(
        None, "Whether the first line of CSV holds the names of columns.  [default: by what it looks like]"
    )
    names: Sequence[str] | None = option(
        None,
        "Names of the columns of a file without a header line, separated by commas.",
        metavar="NAME,...",
        commas=True,
    )
    sheet: str | None = option(None, "Sheet of an Excel file.  [default: the first]", metavar="NAME")
    comment: str | None = option(
        None, "Character with which lines that are not rows begin, such as '#'.", metavar="CHARACTER"
    )
    decimal: str = option(".", "Decimal mark of numbers.", choices=DECIMALS)
    thousands: str | None = option(None, "Character between groups of digits.  [default: none]", metavar="CHARACTER")
    date_formats: Sequence[str] = option(
        (),
        "Format of dates that are not ISO 8601, such as %d.%m.%Y; can be repeated.",
        flag="--date-format",
        metavar="FORMAT",
        repeated=True,
    )
    missing: Sequence[str] = option(
        (), "A cell that means 'no value', besides NA, ? and the like; can be repeated.", metavar="CELL", repeated=True
    )
    encoding: str | None = option(
        None,
        "Encoding of a text file, such as cp1252 or utf-16.  [default: utf-8, or cp1252 if the first rows are not]",
        metavar="NAME",
    )
    on_schema_change: OnSchemaChange = option(
        "fail", "What to do when a later file has other columns.", choices=get_args(OnSchemaChange)
    )
    on_bad_row: OnBadRow = option(
        "fail",
        "What to do when a row cannot be read; N fails after more than N skipped rows.",
        metavar="fail|skip|N",
        parse=_parse_on_bad_row,
    )
    max_row_bytes: int = option(ROW_BYTES, "Bytes of a row of text at most.", at_least=1)
    batch_wait: float = option(
        1.0,
        "Seconds after which a batch of messages is taken that is not full yet, with --follow.",
        metavar="SECONDS",
        at_least=0.0,
    )
    sample_rows: int = option(1000, "Rows from which the kinds of columns are inferred.", flag=None)
    n_features: int | None = option(None, "Number of columns of a LIBSVM file.", flag=None)
    zero_based: bool = option(False, "Whether the indices of a LIBSVM file start at 0.", flag=None)
    block_bytes: int = option(2**20, "Bytes read at a time.", flag=None)
    lenient: bool = False
    """Whether ``drop`` and ``kinds`` may name columns that do not exist. Not an option of the user: it is for rows of a
    known layout."""
    optional: tuple[str, ...] = ()
    """Columns that a file without a header line may lack: the first of them, or all. Not an option of the user."""

    def __post_init__(self) -> None:
        # Lists become tuples, so that options can be hashed and compared. Text is left for check() to refuse.
        for name in LISTS:
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))

    @property
    def missing_cells(self) -> tuple[str, ...]:
        """All cells that mean "no value": the usual ones and ``missing``."""
        return (*MISSING, *self.missing)

    def reading_options(self) -> ReadingOptions:
        """These options without those that a subclass adds."""
        own = {one.name: getattr(self, one.name) for one in fields(ReadingOptions)}
        return ReadingOptions(**own)

    def check(self) -> None:
        """Raise OptionError if an option has a value that cannot be used."""
        for kind in self.kinds.values():
            choice("kinds", kind, KINDS)
        for name in LISTS:
            if isinstance(value := getattr(self, name), str):
                raise OptionError(Option(name), f" must be a list of strings; got {value!r}. Pass [{value!r}]")
        _check_delimiter(self.delimiter)
        choice("decimal", self.decimal, DECIMALS)
        _check_thousands(self.thousands, self.decimal)
        for date_format in self.date_formats:
            check_date_format(date_format)
        if self.encoding is not None:
            is_ascii_based(self.encoding)
        _check_comment(self.comment)
        choice("on_schema_change", self.on_schema_change, get_args(OnSchemaChange))
        if self.on_bad_row not in ("fail", "skip"):
            whole("on_bad_row", self.on_bad_row, at_least=0, otherwise=", or 'fail' or 'skip'")
        if self.rows is not None:
            whole("rows", self.rows, at_least=1, otherwise=", or None")
        whole("max_row_bytes", self.max_row_bytes, at_least=1)
        number("batch_wait", self.batch_wait, at_least=0.0)
        whole("sample_rows", self.sample_rows, at_least=1)
        whole("block_bytes", self.block_bytes, at_least=1)
        if self.n_features is not None:
            whole("n_features", self.n_features, at_least=1, otherwise=", or None")


def _check_delimiter(delimiter: str | None) -> None:
    if delimiter is not None and (
        len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"\r\n\0'
    ):
        raise OptionError(
            Option("delimiter"),
            f" must be one character that is not a quote, a letter or a digit; got {delimiter!r}",
        )


def _check_comment(comment: str | None) -> None:
    if comment is not None and (len(comment) != 1 or not comment.isascii() or comment in '"\r\n\0 '):
        raise OptionError(Option("comment"), f" must be one character that is not a quote or a blank; got {comment!r}")


@functools.cache
def is_ascii_based(encoding: str) -> bool:
    """Whether ASCII characters are single bytes that occur in no other character; OptionError for an unknown encoding.

    >>> is_ascii_based("cp1252"), is_ascii_based("utf-16"), is_ascii_based("shift_jis")
    (True, False, False)
    """
    try:
        ascii_bytes = bytes(range(128))
        same = ascii_bytes.decode(encoding, "replace") == ascii_bytes.decode("ascii")
        codecs.getincrementaldecoder(encoding)
        return same and all(bytes([byte, 65]).decode(encoding, "replace")[1:] == "A" for byte in range(128, 256))
    except (LookupError, ValueError) as error:  # ValueError: it is known, and no encoding of texts, such as idna
        raise OptionError(
            Option("encoding"),
            f" is {encoding!r}, by which Python reads no text files; such as utf-8, cp1252, latin-1 or utf-16",
        ) from error


def _check_thousands(thousands: str | None, decimal: str) -> None:
    if thousands is not None and (
        len(thousands) != 1 or thousands.isalnum() or thousands in '+-"\r\n\t\0' or thousands == decimal
    ):
        raise OptionError(
            Option("thousands"),
            f" must be one character that is not a sign, a quote, a letter, a digit or the decimal mark {decimal!r}; "
            f"got {thousands!r}",
        )


def check_date_format(date_format: str) -> None:
    """Raise OptionError unless ``strptime`` can read dates of this format and the format includes the year."""
    day = datetime.datetime(2003, 11, 28, 23, 58, 57, tzinfo=datetime.UTC)
    same_day_later = day.replace(year=2014)  # a Friday too, so that only the year differs
    text = day.strftime(date_format)
    if text == same_day_later.strftime(date_format):
        raise OptionError(Option("date_formats", date_format), f" does not include the year; {DATE_EXAMPLES}")
    try:
        datetime.datetime.strptime(text, date_format)
    except (ValueError, re.error) as error:
        raise OptionError(Option("date_formats", date_format), f" is not valid ({error}); {DATE_EXAMPLES}") from error
