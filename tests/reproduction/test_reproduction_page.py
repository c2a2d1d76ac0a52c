"""The page of a reproduction: one valid document, escaped, with everything that is missing."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from reproductions import FAR, judged, synthetic

from driftsurf.reproduction import page as reproduction
from driftsurf.reproduction import plan
from driftsurf.reproduction.cells import EXPLANATIONS, agreement
from driftsurf.reproduction.comparisons import places
from driftsurf.reproduction.figures import Picture
from driftsurf.reproduction.page.tables import scale
from driftsurf.reproduction.published import STREAMS
from driftsurf.reproduction.reproduce import Reproduction, reproduce

VOID = {"meta", "br", "img", "link"}


class Reader(HTMLParser):
    """Check that every element is closed once, and collect the text of each kind of element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: dict[str, list[str]] = {}
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.sources += [given["src"] or ""] if "src" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.text.setdefault(tag, []).append(data)

    def all(self, tag: str) -> str:
        return " ".join(self.text.get(tag, ()))


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def result() -> Reproduction:
    streams = "sea0", "hyper-slow", "sine1", "circles", "electricity", "covertype-sample", "spam-assassin"
    return judged(synthetic(streams))


@pytest.fixture(scope="module")
def page(result: Reproduction) -> str:
    names = "main-text", "suboptimality", "recovery", "gradients", "ranks"
    pictures = [Picture(name, f"<{name}> & more", b"\x89PNG", b"%PDF") for name in names]
    return reproduction.render(result, pictures)


def test_the_page_is_one_well_formed_document(page: str) -> None:
    reader = read(page)
    assert page.startswith("<!doctype html>")
    assert len(reader.ids) == len(set(reader.ids))
    assert {link for link in reader.links if link.startswith("#")} <= {f"#{name}" for name in reader.ids}


def test_the_page_loads_nothing(page: str) -> None:
    reader = read(page)
    assert all(source.startswith("data:image/png;base64,") for source in reader.sources)
    assert all(link.startswith(("#", "data:")) for link in reader.links)
    assert "<script" not in page
    assert "url(" not in page


def test_every_cell_is_on_the_page(result: Reproduction, page: str) -> None:
    text = re.sub(r"<[^>]*>", "", page)
    for cell in result.cells:
        if cell.table in plan.PAPER_TABLES:
            assert f"{cell.rounded:.3f} &plusmn;{cell.spread / 2:.3f}" in text
            if cell.paper is not None:
                assert f"{cell.paper:.3f} " in text


def test_every_cell_that_differs_is_listed_with_the_attempts_to_explain_it(result: Reproduction, page: str) -> None:
    misses = agreement(result.cells).misses
    assert {(cell.table, cell.dataset, cell.algorithm) for cell in misses} == set(FAR)
    reader = read(page)
    for cell in misses:
        assert f"ours {cell.rounded:.3f}" in reader.all("p")
    for known in EXPLANATIONS:
        shown = any(place in FAR for place in known.cells)
        assert (known.conclusion in reader.all("p")) == shown
    both = [cell for cell in misses if result.measured.find(cell.table, cell.dataset, cell.algorithm, "authors")]
    for cell in both:
        other = result.measured.find(cell.table, cell.dataset, cell.algorithm, "authors")
        assert other is not None
        assert f"{other.rounded:.3f}" in reader.all("p")
    assert both
    assert page.count('<div class="miss">') == len(misses)


def test_ranks_that_differ_by_more_than_the_spread_are_named(result: Reproduction, page: str) -> None:
    (one,) = (one for one in places(result.cells) if (one.table, one.dataset) == ("sgd-rho-2m", "sine1"))
    assert (one.verdict, one.ours, one.paper) == ("differs", (2, 2), (3, 3))
    assert re.search(r"sgd-rho-2m, SINE1: [^<;]* 2,[^<;]* 3;", read(page).all("p"))


def test_claims_have_their_verdicts_and_their_evidence(result: Reproduction, page: str) -> None:
    cells = read(page).all("td")
    for verdict in result.verdicts:
        assert verdict.claim.text in cells
        assert verdict.evidence in cells
    assert re.search(rf"\d of {len(result.seeds)} single trials", cells)


def test_stand_ins_follow_below_a_line_that_names_the_streams(page: str) -> None:
    assert re.search(r'<tr class="rule"><td colspan="\d+">[^<]*CoverType, RCV1</td></tr>', page)
    row = re.search(r"<tr><td>CoverType \(16 % sample\)</td>.*?</tr>", page)
    assert row is not None
    assert "+0." not in row[0]


def test_missing_data_and_algorithms_out_of_scope_are_named(page: str) -> None:
    reader = read(page)
    assert re.search(r"RCV1 [^<]*SpamAssassin", reader.all("li"))
    for name in ("DWMIL", "DTEL", "Diversity Pool"):
        assert name in reader.all("p")
    assert "Candor" in reader.all("p")


def test_captions_are_escaped(page: str) -> None:
    assert "&lt;main-text&gt; &amp; more" in page
    assert "<main-text>" not in page


def test_differences_are_shaded_and_written(result: Reproduction, page: str) -> None:
    for cell in agreement(result.cells).misses:
        css = "above3" if cell.rounded > (cell.paper or 0.0) else "below3"
        tiles = re.findall(rf'<td class="number {css}">(.*?)</td>', page)
        assert any(f"{cell.rounded:.3f}" in tile and f"{cell.difference:+.3f}" in tile for tile in tiles)
    assert scale(100.0).count("0.500") == 2


def test_sections_without_content_are_left_out() -> None:
    small = synthetic(("sine1",), ("greedy",))
    page = reproduction.render(replace(small, experiments=("greedy",), missing=()))
    reader = read(page)
    assert reader.ids == ["tables", "misses", "places", "data"]
    nothing = reproduction.render(replace(synthetic((), ()), experiments=(), missing=()))
    assert read(nothing).ids == ["data"]


def test_stand_ins_have_no_ranks() -> None:
    alone = synthetic(("newsgroups20",), ("equal-model",))
    reader = read(reproduction.render(alone))
    assert "places" not in reader.ids
    assert "Ranks" not in reader.all("h3")


def test_without_matplotlib_the_page_names_the_extra_to_install(
    result: Reproduction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "driftsurf.reproduction.figures", None)
    monkeypatch.delattr("driftsurf.reproduction.figures", raising=False)
    reproduction.write(tmp_path, result)
    assert "pip install 'driftsurf[figures]'" in read((tmp_path / "report.html").read_text()).all("p")
    assert not (tmp_path / "figures").exists()


def test_a_real_run_is_written_with_its_figures(tmp_path: Path) -> None:
    def run() -> Reproduction:
        return replace(reproduce(tmp_path, ["equal-model"], names=["sine1"], trials=2), experiments=("figures",))

    reproduction.write(tmp_path, run())
    made = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert {"equal-model.pdf", "equal-model.png", "recovery.pdf", "ranks.png"} <= set(made)
    first = (tmp_path / "report.html").read_text(encoding="utf-8")
    reader = read(first)
    assert len(reader.sources) == len(made) // 2
    assert STREAMS["sine1"].title in reader.all("td")
    reproduction.write(tmp_path, run())
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == first
