"""
My labels come late: what does it cost?
=======================================

Whether a customer leaves is known only weeks after the prediction. Rows wait for their labels, so the model learns
about a drift as late as about everything else.
"""

import csv
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import driftsurf

ROWS = 20_000
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 3)).round(4)
leaves = (X[:, 0] + 0.3 * rng.normal(size=ROWS) > 0) == (np.arange(ROWS) % (ROWS // 2) < ROWS // 4)  # three drifts
folder = Path(tempfile.mkdtemp())
with (folder / "customers.csv").open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["usage", "age", "calls", "leaves"])
    table.writerows([*row, "yes" if y else "no"] for row, y in zip(X, leaves, strict=True))

# %%
# ``delay`` is a number of batches. The error counts the predictions as they were made, before the label was known.

delays = [0, 1, 2, 4, 8]
errors = {}
for delay in delays:
    result = driftsurf.run(
        folder / "customers.csv",
        label="leaves",
        delay=delay,
        batch_size=250,
        model="driftsurf:logistic",
        out=folder / f"delay-{delay}",
        progress=False,
    )
    errors[delay] = result.summary.mean_error

figure, axes = plt.subplots()
axes.plot(delays, [errors[delay] for delay in delays], marker="o")
axes.set(xlabel="labels come this many batches late", ylabel="share of wrong predictions", ylim=(0, None))

# %%
# Each batch of delay adds about one batch of wrong predictions per drift. That is the price of not knowing the labels,
# and no strategy can avoid it.

drifts, batches = 3, ROWS // 250
for delay in delays[1:]:
    added = (errors[delay] - errors[0]) * batches
    print(f"{delay} batches late: error {errors[delay]:.3f}, {added / drifts:.1f} more batches wrong per drift")
