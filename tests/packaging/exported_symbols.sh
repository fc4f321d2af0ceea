#!/bin/sh
# exported_symbols.sh <libweir.so> <list>: fails unless the library exports exactly the functions
# and variables of the list, and beside them only inline ones of weir, Boost and the standard
# library. Those are weak: Boost.Asio marks its own to be one in the process, as its call stacks and
# error categories must be.
set -eu
export LC_ALL=C
all="$(nm -DC --defined-only "$1" | sed 's/^[0-9a-f]* //')"
printf '%s\n' "$all" | sed -n 's/^[TBDRG] //p' | sort -u | diff -u "$2" -
strange="$(printf '%s\n' "$all" | grep -v '^[TBDRG] ' |
  grep -vE '(^|[^[:alnum:]_])(weir|boost|std|__gnu_cxx)::' || true)"
if [ -n "$strange" ]; then
  echo "neither weir's, nor Boost's, nor the standard library's: $strange" >&2
  exit 1
fi
