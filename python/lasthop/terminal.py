"""What the commands share at their border: error messages with exit codes, printing.

Used by `lasthop.cli` and the modules of its sub-commands. Libraries are imported where they are used.
"""

from __future__ import annotations

import codecs
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from lasthop import _native, extras
from lasthop.errors import Interrupted, LasthopError, RunError, UncheckedWarning
from lasthop.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from rich.console import RenderableType

EXIT_RUN, EXIT_USER, EXIT_INTERRUPTED = 1, 2, 130
#: Of live runs alone, whose program has statuses of its own: the machine was too busy; the end of the
#: scenario cut the program off; lasthop itself failed. The last two are those of timeout(1). A program that
#: cannot be started gives 126, and one that is not there 127: docs/how-to/emulate-a-path.md.
EXIT_INVALID, EXIT_CUT_OFF, EXIT_FAILED = 123, 124, 125
#: What a shell adds to the number of the signal that ended a program.
BY_SIGNAL = 128
#: What ends a command in good order, beside Ctrl-C.
ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
WIDTH_OF_NO_TERMINAL = 110
#: Until a Ctrl-C that was lost in a callback is delivered again, in seconds.
AGAIN_S = 0.01


def guarded(command: Callable[[], None]) -> None:
    """Run a command, and leave as it says, or as its streams, Ctrl-C and signals make it."""
    write_what_can_be_written()
    heed_lost_interrupts()
    tell_warnings()
    use_columns_that_make_sense()
    ended_by = end_as_ctrl_c_does()
    try:
        _answered(command)
    except SystemExit as left:
        # Where the terminal is gone, what could not be printed is no other reason.
        if ended_by and left.code:
            sys.exit(BY_SIGNAL + ended_by[0])
        raise
    finally:
        drop_lost_notes()
        # On the way out another one has nothing to stop, and Python would show where it was.
        for number in (signal.SIGINT, *ENDINGS):
            signal.signal(number, signal.SIG_IGN)


class _Ended(KeyboardInterrupt):
    """One of `ENDINGS` came. Python ends itself by SIGINT after some of Ctrl-C, whatever the exit code is."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def end_as_ctrl_c_does() -> list[int]:
    """Let `ENDINGS` keep what finished and sweep the rest, as Ctrl-C does; return those that came so far.

    Job schedulers, ``timeout`` and a terminal that is closed send them. One that is ignored, as under nohup,
    stays ignored.
    """
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        came.append(number)
        raise _Ended(number)

    for number in ENDINGS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, interrupt)
    return came


def _answered(command: Callable[[], None]) -> None:
    """Run a command; a stream that is gone or full, or an early interruption, becomes an exit code."""
    try:
        try:
            command()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone, as in `lasthop run FILE --json - | head`: there is nothing to report to.
        drop_output()
        sys.exit(EXIT_RUN)
    except OSError as error:
        # A help text on a full disk, or what was still to be written.
        note(f"error: cannot use standard output: {(error.strerror or str(error)).lower()}")
        drop_output()
        sys.exit(EXIT_USER)
    except KeyboardInterrupt:
        # Before any command had begun.
        note("interrupted")
        sys.exit(EXIT_INTERRUPTED)


@contextmanager
def user_errors() -> Iterator[None]:
    """Print an error as its message alone, with the exit code of its kind."""
    try:
        yield
    except LasthopError as error:
        text = str(error)
        # The native diagnostics open with what they are, and an interruption is no error.
        opening = text.split("\n", maxsplit=1)[0]
        named = isinstance(error, Interrupted) or "error:" in opening
        note(text if named else f"error: {text}")
        raise _exit(_exit_code(error)) from None
    except KeyboardInterrupt:
        note("interrupted")
        raise _exit(EXIT_INTERRUPTED) from None
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in extras.EXTRAS:
            raise
        note(f"error: {extras.lacking(package)}")
        raise _exit(EXIT_USER) from None
    except BrokenPipeError:
        raise
    except MemoryError:
        note("error: there is not enough memory for this; 'ulimit -v' shows whether it is limited")
        raise _exit(EXIT_USER) from None
    except OSError as error:
        # Files are named where they are written; what is left is a full disk behind standard output.
        what = "standard output" if error.filename is None else f"'{error.filename}'"
        note(f"error: cannot use {what}: {(error.strerror or str(error)).lower()}")
        drop_output()
        raise _exit(EXIT_USER) from None


@contextmanager
def live_codes() -> Iterator[None]:
    """Give errors of live runs exit codes that are none of their programs' usual ones."""
    try:
        yield
    except Interrupted:
        raise
    except RunError as error:
        error.exit_code = error.exit_code or EXIT_FAILED
        raise


def exit_code_of(status: int) -> int:
    """Return the exit code that passes on how a program ended: as a shell does.

    Examples
    --------
    >>> exit_code_of(7), exit_code_of(-9)
    (7, 137)
    """
    return status if status >= 0 else BY_SIGNAL - status


def heed_lost_interrupts() -> None:
    """Deliver Ctrl-C and the like again that came inside a callback, such as one of the garbage collector.

    Python can raise nothing there: it prints where the exception came, and goes on as if nothing had been.
    """
    usual = sys.unraisablehook
    # Of the thread that Python's handlers run in; the callback may be in another.
    main = threading.get_ident()

    def again(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            usual(lost)
            return
        here = sys._getframe()  # noqa: SLF001 (as `inspect` has it, which takes 10 ms to import)
        # In the background of a shell script SIGINT is ignored.
        number = lost.exc_value.number if isinstance(lost.exc_value, _Ended) else signal.SIGINT
        # Not from here: it would come inside the callback again.
        threading.Thread(target=deliver, args=(here, number), daemon=True).start()

    def deliver(callback: FrameType | None, number: int) -> None:
        while True:
            time.sleep(AGAIN_S)
            frame = sys._current_frames().get(main)  # noqa: SLF001 (documented, and there is no other way)
            while frame is not None and frame is not callback:
                frame = frame.f_back
            # A slow machine may not have left the callback by now.
            if frame is None:
                signal.pthread_kill(main, number)
                return

    sys.unraisablehook = again


#: What stands in for letters that a terminal does not have.
PLAIN = {"±": "+-", "µ": "u", "…": "...", "–": "-", "—": "-", "−": "-", "✓": "+", "✗": "x", "→": "->"}


def write_what_can_be_written() -> None:
    """Let standard output and error take every text, whatever their encoding lacks."""
    codecs.register_error("lasthop", _plain)
    for stream in (sys.stdout, sys.stderr):
        # An object of the caller's may be there instead.
        with suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="lasthop")  # type: ignore[union-attr]


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return what to write in place of letters that cannot be encoded.

    Examples
    --------
    >>> codecs.register_error("lasthop", _plain)
    >>> "7.63 ± 0.02 µs".encode("ascii", errors="lasthop")
    b'7.63 +-0.02 us'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(PLAIN.get(letter, "?") for letter in error.object[error.start : error.end])
    # Two letters in place of one take the blanks after it, so that columns stay where they are.
    end = error.end
    while len(text) > end - error.start and error.object[end : end + 1] == " ":
        end += 1
    return text, end


def tell_warnings() -> None:
    """Print warnings of ours as notes, without the place in the code that Python names."""
    usual = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, UncheckedWarning):
            note(f"note: {message}")
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def use_columns_that_make_sense() -> None:
    """Forget a width of 0 in the environment: a table of no width shows nothing."""
    if os.environ.get("COLUMNS", "").strip("0") == "":
        os.environ.pop("COLUMNS", None)


def drop_lost_notes() -> None:
    """Give up notes that standard error cannot take, as on a full disk: no run fails for them."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def drop_output() -> None:
    """Send what is still to be printed nowhere, so that Python does not complain on the way out."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(code: int) -> SystemExit:
    """Return what ends a verb with this exit code."""
    return SystemExit(code)


def _exit_code(error: LasthopError) -> int:
    if isinstance(error, Interrupted):
        return EXIT_INTERRUPTED if error.signal is None else BY_SIGNAL + error.signal
    if isinstance(error, RunError) and error.exit_code is not None:
        return error.exit_code
    return EXIT_RUN if isinstance(error, RunError) else EXIT_USER


def say(text: object = "", *, nl: bool = True) -> None:
    """Print a line on standard output."""
    print(visible(str(text)), end="\n" if nl else "", flush=True)


def say_version() -> None:
    """Print the version."""
    say(f"lasthop {_native.__version__}")


def print_content(content: RenderableType) -> None:
    """Print a table or the like on standard output."""
    from rich.console import Console
    from rich.segment import Segment

    class Visible(Console):
        """Colours are ours and come with the style of a segment; control characters in its text are not."""

        def render(self, *arguments: Any, **named: Any) -> Iterator[Segment]:  # noqa: ANN401 - as of the base
            for part in super().render(*arguments, **named):
                yield part if part.control else Segment(visible(part.text), part.style)

    # A file or a pipe has no width of its own; 80 columns would only break the tables.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH_OF_NO_TERMINAL
    # Names from files may hold what rich takes for markup, links among it.
    Visible(width=width, markup=False, emoji=False).print(content)


def doing(text: str) -> None:
    """Say on a terminal what takes a moment; a file or a pipe gets nothing."""
    if sys.stderr is not None and sys.stderr.isatty():
        note(text)


def note(text: str) -> None:
    """Print a line on standard error; if it cannot be written, that is no reason to stop."""
    with suppress(OSError):
        print(visible(text), file=sys.stderr, flush=True)
