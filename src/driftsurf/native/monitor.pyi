"""Loops of the detection of drifts."""

from collections.abc import Callable
from typing import Any

from driftsurf.core.contracts import DenseRows, FloatArray, IntArray

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
MARGINS: int
NUMBERS: int
LOSSES: int
LEAST_ROWS: int
LEAST_RARE: int
RUN_LENGTH: float
HALF_LIFE: float
LONGEST: float
RARE: float
NOT_RARE: float
ANCHOR_ROWS: int
CHECK_EVERY: int
WINDOW_EVERY: int
MOST_ROWS: int
ANCHOR_DUE: int
LOOK_DUE: int
CHECK_DUE: int
WEIGHING_DUE: int
WINDOW_DUE: int
ALTERNATIVES: tuple[float, ...]

def variance_of(mean: float, mode: int, v: FloatArray) -> float: ...
def centre_of(target: float, v: FloatArray) -> float: ...
def bet(mean: float, v: FloatArray, variance: float, place: int) -> tuple[float, float, float]: ...
def row_losses(scores: FloatArray, targets: FloatArray, v: FloatArray, losses: FloatArray, mode: int) -> None: ...
def scan_losses(
    scores: FloatArray,
    targets: FloatArray,
    v: FloatArray,
    mode: int,
    start: int,
    least: float,
    run_length: float,
    half_life: float,
) -> int: ...
def reference_of(usual: float, weight: float, mode: int, v: FloatArray) -> float: ...
def check_losses(scores: FloatArray, targets: FloatArray, v: FloatArray, mode: int) -> tuple[float, float, float]: ...
def bet_on_losses(
    losses: FloatArray,
    start: int,
    mode: int,
    v: FloatArray,
    contest: FloatArray,
    looks: bool,
    reference: float,
    spread: float,
    needed: float,
    before: float,
    risen: float,
    most: float,
) -> int: ...
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

class Follower:
    memory: Held
    start: int
    stop: int
    first_mark: int
    marks_stop: int
    anchor_at: int
    def __init__(self, mode: int, allocate: Callable[[int, int, Any, Any], Held]) -> None: ...
    @property
    def values(self) -> bytes: ...
    @property
    def waiting_rows(self) -> int: ...
    @property
    def waiting_mark(self) -> tuple[int, int, int, int]: ...
    def with_values(self, values: FloatArray, anchor_at: int) -> Follower: ...
    def with_anchor_at(self, row: int) -> Follower: ...
    @property
    def held_from(self) -> int: ...
    def after(
        self, step: int, first_row: int, X: DenseRows, y: FloatArray, scores: FloatArray, busy: bool
    ) -> tuple[Follower, int, int]: ...
    def extended(
        self,
        first_row: int,
        step: int,
        steps: int,
        X: DenseRows,
        y: FloatArray,
        scores: FloatArray,
        closed: bool,
    ) -> Follower: ...
    def block(self, which: int) -> tuple[int, int, int, int, int]: ...
    def between(self, lo: int, hi: int) -> tuple[int, int, int]: ...
    def means_of(self, a: int, b: int, out: FloatArray) -> None: ...
    def step_of(self, row: int) -> int: ...
