"""The contracts that the parts of the package meet, and the small values that pass between them.

Data walks one way: a *batch* of rows enters the *sample store*, is known from then on by a
*segment* of row numbers, is learnt by *learners*, and a *strategy* decides which learner lives.
A mutation returns its own undo, so that a time step over several learners is all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
DenseRows: TypeAlias = npt.NDArray[np.floating[Any]]
Scalar: TypeAlias = bool | int | float | str
State: TypeAlias = dict[str, "Scalar | npt.NDArray[Any]"]
"""What is saved of an object: a flat dictionary of scalars, text and arrays, live entries only."""
Parts: TypeAlias = dict[str, Any]
"""A state in which the arrays that grow with the rows are ``Growing``."""
Undo: TypeAlias = Callable[[], None]
"""Takes back the one mutation that returned it; valid until the next mutation."""


@dataclass(frozen=True, slots=True)
class Growing:
    """An array of a state that a checkpoint saves by what is new in it.

    Its entries are numbered: new ones come at the end, old ones are let go at the start.
    """

    owner: object
    """Who holds the entries. The same owner means the same numbering."""
    first: int
    stop: int
    read: Callable[[int, int], npt.NDArray[Any]]
    """The entries from one number up to another."""
    version: int = 0
    """Counts the changes of entries."""
    changed: Callable[[int], IntArray | None] = lambda version: np.zeros(0, np.int64)
    """The numbers of the entries changed since a version, in any order; None if that is too long ago to tell."""
    ends: bool = False
    """The entries are lengths, and the array says where each ends, from 0 on."""

    def array(self) -> npt.NDArray[Any]:
        """All of it, as a state holds it."""
        return self.laid_out(self.read(self.first, self.stop))

    def laid_out(self, entries: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Entries as a state holds them."""
        return np.concatenate([np.zeros(1, entries.dtype), np.cumsum(entries)]) if self.ends else entries


class CSR(NamedTuple):
    """Sparse rows: row i has ``data[indptr[i]:indptr[i+1]]`` at those ``indices``."""

    data: npt.NDArray[np.floating[Any]]
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]
    n_features: int


Rows: TypeAlias = DenseRows | CSR


def n_rows(X: Rows) -> int:
    """Number of rows, dense or sparse."""
    return len(X.indptr) - 1 if isinstance(X, CSR) else int(X.shape[0])


def take_rows(X: Rows, start: int, stop: int) -> Rows:
    """Rows ``start`` to ``stop`` without copying their values."""
    if isinstance(X, CSR):
        return X._replace(indptr=X.indptr[start : stop + 1])
    return X[start:stop]


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows numbered ``lo`` to ``hi - 1`` of a stream.

    >>> len(Segment(10, 25))
    15
    """

    lo: int
    hi: int

    def __len__(self) -> int:
        return self.hi - self.lo


class Batch(NamedTuple):
    """Rows with their targets (class codes 0, 1, ... or values) and weights, as the store holds them."""

    X: Rows
    y: FloatArray
    weight: FloatArray
    first_row: int = 0


class SampleStore(Protocol):
    """What a learner sees of the sample store: rows by number, never copied."""

    def view(self, segment: Segment) -> Batch:
        """The rows of ``segment``."""
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a learner can do; strategies and faces refuse by these names."""

    tasks: frozenset[str] = frozenset({"binary"})
    sparse: bool = True
    weights: bool = True
    anchor: bool = False
    """Regularisation towards a given point instead of the origin (Candor)."""
    can_memorise: bool = False
    """It can fit its training rows perfectly, so a comparison on those rows says little."""
    exact_state: bool = True
    """``from_state(state())`` continues bit for bit."""
    grows_classes: bool = False
    grows_features: bool = False


class Learner(Protocol):
    """A base learner. An unfitted one is a template that a strategy never changes."""

    capabilities: ClassVar[Capabilities]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        ...

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """A new model made after this template, with every random draw fixed by ``seed``."""
        ...

    def budget(self, new: Segment) -> int:
        """The compute (rho, in gradients) that one model gets for these new rows."""
        ...

    def update(self, samples: SampleStore, new: Segment, steps: int) -> Undo:
        """Learn, spending ``steps`` gradients; all rows from the first one given to ``new.hi`` are its own."""
        ...

    def forget(self, samples: SampleStore, before_row: int) -> Undo:
        """Drop the rows before ``before_row`` from the training set, and their gradients from the average."""
        ...

    def scores(self, X: Rows) -> FloatArray:
        """Margins (n,), log-probabilities (n, K) or values (n,). Changes nothing."""
        ...

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """``scores`` of the model as it is now: what is learnt later does not show in it."""
        ...

    def losses(self, batch: Batch) -> FloatArray:
        """The loss of each row, without the penalty."""
        ...

    def penalty(self) -> float:
        """What regularisation adds to the mean loss."""
        ...

    def needs(self) -> int | None:
        """The oldest row number still needed, None before the first update."""
        ...

    def grow(self, *, n_classes: int | None = None, n_features: int | None = None) -> None:
        """Make room for more classes or columns, or raise CapabilityError."""
        ...

    @property
    def gradients(self) -> int:
        """Gradients computed since the model was made."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held beside the rows."""
        ...

    def state(self) -> State:
        """Everything that changes while learning."""
        ...

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """The model that gave ``state``."""
        ...


class Detector(Protocol):
    """Watches values row by row for a change. An unused one is a template that a strategy never changes.

    One polarity for all: the values are errors, 1 for a wrong prediction and 0 for a right one.
    """

    @property
    def drift(self) -> bool:
        """Whether the last update ended with a signal."""
        ...

    @property
    def warning(self) -> bool:
        """Whether a change is near, for detectors that have such a zone."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        ...

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        ...

    def fresh(self) -> Self:
        """A new detector with the same parameters."""
        ...

    def update(self, values: npt.ArrayLike) -> int:
        """Take values up to the first signal; returns how many, the signalling one included."""
        ...

    def reset(self) -> None:
        """Forget all values."""
        ...

    def state(self) -> State:
        """Everything that values change."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        ...

    @classmethod
    def from_state(cls, template: Self, state: Mapping[str, Any]) -> Self:
        """The detector that gave ``state``."""
        ...


StateName: TypeAlias = Literal["stable", "reactive"]
Role: TypeAlias = Literal["predictive", "reactive", "stable", "expert"]
TransitionKind: TypeAlias = Literal["entered", "switched", "kept", "greedy", "reset", "replaced"]


@dataclass(frozen=True, slots=True)
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
    """Over T, the batches of the reactive state, after learning them (at its end only)."""
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
        """The three numbers with two decimals, or as many more as it takes for the sentence to read true."""
        values = [self.left, self.right, self.margin]
        known = [value for value in values if value is not None and value == value]
        digits = 2
        if len(known) == 3:
            while digits < 9 and _order(*known) != _order(*(round(value, digits) for value in known)):
                digits += 1
        form = f".{digits}f" if digits < 9 and max(map(abs, known)) < 1e6 else ".17g"
        return [f"{value:{form}}" if value in known else "without evidence" for value in values]


def _order(left: float, right: float, margin: float) -> int:
    return (left > right + margin) - (left < right + margin)


@dataclass(frozen=True, slots=True)
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
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


class Strategy(Protocol):
    """How to live with drift: owns the sample store and its models, decides which model predicts."""

    learner: Learner
    dtype: str

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        ...

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Make the store and the first model."""
        ...

    def scores(self, X: Rows) -> FloatArray:
        """The scores of the model that predicts now. Changes nothing."""
        ...

    def test_scores(self, batch: Batch) -> FloatArray:
        """The scores by which a batch is judged before it is learnt: those of ``scores``, save for Candor."""
        ...

    def step(self, batch: Batch) -> Decision:
        """Learn one batch, all or nothing."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        ...

    def state(self) -> State:
        """Everything that changes while learning."""
        ...

    def parts(self) -> Parts:
        """The same, with what grows with the rows as ``Growing``."""
        ...

    def renew(self, why: str) -> Transition:
        """Begin anew with fresh models and none of the rows so far, because somebody asks for it."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave, in place of ``begin``."""
        ...
