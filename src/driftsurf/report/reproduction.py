"""The report of a reproduction: figures as files, and one self-contained HTML page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from driftsurf.experiments.algorithms import ALGORITHMS
from driftsurf.experiments.beyond import full_title, places, rankings
from driftsurf.experiments.misses import explain
from driftsurf.experiments.plan import PAPER_TABLES, TABLES
from driftsurf.experiments.published import STREAMS, Departure
from driftsurf.experiments.reproduce import EXPERIMENTS, Reproduction, title_of
from driftsurf.experiments.results import agreement
from driftsurf.experiments.timelines import Timeline, timeline
from driftsurf.report import findings, html, tables
from driftsurf.runtime import files
from driftsurf.streams import authors, datasets

if TYPE_CHECKING:
    from driftsurf.report.figures import Picture

__all__ = ["render", "write"]

STYLE = """
body { max-width: 1320px; }
h2 { font-size: 21px; margin-top: 48px; border-top: 1px solid var(--line); padding-top: 18px; }
h3 { font-size: 16px; margin: 26px 0 4px; } nav { columns: 3; margin: 18px 0; font-size: 15px; }
nav a { display: block; } a { color: var(--model); } ul { margin: 6px 0; padding-left: 22px; }
figure { margin: 20px 0; } figure img { max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; }
figcaption { color: var(--soft); font-size: 14px; } summary { cursor: pointer; margin: 12px 0 4px; }
@media (max-width: 700px) { nav { columns: 1; } }
"""
CANDOR = (
    "Candor is scored row by row inside each batch, as in the paper: before it predicts a row it has seen the labels "
    "of the rows before it in the same batch. No other algorithm here is given that, so its errors have an advantage."
)
OUT_OF_SCOPE = "Out of scope: DWMIL, DTEL and Diversity Pool, which the paper names and does not run."
NO_FIGURES = "No figures: they need matplotlib, pip install 'driftsurf[figures]'."


def write(folder: Path, result: Reproduction) -> None:
    """Write ``report.html``, and the figures as PNG and PDF where they were asked for."""
    pictures: list[Picture] | None = []
    if "figures" in result.experiments:
        pictures = _drawn(result)
    if pictures:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    for picture in pictures or ():
        files.write_bytes(folder / "figures" / f"{picture.name}.png", picture.png)
        files.write_bytes(folder / "figures" / f"{picture.name}.pdf", picture.pdf)
    files.write_text(folder / "report.html", render(result, pictures))


def _drawn(result: Reproduction) -> list[Picture] | None:
    """The figures; None without matplotlib, for which nobody should lose a run."""
    try:
        from driftsurf.report import figures
    except ImportError:
        return None
    return list(figures.draw(result))


def render(result: Reproduction, pictures: Sequence[Picture] | None = ()) -> str:
    """The page; ``pictures`` is None where they could not be drawn."""
    sections = [section for section in _sections(result, Gallery(pictures or ())) if section[2]]
    links = "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections)
    note = _soft(NO_FIGURES) if pictures is None else ""
    body = [
        "<h1>DriftSurf: the paper&rsquo;s evaluation, run again</h1>",
        f'<p class="soft">{_extent(result)}</p>',
        *_summary(result),
        note,
        f"<nav>{links}</nav>",
        *(f'<section id="{name}"><h2>{escape(title)}</h2>\n{text}</section>' for name, title, text in sections),
    ]
    style = tables.STYLE + findings.STYLE + STYLE
    return html.document("DriftSurf: the paper's evaluation, run again", body, style=style)


class Gallery:
    """The pictures by name, each shown once."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self._by_name = {picture.name: picture for picture in pictures}

    def show(self, *names: str) -> str:
        """These pictures, as far as there are any."""
        return "".join(_figure(self._by_name[name]) for name in names if name in self._by_name)


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption} (figures/{escape(picture.name)}.pdf)</figcaption></figure>"
    )


# ---------------------------------------------------------------------------- the top of the page


def _extent(result: Reproduction) -> str:
    exact = [name for name in result.datasets if name in STREAMS]
    others = len(result.datasets) - len(exact)
    text = f"{len(exact)} of the paper&rsquo;s fifteen streams"
    text += f" and {others} stand-in{'s' * (others != 1)}" * bool(others)
    seeds = f"seed {result.seeds[0]}" if len(result.seeds) == 1 else f"seeds {result.seeds[0]} to {result.seeds[-1]}"
    return f"{text}; {seeds}; experiments: {escape(', '.join(result.experiments))}."


def _summary(result: Reproduction) -> Iterator[str]:
    near, found = agreement(result.cells), places(result.cells)
    yield f'<p class="lead">{escape(near.describe())}.</p>'
    values = []
    if near.cells:
        values += [
            ("cells within 0.010", f"{near.within_10 / near.cells:.1%}"),
            ("cells within 0.020", f"{near.within_20 / near.cells:.1%}"),
            ("cells further off", f"{len(near.misses)}"),
        ]
    if found:
        same = sum(one.verdict == "agrees" for one in found)
        spread = sum(one.verdict == "within the spread" for one in found)
        values.append((f"DriftSurf's places as in print; {spread} more within the spread", f"{same} of {len(found)}"))
    both = [v for v in result.verdicts if v.holds is not None and v.holds_in_print is not None]
    if both:
        same = sum(v.holds == v.holds_in_print for v in both)
        values.append(("claims on tables with the same verdict as in print", f"{same} of {len(both)}"))
    yield html.cards(values)
    good, bad = list(_reproduced(result)), list(_not_reproduced(result))
    for title, points in (("What reproduced", good), ("What did not, and why", bad)):
        if points:
            yield f"<h3>{title}</h3><ul>{''.join(f'<li>{point}</li>' for point in points)}</ul>"


def _reproduced(result: Reproduction) -> Iterator[str]:
    for name in PAPER_TABLES:
        near = agreement(cell for cell in result.cells if cell.table == name)
        if near.cells:
            yield (
                f"<b>{name}</b> ({escape(TABLES[name].title)}): {near.within_10} of {near.cells} cells within 0.010, "
                f"{near.within_20} within 0.020."
            )
    hold = [v.claim.says for v in result.verdicts if v.holds]
    fail = [v.claim.says for v in result.verdicts if v.holds is False and v.holds_in_print is False]
    for says, what in ((hold, "hold in our numbers"), (fail, "fail in our numbers as in the printed ones")):
        if says:
            points = "".join(f"<li>{escape(text)}</li>" for text in says)
            yield f"<details><summary>{len(says)} claims {what}</summary><ul>{points}</ul></details>"


def _not_reproduced(result: Reproduction) -> Iterator[str]:
    for cell in agreement(result.cells).misses:
        known = explain(cell)
        yield (
            f'<a href="#misses">{escape(cell.table)}, {tables.stream_name(cell.dataset)}, '
            f"{escape(ALGORITHMS[cell.algorithm].title)}</a>: {cell.rounded:.3f} against {cell.paper:.3f}. "
            f"{escape(known.conclusion) if known else 'Not looked into.'}"
        )
    for one in places(result.cells):
        if one.verdict == "differs":
            where = f"{tables.stream_name(one.dataset)} in {escape(one.table)}"
            yield f'<a href="#places">DriftSurf&rsquo;s place</a> on {where} differs by more than the spread.'
    for verdict in result.verdicts:
        if verdict.holds is False and verdict.holds_in_print is not False:
            only = " (judged on a stand-in)" * verdict.stand_in
            yield f"{escape(verdict.claim.says)} Ours{only}: {'; '.join(findings.evidence(result, verdict))}."
    for name in result.missing:
        if name in STREAMS:
            stands = [title_of(other) for other in result.datasets if other not in STREAMS and _place_of(other) == name]
            instead = f"; in its place, in rows of their own: {escape(', '.join(stands))}" if stands else ""
            yield f"{escape(STREAMS[name].title)} was not at hand{instead}."


def _place_of(dataset: str) -> str | None:
    return datasets.DATASETS[dataset].stands_for


# ---------------------------------------------------------------------------- the sections


def _sections(result: Reproduction, gallery: Gallery) -> Iterator[tuple[str, str, str]]:
    """Name, title and content of each; the empty ones are left out."""
    run = {table.name for table in result.tables}
    paper = [name for name in PAPER_TABLES if name in run]
    yield "tables", "The paper's tables", "".join(_paper_tables(result, paper))
    yield "misses", "Cells beyond 0.020", _misses(result) if paper else ""
    yield "places", "DriftSurf's place among the algorithms", _places(result) if paper else ""
    yield "claims", "What the paper says, sentence by sentence", _claims(result)
    yield "figures", "The paper's figures", gallery.show(*_PAPER_FIGURES)
    yield "analysis", "The paper's bounds", _analysis(result, gallery)
    yield "tune", "Hyperparameters", _tuning(result)
    ours = [name for name in ("detectors", "baselines", "aware-alternative", "equal-shares", "noise") if name in run]
    yield "others", "Other algorithms and settings", "".join(_our_tables(result, ours))
    yield "sensitivity", "Sensitivity", _sensitivity(result) if "sensitivity" in run else ""
    yield "beyond", "Beyond the paper: recovery, regret, cost, ranks", _beyond(result, gallery, run)
    yield "data", "What was run, and on which data", _data(result)


_PAPER_FIGURES = (
    *("main-text", "equal-model", "noise", "detectors", "rho-4m", "rho-4m-candor", "rho-2m"),
    *("no-adaptation", "greedy"),
)


def _paper_tables(result: Reproduction, names: Iterable[str]) -> Iterator[str]:
    names = list(names)
    if names:
        yield _soft(
            "In each cell, first line: the median of our trials \N{PLUS-MINUS SIGN} half their spread. Second line: "
            "what the paper printed, and ours less it, which the colour shows too. Underlined: the best of our row, "
            "Aware left out. DriftSurf stands twice: as Algorithm 1, which is what counts, and as the code that its "
            "authors published."
        )
        yield tables.scale()
    for name in names:
        table = TABLES[name]
        near = agreement(cell for cell in result.cells if cell.table == name)
        yield f"<h3>{name}: {escape(table.title)}</h3>"
        yield _soft(f"{near.describe()}.") if near.cells else ""
        if any(column.name == "candor" for column in table.columns):
            yield _soft(CANDOR)
        yield tables.error_table(result, table)


def _misses(result: Reproduction) -> str:
    note = _soft(
        "Numbers like 0.397 (0.395 to 0.401) are the median over 10 to 100 seeds and, in brackets, the range of 95 % "
        "of the medians of five of them: what other five trials might have given. A printed value inside the "
        "brackets is covered. With so much tried, some of it covers a value by chance: a fit is no proof."
    )
    return note + findings.misses(result)


def _places(result: Reproduction) -> str:
    if not places(result.cells):
        return ""
    note = _soft(
        "Ours / the paper's; 1 is the lowest error, Aware left out; a range is a tie in three decimals. Blue, with a "
        "wavy sign: not the paper's place, but it would be if those algorithms tie whose medians differ by less "
        "than the larger spread of their trials. Orange: further off."
    )
    return note + findings.place_table(result)


def _claims(result: Reproduction) -> str:
    if not result.verdicts:
        return ""
    note = _soft(
        "Each rule is applied to the printed numbers and to ours, in three decimals; rules about curves only to "
        "ours. To a rule no difference is too small: where ours fails, the evidence says in how many single trials "
        "it holds."
    )
    return note + findings.claims(result)


def _analysis(result: Reproduction, gallery: Gallery) -> str:
    if not result.competitions:
        return ""
    note = _soft(
        "On the generated streams with abrupt drifts. The risk of a model over all rows since the last drift, less "
        "the smallest there is, is its sub-optimality; the ratio is DriftSurf's over Aware's. alpha, from 1/2 to 1, "
        "is that of the rate h n^-alpha fitted to Aware's. The bound is meant for steps at which DriftSurf is in the "
        "stable state and has recovered, and holds but for a term that vanishes with n."
    )
    return note + findings.analysis(result) + gallery.show("suboptimality")


def _tuning(result: Reproduction) -> str:
    if not result.tunings:
        return ""
    note = _soft(
        "The paper's grid of 105 pairs: 2n steps of STRSAGA on 80 % of the rows in random order, error on the "
        "others. Of equal errors the first counts. The last column: how many pairs of the grid are better than the "
        "paper's, and one more."
    )
    return note + findings.tuning(result)


def _our_tables(result: Reproduction, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f"<h3>{name}: {escape(TABLES[name].title)}</h3>"
        yield tables.error_table(result, TABLES[name], variants=("algorithm-1",))


def _sensitivity(result: Reproduction) -> str:
    table = TABLES["sensitivity"]
    note = _soft(f"{table.title}: the error with the paper's options, and what each change makes of it.")
    return note + tables.changes_table(result, table)


def _beyond(result: Reproduction, gallery: Gallery, run: set[str]) -> str:
    parts = []
    if "equal-model" in run and (shown := gallery.show("recovery")):
        note = _soft(
            "Steps, medians of the trials; grey: not before the next drift. By error: from the start of the drift "
            "until the error is within 10 % of Aware's median until the next one; where Aware does worse for having "
            "begun anew, that is at once. By training: from the end of the drift until the predicting model knows no "
            "row from before it, for the algorithms that begin anew. Of real data the times are those at which the "
            "paper lets Aware begin anew."
        )
        parts.append(f"<h3>Recovery from each drift</h3>{note}{shown}")
    same_budget = [name for name in ("equal-model", "detectors", "baselines") if name in run]
    if same_budget:
        note = _soft(
            "rho = 2m for each model. Regret is the sum over the steps of the error less Aware's, the same seed for "
            "both. A reaction (a reactive state entered, a detector's signal) is false if no drift is under way and "
            "the model knows the present concept alone."
        )
        parts.append(f"<h3>Regret, cost and false reactions</h3>{note}{findings.cost(result, same_budget)}")
        parts.append(gallery.show("gradients"))
    if rankings(result.cells):
        note = _soft(
            "Over the paper's streams at hand, Aware left out. Two algorithms differ if their average ranks are "
            "further apart than Nemenyi's critical difference at 0.05. In the second version two algorithms tie on a "
            "stream if their medians differ by less than the larger spread of their trials. The four SEA streams "
            "share their rows, so the streams are fewer than they seem."
        )
        parts.append(f"<h3>Ranks</h3>{note}{findings.ranks(result)}{gallery.show('ranks')}")
    return "".join(parts)


def _soft(text: str) -> str:
    return f'<p class="soft">{escape(text, quote=False)}</p>'


def _data(result: Reproduction) -> str:
    rows = [
        (
            escape(full_title(name)),
            "the paper&rsquo;s" if name in STREAMS else "stand-in",
            escape(_source(name)),
            f"{timeline(name).n_rows:,}",
            f"{timeline(name).batch_size:,}",
            _when(timeline(name)),
        )
        for name in result.datasets
    ]
    heads = "stream", "data", "from", "rows", "rows a step", "drift at step"
    grouped: dict[Departure, list[str]] = {}
    for stream in STREAMS.values():
        for departure in stream.departures:
            grouped.setdefault(departure, []).append(stream.title)
    departures = [
        (escape(", ".join(streams)), *(escape(text) for text in (d.what, d.printed, d.ours, d.why)))
        for d, streams in grouped.items()
    ]
    missing = [
        f"<li>{escape(STREAMS[name].title)}: {escape(datasets.how_to_get(datasets.DATASETS[name]))}</li>"
        for name in result.missing
        if name in STREAMS
    ]
    return (
        f'<div class="wide">{html.table(heads, rows, numbers=(3, 4))}</div>'
        + (f"<p>Not at hand:</p><ul>{''.join(missing)}</ul>" if missing else "")
        + f"<p>{escape(OUT_OF_SCOPE)}</p><p>{escape(CANDOR)}</p>"
        + "<h3>Where we depart from the print</h3>"
        + f'<div class="wide">{html.table(("stream", "what", "printed", "ours", "why"), departures)}</div>'
        + "<h3>Experiments</h3><ul>"
        + "".join(f"<li><b>{name}</b>: {escape(EXPERIMENTS[name].description)}</li>" for name in result.experiments)
        + "</ul>"
    )


def _when(line: Timeline) -> str:
    if line.drifts and not line.bounded:
        return "all the time"
    return ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in line.spans) or "not known"


def _source(dataset: str) -> str:
    if dataset in datasets.DATASETS:
        found = datasets.find(dataset)
        return "a file" if found is None else f"file {found.name}"
    own = authors.find(dataset)
    return "generated" if own is None else f"the authors' file {own.name}"
