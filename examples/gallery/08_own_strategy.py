"""
My own strategy: how much code is it?
=====================================

The rule takes one line: start afresh when more than half of a batch was predicted wrongly. As a strategy, it works
with every classifier, can be saved and resumed, and can be compared like any other. This page does all of that.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

import driftsurf
from driftsurf import DriftSurfClassifier
from driftsurf.checks import check_strategy
from driftsurf.comparison.compare import compare
from driftsurf.comparison.inputs import Input
from driftsurf.core.contracts import Batch, FloatArray
from driftsurf.estimators import ObliviousClassifier, estimator_class
from driftsurf.evaluation import prequential
from driftsurf.learners import LogisticRegression, NaiveBayes, SoftmaxRegression
from driftsurf.registry import CLASSIFICATION, register
from driftsurf.strategies import SingleModel, row_errors
from driftsurf.streams import Mixed

ROWS = 30_000
BATCH = ROWS // 100


@register("strategy", "start-afresh", title="Start afresh", tasks=CLASSIFICATION)
class StartAfresh(SingleModel):
    """One model, replaced when it is wrong more often than right."""

    def watch(self, step: int, memory: Any, batch: Batch, scores: Callable[[], FloatArray]) -> tuple[str, Any]:
        """Ask for a fresh model if more than half of the rows were predicted wrongly."""
        wrong = float(row_errors(scores(), batch.y).mean())
        return (f"{wrong:.0%} of the batch were wrong" if wrong > 0.5 else ""), memory


# %%
# ``SingleModel`` keeps the rows, trains the model and saves its state; ``watch`` is the rule. ``row_errors`` handles
# the scores of any number of classes. The checks test what a strategy guarantees: its state is exact, an error changes
# nothing, and the same seed gives the same results.

for learner in (LogisticRegression(), SoftmaxRegression(), NaiveBayes()):
    check_strategy(StartAfresh(learner))

# %%
# ``estimator_class`` creates an estimator from the name.

own = estimator_class("start-afresh")(random_state=0)
models = {
    "start afresh": own,
    "DriftSurf": DriftSurfClassifier(random_state=0),
    "never forgets": ObliviousClassifier(random_state=0),
}
stream = Mixed(n_rows=ROWS)
trace = prequential(stream, models, batch_size=BATCH)

figure, axes = plt.subplots()
for name in models:
    error = trace.of(name)["error"]
    axes.plot(error, label=name)
    print(f"{name}: error {error.mean():.3f}")
axes.set(xlabel="batch", ylabel="share of wrong predictions")
axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)

# %%
# The journal records the reasons of every strategy:

for change in own.journal_.transitions:
    print(change.describe())

# %%
# A registered strategy is saved and loaded like any other, and continues where it stopped:

folder = Path(tempfile.mkdtemp())
driftsurf.save(own, folder / "own.state")
again = driftsurf.load(folder / "own.state")
X, y = next(Mixed(n_rows=BATCH, seed=5).batches(BATCH))
assert (again.test_then_train(X, y) == own.test_then_train(X, y)).all()
print(again)

# %%
# Comparisons can use it by name, with any learner. Mixed reverses its labels, so one half is the right limit there.
# The drifts of SEA change far fewer labels: this rule does not notice them, but DriftSurf does.

compared = compare(
    folder / "compared",
    [Input("mixed", rows=ROWS), Input("sea0", rows=ROWS)],
    ["start-afresh:logistic", "start-afresh:softmax", "driftsurf:logistic", "oblivious:logistic"],
)
for source in compared.sources:
    errors = (f"{one.model} {one.error.value:.3f}" for one in source.models)
    print(f"{source.title}: {', '.join(errors)}")

# %%
# The next page shows how to tell whether such a difference is more than luck. To use the class with the commands
# ``driftsurf run`` and ``driftsurf compare``, put it in a package with an entry point: see *Extending driftsurf*.
