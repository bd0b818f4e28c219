#!/bin/sh
# Regenerates everything and fails if that changed a file, showing the change: what is committed is what the sources say.
#
# The work tree is compared with itself before and after, so it also works on changes that are not committed yet.
set -eu

cd "$(dirname "$0")/.."

if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo "verify compares the work tree by git, and this is no git repository" >&2
    exit 1
fi

index=$(mktemp)
trap 'rm -f "$index"' EXIT

# The work tree as a git tree object, without touching the real index.
snapshot() {
    cp "$(git rev-parse --git-path index)" "$index"
    GIT_INDEX_FILE=$index git add --all .
    GIT_INDEX_FILE=$index git write-tree
}

failed=0

before=$(snapshot)
"$@"
after=$(snapshot)
if [ "$before" != "$after" ]; then
    git --no-pager diff --stat --patch "$before" "$after"
    echo "generated files are stale: run '$*' and commit the result" >&2
    failed=1
fi

for module in $(git ls-files --cached --others --exclude-standard 'go.mod' '*/go.mod'); do
    dir=$(dirname "$module")
    if ! (cd "$dir" && go mod tidy -diff); then
        echo "$module is not tidy: run 'go mod tidy' in $dir and commit the result" >&2
        failed=1
    fi
done

exit "$failed"
