#!/bin/sh
# Runs every fuzz target of every module for a short while: hack/fuzz.sh DURATION
set -eu

duration=${1:?usage: hack/fuzz.sh DURATION}
cd "$(dirname "$0")/.."

targets=0
for file in $(grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | sort); do
    for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
        hack/step.sh "fuzz $target for $duration" \
            go test -C "$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$duration" .
        targets=$((targets + 1))
    done
done
echo "$targets fuzz targets ran for $duration each"
