"""Hints about columns that look like another kind, and how messages spell options."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from driftsurf.cli.compare import compare
from driftsurf.cli.run import run
from driftsurf.cli.terminal import with_cli_spelling
from driftsurf.data import FileSource, ReadingOptions
from driftsurf.data.advice import ColumnSummary, hints, summarise_columns
from driftsurf.data.encoding import TableEncoder
from driftsurf.data.formats._cells import suggest_date_options, suggest_number_options
from driftsurf.data.frames import read_table
from driftsurf.data.row_encoder import Target
from driftsurf.data.tables import Table
from driftsurf.errors import BadRowError, Message, Option, OptionError, SourceError
from driftsurf.report.run_summary import column_lines


def hints_about(
    folder: Path, cells: list[str], name: str = "a.csv", label: str | None = None, **options: Any
) -> list[str]:
    """Hints about a column of these cells, in the spelling of the command line; a second column is text."""
    path = folder / name
    path.write_text("x;city\n" + "".join(f"{cell};Rome\n" for cell in cells))
    source = FileSource(path, ReadingOptions(delimiter=";", **options))
    return [with_cli_spelling(hint, run) for hint in hints(source, next(source.tables())[0], label)]


@pytest.mark.parametrize(
    ("cells", "named"),
    [
        (["1,5", "-2,25"], ["numbers", "'1,5'", "--decimal ,"]),
        (["1.234,5", "2,5"], ["numbers", "'1.234,5'", "--decimal , --thousands ."]),
        (["1,234", "2,345"], ["numbers", "'1,234'", "--decimal , or --thousands ,"]),
        (["1,234.5", "2,345"], ["numbers", "'1,234.5'", "--thousands ,"]),
        (["1 234,5", "2\u202f345,5"], ["--decimal , --thousands ' '"]),
        (["3\u2019403.93", "10"], ["--thousands ''\"'\"''"]),
        (["12.30", "(1.50)"], ["numbers", "'(1.50)'"]),
        (["1'234.5", "10"], ["--thousands ''\"'\"''"]),
        (["12.5%", "3%"], ["numbers", "'12.5%'"]),
        (["$1,234.50", "$3"], ["numbers", "'$1,234.50'"]),
        (["31.12.2007", "1.1.2008"], ["dates", "'31.12.2007'", "--date-format %d.%m.%Y"]),
        (["1/2/2007 1:30 PM"], ["'%m/%d/%Y %I:%M %p' or --date-format '%d/%m/%Y %I:%M %p'"]),
        (["Mar 3, 2007", "Dec 24, 2007"], ["--date-format '%b %d, %Y'"]),
        (["1.5"] * 9 + ["n.v."], ["'n.v.'", "1 of 10", "--missing n.v."]),
    ],
)
def test_a_column_that_looks_like_another_kind_is_named_with_the_option_that_helps(
    tmp_path: Path, cells: list[str], named: list[str]
) -> None:
    (hint,) = hints_about(tmp_path, cells)
    for part in ("'x'", *named):
        assert part in hint


@pytest.mark.parametrize(
    "cells",
    [
        ["a", "b"],
        ["1,2,3", "4"],
        ["1.2.3.4", "10.0.0.1"],
        ["12-34", "56-78"],
        ["5", "3"] * 20,
        ["1", "2", "3"],
        ["1.5"] * 5 + ["x", "y"],
        [""] * 3,
        ["2007-01-01"] * 40,
        ["1.7e308", "-1.7e308"] * 20,
        [f"r{i}" for i in range(30)],
        [*map(str, range(30))],
        [f"2007-01-{i:02d}" for i in range(1, 31)],
    ],
)
def test_a_column_that_looks_like_its_kind_gets_no_hint(tmp_path: Path, cells: list[str]) -> None:
    assert hints_about(tmp_path, cells) == []


def test_columns_of_a_given_kind_and_labels_get_no_hints_that_do_not_apply(tmp_path: Path) -> None:
    assert hints_about(tmp_path, ["1,5", "2,5"], kinds={"x": "text"}) == []
    assert hints_about(tmp_path, ["1,5", "2,5"], label="x") != []


def test_an_option_that_would_not_help_is_not_advised(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": "1,5 %", "t": "31.12.2007", "p": "1,5"}\n' * 30)
    source = FileSource(path)
    unit, date, decimal, together = map(str, hints(source, next(source.tables())[0]))
    assert "'1,5 %'" in unit
    assert "decimal" not in unit
    assert date.endswith("date_formats='%d.%m.%Y'")
    assert decimal.endswith("decimal=','")
    assert together == "all at once: date_formats='%d.%m.%Y' decimal=','"
    assert hints(FileSource("a.parquet"), Table({"x": read_table({"x": ["1,5"]})["x"]})) == []


def test_options_of_several_hints_are_combined_unless_they_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = "".join(f"{i};N{i};31.12.2007;1.000,5;{i % 2}\n" for i in range(30))
    path.write_text(f"row;Auftrag;tag;preis;sold\n{rows}")
    source = FileSource(path)
    *_, last = (with_cli_spelling(hint, run) for hint in hints(source, next(source.tables())[0], "sold"))
    assert last == "all at once: --date-format %d.%m.%Y --decimal , --thousands ."
    path.write_text("a;b\n" + "1.000,5;1,000.5\n" * 30)
    source = FileSource(path, ReadingOptions(delimiter=";"))
    assert not any("all at once" in str(hint) for hint in hints(source, next(source.tables())[0]))


def test_a_date_format_that_fits_a_column_beside_the_table_is_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("tag;preis\n31.12.2007;1.5\n")
    source = FileSource(path, ReadingOptions(date_formats=["%d.%m.%Y"]))
    first = next(source.tables())[0]
    assert len(hints(source, first.without("tag"))) == 1
    assert hints(source, first.without("tag"), read=[first]) == []


def test_a_date_format_that_fits_no_column_is_reported(tmp_path: Path) -> None:
    (hint,) = hints_about(tmp_path, ["20070131", "20070228"], date_formats=["%Y%m%d"])
    assert "--date-format %Y%m%d" in hint
    assert "--kind" in hint
    assert hints_about(tmp_path, ["20070131", "20070228"], date_formats=["%Y%m%d"], kinds={"x": "date"}) == []


def test_words_without_digits_are_never_numbers_or_dates() -> None:
    assert suggest_number_options(["a"], ReadingOptions()) == suggest_date_options(["a"], ReadingOptions()) == []
    assert suggest_number_options(["1.5"], ReadingOptions()) == []


# -------------------------------------------------------------------- what was taken for what


def test_columns_are_listed_by_what_they_were_read_as() -> None:
    count = 140
    table = read_table(
        {
            "price": np.arange(count, dtype=float),
            "member": [True, False] * 70,
            "when": np.datetime64("2007-01-01") + np.arange(count),
            "city": ["Rome", "Oslo"] * 70,
            "shop": [f"shop {i}" for i in range(count)],
            "zip": [1000 + i % 3 for i in range(count)],
            "empty": [None] * count,
        }
    )
    encoder = TableEncoder(categorical=["zip"]).fit(table)
    taken = summarise_columns(encoder, table, Target("y", "regression"), np.zeros(count), ["id", "id"])
    assert column_lines(taken) == [
        "numbers   price",
        "booleans  member",
        "dates     when",
        "names     city (2), zip (3), shop (140, hashed), empty (no value yet)",
        "left out  id",
        "label     y: numbers (regression)",
    ]


def test_many_columns_and_classes_are_counted_not_named() -> None:
    table = read_table({f"x{i}": [1.0, 2.0] for i in range(14)})
    y = np.arange(30)
    taken = summarise_columns(TableEncoder().fit(table), table, Target("y", "multiclass", ">", "3"), y)
    shown = column_lines(taken)
    assert "x11 and 2 more" in shown[0]
    assert "y > 3: 30 classes" in shown[-1]
    sparse = ColumnSummary(**{**taken, "features": 1000, "numbers": []})
    assert column_lines(sparse)[0] == "features  1,000"


# -------------------------------------------------------------------- messages


def test_messages_spell_options_as_they_are_typed() -> None:
    error = BadRowError("leave it out: ", Option("on_bad_row", "skip"), ", ", Option("kinds"), ", ", Option("follow"))
    assert str(error) == "leave it out: on_bad_row='skip', kinds, follow"
    assert with_cli_spelling(error, run) == "leave it out: --on-bad-row skip, --kind, --follow"
    assert with_cli_spelling(error, compare) == "leave it out: --on-bad-row skip, --kind, follow"
    within = Message("so: ", Message("give ", Option("parameters", "a=b")))
    assert with_cli_spelling(within, run) == "so: give --set a=b"
    assert with_cli_spelling(Message(Option("follow", True)), run) == "--follow"
    assert with_cli_spelling(Message(Option("on_bad_row", 1)), run) == "--on-bad-row 1"
    assert with_cli_spelling(Message(Option("mode", "refit"), Option("mode")), run) == "--set mode=refitmode"
    assert with_cli_spelling(Message(Option("mode", "refit")), compare) == "mode='refit'"
    assert with_cli_spelling(ValueError("plain"), run) == with_cli_spelling("plain", run) == "plain"
    assert with_cli_spelling(OSError(2, "gone"), click.Command("other")) == "[Errno 2] gone"


@pytest.mark.parametrize("kind", [OptionError, SourceError])
def test_an_error_message_with_options_can_be_pickled(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind("give ", Option("drop", "id"))))
    assert type(error) is kind
    assert str(error) == "give drop='id'"
    assert with_cli_spelling(error, run) == "give --drop id"
