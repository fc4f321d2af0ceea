# Markdown tables from the JSON files of policy_bench and redis_bench, one file per round: medians
# over the rounds. Google Benchmark writes one "key": value to a line. The rows' names are explained
# at the top of each *_bench.cpp.

/"name": / {
  name = text_value($0)
  sub(/\/iterations:1\/manual_time$/, "", name)
  if (!(name in rounds)) names[++name_count] = name
  ++rounds[name]
}
/"error_message": / { errors[name] = text_value($0) }
/"(real_time|checks_per_s|p50_us|p99_us|client_us|server_us|allocs)": / {
  key = $1
  gsub(/[":]/, "", key)
  value[name, key, rounds[name]] = $2 + 0
}

END {
  for (i = 1; i <= name_count; ++i) {
    split(names[i], part, "/")
    if (part[1] == "weir" || part[1] == "redis-benchmark") continue
    if (part[1] == "clock") clock = names[i]
    else if (!(part[2] in seen)) policies[++policy_count] = part[2]
    seen[part[2]] = 1
  }
  if (policy_count) in_process()
  for (i = 1; i <= name_count && !redis_rows; ++i)
    redis_rows = names[i] ~ /^(weir|redis-benchmark)\//
  if (redis_rows) through_redis()
  for (name in errors) print "**" name ": " errors[name] "**"
}

function in_process(    i, j, k, columns, line) {
  print "### One check in this process"
  print ""
  print "ns per check; in brackets, heap allocations per check where there are any."
  if (clock)
    printf "Reading the system clock, which all but the kernels do, takes %.1f ns.\n",
      median(clock, "real_time")
  print ""
  print "| policy | kernel | refused | `local_limiter` | refused | memory, 1 | 1,000 | 1,000,000 |"
  print "|---|--:|--:|--:|--:|--:|--:|--:|"
  k = split("kernel_admitted/P kernel_refused/P local_admitted/P local_refused/P memory/P/1 " \
            "memory/P/1000 memory/P/1000000", columns, " ")
  for (i = 1; i <= policy_count; ++i) {
    line = "| " policies[i]
    for (j = 1; j <= k; ++j) {
      name = columns[j]
      sub(/P/, policies[i], name)
      line = line " | " in_process_cell(name)
    }
    print line " |"
  }
  print ""
}

function in_process_cell(name,    allocs) {
  if (!(name in rounds)) return ""
  allocs = median(name, "allocs")
  return number(median(name, "real_time")) (allocs >= 0.005 ? sprintf(" (%.2f)", allocs) : "")
}

function through_redis(    i, part, callers, keys, base, rate) {
  print "### Through one connection to Redis"
  print ""
  print "p50, p99 and CPU per check of the client's and the server's core in us. *Reference* is"
  print "redis-benchmark with the same script, keys and requests under way; 64* is single_threaded."
  print ""
  print "| policy | keys | callers | per script | checks/s | p50 | p99 " \
    "| client | server | allocs | ratio |"
  print "|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"
  for (i = 1; i <= name_count; ++i) {
    if (names[i] !~ /^(weir|redis-benchmark)\//) continue
    part[6] = ""
    split(names[i], part, "/")
    callers = substr(part[4], length("callers:") + 1)
    keys = part[1] == "weir" ? substr(part[5], length("keys:") + 1) : "*reference*"
    if (part[6] != "") keys = keys "*"
    base = "redis-benchmark/" part[2] "/" part[3] "/" part[4]
    rate = median(names[i], "checks_per_s")
    printf "| %s | %s | %s | %s | %s | %s | %s | %.2f | %.2f | %s | %s |\n",
      part[2], part[3], thousands(callers),
      keys, thousands(round3(rate)),
      number(median(names[i], "p50_us")), number(median(names[i], "p99_us")),
      median(names[i], "client_us"), median(names[i], "server_us"),
      part[1] == "weir" ? sprintf("%.2f", median(names[i], "allocs")) : "",
      part[1] == "weir" && base in rounds ? \
        sprintf("%.2f", rate / median(base, "checks_per_s")) : ""
  }
  print ""
}

function median(name, key,    n, i, j, v, sorted) {
  n = rounds[name]
  for (i = 1; i <= n; ++i) {
    v = value[name, key, i]
    for (j = i; j > 1 && sorted[j - 1] > v; --j) sorted[j] = sorted[j - 1]
    sorted[j] = v
  }
  return n % 2 ? sorted[(n + 1) / 2] : (sorted[n / 2] + sorted[n / 2 + 1]) / 2
}

function number(x) { return x < 10 ? sprintf("%.1f", x) : thousands(int(x + 0.5)) }

# Three digits are more than the measurement knows.
function round3(x,    unit) {
  for (unit = 1; x / unit >= 1000; unit *= 10) {}
  return int(x / unit + 0.5) * unit
}

function thousands(x,    text, out) {
  text = sprintf("%d", x)
  for (out = ""; length(text) > 3; text = substr(text, 1, length(text) - 3)) {
    out = "," substr(text, length(text) - 2) out
  }
  return text out
}

function text_value(line) {
  sub(/^[^:]*: "/, "", line)
  sub(/",?[ \t\r]*$/, "", line)
  return line
}
