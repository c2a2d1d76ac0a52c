"""Comparisons: results, reports and the command."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from commands import invoke
from table_files import write_inverted

from driftsurf.comparison.compare import Comparison, compare, standings_of, to_json
from driftsurf.comparison.inputs import Input
from driftsurf.comparison.matches import Match, Score
from driftsurf.comparison.models import Schedule, Situation
from driftsurf.comparison.runner import Ledger
from driftsurf.core import disk, files
from driftsurf.errors import (
    LockedError,
    OptionError,
    RunFolderError,
)
from driftsurf.evaluation.summary import ClassQuality
from driftsurf.report import comparison
from driftsurf.report.comparison import chart

TREE = "sklearn.tree.DecisionTreeClassifier(max_depth=4)"
TWO = Situation(n_classes=2, batch_size=50)


# ---------------------------------------------------------------------------- standings


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_inverted(tmp_path)


def scores(*errors: list[float], seconds: float = 1.0, gradients: int = 200) -> list[Score]:
    return [Score(np.array([0.9, *error]), 100, gradients, seconds) for error in errors]


def two_sources() -> Comparison:
    easy = {"a": scores([0.1, 0.2] * 8, [0.2, 0.2] * 8), "b": scores([0.3, 0.4] * 8, [0.3, 0.4] * 8, gradients=0)}
    hard = {"a": scores([0.5] * 16, [0.5] * 16), "b": scores([0.4] * 16, [0.4] * 16, gradients=0)}
    return standings_of([("easy", easy), ("hard", hard)], seeds=(0, 1), gradients_per_row=None)


def test_the_first_batch_does_not_count_and_errors_are_averaged_over_seeds_and_sources() -> None:
    result = two_sources()
    easy, hard = result.sources
    assert [one.error.value for one in easy.models] == pytest.approx([0.175, 0.35])
    assert easy.winner.model == "a"
    assert hard.winner.model == "b"
    assert easy.sure
    assert easy.verdict().startswith("a wins")
    assert easy.second is not None
    assert easy.second.behind.low > 0.1
    assert result.overall.winner.model == "a"
    assert result.overall.winner.error.value == pytest.approx((0.175 + 0.5) / 2)
    assert [one.rank for one in result.overall.models] == [1.5, 1.5]
    assert [one.seconds for one in result.overall.models] == [2.0, 2.0]
    assert [one.gradients_per_row for one in result.overall.models] == [2.0, 0.0]
    assert sum(one.wins or 0.0 for one in result.overall.models) == pytest.approx(1.0)


def test_models_with_the_same_error_are_tied_and_share_the_win_rate() -> None:
    same, worse = [0.1, 0.2, 0.3] * 6, [0.4] * 18
    three = {"a": scores(same), "b": scores(worse), "c": scores(same)}
    overall = standings_of([("table", three)], seeds=(0,), gradients_per_row=None).overall
    assert [one.wins for one in overall.models] == [0.5, 0.0, 0.5]
    assert [one.model for one in overall.tied] == ["a", "c"]
    assert not overall.sure
    assert "a and c are tied" in overall.verdict()
    assert "wins" not in overall.verdict()
    assert [one.model for one in two_sources().sources[0].tied] == ["a"]


def test_a_winner_by_chance_is_not_significant() -> None:
    rng = np.random.default_rng(0)
    a, b = (scores(list(0.3 + 0.1 * rng.normal(size=30))) for _ in range(2))
    only = standings_of([("noise", {"a": a, "b": b})], seeds=(0,), gradients_per_row=2.0)
    assert not only.overall.sure
    assert only.overall.verdict().startswith("No clear winner")
    assert [one.model for one in only.overall.close] == [only.overall.second.model]  # type: ignore[union-attr]
    assert only.overall is only.sources[0]
    text = comparison.markdown(only)
    assert "| source |" not in text


def test_the_report_has_the_tables_the_verdict_and_the_chart(tmp_path: Path) -> None:
    result = two_sources()
    comparison.write(tmp_path, result)
    text = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    assert "| easy | **0.175** | 0.350 |" in text
    assert "| mean rank | 1.50 | 1.50 |" in text
    found = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert found["winner"] == "a"
    assert found["overall"]["models"][0]["error"]["value"] == pytest.approx(0.3375)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 11  # the logo; errors and ranks, for a screen and a phone; two curves and legends
    assert "**" not in page
    assert chart(result) == (tmp_path / "comparison.svg").read_text(encoding="utf-8")
    assert chart(result).count("<circle") == 6


def test_the_page_shows_the_error_of_each_model_over_time_with_few_points() -> None:
    late = {"a": scores([0.1] * 200 + [0.3] * 200), "b": scores([0.2] * 400), "majority": scores([0.9] * 400)}
    result = standings_of([("long", late)], (0,), None)
    assert result.sources[0].models[0].curve == pytest.approx((0.1,) * 25 + (0.3,) * 25)
    page = comparison.page(result)
    curves = re.findall(r'<path class="model-(\d)( \w+)?" d="([^"]+)"><title>(\w+)</title>', page)
    assert [(place, css, name) for place, css, _, name in curves] == [
        ("0", " winner", "a"),
        ("1", "", "b"),
        ("2", " trivial", "majority"),
    ]
    assert [len(path.split(" ")) // 2 for *_, path, _ in curves] == [50, 50, 50]
    short = standings_of([("short", {"a": scores([0.1, 0.2])})], (0,), None)
    assert short.sources[0].models[0].curve == pytest.approx((0.1, 0.2))
    assert "Each point is one step" in comparison.page(short)


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_a_page_fits_a_screen_and_only_its_tables_scroll_on_a_phone(tmp_path: Path) -> None:
    usual = (
        "recommended-linear",
        "retrained:lightgbm",
        "sliding-window(window=5000):sklearn.tree.DecisionTreeClassifier",
    )
    quality = ClassQuality(-0.1234, 0.1234, 12.3456)
    errors = {name: [replace(one, quality=quality) for one in scores([0.1, 0.2] * 8)] for name in usual}
    result = standings_of([("easy", errors), ("hard", errors), ("long", errors)], (0,), None)
    (tmp_path / "page.html").write_text(comparison.page(result), encoding="utf-8")
    wide = "[...document.querySelectorAll('.wide')].map(one => one.scrollWidth > one.clientWidth)"
    with Browser(width=1280) as browser:
        browser.open(tmp_path / "page.html")
        assert browser.tell("document.documentElement.scrollWidth") == 1280
        assert browser.tell(wide) == [False, False, False]
        phone = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        browser.call("Emulation.setDeviceMetricsOverride", **phone)
        assert browser.tell("document.documentElement.scrollWidth") == 390
        assert any(browser.tell(wide))


def test_with_more_models_than_sources_each_model_has_a_row() -> None:
    three = {name: scores([error] * 16) for name, error in (("a", 0.1), ("b", 0.2), ("c", 0.3))}
    text = comparison.markdown(standings_of([("easy", three), ("hard", three)], seeds=(0,), gradients_per_row=None))
    assert "| model | easy | hard | mean | mean rank |\n" in text
    assert "| a | **0.100** | **0.100** | **0.100** | 1.00 |\n" in text


def test_measured_times_are_in_a_file_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = []
    for seconds in (1.0, 7.0):
        table = {name: scores([error] * 16, seconds=seconds) for name, error in (("a", 0.1), ("b", 0.2))}
        result = standings_of([("easy", table), ("hard", table)], seeds=(0,), gradients_per_row=None)
        folder = tmp_path / str(seconds)
        folder.mkdir()
        comparison.write(folder, result)
        comparison.print_result(result, folder)
        printed = capsys.readouterr().out
        assert f"{2 * seconds:.2f}" in printed
        assert f"{result.overall.n_rows:,} rows in {result.overall.steps:,} steps" in printed
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    times = [json.loads(files.pop("timings.json")) for files in written]
    assert [one["cpu_seconds"]["a"] for one in times] == [2.0, 14.0]
    assert times[1]["sources"]["hard"]["b"] == 7.0
    assert written[0] == written[1]


def test_the_page_says_how_large_steps_are_and_what_each_kind_of_model_does() -> None:
    names = "retrained(every=2, window=3):lightgbm", "recommended-linear", "majority"
    errors = {name: scores([0.1 * place] * 20) for place, name in enumerate(names, 1)}
    page = comparison.page(standings_of([("table", errors)], seeds=(0,), gradients_per_row=None))
    told = "What the models do: recommended-linear replaces a linear model when its error rises; retrained is fitted"
    assert told in page
    assert "frozen" not in page
    assert "100 rows in 21 steps of about 5 rows;" in page
    others = {name: scores([0.1 * place] * 20) for place, name in enumerate("ab", 1)}
    assert "What the models do" not in comparison.page(
        standings_of([("table", others)], seeds=(0,), gradients_per_row=None)
    )


def test_the_best_schedule_is_chosen_on_each_source_and_wins_nothing() -> None:
    short, long = (Schedule(f"retrained(every=1, rows={rows}):t", "t", 1, rows) for rows in (50, 900))
    group = {"best-schedule:t": [short, long]}

    def source(first: float, second: float) -> dict[Any, list[Score]]:
        own = {"a": scores([0.2, 0.2, 0.2]), "majority": scores([0.5] * 3)}
        return own | {short: scores([first] * 3), long: scores([second] * 3)}

    result = standings_of([("one", source(0.1, 0.3)), ("two", source(0.4, 0.25))], (0,), None, group)
    best = result.overall.models[-1]
    assert best.model == "best-schedule:t"
    assert best.error.value == pytest.approx((0.1 + 0.25) / 2)
    assert (best.wins, best.rank) == (None, None)
    assert best.behind.value == pytest.approx(-0.025)
    assert [one.rows for one, _ in best.schedules] == [50, 900]
    assert [error for _, error in best.schedules] == pytest.approx([0.25, 0.275])
    assert result.overall.winner.model == "a"
    assert result.overall.winner.wins == 1.0
    assert result.ranking is not None
    assert result.ranking.algorithms == ("a", "majority")
    assert [one.model for one in result.sources[0].models] == ["a", "majority", "best-schedule:t"]
    text = comparison.markdown(result)
    assert "nobody can know before, has 0.1750: the best of 2 schedules" in text
    assert "It is ahead of a by 0.0250" in text
    assert "on one t, every batch, last 50 rows; on two t, every batch, last 900 rows" in text
    assert "| retrained | last 50 rows | last 900 rows |" in text
    assert "| t, every batch | **0.250** | 0.275 |" in text
    page = comparison.page(result)
    assert 'hindsight" d=' in page
    found = json.loads(to_json(result))
    assert found["winner"] == "a"
    assert len(found["hindsight"]) == 1
    behind = standings_of([("two", source(0.4, 0.25))], (0,), None, group)
    assert "It is behind a by 0.0500" in comparison.markdown(behind)


def test_a_comparison_runs_all_schedules_and_needs_a_model_beside_them(table: Path, tmp_path: Path) -> None:
    what = [Input(str(table), "label", batch_size=100)]
    names = ["majority", f"best-schedule(every=[1, 3], rows=[100, 300]):{TREE}"]
    result = compare(tmp_path / "out", what, names)
    assert [one.model for one in result.overall.models] == names
    tried = result.overall.models[1].schedules
    assert [(one.every, one.rows) for one, _ in tried] == [(1, 100), (1, 300), (3, 100), (3, 300)]
    assert result.overall.models[1].error.value == min(error for _, error in tried)
    with pytest.raises(OptionError, match="at least one that is a model"):
        compare(tmp_path / "other", what, names[1:])


def test_the_page_warns_if_no_model_is_better_than_a_trivial_rule() -> None:
    def page(own: float) -> str:
        given = {"a": scores([own] * 4), "majority": scores([0.3] * 4), "persistence": scores([0.2] * 4)}
        return comparison.page(standings_of([("s", given)], (0,), None))

    assert re.search(r'class="warning".*persistence', page(0.2))
    assert 'class="warning"' not in page(0.1)
    assert re.findall(r"</b>(\w+)</div>", page(0.1))[-3:] == ["source", "models", "seed"]


def test_a_long_name_is_cut_in_the_chart() -> None:
    name = "oblivious:" + "x" * 60
    result = standings_of([("s", {name: scores([0.1, 0.2]), "b": scores([0.2, 0.3])})], (0,), None)
    assert f">{name[:45]}…<" in chart(result)


# ---------------------------------------------------------------------------- the command


def test_the_command_compares_on_a_file_and_resumes_from_its_ledger(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = f"driftsurf:logistic,oblivious:logistic,sliding-window(window=100):{TREE},majority"
    arguments = ["compare", str(table), "--label", "label", "--batch-size", "50", "--models", chosen, "--jobs", "1"]
    arguments += ["--trials", "2", "--out", str(tmp_path / "out"), "--quiet"]
    first = invoke(*arguments)
    assert first.exit_code == 0
    assert "driftsurf:logistic" in first.output
    before = (tmp_path / "out" / "comparison.json").read_text(encoding="utf-8")
    monkeypatch.setattr(Match, "perform", lambda self: pytest.fail("done twice"))
    assert invoke(*arguments).output == first.output
    assert (tmp_path / "out" / "comparison.json").read_text(encoding="utf-8") == before


def test_progress_counts_the_finished_runs_of_models_on_sources(table: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    inputs = [Input(str(table), label="label", batch_size=50)]

    def report(what: str, done: int, total: int) -> None:
        seen.append((what, done, total))

    compare(tmp_path / "out", inputs, ["majority", "driftsurf:logistic"], trials=2, on_progress=report)
    assert seen[-1] == ("runs finished", 3, 3)  # a rule without random numbers runs once
    output = invoke("compare", table, "--label", "label", "--models", "majority,persistence", "--out", tmp_path / "o")
    assert "runs finished: 2 of 2" in output.output


def test_results_do_not_depend_on_the_number_of_processes(table: Path, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        what = [Input(str(table), "label", batch_size=50)]
        result = compare(tmp_path / str(jobs), what, ["driftsurf:logistic", f"driftsurf:{TREE}"], trials=2, jobs=jobs)
        found.append([(one.model, one.error) for one in result.overall.models])
    assert found[0] == found[1]


def test_an_interrupted_comparison_has_exit_code_130(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Match) -> Score:
        raise KeyboardInterrupt

    monkeypatch.setattr(Match, "perform", stop)
    result = invoke("compare", str(table), "--label", "label", "--jobs", "1", "--out", str(tmp_path / "out"))
    assert result.exit_code == 130


def test_a_comparison_needs_a_model_a_source_and_its_own_folder(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="models are none"):
        compare(tmp_path, [Input("sine1")], [])
    with pytest.raises(OptionError, match="sources"):
        compare(tmp_path, [], ["majority", "persistence"])
    with pytest.raises(OptionError, match=r"gradients_per_row.* 0"):
        compare(tmp_path, [Input("sine1")], ["majority", "persistence"], gradients_per_row=0)
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(RunFolderError, match=str(tmp_path)):
        compare(tmp_path, [Input("sine1")], ["majority", "persistence"])


def test_a_second_process_on_the_folder_of_a_comparison_is_refused(table: Path, tmp_path: Path) -> None:
    sources, models, out = [Input(str(table), "label")], ["majority", "persistence"], tmp_path / "out"
    out.mkdir()
    with files.FolderLock(out), pytest.raises(LockedError, match=str(os.getpid())):
        compare(out, sources, models)
    assert compare(out, sources, models).overall.winner


def test_a_process_whose_folder_was_taken_over_records_no_more_results(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, models, out = [Input(str(table), "label")], ["majority", "persistence"], tmp_path / "out"
    monkeypatch.setattr(disk.Disk, "lock", lambda self, path, who: os.open(os.devnull, os.O_RDWR))
    monkeypatch.setattr(disk.Disk, "unlock", lambda self, handle: os.close(handle))

    def taken(what: str, done: int, total: int) -> None:
        if done == 1:
            files.FolderLock(out)  # another process, on storage that shares no locks

    with pytest.raises(LockedError, match=str(os.getpid())):
        compare(out, sources, models, on_progress=taken)
    assert len(Ledger(out / "ledger.jsonl").read()) == 1


def test_a_mistake_on_the_command_line_is_reported_in_one_line(tmp_path: Path) -> None:
    result = invoke("compare", "sine1", "--models", "driftsurf:forest,majority", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1  # rich before 14.3 leaves an empty line
    assert "'forest'" in result.output


def test_a_narrow_terminal_has_fewer_columns_and_full_names() -> None:
    row = ["driftsurf:logistic", "0.1234", "0.1200 to 0.1300", "0.0000", "0.0000 to 0.0000", "100%", "1.00"]
    row += ["0.9", "0.12", "0.3", "9.0", "2"]
    first, sources, _ = comparison._sheets(two_sources(), timed=True)
    sheet = first._replace(rows=[[comparison.TableCell(text) for text in row]])
    assert comparison._fitting(sheet, 180) == list(range(12))
    assert comparison._fitting(sheet, 80) == [0, 1, 2, 3, 5]
    assert comparison._fitting(sheet, 10) == [0, 1, 3]
    assert comparison._fitting(sources, 3) == [0, 1, 2]


def test_a_comparison_does_not_replace_that_of_another_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        write_inverted(tmp_path / name)
    command = ["--label", "label", "--models", "majority,persistence", "--jobs", "1", "--quiet"]
    for name, folder in (("first", "compare-turning"), ("second", "compare-turning-2"), ("first", "compare-turning")):
        assert f"runs/{folder}/" in invoke("compare", f"{name}/turning.jsonl", *command).output
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["compare-turning", "compare-turning-2"]
    refused = invoke("compare", "second/turning.jsonl", *command, "--out", "runs/compare-turning")
    assert (refused.exit_code, "first" in refused.output, "--out" in refused.output) == (1, True, True)
    both = ["first/turning.jsonl", "second/turning.jsonl"]
    assert invoke("compare", *both, *command, "--out", "runs/compare-turning").exit_code == 0


def test_a_wrong_model_is_named_by_the_option_that_holds_it(tmp_path: Path) -> None:
    assert (
        "--models is 'majorty'" in invoke("compare", "sine1", "--models", "majorty", "--out", tmp_path / "out").output
    )
