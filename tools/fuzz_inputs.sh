#!/usr/bin/env bash
# Searches for inputs that end in a panic: SECONDS for each reader, 60 unless given. Inputs that reached something new
# are kept in out/fuzz and begin the next search. Called by `make fuzz-inputs`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=${1:-60}
lasthop=${LASTHOP:-.venv/bin/lasthop}
into=$PWD/out/fuzz

echo "fuzz: compiling the engine with counters in every branch (minutes the first time)"
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing" \
    cargo build --quiet --locked --release --manifest-path tools/fuzz/Cargo.toml --target-dir target/fuzz \
    --target x86_64-unknown-linux-gnu

mkdir -p "$into"/{scenario,trace,capture,script}
cp -n scenarios/*.toml python/lasthop/starters/*.toml "$into/scenario/" 2>/dev/null || true
cp -n scripts/*.script "$into/script/"
cp -n scenarios/train.* "$into/trace/"
"$lasthop" schema | grep -oE '"[a-zA-Z0-9_-]{2,40}"' | sort -u >"$into/words"
if [ ! -e "$into/capture/single-flow.pcapng" ]; then
    "$lasthop" run scenarios/single-flow.toml --set duration="2 s" --trace --out "$into/run" >/dev/null
    cp "$into/run/"*.pcapng "$into/capture/single-flow.pcapng"
fi

found=0
for reader in scenario trace capture script; do
    echo "fuzz: $reader, $seconds s"
    mkdir -p "$into/faults/$reader"
    words=()
    [ "$reader" = scenario ] && words=(-dict="$into/words")
    target/fuzz/x86_64-unknown-linux-gnu/release/$reader "$into/$reader" -max_total_time="$seconds" -max_len=65536 \
        -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$into/faults/$reader/" "${words[@]}" \
        >"$into/$reader.log" 2>&1 || { found=1; grep -hE "panicked|ERROR|SUMMARY" "$into/$reader.log"; }
    grep -hE "number_of_executed_units|peak_rss_mb" "$into/$reader.log" || true
done
[ $found = 0 ] || { echo "fuzz: the inputs are in $into/faults"; exit 1; }
