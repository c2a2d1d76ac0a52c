"""Text from data is shown without controlling the terminal, the page or the log that shows it."""

from __future__ import annotations

import csv
import io
import json
import logging
import random
import re
import sys
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pytest
from commands import invoke

import driftsurf
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.journal import Journal
from driftsurf.errors import InputError, Message, Option, StateWarning
from driftsurf.errors.visible import escape, visible, visible_values
from driftsurf.report.terminal import ProgressBar, Screen
from driftsurf.runs.hooks import _OneLine
from driftsurf.runs.prometheus import metric_labels
from driftsurf.runs.sinks import SinkContext, open_sink

HIDDEN = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp", "Cs")
    or unicodedata.bidirectional(chr(code)) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")
    or code in (0x061C, 0x200E, 0x200F)  # marks of direction
]
WRITABLE = [one for one in HIDDEN if unicodedata.category(one) != "Cs"]
NAME = "n" + "".join(one for one in WRITABLE if one not in "\0\r") + "[/b]{z}"
"""A name with every control character that a quoted cell of a CSV file can hold, and with marks of formats."""
FILE_NAME = NAME.replace("/", "")


def controls(text: str, *, allowed: str = "\n") -> set[str]:
    return set(HIDDEN).intersection(text) - set(allowed)


@pytest.mark.parametrize("one", [*WRITABLE, "\udcff"], ids=lambda one: f"{ord(one):04x}")
def test_every_control_character_is_shown_escaped_and_nothing_else_changes(one: str) -> None:
    shown = visible(f"a{one}b")
    assert not controls(shown, allowed="")
    assert shown.encode().decode("unicode_escape") == f"a{one}b"  # what it was can be read off
    assert controls(visible(one, lines=True), allowed="\n\t") == set()
    assert visible(shown) == shown


def test_ordinary_text_of_any_language_is_not_changed() -> None:
    for text in ("", "größe", "价格", "שלום", "مي‌خواهم", "👩‍👩‍👧", "a\\b"):
        assert visible(text) == text
    assert visible("a\tb\n", lines=True) == "a\tb\n"
    assert escape('<"\x1b">') == "&lt;&quot;\\x1b&quot;&gt;"
    assert visible_values({"\x07": ["\x1b", 1, None, ("\n",)]}) == {"\\x07": ["\\x1b", 1, None, ["\\n"]]}


def test_errors_and_warnings_of_the_library_are_one_visible_line() -> None:
    for message in (str(InputError("bad: ", NAME)), str(StateWarning(NAME)), Message(NAME, Option("drop", [NAME]))):
        assert not controls(message, allowed="")
    with pytest.warns(StateWarning) as caught:
        warnings.warn(NAME, StateWarning, stacklevel=1)
    assert not controls(str(caught[0].message), allowed="")


@pytest.mark.parametrize("terminal", [False, True])
def test_the_console_shows_text_as_it_is(terminal: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    out = io.StringIO()
    screen = Screen(file=out, force_terminal=terminal, color_system=None, markup=False, emoji=False, width=2000)
    table = Table(NAME)
    table.add_row(NAME)
    table.add_row(Text(NAME))
    screen.print(NAME)
    screen.print(Text(NAME))
    screen.print(table)
    shown = out.getvalue()
    assert not controls(shown)
    assert shown.count("[/b]{z}") == 5
    assert shown.count("\\x1b") == 5
    assert shown.splitlines()[0] == visible(NAME)


def test_a_progress_bar_shows_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    screen = Screen(file=out, force_terminal=True, color_system=None, markup=False, emoji=False, width=3000)
    monkeypatch.setattr("driftsurf.report.terminal.console", lambda errors=False: screen)
    with ProgressBar(NAME, 2) as progress:
        progress(0, "driftsurf", 0.5, ())
    assert visible(NAME) in out.getvalue()
    assert not controls(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue()), allowed="\n\r")


def test_logs_metrics_and_the_journal_in_words_are_visible() -> None:
    record = logging.LogRecord("driftsurf", logging.INFO, "", 0, "%s: moved", (NAME,), None)
    assert _OneLine().format(record) == visible(NAME) + ": moved"
    labels = metric_labels(NAME)
    assert not controls(labels, allowed="\t")
    assert "\\\\x1b" in labels  # as Prometheus escapes a backslash
    journal = Journal()
    change = Transition("reset", 1, why=NAME)
    journal.record(Decision(1, 0, 10, "stable", 0, 0, 0, models=(), transitions=(change,)))
    assert not controls(journal.explain())
    assert not controls(journal._repr_html_())


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("terminal", [False, True])
def test_predictions_on_a_terminal_are_visible_and_exact_elsewhere(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from driftsurf.runs.predictions import PredictionBatch

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", (Terminal if terminal else io.TextIOWrapper)(raw, encoding="utf-8"))
    sink = open_sink("-", SinkContext("text", has_ids=True, has_true=False))
    sink.begin()
    sink.take(PredictionBatch(0, None, [NAME], None, ids=[NAME]))
    text = raw.getvalue().decode()
    if terminal:
        assert not controls(text, allowed="\n\t\r")
    else:
        assert NAME in next(iter(list(csv.reader(io.StringIO(text, newline="")))[1:]))


# ---------------------------------------------------------------------------- every command


def table(path: Path) -> Path:
    """Write a table whose column names, cells, labels and ids hold every control character."""
    draw = random.Random(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([NAME, NAME + "kind", NAME + "id", NAME + "label"])
        for i in range(600):
            x = draw.random() + 5 * (i > 300)
            label = (x % 5 > 0.5) ^ (i > 300)
            rows.writerow([x, f"{NAME}{i % 3}", f"{NAME}{i}", NAME + ("yes" if label else "no")])
    return path


def assert_visible(folder: Path) -> None:
    """Check every page and every other file for people below a folder."""
    found = [path for path in folder.rglob("*") if path.suffix in (".html", ".svg", ".md", ".prom")]
    assert found
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert not controls(text, allowed="\n\t"), path
        for data in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S):
            assert not [one for one in texts(json.loads(data)) if controls(one, allowed="")], path


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    entries = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for entry in entries for text in texts(entry)]


def test_commands_on_one_model_show_no_control_character(tmp_path: Path) -> None:
    place = tmp_path / "here"
    place.mkdir()
    source = table(place / f"{FILE_NAME.encode()[:200].decode(errors='ignore')}.csv")
    out, checkpoint = place / "run\x1b[31m\n", place / "saved\x9b\u202e"
    options = ["--label", NAME + "label", "--id", NAME + "id", "--batch-size", 50]
    files = ["--out", out, "--checkpoint", checkpoint, "--metrics", place / "m.prom", "--log-level", "debug"]
    for words in (
        ["run", source, *options, *files],
        ["explain", out],
        ["explain", out, "--html", place / "page\x07.html"],
        ["runs", place],
        ["inspect", checkpoint],
        ["inspect", out / "model.state"],
        ["predict", out, source, "--out", place / "answers\x1b.csv"],
    ):
        result = invoke(*words)
        assert result.exit_code == 0, words
        assert not controls(result.output), words
        assert "\\x" in result.output, words  # the name was shown, not left out
    assert_visible(place)
    with (place / "answers\x1b.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file))[1][1] == NAME + "0"  # for programs ids are exact


@pytest.mark.parametrize(
    "words",
    [
        [NAME],
        ["run", f"--{NAME}"],
        ["run", NAME],
        ["run", "TABLE", "--label", NAME + "x"],
        ["run", "TABLE", "--label", NAME + "label", "--drop", NAME + "x"],
        ["run", "TABLE", "--label", NAME + "label", "--task", "regression"],
        ["run", "TABLE", "--label", NAME + "label", "--model", NAME],
        ["run", "TABLE", "--label", NAME + "label", "--set", NAME],
        ["run", "TABLE", "--label", NAME + "label", "--batch-size", NAME],
        ["run", "TABLE", "--label", NAME + "label", "--format", NAME],
        ["explain", FILE_NAME],
        ["compare", NAME],
    ],
)
def test_errors_of_commands_show_no_control_character(words: list[str], tmp_path: Path) -> None:
    source = table(tmp_path / "table.csv")
    result = invoke(*(str(source) if word == "TABLE" else word for word in words))
    assert result.exit_code in (1, 2)
    assert "\\x1b" in result.output
    assert not controls(result.output, allowed="\n\t")  # click before 8.4 keeps the tab of a wrong option


def test_keyed_commands_and_comparisons_show_no_control_character(tmp_path: Path) -> None:
    draw = random.Random(0)
    source = tmp_path / "keyed.csv"
    with source.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([NAME + "key", "sequence", NAME, "label"])
        for i in range(300):
            x = draw.random()
            rows.writerow([f"{NAME}{i % 3}", i, x, NAME + ("a" if x > 0.5 else "b")])
    keyed = tmp_path / "keyed\x1b"
    names = ["--key", NAME + "key", "--sequence", "sequence", "--label", "label"]
    models = ["--models", "oblivious,majority", "--batch-size", 100, "--jobs", 1]
    for words in (
        ["run", source, *names, "--out", keyed],
        ["keys", keyed],
        ["keys", keyed, f"{NAME}1"],
        ["compare", source, "--label", "label", "--drop", NAME + "key", *models, "--out", tmp_path / "compared\x1b"],
    ):
        result = invoke(*words)
        assert result.exit_code == 0, result.output
        assert not controls(result.output), words
    assert not controls(invoke("keys", keyed, "no such key").output)
    assert_visible(tmp_path)


def test_the_library_logs_and_reports_visible_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = table(tmp_path / "table.csv")
    result = driftsurf.run(
        source, label=NAME + "label", drop=[NAME + "id"], batch_size=50, out=tmp_path / "run\x1b", log_level="debug"
    )
    assert not controls(capsys.readouterr().err)
    assert not controls(driftsurf.explain(result.folder))
    with pytest.raises(InputError) as caught:
        driftsurf.run(source, label=NAME + "x")
    assert not controls(str(caught.value), allowed="")
