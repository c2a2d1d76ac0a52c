"""LIBSVM files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_files import Row, everything, write

from driftsurf.data import BadRow, FileSource, ReadingOptions
from driftsurf.errors import BadRowError, SchemaError

SCRAPS = [
    *(
        "1",
        "-1",
        "0.5",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        ":",
        "1:2",
        "3:-0.25",
        "19:1e3",
        "20:1",
        "21:4",
        "+2:1",
        "2.0:1",
    ),
    *(
        "+2:1",
        "2.0:1",
        "0:1",
        "#",
        "qid:7",
        "nan",
        "1_0",
        "1 1:1\n",
        "-1 2:0.5 7:3\n",
        "1 2:1 2:1\n",
        "inf",
        "1e999",
        "x",
    ),
]


@pytest.mark.parametrize("line", [":1", "1 1: 2", "1 1 :2", "1 :2", "1 1::2"])
def test_a_colon_has_to_touch_both_of_its_numbers(line: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.svm", f"1\n{line}\n")
    with pytest.raises(BadRowError, match=r"a\.svm, line 2"):
        everything(FileSource(path, ReadingOptions(n_features=5)))


@pytest.mark.parametrize(
    "line",
    ["x 1:2", "1 1:2 1:3", "1 0:2", "1 1:nan", "1 1:1_0", "1 1:2:3", "1,2 1:2", "1 -1:2", "1 99999999999:1", "nan 1:1"],
)
def test_bad_libsvm_rows(line: str, tmp_path: Path) -> None:
    path = write(tmp_path, "a.svm", f"# remark\n{line}\n-1 qid:3 2:0.5\n\n1\n")
    with pytest.raises(BadRowError, match=r"a\.svm, line 2"):
        everything(FileSource(path, ReadingOptions(n_features=5)))
    whole = everything(FileSource(path, ReadingOptions(n_features=5, on_bad_row="skip")))
    assert whole == [(-1.0, ((1, 0.5),)), (1.0, ())]


def test_libsvm_indices_beyond_the_width_are_added_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a.svm", "1 1:1\n0 2:1 7:1\n")
    reading = ReadingOptions(sample_rows=1)
    with pytest.raises(SchemaError, match=r"7.*1.*on_schema_change='ignore-added'"):
        everything(FileSource(path, reading))
    ignored = replace(reading, on_schema_change="ignore-added")
    assert everything(FileSource(path, ignored)) == [(1.0, ((0, 1.0),)), (0.0, ())]
    zero = ReadingOptions(zero_based=True, drop=["label"])
    assert everything(FileSource(path, zero)) == [(((1, 1.0),),), (((2, 1.0), (7, 1.0)),)]


@given(text=st.lists(st.sampled_from(SCRAPS), max_size=30).map("".join), zero_based=st.booleans())
def test_blocks_and_single_lines_are_read_alike(
    text: str, zero_based: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.getbasetemp(), "scraps.svm", text)
    reading = ReadingOptions(n_features=20, zero_based=zero_based, on_bad_row="skip", on_schema_change="ignore-added")

    def outcome() -> tuple[list[Row], list[str]]:
        bad: list[BadRow] = []
        return everything(FileSource(path, reading), on_skip=bad.append), [str(one) for one in bad]

    swept = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("driftsurf.data.formats.libsvm.sweep", lambda text: None)
        assert outcome() == swept
