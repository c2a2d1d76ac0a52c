"""Labels of a table that cannot be used, or that may be meant otherwise than they are read."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke

import driftsurf
from driftsurf.data.advice import label_hints
from driftsurf.data.row_encoder import Target
from driftsurf.errors import BadRowError, ColumnWarning, LabelError, Message, NonFiniteError, Option, SchemaError


def numbers(path: Path, labels: Sequence[object], names: str = "x,label") -> Path:
    """Write a table of a number and a label in each row."""
    path.write_text(f"{names}\n" + "".join(f"{0.25 * (i % 7)},{label}\n" for i, label in enumerate(labels)))
    return path


@pytest.mark.parametrize(("bad", "task"), [(1.5, "auto"), ("1e200", "regression")])
def test_bad_label_is_named_by_its_line_in_the_file(bad: object, task: str, tmp_path: Path) -> None:
    labels: list[object] = [i % 2 for i in range(130)]
    labels[97] = bad
    one = numbers(tmp_path / "one.csv", labels)
    with pytest.raises((LabelError, NonFiniteError)) as caught:
        driftsurf.run(one, label="label", task=task, batch_size=40, model="recommended-linear", out=tmp_path / "a")
    assert f"line 99 of {one}" in str(caught.value)  # the header is line 1
    # Across files, after rows without a label and rows that are skipped, and when a run resumes.
    folder = tmp_path / "parts"
    folder.mkdir()
    numbers(folder / "a.csv", ["", *labels[:50]])
    second = folder / "b.csv"
    second.write_text(numbers(folder / "c.csv", ["", *labels[50:]]).read_text().replace("x,label", "x,label\nbad"))
    (folder / "c.csv").unlink()
    with pytest.raises((LabelError, NonFiniteError)) as caught:
        driftsurf.run(folder, label="label", task=task, batch_size=40, on_bad_row="skip", out=tmp_path / "b")
    assert f"line 51 of {second}" in str(caught.value)


def test_bad_label_of_standard_input_is_named_by_its_row(tmp_path: Path) -> None:
    path = numbers(tmp_path / "one.csv", [*([0, 1] * 40), 0.5])
    output = invoke("run", "-", "--label", "label", "--batch-size", 30, input=path.read_text()).output
    assert "row 81 of standard input" in " ".join(output.split())


def test_bad_late_label_is_named_by_its_line_in_the_file_of_labels(tmp_path: Path) -> None:
    rows = numbers(tmp_path / "rows.csv", list(range(90)), "x,key")
    labels = tmp_path / "labels.csv"
    labels.write_text("key,label\n" + "".join(f"{i},{1.5 if i == 50 else i % 2}\n" for i in range(90)))
    late: dict[str, Any] = {"labels": str(labels), "key": "key", "batch_size": 30, "model": "recommended-linear"}
    with pytest.raises(LabelError) as caught:
        driftsurf.run(rows, label="label", out=tmp_path / "a", **late)
    assert f"line 52 of {labels}" in str(caught.value)


def test_label_of_one_class_too_many_is_named_by_its_line(tmp_path: Path) -> None:
    path = numbers(tmp_path / "one.csv", [*("ab" * 40), "c"])
    with pytest.raises(LabelError) as caught:
        driftsurf.run(path, label="label", learner="svm", batch_size=30, out=tmp_path / "a")
    assert caught.value.value == "c"
    assert any(f"line 82 of {path}" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "arff"])
def test_text_after_numbers_names_the_option_that_reads_the_column_as_text(ending: str, tmp_path: Path) -> None:
    labels: list[object] = [*([0, 1] * 1000), *(["no", "yes"] * 20)]
    path = tmp_path / f"sales.{ending}"
    if ending == "jsonl":
        path.write_text("".join(json.dumps({"x": i % 7, "label": label}) + "\n" for i, label in enumerate(labels)))
    else:
        numbers(path, labels)
    if ending == "arff":
        head = "@relation r\n@attribute x numeric\n@attribute label numeric\n@data\n"
        path.write_text(head + path.read_text().partition("\n")[2])
    with pytest.raises(BadRowError) as caught:
        driftsurf.run(path, label="label", model="recommended-linear", out=tmp_path / "a")
    assert Option("kinds", {"label": "text"}) in options_in(caught.value.args[0])
    output = invoke("run", path, "--label", "label").output
    assert "--kind label=text" in " ".join(output.split())
    driftsurf.run(
        path, label="label", kinds={"label": "text"}, model="recommended-linear", out=tmp_path / "b", progress=False
    )


@pytest.mark.parametrize("late", [False, True])
def test_text_among_the_numbers_of_a_regression_is_not_to_be_read_as_text(tmp_path: Path, late: bool) -> None:
    labels: list[object] = [*(i % 10 + 0.5 for i in range(2000)), "dear"]
    path, options = numbers(tmp_path / "sales.csv", labels), dict[str, Any]()
    if late:
        given = tmp_path / "labels.csv"
        given.write_text("key,label\n" + "".join(f"{key},{label}\n" for key, label in enumerate(labels)))
        path, options = numbers(tmp_path / "rows.csv", range(2001), "x,key"), {"labels": given, "key": "key"}
    with pytest.raises(BadRowError, match="'dear'") as caught:
        driftsurf.run(path, label="label", task="regression", model="recommended-linear", out=tmp_path / "a", **options)
    assert [one.name for one in options_in(caught.value.args[0])] == ["on_bad_row"]


# -------------------------------------------------------------------- labels that may be meant otherwise


def advised(path: Path, **options: Any) -> list[Option]:
    """Return the options that the warnings at the start of a run name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        driftsurf.run(
            path,
            label="label",
            model="recommended-linear",
            out=path.parent / "run",
            overwrite=True,
            progress=False,
            **options,
        )
    return [
        part for one in caught if isinstance(one.message, ColumnWarning) for part in options_in(one.message.args[0])
    ]


def options_in(part: object) -> list[Option]:
    """Return the options that a message and those nested in it name."""
    if isinstance(part, Message):
        return [option for inner in part.parts for option in options_in(inner)]
    return [part] if isinstance(part, Option) else []


def test_whole_numbers_that_may_be_classes_or_amounts_name_the_other_task(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    regression, multiclass = Option("task", "regression"), Option("task", "multiclass")
    numbers(path, [i * 7 % 40 for i in range(1000)])
    assert advised(path) == [regression, multiclass]
    assert advised(path, task="multiclass") == advised(path, task="regression") == []
    numbers(path, [i * 7 % 15 for i in range(1000)])
    assert advised(path) == [multiclass, regression]
    for clear in (
        [i * 7 % 10 for i in range(1000)],
        [i * 7 % 300 for i in range(1000)],
        [i % 40 / 2 for i in range(1000)],
    ):
        numbers(path, clear)
        assert advised(path) == []


def test_label_that_differs_in_each_row_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    numbers(path, [f"id{i}" for i in range(60)])
    assert advised(path, batch_size=30) == [Option("label")]
    numbers(path, [i * 7919 % 100_003 for i in range(60)])
    assert advised(path, batch_size=30) == [Option("label")]
    numbers(path, [i * 7919 % 100_003 / 8 for i in range(60)])
    assert advised(path, batch_size=30) == []


def test_labels_that_differ_only_in_case_or_blanks_are_pointed_out() -> None:
    target = Target("sold", "multiclass")
    (hint,) = label_hints(target, "auto", np.array(["ja", "nein", "Ja ", "nein"] * 10))
    assert "'Ja '" in str(hint)
    assert "'ja'" in str(hint)
    assert "nein" not in str(hint)
    assert label_hints(target, "auto", np.array(["ja", "nein"] * 10)) == []


def test_labels_of_a_source_of_their_own_get_the_same_advice(tmp_path: Path) -> None:
    rows = numbers(tmp_path / "rows.csv", list(range(600)), "x,key")
    labels = tmp_path / "labels.csv"
    labels.write_text("key,label\n" + "".join(f"{i},{i * 7 % 25}\n" for i in range(600)))
    late = advised(rows, labels=str(labels), key="key", batch_size=300)
    assert late == [Option("task", "regression"), Option("task", "multiclass")]


# -------------------------------------------------------------------- times


def test_time_must_rise(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    table = [(i * 7919 % 1009, i, f"2024-01-{1 + i * 5 % 28:02}", i % 2) for i in range(200)]
    path.write_text("amount,t,day,label\n" + "".join(",".join(map(str, row)) + "\n" for row in table))
    for seconds in (None, 100.0, 1.0):
        with pytest.raises(SchemaError) as caught:
            driftsurf.run(path, label="label", time="amount", batch_seconds=seconds, out=tmp_path / "refused")
        assert Option("time") in caught.value.args[0].parts
        assert "'amount'" in str(caught.value)
    drop = {"drop": ["day", "amount"], "batch_size": 50}
    assert advised(path, time="day", **drop | {"drop": ["t"]}) == [Option("time")]
    assert Option("batch_seconds") in advised(path, time="t", **drop)
    assert Option("batch_seconds") not in advised(path, time="t", batch_seconds=60.0, drop=["day", "amount"])


def test_numbers_that_do_not_rise_after_the_first_batch_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    times = [*range(500, 540), *(i * 7919 % 1009 for i in range(400))]
    path.write_text("t,x,label\n" + "".join(f"{t},{i % 7},{i % 2}\n" for i, t in enumerate(times)))
    with pytest.raises(SchemaError) as caught:
        driftsurf.run(path, label="label", time="t", batch_size=20, out=tmp_path / "refused")
    assert "539, 0" in str(caught.value)
