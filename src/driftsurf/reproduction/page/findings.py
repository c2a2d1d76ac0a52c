"""Tables of the page on what the numbers say: cells that differ, ranks, claims, bounds, hyperparameters, cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.errors.visible import escape
from driftsurf.report import html
from driftsurf.reproduction.cells import ErrorCell, agreement, explain
from driftsurf.reproduction.claims import Claim
from driftsurf.reproduction.comparisons import Account, TablePlace, accounts, full_title, places, rankings
from driftsurf.reproduction.page.tables import by_stream, shade, stream_name
from driftsurf.reproduction.plan import TABLES
from driftsurf.reproduction.published import STREAMS, published
from driftsurf.reproduction.reproduce import Reproduction
from driftsurf.reproduction.rules import Lookup
from driftsurf.reproduction.verdicts import ClaimVerdict


def misses(result: Reproduction) -> str:
    """Return every cell that differs by more than 0.020, with the attempts to explain it, as HTML."""
    found = agreement(result.cells).misses
    return "".join(_miss(result, cell) for cell in found) or "<p>None.</p>"


def _miss(result: Reproduction, cell: ErrorCell) -> str:
    other = result.measured.find(cell.table, cell.dataset, cell.algorithm, "authors")
    beside = f"; the authors&rsquo; code {other.rounded:.3f} {_range(other)}" if other else ""
    head = (
        f"<b>{escape(cell.table)}, {stream_name(cell.dataset)}, {_title(cell)}</b>: ours {cell.rounded:.3f} "
        f"{_range(cell)}, printed {cell.paper:.3f}{beside}"
    )
    known = explain(cell)
    if known is None:
        return f'<div class="miss"><p>{head}.</p><p>Not investigated.</p></div>'
    tried = "".join(f"<li>{escape(what)}: {escape(gave)}</li>" for what, gave in known.tried)
    return f'<div class="miss"><p>{head}.</p><ul class="tried">{tried}</ul><p>{escape(known.conclusion)}</p></div>'


def _range(cell: ErrorCell) -> str:
    return f'<span class="soft">({min(cell.trials):.3f} to {max(cell.trials):.3f})</span>'


def _title(cell: ErrorCell) -> str:
    return escape(next(c.title for c in TABLES[cell.table].columns if c.name == cell.algorithm))


# ---------------------------------------------------------------------------- DriftSurf's place


def place_table(result: Reproduction) -> str:
    """Return the rank of DriftSurf in each table on each stream, ours and the paper's, then the differences."""
    found = places(result.cells)
    tables = list(dict.fromkeys(one.table for one in found))
    by_dataset = {(one.dataset, one.table): one for one in found}
    rows = [
        (stream_name(dataset), *(_place(by_dataset[dataset, table]) for table in tables))
        for dataset in dict.fromkeys(one.dataset for one in found)
    ]
    table = html.wide_table(("stream", *map(escape, tables)), rows, numbers=range(1, len(tables) + 1))
    exceptions = [one for one in found if one.verdict == "differs"]
    return table + "".join(_exception(result, one) for one in exceptions)


def _place(one: TablePlace) -> str:
    css = {"agrees": "same", "within the spread": "near", "differs": "apart"}[one.verdict]
    sign = {"agrees": "", "within the spread": " &asymp;", "differs": " &ne;"}[one.verdict]
    return f'<span class="{css}">{_ordinal(one.ours)} / {_ordinal(one.paper)}{sign}</span>'


def _ordinal(place: tuple[int, int]) -> str:
    return f"{place[0]}" if place[0] == place[1] else f"{place[0]}&ndash;{place[1]}"


def _exception(result: Reproduction, one: TablePlace) -> str:
    others = escape(", ".join(ALGORITHMS[name].title for name in one.reordered))
    cell = result.measured.find(one.table, one.dataset, "driftsurf")
    why = cell and explain(cell)
    return (
        f"<p><b>Different rank</b>: {escape(one.table)}, {stream_name(one.dataset)}: ours {_ordinal(one.ours)}, "
        f"the paper&rsquo;s {_ordinal(one.paper)}; in another order, by more than the spread: {others}."
        + (f" {escape(why.conclusion)}" if why else "")
        + "</p>"
    )


# ---------------------------------------------------------------------------- claims


def claims(result: Reproduction) -> str:
    """Return each claim with its verdict in print and in our numbers, and the evidence, as HTML."""
    rows = [
        (
            f'{escape(v.claim.text)}<br><span class="soft">{escape(v.claim.source)}</span>',
            escape(v.claim.criterion),
            _yes(v.holds_in_print),
            _yes(v.holds)
            + ("<br>on a stand-in" if v.stand_in else "")
            + ("<br>on a part of its streams" if v.judgements and v.not_judged else ""),
            "<br>".join(evidence(result, v)),
        )
        for v in result.verdicts
    ]
    return html.wide_table(("claim", "rule", "in print", "ours", "evidence"), rows)


def evidence(result: Reproduction, verdict: ClaimVerdict) -> Iterable[str]:
    """Return the evidence of a verdict; if it fails, also the verdict in print on the same streams, and by trials."""
    yield escape(verdict.evidence)
    if verdict.holds is not False or verdict.claim.rule is None:
        return
    here = _holds_here(result, verdict.claim, published)
    if here is not None and here != verdict.holds_in_print:
        yield f"in print, on the same streams: {_yes(here)}"
    good = sum(_holds_here(result, verdict.claim, _of_trial(result, k)) is True for k in range(len(result.seeds)))
    yield f"holds in {good} of {len(result.seeds)} single trials"


def _holds_here(result: Reproduction, claim: Claim, lookup: Lookup) -> bool | None:
    return claim.holds(lambda table, stream, who: lookup(table, stream, who) if stream in result.datasets else None)


def _of_trial(result: Reproduction, k: int) -> Lookup:
    errors = {
        (cell.table, cell.dataset, cell.algorithm): round(cell.trials[k], 3)
        for cell in result.cells
        if cell.variant == "algorithm-1"
    }
    return lambda table, stream, algorithm: errors.get((table, stream, algorithm))


def _yes(holds: bool | None) -> str:
    return {True: '<span class="yes">holds</span>', False: '<span class="no">fails</span>', None: "not judged"}[holds]


# ---------------------------------------------------------------------------- bounds


def bounds(result: Reproduction) -> str:
    """Return the paper's bounds and the measured quantities, as HTML."""
    competition = [
        (
            stream_name(c.dataset),
            f"{c.h:.3g}",
            f"{c.alpha:.2f}",
            f"{c.bound:.2f}",
            _median_and_most([float(ratio) for ratio, stable in zip(c.ratios, c.stable, strict=True) if stable]),
            "none" if math.isnan(c.share_within) else f"{c.share_within:.0%}",
        )
        for c in result.competitions
    ]
    heads = (
        *("stream", "h", "alpha", "bound 7 / 4<sup>1-alpha</sup>", "ratio: median, largest"),
        "stable, recovered steps within the bound",
    )
    states = [
        (
            stream_name(b.dataset),
            f"{b.theta:.3f}",
            f"{b.stable_share:.2f} / {b.stable_share_bound:.2f}",
            f"{sum(switched for _, switched in b.false_switches)} of {b.false_entries}",
            f"{b.smallest_b:.2g}",
            f"{b.large_sample_share:.2f}",
            f"{b.p:.2f}, {b.p_star:.2f}",
            f"{_largest(b.recovery)} / {_bound(b.recovery_bound)}",
            f"{max(b.entries, default=0)} / {_bound(b.entries_bound)}",
        )
        for b in result.bounds
    ]
    more = (
        *("stream", "theta", "share of stable time / 1 / (1 + r theta)", "false entries that switched"),
        *("smallest b of b exp(-beta / r)", "P(|S| > n/2)", "p, p*"),
        *("longest recovery / bound", "most reactive states before it / bound"),
    )
    first = html.wide_table(heads, competition, numbers=range(1, len(heads)))
    second = html.wide_table(more, states, numbers=range(1, len(more)))
    return f"{first}<h3>States and switches</h3>{second}"


def _median_and_most(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f}, {max(ratios):.2f}" if ratios else "none"


def _largest(times: Sequence[int | None]) -> str:
    late = sum(time is None for time in times)
    longest = max((time for time in times if time is not None), default=None)
    text = "none" if longest is None else f"{longest}"
    return text + (f" (not before the next drift: {late} of {len(times)})" if late else "")


def _bound(value: float) -> str:
    return "none" if math.isinf(value) else f"{value:.1f}"


# ---------------------------------------------------------------------------- hyperparameters


def tuning(result: Reproduction) -> str:
    """Return our choice and the paper's from the grid, and the rank of the paper's, as HTML."""
    rows = []
    for t in result.tunings:
        errors = [error for row in t.errors for error in row if not math.isnan(error)]
        better = sum(error < t.paper_error for error in errors)
        rows.append(
            (
                escape(full_title(t.dataset)),
                f"{t.l2:g}, {t.step_size:g}",
                f"{t.error:.4f}",
                f"{t.paper_l2:g}, {t.paper_step_size:g}",
                f"{t.paper_error:.4f}",
                f"{better + 1} of {sum(map(len, t.errors))}",
            )
        )
    heads = (
        "stream",
        "ours: mu, eta",
        "error",
        "the paper&rsquo;s: mu, eta",
        "error",
        "rank of the paper&rsquo;s choice",
    )
    return html.wide_table(heads, rows, numbers=range(1, 6))


# ---------------------------------------------------------------------------- beyond the paper


def cost(result: Reproduction, names: Iterable[str]) -> str:
    """Return regret, gradients, seconds and reactions of the algorithms of these tables, in all and by stream."""
    found = {(one.dataset, one.algorithm): one for name in names for one in accounts(result.measured, name)}
    algorithms = list(dict.fromkeys(algorithm for _, algorithm in found))
    rows = []
    for algorithm in algorithms:
        mine = [one for one in found.values() if one.algorithm == algorithm and one.dataset in STREAMS]
        known = [one for one in mine if one.false_reactions is not None]
        if mine:
            rows.append(
                (
                    escape(ALGORITHMS[algorithm].title),
                    f"{statistics.mean(one.error for one in mine):.3f}",
                    f"{statistics.mean(one.regret for one in mine):+.2f}",
                    f"{statistics.mean(one.gradients_per_row for one in mine):.1f}",
                    f"{sum(one.seconds for one in mine):.2f}",
                    f"{sum(one.reactions or 0.0 for one in known):g}" if known else "",
                    f"{sum(one.false_reactions or 0.0 for one in known):g}" if known else "",
                )
            )
    heads = (
        *("algorithm", "mean error", "mean regret to Aware", "gradients per row", "seconds, all streams"),
        *("reactions, all streams", "false reactions"),
    )
    reacting = {place: one for place, one in found.items() if one.reactions is not None}
    regret = _matrix(found, algorithms, lambda one: f"{one.regret:+.2f}", lambda one: shade(one.regret, unit=100.0))
    false = _matrix(reacting, [a for a in algorithms if any(a == b for _, b in reacting)], _reactions, lambda one: "")
    return (
        html.wide_table(heads, rows, numbers=range(1, len(heads)))
        + f"<details><summary>Regret to Aware by stream</summary>{regret}</details>"
        f"<details><summary>Reactions and false reactions by stream</summary>{false}</details>"
    )


def _reactions(one: Account) -> str:
    return f"{one.reactions:g}" + ("" if one.false_reactions is None else f", {one.false_reactions:g} false")


def _matrix(
    found: Mapping[tuple[str, str], Account],
    algorithms: Sequence[str],
    text: Callable[[Account], str],
    css: Callable[[Account], str],
) -> str:
    line = {}
    for dataset in dict.fromkeys(dataset for dataset, _ in found):
        row = [found.get((dataset, algorithm)) for algorithm in algorithms]
        tiles = "".join(
            "<td></td>" if one is None else f'<td class="number {css(one)}">{text(one)}</td>' for one in row
        )
        line[dataset] = f"<tr><td>{stream_name(dataset)}</td>{tiles}</tr>"
    heads = "".join(f'<th class="number">{escape(ALGORITHMS[name].title)}</th>' for name in algorithms)
    body = by_stream(line, line, len(algorithms) + 1)
    return f'<div class="wide"><table><tr><th>stream</th>{heads}</tr>{body}</table></div>'


def ranks(result: Reproduction) -> str:
    """Return average ranks with Friedman's test, plain and with ties by spread, as HTML."""
    rows = []
    for table, pair in rankings(result.cells).items():
        for found, how in zip(pair, ("plain ranks", "ties within the spread"), strict=True):
            order = ", ".join(
                f"{ALGORITHMS[name].title} {rank:.2f}"
                for name, rank in zip(found.algorithms, found.average_ranks, strict=True)
            )
            alike = "; ".join(", ".join(ALGORITHMS[name].title for name in group) for group in found.alike)
            rows.append(
                (
                    f"{escape(table)}, {how}",
                    escape(order),
                    f"{found.chi_square:.1f}",
                    f"{found.probability:.2g}" if found.probability >= 1e-4 else "below 0.0001",
                    f"{found.critical_difference:.2f}",
                    escape(alike or "none"),
                )
            )
    heads = "table", "average ranks", "chi-square", "p", "critical difference", "groups without a difference"
    return html.wide_table(heads, rows, numbers=(2, 3, 4))
