"""What a strategy saw and did, as values: enough to replay a decision and to explain it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

StateName: TypeAlias = Literal["stable", "reactive"]
Role: TypeAlias = Literal["predictive", "reactive", "stable", "expert"]
TransitionKind: TypeAlias = Literal["entered", "switched", "kept", "greedy", "reset", "replaced"]
EASY = 0.01, 1e3
"""Risks of classes, and others of which two decimals say enough, lie between."""


# Records are written once and read rarely; that they are frozen would take three times as long to make them.


@dataclass(slots=True)
class ModelRecord:
    """One model at one step. Risks that were not computed are None."""

    role: Role
    id: int
    age: int
    """Steps since it was made, this one not counted."""
    first_row: int
    """The first row it was, or will be, trained on."""
    risk_before: float | None = None
    """On this batch, before learning it."""
    risk_after: float | None = None
    """On this batch, after learning it."""
    risk_reactive: float | None = None
    """Over T, the batches of the reactive state (at its end only): after learning them all, or, by the prequential
    judge, each before learning it and without the first one, which the reactive model has not met before."""
    best_risk: float | None = None
    """R_b: the smallest ``risk_before`` of this model so far."""
    gradients: int = 0
    """Gradients spent on this batch."""
    weight: float | None = None
    """Of an expert: its share of the vote on the next batch."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of state or of the predicting model, with the numbers that decided it.

    ``left`` and ``right`` are the compared risks and ``margin`` the threshold added to ``right``.
    """

    kind: TransitionKind
    step: int
    condition: int = 0
    """1 or 2 for "entered": which condition of the paper fired."""
    left: float | None = None
    right: float | None = None
    margin: float = 0.0
    over: int = 1
    """How many batches the risks were taken over."""
    old: int = 0
    """Identity of the model that predicted so far."""
    new: int = 0
    """Identity of the model that predicts from now on, or of the challenger."""
    why: str = ""
    """What made a "reset" or a "replaced", in words."""

    def describe(self) -> str:
        """One line for a person.

        >>> Transition("entered", 25, 1, left=0.61, right=0.38, margin=0.1).describe()
        'step 25: risk 0.61 > best 0.38 + 0.10: reactive'
        >>> Transition("switched", 28, left=0.41, right=0.52, over=4).describe()
        'step 28: new model 0.41 < old 0.52 over 4 steps: switched'
        >>> Transition("entered", 25, 1, left=48_363_182_405.4, right=5_641_231_694.6, margin=3e9).describe()
        'step 25: risk 4.836e10 > best 5.641e9 + 3e9: reactive'
        """
        left, right, margin = self._shown()
        match self.kind:
            case "entered":
                against = "best" if self.condition == 1 else "stable model"
                text = f"risk {left} > {against} {right} + {margin}: reactive"
            case "switched":
                text = f"new model {left} < old {right} over {_steps(self.over)}: switched"
            case "kept":
                text = f"new model {left} >= old {right} over {_steps(self.over)}: kept the old model"
            case "greedy":
                sign, who = ("<", "new") if self.new > self.old else (">=", "old")
                text = f"new model {left} {sign} old {right} on this batch: the {who} model predicts"
            case "reset":
                text = f"{self.why}: fresh model"
            case "replaced":
                text = f"{self.why}: the newer model takes over"
        return f"step {self.step}: {text}"

    def _shown(self) -> list[str]:
        """The three numbers with two decimals, or four digits if they are large or small; more until it reads true."""
        values = [self.left, self.right, self.margin]
        known = [value for value in values if value is not None and value == value]
        texts = list[str]()
        for form in _forms(max(map(abs, known))):
            texts = ["without evidence" if value is None or value != value else form(value) for value in values]
            if len(known) < 3 or _order(*known) == _order(*map(float, texts)):
                break
        return texts


def _forms(largest: float) -> Iterator[Callable[[float], str]]:
    """Ways to write numbers of which this is the largest, from short to exact."""
    if EASY[0] <= largest < EASY[1]:
        yield from (f"{{:.{decimals}f}}".format for decimals in range(2, 9))
    yield from (partial(significant, digits=digits) for digits in range(4, 18))


def _order(left: float, right: float, margin: float) -> int:
    return (left > right + margin) - (left < right + margin)


@dataclass(slots=True)
class Decision:
    """What a strategy saw and did at one time step: enough to replay and to explain it."""

    step: int
    first_row: int
    rows: int
    state: StateName
    """The state in which the batch was learnt."""
    predicted_by: int
    trained_from: int
    """The first row that the model that predicted this batch was trained on."""
    predicts_next: int
    models: tuple[ModelRecord, ...]
    reactive_step: int = 0
    """i: which batch of the reactive state this is, from 1; 0 in the stable state."""
    condition: int = 0
    threshold: float | None = None
    stable_threshold: float | None = None
    reactive_length: int | None = None
    greedy: bool | None = None
    variant: str | None = None
    judge: str | None = None
    """"training" or "prequential": by which risks the models of a reactive state are compared."""
    transitions: tuple[Transition, ...] = ()

    @property
    def gradients(self) -> int:
        """Gradients spent at this step, over all models."""
        return sum(model.gradients for model in self.models)

    @property
    def rows_seen(self) -> int:
        """Rows that arrived up to and with this step."""
        return self.first_row + self.rows

    def to_dict(self) -> dict[str, Any]:
        """Plain values, NaN as None, ready for JSON."""
        record = {"type": "step", **asdict(self), "rows_seen": self.rows_seen}
        del record["transitions"]
        return {key: _plain(value) for key, value in record.items()}

    def transition_dicts(self) -> Iterator[dict[str, Any]]:
        """The transitions in the same form."""
        for transition in self.transitions:
            record = {"type": "transition", **asdict(transition), "text": transition.describe()}
            yield {key: _plain(value) for key, value in record.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def significant(value: float, digits: int = 4) -> str:
    """So many significant digits, no digit of a whole part left out below a million, and a short power beyond.

    >>> [significant(value) for value in (2.68149, 109_450.2, 48_363_182_405.4, 0.0039321, 2e-5, 0.0)]
    ['2.681', '109450', '4.836e10', '0.003932', '2e-5', '0']
    """
    size = abs(value)
    if size and math.isfinite(size) and not 1e-4 <= size < 1e6:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    return f"{value:.0f}" if size >= 10**digits - 0.5 else f"{value:.{digits}g}"
