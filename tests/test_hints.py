"""Columns that look like something else than they were taken for, and the options that mend it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from driftsurf.assembly.columns import TakenFor, taken_for
from driftsurf.cli.compare import compare
from driftsurf.cli.run import run
from driftsurf.cli.wording import as_typed
from driftsurf.encoding import TableEncoder
from driftsurf.errors import BadRowError, Option, OptionError, Said, SourceError
from driftsurf.report.taken import lines
from driftsurf.runtime.target import Target
from driftsurf.sources import Dialect, Source, hints
from driftsurf.sources._look_alikes import date_options, number_options
from driftsurf.tables import Table, read_table


def said(folder: Path, cells: list[str], name: str = "a.csv", label: str | None = None, **options: Any) -> list[str]:
    """What is said of a column of these cells, beside one of names."""
    path = folder / name
    path.write_text("x;city\n" + "".join(f"{cell};Rome\n" for cell in cells))
    source = Source(path, **{"dialect": Dialect(delimiter=";"), **options})
    return [as_typed(hint, run) for hint in hints(source, next(source.tables())[0], label)]


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["1,5", "-2,25"], "looks like numbers ('1,5'): try --decimal ,"),
        (["1.234,5", "2,5"], "looks like numbers ('1.234,5'): try --decimal , --thousands ."),
        (["1,234", "2,345"], "looks like numbers ('1,234'): try --decimal , or --thousands ,"),
        (["1,234.5", "2,345"], "looks like numbers ('1,234.5'): try --thousands ,"),
        (["1 234,5", "2\u202f345,5"], "try --decimal , --thousands ' '"),
        (["3\u2019403.93", "10"], "try --thousands ''\"'\"''"),
        (["12.30", "(1.50)"], "looks like numbers in brackets ('(1.50)'): write them with a minus"),
        (["1'234.5", "10"], "try --thousands ''\"'\"''"),
        (["12.5%", "3%"], "looks like numbers with a unit ('12.5%'): write them without it"),
        (["$1,234.50", "$3"], "looks like numbers with a unit ('$1,234.50')"),
        (["31.12.2007", "1.1.2008"], "looks like dates ('31.12.2007'): try --date-format %d.%m.%Y"),
        (["1/2/2007 1:30 PM"], "'%m/%d/%Y %I:%M %p' or --date-format '%d/%m/%Y %I:%M %p'"),
        (["Mar 3, 2007", "Dec 24, 2007"], "try --date-format '%b %d, %Y'"),
        (["1.5"] * 9 + ["n.v."], "because of 'n.v.' (1 of 10 cells); all others are numbers: if that means no value, "
         "give --missing n.v."),
        ([f"r{i}" for i in range(30)], "has a text of its own in each row ('r0'): if it is a name of the row, leave it "
         "out with --drop x"),
        ([str(i) for i in range(30)], "the column 'x' rises from row to row"),
        ([f"2007-01-{i:02d}" for i in range(1, 31)], "a run may do better without it, --drop x"),
    ],
)  # fmt: skip
def test_a_column_that_looks_like_something_else_is_named_with_what_mends_it(
    tmp_path: Path, cells: list[str], advice: str
) -> None:
    (hint,) = said(tmp_path, cells)
    assert "'x'" in hint
    assert advice in hint


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
    ],
)
def test_nothing_is_said_of_a_column_that_looks_like_itself(tmp_path: Path, cells: list[str]) -> None:
    assert said(tmp_path, cells) == []


def test_nothing_is_said_where_somebody_has_decided_and_nothing_silly_of_the_label(tmp_path: Path) -> None:
    assert said(tmp_path, ["1,5", "2,5"], kinds={"x": "text"}) == []
    assert said(tmp_path, [str(i) for i in range(30)], label="x") == []
    assert said(tmp_path, [f"r{i}" for i in range(30)], label="x") == []
    assert said(tmp_path, ["1,5", "2,5"], label="x") != []


def test_what_an_option_cannot_mend_is_not_advised(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": "1,5 %", "t": "31.12.2007", "p": "1,5"}\n' * 30)
    source = Source(path)
    unit, date, decimal = map(str, hints(source, next(source.tables())[0]))
    assert unit.endswith("write them without it")
    assert date.endswith("try date_formats='%d.%m.%Y'")
    assert decimal.endswith("try decimal=','")
    assert hints(Source("a.parquet"), Table({"x": read_table({"x": ["1,5"]})["x"]})) == []


def test_a_form_of_dates_that_no_column_has_is_told(tmp_path: Path) -> None:
    dialect = Dialect(delimiter=";", date_formats=["%Y%m%d"])
    (hint,) = said(tmp_path, ["20070131", "20070228"], dialect=dialect)
    assert hint.startswith("no column was taken for dates of the form --date-format %Y%m%d")
    assert "say its kind with --kind" in hint
    assert said(tmp_path, ["20070131", "20070228"], dialect=dialect, kinds={"x": "date"}) == []


def test_words_that_do_not_even_look_alike_are_not_tried() -> None:
    assert number_options(["a"], Dialect()) == date_options(["a"], Dialect()) == []
    assert number_options(["1.5"], Dialect()) == []


# -------------------------------------------------------------------- what was taken for what


def test_columns_are_told_by_what_they_were_taken_for() -> None:
    count = 40
    table = read_table(
        {
            "price": np.arange(count, dtype=float),
            "member": [True, False] * 20,
            "when": np.datetime64("2007-01-01") + np.arange(count),
            "city": ["Rome", "Oslo"] * 20,
            "shop": [f"shop {i}" for i in range(count)],
            "zip": [1000 + i % 3 for i in range(count)],
            "empty": [None] * count,
        }
    )
    encoder = TableEncoder(categorical=["zip"]).fit(table)
    taken = taken_for(encoder, table, Target("y", "regression"), np.zeros(count), ["id", "id"])
    assert lines(taken) == [
        "numbers   price",
        "booleans  member",
        "dates     when",
        "names     city (2), zip (3), shop (40, hashed), empty (no value yet)",
        "left out  id",
        "label     y: values (regression)",
    ]


def test_many_columns_and_classes_are_counted_not_named() -> None:
    table = read_table({f"x{i}": [1.0, 2.0] for i in range(14)})
    y = np.arange(30)
    taken = taken_for(TableEncoder().fit(table), table, Target("y", "multiclass", ">", "3"), y)
    told = lines(taken)
    assert told[0].endswith("x11 and 2 more, 14 in all")
    assert told[-1] == "label     y > 3: 30 classes (multiclass)"
    sparse = TakenFor(**{**taken, "features": 1000, "numbers": []})
    assert lines(sparse)[0] == "features  1,000"


# -------------------------------------------------------------------- messages


def test_the_command_line_spells_options_as_they_are_typed() -> None:
    error = BadRowError("leave it out: ", Option("on_bad_row", "skip"), ", ", Option("kinds"), ", ", Option("follow"))
    assert str(error) == "leave it out: on_bad_row='skip', kinds, follow"
    assert as_typed(error, run) == "leave it out: --on-bad-row skip, --kind, --follow"
    assert as_typed(error, compare) == "leave it out: --on-bad-row skip, --kind, follow"
    within = Said("so: ", Said("give ", Option("set", "a=b")))
    assert as_typed(within, run) == "so: give --set a=b"
    assert as_typed(Said(Option("follow", True)), run) == "--follow"
    assert as_typed(Said(Option("on_bad_row", 1)), run) == "--on-bad-row 1"
    assert as_typed(Said(Option("mode", "refit"), Option("mode")), run) == "--set mode=refitmode"
    assert as_typed(Said(Option("mode", "refit")), compare) == "mode='refit'"
    assert as_typed(ValueError("plain"), run) == as_typed("plain", run) == "plain"
    assert as_typed(OSError(2, "gone"), click.Command("other")) == "[Errno 2] gone"


@pytest.mark.parametrize("kind", [OptionError, SourceError])
def test_an_error_of_parts_survives_another_process(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind("give ", Option("drop", "id"))))
    assert type(error) is kind
    assert str(error) == "give drop='id'"
    assert as_typed(error, run) == "give --drop id"
