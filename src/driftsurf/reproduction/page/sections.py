"""The sections of the page, in its order. A section without content is left out."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from driftsurf.data.datasets import authors
from driftsurf.data.datasets import known as datasets
from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.reproduction.cells import agreement
from driftsurf.reproduction.comparisons import full_title, places, rankings
from driftsurf.reproduction.page import findings, tables
from driftsurf.reproduction.plan import PAPER_TABLES, TABLES
from driftsurf.reproduction.published import STREAMS, Departure
from driftsurf.reproduction.reproduce import EXPERIMENTS, Reproduction
from driftsurf.reproduction.trials import Timeline, timeline

if TYPE_CHECKING:
    from driftsurf.reproduction.figures import Picture


class Gallery:
    """The pictures of the page, by name."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        self._by_name = {picture.name: picture for picture in pictures}

    def show(self, *names: str) -> str:
        """Return these pictures as HTML; names without a picture are left out."""
        return "".join(_figure(self._by_name[name]) for name in names if name in self._by_name)


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption} (figures/{escape(picture.name)}.pdf)</figcaption></figure>"
    )


CANDOR = (
    "Candor is scored row by row inside each batch, as in the paper: before it predicts a row it has seen the labels "
    "of the earlier rows of the same batch. No other algorithm here sees them, so its errors have an advantage."
)
NAMED_ONLY = "The paper names DWMIL, DTEL and Diversity Pool and does not run them; the table baselines has them."


@dataclass(frozen=True)
class ReproductionSection:
    """A section of the page."""

    id: str
    """The anchor."""
    title: str
    build: Callable[[Reproduction, Gallery], str]
    """Return the content as HTML; an empty string leaves the section out."""
    note: str = ""
    """An explanation of the content, as plain text."""


def _were_run(result: Reproduction, *names: str) -> list[str]:
    """Return those of these tables that were run, in the order in which they are named."""
    run = {table.name for table in result.tables}
    return [name for name in names if name in run]


def _paper_tables(result: Reproduction, gallery: Gallery) -> str:
    return "".join(_each_paper_table(result))


def _each_paper_table(result: Reproduction) -> Iterator[str]:
    names = _were_run(result, *PAPER_TABLES)
    if names:
        yield tables.scale()
    for name in names:
        table = TABLES[name]
        near = agreement(cell for cell in result.cells if cell.table == name)
        yield f"<h3>{name}: {escape(table.title)}</h3>"
        yield html.note(f"{near.describe()}.") if near.cells else ""
        if any(column.name == "candor" for column in table.columns):
            yield html.note(CANDOR)
        yield tables.error_table(result, table)


def _misses(result: Reproduction, gallery: Gallery) -> str:
    return findings.misses(result) if _were_run(result, *PAPER_TABLES) else ""


def _places(result: Reproduction, gallery: Gallery) -> str:
    return findings.place_table(result) if places(result.cells) else ""


def _claims(result: Reproduction, gallery: Gallery) -> str:
    return findings.claims(result) if result.verdicts else ""


def _paper_figures(result: Reproduction, gallery: Gallery) -> str:
    return gallery.show(
        *("main-text", "equal-model", "noise", "detectors", "rho-4m", "rho-4m-candor", "rho-2m"),
        *("no-adaptation", "greedy"),
    )


def _bounds(result: Reproduction, gallery: Gallery) -> str:
    return findings.bounds(result) + gallery.show("suboptimality") if result.competitions else ""


def _tuning(result: Reproduction, gallery: Gallery) -> str:
    return findings.tuning(result) if result.tunings else ""


def _other_tables(result: Reproduction, gallery: Gallery) -> str:
    names = _were_run(result, "detectors", "baselines", "aware-alternative", "equal-shares", "noise")
    return "".join(
        f"<h3>{name}: {escape(TABLES[name].title)}</h3>"
        + tables.error_table(result, TABLES[name], variants=("algorithm-1",))
        for name in names
    )


def _sensitivity(result: Reproduction, gallery: Gallery) -> str:
    return tables.changes_table(result, TABLES["sensitivity"]) if _were_run(result, "sensitivity") else ""


def _beyond(result: Reproduction, gallery: Gallery) -> str:
    return "".join(_each_comparison(result, gallery))


def _each_comparison(result: Reproduction, gallery: Gallery) -> Iterator[str]:
    if _were_run(result, "equal-model") and (shown := gallery.show("recovery")):
        yield "<h3>Recovery from each drift</h3>"
        yield html.note(
            "Number of steps, medians over the trials; grey means that the next drift came first. By error: from the "
            "start of the drift until the error is within 10 % of Aware's median error until the next drift. That can "
            "be at once, where Aware loses by its reset. By training: from the end of the drift until the predicting "
            "model is trained on later rows alone, for the algorithms that replace their model. For real data, the "
            "drifts are the steps at which the paper resets Aware."
        )
        yield shown
    same_budget = _were_run(result, "equal-model", "detectors", "baselines")
    if same_budget:
        yield "<h3>Regret, cost and false reactions</h3>"
        yield html.note(
            "rho = 2m for each model. Regret is the sum over the steps of the error minus Aware's with the same seed. "
            "A reaction (entering the reactive state, or a detector's signal) is false if there is no drift and the "
            "model has recovered from all earlier ones."
        )
        yield findings.cost(result, same_budget)
        yield gallery.show("gradients")
    if rankings(result.cells):
        yield "<h3>Ranks</h3>"
        yield html.note(
            "Over the paper's streams that were run, without Aware. Two algorithms differ if their average ranks are "
            "further apart than Nemenyi's critical difference at 0.05. In the second version two algorithms tie on a "
            "stream if their medians differ by less than the larger spread of their trials. The four SEA streams "
            "share their rows, so there are fewer independent streams than rows in the table."
        )
        yield f"{findings.ranks(result)}{gallery.show('ranks')}"


def _data(result: Reproduction, gallery: Gallery) -> str:
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
    heads = "stream", "data", "source", "rows", "rows per step", "drift at step"
    missing = [
        f"<li>{escape(STREAMS[name].title)}: {escape(datasets.how_to_get(datasets.DATASETS[name]))}</li>"
        for name in result.missing
        if name in STREAMS
    ]
    return (
        html.wide_table(heads, rows, numbers=(3, 4))
        + (f"<p>Missing data files:</p><ul>{''.join(missing)}</ul>" if missing else "")
        + f"<p>{escape(NAMED_ONLY)}</p><p>{escape(CANDOR)}</p>"
        + "<h3>Settings that differ from the printed ones</h3>"
        + _departures()
        + "<h3>Experiments</h3><ul>"
        + "".join(f"<li><b>{name}</b>: {escape(EXPERIMENTS[name].description)}</li>" for name in result.experiments)
        + "</ul>"
    )


def _departures() -> str:
    grouped: dict[Departure, list[str]] = {}
    for stream in STREAMS.values():
        for departure in stream.departures:
            grouped.setdefault(departure, []).append(stream.title)
    rows = [
        (escape(", ".join(streams)), *(escape(text) for text in (d.what, d.printed, d.ours, d.why)))
        for d, streams in grouped.items()
    ]
    return html.wide_table(("stream", "setting", "printed", "ours", "reason"), rows)


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


SECTIONS: Final = (
    ReproductionSection(
        "tables",
        "The paper's tables",
        _paper_tables,
        "In each cell, first line: the median error of our trials ± half their spread. Second line: the printed error, "
        "and ours minus it, which the colour shows too. Underlined: the best of our row, without Aware. DriftSurf has "
        "two columns: Algorithm 1, which is compared with the paper, and the code that its authors published. rho is "
        "the number of gradient steps for each batch, m the number of its rows. Aware knows the drifts and resets at "
        "each; OBL (oblivious) ignores drift; 1PASS-SGD uses each row once; AUE (k=2) is AUE with two experts.",
    ),
    ReproductionSection(
        "misses",
        "Cells that differ by more than 0.020",
        _misses,
        "Numbers like 0.397 (0.395 to 0.401) are the median over 10 to 100 seeds and, in brackets, the range within "
        "which 95 % of the medians of five of them fall: what five other trials might have given. A printed value "
        "inside the brackets is covered. With so many attempts, some cover a value by chance: a fit is no proof.",
    ),
    ReproductionSection(
        "places",
        "DriftSurf's rank among the algorithms",
        _places,
        "Our rank / the paper's; 1 is the lowest error, Aware is left out, a range is a tie in three decimals. Blue, "
        "with a wavy sign: not the paper's rank, but it would be if algorithms tie whose medians differ by less than "
        "the larger spread of their trials. Orange: further off.",
    ),
    ReproductionSection(
        "claims",
        "The claims of the paper",
        _claims,
        "Each rule is applied to the printed numbers and to ours, in three decimals; rules about curves only to ours. "
        "A rule counts every difference, however small: if it fails in our numbers, the evidence says in how many "
        "single trials it holds.",
    ),
    ReproductionSection("figures", "The paper's figures", _paper_figures),
    ReproductionSection(
        "analysis",
        "The paper's bounds",
        _bounds,
        "On the generated streams with abrupt drifts. The sub-optimality of a model is its risk on all rows since the "
        "last drift minus the smallest possible risk; the ratio is DriftSurf's divided by Aware's. alpha, from 1/2 to "
        "1, is that of the rate h n^-alpha fitted to Aware's. The bound is meant for steps at which DriftSurf is in "
        "the stable state and has recovered, and holds up to a term that vanishes with n.",
    ),
    ReproductionSection(
        "tune",
        "Hyperparameters",
        _tuning,
        "The paper's grid of 105 pairs: 2n steps of STRSAGA on 80 % of the rows in random order, error on the others. "
        "Among equal errors the first is chosen. The last column is the rank of the paper's choice in the grid.",
    ),
    ReproductionSection("others", "Other algorithms and settings", _other_tables),
    ReproductionSection(
        "sensitivity",
        "Sensitivity",
        _sensitivity,
        f"{TABLES['sensitivity'].title}: the error with the paper's options, and its difference with each change.",
    ),
    ReproductionSection("beyond", "Beyond the paper: recovery, regret, cost, ranks", _beyond),
    ReproductionSection("data", "Data and settings", _data),
)
"""The sections in the order of the page."""
