"""The types that are shipped for the compiled module are those of the compiled module."""

from __future__ import annotations

import subprocess
import sys


def test_the_stub_agrees_with_the_compiled_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "lasthop._native"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
