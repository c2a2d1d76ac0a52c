"""Figures: which there are, what they show, and that equal results give equal bytes."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace

import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from reproductions import judged, synthetic

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.reproduction import figures
from driftsurf.reproduction.figures import DRAWINGS, Drawing, paper, style
from driftsurf.reproduction.figures.style import STYLES, to_bytes
from driftsurf.reproduction.published import STREAMS
from driftsurf.reproduction.reproduce import Reproduction

STREAMS_HERE = (
    *("sea0", "sea20", "sea-gradual", "hyper-slow", "sine1", "mixed", "electricity", "powersupply"),
    *("covertype-sample", "airline-2007", "newsgroups20"),
)


@pytest.fixture(scope="module")
def result() -> Reproduction:
    return judged(synthetic(STREAMS_HERE))


@pytest.fixture(scope="module")
def drawn(result: Reproduction) -> dict[str, Figure]:
    made = {drawing.name: drawing.make(result) for drawing in DRAWINGS}
    return {name: figure for name, figure in made.items() if figure is not None}


def titles(figure: Figure) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes]


def test_every_figure_can_be_drawn(drawn: dict[str, Figure]) -> None:
    assert list(drawn) == [drawing.name for drawing in DRAWINGS]


@pytest.mark.parametrize("name", ["equal-model", "rho-4m", "rho-4m-candor", "rho-2m"])
def test_one_panel_a_stream_in_the_papers_order_and_stand_ins_last(drawn: dict[str, Figure], name: str) -> None:
    assert titles(drawn[name]) == [
        *("SEA0", "SEA20", "SEA-gradual", "SINE1", "Hyper-slow", "Mixed", "PowerSupply", "Electricity"),
        *("CoverType (16 % sample), in place of CoverType", "Airline 2007, in place of Airline"),
        "20 Newsgroups, in place of RCV1",
    ]
    assert all(len(curves(figure_axes)) == 4 for figure_axes in drawn[name].axes)


def curves(axes: object) -> list[Line2D]:
    return [line for line in axes.get_lines() if len(line.get_xdata()) > 2]  # type: ignore[attr-defined]


def test_the_order_has_all_of_the_papers_streams() -> None:
    assert sorted(paper.ORDER) == sorted(STREAMS)
    assert paper.in_order(("spam-assassin", "airline", "sea0")) == ["sea0", "airline", "spam-assassin"]


def test_the_papers_other_figures_have_their_panels(drawn: dict[str, Figure]) -> None:
    assert len(drawn["main-text"].axes) == 3
    assert titles(drawn["main-text"])[2] == "Airline 2007, in place of Airline, rho = 4m divided"
    assert [title.split(" on ")[0] for title in titles(drawn["detectors"])] == ["MDDM-A", "MDDM-E", "DDM", "EDDM"]
    assert titles(drawn["no-adaptation"]) == ["20 Newsgroups, in place of RCV1", "Electricity"]
    assert titles(drawn["greedy"]) == ["20 Newsgroups, in place of RCV1"]
    assert len(drawn["ranks"].axes) == 6
    assert len(drawn["recovery"].axes) == 2
    assert len(drawn["suboptimality"].axes) == 2
    assert len(drawn["gradients"].axes) == len(STREAMS_HERE)


def test_drifts_are_marked_by_lines_and_bands(drawn: dict[str, Figure]) -> None:
    panels = dict(zip(titles(drawn["equal-model"]), drawn["equal-model"].axes, strict=True))
    at = [line.get_xdata()[0] for line in panels["SEA0"].get_lines() if len(line.get_xdata()) == 2]  # type: ignore[arg-type,index]
    assert at == [25, 50, 75]
    (band,) = panels["SEA-gradual"].patches
    assert (band.get_x(), band.get_x() + band.get_width()) == (40, 60)  # type: ignore[attr-defined]
    words = [text.get_text() for text in drawn["equal-model"].legends[0].get_texts()]
    assert words[:4] == ["Aware", "DriftSurf", "MDDM-G", "AUE"]
    assert len(words) == 6  # an abrupt and a gradual drift


def test_every_figure_has_at_most_one_legend(drawn: dict[str, Figure]) -> None:
    for figure in drawn.values():
        assert len(figure.legends) <= 1
        assert not any(axes.get_legend() for axes in figure.axes)


def test_no_two_algorithms_look_alike() -> None:
    looks = [(style.colour, style.dashes) for style in STYLES.values()]
    assert len(set(looks)) == len(looks)
    assert len({style.marker for style in STYLES.values()}) == len(looks)
    assert set(STYLES) <= set(ALGORITHMS)


def test_equal_results_are_equal_bytes(result: Reproduction) -> None:
    few = replace(result, datasets=("sea0", "sine1"))
    (drawing,) = (drawing for drawing in DRAWINGS if drawing.name == "equal-model")
    one, two = (drawing.make(few) for _ in range(2))
    assert one is not None
    assert two is not None
    for kind, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        content = to_bytes(one, kind)  # type: ignore[arg-type]
        assert content == to_bytes(two, kind)  # type: ignore[arg-type]
        assert content.startswith(magic)
        assert b"CreationDate" not in content


def test_pictures_come_with_their_captions(result: Reproduction, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tuple(drawing for drawing in DRAWINGS if drawing.name in ("noise", "greedy"))
    absent = Drawing("absent", "nothing to show", lambda result: None)
    monkeypatch.setattr(figures, "DRAWINGS", (*chosen, absent))
    found = list(figures.draw(result))
    assert [picture.name for picture in found] == ["noise", "greedy"]
    assert all(picture.caption and picture.png and picture.pdf for picture in found)


def test_drawing_leaves_the_settings_of_matplotlib_alone(result: Reproduction) -> None:
    before = dict(rcParams)
    for drawing in DRAWINGS:
        if drawing.name in ("noise", "ranks"):
            drawing.make(result)
    assert dict(rcParams) == before


def test_experiments_that_were_not_run_are_not_drawn() -> None:
    for empty in (synthetic((), ()), synthetic(("sine1",), ("greedy",)), synthetic(("sea0",), ("sgd",))):
        assert [drawing.name for drawing in DRAWINGS if drawing.make(empty) is not None] == []


def test_one_stream_is_enough_for_a_figure() -> None:
    small = synthetic(("sine1",), ("equal-model",))
    made = [drawing.name for drawing in DRAWINGS if drawing.make(small) is not None]
    assert made == ["equal-model", "recovery", "gradients", "ranks"]


def test_without_matplotlib_the_error_names_the_extra() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; import driftsurf.reproduction.figures"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "pip install 'driftsurf[figures]'" in run.stderr


def test_the_guard_is_in_one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    try:
        with pytest.raises(ImportError, match=r"driftsurf\[figures\]"):
            importlib.reload(style)
    finally:
        monkeypatch.undo()
        importlib.reload(style)
