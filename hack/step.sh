#!/bin/sh
# Runs a command under a name and says how long it took: hack/step.sh NAME COMMAND [ARG...]
set -u

name=$1
shift

printf '==> %s\n' "$name"
start=$(date +%s)
"$@"
code=$?
took=$(($(date +%s) - start))

if [ "$code" -eq 0 ]; then
    printf '<== %s: ok, %ds\n' "$name" "$took"
else
    printf '<== %s: FAILED with exit code %d after %ds\n' "$name" "$code" "$took"
fi
exit "$code"
