#!/usr/bin/env bash
# Tests the page: the engine as WebAssembly under Node, then everything in Chromium. Called by `make test-page`; what is
# missing on this machine is said, and the tests that need it are skipped. A page that cannot be built is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/build_page.sh --if-possible || {
    status=$?
    [ $status -eq 3 ] || exit $status
    echo "the tests of the page are skipped"
    exit 0
}
cd web
tests=(tests/engine.test.mjs)
export CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -n "$CHROMIUM" ]; then
    tests=(tests/*.test.mjs)
else
    echo "there is no Chromium (Debian package chromium): the tests in the browser are skipped"
fi
node --test --test-concurrency=2 --test-reporter=spec "${tests[@]}"
