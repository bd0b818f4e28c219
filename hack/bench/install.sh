#!/bin/sh
# Installs the peers of the benchmarks that Debian has: PgQ for each installed Postgres, and RabbitMQ, which is not
# left running. The others are Go modules and npm packages, which the benchmarks fetch themselves.
set -eu

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

install() {
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=300 install -y -q \
        --no-install-recommends "$@"
}

if ! command -v apt-get >/dev/null 2>&1; then
    echo "only Debian's packages are known here; the benchmarks skip the peers that are missing and say so" >&2
    exit 1
fi

as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -q
for dir in /usr/lib/postgresql/*/bin; do
    [ -x "$dir/postgres" ] || continue
    version=$(basename "$(dirname "$dir")")
    install "postgresql-$version-pgq3" || echo "no PgQ for Postgres $version" >&2
done
install rabbitmq-server
if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    as_root systemctl disable --now rabbitmq-server
fi
