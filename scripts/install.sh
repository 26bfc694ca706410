#!/bin/sh
# Make a virtual environment and install the project with one extra: install.sh PYTHON VENV EXTRA
# Uses uv if available, otherwise pip. Versions are those we test with (constraints.txt).
set -eu
python=$1 venv=$2 extra=$3

if [ -z "$python" ] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "cdsa needs Python 3.11 or newer; found '${python:-none}'. Choose another: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi
usable() {  # uv makes environments without pip
    "$venv/bin/python" -c '' 2>/dev/null &&
        { command -v uv >/dev/null 2>&1 || "$venv/bin/python" -c 'import pip' 2>/dev/null; }
}
if ! usable; then
    rm -rf "$venv"
    echo "making $venv"
    if command -v uv >/dev/null 2>&1; then
        uv venv --quiet --python "$python" "$venv"
    else
        "$python" -m venv "$venv"
    fi
fi
echo "installing cdsa[$extra] into $venv; the first time this takes a few minutes"
if command -v uv >/dev/null 2>&1; then
    UV_FIND_LINKS="${PIP_FIND_LINKS:-}" uv pip install --quiet --python "$venv/bin/python" \
        -c constraints.txt -e ".[$extra]"
else
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        -c constraints.txt -e ".[$extra]"
fi
