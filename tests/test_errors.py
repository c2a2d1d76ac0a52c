"""The exceptions: their tree, and messages whose options can be respelled."""

from __future__ import annotations

import inspect
import pickle
import signal
from urllib.error import URLError

import pytest

from driftsurf import errors
from driftsurf.errors import Message, Option, OptionError, reason


def tree() -> list[str]:
    """Draw the classes of the package as its docstring does, in the same order."""
    drawn = str(errors.__doc__).split()
    classes = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, BaseException)]
    classes.sort(key=lambda kind: drawn.index(kind.__name__))

    def below(parent: type, indent: str) -> list[str]:
        children = [kind for kind in classes if kind.__bases__[0] is parent]
        lines = []
        for kind in children:
            builtins = [base.__name__ for base in kind.__bases__[1:]]
            lines.append(f"{indent} +-- {kind.__name__}" + f" ({', '.join(builtins)})" * bool(builtins))
            lines += below(kind, indent + (" |   " if kind is not children[-1] else "     "))
        return lines

    roots = errors.DriftsurfError, KeyboardInterrupt, UserWarning
    return [line for root in roots for line in (root.__name__, *below(root, ""))]


def test_the_docstring_draws_the_tree_of_the_classes() -> None:
    assert errors.__doc__ is not None
    drawn = inspect.cleandoc(errors.__doc__).split("::")[1]
    assert [line.strip("\n").removeprefix("    ") for line in drawn.splitlines() if line.strip()] == tree()


def test_every_exception_is_public_and_documented() -> None:
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, BaseException):
            assert name in errors.__all__
            assert kind.__module__ == errors.__name__
            assert kind.__doc__


def test_a_message_keeps_its_parts() -> None:
    error = OptionError("give ", Option("on_bad_row", "skip"), " or ", Option("follow"))
    (message,) = error.args
    assert isinstance(message, Message)
    assert message == str(error) == "give on_bad_row='skip' or follow"
    assert [part.name for part in message.parts if isinstance(part, Option)] == ["on_bad_row", "follow"]


@pytest.mark.parametrize("base", [errors.DriftsurfError, ValueError])
def test_an_error_is_caught_by_its_own_and_by_the_built_in_base(base: type[Exception]) -> None:
    with pytest.raises(base):
        raise OptionError("threshold must be positive; got -1")


def test_a_message_is_bounded_and_keeps_its_beginning_and_its_end() -> None:
    message = str(OptionError(Option("model"), f" is {'x' * 100_000!r}; choices: driftsurf, aue"))
    assert message.startswith("model is 'xxx")
    assert message.endswith("choices: driftsurf, aue")
    assert len(message) < 3_000


def test_the_reason_of_an_error_of_the_system_has_no_number() -> None:
    assert reason(FileExistsError(17, "File exists", "runs")) == "'runs': File exists"
    assert reason(URLError(ConnectionRefusedError(111, "Connection refused"))) == "Connection refused"
    assert reason(ValueError("of another kind")) == "of another kind"


def test_an_error_with_arguments_of_its_own_can_be_pickled() -> None:
    stopped = errors.RunStopped(3, signal.SIGTERM)
    again = pickle.loads(pickle.dumps(stopped))
    assert (str(again), again.step, again.exit_code) == (str(stopped), 3, stopped.exit_code)
