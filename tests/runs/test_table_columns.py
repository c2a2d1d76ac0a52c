"""How a run reads columns: what it prints, which options it suggests, what it saves."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import invoke
from table_files import write_csv
from table_runs import LEARN, ROWS, good, killed


def test_growing_file_is_followed_to_its_end(tmp_path: Path) -> None:
    source = write_csv(tmp_path, ROWS[:1200])
    result = good(source, *LEARN, "--follow", "--follow-for", "0.5", "--out", tmp_path / "run")
    assert "1,200" in result.output


def test_config_file_repeats_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = write_csv(tmp_path, ROWS)
    options = [
        *("--label", "sold", "--drop", "id", "--drop", "share", "--categorical", "member", "--kind", "member=text"),
        *("--batch-size", "150", "--set", "l2=0.001", "--set", "threshold=0.07", "--no-greedy", "--quiet"),
        *("--on-bad-row", "skip", "--no-raw", "--step-size", "auto", "--seed", "5"),
    ]
    assert "driftsurf run run.toml" in good(source, *options, "--write-config", "run.toml").output
    assert not Path("runs").exists()
    good(source, *options, "--out", "typed")
    good("run.toml", "--out", "read")
    good("--config", "run.toml", "--out", "named")
    good(source, "--config", "run.toml", "--out", "both", "--seed", "6", "--set", "threshold=0.5")
    for name in ("read", "named"):
        for file in ("run.json", "trace.csv", "journal.jsonl", "report.html"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "typed" / file).read_bytes()
    both = json.loads(Path("both/run.json").read_text())
    assert (both["seed"], both["parameters"]["threshold"], both["drop"]) == (6, 0.5, ["id", "share"])
    good("run.toml", "--write-config", "again.toml")
    assert Path("again.toml").read_text() == Path("run.toml").read_text()


def european(folder: Path, count: int = 600) -> Path:
    """Write a file with semicolons, decimal commas, thousands points, German dates and an unusual missing value."""
    rng = np.random.default_rng(0)
    lines = ["nr;tag;preis;menge;stadt;verkauft"]
    for i, price in enumerate(rng.normal(1000.0, 300.0, count)):
        shown = f"{price:,.2f}".translate(str.maketrans(",.", ".,"))
        amount = "k.A." if i % 20 == 3 else f"{i % 9},5"
        lines.append(
            f"n{i};{1 + i % 28}.{1 + i // 28 % 12}.2007;{shown};{amount};Rom;{'ja' if price > 1000 else 'nein'}"
        )
    path = folder / "eu.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_run_prints_the_kinds_of_columns_and_suggests_options(tmp_path: Path) -> None:
    path = european(tmp_path)
    first = good(path, "--label", "verkauft", "--batch-size", "100", "--out", tmp_path / "a").output
    names = next(line for line in first.splitlines() if "stadt" in line)
    for column in ("menge (10", "stadt (1", "nr (100"):
        assert column in names
    assert [line.split() for line in first.splitlines()[:2]] == [["numbers", "preis"], ["dates", "tag"]]
    for hint in ("--date-format %d.%m.%Y", "--decimal , --thousands ."):
        assert hint in first
    mended = [
        *(path, "--label", "verkauft", "--batch-size", "100", "--drop", "nr", "--decimal", ",", "--thousands", "."),
        *("--date-format", "%d.%m.%Y", "--missing", "k.A."),
    ]
    second = good(*mended, "--out", tmp_path / "b").output
    shown = [line.split()[-2:] for line in second.splitlines()[:4]]
    assert shown == [["preis,", "menge"], ["dates", "tag"], ["stadt", "(1)"], ["out", "nr"]]
    assert second.splitlines()[4].split()[1:4] == ["verkauft:", "ja,", "nein"]
    assert "--decimal" not in second
    assert "--date-format" not in second
    about = json.loads((tmp_path / "b" / "run.json").read_text())
    assert about["columns"]["numbers"] == ["preis", "menge"]
    assert (about["decimal"], about["thousands"], about["date_formats"]) == (",", ".", ["%d.%m.%Y"])
    assert "numbers" not in good(*mended, "--quiet", "--out", tmp_path / "c").output
    piped = good(*mended, "--predictions", "-", "--out", tmp_path / "d")
    assert "numbers" in piped.stderr
    assert "numbers" not in piped.stdout
    mean = next(line for line in second.splitlines() if line.startswith(" mean error")).split()[2]
    assert float(mean) < 0.3


def test_reading_options_are_part_of_config_files_and_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = european(tmp_path)
    reading = ["--decimal", ",", "--thousands", ".", "--date-format", "%d.%m.%Y", "--date-format", "%Y"]
    reading += ["--missing", "k.A."]
    options = ["--label", "verkauft", "--batch-size", "50", "--drop", "nr", "--quiet"]
    good(path, *options, *reading, "--write-config", "run.toml")
    good("run.toml", "--out", "read")
    live = ["--checkpoint", "live", "--every", "3"]
    killed(7, path, *options, *reading, *live)
    other = invoke("run", path, *options, *reading[:-2], *live, "--resume")
    assert other.exit_code == 1
    assert "--missing" in other.output
    assert "k.A." in other.output
    good(path, *options, *reading, *live, "--resume")
    for file in ("run.json", "trace.csv", "journal.jsonl"):
        assert Path("read", file).read_bytes() == Path("live/result", file).read_bytes()


def test_first_batch_without_labels_is_described_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n,y\n" + "1,\n" * 20 + "1,a\n2,b\n" * 30)
    options = [path, "--label", "y", "--batch-size", "20", "--on-bad-row", "skip", "--task", "binary"]
    output = good(*options, "--out", tmp_path / "run").output
    assert [line.split()[1] for line in output.splitlines()[:2]] == ["n", "y:"]


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(
    ("target", "named"),
    [
        (["preis", "--task", "regression"], "'regression'"),
        (["preis > 10"], "==, !="),
    ],
)
def test_text_used_as_numbers_leads_to_a_hint_about_the_decimal_mark(
    command: str, target: list[str], named: str, tmp_path: Path
) -> None:
    path = tmp_path / "eu.csv"
    path.write_text("x;preis\n" + "".join(f"{i % 3};{i % 20},5\n" for i in range(60)))
    kept = "--kind", "preis=text"  # otherwise the decimal mark is inferred
    output = invoke(command, path, "--label", *target, *kept, "--out", tmp_path / "out").output
    assert named in output
    assert "--decimal ," in " ".join(output.split())


@pytest.mark.filterwarnings("always::driftsurf.errors.SmallBatchWarning")
def test_warning_names_the_option_as_it_is_typed(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("x,y\n" + "".join(f"{i * 7 % 5},{i % 2}\n" for i in range(200)))
    few = "--label", "y", "--batch-size", 5, "--quiet"
    assert "--batch-size" in good(path, *few, "--model", "driftsurf", "--out", tmp_path / "run").stderr
    assert "--batch-size" not in good(path, *few, "--model", "recommended-light", "--out", tmp_path / "other").stderr


def test_columns_of_a_label_file_lead_to_hints(tmp_path: Path) -> None:
    rows, labels = tmp_path / "rows.csv", tmp_path / "labels.csv"
    rows.write_text("id,x\n" + "".join(f"k{i % 200},{i * 7 % 10}\n" for i in range(200)))
    labels.write_text("id;note;preis\n" + "".join(f"k{i};n{i};{i % 2},5\n" for i in range(200)))
    late = ["--labels", labels, "--key", "id", "--label", "preis", "--batch-size", 50, "--quiet"]
    hints = good(rows, *late, "--out", tmp_path / "run").stderr.splitlines()
    (hint,) = hints
    assert "'preis'" in hint
    assert "--decimal ," in hint


def test_third_class_is_learned_or_leads_to_a_hint_about_the_task(tmp_path: Path) -> None:
    rows = [{"x": i, "y": "ab"[i % 2] if i < 300 else "c"} for i in range(400)]
    options = ["--label", "y", "--batch-size", 100]
    source = write_csv(tmp_path, rows)
    assert invoke("run", source, *options, "--model", "driftsurf", "--out", tmp_path / "run").exit_code == 0
    result = invoke("run", source, *options, "--model", "driftsurf:svm", "--out", tmp_path / "svm")
    assert result.exit_code == 1
    assert "--task multiclass" in result.output


def test_missing_pyarrow_is_reported_with_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"x": i, "y": i % 2}) + "\n" for i in range(300)))
    result = invoke("run", source, "--label", "y", "--predictions", tmp_path / "p.parquet", "--out", tmp_path / "r")
    assert result.exit_code != 0
    assert "pip install pyarrow" in result.output
