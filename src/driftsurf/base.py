"""The contracts that the parts of the package meet, and the small values that pass between them.

Data walks one way: a *batch* of rows enters the *sample store*, is known from then on by a
*segment* of row numbers, is learnt by *learners*, and a *strategy* decides which learner lives.
A mutation returns its own undo, so that a time step over several learners is all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from driftsurf.decisions import Decision, Transition

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


@dataclass(frozen=True, slots=True)
class Pickled:
    """An object of another library in a state. It is written, and read again, only where pickle is trusted."""

    owner: str
    """Whose it is, for messages."""
    value: Any


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
    """Of "binary", "multiclass" and "regression"; the last one alone."""
    sparse: bool = True
    weights: bool = True
    anchor: bool = False
    """Regularisation towards a given point instead of the origin (Candor)."""
    can_memorise: bool = False
    """It can fit its training rows perfectly, so a comparison on those rows says little."""
    exact_state: bool = True
    """``from_state(state())`` continues bit for bit."""
    state_kind: Literal["arrays", "rows", "tensors", "pickle"] = "arrays"
    """What a state holds: all numbers of the model; which rows it was fitted on, to be fitted on them again; the
    tensors of a network that has to be given again; or an object that only pickle can save."""
    probabilities: bool = True
    """The scores of a classifier are log-odds or log-probabilities; else they only rank the classes."""
    grows_classes: bool = False
    grows_features: bool = False

    @property
    def values(self) -> bool:
        """Whether targets are values, not classes."""
        return "regression" in self.tasks

    @property
    def least_classes(self) -> int:
        """The ``n_classes`` of the smallest model: 0 for values."""
        return 0 if self.values else 2


class Learner(Protocol):
    """A base learner. An unfitted one is a template that a strategy never changes."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        ...

    def fresh(self, seed: int, n_features: int, n_classes: int) -> Self:
        """A new model made after this template, with every random draw fixed by ``seed``.

        ``n_classes`` is 0 where values are to be predicted. CapabilityError if it cannot.
        """
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
        """Margins (n,), log-probabilities (n, K) or values (n,). Changes nothing.

        A learner has one shape for all its tasks: K columns also where K is 2.
        """
        ...

    def scorer(self) -> Callable[[Rows], FloatArray]:
        """``scores`` of the model as it is now: what is learnt later does not show in it."""
        ...

    def losses(self, batch: Batch) -> FloatArray:
        """The loss of each row, without the penalty."""
        ...

    def row_losses(self, scores: FloatArray, y: FloatArray) -> FloatArray:
        """The same of rows whose scores are known."""
        ...

    def penalty(self) -> float:
        """What regularisation adds to the mean loss."""
        ...

    def needs(self) -> int | None:
        """The oldest row number still needed, None before the first update."""
        ...

    def grow(self, *, n_classes: int | None = None, n_features: int | None = None) -> Undo:
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


class Strategy(Protocol):
    """How to live with drift: owns the sample store and its models, decides which model predicts."""

    learner: Learner
    dtype: str

    def check(self) -> None:
        """Raise OptionError if an option cannot be used."""
        ...

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Make the store and the first model; ``n_classes`` is 0 for values."""
        ...

    def scores(self, X: Rows) -> FloatArray:
        """The scores of the model that predicts now. Changes nothing."""
        ...

    def test_scores(self, batch: Batch) -> FloatArray:
        """The scores by which a batch is judged before it is learnt: those of ``scores``, save for Candor."""
        ...

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch, all or nothing; codes beyond the known classes make the models grow.

        ``tested`` is what ``test_scores`` gave for this batch, if it was asked: it need not be computed again.
        """
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
