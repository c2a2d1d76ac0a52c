"""Tables of the results on real streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.verdict.judging import DETECTORS
from benchmarks.verdict.plan import REAL_KINDS
from benchmarks.verdict.report import Record, false_verdicts, found, names_column, rival, share, signalled, verdict_seen

__all__ = ["lines"]

RISEN = 0.05
"""Rise of the model's own error from which on a change is counted as one that should be found."""
VISIBLE = 0.02
"""Rise that a person sees in the error curve: of the highest mean of 200 rows over the mean of 1,000 rows before."""


def lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of the report on real streams."""
    yield (
        "All but `as-is` are shuffled first, so that they are steady until a change is injected near the middle. "
        "The rise is that of the model's own error: the model of the last row before the change, frozen; changes of "
        f"{RISEN} or more should be found."
    )
    yield "\n| injected | streams | false before | found | found, rise large enough | column first | among three |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for kind in REAL_KINDS[1:]:
        own = [one for one in records if one["kind"] == kind]
        if own:
            yield _injected(kind, own)
    yield f"\n| injected | verdict | {' | '.join(DETECTORS)} |\n|---|---:|{'---:|' * len(DETECTORS)}"
    for kind in REAL_KINDS[1:]:
        own = [one for one in records if one["kind"] == kind]
        if own:
            cells = [rival(own, [verdict_seen(one) for one in own])]
            cells += [rival(own, [signalled(one, name) for one in own]) for name in DETECTORS]
            yield f"| {kind} | {' | '.join(cells)} |"
    yield from _as_they_are([one for one in records if one["kind"] == "as-is"])


def _injected(kind: str, own: Sequence[Record]) -> str:
    changed = [one for one in own if one["change_rows"]]
    able = [one for one in changed if one.get("own_after", 0.0) - one.get("own_before", 0.0) >= RISEN]
    hits = [one for one in able if found(one) is not None]
    cause = ["", ""]
    if any(one["columns"] for one in own):
        cause = [share(sum(names_column(one, among) for one in hits), len(hits)) for among in (1, 3)]
    return (
        f"| {kind} | {len(own)} | {share(sum(bool(false_verdicts(one)) for one in own), len(own))} | "
        f"{sum(found(one) is not None for one in changed)} of {len(changed)} | {share(len(hits), len(able))} | "
        f"{cause[0]} | {cause[1]} |"
    )


def _as_they_are(records: Sequence[Record]) -> Iterator[str]:
    yield "\n### As they are: every verdict, with its rise in the error curve\n"
    yield (
        "What is in the curve is computed here from the errors of the rows: the mean of 1,000 rows before the "
        f"beginning, and the highest mean of 200 rows in the 2,000 after it; a rise below {VISIBLE} is marked with !."
    )
    yield "\n| stream | model, batch | row | detected | kind | before, peak, after | in the curve | columns, classes |"
    yield "|---|---|---:|---:|---|---:|---:|---|"
    for record in sorted(records, key=lambda one: (one["family"], one["batch"])):
        where = f"| {record['family']} | {record['model']}, {record['batch']} |"
        signals = ", ".join(f"{name} {len(record['signals'][name])}" for name in DETECTORS)
        yield f"{where} | | {len(record['drifts'])} verdicts | error {record['error']:.3f} | | {signals} |"
        for one in record["drifts"]:
            told = (one[f"error_{name}"] for name in ("before", "peak", "after"))
            errors = ", ".join("-" if error is None else f"{error:.3f}" for error in told)
            names = ", ".join((*one["columns"], *one["classes"]))
            mark = "" if one["curve_peak"] - one["curve_before"] >= VISIBLE else " !"
            yield (
                f"{where} {one['row']:,} | {one['seen']:,} | {one['kind']} | {errors} | "
                f"{one['curve_before']:.3f}, {one['curve_peak']:.3f}{mark} | {names} |"
            )
