"""Portfolio: several strategies and learners that all learn, mixed by how well each predicted the batches so far."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from driftsurf import registry
from driftsurf.core.abilities import IncrementallySaved, SnapshotScoring, TakenStep, abilities_of, check_contract
from driftsurf.core.contracts import CSR, Batch, Categories, FloatArray, IncrementalState, Learner, Rows, State
from driftsurf.core.decisions import Decision, Transition
from driftsurf.core.fields import Fields, Text, Whole, misfit
from driftsurf.core.journal import Outcome
from driftsurf.core.numeric import exp
from driftsurf.core.options import Parameterised, choice, number, shown, whole
from driftsurf.core.samples import Samples
from driftsurf.core.state import nest, pick, resolved
from driftsurf.errors import CapabilityError, OptionError, RegistryWarning
from driftsurf.native import maths
from driftsurf.native.columns import all_finite
from driftsurf.native.guard import RangeGuard
from driftsurf.native.linear import largest
from driftsurf.native.online import check_width
from driftsurf.native.portfolio import (
    FEW,
    Chain,
    JointRecord,
    Last,
    Mixer,
    PortfolioState,
    Tested,
    advance,
    expert_shares,
    mixed_by,
    stacked_shares,
)
from driftsurf.registry import ALL_TASKS, Example, register
from driftsurf.strategies._base import PooledStrategy
from driftsurf.strategies._expert_records import (
    fresh_places,
    give_back,
    identity,
    is_worse_than_guessing,
    learned_by,
    online_expert,
    read_joint,
    read_online,
)
from driftsurf.strategies._experts import (
    NEAREST,
    TREES,
    Resting,
    default_experts,
    due_batch,
    gathers,
    label_of,
    make_experts,
    names_of,
    small_batch_experts,
)
from driftsurf.strategies._mixing import NO_TRAIL, TRAIL, Trail, mixing_from, mixing_state
from driftsurf.strategies._pool import DEFAULT_MAX_ROWS
from driftsurf.strategies._residuals import Residuals

Scorer = Callable[[Rows], FloatArray]
LIGHT = "light"
TRANSIENT = "_scorer", "_scorers", "_recent", "_recent_of", "_changed", "_tested", "_shown"
"""Attributes that are neither copied nor pickled."""


VOTE = maths.log(9.0)
"""Value of the vote of an expert in what ``stacked_shares`` returns."""
CALLS = 8
"""Number of calls whose rows are remembered: some may be by others, as of a page that shows predictions."""


def score(
    scorers: Sequence[Scorer],
    live: PortfolioState,
    X: Rows,
    recent: Recent | None = None,
    *,
    late_labels: bool = False,
) -> FloatArray:
    """Return the scores of the mixture for rows: log-probabilities (n, K), or predicted numbers (n,)."""
    tested = mixed_by(live, scores_of(scorers, live, X), live.n_classes)
    if recent is not None:
        recent.put(X, tested, live)
    # Where labels come late, the last known one is older than in the steps that weighted it.
    shown = tested.experts if late_labels else tested.mixture
    return shown if recent is None else shown.copy()  # the caller may change what it gets


def disagreement_of(tested: Tested, experts: int) -> FloatArray:
    """Return how far the first experts, which always speak, disagree about each row.

    For classes (n, 2): the share of them that votes for another class than the mixture, and 1 minus the mean
    probability that they give its class. For regression (n, 1): the standard deviation of their numbers.
    """
    plain: list[Any] = tested.scores[:experts]
    if not tested.n_classes:
        return np.asarray(np.stack(plain, axis=1).std(axis=1, keepdims=True))
    G = stacked_shares(plain, tested.n_classes)
    chosen = G[np.arange(len(G)), tested.mixture.argmax(axis=1)]  # log-probabilities of the class, then votes for it
    each = chosen.shape[1] // 2
    shares = chosen.reshape(len(G), 2, each)
    shares[:, 0] = exp(np.ascontiguousarray(shares[:, 0]))
    shares[:, 1] /= VOTE
    return np.asarray(1.0 - shares.sum(axis=2)[:, ::-1] / each)


def scores_of(scorers: Sequence[Scorer], live: PortfolioState, X: Rows) -> list[FloatArray | None]:
    """Return the scores of each expert; None for those that see earlier targets, if the rows are many."""
    plain = live.mixer.experts
    if plain == len(scorers):
        return [scorer(X) for scorer in scorers]
    rows = with_trail(live, X, len(scorers))
    found: list[FloatArray | None] = [scorer(X) for scorer in scorers[:plain]]
    return found + [None if rows is None else scorer(rows) for scorer in scorers[plain:]]


def with_trail(live: PortfolioState, X: Rows, experts: int) -> FloatArray | None:
    """Return few rows with the columns of earlier targets; None if none of so many experts sees these."""
    if experts == live.mixer.experts or isinstance(X, CSR) or not 0 < len(X) < FEW:
        return None
    trail: Trail = live.trail
    return trail.beside(np.asarray(X))


class Recent:
    """Scores of few rows that were predicted since the last step, so that rows learned next are scored only once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # Replaced as a whole, because other threads predict: the state that predicted, and calls with their scores.
        self._known: tuple[PortfolioState | None, tuple[tuple[Any, Tested], ...]] = (None, ())

    def __reduce__(self) -> tuple[type[Recent], tuple[()]]:
        """Copy and pickle without scores, which only save time."""
        return Recent, ()

    def put(self, X: Rows, tested: Tested, live: PortfolioState) -> None:
        """Remember the scores of few dense rows."""
        if not isinstance(X, CSR) and 0 < len(X) < FEW:
            state, calls = self._known
            call = _mark(X), tested
            self._known = live, (call, *calls[: CALLS - 1]) if state is live else (call,)

    def of(self, X: Rows, live: PortfolioState) -> Tested | None:
        """Return the scores of rows to be learned, if they were predicted since the last step."""
        state, calls = self._known
        if not calls or state is not live or isinstance(X, CSR) or not 0 < len(X) < FEW:
            return None
        mark = _mark(X)
        return next((tested for known, tested in calls if known == mark), None)


def _mark(X: np.ndarray[Any, Any]) -> Any:
    """Return what distinguishes few dense rows from others."""
    return X.shape, X.dtype, X.tobytes()


@register(
    "strategy",
    "portfolio",
    tasks=ALL_TASKS,
    family="ensemble",
    examples=[Example()],
    uses=["lightgbm"],
    draws=True,
)
class Portfolio(Parameterised):
    r"""A portfolio of experts that all learn every batch, mixed by stacking that follows drift.

    No single model is the best on every stream, nor at all times on one. Linear models are the best with few rows and
    right after an abrupt change, trees with many rows, a network in between. The portfolio trains some of each and
    weights the M experts by non-negative log-linear stacking: with the probabilities :math:`P_k` of expert k, and
    :math:`V_k(c)` = 1 for the class that it votes for, its most probable one, and 0 for the others,

    .. math:: p(c | x) \propto \prod_k \big(0.99\, P_k(c | x) + 0.01 / K\big)^{v_k} 9^{v_{M + k} V_k(c)}, \quad v \ge 0.

    Votes count where an expert finds the right class and is wrong about how sure that is, as linear models are if some
    labels are wrong. The weights need not sum to 1: a sum above 1 sharpens probabilities that are too timid, and one
    below 1 softens them. After each batch, before the experts learn it, v moves to the minimum over :math:`u \ge 0` of

    .. math:: \sum_i -\log p_u(y_i | x_i) + \tfrac12 (u - v)^\top A\, (u - v)

    by three Newton steps, each an exact quadratic programme. A is the curvature H of the losses of earlier batches, of
    which half is forgotten in ``half_life`` batches: :math:`A \leftarrow \gamma (A + H) + (1 - \gamma) \lambda I` with
    :math:`\gamma = 2^{-\min(1, n / 100) / \text{half-life}}` for a batch of n rows, and the ridge :math:`\lambda`.

    If the mixture was worse than guessing on a batch (wrong about more rows than :math:`1 - 1/K`, by two standard
    errors), and some experts have begun a new model with it, as DriftSurf does at an abrupt change, the weights go to
    these experts, and 30 % of A is kept. Otherwise everything would be predicted wrongly for one more batch.

    For classes there is one more part of the mixture, which knows labels only. In batches of fewer than 30 rows it is
    how often each label came after the last one. In larger batches it is the recent rate of each label, of which half
    is forgotten in five rows; it speaks only while its log loss is 0.05 below that of the shares of all labels, as
    where labels come in long runs. Labels may come late: then other rows are learned than were predicted last, and
    predictions use a second mixture, without this part, until that changes. DriftSurf experts and trees gather batches
    of fewer than 8 rows and learn 29 rows together, since the risk on a single row is noise.

    In batches of fewer than 30 dense rows the default experts have one more, trees that see the last three targets and
    two running means of earlier ones (with half-lives of 5 and 25 rows) as further columns. It is mixed as the part
    that knows labels only, learns nothing from larger batches but the first, and costs nothing there.

    For regression v are shares, and the prediction is the mean of the experts' predictions weighted by them. They
    minimise the squared error of the mixture in units of its mean on the batch, so that every batch counts the same,
    plus the same quadratic. The error of an expert counts up to five units, so that no outlier decides alone. In
    batches of fewer than 30 rows the last number is one more part. The last 500 errors of the mixture make intervals,
    by adaptive conformal inference: a share that misses too many numbers is made smaller after each row, so that the
    coverage is right in the long run, whatever drifts.

    By default the experts are: DriftSurf around ``learner`` with the prequential judge and with the training judge;
    ``learner`` alone, never replaced; LightGBM, refitted when its loss rises, and on the last four batches; a
    perceptron; for classes naive Bayes; and for classes of dense rows nearest neighbours. DriftSurf makes the
    portfolio safe at abrupt changes.

    Parameters
    ----------
    learner
        Template of the DriftSurf experts. Its task, and whether it accepts sparse and weighted rows, is that of the
        portfolio.
    experts
        None for the default experts; "light" without ``learner`` alone and without the trees on the last four batches,
        with trees that are fitted less often and three passes of the perceptron instead of five; or a list of
        strategies, learners, and estimators of this package, scikit-learn or river. A learner is trained on all rows
        and never replaced.
    half_life
        Number of batches in which the evidence for the weights loses half of its value; a batch of fewer than 100 rows
        counts as so many hundredths of one. From 3 to 100 the mean error over streams is the same to .003.
    ridge
        How strongly the weights resist change while there is little evidence; from 5 to 20 it makes no difference.
    max_rows, dtype, seed
        As for :class:`driftsurf.strategies.DriftSurf`; strategies among ``experts`` keep their own ``max_rows``.

    Examples
    --------
    >>> import numpy as np
    >>> from driftsurf.core.contracts import Batch
    >>> from driftsurf.learners import LogisticRegression, NaiveBayes
    >>> rng = np.random.default_rng(0)
    >>> strategy = Portfolio(LogisticRegression(), experts=[LogisticRegression(), NaiveBayes()])
    >>> strategy.begin(n_features=2, sparse=False, n_classes=2)
    >>> for step in range(10):
    ...     X = rng.normal(size=(100, 2))
    ...     y = (np.abs(X[:, 0]) > 1).astype(float)  # a range, which no linear model can express
    ...     decision = strategy.step(Batch(X, y, np.ones(100)))
    >>> linear, bayes = (model.weight for model in decision.models)
    >>> bayes > 0.9
    True

    References
    ----------
    D. H. Wolpert. Stacked generalization. Neural Networks, 1992.
    I. Gibbs, E. Candès. Adaptive conformal inference under distribution shift. NeurIPS 2021.

    C. L. Lawson, R. J. Hanson. Solving Least Squares Problems. Prentice-Hall, 1974 (active sets).
    """

    _made: tuple[Any, ...]
    """The experts; ``_experts`` has those with what native steps have taught them."""
    _settled: PortfolioState | None = None
    """State of which the experts know what those that learn each row once have learned."""
    _names: list[str]
    """Names of the experts in the journal."""
    _seeing: int = 0
    """Number of the last experts that see earlier targets."""
    _live: PortfolioState
    _waiting: Samples
    """Rows of small batches that are gathered for experts that compare models by batches."""
    _scorer: Scorer
    _scorers: list[Scorer]
    """Scores of each expert as of the last complete step."""
    _recent: Recent | None = None
    _recent_of: tuple[Any, ...] = ()
    """The experts for which ``_recent`` was made."""
    _categories: Categories = ()
    _changed: list[Any] | None = None
    """Experts that have changed since the last mark, with marks of their own; None if there is no valid mark."""
    _late_labels: bool = False
    """Whether rows are predicted long before their labels come."""
    _shown: Tested | None = None
    """Scores of the last tested batch, also once it is learned."""
    _tested: Tested | None = None
    """Scores of the last tested batch, so that the experts predict a batch only once."""

    def __init__(
        self,
        learner: Learner,
        *,
        experts: Sequence[Any] | Literal["light"] | None = None,
        half_life: float = 10.0,
        ridge: float = 10.0,
        max_rows: int | None = DEFAULT_MAX_ROWS,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.experts = experts
        self.half_life = half_life
        self.ridge = ridge
        self.max_rows = max_rows
        self.dtype = dtype
        self.seed = seed

    # -------------------------------------------------------------------- the contract of a strategy

    def check(self) -> None:
        """Raise OptionError or CapabilityError if a parameter is invalid."""
        check_contract(self.learner, Learner, "learner", "one of driftsurf.learners, such as LogisticRegression()")
        number("half_life", self.half_life, above=0.0)
        number("ridge", self.ridge, above=0.0, below=1e9)
        choice("dtype", self.dtype, ("float64", "float32"))
        whole("seed", self.seed, at_least=0, at_most=None)
        can = self.learner.capabilities
        for expert in self._new_experts(self.seed):
            expert.check()
            its = expert.learner.capabilities
            if not can.tasks <= its.tasks:
                raise CapabilityError(
                    f"the expert {label_of(expert)} supports {', '.join(sorted(its.tasks))}, but the learner "
                    f"{self.learner!r} of the portfolio supports {', '.join(map(repr, sorted(can.tasks)))}; use "
                    "another expert or another learner"
                )

    def fresh(self, seed: int) -> Self:
        """Return a strategy with the same parameters and another seed, which has learned nothing but the categories."""
        strategy = type(self)(**(self.get_params(deep=False) | {"seed": seed}))
        strategy._categories = self._categories
        return strategy

    def tell_categories(self, categories: Categories) -> None:
        """Let the experts that will be made know which columns are categories."""
        self._categories = categories

    def begin(self, n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Make the experts."""
        self.check()
        if self.experts in (None, LIGHT) and (lacking := registry.get("learner", "lightgbm-lazy").remedy):
            # Always from this place, so that Python shows it once: the detection of drifts begins portfolios too.
            warnings.warn(f"the portfolio has no boosted trees: {lacking}", RegistryWarning, stacklevel=1)
        plain = self._new_experts(whole("seed", self.seed, at_least=0, at_most=None), nearest=not sparse)
        seeing = () if sparse else self._new_seeing(int(self.seed), len(plain))
        width = n_features + TRAIL if seeing else n_features
        for expert in plain:
            self._require_sparse(expert, sparse)
            expert.begin(n_features, sparse=sparse, n_classes=n_classes)
        for expert in seeing:
            expert.begin(width, sparse=False, n_classes=n_classes)
        self._take(plain, seeing, n_features, int(self.seed))
        self._waiting = Samples(width, sparse=sparse)
        self._publish(self._beginning(n_classes))

    @property
    def predicting(self) -> None:
        """None, since all experts are mixed."""

    def scores(self, X: Rows) -> FloatArray:
        """Return the scores of new rows, by the experts as the last complete step left them."""
        return self._scorer(X)

    def expect_late_labels(self) -> None:
        """Predict without the last label from now on, because rows are predicted long before their labels come."""
        self._late_labels = True
        if "_live" in vars(self):
            self._publish(self._live)

    def scorer(self) -> Scorer:
        """Return ``scores`` as of the last complete step; later steps do not affect it."""
        return self._scorer

    @staticmethod
    def half_width(coverage: float, scorer: Any) -> float:
        """Return how far intervals reach to each side of the numbers of a scorer, to hold this share of the true."""
        number("coverage", coverage, above=0.0, below=1.0)
        residuals: Residuals | None = scorer.args[1].residuals
        if residuals is None:
            raise CapabilityError("this portfolio predicts classes, which have no intervals; use their probabilities")
        return residuals.width(coverage)

    def test_scores(self, batch: Batch) -> FloatArray:
        """Return the scores by which a batch is evaluated before it is learned."""
        live = self._live
        known = None if self._recent is None else self._recent.of(batch.X, live)
        if known is None:
            scorers: Sequence[Scorer] = self._scorers
            if self._recent is None:  # some experts are tested in their own way
                each = zip(self._made, scorers, live.online, strict=True)
                scorers = [one if online else _testing(expert, batch) for expert, one, online in each]
            known = mixed_by(live, scores_of(scorers, live, batch.X), live.n_classes)
        self._tested = self._shown = known
        return known.mixture

    def disagreement(self) -> FloatArray | None:
        """Return how far the experts disagreed about each row of the batch that was tested last; None before one."""
        return None if self._shown is None else disagreement_of(self._shown, self._live.mixer.experts)

    @staticmethod
    def scores_and_disagreement(scorer: Any, X: Rows) -> tuple[FloatArray, FloatArray]:
        """Return what a scorer of this strategy returns for rows, and how far the experts disagree about each."""
        scorers, live = scorer.args
        tested = mixed_by(live, scores_of(scorers, live, X), live.n_classes)
        shown = tested.experts if scorer.keywords["late_labels"] else tested.mixture
        return shown, disagreement_of(tested, live.mixer.experts)

    def step(self, batch: Batch, tested: FloatArray | None = None) -> Decision:
        """Learn one batch, all experts or none."""
        live, known = self._live, self._tested
        check_width(batch.X, self._n_features)
        changed = self._changed
        if changed is None:
            _, changed = self.mark()
        try:
            if known is None or tested is None or known.mixture is not tested:
                self.test_scores(batch)
                known = self._tested
            assert known is not None
            after, outcome = self._advance(live, batch, known)
            self._publish(after)
            decision = outcome.decision()
        except BaseException:
            _put_back(changed)
            self._settled = None
            self._publish(live)
            raise
        return decision

    def observe(
        self,
        X: Rows,
        y: FloatArray,
        weight: FloatArray | None,
        guard: RangeGuard | None,
        *,
        predict: bool,
        test: bool,
    ) -> TakenStep | None:
        """Learn a few usual rows; None if ``step`` has to. The caller has made a mark, to which it returns then."""
        live = self._live
        if isinstance(X, CSR) or len(y) >= FEW or weight is not None or not live.step:
            return None
        if (live.n_classes and largest(y) >= live.n_classes) or not all_finite(X):
            return None
        if guard is not None:
            if guard.limited(X) is not X:
                return None
            rows, factors, guard = guard.admit(X)
            if rows is not X or factors is not None:
                return None
        batch = Batch(X, y, np.ones(len(y)))
        mixture = self.test_scores(batch)
        assert self._tested is not None
        after, outcome = self._advance(live, batch, self._tested)
        self._publish(after)
        return TakenStep(outcome, guard, X, mixture, mixture, self._scorer)

    def mark(self) -> Any:
        """Return a mark of all experts, for ``put_back``. The strategy has to have begun."""
        self._changed = changed = list[Any]()
        if self._recent is None:  # an expert that is tested in its own way may change then
            for expert in self._made:
                self._will_change(expert)
        return vars(self).copy(), changed

    def put_back(self, mark: Any) -> None:
        """Return to the marked experts, from any point of a step, a reset or a restore."""
        entries, changed = mark
        _put_back(changed)
        vars(self).update(entries)
        self._settled = None  # the experts may know of later steps

    def _will_change(self, part: Any) -> None:
        """Mark an expert, or the waiting rows, before they change."""
        if self._changed is not None:
            self._changed.append((part, part.mark()))

    @property
    def _experts(self) -> tuple[Any, ...]:
        """The experts, with all that they have learned."""
        live = self._live
        if self._settled is not live:
            for expert, known in zip(self._made, live.online, strict=True):
                if known is not None:
                    give_back(expert, known)
            self._settled = live
        return self._made

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled or copied: all but the scorer, which holds compiled code of the experts."""
        if "_live" in vars(self):
            assert self._experts is self._made  # they know what they have learned
        return {name: value for name, value in vars(self).items() if name not in TRANSIENT}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what ``__getstate__`` returned."""
        vars(self).update(state)
        if "_live" in state:
            self._publish(self._live)

    @property
    def nbytes(self) -> int:
        """Bytes held for rows and models."""
        live, rows = self._live, self._waiting.nbytes
        each = zip(self._made, live.online, strict=True)
        return int(rows + sum(expert.nbytes if one is None else one.model.nbytes for expert, one in each))

    def reset(self, why: str) -> Transition:
        """Start over with fresh experts and equal weights, at the request of a user."""
        live, place = self._live, self._heaviest(self._live)
        experts = self._experts
        for part in (*experts, self._waiting):
            self._will_change(part)
        changes = [expert.reset(why) for expert in experts]
        self._waiting.release(self._waiting.next_row)
        self._publish(self._beginning(live.n_classes).replaced(step=live.step, next_row=live.next_row))
        count = len(experts)
        old, new = (identity(place, getattr(changes[place], name), count) for name in ("old", "new"))
        return Transition("reset", live.step, old=old, new=new, why=why)

    def frozen_experts(self) -> tuple[tuple[Any, ...], int]:
        """Return the experts, whose frozen models :mod:`driftsurf.strategies.frozen` saves, and how many are last."""
        return self._made, self._seeing

    # -------------------------------------------------------------------- state

    def state(self) -> State:
        """Return everything that learning changes, as views that are valid until the next step."""
        return resolved(self.incremental_state())

    def incremental_state(self) -> IncrementalState:
        """Return the entries of ``state()``, with arrays that grow with the rows as ``AppendOnlyArray``."""
        live, experts = self._live, self._experts
        plain, seeing = experts[: live.mixer.experts], experts[live.mixer.experts :]
        own: IncrementalState = {"strategy": type(self).__name__, "experts": self._labels(plain)}
        own |= {"seeing": self._labels(seeing)} if seeing else {}
        own |= {"seed": self._seed} | {name: getattr(live, name) for name in COUNTS}
        state = own | mixing_state(live) | nest("waiting", self._waiting.incremental_state())
        for place, expert in enumerate(experts):
            incremental = IncrementallySaved in abilities_of(expert)
            state |= nest(f"expert{place}", expert.incremental_state() if incremental else expert.state())
        return state

    def restore(self, state: Mapping[str, Any], n_features: int, *, sparse: bool, n_classes: int) -> None:
        """Take over a state that ``state()`` returned; StateError if it is not for rows of this shape."""
        if str(state.get("strategy")) != type(self).__name__:
            raise misfit(state, "strategy", f"is {state.get('strategy')!r}, not {type(self).__name__!r}")
        known: dict[str, Any] = {"whole": 1, "seeing": ""} | FIELDS.read(state, known_classes=n_classes)
        plain = self._new_experts(known["seed"], saved=known["experts"])
        seeing = self._new_seeing(known["seed"], len(plain), trees=True) if known["seeing"] and not sparse else ()
        for name, experts in ("experts", plain), ("seeing", seeing):
            if known[name] != self._labels(experts):
                raise misfit(state, name, f"must be {self._labels(experts)!r}, the experts of this portfolio")
        if bool(known["n_classes"]) == self.learner.capabilities.regression:
            raise misfit(state, "n_classes", f"is {known['n_classes']}, which {self.learner!r} does not support")
        width = n_features + TRAIL if seeing else n_features
        for place, expert in enumerate((*plain, *seeing)):
            own, columns = pick(f"expert{place}", state), n_features if place < len(plain) else width
            expert.restore(own, columns, sparse=sparse, n_classes=known["n_classes"])
        mixing = mixing_from(state, len(plain), known["n_classes"], len(seeing))
        waiting, rows = Samples(width, sparse=sparse), pick("waiting", state)
        if rows:  # version 0.2 had none
            waiting = Samples.from_state(rows, known["n_classes"])
            if (waiting.n_features, waiting.sparse) != (width, sparse):
                raise misfit(rows, "n_features", f"is {waiting.n_features}, or rows are sparse where others are not")
        self._waiting = waiting
        self._take(plain, seeing, n_features, known["seed"])
        counts = {name: known[name] for name in COUNTS}
        self._publish(PortfolioState(**mixing, **counts, online=map(online_expert, self._made)))

    # -------------------------------------------------------------------- helpers

    def _new_experts(self, seed: int, saved: str | None = None, *, nearest: bool = True) -> tuple[Any, ...]:
        """Make the experts.

        ``saved`` are the labels of those of a state: it may have been saved where LightGBM was. ``nearest`` says
        whether nearest neighbours are among the default ones.
        """
        models: Any = self.experts
        if models is None or (isinstance(models, str) and models == LIGHT):
            trees, nearest = (None, nearest) if saved is None else (TREES in saved, NEAREST in saved)
            models = default_experts(self.learner, light=models == LIGHT, trees=trees, nearest=nearest)
        if isinstance(models, str | bytes) or not isinstance(models, Sequence) or not len(models):
            raise OptionError(
                f"experts is {shown(models)}; expected a list of strategies, learners and estimators, {LIGHT!r} or None"
            )
        options: dict[str, Any] = {"dtype": self.dtype, "max_rows": self.max_rows}
        return make_experts(models, seed=seed, categories=self._categories, **options)

    def _new_seeing(self, seed: int, first: int, *, trees: bool | None = None) -> tuple[Any, ...]:
        """Make the default experts that see earlier targets, if the experts are the default ones."""
        models = small_batch_experts(self.learner, trees=trees) if self.experts is None else []
        options: dict[str, Any] = {"dtype": self.dtype, "max_rows": self.max_rows}
        return make_experts(models, seed=seed, categories=self._categories, first=first, **options)

    def _take(self, plain: tuple[Any, ...], seeing: tuple[Any, ...], n_features: int, seed: int) -> None:
        """Go on with these experts."""
        self._names = [*names_of(plain), *(f"{name}, earlier targets" for name in names_of(seeing))]
        self._made, self._seeing, self._n_features, self._seed = (*plain, *seeing), len(seeing), n_features, seed

    @staticmethod
    def _labels(experts: Sequence[Any]) -> str:
        return " ".join(map(label_of, experts))

    def _require_sparse(self, expert: Any, sparse: bool) -> None:
        if sparse and not expert.learner.capabilities.sparse:
            raise CapabilityError(
                f"the expert {label_of(expert)} does not support sparse rows (capability 'sparse'); pass a dense "
                "array, or leave it out of experts"
            )

    def _publish(self, live: PortfolioState) -> None:
        if self._recent is None or self._recent_of is not self._made:
            # A strategy may test with the labels too, as Candor does.
            plain = all(type(one).test_scores is PooledStrategy.test_scores for one in self._made)
            self._recent, self._recent_of = Recent() if plain else None, self._made
        self._scorers = scorers = self._scorers_after(live)
        self._live = live
        self._scorer = functools.partial(score, scorers, live, recent=self._recent, late_labels=self._late_labels)
        self._changed = self._tested = None

    def _scorers_after(self, live: PortfolioState) -> list[Scorer]:
        """Return the scores of each expert as it is now; those of an expert that has learned nothing stay."""
        before: PortfolioState | None = vars(self).get("_live")
        known = vars(self).get("_scorers")
        next_one = known is not None and before is not None and live.step == before.step + 1
        scorers = list[Scorer]()
        for place, expert in enumerate(self._made):
            online = live.online[place]
            if online is not None:
                scorers.append(online.model.scores)
            elif next_one and live.outcomes and type(live.outcomes[place]) is Resting:
                assert known is not None
                scorers.append(known[place])
            else:
                scorers.append(expert.scorer() if SnapshotScoring in abilities_of(expert) else expert.scores)
        return scorers

    def _beginning(self, n_classes: int) -> PortfolioState:
        """Return what is known before the first batch."""
        chain = Chain.of(n_classes) if n_classes else Last()
        residuals = None if n_classes else Residuals.of_nothing()
        mixer = Mixer.of(len(self._made) - self._seeing, float(self.ridge), votes=bool(n_classes))
        online = map(online_expert, self._made)
        return PortfolioState(mixer, n_classes, chain=chain, trail=NO_TRAIL, residuals=residuals, online=online)

    def _heaviest(self, live: PortfolioState) -> int:
        shares = expert_shares(live.mixer, live.blend, len(self._made))
        return shares.index(max(shares))

    def _advance(self, live: PortfolioState, batch: Batch, tested: Tested) -> tuple[PortfolioState, JointRecord]:
        """Learn the weights, and let every expert learn; return the next live state and what was decided."""
        if not isinstance(batch.X, CSR):
            batch = batch._replace(X=np.ascontiguousarray(batch.X))
        readers = functools.partial(read_joint, self._names), read_online
        return advance(live, batch, tested, self._learn_others, float(self.ridge), float(self.half_life), readers)

    def _learn_others(
        self, live: PortfolioState, batch: Batch, tested: Tested
    ) -> tuple[list[Outcome | None], Trail, list[int]]:
        """Let the experts learn a batch that do not learn in the native step, or gather it.

        Return what they decided, None for the others; the last targets after the batch; and the experts that get all
        the weight, if the mixture was worse than guessing and some have begun a new model.
        """
        waiting, few, count = self._waiting, len(batch.y) < FEW, live.mixer.experts
        outcomes: list[Outcome | None] = []
        resting, learned = live.outcomes, False
        rows, first = batch, not live.learned
        if self._seeing and (few or first or len(waiting)):
            X: Any = batch.X
            rows = batch._replace(X=live.trail.along(X, batch.y) if first else live.trail.beside(X))
        due: Batch | None = rows  # a state of version 0.2 gathered none
        if live.whole > 1:
            self._will_change(waiting)
            due = due_batch(waiting, rows, 0 if first else live.next_row - len(waiting))
        gathered = due
        if due is not None and due is not rows and self._seeing:
            dense: Any = due.X
            gathered = due._replace(X=np.ascontiguousarray(dense[:, : self._n_features]))
        for place, expert in enumerate(self._made):
            scores, seeing = tested.scores[place], place >= count
            if live.online[place] is not None:
                outcomes.append(None)
                continue
            if due is rows and seeing and (few or first):
                own = rows
            elif not seeing and (due is rows or not gathers(expert)):
                own = batch
            elif due is None or due is rows or gathered is None:
                before = resting[place] if resting else None
                outcomes.append(before if type(before) is Resting else Resting.after(before, expert))
                continue
            else:
                own, scores = due if seeing else gathered, None
            learned = True
            self._will_change(expert)
            outcomes.append(learned_by(expert, own, expert.test_scores(own) if scores is None else scores))
        if due is not None and due is not rows:
            waiting.release(waiting.next_row)
        trail = live.trail
        if self._seeing:
            trail = trail.after(batch.y if batch.weight.all() else batch.y[batch.weight > 0.0])
        fresh = fresh_places(outcomes) if live.learned and learned else []
        turned = fresh and is_worse_than_guessing(tested.mixture, batch, tested.n_classes)
        return outcomes, trail, fresh if turned else []


def _testing(expert: Any, batch: Batch) -> Scorer:
    """Return a function of rows of a batch, or of these with further columns: the scores by which it is evaluated."""
    return lambda X: expert.test_scores(batch._replace(X=X))


def _put_back(changed: list[Any]) -> None:
    """Put back all that has changed, the last one first; if an exception breaks this off, another call completes it."""
    while changed:
        part, place = changed[-1]
        part.put_back(place)
        changed.pop()


COUNTS = "n_classes", "step", "next_row", "learned", "whole"
FIELDS = Fields(
    {
        "strategy": Text(),
        "experts": Text(),
        "seeing": Text(),
        "seed": Whole(0, 2**64 - 1),
        "n_classes": Whole(0, "known_classes"),
        "step": Whole(),
        "next_row": Whole(),
        "learned": Whole(0, "step"),
        "whole": Whole(1),
    },
    optional=["whole", "seeing"],
    parts=["mixer", "chain", "trail", "blend", "residuals", "waiting", "expert*"],
)
"""Saved entries of a portfolio."""
