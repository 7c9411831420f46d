"""The command line: `mercer study | fit | predict | verify | doctor`.

Data go to stdout, talk goes to stderr. An error is one line, perhaps with a hint, and an exit status other than 0.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

import click

from mercer.cli.commands import cli
from mercer.cli.output import say
from mercer.selection.search import SearchStopped

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status; nothing is raised, whatever happens."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)  # what is meant for users; deprecations are not
            warnings.showwarning = lambda message, *_, **__: say("warning", str(message))
            result = cli.main(arguments or ["--help"], prog_name="mercer", standalone_mode=False, obj=arguments)
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        say("error", error.format_message())
        if isinstance(error, click.UsageError) and error.ctx is not None:
            say("hint", f"{error.ctx.command_path} --help")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("error", "interrupted; nothing was written")
        return INTERRUPTED
    except SearchStopped as stopped:
        say("error", f"the search ended ({stopped}) before one candidate was finished; nothing was written")
        if str(stopped) == "interrupted":
            return INTERRUPTED
        say("hint", "give it more time with --max-seconds")
        return 1
    except BrokenPipeError:  # whoever read our output has seen enough; Python shall not complain at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        say("error", str(error) or type(error).__name__)
        if getattr(error, "hint", None):
            say("hint", error.hint)  # type: ignore[union-attr]
        return 1
    except Exception as error:
        if os.environ.get("MERCER_DEBUG"):
            raise
        say("error", f"internal error: {type(error).__name__}: {error}")
        say("hint", "this is a mistake in mercer; with MERCER_DEBUG=1 in the environment it shows where")
        return 1
