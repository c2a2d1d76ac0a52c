"""The help of commands with many options, and spellings of options that were replaced."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from commands import invoke

from driftsurf.cli import main
from driftsurf.cli.options import GroupedCommand
from driftsurf.errors import DriftsurfWarning, OptionError
from driftsurf.service.config import read_config

LONG = ["run", "serve", "compare", "predict"]
MOST_OPTIONS = 10
"""Options that ``--help`` explains at most, besides itself."""


def command_of(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def flags(command: str) -> list[str]:
    """Return the options of a command as they are typed."""
    return [one.opts[0] for one in command_of(command).params if isinstance(one, click.Option)]


def explained(help: str) -> list[str]:
    """Return the options that a help begins a line with."""
    return [line.split()[0].rstrip(",") for line in help.splitlines() if line.startswith("  -")]


@pytest.mark.parametrize("command", LONG)
def test_the_help_explains_few_options_and_names_the_others_by_group(command: str) -> None:
    text = invoke(command, "--help").output
    first = text.partition("Options that matter most")[2].partition("Further options")[0]
    found = [one for one in explained(first) if one != "-h"]
    assert len(set(found)) <= MOST_OPTIONS
    assert "--help=all" in text
    shown = command_of(command)
    assert isinstance(shown, GroupedCommand)
    words = text.replace(",", " ").split()
    rare = {one.opts[0] for one in shown.params if one.name in shown.rare}
    assert [one for one in flags(command) if one not in rare and one not in words] == []


@pytest.mark.parametrize("command", LONG)
def test_the_help_of_all_options_has_each_of_them(command: str) -> None:
    words = invoke(command, "--help=all").output.replace(",", " ").split()
    assert [one for one in flags(command) if one not in words] == []


@pytest.mark.parametrize("command", sorted({*main.list_commands(click.Context(main))} - {*LONG}))
def test_the_help_of_other_commands_is_short(command: str) -> None:
    assert len(flags(command)) <= 15
    assert "--help=all" not in invoke(command, "--help").output


@pytest.mark.filterwarnings("default:variant='authors':FutureWarning")
def test_rare_options_still_work_on_the_command_line(tmp_path: Path) -> None:
    found = invoke("run", "sea0", "--rows", 2000, "--l2", 0.01, "--variant", "authors", "--out", tmp_path / "run")
    assert found.exit_code == 0, found.output
    assert found.stderr.count("'driftsurf-authors'") == 1


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (["--name", "../sales", "--model", "aue"], []),
        (["--model", "../sales"], ["--name"]),
        (["--model=../sales", "--strategy=aue"], ["--name", "--model"]),
        (["--name", "../sales", "--strategy", "aue"], ["--model"]),
    ],
)
def test_serve_takes_a_name_and_an_algorithm_in_old_spellings_too(words: list[str], warned: list[str]) -> None:
    found = invoke("serve", *words)  # a name that cannot be one, so that nothing is served
    assert found.exit_code != 0
    assert "'../sales'" in found.stderr
    warnings = [line for line in found.stderr.splitlines() if line.startswith("warning")]
    assert sorted(line.partition(" is given by ")[2].partition(";")[0] for line in warnings) == sorted(warned)
    assert all("0.4" in line for line in warnings)


def test_the_configuration_of_a_service_takes_the_algorithm_in_its_old_spelling_too(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('[models.sales]\nlabel = "sold"\nmodel = "aue"\n')
    assert read_config(file).models["sales"].options.model == "aue"
    file.write_text('[models.sales]\nlabel = "sold"\nstrategy = "aue"\n')
    with pytest.warns(DriftsurfWarning, match=r"model.*0\.4"):
        assert read_config(file).models["sales"].options.model == "aue"
    file.write_text('[models.sales]\nlabel = "sold"\nstrategy = "aue"\nmodel = "ddm"\n')
    with pytest.raises(OptionError, match="strategy"):
        read_config(file)
