"""Options of commands: the same ones on the command line, in TOML, in Python and in the documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from commands import invoke
from tools.generate.options_page import options_page

import driftsurf
from driftsurf.cli.compare import compare as compare_command
from driftsurf.cli.compare import reproduce as reproduce_command
from driftsurf.cli.options import GroupedOption
from driftsurf.cli.run import run as run_command
from driftsurf.comparison.compare import compare
from driftsurf.comparison.inputs import Input
from driftsurf.comparison.options import COMPARE_GROUPS, CompareOptions, InputOptions, WorkOptions
from driftsurf.core.options import OptionGroup, option_fields, python_help
from driftsurf.data import ReadingOptions
from driftsurf.errors import OptionError
from driftsurf.reproduction.options import REPRODUCE_GROUPS, ReproduceOptions, ReproduceWorkOptions
from driftsurf.reproduction.reproduce import reproduce
from driftsurf.runs.options import GROUPS, RunOptions

ROOT = Path(__file__).parents[2]
FIELDS = {name: field for group in GROUPS for name, field in group.fields.items()}


def test_no_two_groups_define_an_option_of_the_same_name() -> None:
    assert len(FIELDS) == sum(len(group.fields) for group in GROUPS)


def test_command_line_has_every_option_under_the_heading_of_its_group() -> None:
    params = {param.name: param for param in run_command.params if isinstance(param, click.Option)}
    own = {"config", "write_config", "trust_config", "quiet"}
    assert set(params) == {name for name, field in FIELDS.items() if field.flag is not None} | own
    for group in GROUPS:
        for name, field in group.fields.items():
            if field.flag is not None:
                param = params[name]
                assert isinstance(param, GroupedOption)
                assert (param.opts[0], param.section, param.help) == (field.flag, group.title, field.help)
    text = invoke("run", "--help=all").output
    assert [group.title for group in GROUPS if f"{group.title}:\n" not in text] == []


def test_python_signature_and_docstring_have_every_option_in_order() -> None:
    parameters = inspect.signature(driftsurf.run).parameters
    assert list(parameters)[: len(FIELDS) + 1] == ["source", *FIELDS]
    assert [parameters[name].annotation for name in FIELDS] == [field.annotation for field in FIELDS.values()]
    lines = (driftsurf.run.__doc__ or "").splitlines()
    described = lines[lines.index("    Parameters") : lines.index("    Returns")]
    assert [line.strip() for line in described[2::2]] == [*parameters, ""]
    assert described[described.index("    follow_for") + 1].strip() == python_help(FIELDS["follow_for"].help)
    assert not [line for line in described[2:] if "--" in line and "``--" not in line]


def test_misspelled_and_missing_arguments_are_named_with_the_function() -> None:
    run: Any = driftsurf.run
    for arguments, named in (
        ({"source": "a.csv", "lable": "y"}, ("run()", "'lable'", "'label'")),
        ({"source": "a.csv", "xyzzy": 1}, ("run()", "'xyzzy'")),
        ({"label": "y"}, ("run()", "'source'")),
    ):
        with pytest.raises(TypeError) as error:
            run(**arguments)
        assert [name for name in named if name not in str(error.value)] == []
    with pytest.raises(TypeError, match=r"run\(\) too many positional arguments"):
        run("a.csv", "label")


def test_defaults_of_the_python_signature_are_those_of_the_options() -> None:
    parameters = inspect.signature(driftsurf.run).parameters
    for name, field in FIELDS.items():
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == field.default
    assert RunOptions.of().given() == {}


@pytest.mark.parametrize(
    ("command", "groups"), [(compare_command, COMPARE_GROUPS), (reproduce_command, REPRODUCE_GROUPS)]
)
def test_compare_and_reproduce_have_every_option_under_the_heading_of_its_group(
    command: click.Command, groups: tuple[OptionGroup, ...]
) -> None:
    params = {param.name: param for param in command.params if isinstance(param, click.Option)}
    flagged = {
        name: (field, group) for group in groups for name, field in group.fields.items() if field.flag is not None
    }
    assert set(params) == {*flagged, "config", "write_config", "trust_config", "quiet"}
    text = invoke(command.name, "--help=all").output
    for name, (field, group) in flagged.items():
        param = params[name]
        assert isinstance(param, GroupedOption)
        assert (param.opts[0], param.section, param.help) == (field.flag, group.title, field.help)
        assert f"{group.title}:\n" in text
        if not field.repeated and not field.pairs and field.default is not None:
            assert str(param.default) == str(field.default)


@pytest.mark.parametrize(
    ("function", "options", "other"),
    [
        (compare, CompareOptions, set[str]()),
        (compare, WorkOptions, {"jobs", "cluster", "out"}),
        (reproduce, ReproduceOptions, set[str]()),
        (reproduce, ReproduceWorkOptions, {"jobs", "cluster", "out"}),
        (Input, InputOptions, set[str]()),
        (Input, ReadingOptions, {"kinds"}),
    ],
)
def test_functions_behind_compare_and_reproduce_take_the_same_options(
    function: Callable[..., Any], options: type, other: set[str]
) -> None:
    """The folder is an argument of its own, a cluster a context, and a library uses one process unless asked."""
    parameters = inspect.signature(function).parameters
    for name, field in option_fields(options).items():
        if name not in other:
            assert (parameters[name].default, parameters[name].annotation) == (field.default, field.annotation)
    assert "out" not in parameters
    assert "jobs" not in other or parameters["jobs"].default == 1


def test_defaults_of_compare_and_reproduce_are_those_of_the_paper_and_of_a_single_trial() -> None:
    assert (WorkOptions().trials, ReproduceWorkOptions().trials) == (1, 5)
    assert (WorkOptions().out, ReproduceWorkOptions().out) == (None, "reproduction")
    assert list(option_fields(WorkOptions)) == list(option_fields(ReproduceWorkOptions))


def test_documentation_of_options_is_current() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == options_page(), "run: make generate"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"lable": "y"}, ("'lable'", "'label'")),
        ({"every": 0}, ("every", "0")),
        ({"keep": 1}, ("keep", "1", "2")),
        ({"timeout": -1.0, "delay": 1}, ("timeout", "-1")),
        ({"variant": "mine"}, ("'mine'", "'authors'")),
        ({"drop": "id"}, ("drop", "'id'")),
        ({"kinds": "id"}, ("kinds", "'id'")),
    ],
)
def test_wrong_values_are_named_in_python_too(options: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(OptionError) as error:
        RunOptions.of(**options).check_tables("a.csv")
    assert [name for name in named if name not in str(error.value)] == []


def test_lists_of_python_become_tuples() -> None:
    options = RunOptions.of(drop=["id"], features=["x"], kinds={"zip": "text"})
    assert options.reading == ReadingOptions(drop=("id",), kinds={"zip": "text"})
    assert options.features == ("x",)
    assert options.given("keyed") == {"features": ("x",)}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("source = ", ("run.toml",)),
        ("sauce = 'a.csv'", ("'sauce'", "source", "label")),
        ("label = 'y'", ("'source'",)),
        ("source = 'a.csv'\nset = 3", ("set", "3")),
        ("source = 'a.csv'\ndrop = 'x'", ("drop", "'x'")),
        ("source = 'a.csv'\nseed = [1]", ("seed", "[1]")),
        ("source = 'a.csv'\nseed = 'x'", ("--seed", "'x'")),
        ("source = ['a.csv']", ("source", "['a.csv']")),
    ],
)
def test_mistake_in_a_toml_file_is_named(text: str, named: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(text)
    result = invoke("run", tmp_path / "run.toml")
    assert result.exit_code in (1, 2)
    message = " ".join(result.output.split())
    assert [name for name in named if name not in message] == [], message


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("run", "learner = 'os:system'\n[set]\ncommand = 'touch ran'"),
        ("run", "learner = 'os.system(command=\"touch ran\")'"),
        ("run", "model = 'driftsurf:os.system(command=\"touch ran\")'"),
        ("run", "model = 'driftsurf(threshold=0.2):sklearn.tree:DecisionTreeClassifier(max_depth=3)'"),
        ("run", "on-transition = 'touch ran'"),
        ("run", "key = 'k'\nsequence = 's'\nmaster = 'spark://elsewhere:7077'"),
        ("compare", "models = 'aue, oblivious:os.system(command=\"touch ran\")'"),
        ("compare", "models = 'river:tree.HoeffdingTreeClassifier'"),
        ("compare", "cluster = 'tcp://elsewhere:8786'"),
        ("reproduce", "cluster = 'tcp://elsewhere:8786'"),
    ],
)
def test_a_toml_file_runs_no_code_unless_it_is_trusted(
    command: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("x,k,s,y\n" + "".join(f"{i},{i % 2},{i},{i % 3}\n" for i in range(60)))
    argument = {"run": "source = 'rows.csv'\nlabel = 'y'", "compare": "sources = ['rows.csv']\nlabel = 'y'"}
    Path("given.toml").write_text(f"{argument.get(command, '')}\n{line}\n")
    words = [command, "given.toml"] if command != "reproduce" else [command, "--config", "given.toml"]
    refused = invoke(*words)
    assert refused.exit_code == 2
    assert "--trust-config" in refused.output
    assert not Path("ran").exists()
    accepted = invoke(*words, "--trust-config", "--write-config", "again.toml")
    assert accepted.exit_code == 0, accepted.output
    assert "trust" not in Path("again.toml").read_text()
    Path("sly.toml").write_text(f"trust-config = true\n{Path('given.toml').read_text()}")
    assert invoke(*(word.replace("given", "sly") for word in words)).exit_code in (1, 2)
    assert not Path("ran").exists()


def test_every_kind_of_option_survives_a_toml_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words: list[Any] = [
        "--label",
        "y > 1",
        "--drop",
        "a",
        "--drop",
        "b",
        "--kind",
        "c=text",
        "--set",
        "l2=0.5",
        "--no-greedy",
    ]
    words += ["--batch-size", 50, "--on-bad-row", 3, "--out", "r", "--delay", 2, "--features", "p,q", "--no-raw"]
    assert invoke("run", "a.csv", *words, "--write-config", "run.toml").exit_code == 0
    text = Path("run.toml").read_text()
    assert invoke("run", "run.toml", "--write-config", "again.toml").exit_code == 0
    assert Path("again.toml").read_text() == text
    for line in ("batch-size = 50", "greedy = false", "raw = false", 'drop = ["a", "b"]', '[kind]\n"c" = "text"'):
        assert line in text


def test_compare_and_reproduce_take_their_options_from_a_toml_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words: list[Any] = ["sea10", "mixed", "--models", "majority,driftsurf:softmax(l2=0.1,seed=1)", "--trials", 2]
    assert invoke("compare", *words, "--rows", 200, "--out", "c.toml", "--write-config", "c.toml").exit_code == 0
    written = Path("c.toml").read_text()
    assert 'sources = ["sea10", "mixed"]' in written
    assert invoke("compare", "--out", "c.toml", "c.toml", "--write-config", "again.toml").exit_code == 0
    assert Path("again.toml").read_text() == written
    assert invoke("compare", "c.toml", "sine1", "--write-config", "other.toml").exit_code == 0
    assert 'sources = ["sine1"]' in Path("other.toml").read_text()
    Path("e.toml").write_text(
        'sources = "sea10"\nmodels = "majority,persistence"\nrows = 2000\nout = "c"\nquiet = true\n'
    )
    done = invoke("compare", "e.toml", "--trials", 1)
    assert done.exit_code == 0, done.output
    assert Path("c/comparison.json").exists()
    for typed in ([], ["noise"]):
        words = ["--datasets", "sea10", "--trials", 2, "--write-config", "r.toml"]
        assert invoke("reproduce", *typed, *words).exit_code == 0
        assert invoke("reproduce", "--config", "r.toml", "--write-config", "s.toml").exit_code == 0
        assert Path("s.toml").read_text() == Path("r.toml").read_text()
        Path("r.toml").unlink()
        Path("s.toml").unlink()


def test_a_file_of_options_replaces_another_file_only_if_asked_and_never_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("a,y\n1,2\n")
    assert invoke("run", "a.csv", "--label", "y", "--write-config", "a.toml").exit_code == 0
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    for words in (
        ["run", "a.csv", "--label", "a", "--write-config", "a.toml"],
        ["run", "a.csv", "--overwrite", "--write-config", "a.csv"],
        ["run", "a.toml", "--overwrite", "--write-config", "a.toml"],
        ["run", "--config", "a.toml", "--overwrite", "--write-config", "./a.toml"],
        ["compare", "a.csv", "--label", "y", "--write-config", "a.toml"],
    ):
        refused = invoke(*words)
        assert refused.exit_code == 1, words
        assert Path(words[-1]).name in refused.output
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
    assert invoke("run", "a.csv", "--label", "a", "--overwrite", "--write-config", "a.toml").exit_code == 0
    assert 'label = "a"' in Path("a.toml").read_text()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ('source = "--on-transition=ls"', "--on-transition"),
        ("source = 3", "source"),
        ("x = " + "[" * 5_000, "deep"),
        ("a." * 50_000 + "a = 1", "deep"),
        ('"a b" . ' * 50_000 + "a = 1", "deep"),
        ("[" + "a." * 50_000 + "a]", "deep"),
        ("label = " + "{a = " * 200 + "1" + "}" * 200, "label"),
        ("# " + "x" * 2**20, "longer"),
        ("a = \xff", "TOML"),
        ("nul = \0", "TOML"),
    ],
)
def test_a_bad_toml_file_is_one_line(content: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content.encode("latin-1"))
    done = invoke("run", path)
    assert done.exit_code == 1
    assert named in done.output
    assert len(done.output) < 3000
