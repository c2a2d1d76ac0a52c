"""Rules that decide a claim of the paper from the numbers of its tables.

A rule is a function from a lookup of errors to judgements, so the same rule judges the printed numbers
(:func:`~driftsurf.reproduction.published.published`) and measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from driftsurf.reproduction.published import STREAMS, TABLES, best

Lookup: TypeAlias = Callable[[str, str, str], float | None]
"""Return the error in three decimals of a table, a stream and an algorithm; None if there is none."""
Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Pairs of table and algorithm: the columns of errors that a rule compares on each stream."""


@dataclass(frozen=True)
class Subject:
    """What a rule judges: a stream, in some rules for one table or algorithm, or a count of streams."""

    stream: str = ""
    table: str = ""
    algorithm: str = ""
    count: str = ""
    """What is counted, in a rule about the number of streams."""

    def __str__(self) -> str:
        place = f" in {self.table}" if self.table else ""
        algorithm = f" with {self.algorithm}" if self.algorithm else ""
        return f"{self.count or self.stream}{place}{algorithm}"


@dataclass(frozen=True)
class RuleResult:
    """Whether a rule holds for one subject."""

    subject: Subject
    holds: bool
    detail: str = ""
    """The numbers behind it, as text for the reader."""


Rule: TypeAlias = Callable[[Lookup], list[RuleResult]]
"""Judge numbers. Subjects whose numbers are missing are left out."""


def columns(table: str, *algorithms: str) -> Columns:
    """Return the columns of these algorithms in one table."""
    return tuple((table, algorithm) for algorithm in algorithms)


def on_each(
    streams: Collection[str],
    compared: Columns,
    condition: Callable[..., bool],
    *,
    table: str = "",
    algorithm: str = "",
) -> Rule:
    """Require the condition on each stream; it is called with the errors of the stream in the compared columns.

    ``table`` and ``algorithm`` name the subject, where a claim has several rules for the same stream.
    """

    def judge(lookup: Lookup) -> list[RuleResult]:
        return [
            RuleResult(Subject(stream, table, algorithm), condition(*errors))
            for stream, errors in _known(lookup, streams, compared).items()
        ]

    return judge


def on_most(
    streams: Collection[str], compared: Columns, condition: Callable[..., bool], count: str, *, share: float = 0.5
) -> Rule:
    """Require the condition on more than this share of the streams; ``count`` says what is counted.

    If fewer than half of the streams have numbers, these say nothing about most of them: nothing is judged.
    """

    def judge(lookup: Lookup) -> list[RuleResult]:
        held = [condition(*errors) for errors in _known(lookup, streams, compared).values()]
        detail = f"{sum(held)} of {len(held)} streams"
        enough = 2 * len(held) >= len(streams)
        return [RuleResult(Subject(count=count), sum(held) > share * len(held), detail)] if enough else []

    return judge


def largest_gaps(named: Collection[str], lower: tuple[str, str], upper: tuple[str, str]) -> Rule:
    """Require the difference of two columns to be larger on the named streams than on any other one."""

    def judge(lookup: Lookup) -> list[RuleResult]:
        gaps = {stream: round(b - a, 3) for stream, (a, b) in _known(lookup, STREAMS, (lower, upper)).items()}
        least = min((gap for stream, gap in gaps.items() if stream in named), default=None)
        if least is None:
            return []
        return [RuleResult(Subject(stream), gap < least) for stream, gap in gaps.items() if stream not in named]

    return judge


def lowest_error(algorithm: str, table: str, streams: Collection[str], *, name_table: bool = False) -> Rule:
    """Require that the paper would print this algorithm bold: it has the lowest error of the row, Aware aside."""
    algorithms = TABLES[table].algorithms

    def is_best(*row: float) -> bool:
        return algorithm in best(dict(zip(algorithms, row, strict=True)))

    return on_each(streams, columns(table, *algorithms), is_best, table=table if name_table else "")


def all_of(*rules: Rule) -> Rule:
    """Require every rule; a subject that several rules judge has to pass them all."""

    def judge(lookup: Lookup) -> list[RuleResult]:
        found: dict[Subject, RuleResult] = {}
        for rule in rules:
            for judgement in rule(lookup):
                before = found.get(judgement.subject)
                if before is None or before.holds:
                    found[judgement.subject] = judgement
        return list(found.values())

    return judge


def increasing(*errors: float) -> bool:
    """Whether each error is above the one before it."""
    return all(before < after for before, after in pairwise(errors))


def _known(lookup: Lookup, streams: Iterable[str], compared: Columns) -> dict[str, list[float]]:
    """Return the errors of each stream that has them in all compared columns."""
    rows = {stream: [lookup(table, stream, algorithm) for table, algorithm in compared] for stream in streams}
    return {stream: [error for error in row if error is not None] for stream, row in rows.items() if None not in row}
