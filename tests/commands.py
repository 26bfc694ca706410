"""Run commands of the command line in this process."""

import pytest
from typer.testing import CliRunner

from cdsa.cli.app import app
from cdsa.errors import CdsaError


def invoke(*words: object):
    """The result of a command, whatever its exit code."""
    return CliRunner().invoke(app, [str(word) for word in words])


def run(*words: object) -> str:
    """The standard output of a command that succeeds."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*words: object) -> str:
    """The message of a command that is refused."""
    with pytest.raises(CdsaError) as error:
        run(*words)
    return str(error.value)


def one_line(text: str) -> str:
    """The text without line breaks."""
    return " ".join(text.split())
