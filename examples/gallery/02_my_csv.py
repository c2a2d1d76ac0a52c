"""
My CSV: can I run a model over it as it is?
===========================================

A table has dates, text, numbers and gaps, and its label is a column. How is it read, and what does the model do?
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
# One call reads the columns, then predicts, scores and learns each batch of rows. The equivalent command is
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
# The figure shows the error of each batch. Buyers changed their minds halfway.

figure, axes = plt.subplots()
axes.plot(result.trace.of(result.trace.models[0])["error"])
axes.set(xlabel="batch of 200 rows", ylabel="share of wrong predictions")

# %%
# The run folder contains the model and this page, which is a single file and works offline. Hover over it, or use the
# arrow keys:

report_page = folder / "run" / "report.html"
