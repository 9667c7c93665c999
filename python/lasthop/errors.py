"""Every error a user of lasthop can meet, under one base class.

Raised by the Python API; the command line prints the message alone and never a stack trace. The native
module's own errors are turned into these by `native_errors`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lasthop import _native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lasthop.comparison import Comparison
    from lasthop.results import Runs


class LasthopError(Exception):
    """Base of every error that lasthop raises on purpose; its text says what is wrong and what to do.

    Examples
    --------
    >>> import lasthop as lh
    >>> issubclass(lh.ScenarioError, lh.LasthopError)
    True
    """


class ScenarioError(LasthopError, ValueError):
    """A scenario that cannot be run; the text says where, what was found and what was expected."""


class TrustError(ScenarioError):
    """Python code that a file names without the consent of the user; the text says the file and the class.

    A scenario or a study may come from anyone. What it names is run where the caller says so: ``--trust`` on
    the command line, ``trust=True`` in Python.
    """


class StudyError(LasthopError, ValueError):
    """A study that cannot be run; the text says the file, the key, what was found and what to do."""


class ArgumentError(LasthopError, ValueError):
    """An argument that makes no sense, such as the same seed twice."""


class ClusterError(LasthopError):
    """A cluster that cannot be used: out of reach, without workers, or of another version."""


class OutputError(LasthopError):
    """A result that cannot be written, or a saved one that cannot be read."""


class BundleError(OutputError):
    """An archive that is no bundle, or a damaged one; nothing of it was unpacked."""


class RunError(LasthopError, RuntimeError):
    """A run that ended early, for example because it passed one of its limits.

    Attributes
    ----------
    finished : Runs or None
        What had finished by then; `None` if nothing had.
    comparison : Comparison or None
        For a comparison, that of the seeds which every transport had finished by then.
    exit_code : int or None
        What the command exits with, if not with 1.
    """

    exit_code: int | None = None
    finished: Runs | None = None
    comparison: Comparison | None = None


class Interrupted(RunError):  # noqa: N818 - an interruption is asked for, it is no mistake
    """Runs stopped by Ctrl-C; `finished` holds the seeds that were complete.

    Attributes
    ----------
    signal : int or None
        The signal that stopped a live run, 2 for Ctrl-C; `None` of simulations.
    """

    signal: int | None = None


class UncheckedWarning(UserWarning):
    """Results that were saved without checksums: whether they are damaged is not known."""


@contextmanager
def native_errors() -> Iterator[None]:
    """Turn the native module's errors into the classes above, text unchanged."""
    try:
        yield
    except _native.ScenarioError as error:
        raise ScenarioError(str(error)) from None
    except _native.Interrupted as error:
        raise Interrupted(str(error)) from None
    except _native.RunError as error:
        # The code to exit with comes behind the text, where there is one.
        text, *code = error.args or ("",)
        raised = RunError(str(text))
        raised.exit_code = code[0] if code else None
        raise raised from None
