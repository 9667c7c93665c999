#!/usr/bin/env bash
# Installs a wheel into an empty environment and uses it as somebody would who has nothing else: first alone, which
# must stay small and run everything, then with all extras. Called by `make wheel` with the wheel.
set -euo pipefail
wheel=$(realpath "$1")
most_mb=150
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "check_wheel: $1"
    exit 1
}

# What is asked of it must be refused with the remedy.
needs() {
    local remedy=$1
    shift
    if empty/bin/lasthop "$@" >/dev/null 2>message; then
        fail "lasthop $1 did without $remedy"
    fi
    grep -qF "pip install '$remedy'" message || fail "lasthop $1 does not name $remedy: $(cat message)"
}

echo "wheel: trying $(basename "$wheel") in an empty environment"
"${PYTHON:-python3}" -m venv empty
# Neither a compiler nor Rust: what is installed is ready to run.
PATH="$folder/empty/bin" empty/bin/pip install --quiet --disable-pip-version-check --only-binary :all: "$wheel"
packages=$(empty/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
size_mb=$(du -sm --exclude='pip' --exclude='pip-*' --exclude='setuptools*' --exclude='pkg_resources' \
    "$packages" | cut -f1)
echo "installed: $size_mb MB, of which $(du -m "$packages"/lasthop/_native*.so | cut -f1) MB the engine"
[ "$size_mb" -lt "$most_mb" ] || fail "that is too much: $most_mb MB are allowed"

for crate in pyo3 arrow-array zstd-sys; do
    grep -q "^$crate " "$packages/lasthop/licences.txt" || fail "licences.txt has no text of $crate"
done

empty/bin/lasthop new single-flow >/dev/null
empty/bin/lasthop run single-flow.toml --series --out run >/dev/null
empty/bin/lasthop show run >/dev/null
empty/bin/lasthop compare single-flow.toml --transport reno,vegas --seeds 1-3 --series --out compare >/dev/null
empty/bin/lasthop new per-sweep >/dev/null
empty/bin/lasthop study run per-sweep.toml --seeds 1-2 --set 'duration="4 s"'
test -s out/per-sweep/results.parquet
needs 'lasthop[analysis]' study show per-sweep.toml
needs 'lasthop[plot]' plot run --out x.png
needs 'lasthop[cluster]' study run per-sweep.toml --cluster tcp://localhost:1
empty/bin/lasthop doctor | tail -1
# Where the page could not be built, the wheel says so and does the rest.
if empty/bin/lasthop view run --out page.html 2>message; then
    echo "with the page: $(($(stat -c %s page.html) / 1000)) kB as one file"
else
    grep -qF "make page" message || fail "lasthop view does not say what is missing: $(cat message)"
fi

fingerprint=$(empty/bin/lasthop run single-flow.toml --json - | empty/bin/python -c \
    'import json, sys; print(json.load(sys.stdin)["runs"][0]["fingerprint"])')
for version in 3.11 3.12 3.13 3.14; do
    if ! "python$version" -c 'import venv' 2>/dev/null; then
        echo "wheel: no Python $version here: not tried with it"
        continue
    fi
    "python$version" -m venv "other-$version"
    "other-$version/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$wheel"
    "other-$version/bin/lasthop" run single-flow.toml --json - | grep -q "$fingerprint" ||
        fail "Python $version runs something else than $(empty/bin/python --version)"
    echo "wheel: the same run with Python $version"
done

echo "wheel: the same with all extras (pip fetches them: a minute or more)"
empty/bin/pip install --quiet --disable-pip-version-check "$wheel[all]"
empty/bin/lasthop study show per-sweep.toml >/dev/null
empty/bin/lasthop plot run --out run.png
empty/bin/lasthop demo --seeds 1-2 >/dev/null
test -s run.png && test -s out/demo/compare.png && test -s out/demo/window.png
echo "the wheel works, alone and with all extras"
