#!/bin/sh
# Print the first of the given Pythons under which Speedbump installs; where none is, say why of the first there is.
here=$(dirname "$0")
for python in "$@"; do
  if "$python" "$here/check_python.py" "$python" >/dev/null 2>&1; then
    echo "$python"
    exit 0
  fi
done
for python in "$@"; do
  if command -v "$python" >/dev/null; then
    "$python" "$here/check_python.py" "$python" >&2
    exit 1
  fi
done
echo "speedbump: $1 is missing; install Python 3.11 or newer, or name it: make PYTHON=python3.12" >&2
exit 1
