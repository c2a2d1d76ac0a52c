"""
My CSV: can I run a model over it as it is?
===========================================

A table with dates, text, numbers and gaps, whose label is a column. What happens to it, and what did the model do?
"""

import csv
import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import matplotlib.pyplot as plt

import driftsurf

ROWS = 12_000
folder = Path(tempfile.mkdtemp())
random.seed(0)
with (folder / "sales.csv").open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["at", "price", "city", "sold"])
    for hour in range(ROWS):
        price, city = random.gauss(100, 20), random.choice(["Oslo", "Rome", "Lima"])
        expensive = price > (90 if city == "Rome" else 110)
        sold = "yes" if expensive == (hour >= ROWS // 2) else "no"
        shown = "" if random.random() < 0.02 else f"{price:.2f}"  # some prices are missing
        table.writerow([datetime(2025, 1, 1) + timedelta(hours=hour), shown, city, sold])

# %%
# One call reads the columns, predicts each batch of rows, scores it and learns from it. The same as a command:
# ``driftsurf run sales.csv --label sold --batch-size 200 --model recommended-linear``.

result = driftsurf.run(
    folder / "sales.csv",
    label="sold",
    batch_size=200,
    drop=["at"],
    model="recommended-linear",
    out=folder / "run",
    progress=False,
)
print(f"error {result.summary.mean_error:.3f} over {result.n_steps} batches")
for change in result.transitions:
    print(change.describe())

# %%
# The error of each batch; buyers changed their minds halfway.

figure, axes = plt.subplots()
axes.plot(result.trace.of(result.trace.models[0])["error"])
axes.set(xlabel="batch of 200 rows", ylabel="share of wrong predictions")

# %%
# The folder of the run holds the model and this page, which is one file and works offline. Hover over it, or move
# through it with the arrow keys:

report_page = folder / "run" / "report.html"
