#!/bin/sh
# Installs, on Debian, the languages that the workers of docs/workers.md are written in, as far as they are missing: their
# tests run them.
set -eu

missing=
for program in curl jq python3 node; do
    command -v "$program" >/dev/null 2>&1 && continue
    [ "$program" = node ] && program=nodejs
    missing="$missing $program"
done

if [ -z "$missing" ]; then
    echo "curl, jq, python3 and node: found"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "not found:$missing; the tests of the workers that need them are skipped" >&2
    exit 0
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
    as_root=sudo
fi
apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300"
$apt update -q
# shellcheck disable=SC2086 # a list of packages
$apt install -y -q --no-install-recommends $missing
