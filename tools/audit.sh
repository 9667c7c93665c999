#!/usr/bin/env bash
# Looks at what is compiled in and installed: licences, sources and bans of crates (deny.toml), and known weaknesses of
# crates, Python packages and packages of the page. Called by `make audit`. Exits with 1 if something was found; what
# could not be looked at, because a tool or its data base is out of reach, is said at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
found=0
skipped=()
said=$(mktemp)
trap 'rm -f "$said"' EXIT

# Runs a look-up: what it found counts, that it could not look does not. NAME, WORDS of an error of the network, COMMAND.
look_up() {
    local name=$1 unreachable=$2
    shift 2
    if "$@" >"$said" 2>&1; then
        echo "$name: nothing known"
    elif grep -qiE "$unreachable" "$said"; then
        skipped+=("$name: the data base is out of reach")
    else
        cat "$said"
        found=1
    fi
}

if cargo deny --version >/dev/null 2>&1; then
    echo "crates: licences, bans, sources"
    cargo deny --log-level error check --hide-inclusion-graph licenses bans sources || found=1
    if cargo deny fetch db >"$said" 2>&1; then
        look_up "advisories of crates" "failed to fetch" cargo deny --log-level error check --disable-fetch advisories
    else
        skipped+=("advisories of crates: the data base is out of reach")
    fi
else
    skipped+=("crates: cargo-deny is not installed (cargo install --locked cargo-deny)")
fi

audit=out/audit/bin/pip-audit
if [ ! -x "$audit" ]; then
    "${PYTHON:-python3}" -m venv out/audit &&
        out/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit >"$said" 2>&1
fi
if [ -x "$audit" ]; then
    look_up "advisories of Python packages" "connection|timed? ?out|resolve|ServiceError|HTTPError|unreachable|proxy" \
        timeout 300 "$audit" --disable-pip --require-hashes --requirement requirements.lock
else
    skipped+=("Python packages: pip-audit could not be installed")
fi

if command -v npm >/dev/null; then
    look_up "advisories of the page's packages" "audit endpoint|ENOTFOUND|ECONN|ETIMEDOUT|EAI_AGAIN|request to|E404|E405" \
        timeout 120 npm --prefix web audit --package-lock-only --omit=dev
else
    skipped+=("packages of the page: npm is not installed")
fi

for one in "${skipped[@]}"; do echo "not looked at: $one"; done
exit "$found"
