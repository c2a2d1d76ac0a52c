"""
My LightGBM model: can it adapt?
================================

You have a model that you trust and refit now and then. DriftSurf uses it unchanged and decides when the old rows do
more harm than good. The same works for scikit-learn, XGBoost, river and PyTorch (``TorchLearner``).
"""

import matplotlib.pyplot as plt
from lightgbm import LGBMClassifier

from driftsurf import DriftSurfClassifier
from driftsurf.learners.foreign import SklearnLearner
from driftsurf.streams import Circles

ROWS = 8_000
BATCH = ROWS // 40
stream = Circles(n_rows=ROWS)  # a circle that grows three times

# %%
# ``rows`` limits the rows of a fit, so that the time of a fit does not grow with the stream.


def trees() -> LGBMClassifier:
    """Return a small booster on one thread."""
    return LGBMClassifier(n_estimators=20, num_leaves=15, n_jobs=1, verbose=-1, random_state=0)


trained_once, adapting = trees(), DriftSurfClassifier(SklearnLearner(trees(), rows=2_000), random_state=0)
errors: dict[str, list[float]] = {"trained once": [], "under DriftSurf": []}
for step, (X, y) in enumerate(stream.batches(BATCH)):
    predicted = adapting.test_then_train(X, y)
    if step == 4:  # a tenth of the rows
        trained_once.fit(*(values[: 5 * BATCH] for values in stream.arrays()))
    if step >= 5:
        errors["trained once"].append(float((trained_once.booster_.predict(X).round() != (y > 0)).mean()))
        errors["under DriftSurf"].append(float((predicted != y).mean()))

figure, axes = plt.subplots()
for name, error in errors.items():
    axes.plot(range(5, 5 + len(error)), error, label=name)
    print(f"{name}: error {sum(error) / len(error):.3f}")
for drift in stream.drift_steps(BATCH):
    axes.axvline(drift, color="0.5", linestyle=":")
axes.set(xlabel="batch", ylabel="share of wrong predictions", ylim=(0, None))
axes.legend()
