"""The top of the page: what was run, how near the numbers are, what reproduced and what did not."""

from __future__ import annotations

from collections.abc import Iterator

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.core.wording import counted, optional
from driftsurf.data.datasets import known as datasets
from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.reproduction.cells import agreement, explain
from driftsurf.reproduction.comparisons import places
from driftsurf.reproduction.page import findings, tables
from driftsurf.reproduction.plan import PAPER_TABLES, TABLES
from driftsurf.reproduction.published import STREAMS
from driftsurf.reproduction.reproduce import Reproduction, title_of


def extent(result: Reproduction) -> str:
    """Return a line of HTML with the streams, seeds and experiments."""
    exact = [name for name in result.datasets if name in STREAMS]
    others = len(result.datasets) - len(exact)
    text = f"{len(exact)} of the paper&rsquo;s fifteen streams"
    text += optional(others, f" and {counted(others, 'stand-in')}")
    seeds = f"seed {result.seeds[0]}" if len(result.seeds) == 1 else f"seeds {result.seeds[0]} to {result.seeds[-1]}"
    return f"{text}; {seeds}; experiments: {escape(', '.join(result.experiments))}."


def summary(result: Reproduction) -> Iterator[str]:
    """Return the agreement with the paper, and the lists of what reproduced and what did not, as HTML."""
    near, found = agreement(result.cells), places(result.cells)
    yield f'<p class="lead">{escape(near.describe())}.</p>'
    values = []
    if near.cells:
        values += [
            ("cells within 0.010", f"{near.within_10 / near.cells:.1%}"),
            ("cells within 0.020", f"{near.within_20 / near.cells:.1%}"),
            ("cells that differ by more", f"{len(near.misses)}"),
        ]
    if found:
        same = sum(one.verdict == "agrees" for one in found)
        spread = sum(one.verdict == "within the spread" for one in found)
        label = f"ranks of DriftSurf as printed; {spread} more within the spread of trials"
        values.append((label, f"{same} of {len(found)}"))
    both = [v for v in result.verdicts if v.holds is not None and v.holds_in_print is not None]
    if both:
        same = sum(v.holds == v.holds_in_print for v in both)
        values.append(("claims about tables with the same verdict as in print", f"{same} of {len(both)}"))
    yield html.cards(values)
    good, bad = list(_reproduced(result)), list(_not_reproduced(result))
    for title, points in (("What reproduced", good), ("What did not, and why", bad)):
        if points:
            yield f"<h3>{title}</h3><ul>{''.join(f'<li>{point}</li>' for point in points)}</ul>"


def _reproduced(result: Reproduction) -> Iterator[str]:
    """Yield what agrees with the paper: cells of each table, and claims."""
    for name in PAPER_TABLES:
        near = agreement(cell for cell in result.cells if cell.table == name)
        if near.cells:
            yield (
                f"<b>{name}</b> ({escape(TABLES[name].title)}): {near.within_10} of {near.cells} cells within 0.010, "
                f"{near.within_20} within 0.020."
            )
    hold = [v.claim.text for v in result.verdicts if v.holds]
    fail = [v.claim.text for v in result.verdicts if v.holds is False and v.holds_in_print is False]
    for claims, what in ((hold, "hold in our numbers"), (fail, "fail in our numbers as in the printed ones")):
        if claims:
            points = "".join(f"<li>{escape(text)}</li>" for text in claims)
            yield f"<details><summary>{len(claims)} claims {what}</summary><ul>{points}</ul></details>"


def _not_reproduced(result: Reproduction) -> Iterator[str]:
    """Yield what differs from the paper: cells, ranks and claims."""
    for cell in agreement(result.cells).misses:
        known = explain(cell)
        yield (
            f'<a href="#misses">{escape(cell.table)}, {tables.stream_name(cell.dataset)}, '
            f"{escape(ALGORITHMS[cell.algorithm].title)}</a>: {cell.rounded:.3f}, printed {cell.paper:.3f}. "
            f"{escape(known.conclusion) if known else 'Not investigated.'}"
        )
    for one in places(result.cells):
        if one.verdict == "differs":
            where = f"{tables.stream_name(one.dataset)} in {escape(one.table)}"
            yield f'<a href="#places">The rank of DriftSurf</a> on {where} differs by more than the spread of trials.'
    for verdict in result.verdicts:
        if verdict.holds is False and verdict.holds_in_print is not False:
            only = " (judged on a stand-in)" * verdict.stand_in
            yield f"{escape(verdict.claim.text)} Ours{only}: {'; '.join(findings.evidence(result, verdict))}."
    for name in result.missing:
        if name in STREAMS:
            stand_ins = [other for other in result.datasets if other not in STREAMS and _stands_for(other) == name]
            titles = escape(", ".join(map(title_of, stand_ins)))
            instead = f"; stand-ins, in rows of their own: {titles}" if stand_ins else ""
            yield f"The data file of {escape(STREAMS[name].title)} is missing{instead}."


def _stands_for(dataset: str) -> str | None:
    return datasets.DATASETS[dataset].stands_for
