"""
Credit: 4 % default. Is a low error worth anything?
===================================================

When defaults are rare, the rule "nobody defaults" has a low error but is useless. What matters is the cost, and it
changes when the reason for defaults changes.
"""

import matplotlib.pyplot as plt
import numpy as np

from driftsurf import DriftSurfClassifier
from driftsurf.estimators import DWMILClassifier

ROWS, BATCH = 30_000, 500
rng = np.random.default_rng(1)
X = rng.normal(size=(ROWS, 5))
income, debt = X[:, 0], X[:, 1]
risk = np.where(np.arange(ROWS) < ROWS // 2, debt - income, debt + 1.5 * X[:, 2])  # later another column matters
y = (risk + 0.5 * rng.normal(size=ROWS) > np.quantile(risk, 0.96)).astype(int)
print(f"{y.mean():.1%} default")

# %%
# A default costs as much as 20 refused good customers. A model with probabilities only needs the right threshold:
# refuse if the probability exceeds 1 / 21. DWMIL balances the classes instead.

COST = 20
driftsurf, dwmil = DriftSurfClassifier(random_state=0), DWMILClassifier(random_state=0)
refused = {name: np.zeros(ROWS, bool) for name in ("nobody", "DriftSurf, limit 1/2", "DriftSurf, limit 1/21", "DWMIL")}
driftsurf.partial_fit(X[:BATCH], y[:BATCH], classes=[0, 1])
dwmil.partial_fit(X[:BATCH], y[:BATCH], classes=[0, 1])
for start in range(BATCH, ROWS, BATCH):
    rows = slice(start, start + BATCH)
    probability = driftsurf.predict_proba(X[rows])[:, 1]
    refused["DriftSurf, limit 1/2"][rows] = probability > 0.5
    refused["DriftSurf, limit 1/21"][rows] = probability > 1 / (1 + COST)
    refused["DWMIL"][rows] = dwmil.predict(X[rows]) == 1
    driftsurf.partial_fit(X[rows], y[rows])
    dwmil.partial_fit(X[rows], y[rows])

# %%
# The figure shows the cost so far, per customer:

figure, axes = plt.subplots()
for name, refuse in refused.items():
    cost = np.where(y == 1, COST * ~refuse, refuse)
    axes.plot(np.cumsum(cost) / np.arange(1, ROWS + 1), label=name)
    found = refuse[y == 1].mean()
    print(f"{name}: error {(refuse != y).mean():.3f}, finds {found:.0%} of the defaults, cost {cost.mean():.3f}")
axes.axvline(ROWS // 2, color="0.5", linestyle=":")
axes.set(xlabel="row", ylabel="cost per customer", ylim=(0, 1.2))
axes.legend()

# %%
# By error alone, you would have chosen the wrong rule. Choose by cost, and derive the threshold from the costs.
