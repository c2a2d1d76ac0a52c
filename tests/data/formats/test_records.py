"""Records of delimited text are found as a slow and readable twin finds them, however the bytes arrive."""

from __future__ import annotations

import csv
import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftsurf.data.formats import _text
from driftsurf.data.formats._text import Records, find_records, trim_cells
from driftsurf.native import text
from driftsurf.native.text import NUL, OPEN_QUOTE, SOUND, STRAY_QUOTE, TOO_LONG

TEXT = st.lists(
    st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"b c", b" ", b"\t", b"\0", b'"x"', b',"']), max_size=40
).map(b"".join)


class Record(NamedTuple):
    text: bytes
    lines: int
    cells: int
    sound: bool


def twin(data: bytes) -> list[Record]:
    """Split records by RFC 4180 as a regular expression; text that does not match is a bad first line."""
    cell = rb'(?:[ \t]*"(?:[^"]|"")*"[ \t]*|[ \t]*[^ \t",\r\n][^,\r\n]*|[ \t]*)'
    record = re.compile(rb"(%s(?:,%s)*)(\r\n|\r|\n|\Z)" % (cell, cell))
    line = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
    found = list[Record]()
    at = lines = 0
    while at < len(data):
        whole = record.match(data, at)
        match = whole or line.match(data, at)
        assert match is not None
        text = match[0]
        lines += len(re.findall(rb"\r\n|\r|\n|.\Z", text, re.DOTALL)) if whole else 1
        inside = re.sub(rb'"(?:[^"]|"")*"', b"", text) if whole else b""
        blank = not text.strip(b" \t\r\n")
        if blank and found and not found[-1].cells:  # consecutive blank lines are one record
            text = found.pop().text + text
        found.append(Record(text, lines, 0 if blank else 1 + inside.count(b","), bool(whole) and b"\0" not in text))
        at = match.end()
    return found


def rows(records: Records) -> list[bytes]:
    """Return the records that are not blank."""
    return [records[i] for i in range(len(records)) if records.cells[i]]


def ours(data: bytes) -> list[Record]:
    records = find_records(data, ",", final=True)
    return [
        Record(records[i], int(records.lines[i]), int(records.cells[i]), not records.faults[i])
        for i in range(len(records))
    ]


@settings(deadline=None, max_examples=300)
@given(TEXT)
def test_records_equal_those_of_the_readable_twin(data: bytes) -> None:
    found, expected = ours(data), twin(data)
    assert [(one.text, one.lines, one.sound) for one in found] == [(one.text, one.lines, one.sound) for one in expected]
    # A quote inside a plain cell is a character like any other, which the twin's count does not know.
    plain = [(one.cells, other.cells) for one, other in zip(found, expected, strict=True) if b'"' not in other.text]
    assert all(a == b for a, b in plain)


@settings(deadline=None, max_examples=300)
@given(TEXT, st.integers(1, 5))
def test_the_way_the_bytes_arrive_does_not_matter(data: bytes, size: int) -> None:
    found, rest = list[bytes](), b""
    for at in range(0, len(data), size):
        rest += data[at : at + size]
        records = find_records(rest, ",", final=False)
        found += rows(records)
        rest = rest[int(records.ends[-1]) if len(records) else 0 :]
    found += [one.text for one in ours(rest) if one.cells]
    assert found == [one.text for one in ours(data) if one.cells]


@settings(deadline=None, max_examples=200)
@given(TEXT, st.integers(1, 12), st.integers(1, 5))
def test_the_limit_of_a_record_does_not_depend_on_blocks(data: bytes, limit: int, size: int) -> None:
    whole = find_records(data, ",", final=True, limit=limit)
    found, rest, ended = list[bytes](), b"", False
    for at in range(0, len(data), size):
        rest += data[at : at + size]
        records = find_records(rest, ",", final=False, limit=limit)
        found += rows(records)
        rest = rest[int(records.ends[-1]) if len(records) else 0 :]
        if len(records) and records.faults[-1] == TOO_LONG:
            ended = True
            break
    if not ended:
        records = find_records(rest, ",", final=True, limit=limit)
        found += rows(records)
    assert found == rows(whole)


def test_a_line_that_is_too_long_ends_the_search() -> None:
    records = find_records(b"a\n" + b"x" * 50 + b"\nb\n", ",", final=True, limit=20)
    assert records.faults.tolist() == [0, TOO_LONG]


def test_millions_of_blank_lines_are_one_record() -> None:
    records = find_records(b"a\n" + b" \n\r\n\r" * 100_000 + b"b\n", ",", final=True)
    assert records.cells.tolist() == [1, 0, 1]
    assert records.lines.tolist() == [1, 300_001, 300_002]


def test_a_forgotten_quote_costs_one_line() -> None:
    records = find_records(b'a,"b\nc,d\ne,f\n', ",", final=True)
    assert [bool(fault) for fault in records.faults] == [True, False, False]
    assert find_records(b'a,"b\nc,"d"\ne,f\n', ",", final=True).faults.tolist() == [OPEN_QUOTE, SOUND, SOUND]
    stray = find_records(b'"a"b,c\nd,e\n', ",", final=True)
    assert stray.faults.tolist() == [STRAY_QUOTE, SOUND]


def test_without_a_delimiter_a_record_is_a_line() -> None:
    records = find_records(b'{"a": "x\r\n\n"y\0', None, final=True)
    assert records.cells.tolist() == [1, 0, 1]
    assert records.faults.tolist() == [0, 0, NUL]


@settings(deadline=None, max_examples=300)
@given(TEXT)
def test_blanks_around_cells_are_removed_and_nothing_else(data: bytes) -> None:
    records = find_records(data.replace(b"\t", b" "), ",", final=True)  # Python's csv knows spaces only
    for place in range(len(records)):
        if records.faults[place] or not records.cells[place]:
            continue
        trimmed = trim_cells(records[place], ",")
        if not records.padded[place]:
            assert trimmed == records[place]
        (again,) = ours(trimmed)
        assert again.cells == records.cells[place]
        before, after = (next(csv.reader([text.decode()], skipinitialspace=True)) for text in (records[place], trimmed))
        if not any("\n" in cell or "\r" in cell for cell in before):
            assert after == [cell.strip(" \t") for cell in before]


def test_comments_are_no_records_and_open_no_quotes() -> None:
    data = b'# made by, "someone\na,b\n#\0\n1,2\n'
    records = find_records(data, ",", final=True, comment="#")
    assert records.cells.tolist() == [0, 2, 0, 2]
    assert records.lines.tolist() == [1, 2, 3, 4]
    assert not records.faults.any()


PLAIN = st.lists(st.sampled_from([b",", b"\t", b"\n", b"\r\n", b"\r", b"a", b"b c", b" "]), max_size=40).map(b"".join)


@settings(deadline=None)
@given(PLAIN, st.sampled_from([",", "\t", None]), st.booleans(), st.sampled_from([5, 1000]))
def test_lines_without_quotes_are_the_same_records_in_the_fast_loop_and_in_the_general_one(
    data: bytes, delimiter: str | None, final: bool, limit: int
) -> None:
    fast = find_records(data, delimiter, final=final, limit=limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_text, "MOST_LINES", -1)
        general = find_records(data, delimiter, final=final, limit=limit)
    for name in ("starts", "ends", "lines", "cells", "faults", "padded"):
        assert getattr(fast, name).tolist() == getattr(general, name).tolist(), name


def test_plain_lines_are_found_by_the_fast_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "find_records", None)
    found = find_records(b"1,a b\r\n\n \n2, c\n3", ",", final=False)
    assert found.cells.tolist() == [2, 0, 2]
    assert found.padded.tolist() == [0, 0, 1]
    assert np.diff(found.lines).tolist() == [2, 1]
