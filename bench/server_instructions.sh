#!/usr/bin/env bash
# bench/server_instructions.sh [--check] [--quick] [BUILD DIRECTORY]: prints how many instructions a
# redis-server spends on one check, by policy, traffic and keys to a script call. With --check, it
# fails if a row of bench/server_instructions.txt is exceeded by more than 15 %; a row that is
# missing there or here fails it, too; and so does a script call that holds the server for more than
# 12 times what one usual script takes. With --quick, it takes the target server_instructions as it
# is, and of single checks, measures only busy keys and refused ones. Needs valgrind and a
# redis-server (WEIR_REDIS_SERVER). The default directory is build/bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check="" quick=""
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --check) check=1 ;;
    --quick) quick=quick ;;
    *) echo "usage: $0 [--check] [--quick] [BUILD DIRECTORY]" >&2 && exit 2 ;;
  esac
  shift
done
build="${1:-build/bench}"
[[ -n "$quick" ]] || cmake --build "$build" --target server_instructions >&2

directory="$(mktemp -d)"
valgrind --tool=callgrind --callgrind-out-file="$directory/callgrind.%p" \
  "${WEIR_REDIS_SERVER:-redis-server}" --port 0 --unixsocket "$directory/socket" --save '' \
  --appendonly no --hz 1 --dynamic-hz no --activerehashing no --dir "$directory" \
  >"$directory/server.log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" || true; rm -rf "$directory"' EXIT
for ((i = 0; i < 600; ++i)); do
  [[ -S "$directory/socket" ]] && break
  kill -0 "$server" 2>/dev/null || { cat "$directory/server.log" >&2 && exit 1; }
  sleep 0.1
done

"$build/bench/server_instructions" "$directory/socket" "$server" "$directory" $quick |
  tee "$build/bench/server_instructions${quick:+_quick}.log" |
  awk -v check="$check" -v quick="$quick" -v bounds=bench/server_instructions.txt '
    BEGIN { while ((getline <bounds) > 0) if ($1 !~ /^#/) most[$1, $2, $3] = $4 }
    $1 == "hold" {
      if (!($2 in held)) { held[$2]; holder[++holders] = $2 }
      hold[$2, $3] = $5; subjects[$2, $3] = $4
      next
    }
    !(($1, $2) in seen) { seen[$1, $2]; order[++rows] = $1 SUBSEP $2 }
    { count[$1, $2, $3] = $4
      if ($3 > most_checks[$1]) most_checks[$1] = $3
      measured[$1, $2, $3]
      if (check && ($1, $2, $3) in most && $4 > 1.15 * most[$1, $2, $3]) {
        printf "%s, %s, %d keys: %d instructions, at most %d and 15 %% are allowed\n", \
          $1, $2, $3, $4, most[$1, $2, $3] >"/dev/stderr"
        failed = 1
      } }
    END {
      for (row in most) {
        split(row, name, SUBSEP)
        if (!check || row in measured || quick && (name[2] == "new" || name[2] == "idle")) continue
        printf "%s, %s, %d keys: not measured\n", name[1], name[2], name[3] >"/dev/stderr"
        failed = 1
      }
      for (row in hold) {
        split(row, name, SUBSEP)
        kind = name[2] == "new" || name[2] == "idle" ? name[2] : "busy"
        usual = count["usual", kind, 1]
        ratio[row] = hold[row] / usual
        if (check && ratio[row] > 12) {
          printf "%s, %s: a call of %d holds the server for %.1f usual scripts\n", \
            name[1], name[2], subjects[row], ratio[row] >"/dev/stderr"
          failed = 1
        }
      }
      if (quick) {
        for (row in count) {
          split(row, name, SUBSEP)
          printf "%s %s %d %d\n", name[1], name[2], name[3], count[row]
        }
        exit failed
      }
      print "| policy | keys are | 1 key to a script | beside the usual | 64 keys | beside the usual |"
      print "|---|---|---|---|---|---|"
      for (i = 1; i <= rows; ++i) {
        split(order[i], name, SUBSEP)
        if (most_checks[name[1]] != 64) continue
        printf "| %s | %s |", name[1], name[2]
        for (keys = 1; keys <= 64; keys += 63) {
          own = count[name[1], name[2], keys]
          printf " %d | %.2f x |", own, count["usual", name[2], keys] / own
        }
        print ""
      }
      print ""
      print "| checks with two keys | keys are | 1 to a script | beside the usual | in a full call |"
      print "|---|---|---|---|---|"
      usual_of["token_bucket,fixed_window"] = "usual_tiers"
      usual_of["token_bucket,cool_downs"] = "usual_cool_down"
      for (i = 1; i <= rows; ++i) {
        split(order[i], name, SUBSEP)
        checks = most_checks[name[1]]
        if (checks == 64 || name[1] ~ /^acquire/) continue
        own = count[name[1], name[2], 1]
        kind = name[2] == "cooling" ? "refused" : name[2]
        usual = count[usual_of[name[1]], kind, 1]
        printf "| %s | %s | %d |", name[1], name[2], own
        if (usual > 0) printf " %.2f x |", usual / own; else printf " |"
        if (checks > 1) printf " %d: %d |", checks, count[name[1], name[2], checks]; else printf " |"
        print ""
      }
      print ""
      print "| reservations | keys are | 1 to a script | in a full call |"
      print "|---|---|---|---|"
      for (i = 1; i <= rows; ++i) {
        split(order[i], name, SUBSEP)
        if (name[1] !~ /^acquire/) continue
        checks = most_checks[name[1]]
        printf "| %s | %s | %d | %d: %d |\n", substr(name[1], 9), name[2], \
          count[name[1], name[2], 1], checks, count[name[1], name[2], checks]
      }
      print ""
      print "| policy | busy | new | idle |"
      print "|---|---|---|---|"
      traffics = split("busy new idle", traffic, " ")
      for (i = 1; i <= holders; ++i) {
        printf "| %s |", holder[i]
        for (t = 1; t <= traffics; ++t) {
          row = holder[i] SUBSEP traffic[t]
          if (row in hold) printf " %d: %.1f x |", subjects[row], ratio[row]; else printf " |"
        }
        print ""
      }
      others = split("one_leaves cooling reserved", traffic, " ")
      for (i = 1; i <= holders; ++i) {
        for (t = 1; t <= others; ++t) {
          row = holder[i] SUBSEP traffic[t]
          if (!(row in hold)) continue
          printf "%s, %s: %d: %.1f x\n", holder[i], traffic[t], subjects[row], ratio[row]
        }
      }
      exit failed
    }'
