"""The index of the runs in a folder."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from commands import invoke
from drifting import BEGAN, UPDATES, report_drifts
from keyed_rows import COLUMNS, OPTIONS, shops, write_rows

from driftsurf.comparison.compare import compare
from driftsurf.comparison.inputs import Input
from driftsurf.core.drifts import Drift
from driftsurf.errors import RunFolderError
from driftsurf.evaluation.summary import mean_error_of
from driftsurf.keyed import run_keyed
from driftsurf.report import comparison, html
from driftsurf.report.index import RunEntry, list_runs, render, write_runs_page
from driftsurf.runs.explanation.records import read_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, mixed_run: tuple[Path, str]) -> Path:
    """A folder of runs of every kind, finished and unfinished, with damaged and foreign folders."""
    folder = tmp_path_factory.mktemp("index") / "runs"
    shutil.copytree(mixed_run[0], folder / "mixed")
    shutil.copytree(mixed_run[0], folder / "half.partial")
    (folder / "half.partial" / "report.html").unlink()
    shutil.copytree(mixed_run[0], folder / "group" / "broken")
    (folder / "group" / "broken" / "trace.csv").write_text("<not a trace>\n1,2\n")
    (folder / "foreign <b>").mkdir()
    (folder / "foreign <b>" / "notes.txt").write_text("x")
    keyed = run_keyed(str(write_rows(folder.parent / "shops.csv", shops(300))), folder / "shops", COLUMNS, OPTIONS)
    assert invoke("keys", keyed.path).exit_code == 0
    shutil.copytree(keyed.path, folder / "torn")
    next((folder / "torn" / "keys").rglob("*.parquet")).write_bytes(b"PAR1")
    (folder / "torn" / "keys.parquet").unlink()
    result = compare(folder / "models", [Input("sine1", rows=1_000)], ["oblivious:logistic", "majority", "persistence"])
    comparison.write(folder / "models", result)
    shutil.copytree(folder / "models", folder / "begun")
    for name in ("comparison.json", "report.html"):
        (folder / "begun" / name).unlink()
    result_of = invoke("run", "mixed", "--rows", 1_000, "--checkpoint", folder / "live", "--every", 2, "--quiet")
    assert result_of.exit_code == 0
    return folder


def _entry(runs: Path, name: str) -> RunEntry:
    return next(one for one in list_runs(runs).runs if one.path == runs / name)


def test_every_run_is_listed_and_other_folders_are_skipped_with_a_reason(runs: Path) -> None:
    index = list_runs(runs)
    listed = {str(one.path.relative_to(runs)): (one.kind, one.finished) for one in index.runs}
    assert listed == {
        "mixed": ("run", True),
        "half.partial": ("run", False),
        "live": ("run", True),
        "shops": ("keyed run", True),
        "models": ("comparison", True),
        "begun": ("comparison", False),
    }
    skipped = {str(one.path.relative_to(runs)): one.reason for one in index.skipped}
    assert sorted(skipped) == ["foreign <b>", "group/broken", "torn"]
    assert all(skipped.values())
    with pytest.raises(RunFolderError, match="none"):
        list_runs(runs / "none")


def test_a_run_of_an_older_version_is_skipped_with_the_column_that_it_lacks(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "mixed", tmp_path / "old")
    trace = tmp_path / "old" / "trace.csv"
    trace.write_text(trace.read_text().replace("majority_errors", "true:new"))
    (skipped,) = list_runs(tmp_path).skipped
    assert re.search(r"'majority_errors'.*older version", skipped.reason)


def test_numbers_of_a_run_are_those_of_its_page(runs: Path) -> None:
    trace = read_run(runs / "mixed").trace
    assert trace is not None
    one = _entry(runs, "mixed")
    assert (one.source, one.model, one.rows, one.steps) == (trace.stream, "driftsurf", 20_000, 100)
    assert one.error == pytest.approx(mean_error_of(trace, "driftsurf")[1])
    assert (one.measure, one.rule) == ("error", "persistence")
    assert one.baseline == pytest.approx(0.5, abs=0.02)
    assert not one.no_better
    found = read_run(one.path).drifts
    assert (one.drifts, one.drifting) == (len(found), found.open is not None)
    assert len(one.curve) == 80
    assert one.page == runs / "mixed" / "report.html"
    assert _entry(runs, "live").page == runs / "live" / "result" / "report.html"
    assert [one.path for one in list_runs(runs / "mixed").runs] == [runs / "mixed"]


@pytest.mark.parametrize(("updates", "cell"), [(UPDATES, "1"), ({7: (BEGAN,)}, "1, now"), ({}, "0")])
def test_drifts_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: dict[int, tuple[Drift, ...]], cell: str
) -> None:
    report_drifts(monkeypatch, updates)
    folder = tmp_path / "run"
    assert invoke("run", "mixed", "--rows", "2000", "--batch-size", "100", "--quiet", "--out", folder).exit_code == 0
    assert f'data-label="drifts" data-value="{cell[0]}">{cell}</td>' in render(list_runs(tmp_path), tmp_path / "x.html")


def test_every_kind_of_run_names_its_source_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data" / "shops.csv", shops(300))
    label = ("data/shops.csv", "--label", "bought")
    assert invoke("run", *label, "--model", "driftsurf", "--out", "runs/one").exit_code == 0
    assert invoke("run", *label, "--key", "shop", "--sequence", "at", "--out", "runs/keys").exit_code == 0
    assert invoke("compare", *label, "--models", "driftsurf,majority", "--out", "runs/models").exit_code == 0
    assert [one.source for one in list_runs("runs").runs] == ["shops.csv"] * 3


def test_numbers_of_keyed_runs_and_comparisons(runs: Path) -> None:
    keyed = _entry(runs, "shops")
    assert (keyed.source, keyed.keys, keyed.rows) == ("shops.csv", 4, 300)
    assert keyed.model == "driftsurf"
    assert keyed.error is not None
    assert 0.0 < keyed.error < 0.5
    assert (keyed.drifts, keyed.drifting) == (0, False)
    assert keyed.page == runs / "shops" / "keys.html"
    compared = _entry(runs, "models")
    assert (compared.source, compared.model, compared.rows) == ("sine1", "oblivious:logistic", 1_000)
    assert len(compared.curve) == 3
    assert compared.baseline == max(compared.curve[1:2])
    assert _entry(runs, "begun").page is None


def test_the_command_writes_a_page_with_links_and_prints_a_table(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "index.html"
    result = invoke("runs", runs, "--out", out)
    assert result.exit_code == 0
    assert re.search(r"\nhalf\.partial .*unfinished", result.output)
    assert re.search(r"\nshops .* 300 ", result.output)
    assert re.search(r"skipped: .*broken: \S", result.output)
    page = out.read_text()
    links = re.findall(r'<a href="([^"]*)">', page)
    assert {(tmp_path / link).resolve() for link in links} == {
        (runs / path).resolve()
        for path in ("mixed/report.html", "live/result/report.html", "shops/keys.html", "models/report.html")
    }
    assert "foreign &lt;b&gt;" in page
    assert page.count('<td class="spark"') == 5
    assert page.count('class="tag open"') == 2
    write_runs_page(runs)
    assert 'href="mixed/report.html"' in (runs / "index.html").read_text()


@pytest.mark.parametrize("name", ["mixed", "live", "shops", "models", "group/broken"])
def test_no_index_is_written_into_a_run(runs: Path, tmp_path: Path, name: str) -> None:
    before = sorted((runs / name).iterdir())
    with pytest.raises(RunFolderError, match=re.escape(repr(str(runs / name)))):
        write_runs_page(runs / name)
    refused = invoke("runs", runs / name)
    assert refused.exit_code == 1
    assert "--out" in refused.output
    assert sorted((runs / name).iterdir()) == before
    assert invoke("runs", runs / name, "--out", tmp_path / "one.html").exit_code == 0


def test_a_model_that_is_no_better_than_a_trivial_rule_stands_out(runs: Path) -> None:
    index = list_runs(runs / "mixed")
    assert 'class="poor"' not in render(index, runs / "index.html")
    index.runs[0] = RunEntry(path=runs / "mixed", kind="run", finished=True, error=0.5, baseline=0.5, curve=(0.5,))
    assert 'class="poor"' in render(index, runs / "index.html")


def test_a_folder_without_runs_has_an_empty_index(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    result = invoke("runs", tmp_path)
    assert result.exit_code == 0
    assert str(tmp_path) in result.output
    assert "<table" in (tmp_path / "index.html").read_text()  # of the folders that were skipped
    assert invoke("runs", tmp_path / "missing").exit_code == 2


def test_all_pages_share_their_look(runs: Path) -> None:
    write_runs_page(runs)
    pages = ("index.html", "mixed/report.html", "models/report.html", "shops/keys.html")
    for page in pages:
        assert html.STYLE + html.look() in (runs / page).read_text(), page
    key = next((runs / "shops" / "key_pages").iterdir())
    assert html.STYLE + html.look() in key.read_text()


@pytest.fixture(scope="module")
def phone() -> Iterator[Browser]:
    """A browser as wide as a phone."""
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with Browser() as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=380, height=800, deviceScaleFactor=1, mobile=True)
        yield browser


def test_a_click_on_a_heading_sorts_the_runs(runs: Path, phone: Browser) -> None:
    write_runs_page(runs)
    phone.open(runs / "index.html")
    names = "[...document.querySelectorAll('.runs tbody a')].map(one => one.textContent).join()"
    click = "document.querySelectorAll('.runs th button')[{}].click()"
    phone.tell(click.format(0))
    assert phone.tell(names) == "live,mixed,models,shops"
    phone.tell(click.format(3))
    assert phone.tell(names) == "mixed,live,models,shops"
    phone.tell(click.format(3))
    assert phone.tell(names).startswith("shops")
    assert phone.messages == []


@pytest.mark.parametrize("page", ["index.html", "models/report.html", "shops/keys.html", "mixed/report.html"])
def test_no_figure_is_cut_off_on_a_phone(runs: Path, phone: Browser, page: str) -> None:
    write_runs_page(runs)
    phone.open(runs / page)
    assert phone.tell("document.documentElement.scrollWidth") <= 380
    shown = "[...document.querySelectorAll('svg, svg text')].map(one => one.getBoundingClientRect())"
    boxes = phone.tell(f"{shown}.filter(box => box.width).map(box => [box.left, box.right])")
    assert boxes
    assert min(left for left, _ in boxes) >= 0
    assert max(right for _, right in boxes) <= 380


def test_a_folder_whose_name_is_no_text_is_linked(tmp_path: Path, mixed_run: tuple[Path, str]) -> None:
    shutil.copytree(mixed_run[0], tmp_path / "run\udcff")
    shown = invoke("runs", tmp_path)
    assert (shown.exit_code, "run\\udcff" in shown.output) == (0, True)
    assert 'href="run%FF/report.html"' in (tmp_path / "index.html").read_text()


def test_a_page_replaces_pages_only(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(runs / "mixed", folder / "mixed")
    for page in (folder / "index.html", folder / "mixed" / "trace.csv"):
        before = page.read_text() if page.exists() else "<!doctype html>\n<html>my own page</html>"
        page.write_text(before)
        out = None if page.name == "index.html" else page
        with pytest.raises(RunFolderError, match=page.name):
            write_runs_page(folder, out)
        assert page.read_text() == before
    (folder / "index.html").unlink()
    for _ in range(2):  # the second replaces the first
        write_runs_page(folder)
