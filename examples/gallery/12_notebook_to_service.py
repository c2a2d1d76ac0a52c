"""
From a notebook to a service: does it survive?
==============================================

A model trained in a notebook is served over HTTP, keeps learning, is killed without warning, and starts again. Is
anything lost?
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import driftsurf
from driftsurf.client import Client

ROWS = 4_000
random.seed(0)
folder = Path(tempfile.mkdtemp())


def offers(count: int, cheap_sells: bool) -> pd.DataFrame:
    """Return rows with their labels."""
    price = [random.randint(1, 99) for _ in range(count)]
    city = [random.choice(["Rome", "Oslo"]) for _ in range(count)]
    sold = ["yes" if (p < 50) == cheap_sells else "no" for p in price]
    return pd.DataFrame({"price": price, "city": city, "sold": sold})


# %%
# In the notebook, run a model over the data known so far.

offers(ROWS, cheap_sells=True).to_csv(folder / "known.csv", index=False)
run = driftsurf.run(
    folder / "known.csv", label="sold", batch_size=100, model="driftsurf:logistic", out=folder / "run", progress=False
)
print(f"in the notebook: error {run.summary.mean_error:.3f}")

# %%
# Then serve it: ``driftsurf serve --name offers --from run``. Rows have an id, and their labels arrive later.

command = [sys.executable, "-m", "driftsurf", "serve", "--name", "offers", "--from", str(folder / "run")]
command += ["--folder", str(folder / "service"), "--port", "0", "--batch-size", "100"]


def start() -> tuple["subprocess.Popen[str]", str]:
    """Start the service on a free port; return it with its address."""
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert service.stdout is not None
    return service, service.stdout.readline().split()[-1]


errors: list[float] = []


def send(client: Client, batch: int) -> int:
    """Ask for predictions, then give the labels; return the position of the labels in the log of the service."""
    frame = offers(100, cheap_sells=batch < 5)  # then customers change
    rows = [{"id": f"{batch}-{n}", "price": row.price, "city": row.city} for n, row in enumerate(frame.itertuples())]
    model = client.model("offers")
    answers = model.predict(rows)
    errors.append(float((pd.Series(answers.predictions) != frame["sold"]).mean()))
    receipt = model.label({str(row["id"]): label for row, label in zip(rows, frame["sold"], strict=True)})
    model.wait_applied(receipt["position"])
    return int(receipt["position"])


service, address = start()
with Client(address) as client:
    for batch in range(12):
        position = send(client, batch)
    before = client.model("offers").status()["version"]
service.kill()  # no warning, no time to save anything
service.communicate()

# %%
# Start the service again. It reads its log and continues where it stopped.

service, address = start()
with Client(address) as client:
    client.model("offers").wait_applied(position)
    after = client.model("offers").status()["version"]
    for batch in range(12, 18):
        send(client, batch)
    print(client.model("offers").explain())
service.terminate()
service.communicate()
print(f"{before} steps learned before it was killed, {after} after it started again")

figure, axes = plt.subplots()
axes.plot(errors, marker="o")
axes.axvline(5, color="0.5", linestyle=":", label="customers change")
axes.axvline(12, color="C1", linestyle="--", label="killed and started again")
axes.set(xlabel="batch in service", ylabel="share of wrong predictions", ylim=(0, 1))
axes.legend()
