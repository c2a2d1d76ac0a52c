"""
Old rules come back: is it worth remembering?
=============================================

Three concepts take turns. A model that starts afresh at every change learns each of them again and again; a pool of
old models can reuse one.
"""

import matplotlib.pyplot as plt

from driftsurf import DriftSurfClassifier
from driftsurf.estimators import DiversityPoolClassifier, ObliviousClassifier
from driftsurf.evaluation import prequential
from driftsurf.streams import Recurring

ROWS = 30_000
BATCH = ROWS // 200
stream = Recurring(n_rows=ROWS, period=ROWS // 20, n_features=40, noise=0.2)

models = {
    "never forgets": ObliviousClassifier(random_state=0),
    "DriftSurf": DriftSurfClassifier(random_state=0),
    "Diversity Pool": DiversityPoolClassifier(random_state=0),
}
trace = prequential(stream, models, batch_size=BATCH)

figure, axes = plt.subplots()
for name in models:
    axes.plot(trace.of(name)["error"], label=name)
for drift in stream.drift_steps(BATCH):
    axes.axvline(drift, color="0.8", linestyle=":")
axes.set(xlabel="batch", ylabel="share of wrong predictions", ylim=(0, None))
axes.legend()

# %%
# The first three turns are new to every model; from the fourth on, each concept has occurred before.

for name in models:
    error = trace.of(name)["error"]
    print(f"{name}: error {error[1:30].mean():.3f} while concepts are new, {error[30:].mean():.3f} when they return")
