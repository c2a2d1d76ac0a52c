"""The options of keyed runs: one definition for Python, the command line, TOML and the documentation."""

from __future__ import annotations

import inspect

import pytest

from driftsurf import registry
from driftsurf.cli.run import run as command
from driftsurf.core.options import OptionField, option_fields
from driftsurf.errors import OptionError
from driftsurf.keyed import EngineOptions, KeyedOptions

ALL = [*option_fields(KeyedOptions).values(), *option_fields(EngineOptions).values()]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_every_option_is_on_the_command_line(one: OptionField) -> None:
    flags = {flag: param for param in command.params for flag in param.opts}
    param = flags[f"--{one.name.replace('_', '-')}"]
    if one.flag is not None:  # others are shared with runs without keys, and have their help
        assert param.help == one.help


def test_every_option_of_an_engine_is_taken_by_a_registered_engine() -> None:
    taken = {name for entry in registry.entries("engine") for name in inspect.signature(entry.part).parameters}
    assert taken == {name for name in option_fields(EngineOptions) if name not in ("engine", "ttl")}


def test_options_can_be_compared_and_hashed() -> None:
    assert KeyedOptions(readmit={"a": 1}) == KeyedOptions(readmit={"a": 1}) != KeyedOptions()
    assert hash(KeyedOptions(features=("a",))) == hash(KeyedOptions(features=("a",)))


def test_features_and_drop_exclude_each_other() -> None:
    with pytest.raises(OptionError, match=r"features.*drop"):
        KeyedOptions(features=("a",), drop=("b",)).learner(("a",))
