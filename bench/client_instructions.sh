#!/usr/bin/env bash
# bench/client_instructions.sh [--check] [--profile] [--built] [BUILD DIRECTORY]: prints what one
# check costs the client: instructions, heap allocations, and system calls. With --check, it fails
# if a row of bench/client_instructions.txt for this kind of build is exceeded, the instructions by
# more than 15 %, or if there is none; with --profile, it leaves callgrind's files for
# callgrind_annotate in the build directory; with --built, it takes the target client_instructions
# as it is. Needs valgrind and a redis-server (WEIR_REDIS_SERVER). The default directory is
# build/bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check="" profile="" built=""
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --check) check=1 ;;
    --profile) profile=1 ;;
    --built) built=1 ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
  esac
  shift
done
build="${1:-build/bench}"
[[ -n "$built" ]] || cmake --build "$build" --target client_instructions >&2
kind="$(sed -n 's/^CMAKE_BUILD_TYPE:[A-Z]*=//p' "$build/CMakeCache.txt")"
program="$build/bench/client_instructions"

directory="$(mktemp -d)"
"${WEIR_REDIS_SERVER:-redis-server}" --port 0 --unixsocket "$directory/socket" --save '' \
  --appendonly no --dir "$directory" >"$directory/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" || true; rm -rf "$directory"' EXIT
for ((i = 0; i < 100; ++i)); do
  [[ -S "$directory/socket" ]] && break
  kill -0 "$server" 2>/dev/null || { cat "$directory/server.log" >&2 && exit 1; }
  sleep 0.1
done

# TRAFFIC CHECKS: what callgrind counts for a check.
instructions() {
  local file="$directory/callgrind.$1"
  valgrind --tool=callgrind --callgrind-out-file="$file" --toggle-collect=measured \
    "$program" "$directory/socket" "$1" "$2" >"$directory/row" 2>"$directory/valgrind.log" ||
    { cat "$directory/valgrind.log" >&2 && return 1; }
  awk -v checks="$(cut -d' ' -f2 "$directory/row")" '
    /^totals: / { printf "%d", $2 / checks }' "$file"
  [[ -z "$profile" ]] || cp "$file" "$build/bench/"
}

# TRAFFIC CHECKS INSTRUCTIONS: one row. Allocations and system calls are counted without valgrind,
# because they depend on how much travels together.
row() {
  local counted
  counted="$("$program" "$directory/socket" "$1" "$2")" || return 1
  echo "$1 $3 ${counted#* * }"
}
# TRAFFIC CHECKS: one row, with what callgrind counts.
full_row() {
  local counted
  counted="$(instructions "$1" "$2")" || return 1
  row "$1" "$(($2 * 10))" "$counted"
}
{ full_row distinct 20480 && full_row single 20480 && full_row tiers 20480 &&
  full_row cool_downs 20480 && full_row acquire 20480 &&
  full_row hot 40960 && full_row lone 2000 &&
  row pool 20000 - && full_row memory 40960; } |
  tee "$build/bench/client_instructions.log" |
  awk -v check="$check" -v kind="$kind" -v bounds=bench/client_instructions.txt '
    BEGIN {
      while ((getline <bounds) > 0) {
        if ($1 == kind) { most[$2] = $3; heap[$2] = $4; polls[$2] = $5 }
      }
      print "| traffic | instructions | heap allocations | checks per write | per write: reads |" \
        " empty reads | polls | other system calls |"
      print "|---|---|---|---|---|---|---|---|"
    }
    { printf "| %s | %s | %.4f |", $1, $2, $3
      if ($4 > 0) printf " %.0f | %.2f | %.2f | %.2f | %.2f |\n", 1 / $4, $5 / $4, $6 / $4, \
        $7 / $4, $8 / $4
      else print " | | | | |"
      if (check && !($1 in most)) {
        printf "%s: no bound for a %s build\n", $1, kind >"/dev/stderr"
        failed = 1
      } else if (check && ($2 != "-" && $2 > 1.15 * most[$1] || $3 > heap[$1] + 0.05)) {
        printf "%s: %d instructions and %.4f allocations; at most %d and 15 %%, and %.2f are" \
          " allowed\n", $1, $2, $3, most[$1], heap[$1] + 0.05 >"/dev/stderr"
        failed = 1
      } else if (check && polls[$1] && $7 > polls[$1] + 0.1) {
        printf "%s: polls %.2f times for a check; at most %.1f are allowed\n", $1, $7, \
          polls[$1] + 0.1 >"/dev/stderr"
        failed = 1
      } }
    END { exit failed || NR != 9 }'
