"""What the paper says that its experiments show: each claim with the criterion that decides it.

A claim about the tables has a rule over their numbers. A claim about curves, or about runs that no table holds, has its
rule in :mod:`driftsurf.reproduction.verdicts`, because it needs the measured runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from driftsurf.reproduction.published import COMPACT, STREAMS, TABLES
from driftsurf.reproduction.rules import (
    Lookup,
    Rule,
    RuleResult,
    Subject,
    all_of,
    columns,
    increasing,
    largest_gaps,
    lowest_error,
    on_each,
    on_most,
)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A testable sentence of the paper's evaluation.

    Examples
    --------
    >>> from driftsurf.reproduction.published import published
    >>> claim = CLAIMS["two-experts-better-on-four"]
    >>> claim.holds(published), [subject.stream for subject in claim.failures(published)]
    (False, ['mixed'])
    """

    id: str
    text: str
    """The sentence, in our words."""
    source: str
    """Where the paper says it."""
    criterion: str
    """What has to hold, in words."""
    rule: Rule | None = None
    """The criterion as a rule over the tables; None if it needs curves or runs that no table holds."""
    printed_failures: tuple[Subject, ...] = ()
    """Where the paper's own numbers contradict the claim."""

    def judgements(self, lookup: Lookup) -> list[RuleResult]:
        """Apply the rule to these numbers. The list is empty if the claim has no rule over the tables."""
        return [] if self.rule is None else self.rule(lookup)

    def failures(self, lookup: Lookup) -> tuple[Subject, ...]:
        """Return the subjects for which the rule fails on these numbers."""
        return tuple(judgement.subject for judgement in self.judgements(lookup) if not judgement.holds)

    def holds(self, lookup: Lookup) -> bool | None:
        """Whether the rule holds for every subject that these numbers can judge; None if they can judge none."""
        found = self.judgements(lookup)
        return all(judgement.holds for judgement in found) if found else None


def _all_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in STREAMS if name not in names)


_MAIN = "main text"
_EACH_MODEL = "appendix, equal power for each model"
_EACH_ALGORITHM = "appendix, equal power for each algorithm"
_SGD = "appendix, SGD as the update process"
_TOP = columns("equal-model", "driftsurf", "mddm-g", "aue")
_VARIANTS = columns("equal-model", "mddm-g", "mddm-a", "mddm-e")
_SIMILAR = 0.002
_NOISY_SEA = ("sea10", "sea20", "sea30")
_HYPER = ("hyper-slow", "hyper-fast")
_SHARP = ("sine1", "rcv1")
_CANDOR_AHEAD = ("sine1", "circles", "airline", "electricity", "powersupply")
_TWO_EXPERTS_AHEAD = (*_HYPER, "sine1", "electricity")
_DIVIDED = ("rho-4m", "rho-2m")

_CLAIMS = (
    Claim(
        id="recovers-in-one-reactive-state",
        text="On PowerSupply and CoverType DriftSurf recovers from a drift within one reactive state.",
        source=f"{_MAIN}, curves of PowerSupply and CoverType",
        criterion="drift at step 76, and at 30 and 60: in the 4 steps after the reactive state, mean error within 10 % "
        "of Aware's",
    ),
    Claim(
        id="competitive-with-aware",
        text="On PowerSupply and CoverType DriftSurf is competitive with Aware.",
        source=f"{_MAIN}, curves of PowerSupply and CoverType",
        criterion="equal-model: error at most 0.01 above Aware's",
        rule=on_each(
            ("powersupply", "covertype"),
            columns("equal-model", "driftsurf", "aware"),
            lambda surf, aware: round(surf - aware, 3) <= 0.01,
        ),
    ),
    Claim(
        id="adapts-faster-than-aue",
        text="DriftSurf adapts faster than AUE on CoverType.",
        source=f"{_MAIN}, curve of CoverType",
        criterion="mean error in the r = 4 steps after each drift (steps 30 and 60) below AUE's",
    ),
    Claim(
        id="stable-under-noise",
        text="20 % of noise in SEA costs MDDM more than DriftSurf.",
        source=f"{_MAIN}, compact table, first two rows",
        criterion="equal-model: not above MDDM-G on SEA0, below it on SEA20",
        rule=all_of(
            on_each(("sea0",), _TOP, lambda surf, mddm, aue: surf <= mddm),
            on_each(("sea20",), _TOP, lambda surf, mddm, aue: surf < mddm),
        ),
    ),
    Claim(
        id="best-on-most-streams",
        text="DriftSurf is the best on a majority of the streams of the compact table.",
        source=f"{_MAIN}, compact table",
        criterion="equal-model: at or below MDDM-G and AUE on more than half of the thirteen streams",
        rule=on_most(COMPACT.streams, _TOP, lambda surf, mddm, aue: surf <= min(mddm, aue), "DriftSurf best"),
    ),
    Claim(
        id="aue-ahead-with-five-times-the-steps",
        text="AUE is better than DriftSurf on some streams: Electricity and Hyper-slow.",
        source=f"{_MAIN}, compact table",
        criterion="equal-model: AUE below DriftSurf on both",
        rule=on_each(("electricity", "hyper-slow"), _TOP, lambda surf, mddm, aue: aue < surf),
    ),
    Claim(
        id="recovers-faster-when-divided",
        text="With equal power for each algorithm DriftSurf recovers faster than AUE on Airline.",
        source=f"{_MAIN}, curve of Airline",
        criterion="curves of rho-4m: mean error in the r = 4 steps after each drift (steps 31 and 67) below AUE's",
    ),
    Claim(
        id="no-adaptation-is-worse",
        text="Algorithms that do not adapt (1PASS-SGD and OBL) are generally worse; Electricity is an exception.",
        source=f"{_MAIN}, last paragraph",
        criterion="equal-model: 1PASS-SGD above DriftSurf on every stream, OBL on every stream but Electricity",
        rule=all_of(
            on_each(STREAMS, columns("equal-model", "driftsurf", "1pass-sgd"), increasing),
            on_each(_all_but("electricity"), columns("equal-model", "driftsurf", "oblivious"), increasing),
        ),
    ),
    Claim(
        id="oblivious-best-on-electricity",
        text="OBL, which ignores drift, is the best on Electricity.",
        source=f"{_MAIN}, last paragraph; appendix, 1PASS-SGD and oblivious",
        criterion="equal-model: lowest error of the row",
        rule=lowest_error("oblivious", "equal-model", ("electricity",)),
    ),
    Claim(
        id="oblivious-ahead-of-aware",
        text="Where an old model is still useful, a reset is a poor choice: OBL is better than Aware.",
        source=_EACH_MODEL,
        criterion="equal-model: OBL below Aware on SEA10 and Electricity",
        rule=on_each(("sea10", "electricity"), columns("equal-model", "oblivious", "aware"), increasing),
    ),
    Claim(
        id="widest-margin-over-mddm",
        text="The advantage over MDDM is most evident on noisy SEA, CoverType and PowerSupply.",
        source=_EACH_MODEL,
        criterion="equal-model: MDDM-G minus DriftSurf is larger on these five streams than on any other one",
        rule=largest_gaps(
            (*_NOISY_SEA, "covertype", "powersupply"), ("equal-model", "driftsurf"), ("equal-model", "mddm-g")
        ),
        printed_failures=(Subject("electricity"),),
    ),
    Claim(
        id="order-after-sharp-drifts",
        text="On SINE1 and RCV1 MDDM adapts fastest, DriftSurf follows shortly after, AUE is slow.",
        source=_EACH_MODEL,
        criterion="equal-model: MDDM-G below DriftSurf below AUE",
        rule=on_each(_SHARP, columns("equal-model", "mddm-g", "driftsurf", "aue"), increasing),
    ),
    Claim(
        id="old-model-first-on-airline",
        text="Right after Airline's two drifts DriftSurf is the best, then AUE, then MDDM and Aware.",
        source=_EACH_MODEL,
        criterion="curves: mean error in the r = 4 steps from each drift on (steps 31 and 67) in this order",
    ),
    Claim(
        id="aware-with-a-late-switch",
        text="It makes little difference if Aware predicts the first batch of a drift with the old model.",
        source=_EACH_MODEL,
        criterion="at most 0.011 below Aware on any stream, above it on SINE1 and RCV1, better than no further "
        "algorithm",
    ),
    Claim(
        id="continual-drift",
        text="AUE is the best on Hyper-slow, MDDM on Hyper-fast.",
        source=_EACH_MODEL,
        criterion="equal-model: lowest error of the row without Aware",
        rule=all_of(
            lowest_error("aue", "equal-model", ("hyper-slow",)),
            lowest_error("mddm-g", "equal-model", ("hyper-fast",)),
        ),
    ),
    Claim(
        id="best-on-gradual-drifts",
        text="DriftSurf is the best on the other streams with gradual drift, SEA-gradual and Circles.",
        source=_EACH_MODEL,
        criterion="equal-model: lowest error of the row without Aware",
        rule=lowest_error("driftsurf", "equal-model", ("sea-gradual", "circles")),
    ),
    Claim(
        id="mddm-variants-alike",
        text="The three variants of MDDM are similar; none is the best throughout.",
        source=_EACH_MODEL,
        criterion="equal-model: within 0.015 of each other on every stream; each is worse than another one somewhere",
        rule=all_of(
            on_each(STREAMS, _VARIANTS, lambda *errors: round(max(errors) - min(errors), 3) <= 0.015),
            on_most(STREAMS, _VARIANTS, lambda g, a, e: g > min(a, e), "MDDM-G not the best", share=0),
            on_most(STREAMS, _VARIANTS, lambda g, a, e: a > min(g, e), "MDDM-A not the best", share=0),
            on_most(STREAMS, _VARIANTS, lambda g, a, e: e > min(g, a), "MDDM-E not the best", share=0),
        ),
    ),
    Claim(
        id="detectors-on-covertype",
        text="On CoverType DDM finds the two drifts, while MDDM and EDDM signal again and again.",
        source=f"{_EACH_MODEL}, curves of other detectors",
        criterion="DDM signals at steps 30 and 60 (or the next) and nowhere else; the others at ten other steps or "
        "more",
    ),
    Claim(
        id="ahead-of-aue-when-divided",
        text="With equal power for each algorithm DriftSurf is better than AUE everywhere but on PowerSupply.",
        source=_EACH_ALGORITHM,
        criterion="rho-4m: below AUE on the other fourteen streams, above it on PowerSupply",
        rule=all_of(
            on_each(_all_but("powersupply"), columns("rho-4m", "driftsurf", "aue"), increasing),
            on_each(("powersupply",), columns("rho-4m", "aue", "driftsurf"), increasing),
        ),
    ),
    Claim(
        id="aue-loses-when-divided",
        text="AUE gets worse when its experts share the steps, except on Circles and PowerSupply.",
        source=_EACH_ALGORITHM,
        criterion="AUE's error higher in rho-4m than in equal-model on the other thirteen streams, not on these two",
        rule=all_of(
            on_each(
                _all_but("circles", "powersupply"), columns("equal-model", "aue") + columns("rho-4m", "aue"), increasing
            ),
            on_each(
                ("circles", "powersupply"),
                columns("equal-model", "aue") + columns("rho-4m", "aue"),
                lambda whole, shared: shared <= whole,
            ),
        ),
    ),
    Claim(
        id="ahead-of-mddm-on-the-same-streams",
        text="DriftSurf is better than MDDM on the same streams as with undivided steps.",
        source=_EACH_ALGORITHM,
        criterion="rho-4m and rho-2m: at or below MDDM-G wherever it is below it in equal-model",
        rule=all_of(
            *(
                on_each(
                    STREAMS,
                    columns("equal-model", "driftsurf", "mddm-g") + columns(table, "driftsurf", "mddm-g"),
                    lambda surf, mddm, shared, shared_mddm: surf >= mddm or shared <= shared_mddm,
                    table=table,
                )
                for table in _DIVIDED
            )
        ),
        printed_failures=(
            *(Subject(stream, "rho-4m") for stream in ("sea10", "circles", "powersupply")),
            Subject("electricity", "rho-2m"),
        ),
    ),
    Claim(
        id="mddm-gains-on-sharp-drifts",
        text="MDDM's lead on SINE1 and RCV1 grows when DriftSurf's models share the steps.",
        source=_EACH_ALGORITHM,
        criterion="DriftSurf minus MDDM-G larger in rho-4m and in rho-2m than in equal-model",
        rule=on_each(
            _SHARP,
            columns("equal-model", "driftsurf", "mddm-g")
            + columns("rho-4m", "driftsurf", "mddm-g")
            + columns("rho-2m", "driftsurf", "mddm-g"),
            lambda a, b, c, d, e, f: round(a - b, 3) < min(round(c - d, 3), round(e - f, 3)),
        ),
    ),
    Claim(
        id="mddm-on-hyperplane",
        text="MDDM is better on Hyperplane with rho = 4m; with 2m its lead on Hyper-slow is gone.",
        source=_EACH_ALGORITHM,
        criterion=f"rho-4m: MDDM-G below DriftSurf on both; rho-2m: within {_SIMILAR} of it on Hyper-slow",
        rule=all_of(
            on_each(_HYPER, columns("rho-4m", "mddm-g", "driftsurf"), increasing),
            on_each(
                ("hyper-slow",),
                columns("rho-2m", "mddm-g", "driftsurf"),
                lambda mddm, surf: abs(round(mddm - surf, 3)) <= _SIMILAR,
            ),
        ),
    ),
    Claim(
        id="two-experts-better-on-four",
        text="AUE with two experts is better than with ten on four streams: both Hyperplanes, SINE1, Electricity.",
        source=_EACH_ALGORITHM,
        criterion="rho-4m: AUE (k=2) below AUE on these four streams and on no other one",
        rule=all_of(
            on_each(_TWO_EXPERTS_AHEAD, columns("rho-4m", "aue-2", "aue"), increasing),
            on_each(_all_but(*_TWO_EXPERTS_AHEAD), columns("rho-4m", "aue-2", "aue"), lambda two, ten: two >= ten),
        ),
        printed_failures=(Subject("mixed"),),
    ),
    Claim(
        id="candor-adapts",
        text="Candor is strong on Mixed, PowerSupply and the Hyperplanes.",
        source=_EACH_ALGORITHM,
        criterion="rho-4m and rho-2m: lowest error of the row without Aware",
        rule=all_of(
            *(lowest_error("candor", table, ("mixed", "powersupply", *_HYPER), name_table=True) for table in _DIVIDED)
        ),
        printed_failures=tuple(Subject(stream, "rho-2m") for stream in ("powersupply", *_HYPER)),
    ),
    Claim(
        id="candor-ahead-of-aue",
        text="Candor improves on AUE on SINE1, Circles, Airline, Electricity and PowerSupply.",
        source=_EACH_ALGORITHM,
        criterion="rho-4m and rho-2m: below AUE",
        rule=all_of(
            *(on_each(_CANDOR_AHEAD, columns(table, "candor", "aue"), increasing, table=table) for table in _DIVIDED)
        ),
        printed_failures=(Subject("powersupply", "rho-2m"),),
    ),
    Claim(
        id="baselines-fail-on-rcv1",
        text="On RCV1 1PASS-SGD and especially OBL do badly after a drift.",
        source="appendix, 1PASS-SGD and oblivious",
        criterion="equal-model: AUE below 1PASS-SGD below OBL",
        rule=on_each(("rcv1",), columns("equal-model", "aue", "1pass-sgd", "oblivious"), increasing),
    ),
    Claim(
        id="greedy-similar-or-better",
        text="Greedy prediction (the better model predicts inside a reactive state) is similar to waiting for its end, "
        "or better.",
        source=f"{_MAIN}, last paragraph; appendix, greedy reactive state",
        criterion=f"greedy: at most {_SIMILAR} above no-greedy on every stream",
        rule=on_each(
            STREAMS,
            columns("greedy", "driftsurf", "no-greedy"),
            lambda surf, waiting: round(surf - waiting, 3) <= _SIMILAR,
        ),
    ),
    Claim(
        id="greedy-gains-most-on-sharp-drifts",
        text="Greedy prediction gains most on SINE1, RCV1 and Mixed.",
        source="appendix, greedy reactive state",
        criterion="greedy: no-greedy minus DriftSurf is larger on these three streams than on any other one",
        rule=largest_gaps((*_SHARP, "mixed"), ("greedy", "driftsurf"), ("greedy", "no-greedy")),
    ),
    Claim(
        id="sgd-is-worse",
        text="With SGD in place of STRSAGA every algorithm is less accurate.",
        source=f"{_MAIN}, last paragraph; {_SGD}",
        criterion="each of Aware, DriftSurf, MDDM-G and AUE: error higher in sgd than in equal-model on every stream",
        rule=all_of(
            *(
                on_each(STREAMS, columns("equal-model", name) + columns("sgd", name), increasing, algorithm=name)
                for name in TABLES["sgd"].algorithms
            )
        ),
        printed_failures=(
            Subject("circles", algorithm="aware"),
            Subject("circles", algorithm="aue"),
            Subject("electricity", algorithm="aue"),
        ),
    ),
    Claim(
        id="aue-ahead-under-sgd",
        text="With SGD AUE is better than MDDM and DriftSurf on the majority of streams.",
        source=f"{_MAIN}, last paragraph; {_SGD}",
        criterion="sgd: below both on more than half of the streams",
        rule=on_most(
            STREAMS,
            columns("sgd", "aue", "driftsurf", "mddm-g"),
            lambda aue, *others: aue < min(others),
            "AUE better than both",
        ),
        printed_failures=(Subject(count="AUE better than both"),),
    ),
    Claim(
        id="aue-behind-under-divided-sgd",
        text="With SGD and divided steps AUE's lead is gone.",
        source=_SGD,
        criterion="sgd-rho-2m: above DriftSurf and above MDDM-G on more than half of the streams",
        rule=all_of(
            *(
                on_most(STREAMS, columns("sgd-rho-2m", name, "aue"), increasing, f"AUE worse than {name}")
                for name in ("driftsurf", "mddm-g")
            )
        ),
    ),
    Claim(
        id="reactive-state-helps-under-sgd",
        text="With SGD too, the reactive state pays off against MDDM, which takes variance for drift.",
        source=_SGD,
        criterion="sgd: DriftSurf below MDDM-G on more than half of the streams",
        rule=on_most(STREAMS, columns("sgd", "driftsurf", "mddm-g"), increasing, "DriftSurf better"),
    ),
)

CLAIMS: Final = {claim.id: claim for claim in _CLAIMS}
"""The claims by id, in the order of the paper's text."""
