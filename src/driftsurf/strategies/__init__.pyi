# Made by `make generate`: do not edit.
from driftsurf.reproduction.strategies.aue import AUE as AUE
from driftsurf.reproduction.strategies.authors import AuthorsDriftSurf as AuthorsDriftSurf
from driftsurf.reproduction.strategies.candor import Candor as Candor
from driftsurf.reproduction.strategies.diversity_pool import DiversityPool as DiversityPool
from driftsurf.reproduction.strategies.dtel import DTEL as DTEL
from driftsurf.reproduction.strategies.dwm import DWM as DWM
from driftsurf.reproduction.strategies.dwmil import DWMIL as DWMIL
from driftsurf.reproduction.strategies.learn_nse import LearnNSE as LearnNSE
from driftsurf.reproduction.strategies.paired_learners import PairedLearners as PairedLearners
from driftsurf.reproduction.strategies.perm import PERM as PERM
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS as DEFAULT_MAX_ROWS
from driftsurf.strategies._pool import BudgetRule as BudgetRule
from driftsurf.strategies._single import SingleModel as SingleModel
from driftsurf.strategies._votes import row_errors as row_errors
from driftsurf.strategies.aware import Aware as Aware
from driftsurf.strategies.driftsurf import DriftSurf as DriftSurf
from driftsurf.strategies.driftsurf import Judge as Judge
from driftsurf.strategies.driftsurf import ThresholdUnit as ThresholdUnit
from driftsurf.strategies.driftsurf import Variant as Variant
from driftsurf.strategies.exponential_decay import ExponentialDecay as ExponentialDecay
from driftsurf.strategies.linear_decay import LinearDecay as LinearDecay
from driftsurf.strategies.oblivious import Oblivious as Oblivious
from driftsurf.strategies.one_pass import OnePass as OnePass
from driftsurf.strategies.portfolio import Portfolio as Portfolio
from driftsurf.strategies.reset_on_drift import ResetOnDrift as ResetOnDrift
from driftsurf.strategies.sliding_window import SlidingWindow as SlidingWindow

__all__: list[str]
