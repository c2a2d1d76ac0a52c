"""Loops of the detection of drifts."""

from driftsurf.core.contracts import FloatArray, IntArray

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
