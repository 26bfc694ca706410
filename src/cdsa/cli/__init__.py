"""The command line: parse, call one library function, print."""

import contextlib
import logging
import os
import shutil
import signal
import sys
import textwrap

STOPPED = 130
"""Exit code after Ctrl-C."""
OLD_COMMANDS = {
    "reproduce": "paper run",
    "tables": "paper tables",
    "complexity": "paper complexity",
    "plot reasons": "plot explanation",
}
OLD_OPTIONS = {
    ("data", "--form"): "--file-set",
    ("forecast", "--steps"): "--horizon",
    ("paper", "--again"): "--force",
    ("paper", "--on"): "--datasets",
}
"""Earlier names, of options with their command, and the new ones."""

TABLE_TOO_LARGE = (
    "there is not enough memory for this table. Read fewer measurements or a shorter period"
)
NETWORK_TOO_LARGE = (
    "there is not enough memory for this network on these data. Use shorter windows or smaller "
    "batches: --set window=12, --set train.batch_size=2"
)
REPORT = "Please report it; with CDSA_DEBUG=1 set, the traceback is shown"


def main() -> None:
    """Run a command; every failure ends in one readable message."""
    # otherwise torch's threads spin while they wait, which stalls a busy machine
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from cdsa.cli.app import app
    from cdsa.errors import CdsaError, StoppedError

    logging.getLogger("cdsa").propagate = False  # its warnings are printed with the results
    logging.getLogger("cdsa").addHandler(logging.NullHandler())
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGTERM, _end)  # so that temporary files are removed
    try:
        _refuse_old_names(sys.argv[1:])
        app()
    except StoppedError as error:
        _stop(str(error), STOPPED)
    except CdsaError as error:
        _stop(str(error), 2)
    except SystemExit as end:
        if end.code == STOPPED:  # what typer makes of Ctrl-C
            print("cdsa: stopped; nothing was written", file=sys.stderr)
        raise
    except BrokenPipeError:  # the reader of the output, such as head, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        _stop(TABLE_TOO_LARGE, 2)
    except Exception as error:  # a bug; the user gets a sentence, not a traceback
        if "allocate memory" in str(error) or "out of memory" in str(error):
            _stop(NETWORK_TOO_LARGE, 2)
        if os.environ.get("CDSA_DEBUG"):
            raise
        _stop(f"something went wrong inside cdsa ({type(error).__name__}: {error}). {REPORT}", 1)


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _refuse_old_names(words: list[str]) -> None:
    from cdsa.errors import ConfigError

    for old in (" ".join(words[:1]), " ".join(words[:2])):
        if old in OLD_COMMANDS:
            raise ConfigError(f"'cdsa {old}' is now 'cdsa {OLD_COMMANDS[old]}'")
    for option in (word.partition("=")[0] for word in words):
        if (words[0], option) in OLD_OPTIONS:
            raise ConfigError(f"{option} is now {OLD_OPTIONS[words[0], option]}")


def _stop(message: str, code: int) -> None:
    text = f"cdsa: {message}"
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(
            textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
            for line in text.splitlines()
        )
    print(text, file=sys.stderr)
    sys.exit(code)
