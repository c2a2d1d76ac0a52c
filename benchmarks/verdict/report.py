"""Tables of the results: per kind of change, family and batch size, with Wilson intervals, beside other detectors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.verdict.judging import DETECTORS
from benchmarks.verdict.plan import BATCHES
from benchmarks.verdict.streams import FIRST_JUDGED, KINDS, families_of

__all__ = [
    "Record",
    "delay",
    "false_verdicts",
    "found",
    "learned",
    "lines",
    "names_column",
    "rival",
    "share",
    "signalled",
    "verdict_seen",
    "wilson",
]

Record = Mapping[str, Any]
NEAR = 200
"""Rows by which the beginning of a drift may be wrong."""
LEARNED = 0.8
"""A model has learned the rule if its own error rises by this share of what that of the old rule does."""
HARMLESS = 0.02
"""Rise of the error of a model below which the inputs did no harm."""


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share.

    >>> [round(one, 3) for one in wilson(0, 1_000)]
    [0.0, 0.004]
    """
    if not total:
        return 0.0, 1.0
    share, extra = hits / total, z * z / total
    middle = (share + extra / 2.0) / (1.0 + extra)
    half = z * math.sqrt(share * (1.0 - share) / total + extra / (4.0 * total)) / (1.0 + extra)
    return max(0.0, middle - half), min(1.0, middle + half)


def share(hits: int, total: int) -> str:
    """Return a share in percent with its interval."""
    if not total:
        return "-"
    low, high = wilson(hits, total)
    return f"{100 * hits / total:.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {total}"


# ------------------------------------------------------------------------ one stream


def false_verdicts(record: Record) -> list[Any]:
    """Return the verdicts for which nothing had changed: all of a steady stream, or those before the change."""
    changes = record["change_rows"]
    return [one for one in record["drifts"] if not changes or one["seen"] <= changes[0]]


def found(record: Record, place: int = 0) -> Any:
    """Return the first verdict after a change and before the next one, or None."""
    changes = [*record["change_rows"], math.inf]
    return next((one for one in record["drifts"] if changes[place] < one["seen"] <= changes[place + 1]), None)


def delay(record: Record, *, own: bool = False) -> tuple[float, float] | None:
    """Return the delay of the verdict as a multiple of the rows that any test needs, also without what batches force.

    A test can speak only at the end of a batch: the second number leaves out the rows from the least possible delay to
    the end of its batch. ``own`` takes the errors of the model before the change, and of the same model, frozen, after
    it; otherwise those of the true rules count.
    """
    one, needed = found(record), record.get("own_needed" if own else "true_needed")
    if one is None or not needed:
        return None
    change, batch = record["change_rows"][0], record["batch"]
    rows = one["seen"] - change
    forced = math.ceil((change + needed) / batch) * batch - (change + needed)
    return rows / needed, max(0.0, rows - forced) / needed


def learned(record: Record) -> bool:
    """Return whether the model had learned the rule, so that a change of the rule raises its error."""
    own = record.get("own_after", math.nan) - record.get("own_before", math.nan)
    return bool(own >= LEARNED * record["true_rise"])


def names_column(record: Record, among: int) -> bool:
    """Return whether a column that changed is among the first ones that the verdict names."""
    one = found(record)
    return one is not None and bool(set(one["columns"][:among]) & set(record["columns"]))


def signalled(record: Record, detector: str) -> tuple[bool, float | None]:
    """Return whether a detector signalled without a change, and its delay in rows after the change."""
    signals, changes = record["signals"][detector], record["change_rows"]
    before = [row for row in signals if not changes or row <= changes[0]]
    after = [row for row in signals if changes and changes[0] < row <= [*changes, math.inf][1]]
    return bool(before), after[0] - changes[0] if after else None


def verdict_seen(record: Record) -> tuple[bool, float | None]:
    """Return the same of the verdicts on a model."""
    one = found(record) if record["change_rows"] else None
    return bool(false_verdicts(record)), None if one is None else one["seen"] - record["change_rows"][0]


# ------------------------------------------------------------------------ tables


def lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of the report on made streams."""
    good = [one for one in records if "failed" not in one]
    seeds = [one["seed"] for one in good]
    sources = ", ".join(sorted({one["source"] for one in good}))
    yield (
        f"{len(good):,} made streams, seeds {min(seeds)} to {max(seeds)}. Settings are chosen on seeds below "
        f"{FIRST_JUDGED}, and judged on those from {FIRST_JUDGED} on. Digest of the source: {sources}."
    )
    kinds = {kind: [one for one in good if one["kind"] == kind] for kind in KINDS}
    yield from _quiet({kind: kinds[kind] for kind in KINDS if KINDS[kind].expected in ("none", "harm")})
    yield from _loud({kind: kinds[kind] for kind in KINDS if KINDS[kind].expected in ("new rule", "classes")})
    yield from _causes(kinds)
    yield from _recurring(kinds["recurring"])
    yield from _rivals(kinds)
    for kind, own in kinds.items():
        if own:
            yield from _grid(kind, own)


def _quiet(kinds: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    yield "\n### Streams whose rule does not change\n"
    yield (
        "| kind | streams with any verdict | with a new rule | with harm | new rule, model stays right | inputs told |"
        " mean verdicts in 100,000 rows |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for kind, own in kinds.items():
        if not own:
            continue
        right = [one for one in own if one.get("own_after", 0.0) - one.get("own_before", 0.0) < HARMLESS]
        rows = sum(one["rows"] for one in own)
        yield (
            f"| {kind} | {share(sum(bool(one['drifts']) for one in own), len(own))} | "
            f"{share(sum(_has(one, 'new rule') for one in own), len(own))} | "
            f"{share(sum(_has(one, 'harm') for one in own), len(own))} | "
            f"{share(sum(_has(one, 'new rule') for one in right), len(right))} | "
            f"{sum(bool(one['inputs']) for one in own)} | {1e5 * sum(len(one['drifts']) for one in own) / rows:.2f} |"
        )


def _has(record: Record, kind: str) -> bool:
    return any(one["kind"] == kind for one in record["drifts"])


def _loud(kinds: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    yield "\n### Streams whose rule changes\n"
    yield (
        f"A model has learned the rule if its own error would rise by {LEARNED:.0%} of what that of the old rule does. "
        "The delay is a multiple of ln 100 / KL(error after, error before) of the model, and the same without what the "
        "end of the batch forces; medians."
    )
    yield ""
    yield (
        f"| kind | found | found where the rule was learned | beginning right to {NEAR} rows, of these | false before |"
        " kind told new rule | delay, rows | multiple | without batches |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for kind, own in kinds.items():
        if not own:
            continue
        able = [one for one in own if learned(one)]
        hits = [one for one in able if found(one) is not None]
        near = sum(abs(found(one)["row"] - one["change_rows"][0]) <= NEAR for one in hits)
        told = sum(found(one)["kind"] == "new rule" for one in hits)
        delays = [each for one in hits if (each := delay(one, own=True)) is not None]
        rows = [float(found(one)["seen"] - one["change_rows"][0]) for one in hits]
        shares = [
            (sum(found(one) is not None for one in own), len(own)),
            (len(hits), len(able)),
            (near, len(able)),
            (sum(bool(false_verdicts(one)) for one in own), len(own)),
            (told, len(hits)),
        ]
        middles = _middle(rows, 0), _middle([one for one, _ in delays]), _middle([one for _, one in delays])
        yield f"| {kind} | {' | '.join(share(*pair) for pair in shares)} | {' | '.join(middles)} |"


def _middle(values: Sequence[float], digits: int = 1) -> str:
    """Return the median and, in brackets, the quartiles."""
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if values else "-"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def _causes(kinds: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    one_column = [one for one in kinds["column"] if found(one) is not None]
    yield "\n### Causes\n"
    yield "| of the streams found | share |\n|---|---:|"
    for among, words in ((1, "first"), (3, "among three")):
        hits = sum(names_column(one, among) for one in one_column)
        yield f"| one column's relation changes: that column {words} | {share(hits, len(one_column))} |"
    for kind, word in (("class-comes", "new"), ("class-goes", "gone")):
        own = [one for one in kinds[kind] if found(one) is not None]
        hits = sum(f"{word}: {one['changed_class']}" in found(one)["classes"] for one in own)
        yield f"| {kind}: that class named | {share(hits, len(own))} |"
    harm = [one for one in kinds["noisier"] if found(one) is not None]
    yield f"| noisier: told as harm | {share(sum(found(one)['kind'] == 'harm' for one in harm), len(harm))} |"


def _recurring(records: Sequence[Record]) -> Iterator[str]:
    changes = [(one, place) for one in records for place in range(len(one["change_rows"]))]
    hits = sum(found(one, place) is not None for one, place in changes)
    verdicts = sum(len(one["drifts"]) for one in records)
    yield "\n### Recurring rules\n"
    yield f"Of all changes found: {share(hits, len(changes))}; {verdicts} verdicts on {len(changes)} changes."


def _rivals(kinds: Mapping[str, Sequence[Record]]) -> Iterator[str]:
    yield "\n### Beside detectors on the same errors\n"
    yield "Streams with a false signal; streams whose first change was found; median delay in rows."
    yield ""
    yield f"| kind | verdict | {' | '.join(DETECTORS)} |\n|---|---:|{'---:|' * len(DETECTORS)}"
    for kind, own in kinds.items():
        if not own:
            continue
        ours = [verdict_seen(one) for one in own]
        cells = [rival(own, ours)] + [rival(own, [signalled(one, name) for one in own]) for name in DETECTORS]
        yield f"| {kind} | {' | '.join(cells)} |"


def rival(records: Sequence[Record], seen: Sequence[tuple[bool, float | None]]) -> str:
    """Return the cell of one detector: false signals, changes found, median delay."""
    false, total = sum(one for one, _ in seen), len(records)
    text = f"false {100 * false / total:.1f} %"
    if not records[0]["change_rows"]:
        return text
    delays = [rows for _, rows in seen if rows is not None]
    return f"{text}, found {100 * len(delays) / total:.0f} %" + (
        f", {statistics.median(delays):,.0f}" if delays else ""
    )


def _grid(kind: str, records: Sequence[Record]) -> Iterator[str]:
    """Yield the streams with a verdict by family and batch size, and by model."""
    counted: Callable[[Record], bool]
    if KINDS[kind].expected == "none":
        title, counted = "streams with a verdict", lambda one: bool(one["drifts"])
    else:
        title, counted = "streams whose change was found", lambda one: found(one) is not None
    yield f"\n### {kind}: {title}, of how many\n"
    yield f"| family | {' | '.join(f'{batch:,} a step' for batch in BATCHES)} | all |"
    yield f"|---|{'---:|' * (len(BATCHES) + 1)}"
    for family in families_of(kind):
        own = [one for one in records if one["family"] == family]
        if not own:
            continue
        each = [[one for one in own if one["batch"] == batch] for batch in BATCHES]
        cells = [f"{sum(map(counted, part))} of {len(part)}" for part in each]
        yield f"| {family} | {' | '.join(cells)} | {share(sum(map(counted, own)), len(own))} |"
    for model in dict.fromkeys(one["model"] for one in records):
        own = [one for one in records if one["model"] == model]
        each = [[one for one in own if one["batch"] == batch] for batch in BATCHES]
        cells = [f"{sum(map(counted, part))} of {len(part)}" for part in each]
        yield f"| model: {model} | {' | '.join(cells)} | {share(sum(map(counted, own)), len(own))} |"
