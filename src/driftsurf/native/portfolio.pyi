"""A time step of a portfolio: the scores of its experts are mixed, and weights, chain and experts learn."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from driftsurf.core.contracts import Batch, FloatArray, State
from driftsurf.core.decisions import Decision
from driftsurf.native.online import OnlineModel

FEW: int
MOST_CLASSES: int
REMEMBERED_ROWS: float
RECENT: float
LEAD: float
WHOLE: int

class Mixer:
    votes: bool
    unit: float
    parts: int
    def __init__(self, weights: FloatArray, precision: FloatArray, votes: bool = False, unit: float = 0.0) -> None: ...
    @staticmethod
    def of(experts: int, ridge: float, *, votes: bool) -> Mixer: ...
    @property
    def weights(self) -> FloatArray: ...
    @property
    def precision(self) -> FloatArray: ...
    @property
    def experts(self) -> int: ...
    @property
    def shares(self) -> list[float]: ...
    def widened(self, more: int) -> Mixer: ...
    def mixed_classes(self, G: FloatArray) -> FloatArray: ...
    def mixed_values(self, m: FloatArray) -> FloatArray: ...
    def after_classes(self, G: FloatArray, y: FloatArray, weight: FloatArray, keep: float, ridge: float) -> Mixer: ...
    def after_values(
        self, m: FloatArray, y: FloatArray, weight: FloatArray, keep: float, ridge: float, part: float = 1.0
    ) -> Mixer: ...
    def turned_to(self, places: Sequence[int], ridge: float) -> Mixer: ...
    def state(self) -> State: ...

class Chain:
    last: int
    lead: float
    def __init__(self, counts: FloatArray, rates: FloatArray, last: int = -1, lead: float = 0.0) -> None: ...
    @staticmethod
    def of(n_classes: int) -> Chain: ...
    @property
    def counts(self) -> FloatArray: ...
    @property
    def rates(self) -> FloatArray: ...
    def forecast(self, rows: int, n_classes: int) -> FloatArray | None: ...
    def after(self, y: FloatArray, weight: FloatArray, n_classes: int, keep: float) -> Self: ...
    def state(self) -> State: ...

class Last:
    value: float
    known: bool
    def __init__(self, value: float = 0.0, known: bool = False) -> None: ...
    def forecast(self, rows: int, n_classes: int) -> FloatArray | None: ...
    def after(self, y: FloatArray, weight: FloatArray, n_classes: int, keep: float) -> Self: ...
    def state(self) -> State: ...

class OnlineExpert:
    model: OnlineModel
    place: tuple[int, int, int]
    step: int
    next_row: int
    best: float
    def __init__(
        self, model: OnlineModel, place: tuple[int, int, int], step: int, next_row: int, best: float
    ) -> None: ...

class OnlineRecord:
    place: tuple[int, int, int]
    step: int
    rows_seen: int
    rows: int
    gradients: int
    risk: float
    best: float
    transitions: int
    switched: bool
    def decision(self) -> Decision: ...

class PortfolioState:
    mixer: Mixer
    blend: Mixer | None
    chain: Chain | Last | None
    trail: Any
    residuals: Any
    outcomes: tuple[Any, ...]
    online: tuple[OnlineExpert | None, ...]
    n_classes: int
    step: int
    next_row: int
    learned: int
    whole: int
    def __init__(
        self,
        mixer: Mixer,
        n_classes: int,
        *,
        step: int = 0,
        next_row: int = 0,
        learned: int = 0,
        whole: int = ...,
        chain: Chain | Last | None = None,
        trail: Any = None,
        blend: Mixer | None = None,
        residuals: Any = None,
        outcomes: Iterable[Any] = (),
        online: Iterable[OnlineExpert | None] = (),
    ) -> None: ...
    def replaced(self, **changes: Any) -> PortfolioState: ...

class Tested:
    mixture: FloatArray
    experts: FloatArray
    scores: list[FloatArray | None]
    n_classes: int

class JointRecord:
    outcomes: tuple[Any, ...]
    risks: list[float | None]
    before: list[float]
    after: list[float]
    step: int
    first_row: int
    rows: int
    turned: bool
    transitions: int
    rows_seen: int
    def decision(self) -> Decision: ...

def stacked_shares(scores: Sequence[Any], n_classes: int) -> FloatArray: ...
def mixed_by(live: PortfolioState, scores: list[Any], n_classes: int) -> Tested: ...
def expert_shares(mixer: Mixer, blend: Mixer | None, experts: int) -> list[float]: ...
def advance(
    live: PortfolioState,
    batch: Batch,
    tested: Tested,
    others: Callable[..., Any],
    ridge: float,
    half_life: float,
    readers: tuple[Callable[..., Decision], Callable[..., Decision]],
) -> tuple[PortfolioState, JointRecord]: ...
