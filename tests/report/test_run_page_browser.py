"""The behaviour of a run's page in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from run_pages import HOSTILE, hostile_run, regression_in, uneven_run

from driftsurf.errors.visible import visible
from driftsurf.evaluation.column_moves import ColumnMove
from driftsurf.report.figure import Bar, Bars, Curve, Figure, Overlay, data
from driftsurf.report.run_page import render
from driftsurf.report.sections import RunView, Section, interactive_page

SHOWN = Section("Figures", 0, lambda run: [], folded=False)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@pytest.fixture
def report(mixed_run: tuple[Path, str]) -> Path:
    return mixed_run[0] / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as one:
        yield one


@pytest.fixture
def page(browser: Browser, report: Path) -> Browser:
    browser.messages.clear()
    browser.requests.clear()
    browser.prefer("light")
    browser.open(report)
    return browser


def view(page: Browser) -> str:
    page.settle()
    return str(page.tell("document.querySelector('.view').textContent"))


def readout(page: Browser) -> str:
    return str(page.tell("document.querySelector('.readout').textContent"))


def place_of(page: Browser, figure: str = "error") -> Callable[[float], tuple[float, float]]:
    """Return where a share of the width of a figure is on the screen."""
    left, top, width, height = page.tell(
        f"(() => {{ const one = document.querySelector('[data-figure={figure}] svg'); one.scrollIntoView("
        "{block: 'center'}); const box = one.getBoundingClientRect();"
        "return [box.left, box.top, box.width, box.height]; })()"
    )
    return lambda share: (left + width * share, top + height / 2)


def focus(page: Browser, selector: str) -> None:
    page.tell(f"document.querySelector({json.dumps(selector)}).focus()")


def press(page: Browser, *keys: str, **more: Any) -> None:
    for key in keys:
        page.key(key, **more)
        page.settle()


def unfold(page: Browser) -> None:
    page.tell("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def show_reactions(page: Browser) -> None:
    page.tell("document.querySelector('[data-layer=reactions]').click()")
    page.settle()


@needs_chromium
def test_the_page_is_drawn_and_loads_nothing(page: Browser, report: Path) -> None:
    assert view(page) == "steps 0 to 99 of 100"
    assert page.requests == [report.resolve().as_uri()]
    assert page.messages == []
    assert page.tell("document.querySelectorAll('.chart > svg[tabindex]').length") == 8
    assert page.tell("document.querySelectorAll('[data-figure=error] rect.reactive').length") == 0
    show_reactions(page)
    assert page.tell("document.querySelectorAll('[data-figure=error] rect.reactive').length") == 11
    unfold(page)
    assert page.tell("document.querySelectorAll('[data-figure=models] rect.strong').length") > 10
    assert page.tell("document.documentElement.scrollWidth <= innerWidth")


@needs_chromium
@pytest.mark.parametrize("unit", [1e-9, 3e-3, 1.0, 3e5, 1e11])
def test_numbers_of_any_size_fit(browser: Browser, unit: float, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(regression_in(unit)[0], encoding="utf-8")
    browser.open(tmp_path / "page.html")
    browser.settle()
    unfold(browser)
    assert browser.tell("[...document.querySelectorAll('.card')].every((one) => one.scrollWidth <= one.clientWidth)")
    for figure in ("error", "risk"):
        title, ticks = browser.tell(
            f"(() => {{ const of = (css) => [...document.querySelectorAll('[data-figure={figure}] ' + css)];"
            "const ticks = of('.tick[text-anchor=end]');"
            "return [of('.name[transform]')[0].getBoundingClientRect().right,"
            "ticks.map((one) => [one.textContent, one.getBoundingClientRect().left])]; })()"
        )
        assert all(left > title for _, left in ticks)
        assert len({name for name, _ in ticks}) == len(ticks) > 2


@needs_chromium
def test_the_mouse_reads_values_and_zooms(page: Browser) -> None:
    show_reactions(page)
    at = place_of(page)
    page.mouse("Moved", *at(0.258))
    assert readout(page).startswith("step 20 · rows 4,000 to 4,199, a new model is tested; ")
    assert "risk 1.38 > best 0.45 + 0.10" in readout(page)
    assert page.tell("document.querySelector('[data-figure=error] .tip').hidden") is False
    assert page.tell("document.querySelectorAll('.cursor').length") == 8  # in every figure
    page.mouse("Pressed", *at(0.2), button="left", clickCount=1)
    page.mouse("Moved", *at(0.3), button="left")
    assert page.tell("document.querySelectorAll('.chosen').length") == 1
    page.mouse("Moved", *at(0.45), button="left")
    page.mouse("Released", *at(0.45), button="left", clickCount=1)
    assert view(page) == "steps 14 to 41 of 100"
    page.mouse("Wheel", *at(0.5), deltaX=0, deltaY=-100, modifiers=2)
    assert view(page) != "steps 14 to 41 of 100"
    for count in (1, 2):
        page.mouse("Pressed", *at(0.5), button="left", clickCount=count)
        page.mouse("Released", *at(0.5), button="left", clickCount=count)
    assert view(page) == "steps 0 to 99 of 100"
    unfold(page)
    page.settle()
    page.mouse("Moved", *place_of(page, "models")(0.5))
    assert "model " in readout(page)
    page.mouse("Moved", 1, 1)
    focus(page, ".toggle")
    assert page.tell("document.querySelectorAll('.cursor').length") == 0


@needs_chromium
def test_everything_works_by_keyboard(page: Browser) -> None:
    show_reactions(page)
    focus(page, "[data-figure=error] svg")
    press(page, "n")
    assert "step 7: risk" in readout(page)
    press(page, "n", "p", "ArrowRight")
    assert readout(page).startswith("step 8 ")
    press(page, "+", "+")
    assert view(page) == "steps 6 to 30 of 100"
    press(page, "End")
    assert readout(page).startswith("step 99 ")
    assert view(page) == "steps 75 to 99 of 100"
    press(page, "ArrowLeft", modifiers=8)
    assert readout(page).startswith("step 97 ")
    press(page, "Home", "-", "0")
    assert view(page) == "steps 0 to 99 of 100"
    press(page, "Escape")
    assert page.tell("document.querySelectorAll('.cursor').length") == 0
    press(page, "ArrowLeft")
    assert readout(page).startswith("step 99 ")
    press(page, "x")
    assert page.messages == []


@needs_chromium
def test_curves_and_layers_are_toggled_by_mouse_and_keyboard(page: Browser) -> None:
    curve, button = (
        "document.querySelectorAll('[data-figure=error] path').length",
        "[data-figure=error] + .legend button",
    )
    show_reactions(page)
    assert page.tell(curve) == 4
    focus(page, button)
    press(page, " ")
    assert page.tell(curve) == 3
    assert page.tell(f"document.querySelector('{button}').getAttribute('aria-pressed')") == "false"
    assert page.tell("document.querySelectorAll('[data-figure=error] .mark').length") == 0
    page.tell(f"document.querySelector('{button}').click()")
    page.settle()
    assert page.tell(curve) == 4
    assert page.tell("document.querySelectorAll('[data-figure=error] .mark').length") > 0
    for name, left in (("drifts", ".drift"), ("reactions", ":is(.mark, rect.reactive)")):
        page.tell(f"document.querySelector('.layers button[data-layer={name}]').click()")
        page.settle()
        assert page.tell(f"document.querySelectorAll('[data-figure=error] {left}').length") == 0


@needs_chromium
def test_buttons_zoom_and_a_row_of_the_table_shows_its_step(page: Browser) -> None:
    page.tell("document.querySelector('[data-act=in]').click()")
    assert view(page) == "steps 25 to 74 of 100"
    page.tell("document.querySelector('[data-act=next]').click()")
    assert "step" in readout(page)
    page.tell("[...document.querySelectorAll('.go')].find(b => b.textContent === '60').click()")
    assert view(page) == "steps 50 to 70 of 100"
    assert readout(page).startswith("step 60 ")
    assert page.tell("document.activeElement === document.querySelector('[data-figure=error] svg')")
    page.tell("document.querySelector('[data-act=all]').click()")
    assert view(page) == "steps 0 to 99 of 100"


@needs_chromium
def test_the_page_has_a_light_a_dark_and_a_printed_style(page: Browser, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.tell(ground) == "rgb(255, 255, 255)"
    page.prefer("dark")
    assert page.tell(ground) == "rgb(20, 24, 30)"
    page.prefer("dark", "print")
    assert page.tell(ground) == "rgb(255, 255, 255)"
    assert page.tell("getComputedStyle(document.querySelector('.toolbar')).display") == "none"
    assert page.printed(tmp_path / "page.pdf") > 50_000


@needs_chromium
def test_the_axis_is_proportional_to_steps_rows_or_time(browser: Browser, tmp_path: Path) -> None:
    trace, decisions = uneven_run()
    days = np.datetime64("2019-11-20T12:00:00") + np.arange(60).astype("timedelta64[D]")
    dated = replace(trace, columns=trace.columns | {"time": days.astype(str)})
    (tmp_path / "page.html").write_text(render(RunView(dated, decisions, "model")), encoding="utf-8")
    browser.messages.clear()
    browser.open(tmp_path / "page.html")
    assert "2019-11-20 12:00 to 2020-01-18 12:00" in view(browser)
    found = {}
    for axis in ("time", "step", "row"):
        browser.tell(f"document.querySelector('[data-axis={axis}]').click()")
        browser.settle()
        pressed = "[...document.querySelectorAll('[data-axis][aria-pressed=true]')].map((one) => one.dataset.axis)"
        assert browser.tell(pressed) == [axis]
        words = (
            "[...document.querySelectorAll('[data-figure=error] .tick[text-anchor=middle]')].map((t) => t.textContent)"
        )
        place = "Number(document.querySelector('[data-figure=error] .drift').getAttribute('x1'))"
        found[axis] = (
            browser.tell(words),
            browser.tell(f"({place} - 72) / (document.querySelector('.chart').clientWidth - 88)"),
        )
    assert all(word.startswith(("2019-1", "2020-0")) for word in found["time"][0])
    assert found["step"][0][:2] == ["0", "10"]
    assert found["row"][0][:2] == ["0", "1,000"]
    assert [found[axis][1] for axis in ("time", "step")] == [pytest.approx(45 / 59, abs=0.01)] * 2
    assert found["row"][1] == pytest.approx(1400 / 4200, abs=0.01)
    browser.mouse("Moved", *place_of(browser)(0.5))
    assert " · rows 2,000 to 2,199 · 2020-01-07 12:00" in readout(browser)
    assert browser.messages == []


@needs_chromium
@pytest.mark.parametrize("script", [True, False])
def test_no_figure_is_cut_off_on_a_phone(script: bool, browser: Browser, report: Path) -> None:
    browser.prefer("light")
    size = {"width": 380, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.call("Emulation.setScriptExecutionDisabled", value=not script)
    try:
        browser.open(report)
        assert browser.tell("document.documentElement.scrollWidth") <= 380
        unfold(browser)
        hint = "[...document.querySelectorAll('.wide')].map((one) => getComputedStyle(one).backgroundAttachment)"
        assert set(browser.tell(hint)) == {"local, local, scroll, scroll"}  # shadows where a table scrolls sideways
        wide = "[...document.querySelectorAll('.chart svg, .square svg')].map((one) => one.getBoundingClientRect())"
        assert browser.tell(f"{wide}.every((box) => box.left >= 0 && box.right <= 380 && box.width > 300)")
        ends = "[...document.querySelectorAll('.chart svg text')].map((one) => one.getBoundingClientRect().right)"
        assert max(browser.tell(ends)) <= 380
        assert not script or browser.tell("document.querySelector('.chart svg').viewBox.baseVal.width") < 380
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@needs_chromium
def test_without_a_script_the_figures_are_drawn(browser: Browser, report: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report)
        assert browser.tell("document.querySelectorAll('.chart > svg').length") == 8
        assert browser.tell("document.querySelectorAll('.static .legend').length") == 7
        assert browser.tell("getComputedStyle(document.querySelector('.toolbar')).display") == "none"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@needs_chromium
def test_hostile_names_do_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    trace, decisions = hostile_run()
    move = ColumnMove(decisions[-1].step, 4, 0, HOSTILE, 0.0, 1.0, 1.0, HOSTILE, 0.5, -0.5, 0.01)
    path = tmp_path / "hostile.html"
    path.write_text(render(RunView(trace, decisions, HOSTILE, moves=[move])), encoding="utf-8")
    browser.messages.clear()
    browser.requests.clear()
    browser.open(path)
    focus(browser, "[data-figure=error] svg")
    press(browser, "n", "ArrowRight")
    assert visible(HOSTILE) in readout(browser)
    assert browser.tell("document.querySelector('h1').textContent") == visible(f"{HOSTILE} on {HOSTILE}")
    assert browser.tell("typeof hacked") == "undefined"
    assert browser.tell("document.images.length") == 0
    assert browser.requests == [path.resolve().as_uri()]
    assert browser.messages == []


@needs_chromium
@pytest.mark.parametrize("steps", [1, 2, 30_000])
def test_short_and_long_runs_are_drawn(steps: int, browser: Browser, tmp_path: Path) -> None:
    values = np.abs(np.sin(np.arange(steps) / 50.0)).tolist()
    gaps: Sequence[float] = [float("nan") if k % 1000 < 100 else value for k, value in enumerate(values)]
    series = [Curve("all", "curve", values), Curve("gaps", "rival", gaps), Curve("own", "limit", [1.0], [0.0])]
    overlay = Overlay(steps, list(range(0, 10 * steps + 1, 10)), [(0, 2, "r")], [(0, steps, "drift"), (1, 1, "at 1")])
    lives = Bars("b", "lives", [Bar("0", 0, steps - 1, [(0, 1)], "m 0")])
    figures: list[Figure | Bars] = [Figure("f", "about", "unit", 1.0, series), lives]
    path = tmp_path / "page.html"
    path.write_text(interactive_page("t", [], overlay, [(SHOWN, figures)]), encoding="utf-8")
    browser.messages.clear()
    browser.open(path)
    assert view(browser).endswith(f"of {steps:,}")
    focus(browser, "[data-figure=f] svg")
    press(browser, "End", "+", "+", "-", "0", "n")
    assert readout(browser).startswith(f"step {steps - 1:,} ")
    assert browser.tell("document.querySelector('[data-figure=f] path.curve').getAttribute('d').length") < 60_000
    assert browser.messages == []


NEXT_RUN = """(more) => {
  const run = JSON.parse(document.getElementById("run").textContent);
  run.steps += more;
  for (const figure of run.figures) for (const series of figure.series || []) {
    if (!series.at) series.values = [...series.values, ...Array(more).fill(0.5)];
  }
  for (let k = 0; k < more; k++) run.firstRows.push(run.firstRows.at(-1) + 200);
  run.events.push({at: run.steps - 1, when: "", kind: "model", text: "the newest change"});
  document.dispatchEvent(new CustomEvent("driftsurf:run", {detail: run}));
}"""


@needs_chromium
def test_new_data_keep_what_the_reader_chose(page: Browser) -> None:
    focus(page, "[data-figure=error] + .legend .toggle")
    press(page, "Enter", " ")
    pressed = "document.querySelector('[data-figure=error] + .legend .toggle').getAttribute('aria-pressed')"
    hides = page.tell(pressed)
    page.tell(f"({NEXT_RUN})(20)")
    assert view(page) == "steps 0 to 119 of 120"
    assert page.tell(pressed) == hides
    assert page.tell("document.activeElement.className") == "toggle"
    focus(page, "[data-figure=error] svg")
    press(page, "End")
    assert "the newest change" in readout(page)
    press(page, "+", "+", "Escape")
    seen = view(page)
    page.tell(f"({NEXT_RUN})(40)")
    assert "of 140" in view(page)
    assert view(page) != seen  # the end moves with the run
    focus(page, "[data-figure=error] svg")
    press(page, "0", "Home", "+", "+", "+", "Escape")
    seen = view(page)
    page.tell(f"({NEXT_RUN})(60)")
    assert view(page).split(" of ")[0] == seen.split(" of ")[0]  # the past stays where it is
    assert page.messages == []


@needs_chromium
def test_a_long_run_is_thinned(browser: Browser, tmp_path: Path) -> None:
    steps, most = 5_000, 600
    values = np.linspace(0.0, 1.0, steps)
    overlay = Overlay(steps, range(0, 10 * steps + 1, 10), times=range(0, 60 * steps, 60))
    figure = Figure("error", "error", "error", 1.0, [Curve("model", "curve", values.tolist(), marked=True)])
    (tmp_path / "page.html").write_text(interactive_page("long", [], overlay, [(SHOWN, [figure])]))
    browser.open(tmp_path / "page.html")
    thin = json.dumps(data(overlay, [figure], most))
    assert len(json.loads(thin)["figures"][0]["series"][0]["values"]) <= most
    assert len(json.loads(thin)["times"]) <= most
    whole = view(browser)
    focus(browser, "[data-figure=error] svg")
    press(browser, "End")
    before = readout(browser)
    browser.tell(f"document.dispatchEvent(new CustomEvent('driftsurf:run', {{detail: {thin}}}))")
    assert view(browser) == whole
    press(browser, "Home", "End")
    assert readout(browser).split(";")[0] == before.split(";")[0]
    browser.tell("document.querySelector('[data-axis=row]').click()")
    assert view(browser) == whole
