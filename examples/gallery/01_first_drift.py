"""
My first drift: does the model notice?
======================================

A rule changes halfway through a stream. How long does a model that never forgets stay wrong, and how long does
DriftSurf?
"""

import matplotlib.pyplot as plt

from driftsurf import DriftSurfClassifier
from driftsurf.estimators import ObliviousClassifier
from driftsurf.evaluation import prequential
from driftsurf.streams import SEA, swap_labels

ROWS = 40_000
BATCH = ROWS // 100
stream = swap_labels(SEA(n_rows=ROWS, noise=0.05), start=ROWS // 2)

# %%
# Both models receive every batch twice: first to predict it, then to learn it. They do not know where the drift is.

never_forgets = ObliviousClassifier(random_state=0)
driftsurf = DriftSurfClassifier(random_state=0)
trace = prequential(stream, {"never forgets": never_forgets, "DriftSurf": driftsurf}, batch_size=BATCH)

figure, axes = plt.subplots()
for name in ("never forgets", "DriftSurf"):
    axes.plot(trace.of(name)["error"], label=name)
axes.axvline(50, color="0.5", linestyle=":", label="the rule changes")
axes.set(xlabel="batch", ylabel="share of wrong predictions")
axes.legend()

# %%
# How many batches after the change are clearly worse than those before it?

for name in ("never forgets", "DriftSurf"):
    error = trace.of(name)["error"]
    usual = error[25:50].mean()
    worse = (error[50:] > usual + 0.1).sum()
    print(f"{name}: error {usual:.3f} before; {worse} of {len(error) - 50} batches after the change are clearly worse")

# %%
# The journal says what DriftSurf did after the change, and which numbers it compared. A reaction anywhere else is a
# false alarm. It costs some training and often ends with a new model, which does no harm if the new model is soon as
# good as the old one. If it is not, use ``judge="prequential"``, which rarely discards a good model.

for change in driftsurf.journal_.transitions:
    if change.step >= 50:
        print(change.describe())
