"""Loops of the detection of drifts."""

from collections.abc import Callable, Sequence
from typing import Any, Self

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray, Rows, Strategy

WEIGHT: int
MEAN: int
SCALE: int
BLOCK: int
BLOCK_SUM: int
SPREAD: int
SPREADS: int
ROW: int
SHIFT: int
LOW: int
HIGH: int
SQUARES: int
RANGE: int
CUSUM: int
SINCE: int
CLASS: int
RUN: int
NEAR: int
NEARS: int
SECOND: int
PART: int
CAPITALS: int
CONTEST: int
CONTESTS: int
BET_ROWS: int
BET_TOTAL: int
HIGHEST: int
PROVEN: int
LABELS: int
OTHERS: int
VALUES: int
JUDGED: int
LEAST_ROWS: int
LEAST_RARE: int
RUN_LENGTH: float
HALF_LIFE: float
RARE: float
NOT_RARE: float
CONTEST_ROWS: int
MOST_ROWS: int
BET_PART: int
LEAST_CHECKED: int
ALTERNATIVES: tuple[float, ...]

def judge_models(
    owner: IntArray,
    stops: IntArray,
    predicted: FloatArray,
    true: FloatArray,
    values: FloatArray,
    limits: FloatArray,
    numbers: bool,
    needed: float,
    least_rise: float,
) -> None: ...

class OtherKind(Exception): ...

class Held:
    X: DenseRows
    y: FloatArray
    scores: FloatArray
    marks: IntArray
    def __init__(self, X: DenseRows, y: FloatArray, scores: FloatArray, marks: IntArray) -> None: ...

def follower_of(
    kind: type[Any],
    options: tuple[Any, ...],
    entries: dict[str, Any],
    rows: tuple[Any, ...] | None,
    numbers: bytes,
    waiting: tuple[int, ...],
) -> Any: ...

class Follower:
    memory: Held
    start: int
    stop: int
    first_mark: int
    marks_stop: int
    regression: bool
    smallest_rise: float
    drift_risk: float
    rows: int
    contests: int
    drifting: bool
    peak: float
    back: Any
    drifts: Any
    changes: Any
    updates: Any
    contest: Any
    anchors: Any
    old: Any
    means: Any
    parts: Any
    def __init__(self, regression: bool = ..., smallest_rise: float = ..., drift_risk: float = ...) -> None: ...
    def __copy__(self) -> Self: ...
    @property
    def values(self) -> bytes: ...
    @property
    def usual(self) -> float: ...
    @property
    def span(self) -> float: ...
    @property
    def unit(self) -> float: ...
    @property
    def mean_square(self) -> float: ...
    @property
    def capitals(self) -> tuple[float, ...]: ...
    @property
    def old_rise(self) -> tuple[float, int, float, float]: ...
    def set_numbers(
        self,
        *,
        values: FloatArray | None = ...,
        capitals: Sequence[float] | None = ...,
        old_rise: Sequence[float] | None = ...,
    ) -> None: ...
    def add_to_contest(self, losses: float, rows: int) -> None: ...
    def start_over(self, weight: float, mean: float) -> None: ...
    def variance(self, mean: float) -> float: ...
    def centre(self, target: float) -> float: ...
    def bet(self, mean: float, variance: float, place: int) -> tuple[float, float, float]: ...
    def standard_error(self, mean: float, rows: float) -> float: ...
    def losses_into(self, scores: FloatArray, y: FloatArray, out: FloatArray) -> None: ...
    def scan_losses(self, losses: FloatArray, y: FloatArray, start: int = ...) -> int: ...
    def bet_on_losses(self, losses: FloatArray, looks: bool, needed: float, least: float) -> int: ...
    @property
    def waiting_rows(self) -> int: ...
    @property
    def waiting_mark(self) -> tuple[int, int, int, int]: ...
    @property
    def held_from(self) -> int: ...
    def forget_rows(self) -> None: ...
    def hold(
        self,
        first_row: int,
        step: int,
        steps: int,
        X: DenseRows,
        y: FloatArray,
        scores: FloatArray,
        closed: bool,
    ) -> None: ...
    def after(
        self,
        step: int,
        first_row: int,
        X: Rows,
        y: FloatArray,
        scores: FloatArray,
        scorer: Callable[[Rows], FloatArray] | None,
        columns: Callable[[], Sequence[str]],
        classes: Sequence[Any],
        strategy: Strategy,
    ) -> Self: ...
    def block(self, which: int) -> tuple[int, int, int, int, int]: ...
    def between(self, lo: int, hi: int) -> tuple[int, int, int]: ...
    def moments(self, a: int, b: int, out: FloatArray) -> None: ...
    def step_of(self, row: int) -> int: ...

def may_have_moved(before: FloatArray, window: FloatArray, shift: float) -> bool: ...
