"""Columns that a keyed run derives: answers to a question, and words of text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import invoke

import driftsurf
from driftsurf.data.frames import read_table
from driftsurf.data.row_encoder import Target
from driftsurf.errors import LabelError, OptionError
from driftsurf.keyed.folder import KeyedFolder
from driftsurf.keyed.grouping import MOST_WORDS, DerivedColumns, find_derived

LEARN = ["--key", "shop", "--sequence", "at", "--label", "delay > 0", "--features", "price,city"]


def shops(folder: Path, first: int = 0, last: int = 1500) -> Path:
    """Write rows of three shops whose delay depends on the city, the other way round after row 900."""
    rng = random.Random(first)
    lines = ["shop,at,price,city,delay"]
    for at in range(first, last):
        city = rng.choice(["Oslo", "Rome", "Lima", ""])
        delay = (10.0 if city == "Rome" else -10.0) * (1 if at < 900 else -1)
        lines.append(f"s{at % 3},{at},{rng.random()},{city},{'' if at % 97 == 5 else delay}")
    folder.mkdir(exist_ok=True)
    (folder / f"{first:05d}.csv").write_text("\n".join(lines) + "\n")
    return folder


def tables(out: Path) -> list[Any]:
    folder = KeyedFolder(out)
    return [folder.keys(), {name: sorted(zip(*folder.read(name).values(), strict=True)) for name in ("journal",)}]


def test_a_question_is_answered_and_text_is_learned(tmp_path: Path) -> None:
    source = shops(tmp_path / "in")
    output = invoke("run", source, *LEARN, "--out", tmp_path / "run").output
    assert "city (3)" in output
    assert "delay > 0: False, True (2 classes)" in output
    found = KeyedFolder(tmp_path / "run").read("predictions")
    by_row = dict(zip(found["sequence"], zip(found["prediction"], found["true"], strict=True), strict=True))
    assert {true for _, true in by_row.values()} == {True, False, None}
    assert all(by_row[at][1] is None for at in range(5, 1500, 97))  # the answer is missing where the delay is
    late = [(mine, true) for at, (mine, true) in by_row.items() if at >= 1300 and true is not None]
    assert np.mean([mine == true for mine, true in late]) > 0.9
    bare = driftsurf.run(
        source, key="shop", sequence="at", label="delay > 0", features=("price",), out=tmp_path / "bare"
    )
    errors = [
        sum(int(one["errors"]) for one in run.values())
        for run in (KeyedFolder(tmp_path / "run").keys(), bare.keys or {})
    ]
    assert 3 * errors[0] < 2 * errors[1]


def test_words_stay_the_same_when_a_run_resumes_with_more_files(tmp_path: Path) -> None:
    source = shops(tmp_path / "in", 0, 600)
    command = ["run", source, *LEARN, "--epoch", 10_000, "--out", tmp_path / "run"]
    assert invoke(*command).exit_code == 0
    new = shops(tmp_path / "in", 600, 1500) / "00600.csv"
    new.write_text(new.read_text().replace("Lima", "Quito"))  # would be a word, if the first rows decided again
    assert invoke(*command).exit_code == 0
    once = ["run", source, *LEARN, "--epoch", 600, "--out", tmp_path / "once"]
    assert invoke(*once).exit_code == 0
    features = [KeyedFolder(tmp_path / name).about()["learner"]["features"] for name in ("run", "once")]
    assert features[0] == features[1] == ["price", "city=Lima", "city=Oslo", "city=Rome", "city (other)"]
    resumed, whole = (KeyedFolder(tmp_path / name).keys() for name in ("run", "once"))
    assert {key: one["digest"] for key, one in resumed.items()} == {key: one["digest"] for key, one in whole.items()}


def test_words_are_those_that_the_run_has_saved(tmp_path: Path) -> None:
    # The words cannot be told from the names of the features: "x=a (other)" might be a word of the column "x".
    rows = [f"{i % 2},{i},{'ce'[i % 2]},{'bd'[i % 2]},{i % 3 == 0}" for i in range(90)]
    (tmp_path / "in.csv").write_text("\n".join(["k,n,x,x=a,y", *rows]) + "\n")
    options: dict[str, Any] = {"key": "k", "sequence": "n", "label": "y", "out": tmp_path / "run"}
    options |= {"features": ["x=a", "x"]}
    driftsurf.run(tmp_path / "in.csv", **options)
    assert KeyedFolder(tmp_path / "run").decided()["words"] == {"x": ["c", "e"], "x=a": ["b", "d"]}
    driftsurf.run(tmp_path / "in.csv", **options)


def test_each_row_is_derived_by_itself_and_gaps_stay_gaps() -> None:
    table = read_table({"city": ["Rome", None, "Nuuk"], "delay": [1.0, None, -1.0]})
    derived = find_derived(table.rows(0, 1), "delay > 0", Target("delay", "binary", ">", "0"), ["city"])
    full = derived.add_to(table)
    assert np.array_equal(full["delay > 0"].values, [1.0, np.nan, 0.0], equal_nan=True)
    assert np.array_equal(full["city=Rome"].values, [1.0, np.nan, 0.0], equal_nan=True)
    assert np.array_equal(full["city (other)"].values, [0.0, np.nan, 1.0], equal_nan=True)
    assert np.array_equal(derived.add_to(table.rows(2, 3))["city (other)"].values, [1.0])
    wide = read_table({"city": [f"c{i}" for i in range(99)], "y": [0] * 99})
    many = find_derived(wide, "y", Target("y", "binary"), ["city"])
    assert len(many.words["city"]) == MOST_WORDS
    assert DerivedColumns("y").add_to(table) is table


def test_questions_and_features_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    source = shops(tmp_path / "in", 0, 60)
    run: dict[str, Any] = {"key": "shop", "sequence": "at", "out": tmp_path / "run"}
    with pytest.raises(OptionError, match="regression"):
        driftsurf.run(source, label="delay > 0", task="regression", **run)
    with pytest.raises((OptionError, LabelError), match="'much'"):
        driftsurf.run(source, label="delay > much", **run)
    assert not (tmp_path / "run").exists()
