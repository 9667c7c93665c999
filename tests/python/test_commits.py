"""`make lint` reads the subjects of commits, in a clean and in a shallow clone, and where there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def git(folder: Path, *arguments: str) -> str:
    """Run git with an author of its own, whatever the machine is set to."""
    program = shutil.which("git")
    if program is None:
        pytest.skip("git is not installed")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = [program, *who, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, message: str) -> str:
    """Make a commit without a change; its hash."""
    git(folder, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def checked(folder: Path, since: str) -> subprocess.CompletedProcess[str]:
    """Run the check of the tree in `folder`."""
    (folder / "tools").mkdir(exist_ok=True)
    text = (ROOT / "tools" / "commits.py").read_text(encoding="utf-8")
    script = folder / "tools" / "commits.py"
    script.write_text(re.sub(r'(?m)^SINCE = ".*"$', f'SINCE = "{since}"', text), encoding="utf-8")
    command = [sys.executable, str(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, str]:
    """Make a repository whose subjects were looked at from some commit on, and have been good since."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet")
    commit(folder, "A subject of old times that went on and on until it had more than seventy-two characters")
    since = commit(folder, "A shorter line")
    commit(
        folder,
        f"{'x' * 72}\n\nA body may have longer lines than a subject, which is all that a list shows of it.",
    )
    return folder, since


def test_good_subjects_and_old_ones_pass(history: tuple[Path, str]) -> None:
    result = checked(*history)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("x" * 73, "73 characters, at most 72: xxx"),
        ("Two lines make one subject\nwhere no empty line stands between them and what follows", "83 char"),
        ("A shorter line", "belongs into the commit that it mends"),
        ("Shorter lines in the reader", "belongs into the commit that it mends"),
        ("fixup! Something else", "belongs into the commit that it mends"),
    ],
)
def test_a_bad_subject_is_named(history: tuple[Path, str], subject: str, why: str) -> None:
    folder, since = history
    bad = commit(folder, subject)
    commit(folder, "A good one above it")
    result = checked(folder, since)
    assert result.returncode == 1
    assert result.stderr.startswith(f"{bad[:7]}: {why}")
    assert result.stderr.count("\n") == 1


def test_a_clone_without_the_history_passes_and_says_so(history: tuple[Path, str], tmp_path: Path) -> None:
    folder, since = history
    commit(folder, "x" * 73)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", folder.as_uri(), str(shallow))
    result = checked(shallow, since)
    assert result.returncode == 0
    assert result.stdout == (
        f"subjects of commits were not checked: this clone does not reach back to commit {since[:7]}\n"
    )


def test_an_archive_passes_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "unpacked"
    folder.mkdir()
    result = checked(folder, "0" * 40)
    assert result.returncode == 0
    assert "not checked: this folder is no git checkout, or git is not installed" in result.stdout


def test_lint_runs_the_check_on_this_tree() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    told = subprocess.run(
        [make, "--dry-run", "lint"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert " tools/commits.py\n" in told
