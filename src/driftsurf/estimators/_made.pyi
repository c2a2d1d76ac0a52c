"""Types of the estimators that ``estimator_class`` makes. Made by ``make generate``: do not edit."""

from typing import Any, Literal

from driftsurf.core.frames import Classes, DetectorLike, LearnerLike, RandomState
from driftsurf.estimators.base import AdaptiveClassifier, AdaptiveRegressor
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS, BudgetRule, RiskName
from driftsurf.strategies.driftsurf import ThresholdUnit

class AUEClassifier(AdaptiveClassifier):
    experts: int
    budget: Literal["each", "divided", "equal"]
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 10,
        budget: Literal["each", "divided", "equal"] = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class AUERegressor(AdaptiveRegressor):
    experts: int
    budget: Literal["each", "divided", "equal"]
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 10,
        budget: Literal["each", "divided", "equal"] = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class CandorClassifier(AdaptiveClassifier):
    experts: int
    decay: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 25,
        decay: float = 0.75,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class DiversityPoolClassifier(AdaptiveClassifier):
    detector: Any
    pool_size: int
    test_rows: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        detector: DetectorLike | None = None,
        pool_size: int = 10,
        test_rows: int = 400,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class AuthorsDriftSurfClassifier(AdaptiveClassifier):
    threshold: float
    stable_threshold: float | None
    reactive_length: int
    greedy: bool
    risk: RiskName
    threshold_unit: ThresholdUnit
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        risk: RiskName = "loss",
        threshold_unit: ThresholdUnit = "auto",
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class AuthorsDriftSurfRegressor(AdaptiveRegressor):
    threshold: float
    stable_threshold: float | None
    reactive_length: int
    greedy: bool
    risk: RiskName
    threshold_unit: ThresholdUnit
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        threshold: float = 0.1,
        stable_threshold: float | None = None,
        reactive_length: int = 4,
        greedy: bool = True,
        risk: RiskName = "loss",
        threshold_unit: ThresholdUnit = "auto",
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class DTELClassifier(AdaptiveClassifier):
    experts: int
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int = 25,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class DWMClassifier(AdaptiveClassifier):
    beta: float
    period: int
    removal: float
    experts: int
    budget: BudgetRule
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        beta: float = 0.5,
        period: int = 50,
        removal: float = 0.01,
        experts: int = 10,
        budget: BudgetRule = "each",
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class DWMILClassifier(AdaptiveClassifier):
    bags: int
    removal: float
    experts: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        bags: int = 11,
        removal: float = 0.1,
        experts: int = 10,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class ExponentialDecayClassifier(AdaptiveClassifier):
    half_life: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        half_life: float = 2000.0,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class ExponentialDecayRegressor(AdaptiveRegressor):
    half_life: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        half_life: float = 2000.0,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class LearnNSEClassifier(AdaptiveClassifier):
    experts: int | None
    slope: float
    crossing: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        experts: int | None = 100,
        slope: float = 0.5,
        crossing: float = 10.0,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class LinearDecayClassifier(AdaptiveClassifier):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class LinearDecayRegressor(AdaptiveRegressor):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class ObliviousClassifier(AdaptiveClassifier):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class ObliviousRegressor(AdaptiveRegressor):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class OnePassClassifier(AdaptiveClassifier):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class OnePassRegressor(AdaptiveRegressor):
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class PairedLearnersClassifier(AdaptiveClassifier):
    window: int
    threshold: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 1000,
        threshold: float = 0.1,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class PERMClassifier(AdaptiveClassifier):
    window: int
    permutations: int
    significance: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 1000,
        permutations: int = 99,
        significance: float = 0.01,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class PERMRegressor(AdaptiveRegressor):
    window: int
    permutations: int
    significance: float
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 1000,
        permutations: int = 99,
        significance: float = 0.01,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...

class ResetOnDriftClassifier(AdaptiveClassifier):
    detector: Any
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        detector: DetectorLike | None = None,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class SlidingWindowClassifier(AdaptiveClassifier):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        classes: Classes | None = None,
        random_state: RandomState = None,
    ) -> None: ...

class SlidingWindowRegressor(AdaptiveRegressor):
    window: int
    max_rows: int | None
    dtype: Literal["float64", "float32"]
    def __init__(
        self,
        learner: LearnerLike | None = None,
        *,
        window: int = 10000,
        max_rows: int | None = None,
        dtype: Literal["float64", "float32"] = "float64",
        batch_size: int | None = None,
        guard: float | None = 2.0,
        random_state: RandomState = None,
    ) -> None: ...
