#!/bin/sh
# Make sure that a browser is available for the tests of the page: sh scripts/browser.sh BIN
# The system's Chromium if installed, otherwise Debian's, otherwise Playwright's, with the libraries it
# needs (Ubuntu's package is a snap, which does not run everywhere).
set -eu
bin=$1

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" > /dev/null; then
        echo "browser: $(command -v "$name")"
        exit 0
    fi
done
root=""
[ "$(id -u)" -eq 0 ] || root="sudo -n"
if command -v apt-get > /dev/null && ! grep -qs '^ID=ubuntu' /etc/os-release; then
    $root apt-get update -qq || true
    if $root apt-get install -y -qq chromium > /dev/null; then
        echo "browser: installed $(command -v chromium)"
        exit 0
    fi
fi
"$bin/python" -m playwright install --with-deps chromium || "$bin/python" -m playwright install chromium
echo "browser: Playwright's own"
