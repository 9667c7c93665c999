#!/usr/bin/env bash
# Installs a wheel into an empty environment and uses it as somebody would who has nothing else: first without
# figures, then with them. Called by `make wheel` with the wheel.
set -euo pipefail
wheel=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv empty
empty/bin/pip install --quiet --disable-pip-version-check "$wheel"
echo "installed: $(du -sm empty/lib | cut -f1) MB"
empty/bin/lasthop new single-flow
empty/bin/lasthop run single-flow.toml --out run >/dev/null
empty/bin/lasthop compare single-flow.toml --transport reno,vegas --seeds 1-2 >/dev/null
empty/bin/lasthop new per-sweep
empty/bin/lasthop study run per-sweep.toml --seeds 1 --set 'duration="2 s"' 2>/dev/null
empty/bin/lasthop study show per-sweep.toml >/dev/null
if empty/bin/lasthop plot run --out x.png 2>message; then
    echo "a figure was drawn without matplotlib" && exit 1
fi
grep -q "pip install 'lasthop\[plot\]'" message
empty/bin/pip install --quiet --disable-pip-version-check "$wheel[plot]"
empty/bin/lasthop demo --seeds 1-2 >/dev/null
test -s out/demo/compare.png && test -s out/demo/window.png
empty/bin/python -m lasthop doctor | tail -1
