"""``driftsurf serve``: learn and predict over HTTP."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from driftsurf.cli.options import GroupedCommand, collect, option_group
from driftsurf.cli.terminal import say, started
from driftsurf.core.options import choice, option_fields, options_given
from driftsurf.errors import Option, OptionError
from driftsurf.service.settings import Limits, ServedOptions, ServeOptions, ServiceOptions

if TYPE_CHECKING:
    from driftsurf.service.config import ServiceConfig


COMMON = ("name", "start_from", "label", "id", "model", "task", "port", "folder", "demo", "make_key")
RARE = (*option_fields(Limits), "smallest_rise", "drift_risk", "max_pending", "on_schema_change")


class ServeCommand(GroupedCommand):
    """The command with the old spellings of two options: --model was the name, and --strategy the algorithm."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace old spellings, with a warning."""
        typed = {arg.partition("=")[0] for arg in args}
        old = {"--strategy": "--model"} if "--strategy" in typed else {}
        if "--model" in typed and "--name" not in typed:
            old["--model"] = "--name"
        for was, now in old.items():
            meaning = "the name of the model" if now == "--name" else "the algorithm"
            say(f"warning: {meaning} is given by {now}; {was} means it only until version 0.4", err=True)
        return super().parse_args(ctx, [_respelled(arg, old) for arg in args])


def _respelled(arg: str, old: Mapping[str, str]) -> str:
    flag, equals, value = arg.partition("=")
    return f"{old.get(flag, flag)}{equals}{value}"


@click.command(cls=ServeCommand, common=COMMON, rare=RARE)
@click.argument("config", required=False, type=click.Path(path_type=Path, dir_okay=False))
@option_group(option_fields(ServeOptions), "What to serve")
@option_group(option_fields(ServedOptions), "The model")
@option_group(option_fields(ServiceOptions), "Service")
@option_group(option_fields(Limits), "Limits")
def serve(config: Path | None, **options: Any) -> None:
    """Serve models over HTTP: they predict, learn, and take labels that come later.

    CONFIG is a TOML file with models, keys, limits and alerts; docs/serve.md describes it. Without it, --name names a
    single model. Everything that was acknowledged is in the log of the model before the answer is sent, so the process
    may be killed at any time. SIGTERM lets requests end and saves the models; SIGHUP reads keys, limits and alerts of
    CONFIG again.

    Without keys, only this machine is served. --make-key makes one.
    """
    from driftsurf.service.settings import require_service

    asked = ServeOptions(**collect(ServeOptions, options))
    if asked.make_key is not None:
        _make_key(asked.make_key, asked.scopes)
        return
    require_service()
    source = click.get_current_context().get_parameter_source("folder")
    with _folder(demo=asked.demo and source is not ParameterSource.COMMANDLINE) as demo_folder:
        _serve(config, asked, options, demo_folder)


def _serve(path: Path | None, asked: ServeOptions, options: dict[str, Any], demo_folder: str | None) -> None:
    from driftsurf.runs.hooks import logging_to_stderr
    from driftsurf.service.demo import Demo
    from driftsurf.service.serve import Service

    def read() -> ServiceConfig:
        return _config(path, asked, options, demo_folder)

    config = read()
    with logging_to_stderr(config.service.log_level), Service(config, read, _note) as service:
        started()
        with contextlib.ExitStack() as demo:

            def ready() -> None:
                served = [name for name, model in service.models.items() if model.status().phase != "failed"]
                say(f"serving {', '.join(served) or 'no model'} at {service.address}")
                for line in service.described():
                    say(f"  {line}")
                if asked.demo:
                    demo.enter_context(Demo(service.models["demo"]))

            service.run(ready)
    say("ended; everything that was acknowledged is saved")


def _note(text: str) -> None:
    started()
    say(text, err=True)


@contextlib.contextmanager
def _folder(*, demo: bool) -> Iterator[str | None]:
    """Context with a folder that is removed afterwards, for the model of a demo without a folder."""
    if not demo:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="driftsurf-demo-") as folder:
        yield folder


def _config(path: Path | None, asked: ServeOptions, options: dict[str, Any], demo_folder: str | None) -> ServiceConfig:
    """Return what is served; options of the command line replace those of the file."""
    from driftsurf.service.config import ModelConfig, ServiceConfig, read_config
    from driftsurf.service.demo import DEMO_MODEL

    model = ServedOptions(**collect(ServedOptions, options))
    if [path is not None, asked.name is not None, asked.demo].count(True) != 1:
        raise OptionError("name a TOML file, a model with ", Option("name"), ", or ", Option("demo"), "; one of them")
    if asked.demo and options_given(model):
        raise OptionError(
            Option(next(iter(options_given(model)))),
            " does not go with ",
            Option("demo"),
            ", whose model has its own options",
        )
    if path is not None:
        if options_given(model):
            raise OptionError(f"{Option(next(iter(options_given(model))))} belongs to [models.NAME] of {path}")
        config = read_config(path, trusted=asked.trust_config)
    else:
        models = {"demo": DEMO_MODEL} if asked.demo else {str(asked.name): model}
        config = ServiceConfig(models={name: ModelConfig(one) for name, one in models.items()})
    given = options_given(ServiceOptions(**collect(ServiceOptions, options)))
    if demo_folder is not None:
        given["folder"] = demo_folder
    limits = options_given(Limits(**collect(Limits, options)))
    config = replace(config, service=replace(config.service, **given), limits=replace(config.limits, **limits))
    config.check()
    return config


def _make_key(name: str, scopes: tuple[str, ...]) -> None:
    """Print a new key, and the lines of the configuration that know it."""
    from driftsurf.service.settings import require_service

    require_service()
    from driftsurf.service.http.security import ALLOWED, SCOPES, new_key

    for scope in scopes:
        choice("scopes", scope, SCOPES)
    key, secret = new_key(name, scopes)  # type: ignore[arg-type]  # checked above
    key.check()
    say("The key, which is shown only now; a client sends it as Authorization: Bearer KEY")
    say(f"    {secret}")
    say("What its scopes may be; choose as few as the client needs, here or with --scopes:")
    for scope, what in ALLOWED.items():
        say(f"    {scope:8} {what}")
    say("Lines for serve.toml:")
    listed = ", ".join(f'"{scope}"' for scope in key.scopes)
    for line in ("[[keys]]", f"name = {json.dumps(key.name)}", f'sha256 = "{key.sha256}"', f"scopes = [{listed}]"):
        say(f"    {line}")
