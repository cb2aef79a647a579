#!/usr/bin/env bash
# release.sh [DIR]: builds the release files in DIR (dist): for each target an archive with the static binary, manual
# pages, completions, deploy/ and configs/; a bill of materials (CycloneDX) for each binary; SHA256SUMS.
# A release is a commit: the script builds a clone of HEAD, and refuses a work tree with changes. One target is built a
# second time, from another directory and without the build cache; both builds must be equal byte for byte.
#   TARGETS="linux/amd64" tools/release.sh     only these targets
#   tools/release.sh --list                    the targets
set -euo pipefail
cd "$(dirname "$0")/.."
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}
if [ "${1:-}" = --list ]; then
  printf '%s\n' $targets
  exit
fi
out=$(realpath -m "${1:-dist}")
go=${GO:-go}
tar --version 2>/dev/null | grep -q 'GNU tar' || { echo "release.sh: GNU tar is needed, for archives that are the same bytes every time" >&2; exit 1; }
[ -z "$(git status --porcelain)" ] || { echo "release.sh: there are changes that are not committed; a release is a commit:" >&2; git status --short >&2; exit 1; }

version=$(git describe --tags --always --match 'v*')
epoch=$(git log -1 --format=%ct)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
rm -rf "$out" && mkdir -p "$out"

# build SOURCE TARGET BINARY
build() {
  (cd "$1" && env -u GOFLAGS CGO_ENABLED=0 GOOS="${2%/*}" GOARCH="${2#*/}" GOAMD64=v1 GOARM64=v8.0 \
    "$go" build -trimpath -buildvcs=true -ldflags="-s -w -buildid=" -o "$3" ./cmd/precept)
  "$go" version -m "$3" | grep -q 'vcs.modified=false' || { echo "release.sh: $2 was not built from a commit" >&2; exit 1; }
}

source=$work/source
git clone -q --no-local . "$source"
host=$("$go" env GOHOSTOS)/$("$go" env GOHOSTARCH)
echo "precept $version with $("$go" env GOVERSION)"
build "$source" "$host" "$work/precept"

# Files in every archive in addition to the binary.
common=$work/common
mkdir -p "$common/completions"
(cd "$source" && env -u GOFLAGS PRECEPT_MAN="$common/man/man1" "$go" test -count=1 -run '^TestManualPages$' ./cmd/precept >/dev/null)
for shell in bash zsh fish powershell; do "$work/precept" completion "$shell" >"$common/completions/precept.$shell"; done
cp -r "$source"/{LICENSE,README.md,CHANGELOG.md,SECURITY.md,deploy} "$common/"
mkdir "$common/configs" && cp -r "$source"/configs/{precept.yaml,lessons,prometheus,grafana} "$common/configs/"

for target in $targets; do
  name=precept_${version}_${target/\//_}
  binary=precept
  [ "${target%/*}" != windows ] || binary=precept.exe
  mkdir "$work/$name"
  cp -r "$common/." "$work/$name/"
  build "$source" "$target" "$work/$name/$binary"
  "$go" run -C "$source/tools" ./sbom "$work/$name/$binary" >"$out/$name.cdx.json"
  chmod -R u=rwX,go=rX "$work/$name"
  tar -C "$work" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" | gzip -n -9 >"$out/$name.tar.gz"
  echo "$name.tar.gz $(stat -c %s "$out/$name.tar.gz") bytes, binary $(stat -c %s "$work/$name/$binary")"
  rm -rf "${work:?}/$name"
done
(cd "$out" && sha256sum -- * >SHA256SUMS)

again=$work/quite/another/place
git clone -q --no-local . "$again"
GOCACHE=$work/cache build "$again" "$host" "$work/again"
cmp "$work/precept" "$work/again" || { echo "release.sh: two builds of one commit differ" >&2; exit 1; }
echo "built twice, $host: the same $(stat -c %s "$work/again") bytes, sha256 $(sha256sum "$work/again" | cut -c1-16)..."
