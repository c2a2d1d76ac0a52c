"""JSON files: arrays of objects, objects on lines, and what is neither."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_files import everything, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.data.formats.json import find_elements
from driftsurf.data.source import Position
from driftsurf.errors import BadRowError, SchemaError, SourceError

OBJECTS = [{"n": 1.5, "t": "a, ]}"}, {"n": None, "t": 'quote " and \\\\'}, {"n": 3, "t": None}]
ROWS = [(1.5, "a, ]}"), (None, 'quote " and \\\\'), (3.0, None)]
ARRAYS = [json.dumps(OBJECTS), json.dumps(OBJECTS, indent=2), "\n [ " + ",\n".join(map(json.dumps, OBJECTS)) + "\n]\n"]


@pytest.mark.parametrize("text", [*ARRAYS, "\n".join(map(json.dumps, OBJECTS)), "\ufeff" + ARRAYS[0]])
def test_arrays_and_lines_give_the_same_rows_from_every_position(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", text)
    for block in (1, 7, 2**20):
        source = FileSource(path, ReadingOptions(block_bytes=block), batch_size=1)
        positions = [position for _, position in source.tables()]
        assert everything(source) == ROWS
        assert [everything(source, position) for position in positions] == [ROWS[1:], ROWS[2:], []]


def test_a_bad_element_costs_one_row_and_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", '[\n{"n": 1},\n\n{"n": "x"},\n  7, {"n" 2},\n{"n": 3}\n]')
    bad: list[BadRow] = []
    reading = ReadingOptions(kinds={"n": "number"}, on_bad_row="skip")
    assert everything(FileSource(path, reading), on_skip=bad.append) == [(1.0,), (3.0,)]
    assert [one.line for one in bad] == [4, 5, 5]
    with pytest.raises(BadRowError, match=r"a\.json, line 4"):
        everything(FileSource(path, ReadingOptions(kinds={"n": "number"})))


@pytest.mark.parametrize(
    "broken",
    [
        *(
            '{"n": 2',
            '{"n": 2}}',
            '"n": 2}',
            "{",
            "}",
            '{"n": "2}',
            '{n": 2}',
            '{"n": [2}',
            '{"n": {"o": [2}',
            '{"n": "2\n"}',
        ),
        *('{"n": {"o": 2}', '{"n": 2} {"n": 3}', '{"n": 2]}', '{"n": ' + "[" * 100, "[" * 100_000, '{"n": "\\"}'),
    ],
)
@pytest.mark.parametrize("block", [1, 2**20])
def test_a_missing_or_extra_brace_or_quote_costs_one_row(broken: str, block: int, tmp_path: Path) -> None:
    path = write(tmp_path, "a.json", f'[{{"n": 0}},\n{broken},\n {{"n": 4}},{{"n": 5}},{broken}, {{"n": 6}}\n]')
    bad: list[BadRow] = []
    reading = ReadingOptions(on_bad_row="skip", block_bytes=block if len(broken) < 1000 else 2**20)
    assert everything(FileSource(path, reading), on_skip=bad.append) == [(0.0,), (4.0,), (5.0,), (6.0,)]
    assert [one.line for one in bad] == [2, 3 + broken.count("\n")]
    assert all(broken.startswith(one.raw.strip().rstrip(",")) for one in bad)
    with pytest.raises(BadRowError, match=r"a\.json, line 2"):
        everything(FileSource(path))


@pytest.mark.parametrize(
    ("text", "error", "named"),
    [
        ('[{"n": 1},', SourceError, "truncated"),
        ('[{"n": 1}, {"n": 2}', SourceError, "truncated"),
        ('[{"n": 1}] [', SourceError, r"follows.*'\['"),
        ('[{"n": 1}]]', SourceError, r"follows.*'\]'"),
        ('[{"n": 1}] , {"n": 2}]', SourceError, "follows.*', {"),
        ('[{"n": 1}]\n[{"n": 2}]', SourceError, "follows"),
        ('[{"n": 1},,] ,', SourceError, "follows.*','"),
        ('{"n": {"0": 1, "1": 2}, "t": {"0": "a"}}', SourceError, "orient"),
        ('{\n "n": 1\n}', SourceError, "orient"),
        ("12", SourceError, "array"),
        ("[]", SourceError, "empty"),
        ("", SourceError, "empty"),
        ('[{"n": [1]}]', SchemaError, "'n'"),
    ],
)
@pytest.mark.parametrize("block", [1, 2**20])
def test_other_files_are_refused_with_a_remedy(
    text: str, error: type[Exception], named: str, block: int, tmp_path: Path
) -> None:
    with pytest.raises(error, match=named):
        everything(FileSource(write(tmp_path, "a.json", text), ReadingOptions(block_bytes=block)))


@pytest.mark.parametrize(
    ("end", "named"), [(",", "truncated"), (", ", "truncated"), ("", "truncated"), ("]]", "follows"), ("] \n", None)]
)
@pytest.mark.parametrize("block", [1, 2**20])
def test_a_resumed_read_ends_as_one_that_was_never_stopped(
    end: str, named: str | None, block: int, tmp_path: Path
) -> None:
    path = write(tmp_path, "a.json", '[{"n": 1}, {"n": 2}, {"n": 3}' + end)
    source = FileSource(path, ReadingOptions(block_bytes=block), batch_size=1)
    positions: list[Position] = [None]
    with contextlib.nullcontext() if named is None else pytest.raises(SourceError, match=named):
        positions.extend(position for _, position in source.tables())
    assert len(positions) >= 2
    for position in positions:
        with contextlib.nullcontext() if named is None else pytest.raises(SourceError, match=named):
            everything(source, position)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4), lambda inner: st.lists(inner, max_size=2)
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), min_size=1, max_size=6), st.integers(1, 5))
def test_elements_are_those_that_the_parser_of_python_finds(elements: list[dict[str, object]], size: int) -> None:
    data = json.dumps(elements, ensure_ascii=False).encode()[1:]
    whole = find_elements(data, final=True)
    assert [json.loads(whole[i][:-1]) for i in range(len(whole))] == elements
    found, rest = list[bytes](), b""
    for at in range(0, len(data), size):
        rest += data[at : at + size]
        records = find_elements(rest, final=False)
        found += [records[i] for i in range(len(records))]
        rest = rest[int(records.ends[-1]) if len(records) else 0 :]
    assert not rest
    assert found == [whole[i] for i in range(len(whole))]
