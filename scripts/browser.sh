#!/bin/sh
# Makes sure that there is a browser for the tests of the page: sh scripts/browser.sh BIN
# The system's Chromium if it is there; else Debian's or Ubuntu's; else Playwright's own.
set -eu
bin=$1

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" > /dev/null; then
        echo "browser: $(command -v "$name")"
        exit 0
    fi
done
if command -v apt-get > /dev/null; then
    root=""
    [ "$(id -u)" -eq 0 ] || root="sudo -n"
    if $root apt-get install -y -qq chromium > /dev/null 2>&1 ||
        { $root apt-get update -qq > /dev/null 2>&1 && $root apt-get install -y -qq chromium > /dev/null 2>&1; }; then
        echo "browser: installed $(command -v chromium)"
        exit 0
    fi
fi
"$bin/python" -m playwright install chromium
echo "browser: Playwright's own"
