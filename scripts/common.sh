# Sourced by the other scripts: goes to the project's root and finds a Python to start with, the newest that the locks
# are for. PYTHON names another one. Where there is none, uv brings one, if it is installed and may download.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHONS="3.14 3.13 3.12 3.11"
supported="3.11 to 3.14"

# fits COMMAND...: whether it starts a Python of these versions
fits() {
    "$@" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] not in '$PYTHONS'.split())" >/dev/null 2>&1
}

# must_fit COMMAND [NAME]: stops with what the command says of itself where it starts none
must_fit() {
    fits "$1" || stop "${2:-$1} starts no Python $supported: $("$1" --version 2>&1 | head -n 1)"
}

# makes_environments COMMAND: Debian and Ubuntu leave what it takes to a package of its own
makes_environments() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

stop() {
    echo "$0: $*" >&2
    exit 1
}

# found_by_uv: the path of one that is on PATH or that uv installed
found_by_uv() {
    uv python find --system --no-project ">=3.11,<3.15" 2>/dev/null
}

find_python() {
    local name bare='' found=''
    for name in $(printf 'python%s ' $PYTHONS) python3; do
        fits "$name" || continue
        if makes_environments "$name"; then PYTHON=$name && return; fi
        bare=${bare:-$name}
    done
    if command -v uv >/dev/null; then
        if [ -n "$bare" ]; then PYTHON=$bare && return; fi
        PYTHON=$(found_by_uv) && return
        echo "$0: no Python $supported is here: uv brings one"
        uv python install --quiet 3.13 2>/dev/null && PYTHON=$(found_by_uv) && return
    fi
    if [ -n "$bare" ]; then
        stop "$bare can't make virtual environments: install venv for it" \
            "(Debian and Ubuntu: apt-get install $bare-venv), or uv"
    fi
    found=$(python3 --version 2>&1) || found="no python3"
    stop "Python $supported is needed; here is $found." \
        "Install one (Debian and Ubuntu: apt-get install python3 python3-venv), or uv, which brings one," \
        "or set PYTHON to one"
}

if [ -z "${PYTHON:-}" ]; then
    find_python
else
    must_fit "$PYTHON" "PYTHON=$PYTHON"
fi
# where the home takes no caches, those of installers and libraries, and Maven's repository, are here
if ! { mkdir -p "${XDG_CACHE_HOME:=${HOME:-/dev/null}/.cache}" && [ -w "$XDG_CACHE_HOME" ]; } 2>/dev/null; then
    export XDG_CACHE_HOME=$PWD/.cache/home MAVEN_REPO_LOCAL="${MAVEN_REPO_LOCAL:-$PWD/.cache/maven}"
fi
# without compiled modules every Python start, Spark's workers among them, takes twice as long
unset PYTHONDONTWRITEBYTECODE
