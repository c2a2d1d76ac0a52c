"""Files of random bytes give valid rows or an error of this package."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_files import Row, rows, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.errors import DriftsurfError

SCRAPS = {
    ".csv": rb""", | ; | "" | " | 1 | -2.5 | 1e308 | 1e999 | inf | nan | x | true | 2007-01-01 | 99999999999999999""",
    ".jsonl": rb"""{ | } | "a" | : | , | 1 | -2.5 | 1e999 | null | true | "x" | [ | ] | NaN | {"a": 1} | {"b": true}""",
    ".json": rb"""[ | ] | {"a": 1} | , | , | {"a": "]"} | {"b": true} | {"a": | } | "x" | " | \\ | 1 | [1] | null""",
    ".arff": rb"""@attribute a numeric | @attribute b {x,y} | @data | , | 1 | ? | x | ' | " | { | } | % | \ | {0 5}""",
    ".svm": rb"""1 | -1 | 1:2 | 2:0.5 | 3:x | 9:1e999 | : | # | qid:1 | nan""",
}
ANYWHERE = [b"\n", b"\n", b"\r\n", b"\r", b"\0", b"\xff", b"\xc3\xa9", b" "]
HEADS = {
    ".csv": b"a,b\n",
    ".jsonl": b"",
    ".json": b'[{"a": 1}',
    ".arff": b"@attribute a numeric\n@attribute b {x,y}\n@data\n",
    ".svm": b"",
}


@pytest.mark.parametrize("ending", list(SCRAPS))
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_rows_of_random_bytes_are_valid_or_an_error_of_this_package(
    ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scraps = data.draw(st.lists(st.sampled_from(SCRAPS[ending].split(b" | ") + ANYWHERE), max_size=60))
    head = HEADS[ending] if data.draw(st.booleans()) else b""
    path = write(tmp_path_factory.mktemp("fuzz"), "a" + ending, head + b"".join(scraps))

    def outcome(block_bytes: int) -> tuple[list[Row], list[str], str]:
        given: list[Row] = []
        bad: list[BadRow] = []
        reading = ReadingOptions(block_bytes=block_bytes, sample_rows=data_rows, on_bad_row="skip")
        source = FileSource(path, reading, batch_size=3)
        try:
            for table, position in source.tables(on_skip=bad.append):
                assert list(table.columns) == [name for name, _ in position["columns"]]
                for name, kind in position["columns"]:
                    column = table[name]
                    assert column.kind == kind
                    assert kind not in ("number", "boolean") or not np.isinf(column.values).any()
                    assert kind != "text" or column.values.max(initial=-1) < len(column.words)
                if table.features is not None:
                    assert np.isfinite(table.features.data).all()
                    assert (table.features.indices < position["n_features"]).all()
                given += rows(table)
        except DriftsurfError as error:
            return given, [str(one) for one in bad], type(error).__name__
        return given, [str(one) for one in bad], ""

    data_rows = data.draw(st.integers(1, 5))
    assert outcome(2**20) == outcome(data.draw(st.integers(1, 9)))
