"""
A is better than B: by how much, and is it luck?
================================================

Two models on one stream with one seed give two numbers, of which one is always lower. A fair comparison predicts
before it learns, repeats with several seeds, adds rules that need no model, and says how much could be chance.
"""

import matplotlib.pyplot as plt
import numpy as np

from driftsurf import DriftSurfClassifier
from driftsurf.estimators import AUEClassifier, SlidingWindowClassifier
from driftsurf.evaluation import prequential
from driftsurf.evaluation.ranks import interval, resampled_means
from driftsurf.streams import SEA

ROWS = 20_000
BATCH = ROWS // 100
SEEDS = 3
stream = SEA(n_rows=ROWS, noise=0.1)

# %%
# Every model receives the same batches in the same order. The first batch is not counted, because no model has learned
# anything before it.

kinds = {"DriftSurf": DriftSurfClassifier, "AUE": AUEClassifier, "window": SlidingWindowClassifier}
errors: dict[str, list[np.ndarray]] = {name: [] for name in kinds}
for seed in range(SEEDS):
    trace = prequential(stream, {name: kind(random_state=seed) for name, kind in kinds.items()}, batch_size=BATCH)
    for name in kinds:
        errors[name].append(trace.of(name)["error"][1:])
labels = stream.arrays()[1].reshape(-1, BATCH)
majority = (labels[1:] != np.sign(labels[:-1].mean())).mean(axis=1)

# %%
# Blocks of batches are drawn for all models together, 2,000 times, so that models are compared on the same rows. The
# output is the error of each model minus that of DriftSurf.

names = [*kinds, "majority"]
tables = [np.asarray(errors[name]) for name in kinds] + [np.tile(majority, (SEEDS, 1))]
means = resampled_means(tables)
figure, axes = plt.subplots()
for place, name in enumerate(names[1:], 1):
    behind = interval(float(tables[place].mean() - tables[0].mean()), means[:, place] - means[:, 0])
    axes.errorbar(behind.value, name, xerr=[[behind.value - behind.low], [behind.high - behind.value]], fmt="o")
    verdict = "no clear difference" if behind.low <= 0 <= behind.high else "better" if behind.high < 0 else "worse"
    print(f"{name}: {behind.value:+.4f}, 95 % interval {behind.low:+.4f} to {behind.high:+.4f}: {verdict}")
axes.axvline(0, color="0.5", linestyle=":")
axes.set(xlabel="error minus that of DriftSurf")

# %%
# ``driftsurf compare`` does this for files and for any models, and shows the cost of each model next to its error.
