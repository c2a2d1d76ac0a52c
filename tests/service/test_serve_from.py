"""A model that begins with a finished run reads rows as the run did, and its folder belongs to that run."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driftsurf.errors import BadRowError, InputError, OptionError, RunFolderError
from driftsurf.evaluation.trace import Trace
from driftsurf.runs.api import run

pytest.importorskip("msgspec")

from driftsurf.service.config import ModelConfig, ServiceConfig, formats_of
from driftsurf.service.model import ServedModel, open_model
from driftsurf.service.serve import Service
from driftsurf.service.settings import Keeping, ModelSettings, ServedOptions, ServiceOptions
from driftsurf.service.wire.formats import Format, Purpose

LEARNED = b"day,price,late\n" + b'03.02.2025,"4,5",yes\n04.02.2025,"1,5",no\n' * 20
KEEPING = Keeping(least_free_bytes=0, checkpoint_seconds=1000.0)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run over a file with its own ideas of ids, dates and decimal marks."""
    folder = tmp_path_factory.mktemp("finished")
    lines = ["order;day;price;note;late"]
    lines += [f"o-{k};{k % 28 + 1:02}.03.2025;{k % 7},5;x;{'yes' if k % 7 > 3 else 'no'}" for k in range(240)]
    (folder / "rows.csv").write_text("\n".join(lines))
    found = run(
        folder / "rows.csv", label="late", id="order", drop=["note"], decimal=",", date_formats=["%d.%m.%Y"],
        missing=["none"], batch_size=40, model="driftsurf", out=folder / "run",
    )  # fmt: skip
    assert found.folder is not None
    return found.folder


def opened(folder: Path, start: Path | None, **settings: Any) -> ServedModel:
    asked = ModelSettings(start_from=None if start is None else str(start), **settings)
    model = open_model(folder, asked, KEEPING)
    assert model.wait_ready(60)
    return model


def rows_of(model: ServedModel, format: Format, body: bytes, purpose: Purpose = "predict", **options: Any) -> Any:
    return formats_of(model.blueprint, ServedOptions(**options)).reader(model.snapshot, purpose, format)(
        body, "fail", 100
    )


def test_rows_are_read_as_in_the_run(finished: Path, tmp_path: Path) -> None:
    with closing(opened(tmp_path / "m", finished)) as model:
        assert model.blueprint.batch_size == 40
        found = rows_of(model, "csv", b'order,day,price,note\no-1,03.02.2025,"3,5",k\no-2,none,"1,5",k\n')
        assert found.ids == ["o-1", "o-2"]
        assert found.table["price"].values.tolist() == [3.5, 1.5]
        assert found.table["day"].missing().tolist() == [False, True]
        assert "note" not in found.table.columns
        found = rows_of(model, "json", b'{"rows": [{"order": "o-1", "day": "03.02.2025", "price": 3.5}]}')
        assert found.ids == ["o-1"]
    with closing(opened(tmp_path / "m", None)) as model:  # later starts need not name the run
        assert rows_of(model, "csv", b'order,day,price\no-1,03.02.2025,"3,5"\n').ids == ["o-1"]


def test_options_come_before_the_run(finished: Path, tmp_path: Path) -> None:
    with closing(opened(tmp_path / "m", finished, batch_size=50)) as model:
        assert model.blueprint.batch_size == 50
        body = b'{"rows": [{"key": "o-1", "day": "2025/02/03", "price": 3.5}]}'
        assert rows_of(model, "json", body, id="key", date_formats=("%Y/%m/%d",)).ids == ["o-1"]
        with pytest.raises(BadRowError, match="--id order") as caught:
            rows_of(model, "json", b'{"rows": [{"order": "o-1", "day": "2025-02-03", "price": 3.5}]}', id="key")
        assert caught.value.column == "order"
        with pytest.raises(OptionError, match="price"):
            formats_of(model.blueprint, ServedOptions(id="price"))
    with closing(opened(tmp_path / "m", finished)) as model:  # what the folder fixed, not what the run had
        assert model.blueprint.batch_size == 50


def test_errors_name_the_option_and_the_separator(finished: Path, tmp_path: Path) -> None:
    with closing(opened(tmp_path / "m", finished)) as model:
        with pytest.raises(BadRowError, match="--date-format") as caught:
            rows_of(model, "json", b'{"rows": [{"day": "3/2/2025", "price": 3.5}]}')
        assert caught.value.column == "day"
        with pytest.raises(BadRowError, match="'order'") as caught:
            rows_of(model, "json", b'{"rows": [{"id": "o-1", "day": "03.02.2025", "price": 3.5}]}')
        assert caught.value.column == "id"
        for separator in (";", "\t"):
            with pytest.raises(InputError, match="separated by commas"):
                rows_of(model, "csv", "order;day;price\no-1;03.02.2025;3,5\n".replace(";", separator).encode())
        with pytest.raises(BadRowError, match="1,5") as caught:
            rows_of(model, "csv", b"day,price\n03.02.2025,dear\n")
        assert caught.value.column == "price"


def test_another_run_is_not_taken_for_the_one_of_the_folder(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path / "m", finished).close()
    with pytest.raises(OptionError, match="another name or folder") as caught:
        open_model(tmp_path / "m", ModelSettings(start_from="runs/second"), KEEPING)
    assert str(finished) in str(caught.value)
    assert "runs/second" in str(caught.value)
    opened(tmp_path / "m", finished).close()
    monkeypatch.chdir(finished.parent)
    opened(tmp_path / "m", Path(finished.name)).close()


def service(folder: Path, port: int = 0, **models: ServedOptions) -> Service:
    noted.clear()
    config = ServiceConfig(
        ServiceOptions(folder=folder, port=port),
        {name: ModelConfig(one) for name, one in models.items()},
        keeping=KEEPING,
    )
    return Service(config, note=noted.append)


noted: list[str] = []
"""What the last service said while it started."""


def test_a_misspelt_model_is_not_made(finished: Path, tmp_path: Path) -> None:
    with service(tmp_path, delivery=ServedOptions(start_from=finished)) as served:
        served.run(served.stop)
        assert noted[0].startswith("making a new model 'delivery'")
        assert list(served.described()) == ["delivery: ids are in the column `order`; steps of 40 rows"]
    with pytest.raises(OptionError, match="'delivery'") as caught, service(tmp_path, delivry=ServedOptions()):
        pass
    assert "delivry" in str(caught.value)
    assert not (tmp_path / "delivry").exists()
    with service(tmp_path, delivery=ServedOptions()):
        assert not any("making" in text for text in noted)


def test_a_service_does_not_begin_with_a_run_that_does_not_exist(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    asked = ModelConfig(ServedOptions(start_from=str(tmp_path / "nothing")))
    config = ServiceConfig(ServiceOptions(folder=folder, port=0), {"sales": asked})
    with pytest.raises(RunFolderError, match="nothing"), Service(config):
        pass
    assert not folder.exists()


def test_a_start_that_fails_makes_no_model(finished: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=str(port)), service(tmp_path / "models", port, sales=SALES):
            pass
    assert not (tmp_path / "models" / "sales").exists()


SALES = ServedOptions(label="sold")


def test_the_error_and_the_last_change_of_the_run_are_known_until_the_model_learns(
    finished: Path, tmp_path: Path
) -> None:
    pytest.importorskip("httptools")
    httpx = pytest.importorskip("httpx")
    trace = Trace.load(finished / "trace.csv")
    own = trace.counted(trace.models[0])
    mean = own["errors"].sum() / own["rows"].sum()
    options = ServedOptions(start_from=str(finished))
    config = ServiceConfig(ServiceOptions(folder=tmp_path, port=0), {"m": ModelConfig(options)}, keeping=KEEPING)
    for _ in range(2):  # also when the folder is opened again
        ready = threading.Event()
        with Service(config) as service:
            thread = threading.Thread(target=service.run, args=(ready.set,))
            thread.start()
            try:
                assert ready.wait(60)
                with httpx.Client(base_url=f"{service.address}/v1/models/m", timeout=60) as client:
                    state = client.get("").json()
                    assert state["usual_error"] == pytest.approx(mean)
                    assert state["error"] is not None
                    assert state["trivial_error"] is not None
                    assert state["error_rows"] > 0
                    for query in ("", "?all=1"):
                        answer = client.get(f"/explain{query}")
                        assert answer.status_code == 200
                        assert "began with a run" in answer.json()["text"]
                        assert "after step 5" in answer.json()["text"]
                    assert client.get("/explain?step=3").status_code == 409
            finally:
                service.stop()
                thread.join()
    with closing(opened(tmp_path / "m", None)) as model:
        reader = rows_of(model, "csv", LEARNED, "learn")
        model.learn(reader.table, reader.labels).result(60)
        while not model.status().steps:
            threading.Event().wait(0.01)
        assert model.status().error_rows == 40
        assert "began with a run" not in model.explain()
