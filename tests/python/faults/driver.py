"""Runs writers with a fault at the n-th call of the system, each in a process of its own; tells what is left.

Started by test_faults.py with failing.c loaded: reads a job as JSON, writes a line of JSON per trial. The
command is imported once; every trial is a fork of this process, which holds no threads.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path

KINDS = {"write": 1, "sync": 2, "rename": 3}


def forked(folder: Path, act: object) -> tuple[int, str]:
    """Do something in a child; return its exit code, negative for a signal, and what it said."""
    said = folder.with_name("said")
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(folder)
            file = os.open(said, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, 1)
            os.dup2(file, 2)
            code = act()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - told, and the test fails
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said.read_text(errors="replace")


def command(arguments: list[str]) -> int:
    from lasthop.cli import main

    sys.argv = ["lasthop", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return 0


def state_of(shown: str) -> int:
    """Print what a folder holds, as the function of that name in `states` says."""
    sys.path.insert(0, str(Path(__file__).parent))
    import states

    print(json.dumps(getattr(states, shown)()))
    return 0


def main() -> None:
    job = json.loads(sys.stdin.read())
    faults = ctypes.CDLL(None)
    for module in job["modules"]:
        __import__(module)
    base = Path(job["base"])

    def trial(kind: str, nth: int, error: int) -> bool:
        folder = base / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(job["prepared"], folder, symlinks=True)
        hit = base / "hit"
        hit.unlink(missing_ok=True)

        def failing() -> int:
            faults.fault_arm(str(folder).encode(), KINDS[kind], ctypes.c_long(nth), error)
            try:
                return command(job["arguments"])
            finally:
                if faults.fault_happened():
                    hit.touch()

        code, said = forked(folder, failing)
        struck = hit.exists() or code == -signal.SIGKILL
        told = {"kind": kind, "nth": nth, "code": code, "said": said, "struck": struck}
        told["state"] = forked(folder, lambda: state_of(job["state"]))[1].strip()
        again_code, told["again_said"] = forked(folder, lambda: command(job["again"]))
        told["again_code"] = again_code
        told["again"] = forked(folder, lambda: state_of(job["state"]))[1].strip()
        told["left"] = [
            str(one.relative_to(folder))
            for one in folder.rglob(".*")
            if one.name.startswith((".lasthop-", ".unf"))
        ]
        print(json.dumps(told), flush=True)
        return struck

    for kind in KINDS:
        chosen = iter(job["chosen"])
        while (nth := next(chosen, None)) is not None and trial(kind, nth, job["error"]):
            pass


if __name__ == "__main__":
    main()
