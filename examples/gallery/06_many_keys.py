"""
Five hundred shops: one model, or one each?
===========================================

Shops differ, and each changes at a different time. One model for all shops averages over them; ``Fleet`` keeps one
model per shop.
"""

import matplotlib.pyplot as plt
import numpy as np

from driftsurf import DriftSurfClassifier, Fleet

SHOPS, ROWS = 500, 200_000
rng = np.random.default_rng(0)
shop, X = rng.integers(SHOPS, size=ROWS), rng.normal(size=(ROWS, 4))
taste = rng.normal(size=(2, SHOPS, 4))  # of each shop, before and after its change
changes_at = rng.uniform(0.3, 0.7, size=SHOPS) * ROWS
late = (np.arange(ROWS) > changes_at[shop]).astype(int)
y = (X * taste[late, shop]).sum(axis=1) > 0

# %%
# The single model also receives the number of the shop, and learns batches of 1,000 rows. A shop has only 400 rows, so
# its model learns steps of 32.

one = DriftSurfClassifier(random_state=0)
known = np.column_stack([X, shop])
parts = [slice(start, start + 1000) for start in range(0, ROWS, 1000)]
wrong_one = np.concatenate([one.test_then_train(known[part], y[part]) != y[part] for part in parts])

fleet = Fleet()
wrong_fleet = np.concatenate([fleet.observe(shop[part], X[part], y[part]) != y[part] for part in parts])

figure, axes = plt.subplots()
for name, wrong in (("one model", wrong_one), ("a model per shop", wrong_fleet)):
    axes.plot(np.arange(len(parts)), wrong.reshape(len(parts), -1).mean(axis=1), label=name)
axes.set(xlabel="thousand rows", ylabel="share of wrong predictions", ylim=(0, 0.6))
axes.legend()

# %%
# The fleet has a table of which shops changed, and when:

table, changes = fleet.table(), fleet.transitions()
print(f"one model: error {wrong_one.mean():.3f}; a model per shop: error {wrong_fleet.mean():.3f}")
print(f"{len(table['key'])} shops, {len(changes['key'])} changes of state")
