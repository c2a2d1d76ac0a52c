"""The paper's claims judged on measured numbers: the tables, and the curves where a claim is about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from driftsurf.base import FloatArray
from driftsurf.experiments import plan
from driftsurf.experiments.claims import CLAIMS, Claim
from driftsurf.experiments.paper import REACTIVE_LENGTH
from driftsurf.experiments.published import STREAMS, TABLES, published
from driftsurf.experiments.results import Cell, outcomes_of
from driftsurf.experiments.timelines import timeline
from driftsurf.experiments.trials import Outcome, Trial
from driftsurf.streams.datasets import DATASETS

__all__ = ["Measured", "Verdict", "judge"]

MANY_STEPS = 10
"""A detector that signals at this many steps away from the drifts fires on and on."""


@dataclass(frozen=True)
class Verdict:
    """One claim: whether it holds in our numbers, whether it does in the printed ones, and the evidence."""

    claim: Claim
    holds: bool | None
    """None where the data to judge it are not at hand."""
    holds_in_print: bool | None
    """None where the printed tables cannot say."""
    evidence: str
    stand_in: bool = False
    """Judged on data that stand in for the paper's."""


@dataclass(frozen=True)
class Measured:
    """What was run, as the rules ask for it."""

    datasets: tuple[str, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    outcomes: dict[Trial, Outcome]

    def find(self, table: str, dataset: str, algorithm: str, variant: str = "algorithm-1") -> Cell | None:
        """One cell; None where it was not run."""
        place = table, dataset, algorithm, variant
        return next((c for c in self.cells if (c.table, c.dataset, c.algorithm, c.variant) == place), None)

    def lookup(self, table: str, stream: str, algorithm: str) -> float | None:
        """The measured error in three decimals; None where it was not run."""
        cell = self.find(table, stream, algorithm)
        return None if cell is None else cell.rounded

    def runs(self, table: str, dataset: str, algorithm: str) -> list[Outcome]:
        """The trials behind a cell; none if they were not run."""
        where = plan.TABLES[table]
        column = next(column for column in where.columns if column.name == algorithm)
        first = plan.trial(where, column, dataset, "algorithm-1", self.seeds[0])
        if first not in self.outcomes:
            return []
        return outcomes_of(where, column, dataset, "algorithm-1", self.outcomes, self.seeds)

    def curve(self, table: str, dataset: str, algorithm: str) -> FloatArray | None:
        """The error at each step, the median over the trials; None where it was not run."""
        runs = self.runs(table, dataset, algorithm)
        return np.median([run.error for run in runs], axis=0) if runs else None

    def at_hand(self, name: str) -> str | None:
        """The paper's stream of this name, or what stands in for it; None if neither was run."""
        stand_ins = [n for n, entry in DATASETS.items() if entry.stands_for == name]
        return next((n for n in (name, *stand_ins) if n in self.datasets), None)


Judgement: TypeAlias = tuple[bool | None, str]


def judge(measured: Measured) -> list[Verdict]:
    """A verdict on every claim, in the paper's order."""
    return [_verdict(claim, measured) for claim in CLAIMS.values()]


def _verdict(claim: Claim, measured: Measured) -> Verdict:
    if claim.check is not None:
        failures = claim.failures(measured.lookup)
        holds = claim.holds(measured.lookup)
        places = claim.judged(measured.lookup)
        evidence = f"holds on {', '.join(places)}" if holds else "fails: " + ", ".join(failures)
        unknown = [place for place in claim.judged(published) if place in STREAMS and place not in places]
        evidence += f"; not judged, for want of numbers: {', '.join(unknown)}" if unknown else ""
        return Verdict(claim, holds, claim.holds(published), "no numbers" if holds is None else evidence)
    holds, evidence = _BY_CURVES[claim.id](measured)
    return Verdict(claim, holds, None, evidence, any(name in evidence for name in _stand_ins(measured)))


# ---------------------------------------------------------------------------- rules over the curves


def _recovers(measured: Measured) -> Judgement:
    """After the reactive state that follows a drift, within 10 % of Aware's error."""
    parts: list[Judgement] = []
    absent: list[str] = []
    for name, steps in (("powersupply", (76,)), ("covertype", None)):
        place = measured.at_hand(name)
        if place is None:
            absent.append(name)
            continue
        ours, aware = (measured.curve("equal-model", place, who) for who in ("driftsurf", "aware"))
        if ours is None or aware is None:
            continue
        for step in steps or timeline(place).aware_steps:
            later = slice(step + REACTIVE_LENGTH, step + 2 * REACTIVE_LENGTH)
            mine, best = float(ours[later].mean()), float(aware[later].mean())
            parts.append((mine <= 1.1 * best, f"{place} from step {later.start}: {mine:.3f}, Aware {best:.3f}"))
    holds, evidence = _all(parts)
    return holds, evidence + f"; not judged: {', '.join(absent)}" * bool(parts and absent)


def _faster_than_aue(name: str, table: str) -> Callable[[Measured], Judgement]:
    """Mean error over the r steps after each drift below AUE's."""

    def check(measured: Measured) -> Judgement:
        means = _after_drifts(measured, name, table, ("driftsurf", "aue"))
        return _all((ours < aue, f"{where}: {ours:.3f} against {aue:.3f}") for where, (ours, aue) in means)

    return check


def _old_model_first(measured: Measured) -> Judgement:
    order = ("driftsurf", "aue", "mddm-g", "aware")
    means = _after_drifts(measured, "airline", "equal-model", order, skip=0)
    return _all((m[0] <= m[1] <= min(m[2:]), f"{where}: " + ", ".join(f"{e:.3f}" for e in m)) for where, m in means)


def _late_switch(measured: Measured) -> Judgement:
    """Little changes: not much below Aware, above it after the sharpest drifts, and ahead of nobody else."""
    others = [name for name in TABLES["equal-model"].algorithms if name != "aware"]
    parts: list[Judgement] = []
    for name in measured.datasets:
        early, late = (measured.lookup("aware-alternative", name, who) for who in ("aware", "aware-alternative"))
        if early is None or late is None or name not in STREAMS:
            continue
        rivals = [measured.lookup("equal-model", name, other) for other in others]
        passed = sum(late < rival <= early for rival in rivals if rival is not None)
        good = late >= early - 0.011 - 1e-9 and passed == 0 and (name not in ("sine1", "rcv1") or late > early)
        parts.append((good, f"{name} {late - early:+.3f}" + f", ahead of {passed} more" * (passed > 0)))
    return _all(parts)


def _detectors(measured: Measured) -> Judgement:
    """DDM signals at the drifts alone; MDDM and EDDM on and on."""
    place = measured.at_hand("covertype")
    if place is None or not measured.runs("detectors", place, "ddm"):
        return None, "not run"
    drifts = timeline(place).aware_steps
    near = {step + late for step in drifts for late in (0, 1)}
    parts: list[Judgement] = []
    for name in ("ddm", "mddm-g", "mddm-a", "mddm-e", "eddm"):
        signals = [
            {step for step, kinds in enumerate(run.transition) if "reset" in kinds}
            for run in measured.runs("detectors", place, name)
        ]
        stray = float(np.median([len(steps - near) for steps in signals]))
        found = float(np.median([len(steps & near) for steps in signals]))
        good = (stray == 0 and found >= len(drifts)) if name == "ddm" else stray >= MANY_STEPS
        parts.append((good, f"{place}, {name}: {found:g} at the drifts, {stray:g} elsewhere"))
    return _all(parts)


_BY_CURVES: dict[str, Callable[[Measured], Judgement]] = {
    "recovers-in-one-reactive-state": _recovers,
    "adapts-faster-than-aue": _faster_than_aue("covertype", "equal-model"),
    "recovers-faster-when-divided": _faster_than_aue("airline", "rho-4m"),
    "old-model-first-on-airline": _old_model_first,
    "aware-with-a-late-switch": _late_switch,
    "detectors-on-covertype": _detectors,
}


def _after_drifts(
    measured: Measured, name: str, table: str, algorithms: tuple[str, ...], skip: int = 1
) -> list[tuple[str, list[float]]]:
    """The mean error of each algorithm over the r steps from ``skip`` steps after each drift on."""
    place = measured.at_hand(name)
    if place is None:
        return []
    curves = [measured.curve(table, place, algorithm) for algorithm in algorithms]
    known = [curve for curve in curves if curve is not None]
    if len(known) < len(algorithms):
        return []
    return [
        (f"{place} from step {step}", [float(c[step + skip : step + skip + REACTIVE_LENGTH].mean()) for c in known])
        for step in timeline(place).aware_steps
    ]


def _all(parts: Iterable[Judgement]) -> Judgement:
    parts = list(parts)
    if not parts:
        return None, "not run"
    return all(good for good, _ in parts), "; ".join(text for _, text in parts)


def _stand_ins(measured: Measured) -> list[str]:
    return [name for name in measured.datasets if name not in STREAMS]
