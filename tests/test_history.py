"""The history of benchmark ratios."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.history import BEGIN, END, Record, draw, record, records, slower, with_table

ANCHORS = {("suite", "contest"): "theirs"}


def one(commit: str, **ratios: float) -> Record:
    values = {("suite", "contest", name): (0.9 * ratio, ratio, 1.1 * ratio) for name, ratio in ratios.items()}
    return Record("2026-01-01", commit, "a processor", values)


def test_results_become_a_record(tmp_path: Path) -> None:
    scores = [{"name": "ours", "ratios": [0.5, 0.3, 0.4]}, {"name": "theirs", "ratios": [1.0, 1.0, 1.0]}]
    contest = {"title": "steps", "anchor": "theirs", "scores": scores}
    results = {"suite": "small", "machine": {"cpu": "a processor"}, "contests": [contest]}
    (tmp_path / "small.json").write_text(json.dumps(results))
    path = record(tmp_path, tmp_path / "history")
    (found,) = records(tmp_path / "history")
    assert found.ratios == {("small", "steps", "ours"): (0.3, 0.4, 0.5)}
    assert found.anchors == {("small", "steps"): "theirs"}
    assert found.commit in path.name


def test_only_what_is_certainly_slower_is_named() -> None:
    before = one("a", same=0.5, slow=0.5, uncertain=0.5, gone=1.0)
    after = one("b", same=0.5, slow=0.7, uncertain=0.6, new=3.0)
    (line,) = slower(before, after)
    assert "slow" in line


def test_the_chart_shows_each_record_relative_to_the_first() -> None:
    chart = draw([one("a", x=0.5, y=0.2), one("b", x=0.25, y=0.1)])
    root = ElementTree.fromstring(chart)
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["a: 1.00", "b: 0.50"]


def test_the_table_of_the_page_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    found = Record("2026-01-01", "abc", "a processor", {("suite", "contest", "driftsurf"): (0.1, 0.2, 0.3)}, ANCHORS)
    written = with_table(page, found)
    assert "old" not in written
    assert "| theirs | 0.2 | 0.1 to 0.3 |" in written
    assert with_table(written, found) == written
    assert written.startswith("before")
    assert written.endswith("after\n")
