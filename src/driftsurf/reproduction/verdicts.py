"""Verdicts on the paper's claims from measured numbers: the tables, and the curves for claims about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from driftsurf.comparison.models import ALGORITHMS
from driftsurf.core.wording import optional
from driftsurf.reproduction.cells import Measurements
from driftsurf.reproduction.claims import CLAIMS, Claim
from driftsurf.reproduction.published import REACTIVE_LENGTH, STREAMS, TABLES, published
from driftsurf.reproduction.rules import RuleResult, Subject
from driftsurf.reproduction.trials import timeline

MANY_STEPS = 10
"""A detector that signals at this many steps away from the drifts counts as signalling again and again."""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim with the judgements that decide whether it holds in our numbers, and in the printed ones."""

    claim: Claim
    judgements: tuple[RuleResult, ...]
    holds_in_print: bool | None
    """None if the printed tables cannot decide it."""
    not_judged: tuple[str, ...] = ()
    """Streams that the claim is about and that were not run."""

    @property
    def holds(self) -> bool | None:
        """Whether every judgement holds; None if there is none, because its data were not run."""
        return all(judgement.holds for judgement in self.judgements) if self.judgements else None

    @property
    def stand_in(self) -> bool:
        """Whether it was judged on data that stand in for the paper's."""
        return any(judgement.subject.stream not in ("", *STREAMS) for judgement in self.judgements)

    @property
    def evidence(self) -> str:
        """The judgements as one line of text: all of a claim that holds, else those that fail."""
        if not self.judgements:
            return "not run"
        numbers_only = all(judgement.detail for judgement in self.judgements)
        shown = [one for one in self.judgements if self.holds or numbers_only or not one.holds]
        plain = [str(one.subject) for one in shown if not one.detail]
        parts = [f"{'holds' if self.holds else 'fails'} on {', '.join(plain)}"] if plain else []
        parts += [f"{one.subject}: {one.detail}" for one in shown if one.detail]
        return "; ".join(parts) + (f"; not run: {', '.join(self.not_judged)}" if self.not_judged else "")


def judge(measured: Measurements) -> list[ClaimVerdict]:
    """Return a verdict on every claim, in the paper's order."""
    return [_verdict(claim, measured) for claim in CLAIMS.values()]


def _verdict(claim: Claim, measured: Measurements) -> ClaimVerdict:
    if claim.rule is None:
        rule = _CURVE_RULES[claim.id]
        return ClaimVerdict(claim, tuple(rule.judge(measured)), None, rule.not_run(measured))
    found = claim.judgements(measured.lookup)
    streams = dict.fromkeys(judgement.subject.stream for judgement in claim.judgements(published))
    known = {judgement.subject.stream for judgement in found}
    missing = tuple(name for name in streams if name and name not in known)
    return ClaimVerdict(claim, tuple(found), claim.holds(published), missing)


# ---------------------------------------------------------------------------- rules over the curves


@dataclass(frozen=True)
class _CurveRule:
    """A rule over measured runs, and the streams of the paper that it is about."""

    judge: Callable[[Measurements], list[RuleResult]]
    streams: tuple[str, ...]
    stand_ins: bool = True
    """Whether it judges stand-ins, too."""

    def not_run(self, measured: Measurements) -> tuple[str, ...]:
        """Return the streams that it has no data for."""
        if self.stand_ins:
            return tuple(name for name in self.streams if measured.dataset_for(name) is None)
        return tuple(name for name in self.streams if name not in measured.datasets)


def _recovers(measured: Measurements) -> list[RuleResult]:
    """After the reactive state that follows a drift, the mean error is within 10 % of Aware's."""
    found = []
    for name, steps in (("powersupply", (76,)), ("covertype", None)):
        dataset = measured.dataset_for(name)
        if dataset is None:
            continue
        ours, aware = (measured.curve("equal-model", dataset, who) for who in ("driftsurf", "aware"))
        if ours is None or aware is None:
            continue
        for step in steps or timeline(dataset).aware_steps:
            later = slice(step + REACTIVE_LENGTH, step + 2 * REACTIVE_LENGTH)
            mine, best = float(ours[later].mean()), float(aware[later].mean())
            detail = f"{mine:.3f} from step {later.start} on, Aware {best:.3f}"
            found.append(RuleResult(Subject(dataset), mine <= 1.1 * best, detail))
    return found


def _faster_than_aue(name: str, table: str) -> Callable[[Measurements], list[RuleResult]]:
    """The mean error in the r steps after each drift is below AUE's."""

    def rule(measured: Measurements) -> list[RuleResult]:
        return [
            RuleResult(after.subject, after.errors[0] < after.errors[1], f"{after}")
            for after in _after_drifts(measured, name, table, ("driftsurf", "aue"))
        ]

    return rule


def _old_model_first(measured: Measurements) -> list[RuleResult]:
    """Right after each drift DriftSurf has the lowest error, then AUE, then MDDM and Aware."""
    order = ("driftsurf", "aue", "mddm-g", "aware")
    return [
        RuleResult(after.subject, after.errors[0] <= after.errors[1] <= min(after.errors[2:]), f"{after}")
        for after in _after_drifts(measured, "airline", "equal-model", order, skip=0)
    ]


def _late_switch(measured: Measurements) -> list[RuleResult]:
    """The error is little below Aware's, above it after the sharpest drifts, and overtakes no other algorithm."""
    others = [name for name in TABLES["equal-model"].algorithms if name != "aware"]
    found = []
    for name in measured.datasets:
        early, late = (measured.lookup("aware-alternative", name, who) for who in ("aware", "aware-alternative"))
        if early is None or late is None or name not in STREAMS:
            continue
        rivals = [measured.lookup("equal-model", name, other) for other in others]
        passed = sum(late < rival <= early for rival in rivals if rival is not None)
        good = late >= early - 0.011 - 1e-9 and passed == 0 and (name not in ("sine1", "rcv1") or late > early)
        detail = f"{late - early:+.3f}" + optional(passed > 0, f", overtakes {passed}")
        found.append(RuleResult(Subject(name), good, detail))
    return found


def _detectors(measured: Measurements) -> list[RuleResult]:
    """DDM signals at the drifts alone; MDDM and EDDM signal again and again."""
    dataset = measured.dataset_for("covertype")
    if dataset is None or not measured.runs("detectors", dataset, "ddm"):
        return []
    drifts = timeline(dataset).aware_steps
    near = {step + late for step in drifts for late in (0, 1)}
    found = []
    for name in ("ddm", "mddm-g", "mddm-a", "mddm-e", "eddm"):
        signals = [set(run.steps_with("reset")) for run in measured.runs("detectors", dataset, name)]
        stray = float(np.median([len(steps - near) for steps in signals]))
        hits = float(np.median([len(steps & near) for steps in signals]))
        good = (stray == 0 and hits >= len(drifts)) if name == "ddm" else stray >= MANY_STEPS
        detail = f"signals at {hits:g} of {len(drifts)} drifts, and at {stray:g} other steps"
        found.append(RuleResult(Subject(dataset, algorithm=name), good, detail))
    return found


_CURVE_RULES = {
    "recovers-in-one-reactive-state": _CurveRule(_recovers, ("powersupply", "covertype")),
    "adapts-faster-than-aue": _CurveRule(_faster_than_aue("covertype", "equal-model"), ("covertype",)),
    "recovers-faster-when-divided": _CurveRule(_faster_than_aue("airline", "rho-4m"), ("airline",)),
    "old-model-first-on-airline": _CurveRule(_old_model_first, ("airline",)),
    "aware-with-a-late-switch": _CurveRule(_late_switch, tuple(STREAMS), stand_ins=False),
    "detectors-on-covertype": _CurveRule(_detectors, ("covertype",)),
}
"""The rules of the claims that no table decides, by the id of the claim."""


@dataclass(frozen=True)
class _ErrorsAfterDrift:
    """Mean errors of some algorithms in the r steps after a drift."""

    subject: Subject
    step: int
    errors: tuple[float, ...]
    algorithms: tuple[str, ...]

    def __str__(self) -> str:
        pairs = zip(self.algorithms, self.errors, strict=True)
        errors = ", ".join(f"{ALGORITHMS[name].title} {error:.3f}" for name, error in pairs)
        return f"{errors} after the drift at step {self.step}"


def _after_drifts(
    measured: Measurements, stream: str, table: str, algorithms: tuple[str, ...], skip: int = 1
) -> list[_ErrorsAfterDrift]:
    """Return the mean errors over the r steps that begin ``skip`` steps after each drift."""
    dataset = measured.dataset_for(stream)
    if dataset is None:
        return []
    curves = [measured.curve(table, dataset, algorithm) for algorithm in algorithms]
    known = [curve for curve in curves if curve is not None]
    if len(known) < len(algorithms):
        return []
    return [
        _ErrorsAfterDrift(
            Subject(dataset),
            step,
            tuple(float(curve[step + skip : step + skip + REACTIVE_LENGTH].mean()) for curve in known),
            algorithms,
        )
        for step in timeline(dataset).aware_steps
    ]
