"""
Wrong labels: can somebody make my model forget?
================================================

Nothing drifts here, but one batch in ten has half of its labels flipped, by noise or on purpose. A strategy that
resets the model at every sign of drift discards a good model each time.
"""

import matplotlib.pyplot as plt
import numpy as np

from driftsurf import DriftSurfClassifier
from driftsurf.estimators import ResetOnDriftClassifier

ROWS, BATCH = 30_000, 500
rng = np.random.default_rng(0)
X = rng.normal(size=(ROWS, 20))
true = (X @ rng.normal(size=20) + rng.normal(size=ROWS) > 0).astype(int)
given = true.copy()
given.reshape(-1, BATCH)[5::10, : BATCH // 2] ^= 1  # half of every tenth batch

# %%
# Predictions are scored against the true labels, which the models never see in the attacked batches.
# ``judge="prequential"`` compares the two models of DriftSurf by their loss on rows before learning them.

models = {
    "ADWIN, resets": ResetOnDriftClassifier(random_state=0),
    "DriftSurf, Algorithm 1": DriftSurfClassifier(judge="training", random_state=0),
    "DriftSurf, prequential": DriftSurfClassifier(judge="prequential", random_state=0),
}
figure, axes = plt.subplots()
for name, model in models.items():
    parts = [slice(start, start + BATCH) for start in range(0, ROWS, BATCH)]
    wrong = np.array([(model.test_then_train(X[part], given[part]) != true[part]).mean() for part in parts])
    discarded = sum(change.kind in ("switched", "reset") for change in model.journal_.transitions)
    axes.plot(wrong, label=name)
    print(f"{name}: error {wrong[1:].mean():.3f}, {discarded} models discarded")
axes.set(xlabel="batch", ylabel="share of wrong predictions, true labels", ylim=(0, None))
axes.legend()

# %%
# If labels may be wrong in bursts, use the prequential judge. It decides a batch later, which costs a little accuracy
# where drifts are real.
