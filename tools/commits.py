"""Checks the subjects of the commits since `SINCE`: `make lint` calls it.

A subject says what changed, within 72 characters; a commit that only breaks a line belongs into the one that
made it long. Where the history is not there (no git, an archive, a shallow clone), it says so and passes.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The last commit whose subject, and those before it, are as they are.
SINCE = "0749415d16ba910563915aba7ca4aeef0cbc4226"
LONGEST = 72
LEFTOVER = re.compile(r"\bshorter lines?\b|^(fixup|squash|amend)!", re.IGNORECASE)


def git(root: Path, *arguments: str) -> str | None:
    """Return what git says, or nothing if it cannot answer."""
    program = shutil.which("git")
    if program is None:
        return None
    asked = subprocess.run([program, *arguments], cwd=root, capture_output=True, text=True, check=False)
    return asked.stdout if asked.returncode == 0 else None


def missing(root: Path, since: str) -> str | None:
    """Say why the commits since `since` cannot be listed, or nothing if they can."""
    if git(root, "rev-parse", "--verify", "HEAD") is None:
        return "this folder is no git checkout, or git is not installed"
    if git(root, "merge-base", "--is-ancestor", since, "HEAD") is None:
        return f"this clone does not reach back to commit {since[:7]}"
    return None


def faults(root: Path, since: str) -> list[str]:
    """Return a line for each subject that breaks a rule; subjects of merges are git's own."""
    log = git(root, "log", "--no-merges", "--format=%h %s", f"{since}..HEAD") or ""
    found = []
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        if len(subject) > LONGEST:
            found.append(f"{commit}: {len(subject)} characters, at most {LONGEST}: {subject}")
        if LEFTOVER.search(subject):
            found.append(
                f"{commit}: belongs into the commit that it mends (git rebase --autosquash): {subject}"
            )
    return found


def main(root: Path = ROOT, since: str = SINCE) -> int:
    """Print what is wrong; the exit code."""
    why = missing(root, since)
    if why is not None:
        print(f"subjects of commits were not checked: {why}")
        return 0
    found = faults(root, since)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
