"""
Demand with seasons: is a season a drift?
=========================================

Demand follows the seasons. To a model that does not know the season, the relation changes all the time; a model that
knows it sees only the real change.
"""

import matplotlib.pyplot as plt
import numpy as np

from driftsurf import DriftSurfRegressor

ROWS = 24_000
BATCH = ROWS // 120
rng = np.random.default_rng(0)
day = np.arange(ROWS) * (4 * 365) / ROWS  # four years
price = rng.normal(size=ROWS)
effect = np.where(day < 3 * 365, -10.0, 4.0)  # after three years a high price becomes a sign of quality
season = 30 * np.cos(2 * np.pi * day / 365)
demand = 100 + season + effect * price + 4 * rng.normal(size=ROWS)

# %%
# Train the same regression with and without two columns for the time of the year.

year = np.column_stack([np.cos(2 * np.pi * day / 365), np.sin(2 * np.pi * day / 365)])
inputs = {"price alone": price[:, None], "price and time of year": np.column_stack([price, year])}
figure, axes = plt.subplots()
for name, X in inputs.items():
    model = DriftSurfRegressor(random_state=0)
    parts = [slice(start, start + BATCH) for start in range(0, ROWS, BATCH)]
    predicted = np.concatenate([model.test_then_train(X[part], demand[part]) for part in parts])
    squares = ((predicted - demand) ** 2).reshape(-1, BATCH).mean(axis=1)
    axes.plot(day[::BATCH] / 365, np.sqrt(squares), label=name)
    entered = [change.step * BATCH * 4 / ROWS for change in model.journal_.transitions if change.kind == "entered"]
    times = ", ".join(f"{when:.2f}" for when in entered) or "never"
    print(f"{name}: RMSE {np.sqrt(squares[1:].mean()):.1f}; reacted {len(entered)} times, in year {times}")
axes.axvline(3, color="0.5", linestyle=":", label="price means something else")
axes.set(xlabel="year", ylabel="RMSE of a batch", ylim=(0, 40))
axes.legend()

# %%
# The noise alone has an RMSE of 4. Give the model what you know about the calendar, and what remains is drift.
