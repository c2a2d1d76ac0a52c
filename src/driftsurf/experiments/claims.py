"""What the paper says its experiments show, sentence by sentence, each with a rule that decides it.

Rules over the tables are functions of a lookup, so the same rule judges the printed numbers
(:func:`~driftsurf.experiments.published.published`) and measured ones. Rules over curves are in words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

from driftsurf.experiments.published import COMPACT, STREAMS, TABLES, best

__all__ = ["CLAIMS", "Check", "Claim", "Lookup"]

Lookup: TypeAlias = Callable[[str, str, str], float | None]
"""From table, stream and algorithm to the error in three decimals; None where there is none."""

Check: TypeAlias = Callable[[Lookup], dict[str, bool]]
"""From numbers to what holds, by stream or count; what cannot be judged for want of numbers is left out."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A testable sentence of the evaluation.

    Examples
    --------
    >>> from driftsurf.experiments.published import published
    >>> claim = CLAIMS["two-experts-better-on-four"]
    >>> claim.holds(published), claim.failures(published)
    (False, ('mixed',))
    """

    id: str
    says: str
    """The sentence, in our words."""
    where: str
    """Where the paper says it."""
    rule: str
    """What has to hold."""
    check: Check | None = None
    """The rule over the tables; None where it takes the curves or runs that no table has."""
    printed_failures: tuple[str, ...] = ()
    """What the paper's own numbers do not bear out."""

    def failures(self, lookup: Lookup) -> tuple[str, ...]:
        """Where the rule fails on these numbers."""
        return tuple(what for what, good in self._judge(lookup).items() if not good)

    def judged(self, lookup: Lookup) -> tuple[str, ...]:
        """What it can be judged by on these numbers."""
        return tuple(self._judge(lookup))

    def holds(self, lookup: Lookup) -> bool | None:
        """Whether it holds wherever it can be judged; None if that is nowhere."""
        verdicts = self._judge(lookup)
        return all(verdicts.values()) if verdicts else None

    def _judge(self, lookup: Lookup) -> dict[str, bool]:
        return {} if self.check is None else self.check(lookup)


def _all_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in STREAMS if name not in names)


def _each(streams: Collection[str], columns: str, rule: Callable[..., bool], where: str = "") -> Check:
    """``rule`` for each stream, called with the stream's errors in the columns "table/algorithm table/algorithm"."""
    return lambda lookup: {stream + where: rule(*errors) for stream, errors in _known(lookup, streams, columns).items()}


def _often(streams: Collection[str], columns: str, rule: Callable[..., bool], what: str, above: float = 0.5) -> Check:
    """``rule`` for more than this share of the streams."""

    def check(lookup: Lookup) -> dict[str, bool]:
        verdicts = [rule(*errors) for errors in _known(lookup, streams, columns).values()]
        good = sum(verdicts)
        return {f"{what} on {good} of {len(verdicts)}": good > above * len(verdicts)} if verdicts else {}

    return check


def _widest(named: Collection[str], lower: str, upper: str) -> Check:
    """The column ``upper`` is above ``lower`` by more on the named streams than on any other one."""

    def check(lookup: Lookup) -> dict[str, bool]:
        gaps = {s: round(b - a, 3) for s, (a, b) in _known(lookup, STREAMS, f"{lower} {upper}").items()}
        least = min((gap for stream, gap in gaps.items() if stream in named), default=None)
        return {} if least is None else {s: gap < least for s, gap in gaps.items() if s not in named}

    return check


def _wins(algorithm: str, table: str, streams: Collection[str], where: str = "") -> Check:
    """``algorithm`` would be printed bold."""
    algorithms = TABLES[table].algorithms
    columns = " ".join(f"{table}/{name}" for name in algorithms)
    return _each(streams, columns, lambda *row: algorithm in best(dict(zip(algorithms, row, strict=True))), where)


def _all_of(*checks: Check) -> Check:
    """Everything that one of the checks says; what two of them judge has to hold in both."""

    def check(lookup: Lookup) -> dict[str, bool]:
        verdicts: dict[str, bool] = {}
        for part in checks:
            for what, good in part(lookup).items():
                verdicts[what] = verdicts.get(what, True) and good
        return verdicts

    return check


def _known(lookup: Lookup, streams: Collection[str], columns: str) -> dict[str, list[float]]:
    """The errors of each stream that has them all."""
    places = [column.split("/") for column in columns.split()]
    rows = {stream: [lookup(table, stream, algorithm) for table, algorithm in places] for stream in streams}
    return {stream: [e for e in row if e is not None] for stream, row in rows.items() if None not in row}


def _rising(*errors: float) -> bool:
    return all(before < after for before, after in pairwise(errors))


_MAIN = "main text"
_EACH_MODEL = "appendix, equal power for each model"
_EACH_ALGORITHM = "appendix, equal power for each algorithm"
_SGD = "appendix, SGD as the update process"
_TOP = "equal-model/driftsurf equal-model/mddm-g equal-model/aue"
_VARIANTS = "equal-model/mddm-g equal-model/mddm-a equal-model/mddm-e"
_SIMILAR = 0.002
_NOISY_SEA = ("sea10", "sea20", "sea30")
_HYPER = ("hyper-slow", "hyper-fast")
_SHARP = ("sine1", "rcv1")
_CANDOR_AHEAD = ("sine1", "circles", "airline", "electricity", "powersupply")
_TWO_EXPERTS_AHEAD = (*_HYPER, "sine1", "electricity")

_CLAIMS = (
    Claim(
        id="recovers-in-one-reactive-state",
        says="On PowerSupply and CoverType DriftSurf recovers from a drift within one reactive state.",
        where=f"{_MAIN}, curves of PowerSupply and CoverType",
        rule="drifts at 76, and at 30 and 60: over the 4 steps after the reactive state within 10 % of Aware's error",
    ),
    Claim(
        id="competitive-with-aware",
        says="On PowerSupply and CoverType DriftSurf is competitive with Aware.",
        where=f"{_MAIN}, curves of PowerSupply and CoverType",
        rule="equal-model: at most 0.01 above Aware",
        check=_each(
            ("powersupply", "covertype"),
            "equal-model/driftsurf equal-model/aware",
            lambda surf, aware: round(surf - aware, 3) <= 0.01,
        ),
    ),
    Claim(
        id="adapts-faster-than-aue",
        says="DriftSurf adapts faster than AUE on CoverType.",
        where=f"{_MAIN}, curve of CoverType",
        rule="mean error over the r = 4 steps after each of the steps 30 and 60 below AUE's",
    ),
    Claim(
        id="stable-under-noise",
        says="20 % of noise in SEA costs MDDM more than DriftSurf.",
        where=f"{_MAIN}, compact table, first two rows",
        rule="equal-model: not above MDDM-G on SEA0, below it on SEA20",
        check=_all_of(
            _each(("sea0",), _TOP, lambda surf, mddm, aue: surf <= mddm),
            _each(("sea20",), _TOP, lambda surf, mddm, aue: surf < mddm),
        ),
    ),
    Claim(
        id="best-on-most-streams",
        says="DriftSurf is the best on a majority of the streams of the compact table.",
        where=f"{_MAIN}, compact table",
        rule="equal-model: at or below MDDM-G and AUE on more than half of the thirteen streams",
        check=_often(COMPACT.streams, _TOP, lambda surf, mddm, aue: surf <= min(mddm, aue), "best"),
    ),
    Claim(
        id="aue-ahead-with-five-times-the-steps",
        says="AUE is ahead of DriftSurf on some streams, Electricity and Hyper-slow.",
        where=f"{_MAIN}, compact table",
        rule="equal-model: AUE below DriftSurf on both",
        check=_each(("electricity", "hyper-slow"), _TOP, lambda surf, mddm, aue: aue < surf),
    ),
    Claim(
        id="recovers-faster-when-divided",
        says="With equal power for each algorithm DriftSurf recovers faster than AUE on Airline.",
        where=f"{_MAIN}, curve of Airline",
        rule="curves of rho-4m: mean error over the r = 4 steps after each of the steps 31 and 67 below AUE's",
    ),
    Claim(
        id="no-adaptation-is-worse",
        says="Single-pass SGD and the oblivious algorithm are generally worse; Electricity is an exception.",
        where=f"{_MAIN}, last paragraph",
        rule="equal-model: 1PASS-SGD above DriftSurf on every stream, OBL on every stream but Electricity",
        check=_all_of(
            _each(STREAMS, "equal-model/driftsurf equal-model/1pass-sgd", _rising),
            _each(_all_but("electricity"), "equal-model/driftsurf equal-model/oblivious", _rising),
        ),
    ),
    Claim(
        id="oblivious-best-on-electricity",
        says="The oblivious algorithm is the best on Electricity.",
        where=f"{_MAIN}, last paragraph; appendix, 1PASS-SGD and oblivious",
        rule="equal-model: lowest error of the row",
        check=_wins("oblivious", "equal-model", ("electricity",)),
    ),
    Claim(
        id="oblivious-ahead-of-aware",
        says="Where an old model still serves, starting anew is a poor choice: oblivious is ahead of Aware.",
        where=_EACH_MODEL,
        rule="equal-model: OBL below Aware on SEA10 and Electricity",
        check=_each(("sea10", "electricity"), "equal-model/oblivious equal-model/aware", _rising),
    ),
    Claim(
        id="widest-margin-over-mddm",
        says="The advantage over MDDM is most evident on noisy SEA, CoverType and PowerSupply.",
        where=_EACH_MODEL,
        rule="equal-model: MDDM-G minus DriftSurf is larger on these five streams than on any other one",
        check=_widest((*_NOISY_SEA, "covertype", "powersupply"), "equal-model/driftsurf", "equal-model/mddm-g"),
        printed_failures=("electricity",),
    ),
    Claim(
        id="order-after-sharp-drifts",
        says="On SINE1 and RCV1 MDDM is the fastest to adapt, DriftSurf follows shortly, AUE lags behind.",
        where=_EACH_MODEL,
        rule="equal-model: MDDM-G below DriftSurf below AUE",
        check=_each(_SHARP, "equal-model/mddm-g equal-model/driftsurf equal-model/aue", _rising),
    ),
    Claim(
        id="old-model-first-on-airline",
        says="Right after Airline's two drifts DriftSurf is the best, then AUE, then MDDM and Aware.",
        where=_EACH_MODEL,
        rule="curves: mean error over the r = 4 steps from each of the steps 31 and 67 in this order",
    ),
    Claim(
        id="aware-with-a-late-switch",
        says="An Aware that lets the old model predict the first batch of a drift changes little.",
        where=_EACH_MODEL,
        rule="at most 0.011 below Aware on any stream, above it on SINE1 and RCV1, ahead of no further algorithm",
    ),
    Claim(
        id="continual-drift",
        says="AUE is the best on Hyper-slow, MDDM on Hyper-fast.",
        where=_EACH_MODEL,
        rule="equal-model: lowest error of the row, Aware left out",
        check=_all_of(
            _wins("aue", "equal-model", ("hyper-slow",)),
            _wins("mddm-g", "equal-model", ("hyper-fast",)),
        ),
    ),
    Claim(
        id="best-on-gradual-drifts",
        says="DriftSurf is the best on the other streams with gradual drift, SEA-gradual and Circles.",
        where=_EACH_MODEL,
        rule="equal-model: lowest error of the row, Aware left out",
        check=_wins("driftsurf", "equal-model", ("sea-gradual", "circles")),
    ),
    Claim(
        id="mddm-variants-alike",
        says="The three variants of MDDM are similar; none is ahead throughout.",
        where=_EACH_MODEL,
        rule="equal-model: within 0.015 of each other on every stream; each one behind another one somewhere",
        check=_all_of(
            _each(STREAMS, _VARIANTS, lambda *errors: round(max(errors) - min(errors), 3) <= 0.015),
            _often(STREAMS, _VARIANTS, lambda g, a, e: g > min(a, e), "MDDM-G behind", above=0),
            _often(STREAMS, _VARIANTS, lambda g, a, e: a > min(g, e), "MDDM-A behind", above=0),
            _often(STREAMS, _VARIANTS, lambda g, a, e: e > min(g, a), "MDDM-E behind", above=0),
        ),
    ),
    Claim(
        id="detectors-on-covertype",
        says="On CoverType DDM finds the two drifts, while MDDM and EDDM fire on and on.",
        where=f"{_EACH_MODEL}, curves of other detectors",
        rule="DDM signals at the steps 30 and 60 (or the next) and nowhere else; the others at ten other steps or more",
    ),
    Claim(
        id="ahead-of-aue-when-divided",
        says="With equal power for each algorithm DriftSurf is ahead of AUE everywhere but on PowerSupply.",
        where=_EACH_ALGORITHM,
        rule="rho-4m: below AUE on the other fourteen streams, above it on PowerSupply",
        check=_all_of(
            _each(_all_but("powersupply"), "rho-4m/driftsurf rho-4m/aue", _rising),
            _each(("powersupply",), "rho-4m/aue rho-4m/driftsurf", _rising),
        ),
    ),
    Claim(
        id="aue-loses-when-divided",
        says="AUE gets worse when its experts share the steps, but for Circles and PowerSupply.",
        where=_EACH_ALGORITHM,
        rule="AUE's error higher in rho-4m than in equal-model on the other thirteen streams, not on these two",
        check=_all_of(
            _each(_all_but("circles", "powersupply"), "equal-model/aue rho-4m/aue", _rising),
            _each(("circles", "powersupply"), "equal-model/aue rho-4m/aue", lambda whole, shared: shared <= whole),
        ),
    ),
    Claim(
        id="ahead-of-mddm-on-the-same-streams",
        says="DriftSurf is ahead of MDDM on the same streams as with undivided steps.",
        where=_EACH_ALGORITHM,
        rule="rho-4m and rho-2m: at or below MDDM-G wherever it is below it in equal-model",
        check=_all_of(
            *(
                _each(
                    STREAMS,
                    f"equal-model/driftsurf equal-model/mddm-g {table}/driftsurf {table}/mddm-g",
                    lambda surf, mddm, shared, shared_mddm: surf >= mddm or shared <= shared_mddm,
                    f" at {table}",
                )
                for table in ("rho-4m", "rho-2m")
            )
        ),
        printed_failures=("sea10 at rho-4m", "circles at rho-4m", "powersupply at rho-4m", "electricity at rho-2m"),
    ),
    Claim(
        id="mddm-gains-on-sharp-drifts",
        says="MDDM's lead on SINE1 and RCV1 grows when DriftSurf's models share the steps.",
        where=_EACH_ALGORITHM,
        rule="DriftSurf minus MDDM-G larger in rho-4m and in rho-2m than in equal-model",
        check=_each(
            _SHARP,
            "equal-model/driftsurf equal-model/mddm-g rho-4m/driftsurf rho-4m/mddm-g rho-2m/driftsurf rho-2m/mddm-g",
            lambda a, b, c, d, e, f: round(a - b, 3) < min(round(c - d, 3), round(e - f, 3)),
        ),
    ),
    Claim(
        id="mddm-on-hyperplane",
        says="MDDM is ahead on Hyperplane with rho = 4m; with 2m its lead on Hyper-slow is gone.",
        where=_EACH_ALGORITHM,
        rule=f"rho-4m: MDDM-G below DriftSurf on both; rho-2m: within {_SIMILAR} of it on Hyper-slow",
        check=_all_of(
            _each(_HYPER, "rho-4m/mddm-g rho-4m/driftsurf", _rising),
            _each(("hyper-slow",), "rho-2m/mddm-g rho-2m/driftsurf", lambda a, b: abs(round(a - b, 3)) <= _SIMILAR),
        ),
    ),
    Claim(
        id="two-experts-better-on-four",
        says="AUE with two experts is better than with ten on four streams: both Hyperplanes, SINE1, Electricity.",
        where=_EACH_ALGORITHM,
        rule="rho-4m: AUE (k=2) below AUE on these four streams and on no other one",
        check=_all_of(
            _each(_TWO_EXPERTS_AHEAD, "rho-4m/aue-2 rho-4m/aue", _rising),
            _each(_all_but(*_TWO_EXPERTS_AHEAD), "rho-4m/aue-2 rho-4m/aue", lambda two, ten: two >= ten),
        ),
        printed_failures=("mixed",),
    ),
    Claim(
        id="candor-adapts",
        says="Candor is strong on Mixed, PowerSupply and the Hyperplanes.",
        where=_EACH_ALGORITHM,
        rule="rho-4m and rho-2m: lowest error of the row, Aware left out",
        check=_all_of(
            *(_wins("candor", t, ("mixed", "powersupply", *_HYPER), f" at {t}") for t in ("rho-4m", "rho-2m"))
        ),
        printed_failures=("powersupply at rho-2m", "hyper-slow at rho-2m", "hyper-fast at rho-2m"),
    ),
    Claim(
        id="candor-ahead-of-aue",
        says="Candor improves on AUE on SINE1, Circles, Airline, Electricity and PowerSupply.",
        where=_EACH_ALGORITHM,
        rule="rho-4m and rho-2m: below AUE",
        check=_all_of(
            *(_each(_CANDOR_AHEAD, f"{t}/candor {t}/aue", _rising, f" at {t}") for t in ("rho-4m", "rho-2m"))
        ),
        printed_failures=("powersupply at rho-2m",),
    ),
    Claim(
        id="baselines-fail-on-rcv1",
        says="On RCV1 1PASS-SGD and especially the oblivious algorithm do badly after a drift.",
        where="appendix, 1PASS-SGD and oblivious",
        rule="equal-model: AUE below 1PASS-SGD below OBL",
        check=_each(("rcv1",), "equal-model/aue equal-model/1pass-sgd equal-model/oblivious", _rising),
    ),
    Claim(
        id="greedy-similar-or-better",
        says="Greedy prediction is similar to waiting for the end of the reactive state, or better.",
        where=f"{_MAIN}, last paragraph; appendix, greedy reactive state",
        rule=f"greedy: at most {_SIMILAR} above no-greedy on every stream",
        check=_each(STREAMS, "greedy/driftsurf greedy/no-greedy", lambda surf, late: round(surf - late, 3) <= _SIMILAR),
    ),
    Claim(
        id="greedy-gains-most-on-sharp-drifts",
        says="Greedy prediction gains most on SINE1, RCV1 and Mixed.",
        where="appendix, greedy reactive state",
        rule="greedy: no-greedy minus DriftSurf is larger on these three streams than on any other one",
        check=_widest((*_SHARP, "mixed"), "greedy/driftsurf", "greedy/no-greedy"),
    ),
    Claim(
        id="sgd-is-worse",
        says="With SGD in place of STRSAGA every algorithm is less accurate.",
        where=f"{_MAIN}, last paragraph; {_SGD}",
        rule="each of Aware, DriftSurf, MDDM-G and AUE: error higher in sgd than in equal-model on every stream",
        check=_all_of(
            *(
                _each(STREAMS, f"equal-model/{name} sgd/{name}", _rising, f" with {name}")
                for name in TABLES["sgd"].algorithms
            )
        ),
        printed_failures=("circles with aware", "circles with aue", "electricity with aue"),
    ),
    Claim(
        id="aue-ahead-under-sgd",
        says="With SGD AUE is ahead of MDDM and DriftSurf on the majority of streams.",
        where=f"{_MAIN}, last paragraph; {_SGD}",
        rule="sgd: below both on more than half of the streams",
        check=_often(
            STREAMS, "sgd/aue sgd/driftsurf sgd/mddm-g", lambda aue, *others: aue < min(others), "AUE ahead of both"
        ),
        printed_failures=("AUE ahead of both on 7 of 15",),
    ),
    Claim(
        id="aue-behind-under-divided-sgd",
        says="With SGD and divided steps AUE's lead is gone.",
        where=_SGD,
        rule="sgd-rho-2m: above DriftSurf and above MDDM-G on more than half of the streams",
        check=_all_of(
            *(
                _often(STREAMS, f"sgd-rho-2m/{name} sgd-rho-2m/aue", _rising, f"AUE behind {name}")
                for name in ("driftsurf", "mddm-g")
            )
        ),
    ),
    Claim(
        id="reactive-state-helps-under-sgd",
        says="With SGD too, the reactive state pays against MDDM, which takes variance for drift.",
        where=_SGD,
        rule="sgd: DriftSurf below MDDM-G on more than half of the streams",
        check=_often(STREAMS, "sgd/driftsurf sgd/mddm-g", _rising, "DriftSurf ahead"),
    ),
)

CLAIMS: Final = {claim.id: claim for claim in _CLAIMS}
"""The claims by id, in the order of the text."""
