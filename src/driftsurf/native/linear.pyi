"""Linear models: gradient steps, losses, sums in a fixed order, and random draws."""

from driftsurf.core.contracts import FloatArray, IntArray, Rows

SOFTMAX: int
SQUARED: int
HUBER: int
SQUARED_HINGE: int

Model = tuple[FloatArray, FloatArray, FloatArray]
Frame = tuple[FloatArray, FloatArray, IntArray]
Loss = tuple[int, float, float, float]
Side = tuple[Rows, FloatArray, FloatArray, IntArray, Model, int, float, Frame]

def saga(
    X: Rows,
    y: FloatArray,
    weight: FloatArray,
    order: IntArray,
    model: Model,
    drawn: int,
    eta: float,
    mu: float,
    frame: Frame,
    offset: FloatArray | None,
) -> int: ...
def saga_both(one: Side, two: Side, mu: float) -> tuple[int, int]: ...
def sgd(
    X: Rows,
    y: FloatArray,
    weight: FloatArray,
    order: IntArray,
    w: FloatArray,
    eta: float,
    mu: float,
    frame: Frame,
    offset: FloatArray | None,
) -> None: ...
def discharge(X: Rows, table: FloatArray, G: FloatArray, frame: Frame) -> int: ...
def multi_saga(
    X: Rows,
    y: FloatArray,
    weight: FloatArray,
    order: IntArray,
    model: Model,
    drawn: int,
    eta: float,
    mu: float,
    frame: Frame,
    loss: Loss,
    K: int,
) -> int: ...
def multi_sgd(
    X: Rows,
    y: FloatArray,
    weight: FloatArray,
    order: IntArray,
    w: FloatArray,
    eta: float,
    mu: float,
    frame: Frame,
    loss: Loss,
    K: int,
) -> None: ...
def logistic_losses(margins: FloatArray, y: FloatArray, out: FloatArray) -> None: ...
def output_losses(scores: FloatArray, y: FloatArray, kind: int, epsilon: float, out: FloatArray) -> None: ...
def squared_length(weights: FloatArray, factor: FloatArray) -> float: ...
def evidence(
    predicted: FloatArray, y: FloatArray, weight: FloatArray, mean: float
) -> tuple[int, tuple[float, float, float, float]]: ...
def pairwise_sum(values: FloatArray) -> float: ...
def largest(values: FloatArray, more: FloatArray | None = None) -> float: ...
def weighted_sum(values: FloatArray, weight: FloatArray) -> tuple[float, float]: ...
def fill_uniform(out: FloatArray, seed: int, k: int) -> int: ...
def draw_uniformly(order: IntArray, n: int, seed: int, k: int) -> int: ...
def alternate(order: IntArray, admitted: int, waiting: int, seed: int, k: int) -> tuple[int, int]: ...
def schedule(
    order: IntArray,
    table: FloatArray,
    old: FloatArray,
    admitted: int,
    waiting: int,
    seed: int,
    k: int,
    alternating: bool,
) -> int: ...
