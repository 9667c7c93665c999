#!/usr/bin/env bash
# Builds the page into python/lasthop/page: the engine as WebAssembly, then the page around it. Called by `make page`,
# and with --if-possible by `make wheel` and `make test-page`, which then say what is missing and go on without (exit 3).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=wasm32-unknown-unknown

missing() {
    echo "the page is not built: $1"
    [ "${2:-}" = "--if-possible" ] && exit 3
    exit 1
}

command -v node >/dev/null && command -v npm >/dev/null || missing "it needs Node 20.19 or newer and npm" "${1:-}"
node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' ||
    missing "it needs Node 20.19 or newer, and here is $(node --version)" "${1:-}"
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    command -v rustup >/dev/null && echo "page: adding Rust's target $target with rustup" &&
        rustup --quiet target add "$target" ||
        missing "it needs Rust's target $target: rustup target add $target" "${1:-}"
fi

echo "page 1/4: the tool that writes the engine's JavaScript (a minute the first time)"
cargo build --quiet --locked --release --manifest-path tools/bindgen/Cargo.toml --target-dir target/tools ||
    missing "tools/bindgen could not be built" "${1:-}"
echo "page 2/4: the engine as WebAssembly (minutes the first time)"
cargo build --quiet --locked --package lasthop-web --target "$target" --profile web
target/tools/release/lasthop-bindgen "target/$target/web/lasthop_web.wasm" web/engine
node web/tools/about.mjs
cd web
echo "page 3/4: packages of the page (npm)"
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    npm ci --silent --no-audit --no-fund || missing "npm could not fetch the packages of web/package-lock.json" "${1:-}"
fi
echo "page 4/4: the page"
npm run --silent types
LASTHOP_PAGE_OUT=../python/lasthop/page npm run --silent build -- --logLevel warn
cd ..
bytes=$(find python/lasthop/page -type f -exec gzip -9 -c {} + | wc -c)
echo "python/lasthop/page: $((bytes / 1000)) kB compressed; any web server can hand it out"
[ "$bytes" -lt 1500000 ] || { echo "that is too much: 1500 kB are allowed"; exit 1; }
