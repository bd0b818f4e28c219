#!/bin/sh
# Answers whether a Postgres server is at hand (`check`), and the pooler that tests put before it (`check pgbouncer`), and
# installs both on Debian (`install`).
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

pooler_found() {
    PATH="$PATH:/usr/sbin:/usr/local/sbin:/opt/homebrew/bin" command -v pgbouncer >/dev/null 2>&1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        echo "installing packages needs root: run as root, or install 'postgresql' and 'pgbouncer' yourself" >&2
        exit 1
    fi
}

packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -q
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q \
        --no-install-recommends "$@"
}

install() {
    if found && pooler_found; then
        echo "Postgres and PgBouncer: found"
        return 0
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "not found: install a PostgreSQL server (15 or newer) and PgBouncer with your package manager" >&2
        exit 1
    fi
    # The programs are all that is needed: no cluster and no service of the system's own is created or started.
    as_root mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' |
        as_root tee /etc/postgresql-common/createcluster.d/deadletter.conf >/dev/null
    found || packages postgresql
    if ! pooler_found; then
        packages pgbouncer
        [ ! -d /run/systemd/system ] || as_root systemctl disable --now pgbouncer
    fi
    check
    check_pooler
}

check() {
    found && return 0
    echo "Postgres: no server found; run 'make deps', or set DEADLETTER_TEST_DATABASE_URL to a running one" >&2
    return 1
}

check_pooler() {
    pooler_found && return 0
    echo "PgBouncer: not found; run 'make deps' (Debian package pgbouncer)" >&2
    return 1
}

case "${1:-} ${2:-}" in
"check ") check ;;
"check pgbouncer") check && check_pooler ;;
"install ") install ;;
*)
    echo "usage: hack/postgres.sh check [pgbouncer] | install" >&2
    exit 2
    ;;
esac
