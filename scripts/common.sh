# Sourced by the other scripts: goes to the project's root and finds a Python 3.11 to start with.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ -z "${PYTHON:-}" ]; then
    PYTHON=python3
    if command -v python3.11 >/dev/null && python3.11 -c '' 2>/dev/null; then PYTHON=python3.11; fi
fi
# without compiled modules every Python start, Spark's workers among them, takes twice as long
unset PYTHONDONTWRITEBYTECODE
