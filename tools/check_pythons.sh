#!/usr/bin/env bash
# Installs a wheel with every extra into an empty environment of each Python that is promised, does what the README
# does first, and compares what is printed. Says which Pythons are not here. Called by `make pythons` with the wheel.
set -euo pipefail
wheel=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
promised=$(sed -n 's/.*Programming Language :: Python :: \(3\.[0-9]*\)".*/\1/p' "$source/pyproject.toml")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    echo "check_pythons: $1"
    exit 1
}

# The first interpreter of a version that starts: on the path, of uv, of pyenv. A shim of pyenv may start none.
find_python() {
    local candidate
    for candidate in "python$1" "$(uv python find --no-python-downloads "$1" 2>/dev/null || true)" \
        "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c "import sys, venv; sys.exit(sys.version_info[:2] != tuple(map(int, '$1'.split('.'))))" \
            2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
}

# The commands of "The first five minutes" that need no root, no page and no C compiler.
first_minutes() {
    local lasthop=$1
    "$lasthop" run scenarios/lossy-last-hop.toml --seeds 1-4 --set flows.0.transport=vegas
    "$lasthop" compare scenarios/lossy-last-hop.toml --transport reno,vegas,cubic --seeds 1-10
    "$lasthop" run scenarios/lossy-last-hop.toml --seed 1 --series --out out/one >/dev/null
    "$lasthop" plot out/one
    "$lasthop" compare scenarios/single-flow.toml --transport reno,cubic,bbr --seeds 1 --series --plot out/three.png
    "$lasthop" compare scenarios/snoop.toml --transport reno,vegas --helpers none,snoop,arq --seeds 1-4
    "$lasthop" study run studies/per-sweep.toml --seeds 1-2
    "$lasthop" study show studies/per-sweep.toml
    "$lasthop" study report studies/per-sweep.toml
    "${lasthop%lasthop}python" -W error::DeprecationWarning -c \
        'import lasthop as lh; print(lh.run(lh.Scenario.load("scenarios/lossy-last-hop.toml"), seed=1).totals)'
    "$lasthop" doctor >/dev/null
}

tried=() missing=() expected=""
for version in $promised; do
    python=$(find_python "$version")
    if [ -z "$python" ]; then
        missing+=("$version")
        continue
    fi
    place="$folder/$version"
    mkdir "$place"
    cp -rL "$source/scenarios" "$source/studies" "$place"
    "$python" -m venv "$place/venv"
    "$place/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "$wheel[all]"
    (cd "$place" && first_minutes "$place/venv/bin/lasthop") >"$place/said" 2>"$place/notes" ||
        fail "Python $version: $(tail -3 "$place/said" "$place/notes")"
    expected=${expected:-$place/said}
    diff "$expected" "$place/said" || fail "Python $version prints something else than ${tried[0]}"
    if grep -i "warning" "$place/notes"; then
        fail "Python $version warns"
    fi
    tried+=("$version")
    echo "pythons: $("$place/venv/bin/python" --version), the first five minutes of the README"
done
for version in "${missing[@]}"; do
    echo "pythons: no Python $version here: not tried"
done
[ "${#tried[@]}" -gt 0 ] || fail "no Python that is promised is here"
