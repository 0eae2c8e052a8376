#!/usr/bin/env bash
# Makes a bare checkout ready. Run by the Makefile; safe to run twice, at once, and after Ctrl-C.
#
#   tools/setup.sh runtime         .venv with what Longshore needs to run
#   tools/setup.sh dev             .venv with the development tools as well
#   tools/setup.sh packages        the Debian packages that the tests need (tools/debian-packages.txt)
#   tools/setup.sh install NAME…   these Debian packages, if missing
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly UNFINISHED=$VENV/.install-unfinished
readonly TRIES=3

say() { printf 'setup: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

# Runs a command up to $TRIES times: mirrors and package indexes fail for moments.
retry() {
    local try
    for ((try = 1; try <= TRIES; try++)); do
        "$@" && return 0
        ((try < TRIES)) || break
        say "failed ($*); trying again in $((try * 5)) s"
        sleep $((try * 5))
    done
    say "failed $TRIES times: $*"
    return 1
}

# One set-up at a time in this checkout. The lock is on the directory itself, so that no file of it
# is left over, and it ends with this process, however that ends.
lock_checkout() {
    exec {lock}<.
    if ! flock --nonblock "$lock"; then
        say "another set-up runs in this checkout; waiting for it"
        flock "$lock"
    fi
}

# ---- Debian packages ------------------------------------------------------------------------

missing_packages() {
    local name
    for name in "$@"; do
        [[ "$(dpkg-query --show --showformat='${db:Status-Status}' "$name" 2>/dev/null)" == installed ]] ||
            printf '%s\n' "$name"
    done
}

apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes \
        --option DPkg::Lock::Timeout=300 --option Acquire::Retries=3 "$@" </dev/null >&2
}

have_package_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# A stale list names files that the mirror no longer has, and an interrupted installation leaves
# packages half configured: both are mended before the next try.
install_once() {
    have_package_lists || apt_get update
    apt_get install --no-install-recommends "$@" && return 0
    dpkg --configure --pending </dev/null >&2 || say "dpkg could not finish what was half configured"
    apt_get update
    return 1
}

# Installs what is missing without starting its services: the tests start their own sshd, and
# nobody asked for one on port 22 of this machine.
install_packages() {
    local -a missing
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]})) || return 0
    say "installing Debian packages: ${missing[*]}"
    local policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
    fi
    retry install_once "${missing[@]}" || die "could not install ${missing[*]}"
    command -v systemctl >/dev/null || return 0
    local name
    for name in "${missing[@]}"; do
        case "$name" in
            openssh-server) disable ssh.service ;;
            prometheus) disable prometheus.service prometheus-node-exporter.service ;;
        esac
    done
}

disable() { systemctl --quiet disable "$@" || say "could not disable $*"; }

is_root() { [[ $EUID -eq 0 ]]; }

install_test_packages() {
    local -a wanted missing
    mapfile -t wanted < <(sed -E 's/[[:space:]]*#.*//; /^$/d' tools/debian-packages.txt)
    if ! command -v dpkg-query >/dev/null; then
        say "!!! this is no Debian system: install the counterparts of: ${wanted[*]}"
        return 0
    fi
    if is_root; then
        install_packages "${wanted[@]}"
        mkdir -p /run/sshd # sshd refuses to start without it, and only its service makes it
        return 0
    fi
    mapfile -t missing < <(missing_packages "${wanted[@]}")
    if ((${#missing[@]})); then
        say "!!! NOT EVERYTHING WILL BE TESTED: missing ${missing[*]}"
        say "!!! install them with: sudo tools/setup.sh packages"
    elif [[ ! -d /run/sshd ]]; then
        say "!!! /run/sshd is missing; make it with: sudo tools/setup.sh packages"
    fi
}

# ---- the virtual environment ----------------------------------------------------------------

find_python() {
    local name
    for name in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return 0
        fi
    done
    die "no Python 3.11 or later found; install python3, or name one with PYTHON=…"
}

need_ensurepip() {
    "$1" -c 'import ensurepip' 2>/dev/null && return 0
    is_root && command -v apt-get >/dev/null ||
        die "$1 cannot make virtual environments; install it with: sudo apt-get install python3-venv"
    install_packages python3-venv
}

# What an installation depends on: the requirements, the place (scripts name it in their first
# line) and the interpreter. The stamp is written last, so it exists only for a finished one.
fingerprint() { { cat pyproject.toml; pwd -P; "$1" -VV; } | sha256sum | cut -d' ' -f1; }

venv_works() {
    [[ "$(head -n 1 $VENV/bin/pip)" == "#!$(pwd -P)/$VENV/bin/python"* ]] &&
        $VENV/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))'
}

# A venv that a killed pip left may look complete to the next pip and not be: it is made anew.
make_venv() {
    local python=$1
    if [[ -e $UNFINISHED ]]; then
        say "the last installation was interrupted; starting over"
        rm -rf $VENV
    elif [[ -d $VENV ]] && ! venv_works; then
        say "$VENV does not work any more, or not here; making it anew"
        rm -rf $VENV
    fi
    mkdir -p $VENV
    touch $UNFINISHED
    [[ -x $VENV/bin/python ]] || "$python" -m venv $VENV
}

install_python() {
    local kind=$1 what=$2 python stamp now
    python=$(find_python)
    now=$(fingerprint "$python")
    for stamp in "$VENV/.installed-$kind" "$VENV/.installed-dev"; do
        if [[ ! -e $UNFINISHED && -r $stamp && $(<"$stamp") == "$now" ]]; then
            return 0
        fi
    done
    need_ensurepip "$python"
    say "installing Python packages into $VENV (a minute or so the first time)"
    make_venv "$python"
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 retry \
        $VENV/bin/python -m pip install --quiet --editable "$what" </dev/null >&2 ||
        die "could not install the Python packages"
    printf '%s\n' "$now" >"$VENV/.installed-$kind"
    rm -f $UNFINISHED
    [[ -e dispatcher/api/bundle/index.html ]] ||
        say "the dashboard was not built; see why with: $VENV/bin/python -m pip install -v --editable ."
    say "done"
}

main() {
    lock_checkout
    case "${1:-}" in
        runtime) install_python runtime . ;;
        dev) install_python dev '.[dev]' ;;
        packages) install_test_packages ;;
        install) install_packages "${@:2}" ;;
        *) die "usage: tools/setup.sh runtime|dev|packages|install NAME…" ;;
    esac
}

main "$@"
