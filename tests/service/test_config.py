"""The configuration of a service, and the command that reads it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from driftsurf.cli import main
from driftsurf.errors import DriftsurfError, MissingExtraError, OptionError

pytest.importorskip("msgspec")

from driftsurf.service.config import read_config
from driftsurf.service.http.security import SCOPES, digest_of
from driftsurf.service.settings import require_service

GUIDE = Path(__file__).parent.parent.parent / "docs/serve.md"
MODEL = '[models.sales]\nlabel = "sold"\n'


def read(tmp_path: Path, text: str, **options: Any) -> Any:
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return read_config(path, **options)


def test_the_example_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / "operators").write_text("a secret\n")
    text = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)[0]
    config = read(tmp_path, text.replace("/run/secrets/operators", str(tmp_path / "operators")))
    assert (config.service.host, list(config.models)) == ("0.0.0.0", ["sales", "delays"])
    assert config.models["sales"].options.settings().start_from == "runs/sales"
    assert config.models["sales"].challengers == {"trees": {"model": "driftsurf", "learner": "lightgbm"}}
    assert [key.name for key in config.keys] == ["shop", "operators"]
    assert config.keys[1].sha256 == digest_of("a secret")
    assert config.keys[1].expires is not None
    assert config.keeping.checkpoint_seconds == 30


def test_the_file_that_compose_mounts(tmp_path: Path) -> None:
    """Its comments are examples: with them, the file is as good as without."""
    text = (GUIDE.parent.parent / "deploy/serve.toml").read_text(encoding="utf-8")
    (tmp_path / "keys").write_text(f'[[keys]]\nname = "prometheus"\nsha256 = "{"0" * 64}"\nscopes = ["read"]\n')
    (tmp_path / "hook").write_text("a secret\n")
    text = text.replace("/run/secrets", str(tmp_path))
    config = read(tmp_path, text)
    assert (config.service.host, config.service.port, str(config.service.folder)) == ("0.0.0.0", 8470, "/models")
    assert [key.name for key in config.keys] == ["prometheus"]
    assert config.alerts.channels == {}
    with_channel = read(tmp_path, re.sub(r"^# (\[|kind|url|secret)", r"\1", text, flags=re.M))
    assert list(with_channel.alerts.channels) == ["ops"]


def test_keys_in_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text(f'[[keys]]\nname = "shop"\nsha256 = "{"0" * 64}"\nscopes = ["read"]\n')
    assert read(tmp_path, f'keys = "{tmp_path / "keys.toml"}"\n{MODEL}').keys[0].name == "shop"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "folder = 5\n" + MODEL,
        "prot = 8470\n" + MODEL,
        "port = 99999\n" + MODEL,
        'port = "8470"\n' + MODEL,
        "models = 5",
        "[models]\nsales = 5",
        '[models."../evil"]\nlabel = "sold"',
        '[models.".hidden"]\nlabel = "sold"',
        '[models.sales]\nlabel = "sold"\nbatch-size = 0',
        '[models.sales]\nlabel = "sold"\nbatch-size = true',
        '[models.sales]\nlabel = "sold"\ntask = "guess"',
        '[models.sales]\nlabel = "sold"\ncolumns = 5',
        '[models.sales]\nlabel = "sold"\ncategorical = "city"',
        '[models.sales]\nlabel = "sold"\nlearner = "evil.module:Class"',
        MODEL + "[models.sales.challengers]\ntrees = 5",
        MODEL + "[models.sales.challengers.trees]\nkind = 5",
        MODEL + "[limits]\nbody-bytes = 1",
        MODEL + "[limits]\nsize = 1",
        MODEL + "[keeping]\nrestore-points = 0",
        MODEL + "[keeping]\nsize = 0",
        MODEL + "[alerts]\nsize = 0",
        "keys = 5\n" + MODEL,
        MODEL + "[[keys]]\nsha256 = 'x'",
        MODEL + "[[keys]]\nname = 'a'",
        MODEL + "[[keys]]\nname = 'a'\nkey = 'a plain secret'\nscopes = ['read']",
        MODEL + "[[keys]]\nname = 'a'\nsha256 = 'x'\nscopes = ['read']",
        MODEL + f"[[keys]]\nname = 'a'\nsha256 = '{'0' * 64}'\nscopes = ['fly']",
        MODEL + f"[[keys]]\nname = 'a'\nsha256 = '{'0' * 64}'\nscopes = 'read'",
        MODEL + f"[[keys]]\nname = 'a'\nsha256 = '{'0' * 64}'\nscopes = ['read']\nrate = 'fast'",
        MODEL + f"[[keys]]\nname = 'a'\nsha256 = '{'0' * 64}'\nscopes = ['read']\nburst = 1.5",
        MODEL + f"[[keys]]\nname = 'a'\nsha256 = '{'0' * 64}'\nscopes = ['read']\nexpires = 'soon'",
        MODEL + f"[[keys]]\nname = 'a'\nsha256 = '{'0' * 64}'\nscopes = ['read']\n" * 2,
    ],
)
def test_mistakes_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DriftsurfError) as caught:
        read(tmp_path, text)
    assert "a plain secret" not in str(caught.value)


def test_classes_of_other_packages_need_trust(tmp_path: Path) -> None:
    text = MODEL + 'learner = "other.module:Class"'
    assert read(tmp_path, text, trusted=True).models["sales"].options.learner == "other.module:Class"
    with pytest.raises(OptionError, match="trust"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--name", "sales", "--demo"],
        ["--name", "sales", "--label", "sold", "--host", "0.0.0.0"],
        ["--name", "../sales", "--label", "sold"],
        ["--name", "sales", "--label", "sold", "--column", "price=money"],
        ["missing.toml"],
    ],
)
def test_commands_that_cannot_be_carried_out(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_a_key_is_made_and_only_its_digest_is_for_the_configuration(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["serve", "--make-key", "shop"])
    secret = re.findall(r"ds_[\w-]+", result.output)[0]
    lines = "\n".join(line.strip() for line in result.output.splitlines()[-4:])
    key = read(tmp_path, MODEL + lines).keys[0]
    assert (key.name, key.sha256) == ("shop", digest_of(secret))
    assert key.scopes == ("predict", "learn")
    assert secret not in lines


def test_a_key_is_made_with_the_scopes_that_are_asked_for(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["serve", "--make-key", 'a "shop"', "--scopes", "read,operate"])
    key = read(tmp_path, MODEL + "\n".join(line.strip() for line in result.output.splitlines()[-4:])).keys[0]
    assert (key.name, key.scopes) == ('a "shop"', ("read", "operate"))
    assert all(f"    {scope} " in result.output for scope in SCOPES)
    wrong = CliRunner().invoke(main, ["serve", "--make-key", "shop", "--scopes", "read,write"])
    assert wrong.exit_code == 2
    assert "'write'" in wrong.output
    assert "ds_" not in wrong.output


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    with pytest.raises((MissingExtraError, ValueError)):
        require_service()


SOURCE = MODEL + '[models.sales.sources.orders]\naddress = "redis://host/0/orders"\nkind = "predict"\n'


def test_sources_and_sinks(tmp_path: Path) -> None:
    text = SOURCE + 'id = "order"\nbatch-size = 50\nbatch-wait = 1\ndrop = ["at"]\n'
    text += '[models.sales.sinks.scores]\naddress = "postgresql://host/dw/scores"\nkind = "predictions"\n'
    sales = read(tmp_path, text).models["sales"]
    assert (sales.sources["orders"].id, sales.sources["orders"].batch_size) == ("order", 50)
    assert sales.sources["orders"].drop == ("at",)
    assert sales.sinks["scores"].kind == "predictions"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (SOURCE + "batchsize = 5\n", "batch-size"),
        (SOURCE.replace('"predict"', '"rows"'), "'rows'"),
        (SOURCE.replace('kind = "predict"\n', ""), "learn"),
        (SOURCE.replace("redis://host/0/orders", ""), "address"),
        (SOURCE + 'format = "csv"\n', "names"),
        (SOURCE + 'format = "xml"\n', "'xml'"),
        (SOURCE + 'names = ["a"]\n', "names"),
        (SOURCE + "batch-size = 0\n", "batch_size"),
        (SOURCE + "batch-size = 100_000\n", "100,000"),
        (SOURCE.replace("sources.orders", 'sources."a/b"'), "a/b"),
        (SOURCE + "[keeping]\nidempotency-keys = 10\n", "idempotency-keys"),
        (SOURCE.replace("sources", "sinks"), "'predict'"),
        (MODEL + "sources = 3\n", "sources"),
    ],
)
def test_sources_that_cannot_be_used(tmp_path: Path, text: str, value: str) -> None:
    with pytest.raises(OptionError) as caught:
        read(tmp_path, text)
    assert value in str(caught.value)
