#!/usr/bin/env bash
# bench/walk.sh [BUILD DIRECTORY]: how many files and functions of the library one call passes, from
# the caller to the server and back, by callgrind on a build without optimisation. A header and its
# source count as one file. The second number of functions leaves out those of one or two lines.
# Needs valgrind and a redis-server (WEIR_REDIS_SERVER). The default directory is build/walk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build="${1:-build/walk}"
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='-O0 -g -fno-inline' \
  -DBUILD_TESTING=OFF >/dev/null
cmake --build "$build" --parallel "${WEIR_JOBS:-$(nproc)}" >/dev/null
"${CXX:-g++}" -std=c++20 -O0 -g -fno-inline -Iinclude -I"$build/generated" bench/walk.cpp \
  "$build/src/libweir.a" -lboost_url -lssl -lcrypto -o "$build/walk"

directory="$(mktemp -d)"
"${WEIR_REDIS_SERVER:-redis-server}" --port 0 --unixsocket "$directory/socket" --save '' \
  --appendonly no --dir "$directory" >"$directory/server.log" 2>&1 &
server=$!
trap 'kill "$server"; wait "$server" || true; rm -r "$directory"' EXIT
until [[ -S "$directory/socket" ]]; do sleep 0.05; done

for what in record acquire wait; do
  WEIR_REDIS_URL="unix://$directory/socket" valgrind --tool=callgrind --collect-atstart=no \
    --toggle-collect='walked*' --compress-strings=no --compress-pos=no \
    --callgrind-out-file="$directory/$what" "$build/walk" "$what" 2>"$directory/valgrind.log" || cat "$directory/valgrind.log"
  python3 - "$what" "$PWD/" "$directory/$what" <<'END'
import os, re, sys

what, root, path = sys.argv[1:]
lines = {}  # of each function of the library
where = name = None
for line in open(path):
    if line.startswith("fl="):
        where = os.path.normpath(os.path.join(root, line[3:].strip()))
    elif line.startswith("fn="):
        name = re.sub(r"<.*>|'\d+$", "", line[3:].strip())
    elif line[0].isdigit() and where and re.match(root + "(src|include)/", where):
        lines.setdefault((where, name), set()).add(line.split()[0])
files = {re.sub(r"\.[ch]pp$", "", where) for where, _ in lines}
large = sum(len(of) > 2 for of in lines.values())
print(f"{what}: {len(files)} files, {len(lines)} functions, {large} of more than two lines")
END
done
