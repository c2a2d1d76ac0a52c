"""Which columns moved around a reaction: by themselves, and in what they say of the label."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from driftsurf.base import CSR, FloatArray, Rows, State
from driftsurf.errors import InputError
from driftsurf.evaluation.trace import csv_line
from driftsurf.runtime.session import Observation, Session

__all__ = ["ColumnMove", "ColumnMoves", "clocks_last", "read_moves"]

MOST_NUMBERS = 2**18
"""That are remembered (2 MB): where there are more columns than fit, the first ones are watched."""
MOST_CLASSES = 12
MOST_STEPS = 10
LISTED = 6
WATCHED = "entered", "reset", "replaced"


@dataclass(frozen=True, slots=True)
class ColumnMove:
    """How one column changed from the steps before a reaction to the steps from it on."""

    step: int
    """Of the reaction."""
    steps: int
    """How many were compared, on each side of it at most."""
    column: int
    name: str
    mean_before: float
    mean_after: float
    shift: float
    """The difference of the means over the standard deviation of all those rows: from -2 to 2."""
    label: str
    """The class of the correlation that changed most; '' where values are predicted, or one class alone was met."""
    tie_before: float
    """Correlation of the column with the label being this one, or with the value."""
    tie_after: float
    noise: float
    """What chance alone moves either by: sqrt(1 / rows before + 1 / rows after)."""

    @property
    def beyond_chance(self) -> bool:
        """Whether either change is larger than three times the noise."""
        return max(abs(self.shift), abs(self.turn)) > 3.0 * self.noise

    @property
    def turn(self) -> float:
        """Change of the correlation."""
        return self.tie_after - self.tie_before

    def describe(self) -> str:
        """In words, the larger change first.

        >>> ColumnMove(20, 4, 0, "x0", 0.5, 0.5, 0.01, "1", 0.62, -0.6, 0.05).describe()
        'x0: tie to 1 from +0.62 to -0.60; mean 0.5 to 0.5 (+0.01 sd)'
        """
        mean = f"mean {self.mean_before:.3g} to {self.mean_after:.3g} ({self.shift:+.2f} sd)"
        if not self.tie_before and not self.tie_after:
            return f"{self.name}: {mean}"
        tie = f"tie to {self.label or 'the value'} from {self.tie_before:+.2f} to {self.tie_after:+.2f}"
        return f"{self.name}: {'; '.join([tie, mean] if abs(self.turn) >= abs(self.shift) else [mean, tie])}"


def clocks_last(moves: Sequence[ColumnMove], of_run: Sequence[ColumnMove]) -> list[ColumnMove]:
    """The moves of a reaction, those of columns that only grow, or only fall, behind all others.

    Steady growth moves the mean by sqrt(3) standard deviations whenever one looks; a column that moved just so, in the
    same direction, around every reaction of the run, two at least, is taken for a clock or a counter.
    """
    shifts: dict[int, list[float]] = {}
    for move in of_run:
        shifts.setdefault(move.column, []).append(move.shift)
    steady = {
        column
        for column, found in shifts.items()
        if len(found) > 1 and any(all(abs(sign * shift - 3.0**0.5) < 0.1 for shift in found) for sign in (1, -1))
    }
    return sorted(moves, key=lambda move: move.column in steady)


class ColumnMoves:
    """Watches the columns of a run, and writes down what moved around each reaction.

    A concept can drift without any column moving: then what a column says of the label has changed.
    So for each step the sums of x, x^2 and x y of every column are taken. Of the steps before a
    reaction, as many as its reactive state has, one matrix each is remembered; those from it on are
    added up, and when they are as many, the columns that moved most are written, and those whose
    correlation with the label changed most. The work is O(new values), the memory bounded.

    Parameters
    ----------
    session
        The model whose reactions count, and which knows the columns.
    names
        Gives the names of the columns, where the model sees rows without them.
    """

    def __init__(self, session: Session, names: Callable[[], Sequence[str]] | None = None) -> None:
        self.session = session
        self.names = names
        self._centre: FloatArray | None = None
        """Of the columns of the first batch, and last of its values: sums of squares stay exact near it."""
        self._n_classes = 0
        self._recent: deque[FloatArray] = deque(maxlen=MOST_STEPS)
        self._before: FloatArray | None = None
        self._after: FloatArray | None = None
        self._open = -1, 0, 0
        """Step of the reaction that is being watched, how many steps are compared, and how many are missing yet."""

    def head(self) -> str:
        """The names of what is written."""
        return csv_line([field.name for field in fields(ColumnMove)])

    def lines(self, X: Any, seen: Mapping[str, Observation]) -> str:
        """Nothing, or the columns that moved around a reaction whose steps are complete now."""
        first = next(iter(seen.values()))
        sums = self._sums(self.session.read(X), first.true)
        self._begin(first)
        step, steps, missing = self._open
        text = ""
        if missing:
            assert self._before is not None
            self._after = sums if self._after is None else self._after + sums
            self._open = step, steps, missing - 1
            if missing == 1:
                text = self._written(self._before, self._after)
                self._before = self._after = None
        self._recent.append(sums)
        return text

    def _begin(self, seen: Observation) -> None:
        for decision in seen.decisions:
            reacted = any(transition.kind in WATCHED for transition in decision.transitions)
            if reacted and not self._open[2] and self._recent:
                steps = min(decision.reactive_length or 4, MOST_STEPS)
                self._open = decision.step, steps, steps
                self._before = np.sum(list(self._recent)[-steps:], axis=0)

    def _sums(self, rows: Rows, true: Any) -> FloatArray:
        """Summed over the batch. Rows: 1, each target, and x for x^2; columns: 1, then each x."""
        y = np.asarray(true, np.float64)
        if self._centre is None:
            self._first(rows, y)
        assert self._centre is not None
        width = len(self._centre) - 1
        targets = np.column_stack([np.ones(len(y)), *self._targets(y)])
        with np.errstate(over="ignore", invalid="ignore"):  # an absurd value makes its column say nothing
            if isinstance(rows, CSR):
                products, squares = _sparse_products(rows, targets, width)
            else:
                X = rows[:, :width] - self._centre[:-1]
                products, squares = targets.T @ X, np.einsum("ij,ij->j", X, X)
            return np.vstack([np.hstack([targets.sum(axis=0)[:, None], products]), np.append(len(y), squares)])

    def _first(self, rows: Rows, y: FloatArray) -> None:
        """Fix what is watched; sparse rows stay sparse, so they have no centre."""
        self._n_classes = self.session.targets.n_classes
        columns = rows.n_features if isinstance(rows, CSR) else rows.shape[1]
        width = min(columns, MOST_NUMBERS // ((3 + max(2, len(self._codes))) * (MOST_STEPS + 2)))
        middle = np.zeros(width)
        if not isinstance(rows, CSR):
            with np.errstate(over="ignore", invalid="ignore"):
                middle = np.asarray(rows[:, :width].mean(axis=0), np.float64)
            middle[~np.isfinite(middle)] = 0.0
        self._centre = np.append(middle, 0.0 if self._n_classes else y.mean())

    @property
    def _codes(self) -> range:
        """The classes that ties are taken to: one of two, else each of the first dozen; none where values are."""
        return range(1, 2) if self._n_classes == 2 else range(min(self._n_classes, MOST_CLASSES))

    def _targets(self, y: FloatArray) -> list[FloatArray]:
        if self._n_classes:
            return [np.asarray(y == code, np.float64) for code in self._codes]
        assert self._centre is not None
        y = y - self._centre[-1]
        return [y, y * y]

    def _written(self, before: FloatArray, after: FloatArray) -> str:
        assert self._centre is not None
        values = self._n_classes == 0
        mean_before, tie_before = _described(before, values)
        mean_after, tie_after = _described(after, values)
        spread = np.sqrt(_variance(before + after))
        shift = np.divide(mean_after - mean_before, spread, out=np.zeros_like(spread), where=spread > 0.0)
        turn = tie_after - tie_before
        most = np.argmax(np.abs(turn), axis=0)
        turned = np.abs(np.take_along_axis(turn, most[None], axis=0)[0])
        chosen = {*np.argsort(-np.abs(shift), kind="stable")[:LISTED], *np.argsort(-turned, kind="stable")[:LISTED]}
        names = self._names()
        noise = float(np.sqrt(1.0 / before[0, 0] + 1.0 / after[0, 0]))
        lines = []
        for column in sorted(chosen, key=lambda j: (-max(abs(shift[j]), turned[j]), j)):
            if shift[column] or turned[column]:
                label = "" if values else self._label(self._codes[most[column]])
                name = f"x{column}" if names is None else names[column]
                centre = self._centre[column]
                means = mean_before[column] + centre, mean_after[column] + centre
                ties = tie_before[most[column], column], tie_after[most[column], column]
                shown = (f"{value:.6g}" for value in (*means, shift[column]))
                rest = (f"{value:.6g}" for value in (*ties, noise))
                lines.append(csv_line([*self._open[:2], column, name, *shown, label, *rest]))
        return "".join(lines)

    def _label(self, code: int) -> str:
        """Of a class; '' of the second one as long as it has not been met: nothing is tied to it."""
        known = self.session.targets.labels
        return str(known[code]) if code < len(known) else ""

    def _names(self) -> Sequence[str] | None:
        if self.names is not None:
            return self.names()
        return None if self.session.schema is None else self.session.schema.names

    def state(self) -> State:
        """What is remembered."""
        nothing = np.zeros((0, 0, 0))
        kept = [part[None] for part in (self._before, self._after) if part is not None]
        return {
            "centre": np.zeros(0) if self._centre is None else self._centre,
            "n_classes": self._n_classes,
            "recent": np.array(self._recent) if self._recent else nothing,
            "open": np.array(self._open, np.int64),
            "kept": np.concatenate(kept) if kept else nothing,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state()`` gave."""
        self._centre = np.array(state["centre"]) if len(state["centre"]) else None
        self._n_classes = int(state["n_classes"])
        self._recent = deque(np.array(state["recent"]), maxlen=MOST_STEPS)
        step, steps, missing = (int(value) for value in state["open"])
        self._open = step, steps, missing
        kept = [np.array(part) for part in state["kept"]]
        self._before, self._after = kept if kept else (None, None)


def _variance(sums: FloatArray) -> FloatArray:
    count = sums[0, 0]
    mean, square = sums[0, 1:] / count, sums[-1, 1:] / count
    with np.errstate(over="ignore", invalid="ignore"):
        exact: FloatArray = square - mean * mean
        # What is left of a column that does not vary is the rounding of its squares.
        return np.where(np.isfinite(exact) & (exact > 1e-12 * square), exact, 0.0)


def _sparse_products(rows: CSR, targets: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Of each target with each column, and of each column with itself."""
    part = slice(int(rows.indptr[0]), int(rows.indptr[-1]))
    row = np.repeat(np.arange(len(targets)), np.diff(rows.indptr))
    column, value = rows.indices[part], np.asarray(rows.data[part], np.float64)
    if width < rows.n_features:
        kept = column < width
        row, column, value = row[kept], column[kept], value[kept]
    products = [np.bincount(column, value * target[row], width) for target in targets.T]
    squares = np.asarray(np.bincount(column, value * value, width), np.float64)
    return np.array(products, np.float64), squares


def _described(sums: FloatArray, values: bool) -> tuple[FloatArray, FloatArray]:
    """The means, and the correlation of each column with each target; 0 where either does not vary."""
    count = sums[0, 0]
    mean = sums[0, 1:] / count
    targets = sums[1:2] if values else sums[1:-1]
    level = targets[:, :1] / count
    varies = (sums[2:3, :1] / count if values else level) - level * level
    scale = np.sqrt(np.maximum(varies, 0.0) * _variance(sums))
    with np.errstate(over="ignore", invalid="ignore"):
        cross = targets[:, 1:] / count - level * mean
        tie = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 0.0)
    return mean, np.where(np.isfinite(tie), tie, 0.0)


def read_moves(text: str) -> list[ColumnMove]:
    """What was written, whole lines only; InputError if it is something else."""
    whole = text[: text.rfind("\n") + 1]
    kinds: dict[str, type] = {"step": int, "steps": int, "column": int, "name": str, "label": str}
    try:
        return [
            ColumnMove(**{key: kinds.get(key, float)(value) for key, value in line.items()})
            for line in csv.DictReader(io.StringIO(whole))
        ]
    except (TypeError, ValueError) as error:
        raise InputError(f"this is not what a run writes of its columns: {error}") from error
