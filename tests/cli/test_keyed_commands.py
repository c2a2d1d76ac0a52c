"""`driftsurf run --key` and `driftsurf keys`."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands import invoke
from keyed_rows import shops, write_rows
from pyarrow import parquet

from driftsurf.data import ReadingOptions
from driftsurf.keyed import Columns, KeyedFolder, KeyedOptions
from driftsurf.report.key_page import KeyMap


@pytest.mark.parametrize(
    ("labels", "remedy"),
    [(("low", "mid", "high"), "--classes low,mid,high"), ((0.5, 1.5, 2.5), "--task regression")],
)
def test_a_run_fails_with_a_remedy_if_all_keys_are_in_quarantine(
    tmp_path: Path, labels: tuple[Any, ...], remedy: str
) -> None:
    rows = [[f"s{i % 2}", i, float(i % 7), labels[i // 2 % 3]] for i in range(90)]
    source = tmp_path / "a.csv"
    source.write_text("shop,at,price,grade\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    columns = ("--key", "shop", "--sequence", "at", "--label", "grade")
    chosen = ("--learner", "svm") if "--classes" in remedy else ("--task", "binary")
    result = invoke("run", source, *columns, *chosen, "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert " 2 keys" in result.stderr
    assert remedy in result.stderr
    if "--classes" in remedy:
        assert "--out" in result.stderr
        reasons = {entry["quarantine"] for entry in KeyedFolder(tmp_path / "run").keys().values()}
        assert reasons == {"bad_label"}
        for name, more in (("named", ("--classes", "low,mid,high")), ("unnamed", ())):
            good = invoke("run", source, *columns, "--out", tmp_path / name, *more)
            assert good.exit_code == 0
            assert "quarantine" not in good.stderr
    else:  # not a row was learned, so nothing is left
        assert not (tmp_path / "run").exists()
        assert invoke("run", source, *columns, "--out", tmp_path / "run").exit_code == 0
        assert KeyedFolder(tmp_path / "run").regression


def test_a_keyed_run_prints_keys_and_writes_a_page(tmp_path: Path) -> None:
    rows = shops()
    rows[900][3] = ""
    source = write_rows(tmp_path / "a.csv", rows)
    out = tmp_path / "run"
    columns = ("--key", "shop", "--sequence", "at", "--label", "bought", "--features", "price, age")
    options = (
        "--on-gap",
        "quarantine",
        "--classes",
        "0,1",
        "--batch-size",
        10,
        "--step-size",
        "0.1",
        "--threshold",
        0.2,
        "--epoch",
        500,
    )
    result = invoke("run", source, *columns, *options, "--out", out)
    assert result.exit_code == 0, result.output
    epoch = next(line for line in result.output.splitlines() if line.startswith("epoch 2: "))
    assert epoch.split()[2:6:2] == ["4", "200"]  # keys, rows
    assert re.search(r"\n4 keys.* 1 .*quarantine", result.output)
    assert "1 of 4 keys" in result.stderr
    quarantined = next(line for line in result.output.splitlines() if "not_finite" in line)
    for value in (str(rows[900][1]), "price", "nan"):
        assert value in quarantined
    page = (out / "keys.html").read_text()
    assert re.search(r'<svg[^>]* aria-label="', page)
    assert 'class="changed"' in page
    own = next((out / "key_pages").glob(f"{rows[900][0]}-*")).read_text()
    assert re.search(r'class="warning".* 900.*price', own)
    assert re.search(r"\n1 of 4 keys need attention", result.output)
    assert sum(line.partition(" ")[0] in {row[0] for row in rows} for line in result.output.splitlines()) == 1
    for order in ("pin", "reset", "rollback"):
        refused = invoke(order, out)
        assert (refused.exit_code, "keyed run" in " ".join(refused.output.split())) == (1, True)
    (out / "keys.html").unlink()
    shown = invoke("keys", out, "--limit", 2)
    assert re.search(r" 2 [^\n]*keys", shown.output)
    assert (out / "keys.html").read_text() == page
    key, at = rows[900][0], rows[900][1]
    again = invoke("run", source, *columns, *options, "--out", out, "--readmit", f"{key}={at}", "--quiet")
    assert again.exit_code == 0
    assert "epoch 2" not in again.output


@pytest.mark.parametrize(("as_text", "known", "unknown"), [(True, "007", "7"), (False, "7", "007"), (True, "a=b", "a")])
def test_keys_are_readmitted_by_their_printed_names(tmp_path: Path, as_text: bool, known: str, unknown: str) -> None:
    key = known if as_text else int(known)
    frame = pa.table({"k": [key] * 40, "t": range(40), "x": [*([0.5] * 19), math.nan, *([0.5] * 20)], "y": [0, 1] * 20})
    (tmp_path / "in").mkdir()
    parquet.write_table(frame.slice(0, 30), tmp_path / "in" / "0.parquet")
    columns = ("--key", "k", "--sequence", "t", "--label", "y", "--on-gap", "quarantine", "--share", "none")
    run = ("run", tmp_path / "in", *columns, "--out", tmp_path / "run")
    early = invoke(*run, "--readmit", f"{known}=19")
    assert early.exit_code != 0
    assert not (tmp_path / "run").exists()
    assert "--readmit" in invoke(*run).stderr  # its only key is in quarantine
    parquet.write_table(frame.slice(30), tmp_path / "in" / "1.parquet")
    wrong = invoke(*run, "--readmit", f"{unknown}=19")
    assert wrong.exit_code != 0
    assert f" {unknown} " in wrong.output
    folder = KeyedFolder(tmp_path / "run")
    assert folder.keys()[key]["quarantined_at"] == 19
    assert invoke(*run, "--readmit", f"{known}=19").exit_code == 0
    assert (folder.keys()[key]["quarantine"], folder.keys()[key]["refused"]) == ("", 11 + 19)


def test_reading_options_reach_a_keyed_run_and_columns_are_printed(tmp_path: Path) -> None:
    rows = [
        f"s{i % 2};{1 + i % 28:02d}.{1 + i // 28:02d}.2020;{i % 3 % 2};{str(i % 7 - 3.5).replace('.', ',')};t{i}"
        for i in range(90)
    ]
    rows[7] = "s1;08.01.2020;-;0,5;t7"
    source = tmp_path / "a.csv"
    source.write_text("\n".join(["shop;at;bought;price;note", *rows]) + "\n")
    columns = ("run", source, "--key", "shop", "--sequence", "at", "--label", "bought", "--classes", "0,1")
    reading = ("--decimal", ",", "--date-format", "%d.%m.%Y", "--missing", "-")
    result = invoke(*columns, *reading, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.output.splitlines()[:3]] == [
        ["numbers", "price"],
        ["left", "out", "note"],
        ["label", "bought:", "0,", "1", "(2", "classes)"],
    ]
    assert "note" not in result.stderr  # a column that is left out need not be dropped
    entries = KeyedFolder(tmp_path / "run").keys()
    assert [entry["rows"] for entry in entries.values()] == [45, 45]
    assert sum(entry["scored"] for entry in entries.values()) == 89
    again = invoke(*columns, *reading, "--out", tmp_path / "run")
    assert "numbers" not in again.output
    hinted = invoke(*columns, *reading[2:], "--out", tmp_path / "other", "--features", "price")
    assert hinted.exit_code == 0  # the cells show how they are read, which is said
    assert "'price'" in hinted.stderr
    source.write_text(source.read_text().replace("note", "mark").replace(";t", ";1"))
    guessed = invoke(*columns, *reading[2:], "--out", tmp_path / "guess")
    assert "'price'" in guessed.stderr
    assert "'-3,5'" in guessed.stderr
    assert "--decimal ," in guessed.stderr


def test_keys_above_max_bytes_can_be_readmitted_with_a_larger_bound(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "0.csv", shops(400, 1))
    columns = ("--key", "shop", "--sequence", "at", "--label", "bought", "--classes", "0,1", "--quiet")
    run = ("run", tmp_path / "in", *columns, "--out", tmp_path / "run")
    result = invoke(*run, "--max-bytes", 100)
    assert result.exit_code == 1
    assert "--max-bytes" in result.stderr
    assert "--readmit" in result.stderr
    write_rows(tmp_path / "in" / "1.csv", shops(400, 1, 400))
    assert invoke(*run, "--max-bytes", 10**6, "--readmit", "s0=31").exit_code == 0
    assert KeyedFolder(tmp_path / "run").keys()["s0"]["steps"] == 12


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--batch-size", "x"), "epoch"),
        (("--step-size", "x"), "auto"),
        (("--readmit", "x"), "KEY=SEQUENCE"),
        (("--checkpoint", "live"), "--checkpoint"),
        (("--overwrite",), "--out"),
        (("--metrics", "90"), "--metrics"),
        (("--set", "l2"), "NAME=VALUE"),
        (("--master", "local[2]"), "'master'"),
        (("--engine", "dask"), "'dask'"),
    ],
)
def test_wrong_options_of_a_keyed_run_are_usage_errors(tmp_path: Path, option: tuple[str, ...], message: str) -> None:
    args = ("--key", "k", "--sequence", "s", "--label", "y", "--out", tmp_path / "run")
    result = invoke("run", "x.csv", *args, *option)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.csv", "--engine", "spark"], "--key"),
        (["x.csv", "--master", "yarn"], "--master"),
        (["x.csv", "--id", "i", "--delay", "1"], "--id"),
        (["x.csv", "--batch-size", "epoch"], "--batch-size epoch"),
        (["x.csv", "--delay", "1.5"], "--delay"),
        (
            ["x.csv", "--labels", "y.csv", "--key", "k", "--ttl", "5"],
            "--ttl",
        ),
        (["x.csv", "--key", "k"], "--sequence"),
        (["x.csv", "--key", "k", "--sequence", "s"], "--label"),
        (["x.csv", "--key", "k", "--sequence", "s", "--label", "y"], "--out"),
        (["-", "--key", "k", "--sequence", "s", "--label", "y", "--out", "o"], "'-'"),
        (["sea0", "--key", "k", "--sequence", "s"], "'sea0'"),
        (["sea0", "--batch-size", "epoch"], "--batch-size epoch"),
    ],
)
def test_keyed_options_without_a_key_are_usage_errors(arguments: list[str], message: str) -> None:
    result = invoke("run", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_options_of_a_keyed_run_reach_the_library_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Called(Exception):
        pass

    def called(*args: Any, **more: Any) -> None:
        calls.append((args, more))
        raise Called

    monkeypatch.setattr("driftsurf.runs.keyed_run.run_keyed", called)
    columns = (
        "--key",
        "k",
        "--sequence",
        "s",
        "--label",
        "y",
        "--id",
        "i",
        "--delay",
        "2.5",
        "--classes",
        "none,1,true",
    )
    engine = ("--engine", "spark", "--master", "local[2]", "--partitions", 3, "--epoch", 4, "--ttl", 9, "--quiet")
    model = ("--batch-size", 8, "--max-rows", 64, "--max-bytes", 4096, "--l2", 0.1, "--seed", 2, "--delimiter", ";")
    rest = ("--max-pending", 9, "--readmit", "a=b=7", "--out", "o")
    with pytest.raises(Called):
        invoke("run", "x.csv", *columns, *engine, *model, *rest)
    ((args, more),) = calls
    assert callable(more.pop("on_columns"))
    assert args[:3] == ("x.csv", Path("o"), Columns("k", "s", "y", "i"))
    assert args[3] == KeyedOptions(
        classes=("none", 1, True),
        batch_size=8,
        delay=2.5,
        max_pending=9,
        max_bytes=4096,
        seed=2,
        readmit={"a=b": 7},
    )
    strategy = more.pop("make_strategy")("binary", 2048)
    assert (strategy.max_rows, strategy.learner.l2) == (64, 0.1)
    assert more == {
        "task": "auto", "engine": "spark", "master": "local[2]", "partitions": 3, "epoch": 4, "ttl": 9.0,
        "on_epoch": None, "reading": ReadingOptions(delimiter=";")
    }  # fmt: skip


def test_a_keyed_run_can_be_written_to_a_config_file(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.csv", shops(100))
    words = ("--key", "shop", "--sequence", "at", "--label", "bought", "--classes", "0,1", "--features", "price,age")
    out, config = tmp_path / "run", tmp_path / "shops.toml"
    for more in ((), ("--write-config", config)):
        result = invoke("run", source, *words, "--engine", "local", "--batch-size", "epoch", "--out", out, *more)
        assert result.exit_code == 0, result.output
    before = sorted((out / "epochs").iterdir())
    assert invoke("run", config).exit_code == 0  # the same options: the run resumes, and finds nothing new
    assert sorted((out / "epochs").iterdir()) == before
    assert invoke("run", config, "--threshold", 0.5).exit_code == 1


def test_keys_without_a_useful_model_are_named_and_have_pages(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [[*row[:2], *([int(rng.random() < 0.8)] if row[0] == "s1" else row[2:3]), *row[3:]] for row in shops(800, 3)]
    source, out = write_rows(tmp_path / "a.csv", rows), tmp_path / "run"
    columns = ("--key", "shop", "--sequence", "at", "--label", "bought", "--features", "price,age", "--threshold", 0.2)
    result = invoke("run", source, *columns, "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    assert re.search(r"warning: .* 1 of 3 keys .*: s1\n", result.stderr)
    page = (out / "keys.html").read_text()
    assert re.search(r'class="warning".* 1 of 3 keys [^<]*: s1\.<', page)
    links = re.findall(r'<a href="(key_pages/[^"]*)">(\w+)</a>', page)
    assert links[0][1] == "s1"
    pages = {name: (out / link).read_text() for link, name in links}
    assert sorted(pages) == ["s0", "s1", "s2"]
    assert 'href="../keys.html"' in pages["s0"]
    assert "switched" in pages["s0"]
    own = invoke("keys", out, "s0", "--page", tmp_path / "s0.html")
    assert re.search(r"\ns0 .* 0\.\d{3} ", own.output)
    alone = (tmp_path / "s0.html").read_text()
    assert "switched" in alone
    assert 'href="../keys.html"' not in alone
    wrong = invoke("keys", out, "s7")
    assert wrong.exit_code == 1
    assert "'s7'" in wrong.stderr
    assert "s0" in wrong.stderr
    assert invoke("keys", out, "--page", tmp_path / "x.html").exit_code == 2


def test_a_time_step_can_be_an_epoch(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "a.csv", shops(100))
    args = ("--key", "shop", "--sequence", "at", "--label", "bought", "--batch-size", "epoch", "--epoch", 25)
    result = invoke("run", source, *args, "--classes", "true,false", "--out", tmp_path / "run", "--quiet")
    assert result.exit_code == 0
    table = KeyedFolder(tmp_path / "run").read("predictions")
    assert set(table["prediction"]) <= {0, 1}  # as the labels are written, not the classes


def test_a_folder_that_is_not_a_keyed_run_is_an_error(tmp_path: Path) -> None:
    result = invoke("keys", tmp_path)
    assert result.exit_code == 1
    assert str(tmp_path) in result.output
    for text in ("{}", "[]"):
        (tmp_path / "run.json").write_text(text)
        assert invoke("keys", tmp_path).exit_code == 1
    assert invoke("keys", "--help").exit_code == 0


def test_sequence_numbers_that_are_dates_are_shown_as_dates(tmp_path: Path) -> None:
    days = np.datetime64("2025-06-29T10:00") + np.arange(400) * np.timedelta64(30, "m")
    lines = [
        f"{day},{'a-city-with-a-long-name' if i % 2 else 'b'},{i % 5},{int((i % 5 > 2) != (i > 200))}\n"
        for i, day in enumerate(days)
    ]
    (tmp_path / "a.csv").write_text("at,city,x,y\n" + "".join(lines))
    columns = ("--key", "city", "--sequence", "at", "--label", "y", "--share", "none")
    result = invoke("run", tmp_path / "a.csv", *columns, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert "2025-07-0" in result.output
    page = (tmp_path / "run" / "keys.html").read_text()
    assert 'text-anchor="start">2025-06-29<' in page
    assert "a-city-with-a-long-..." in page
    assert ",000,000" not in page
    assert "2025-06-29" in next((tmp_path / "run" / "key_pages").iterdir()).read_text()
    for text in (str(tmp_path / "a.csv"), "key city", "label y", "learner LogisticRegression"):
        assert text in page
    entry = {"high_water": int(days[3].astype("datetime64[us]").astype(np.int64))}
    assert ">2025-06-29 10:00<" in KeyMap({"a": entry}, [], start=1751191200000000, dates=True).render()
    assert f"driftsurf keys {tmp_path / 'run'}" in invoke("explain", tmp_path / "run").output
    (tmp_path / "journal.jsonl").write_text("")
    assert f"driftsurf explain {tmp_path}" in invoke("keys", tmp_path).output
