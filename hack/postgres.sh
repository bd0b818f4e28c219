#!/bin/sh
# Answers whether a Postgres server is at hand (`check`) and installs one on Debian (`install`).
set -eu

# Tests and the demo start throw-away clusters of an installed server, unless a URL names a running one.
found() {
    [ -n "${DEADLETTER_TEST_DATABASE_URL:-}" ] && return 0
    command -v initdb >/dev/null 2>&1 && command -v postgres >/dev/null 2>&1 && return 0
    for dir in /usr/lib/postgresql/*/bin /usr/local/pgsql/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin; do
        [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ] && return 0
    done
    return 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "installing packages needs root: run as root, or install the package 'postgresql' yourself" >&2
        exit 1
    fi
}

install() {
    if found; then
        echo "Postgres: found"
        return 0
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "Postgres: not found; install a PostgreSQL server (14 or newer) with your package manager" >&2
        exit 1
    fi
    # The server's programs are all that is needed: no cluster of the system's own is created or started.
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' |
        as_root tee /etc/postgresql-common/createcluster.d/deadletter.conf >/dev/null
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q \
        --no-install-recommends postgresql
    found || {
        echo "Postgres: still not found after installing the package 'postgresql'" >&2
        exit 1
    }
}

case "${1:-}" in
check)
    found || {
        echo "Postgres: no server found; run 'make deps', or set DEADLETTER_TEST_DATABASE_URL to a running one" >&2
        exit 1
    }
    ;;
install) install ;;
*)
    echo "usage: hack/postgres.sh check|install" >&2
    exit 2
    ;;
esac
