"""Records of what a strategy saw and decided, complete enough to replay and to explain every decision, in words too."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from driftsurf.core.drifts import Drift, InputChange
from driftsurf.core.wording import agreeing, counted, optional, significant
from driftsurf.errors.visible import visible

__all__ = [
    "Decision",
    "ModelRecord",
    "Role",
    "StateName",
    "Transition",
    "TransitionKind",
]

StateName: TypeAlias = Literal["stable", "reactive"]
Role: TypeAlias = Literal["predictive", "reactive", "stable", "expert"]
TransitionKind: TypeAlias = Literal["entered", "switched", "kept", "greedy", "reset", "replaced", "recalled"]


class TransitionWords(NamedTuple):
    """The words for one kind of transition, the same in the journal, the terminal, explanations and pages."""

    phrase: str
    """What the strategy did, for tables, legends and sentences."""
    singular: str
    """One transition of this kind, for counts."""
    plural: str
    """Several of them."""


TRANSITION_WORDS: Final[Mapping[TransitionKind, TransitionWords]] = {
    "entered": TransitionWords("began to test a new model", "reaction", "reactions"),
    "switched": TransitionWords("switched to the new model", "switch to the new model", "switches to the new model"),
    "kept": TransitionWords("kept the old model", "new model rejected", "new models rejected"),
    "greedy": TransitionWords(
        "another model predicts", "change of the predicting model", "changes of the predicting model"
    ),
    "reset": TransitionWords("started a fresh model", "fresh start", "fresh starts"),
    "replaced": TransitionWords("promoted the newer model", "promotion", "promotions"),
    "recalled": TransitionWords("returned to an old model", "return to an old model", "returns to an old model"),
}
"""The words for every kind of transition."""
TOLD: Final[tuple[TransitionKind, ...]] = "reset", "replaced", "recalled"
"""Kinds of transitions whose reason is a text instead of compared risks."""
EASY = 0.01, 1e3
"""Range of risks for which two decimals are enough; those of classifiers are within it."""


# Not frozen: a frozen dataclass takes three times as long to create, and several records are created at every step.


@dataclass(slots=True)
class ModelRecord:
    """State of one model at one step. Risks that were not computed are None.

    Examples
    --------
    >>> record = ModelRecord("predictive", id=3, age=7, first_row=700, gradients=200)
    >>> record.first_row, record.risk_before
    (700, None)
    """

    role: Role
    """The role of the model: "predictive" predicts, "reactive" was made after a sign of drift and may take over,
    "stable" is an older one to compare with, "expert" is one of several that vote."""
    id: int
    """Number of the model: a strategy counts its models from 0."""
    age: int
    """Number of steps since it was created, without this one."""
    first_row: int
    """Number of the first row that it was, or will be, trained on."""
    risk_before: float | None = None
    """Risk on this batch before learning it."""
    risk_after: float | None = None
    """Risk on this batch after learning it."""
    risk_reactive: float | None = None
    """Risk over T, the batches of the reactive state, at its end; with ``significance`` also at each step before. The
    training judge measures it after learning them all; the prequential judge measures it on each batch before learning
    it, without the first one, which the reactive model could not have learned from."""
    best_risk: float | None = None
    """Smallest ``risk_before`` of this model so far; R_b in the paper. With ``significance``, the mean of the last."""
    gradients: int = 0
    """Number of gradients computed for this batch."""
    weight: float | None = None
    """Share of an expert in the vote on the next batch."""
    name: str = ""
    """Name of an expert of a portfolio, by which the journal tells it from the others; empty for other models."""


@dataclass(frozen=True, slots=True)
class Transition:
    """Change of the state or of the predicting model, with the numbers that decided it.

    ``left`` and ``right`` are the compared risks, and ``margin`` is the threshold that is added to ``right``; it is
    negative where the left one must be lower by more than nothing.

    Examples
    --------
    >>> print(Transition("reset", step=12, old=0, new=1, why="60% of the batch were wrong").describe())
    step 12: 60% of the batch were wrong: started a fresh model
    """

    kind: TransitionKind
    """Kind of change: "entered" the reactive state, and "switched" to the reactive model or "kept" the old one at its
    end; in between, "greedy" is a change of the model that predicts. "reset" is a fresh model, "replaced" a newer one
    that takes over, "recalled" an older one that returns."""
    step: int
    """Number of the time step."""
    condition: int = 0
    """Number of the paper's condition that was met, 1 or 2, for "entered"; else 0."""
    left: float | None = None
    right: float | None = None
    margin: float = 0.0
    over: int = 1
    """Number of batches over which the risks were measured; for "entered", those that a usual risk is the mean of."""
    old: int = 0
    """Identity of the model that predicted so far."""
    new: int = 0
    """Identity of the model that predicts from now on, or of the challenger."""
    why: str = ""
    """Reason of a "reset", "replaced" or "recalled"; for "kept", the class that the new model has not seen."""
    absent: int = -1
    """For "kept", the code of the class that the new model has not seen, if it was better; else -1."""
    expert: str = ""
    """Name of the expert of a portfolio that made it; empty for a transition of the whole model."""

    @property
    def phrase(self) -> str:
        """What the strategy did, such as "switched to the new model"."""
        if self.kind == "greedy":
            return f"the {'new' if self.new > self.old else 'old'} model predicts"
        return TRANSITION_WORDS[self.kind].phrase

    @property
    def reason(self) -> str:
        """Reason of the transition: the compared risks, or the signal of a detector, or an order.

        >>> Transition("switched", 28, left=0.41, right=0.52, over=4).reason
        'new model 0.41 < old 0.52 over 4 steps'
        >>> Transition("kept", 28, left=0.41, right=0.52, margin=-0.2, over=4).reason
        'new model 0.41 >= old 0.52 - 0.20 over 4 steps, a lead that may be noise'
        >>> Transition("kept", 28, left=0.41, right=0.52, over=4, absent=1, why="'occupied'").reason
        "class 'occupied' not yet seen by the new model"
        """
        if self.kind in TOLD:
            return self.why
        if self.absent >= 0:
            return f"class {self.why or self.absent} not yet seen by the new model"
        left, right, margin = self._shown()
        if self.kind == "entered":
            reference = "stable model" if self.condition == 2 else "best" if self.over == 1 else "usual"
            return f"risk {left} > {reference} {right} + {margin}"
        better = self.new > self.old if self.kind == "greedy" else self.kind == "switched"
        one = "on this batch" if self.kind == "greedy" else "on one step"
        over = one if self.over == 1 else f"over {counted(self.over, 'step')}"
        lead = f" - {margin.removeprefix('-')}" if self.margin else ""
        ahead = self.left is not None and self.right is not None and self.left < self.right
        noise = optional(self.kind == "kept" and self.over > 1 and ahead, ", a lead that may be noise")
        return f"new model {left} {'<' if better else '>='} old {right}{lead} {over}{noise}"

    def describe(self) -> str:
        """Describe the transition in one line: the step, the reason, and what was done.

        >>> Transition("entered", 25, 1, left=0.61, right=0.38, margin=0.1).describe()
        'step 25: risk 0.61 > best 0.38 + 0.10: began to test a new model'
        >>> Transition("entered", 25, 1, left=48_363_182_405.4, right=5_641_231_694.6, margin=3e9).describe()
        'step 25: risk 4.836e10 > best 5.641e9 + 3e9: began to test a new model'
        >>> Transition("switched", 28, left=0.41, right=0.52, over=4, expert="linear model").describe()
        'step 28: new model 0.41 < old 0.52 over 4 steps: switched to the new model (linear model)'
        """
        return self._described(self.phrase)

    def describe_in_journal(self) -> str:
        """Describe the transition in one line as journals have it, whose words are the same in all versions."""
        return self._described("entered the reactive state" if self.kind == "entered" else self.phrase)

    def _described(self, phrase: str) -> str:
        # Several experts may do the same at one step: without their names their lines could not be told apart.
        expert = f" ({plain_expert(self.expert)})" if self.expert else ""
        return visible(f"step {self.step}: {self.reason}: {phrase}{expert}")

    def named(self, labels: Sequence[Any]) -> Transition:
        """Return the transition with the name of a class that it is about, given the labels by code."""
        return self if self.absent < 0 else replace(self, why=repr(labels[self.absent]))

    def by_expert(self, name: str, old: int, new: int) -> Transition:
        """Return the transition as one of a portfolio, given its expert and the identities that models have there."""
        return replace(self, expert=name, old=old, new=new)

    def _shown(self) -> list[str]:
        """Return left, right and margin as text, with as many digits as it takes for the comparison to read true.

        Two decimals, or four digits if the numbers are large or small, are the fewest.
        """
        values = [self.left, self.right, self.margin]
        known = [value for value in values if value is not None and value == value]
        texts = list[str]()
        for form in _forms(max(map(abs, known))):
            texts = ["without evidence" if value is None or value != value else form(value) for value in values]
            if len(known) < 3 or _reads_true(known, [float(text.replace(",", "")) for text in texts]):
                break
        return texts


def _forms(largest: float) -> Iterator[Callable[[float], str]]:
    """Yield formats for numbers up to ``largest``, from short to exact."""
    if EASY[0] <= largest < EASY[1]:
        yield from (f"{{:.{decimals}f}}".format for decimals in range(2, 9))
    yield from (partial(significant, digits=digits) for digits in range(4, 18))


def _reads_true(values: Sequence[float], shown: Sequence[float]) -> bool:
    """Return whether left, right and margin, as shown, compare as they do exactly, and a margin is not shown as 0."""
    return _order(*values) == _order(*shown) and bool(values[2]) == bool(shown[2])


def _order(left: float, right: float, margin: float) -> int:
    return (left > right + margin) - (left < right + margin)


@dataclass(slots=True)
class Decision:
    """Record of what a strategy saw and decided at one time step, complete enough to replay and to explain it.

    A strategy of your own fills in the fields without a default, and ``transitions`` where it changed models. The
    others are those of DriftSurf and of portfolios.

    Examples
    --------
    >>> from driftsurf.core.decisions import ModelRecord, Transition
    >>> decision = Decision(
    ...     step=12,
    ...     first_row=1200,
    ...     rows=100,
    ...     state="stable",
    ...     predicted_by=0,
    ...     trained_from=0,
    ...     predicts_next=1,
    ...     models=(ModelRecord("predictive", id=1, age=0, first_row=1200, gradients=200),),
    ...     transitions=(Transition("reset", step=12, old=0, new=1, why="its period is over"),),
    ... )
    >>> decision.rows_seen, decision.gradients
    (1300, 200)
    """

    step: int
    """Number of the time step, from 0."""
    first_row: int
    """Number of the first row of the batch in the stream."""
    rows: int
    """Number of rows of the batch."""
    state: StateName
    """State in which the batch was learned, "stable" or "reactive"; that of a portfolio is reactive while an expert
    is, and a strategy without such a state is always stable."""
    predicted_by: int
    """Number of the model that predicted this batch; -1 if there was none."""
    trained_from: int
    """First row that the model which predicted this batch was trained on."""
    predicts_next: int
    """Number of the model that predicts the next batch; -1 if there is none."""
    models: tuple[ModelRecord, ...]
    """The models that took part in this step."""
    reactive_step: int = 0
    """Number of this batch within the reactive state, from 1 (i in the paper); 0 in the stable state."""
    condition: int = 0
    threshold: float | None = None
    stable_threshold: float | None = None
    risk_unit: float | None = None
    """Risk that a threshold of 1 stands for, if thresholds are shares of a risk; None if they are risks themselves."""
    reactive_length: int | None = None
    greedy: bool | None = None
    variant: str | None = None
    judge: str | None = None
    """Risks by which the models of a reactive state are compared: "training" or "prequential"."""
    greedy_credit: float | None = None
    """Gain of the greedy policy in earlier reactive states, from -1 to 1 units of the risk; it is applied unless
    this is negative. None if it is always applied."""
    significance: float | None = None
    """Standard errors by which the mean lead of the new model must exceed 0; None if noise is not considered."""
    lead_error: float | None = None
    """Standard error of the mean lead of the new model over T so far, with ``significance``; infinite if it cannot be
    measured yet."""
    absent: int | None = None
    """Code of the class for lack of which the new model of a reactive state is not used yet; None if it lacks none."""
    transitions: tuple[Transition, ...] = ()
    others: tuple[ModelRecord, ...] = ()
    """Models of the experts of a portfolio that are not the ones with which these predict next; ``models`` has those.
    A model has the name of its expert."""
    reacting: tuple[str, ...] = ()
    """Names of the experts of a portfolio that learned the batch in their reactive state. If an expert is a portfolio
    too, those inside it that did so are named: "outer > inner"."""
    turned: bool = False
    """Whether a portfolio was worse than guessing on this batch, and its weights went to the experts that predict next
    with a model which began with this batch."""
    drifts: tuple[Drift, ...] = ()
    """Drifts of the whole model that were detected, changed or ended with this step, each as it is after it."""
    changes: tuple[InputChange, ...] = ()
    """Moves of the inputs alone that were noticed with this step."""

    def named(self, labels: Sequence[Any]) -> Decision:
        """Return the decision with the names of classes instead of their codes, where transitions name them."""
        if not any(one.absent >= 0 for one in self.transitions):
            return self
        return replace(self, transitions=tuple(one.named(labels) for one in self.transitions))

    @property
    def gradients(self) -> int:
        """Number of gradients computed at this step by all models."""
        return sum(model.gradients for model in (*self.models, *self.others))

    @property
    def rows_seen(self) -> int:
        """Number of rows up to and including this step."""
        return self.first_row + self.rows

    @property
    def experts(self) -> list[str]:
        """Names of the experts of a portfolio; empty for the decision of another strategy."""
        names = [model.name for model in self.models]
        return names if all(names) else []

    def describe_state(self) -> str:
        """Describe the state in which the batch was learned.

        >>> Decision(5, 500, 100, "reactive", 0, 0, 0, ()).describe_state()
        'a new model is tested'
        >>> experts = tuple(ModelRecord("expert", k, 5, 0, name=name) for k, name in enumerate("abc"))
        >>> Decision(5, 500, 100, "reactive", 0, 0, 0, experts, reacting=("a", "c")).describe_state()
        '2 of 3 experts are testing a new model'
        """
        count = self.reacting_experts
        if not count:
            return "a new model is tested" if self.state == "reactive" else self.state
        return f"{count} of {len(self.models)} experts {agreeing(count, 'is', 'are')} testing a new model"

    @property
    def reacting_experts(self) -> int:
        """Number of experts of a portfolio that are reacting, or have an expert inside that is.

        >>> experts = tuple(ModelRecord("expert", k, 5, 0, name=name) for k, name in enumerate("abc"))
        >>> Decision(5, 500, 100, "reactive", 0, 0, 0, experts, reacting=("a > x", "a > y", "c")).reacting_experts
        2
        """
        return sum(any(f"{one} > ".startswith(f"{name} > ") for one in self.reacting) for name in self.experts)

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values for JSON, without its transitions; NaN becomes None."""
        record = {"type": "step", **_fields_of(self), "rows_seen": self.rows_seen}
        for each in ("models", "others"):
            record[each] = [_fields_of(model) for model in getattr(self, each)]
            for model in record[each]:
                if not model["name"]:
                    del model["name"]
        del record["transitions"], record["drifts"], record["changes"]
        for rare in ("others", "reacting", "turned"):
            if not record[rare]:
                del record[rare]
        for rare in ("risk_unit", "greedy_credit", "significance", "lead_error", "absent"):
            if record[rare] is None:
                del record[rare]
        return record

    def transition_dicts(self) -> Iterator[dict[str, Any]]:
        """Yield the transitions as plain values for JSON."""
        for transition in self.transitions:
            record = {"type": "transition", **_fields_of(transition), "text": transition.describe_in_journal()}
            if transition.absent < 0:
                del record["absent"]
            if not transition.expert:
                del record["expert"]
            yield record

    def drift_dicts(self) -> Iterator[dict[str, Any]]:
        """Yield the drifts and the moves of the inputs as plain values for JSON."""
        yield from (drift.record(self.step) for drift in self.drifts)
        yield from (change.record(self.step) for change in self.changes)


def _fields_of(record: Decision | ModelRecord | Transition) -> dict[str, Any]:
    """Return the fields as plain values; ``asdict`` would take as long as learning a hundred rows."""
    kind: Any = type(record)
    named = ((name, getattr(record, name)) for name in _field_names(kind))
    return {name: value if type(value) in PLAIN else _plain(value) for name, value in named}


PLAIN = frozenset({int, str, bool, type(None)})
"""Types of most values of a record, which are plain as they are."""


@cache
def _field_names(kind: type[Decision | ModelRecord | Transition]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def transition_noun(kind: TransitionKind, count: int) -> str:
    """Return the noun for ``count`` transitions of a kind.

    >>> transition_noun("switched", 2)
    'switches to the new model'
    """
    words = TRANSITION_WORDS[kind]
    return words.singular if count == 1 else words.plural


INSIDE: Final = " > "
"""Stands between the name of an expert that is a portfolio and that of an expert inside it."""
_EARLY = "linear, reacts early", "the linear model that reacts early"
_PROOF = "linear, reacts to proof", "the linear model that reacts to proof"
_NEVER = "linear, never replaced", "the linear model that is never replaced"
_WORDS: Final = {
    "DriftSurf(threshold=0.1)": _EARLY,
    "DriftSurf(threshold=0.25)": _PROOF,
    "DriftSurf(judge=training)": _EARLY,  # in a portfolio for regression, where both have the same threshold
    "DriftSurf(judge=prequential)": _PROOF,
    "SoftmaxRegression": _NEVER,
    "LogisticRegression": ("logistic, never replaced", "the logistic model that is never replaced"),
    "LinearRegression": _NEVER,
    "LazyBoostedTrees": ("trees", "the trees"),
    "LazyBoostedTrees(batches=4)": ("recent trees", "the recent trees"),
    "Perceptron": ("network", "the network"),
    "NaiveBayes": ("naive Bayes", "naive Bayes"),
    "NearestNeighbours": ("neighbours", "the nearest neighbours"),
}
"""Label and noun of an expert, by its name in the journal."""


def plain_expert(name: str) -> str:
    """Return the plain name of an expert, given its name in the journal; names of other experts stay.

    >>> plain_expert("DriftSurf(threshold=0.1)"), plain_expert("LazyBoostedTrees(batches=4)")
    ('linear, reacts early', 'recent trees')
    >>> plain_expert("Portfolio(SoftmaxRegression) > NaiveBayes #2"), plain_expert("AUE(LinearSVM)")
    ('Portfolio(SoftmaxRegression) > naive Bayes #2', 'AUE(LinearSVM)')
    """
    return INSIDE.join(_named(part, 0) for part in name.split(INSIDE))


def expert_noun(name: str) -> str:
    """Return an expert as part of a sentence.

    >>> expert_noun("LazyBoostedTrees"), expert_noun("DriftSurf(judge=training)"), expert_noun("AUE(LinearSVM)")
    ('the trees', 'the linear model that reacts early', 'AUE(LinearSVM)')
    """
    return INSIDE.join(_named(part, 1) for part in name.split(INSIDE))


def _named(name: str, form: int) -> str:
    base, number = re.fullmatch(r"(.*?)( #\d+)?", name, re.DOTALL).groups(default="")  # type: ignore[union-attr]
    return (_WORDS[base][form] if base in _WORDS else base) + number


def alike(transitions: Iterable[Transition]) -> list[list[Transition]]:
    """Group the transitions of one step by what was done: several experts of a portfolio may do the same."""
    groups = dict[str, list[Transition]]()
    for number, one in enumerate(transitions):
        groups.setdefault(one.phrase if one.expert else str(number), []).append(one)
    return list(groups.values())


def describe_alike(group: Sequence[Transition]) -> str:
    """Describe in one line what one or several experts did at a step.

    >>> two = [Transition("entered", 25, 1, left=0.6, right=0.4, margin=0.1, expert=name) for name in ("a", "b")]
    >>> describe_alike(two)
    'step 25: 2 experts began to test a new model: a (risk 0.60 > best 0.40 + 0.10), b (risk 0.60 > best 0.40 + 0.10)'
    """
    first = group[0]
    if len(group) == 1:
        return first.describe()
    done = phrase_of(group)
    return visible(
        f"step {first.step}: {done}: {', '.join(f'{plain_expert(one.expert)} ({one.reason})' for one in group)}"
    )


def phrase_of(group: Sequence[Transition]) -> str:
    """Return what one or several experts did, such as "2 experts began to test a new model"."""
    first = group[0]
    if len(group) == 1:
        return f"{first.phrase} ({plain_expert(first.expert)})" if first.expert else first.phrase
    done = f"predict with the {'new' if first.new > first.old else 'old'} model"
    return f"{len(group)} experts {done if first.kind == 'greedy' else first.phrase}"


def merge_reactions(steps: Iterable[tuple[str, Iterable[str]]]) -> Iterator[list[str]]:
    """Yield the kinds of the transitions of each step, given its state, as those of one model.

    The experts of a portfolio answer the same drift, together or one after the other: one reaction lasts as long as any
    of them is reactive, and a new model takes over in it, or is rejected, at most once.

    >>> both = ("reactive", ["entered", "entered"]), ("reactive", ["switched"]), ("reactive", ["switched"])
    >>> list(merge_reactions(both))
    [['entered'], ['switched'], []]
    """
    reactive, known = 0, set[str]()
    for state, kinds in steps:
        merged = list[str]()
        for kind in kinds:
            if kind == "entered":
                merged += [kind] * (reactive == 0)
                known = known if reactive else set()
                reactive += 1
            elif kind in ("switched", "kept"):
                merged += [kind] * (kind not in known or not reactive)
                known.add(kind)
                reactive = max(0, reactive - 1)
            else:
                merged.append(kind)
        if state == "stable":  # also after a reset, which ends a reactive state without a winner
            reactive = 0
        yield merged


def merged_kinds(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield the kinds of all transitions of decisions, as :func:`merge_reactions` counts them."""
    steps = ((made.state, [one.kind for one in made.transitions]) for made in decisions)
    for kinds in merge_reactions(steps):
        yield from kinds


class ReactionCounts(NamedTuple):
    """How often a model reacted to drift, counted the same way in tables, pages and lists of runs."""

    reactions: int
    """Reactive states that it entered; of a portfolio, those of experts that overlap are one."""
    switches: int
    """Models that took over from another one after they had proved better."""
    fresh_starts: int
    """Fresh models that replaced another one at once, on the signal of a detector or on an order."""


def count_reactions(kinds: Iterable[str]) -> ReactionCounts:
    """Count the reactions among transitions, given by their kinds.

    >>> count_reactions(["entered", "greedy", "switched", "reset", "replaced"])
    ReactionCounts(reactions=1, switches=2, fresh_starts=1)
    """
    found = Counter(kinds)
    return ReactionCounts(found["entered"], found["switched"] + found["replaced"], found["reset"])
