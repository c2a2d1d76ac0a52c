"""JSON lines."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from source_files import everything, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.errors import BadRowError, SchemaError


def test_bad_json_lines_are_skipped_with_a_reason(tmp_path: Path) -> None:
    good = [{"n": i, "t": f"w{i}", "d": "2007-01-01", "b": True} for i in range(400)]
    lines = [json.dumps(row) for row in good]
    wrong = {
        '{"n": 1': "",
        '{"n": NaN}': "NaN",
        '{"n": 1e999}': "inf",
        f'{{"n": {"9" * 400}}}': "999",
        '{"n": "x"}': "'x'",
        '{"n": true}': "'True'",
        '{"b": 1}': "'1'",
        '{"d": "soon"}': "'soon'",
        '{"d": "2007-02-31"}': "",
        '{"t": [1]}': "'[1]'",
        "[1]": "list",
        f'{{"t": {"[" * 100_000}1{"]" * 100_000}}}': "",
    }
    path = write(tmp_path, "a.jsonl", "\n".join(lines + list(wrong) + ['{"t": 5, "n": null}', "  "]))
    bad: list[BadRow] = []
    whole = everything(FileSource(path, ReadingOptions(sample_rows=400, on_bad_row="skip")), on_skip=bad.append)
    assert len(whole) == 401
    assert whole[-1] == (None, "5", None, None)
    for one, named in zip(bad, wrong.values(), strict=True):
        assert named in one.reason


def test_json_text_is_read_as_numbers_or_missing_by_the_reading_options(tmp_path: Path) -> None:
    lines = ['{"n": "1.234,5", "t": "a"}', '{"n": 2.5, "t": "n.v."}', '{"n": "NA", "t": null}', '{"n": "x", "t": "b"}']
    path = write(tmp_path, "a.jsonl", "\n".join(lines))
    bad: list[BadRow] = []
    options = ReadingOptions(decimal=",", thousands=".", missing=["n.v."], sample_rows=3)
    assert everything(FileSource(path, replace(options, on_bad_row="skip")), on_skip=bad.append) == [
        (1234.5, "a"),
        (2.5, None),
        (None, None),
    ]
    assert [one.raw for one in bad] == ['{"n": "x", "t": "b"}']
    unsaid = [("1.234,5", "a"), ("2.5", "n.v."), (None, None), ("x", "b")]
    assert everything(FileSource(path)) == unsaid


def test_json_lines_with_objects_inside_need_dropping(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": 1, "b": {"c": 2}}\n{"a": 2, "id": 99999999999999999}\n')
    with pytest.raises(SchemaError, match=r"'b'.*drop='b'"):
        everything(FileSource(path))
    assert everything(FileSource(path, ReadingOptions(drop=["b"]))) == [(1.0, None), (2.0, "99999999999999999")]


def test_json_keys_that_appear_later_are_added_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"a": 1}\n' * 10 + '{"a": 2, "z": 1}\n{"a": 3}\n')
    source = FileSource(path, ReadingOptions(sample_rows=5), batch_size=3)
    tables = source.tables()
    assert [len(table) for table, _ in islice(tables, 3)] == [3, 3, 3]
    with pytest.raises(SchemaError, match=r"'z'.*on_schema_change='ignore-added'"):
        next(tables)
    assert len(everything(FileSource(path, ReadingOptions(on_schema_change="ignore-added")))) == 12


@pytest.mark.parametrize("value", [{"b": 1}, [1]])
@pytest.mark.parametrize("usual", [1, "x"])
def test_a_few_objects_among_values_are_bad_rows(value: object, usual: object, tmp_path: Path) -> None:
    lines = [json.dumps({"a": usual, "c": 2})] * 200
    lines.insert(150, json.dumps({"a": value, "c": 2}))
    path = write(tmp_path, "a.jsonl", "\n".join(lines).encode())
    with pytest.raises(BadRowError, match="151"):
        everything(FileSource(path))
    assert len(everything(FileSource(path, ReadingOptions(on_bad_row="skip")))) == 200
