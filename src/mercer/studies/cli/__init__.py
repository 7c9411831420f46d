"""The command line: `mercer study | plan | fit | predict | verify | convert | doctor`.

Data go to stdout, talk goes to stderr. An error is one line, with what to do about it, and an exit status other than 0.
Whatever takes long to import is imported by the command that needs it: `mercer --help` answers at once.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Sequence

from mercer.studies.cli.imports import INTERRUPTED, ended_by_ctrl_c


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    _open_closed_streams()
    status = run(sys.argv[1:] if arguments is None else list(arguments))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done; Python shall not complain on its way out
    sys.exit(status)


def _open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed (daemons close them).

    Otherwise the next file that is opened would get the file descriptor of a standard stream. Python also sets
    `sys.stdin`, `sys.stdout` or `sys.stderr` to None if the stream is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status; nothing is raised, whatever happens."""
    try:
        with ended_by_ctrl_c():
            import click

            from mercer.studies.cli.commands import cli
            from mercer.studies.cli.messages import Failure, say, say_error
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return INTERRUPTED
    said: set[str] = set()

    def say_once(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in said:  # the same file may be read more than once
            said.add(str(message))
            say("warning", str(message))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)  # what is meant for users; deprecations are not
            warnings.filterwarnings("ignore", r"\w+ (ended as|has no probabilities)")  # told in words of the options
            warnings.showwarning = say_once
            result = cli.main(arguments or ["--help"], prog_name="mercer", standalone_mode=False, obj=arguments)
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        say_error(error.format_message(), None if error.ctx is None else f"see {error.ctx.command_path} --help")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("error", "interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe; Python must not report that at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (click.ClickException, ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        say_error(_text_of(error), getattr(error, "hint", None))
        return error.status if isinstance(error, Failure) else 1
    except Exception as error:
        if os.environ.get("MERCER_DEBUG"):
            raise
        say_error(
            f"internal error: {type(error).__name__}: {error}",
            "this is a mistake in mercer; with MERCER_DEBUG=1 in the environment it shows where",
        )
        return 1


def _text_of(error: Exception) -> str:
    """Return the message of an error; one of the operating system is a sentence without its number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{os.fsdecode(error.filename)} cannot be read or written: {error.strerror.lower()}"
    return str(error) or type(error).__name__
