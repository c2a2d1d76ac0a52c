"""The page of a run: what is in it, and how it behaves in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from browser import CHROMIUM, Browser
from driftsurf import DriftSurfClassifier, DriftSurfRegressor, Trace, prequential
from driftsurf.cli import main
from driftsurf.decisions import Decision
from driftsurf.errors import InputError
from driftsurf.evaluation.columns import ColumnMove
from driftsurf.evaluation.records import RunRecord, read_run
from driftsurf.learners import LogisticRegression, SoftmaxRegression
from driftsurf.report import listings
from driftsurf.report.figure import Bar, Bars, Change, Figure, Overlay, Series, as_data
from driftsurf.report.page import render, render_record
from driftsurf.runtime.session import Session
from driftsurf.strategies import AUE
from driftsurf.streams import SEA, Drift

HOSTILE = "</script><img src=x onerror=hacked=1>\u2028'\"&<b>"


def data_of(page: str) -> dict[str, Any]:
    """What the script is given."""
    found = re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.S)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "run"
    command = ["run", "mixed", "--rows", "20000", "--quiet", "--out", str(folder)]
    assert CliRunner().invoke(main, command, catch_exceptions=False).exit_code == 0
    return folder / "report.html"


class Made:
    """A stream of three columns, by a function of the rows and the step."""

    n_rows = 3000

    def __init__(self, targets: Callable[[Any, int], Any], *, name: str, classes: Any = (), drifts: Any = ()) -> None:
        self.targets, self.name, self.classes, self.drifts = targets, name, classes, drifts

    def batches(self, size: int) -> Iterator[tuple[Any, Any]]:
        rng = np.random.default_rng(0)
        for step in range(self.n_rows // size):
            X = rng.normal(size=(size, 3))
            yield X, self.targets(X, step)


def hostile_run() -> tuple[Trace, list[Decision]]:
    names = np.array([HOSTILE, "a", "b"])
    drifts = (Drift(1000, 1900),)
    stream: Any = Made(
        lambda X, step: names[(X if step < 15 else -X).argmax(axis=1)],
        name=HOSTILE,
        classes=tuple(names.tolist()),
        drifts=drifts,
    )
    model = DriftSurfClassifier(SoftmaxRegression(), random_state=0)
    trace = prequential(stream, {HOSTILE: model}, batch_size=100)
    return trace, list(model.journal_)


# ---------------------------------------------------------------------------- what is in it


def test_the_data_are_those_of_the_run(report: Path) -> None:
    record, data = read_run(report.parent), data_of(report.read_text())
    assert record.trace is not None
    figures = {figure["id"]: figure for figure in data["figures"]}
    assert list(figures) == ["error", "risk", "models", "classes", "costs"]
    error = {series["name"]: series["values"] for series in figures["error"]["series"]}
    assert error["driftsurf"] == pytest.approx(record.trace.of("driftsurf")["error"], rel=1e-4)
    assert [change["text"] for change in data["changes"]] == [
        transition.describe() for decision in record.decisions for transition in decision.transitions
    ]
    assert len(data["reactive"]) == 11
    assert [drift[0] for drift in data["drifts"]] == [20, 40, 60, 80]
    by_class = {series["name"]: series["values"] for series in figures["classes"]["series"]}
    run = record.trace.of("driftsurf")
    assert by_class["-1"][3] == pytest.approx(run["wrong:-1"][3] / run["true:-1"][3], rel=1e-4)
    assert run["wrong:-1"].sum() + run["wrong:1"].sum() == run["errors"].sum()


def test_seconds_are_told_only_where_they_are_asked_for(report: Path, tmp_path: Path) -> None:
    assert "timings.json" in report.read_text()
    page = tmp_path / "page.html"
    result = CliRunner().invoke(main, ["explain", str(report.parent), "--html", str(page)])
    assert result.output == f"report: {page}\n"
    assert '<th class="number">seconds</th>' in page.read_text()
    assert "aware, the oracle" in page.read_text()


def test_hostile_names_are_text_and_nothing_else() -> None:
    trace, decisions = hostile_run()
    move = ColumnMove(decisions[-1].step, 4, 0, HOSTILE, 0.0, 1.0, 1.0, HOSTILE, 0.5, -0.5, 0.01)
    page = render(trace, decisions, model=HOSTILE, moves=[move])
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert "\u2028" not in data_of_raw(page)
    assert data_of(page)["figures"][0]["marked"] == HOSTILE


def data_of_raw(page: str) -> str:
    return page[page.index('id="run">') : page.index("</script>")]


def test_values_have_a_page_too() -> None:
    stream: Any = Made(lambda X, step: X[:, step // 15] + 0.1 * X[:, 2], name="numbers")
    model = DriftSurfRegressor(random_state=0)
    trace = prequential(stream, model, batch_size=100)
    page = render(trace, list(model.journal_), model="model", seconds={"model": 0.5, "other": 1.0})
    late = render(trace, [], model="model", seconds={"model": 0.5}, seconds_from=20)
    assert "Seconds since step 20" in late
    assert '<td class="number">2,000</td>' in late  # the rows since then, a second
    assert "Root mean squared error" in page
    assert "skill over the last value" in page
    assert "Errors by class" not in page
    move = ColumnMove(10, 4, 0, "x0", 0.0, 0.0, 0.0, "", 1.0, 0.0, 0.01)
    assert "(" not in listings.moves_table([move]).partition("<table>")[2]


def values_in(unit: float) -> tuple[str, str]:
    """The page of a run whose values are measured in such a unit, and why it changed its model first."""
    stream: Any = Made(lambda X, step: unit * (X[:, step // 15] + 0.1 * X[:, 2]), name="numbers")
    model = DriftSurfRegressor(random_state=0)
    trace = replace(prequential(stream, model, batch_size=100), untaught=1)
    return render(trace, list(model.journal_), model="model"), model.journal_.explain().splitlines()[0]


@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-10, 2.0**20, 2.0**40])
def test_curves_of_values_are_the_same_in_every_unit(unit: float) -> None:
    curves = r'<path class="(?:curve|limit|rival)" d="[^"]*"'
    (page, why), (other, _) = values_in(unit), values_in(1.0)
    assert re.findall(curves, page) == re.findall(curves, other)
    assert len(why) < 65
    for chart in re.findall(r"<svg viewBox.*?</svg>", page, re.S):
        names = re.findall(r'text-anchor="end">([^<]*)</text>', chart)
        assert len(set(names)) == len(names)


def test_a_run_without_any_error_is_drawn() -> None:
    stream: Any = Made(lambda X, step: 0.0 * X[:, 0], name="zeros")
    trace = prequential(stream, DriftSurfRegressor(random_state=0), batch_size=100)
    assert re.search(r'class="curve" d="M[0-9. LM]+"', render(trace, [], model="model"))


def test_models_that_vote_and_traces_of_before_have_pages() -> None:
    session = Session(AUE(LogisticRegression()), classes=(-1, 1))
    trace = prequential(
        SEA(n_rows=6000), {"aue": session, "other": DriftSurfClassifier(random_state=0)}, batch_size=100
    )
    page = render(trace, list(session.journal), model="aue")
    assert "What the model watched" not in page
    assert '"css":"series-0"' in page
    older = {name: column for name, column in trace.columns.items() if not name.startswith("wrong:")}
    assert "Errors by class" not in render(replace(trace, columns=older), [], model="aue")
    assert "The models" not in render(trace, [], model="aue")
    with pytest.raises(InputError, match=r"no trace.csv"):
        render_record(RunRecord([]))


def test_long_lists_are_cut_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    trace, decisions = hostile_run()
    changed = next(decision for decision in decisions if decision.transitions)
    assert "more are in the journal" in listings.changes_table([changed] * 401)
    assert "The first 60 reactions" in listings.moves_table(
        [ColumnMove(k, 4, 0, "x", 0.0, 0.0, 0.0, "", 0.0, 0.0, 0.1) for k in range(61)]
    )
    monkeypatch.setattr(listings, "MOST_CLASSES", 2)
    assert "1 more are in the trace" in listings.class_table(trace, HOSTILE)
    nothing = trace.columns | {f"true:{label}": 0 * trace.columns[f"true:{label}"] for label in trace.labels}
    assert '<td class="number">-</td>' in listings.class_table(replace(trace, columns=nothing), HOSTILE)
    long = [replace(decision, step=k, first_row=100 * k) for k, decision in enumerate(decisions * 80)]
    kinds = {change["kind"] for change in data_of(render(trace, long, model=HOSTILE))["changes"]}
    assert "entered" not in kinds
    many = [replace(changed, models=(replace(changed.models[0], id=k),), predicted_by=k) for k in range(45)]
    assert len(data_of(render(trace, many, model=HOSTILE))["figures"][2]["bars"]) == 40


def test_places_in_a_long_run_are_not_rounded() -> None:
    changes = [Change(123_457, "entered", "x"), Change(1_234_567.5, "kept", "y")]
    overlay = Overlay(2_000_000, [], [(123_456, 123_459.25, "r")], [(765_431, 765_432, "d")], changes)
    figure = Figure("f", "", "error", 1.0, [Series("a", "curve", [0.123456789], [123_458])])
    data = json.loads(as_data(overlay, [figure]))
    assert data["reactive"] == [[123_456, 123_459.25, "r"]]
    assert data["drifts"] == [[765_431, 765_432, "d"]]
    assert [change["at"] for change in data["changes"]] == [123_457, 1_234_567.5]
    assert (data["figures"][0]["series"][0]["at"], data["figures"][0]["series"][0]["values"]) == ([123_458], [0.12346])


def test_what_is_not_finite_is_a_gap() -> None:
    figure = Figure("f", "about", "u", 1.0, [Series("s", "curve", [0.5, float("nan"), 2.0])], marked="s")
    assert json.loads(as_data(Overlay(3), [figure]))["figures"][0]["series"][0]["values"] == [0.5, None, 2]
    assert figure.render(Overlay(3)).count("<path") == 1


# ---------------------------------------------------------------------------- how it behaves

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here to open the page in")


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


def place(page: Browser, figure: str = "error") -> Callable[[float], tuple[float, float]]:
    """Where a share of the width of a figure is on the screen."""
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


@needs_chromium
def test_the_page_is_drawn_and_asks_for_nothing(page: Browser, report: Path) -> None:
    assert view(page) == "steps 0 to 99 of 100"
    assert page.requests == [report.resolve().as_uri()]
    assert page.messages == []
    assert page.tell("document.querySelectorAll('.chart > svg[tabindex]').length") == 5
    assert page.tell("document.querySelectorAll('[data-figure=error] rect.reactive').length") == 11
    assert page.tell("document.querySelectorAll('[data-figure=models] rect.strong').length") > 10
    assert page.tell("document.documentElement.scrollWidth <= innerWidth")


@needs_chromium
@pytest.mark.parametrize("unit", [1e-9, 3e-3, 1.0, 3e5, 1e11])
def test_numbers_of_any_size_have_room(browser: Browser, unit: float, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(values_in(unit)[0], encoding="utf-8")
    browser.open(tmp_path / "page.html")
    browser.settle()
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
def test_the_mouse_tells_zooms_and_shows_all(page: Browser) -> None:
    at = place(page)
    page.mouse("Moved", *at(0.258))
    assert readout(page).startswith("step 20 · rows 4,000 to 4,199, reactive state; ")
    assert "risk 1.38 > best 0.45 + 0.10: reactive" in readout(page)
    assert page.tell("document.querySelector('[data-figure=error] .tip').hidden") is False
    assert page.tell("document.querySelectorAll('.cursor').length") == 5  # in every figure
    page.mouse("Pressed", *at(0.2), button="left", clickCount=1)
    page.mouse("Moved", *at(0.3), button="left")
    assert page.tell("document.querySelectorAll('.chosen').length") == 1
    page.mouse("Moved", *at(0.45), button="left")
    page.mouse("Released", *at(0.45), button="left", clickCount=1)
    assert view(page) == "steps 14 to 40 of 100"
    page.mouse("Wheel", *at(0.5), deltaX=0, deltaY=-100, modifiers=2)
    assert view(page) != "steps 14 to 40 of 100"
    for count in (1, 2):
        page.mouse("Pressed", *at(0.5), button="left", clickCount=count)
        page.mouse("Released", *at(0.5), button="left", clickCount=count)
    assert view(page) == "steps 0 to 99 of 100"
    page.mouse("Moved", *place(page, "models")(0.5))
    assert "born at step" in readout(page)
    page.mouse("Moved", 1, 1)
    focus(page, ".toggle")
    assert page.tell("document.querySelectorAll('.cursor').length") == 0


@needs_chromium
def test_everything_works_by_keyboard(page: Browser) -> None:
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
    assert page.tell(curve) == 2
    focus(page, button)
    press(page, " ")
    assert page.tell(curve) == 1
    assert page.tell(f"document.querySelector('{button}').getAttribute('aria-pressed')") == "false"
    assert page.tell("document.querySelectorAll('[data-figure=error] .mark').length") == 0
    page.tell(f"document.querySelector('{button}').click()")
    page.settle()
    assert page.tell(curve) == 2
    for name, left in (("reactive states", "rect.reactive"), ("true drifts", ".drift"), ("changes", ".mark")):
        page.tell(f"[...document.querySelectorAll('.layers button')].find(b => b.textContent === '{name}').click()")
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
def test_it_has_a_light_a_dark_and_a_printed_face(page: Browser, tmp_path: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.tell(ground) == "rgb(255, 255, 255)"
    page.prefer("dark")
    assert page.tell(ground) == "rgb(20, 24, 30)"
    page.prefer("dark", "print")
    assert page.tell(ground) == "rgb(255, 255, 255)"
    assert page.tell("getComputedStyle(document.querySelector('.toolbar')).display") == "none"
    assert page.printed(tmp_path / "page.pdf") > 50_000


@needs_chromium
def test_without_a_script_the_figures_stand_still(browser: Browser, report: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(report)
        assert browser.tell("document.querySelectorAll('.chart > svg').length") == 5
        assert browser.tell("document.querySelectorAll('.static .legend').length") == 4
        assert browser.tell("getComputedStyle(document.querySelector('.toolbar')).display") == "none"
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


@needs_chromium
def test_hostile_names_do_nothing_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    trace, decisions = hostile_run()
    move = ColumnMove(decisions[-1].step, 4, 0, HOSTILE, 0.0, 1.0, 1.0, HOSTILE, 0.5, -0.5, 0.01)
    path = tmp_path / "hostile.html"
    path.write_text(render(trace, decisions, model=HOSTILE, moves=[move]), encoding="utf-8")
    browser.messages.clear()
    browser.requests.clear()
    browser.open(path)
    focus(browser, "[data-figure=error] svg")
    press(browser, "n", "ArrowRight")
    assert HOSTILE in readout(browser)
    assert browser.tell("document.querySelector('h1').textContent") == f"{HOSTILE} on {HOSTILE}"
    assert browser.tell("typeof hacked") == "undefined"
    assert browser.tell("document.images.length") == 0
    assert browser.requests == [path.resolve().as_uri()]
    assert browser.messages == []


@needs_chromium
@pytest.mark.parametrize("steps", [1, 2, 30_000])
def test_short_and_long_runs_are_drawn(steps: int, browser: Browser, tmp_path: Path) -> None:
    from driftsurf.report import interactive

    values = np.abs(np.sin(np.arange(steps) / 50.0)).tolist()
    gaps: Sequence[float] = [float("nan") if k % 1000 < 100 else value for k, value in enumerate(values)]
    series = [Series("all", "curve", values), Series("gaps", "rival", gaps), Series("own", "limit", [1.0], [0.0])]
    overlay = Overlay(steps, list(range(0, 10 * steps, 10)), [(0, 2, "r")], [(0, steps, "drift"), (1, 1, "at 1")])
    lives = Bars("b", "lives", [Bar("0", 0, steps - 1, [(0, 1)], "m 0")])
    figures: list[Figure | Bars] = [Figure("f", "about", "unit", 1.0, series), lives]
    path = tmp_path / "page.html"
    body = [interactive.TOOLBAR, *(figure.render(overlay) for figure in figures)]
    path.write_text(interactive.document("t", body, overlay, figures), encoding="utf-8")
    browser.messages.clear()
    browser.open(path)
    assert view(browser).endswith(f"of {steps:,}")
    focus(browser, "[data-figure=f] svg")
    press(browser, "End", "+", "+", "-", "0", "n")
    assert readout(browser).startswith(f"step {steps - 1:,} ")
    assert browser.tell("document.querySelector('[data-figure=f] path.curve').getAttribute('d').length") < 60_000
    assert browser.messages == []
