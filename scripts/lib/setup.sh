# shellcheck shell=bash
#
# Sourced by the scripts: installs what the build and the tests need.
#
#   weir_setup              compiler, build tools, the libraries that weir itself needs
#   weir_setup servers      also redis-server and memcached
#   weir_setup tests        also both servers, and what the tests and benchmarks need
#   weir_setup sanitize     also clang and its sanitizer runtime; WEIR_CLANGXX names the compiler
#   weir_setup lint         the library's needs, clang, and what scripts/lint runs; WEIR_CLANG_TIDY
#   weir_build_program      builds one of the larger examples
#
# On Debian and Ubuntu, apt-get installs the missing packages, and only those. On other systems they
# have to be installed already.

weir_say() { printf '%s\n' "$*" >&2; }

weir_installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}
weir_known() { [[ -n "$(apt-cache show --no-all-versions "$1" 2>/dev/null)" ]]; }

# The versions X.Y of the packages libboostX.Y-dev in stdin, 1.81 or newer, newest first.
weir_boost_versions() {
  sed -nE 's/^libboost([0-9]+\.[0-9]+)-dev( .*)?$/\1/p' | sort -rV |
    while read -r v; do
      [[ "$(printf '1.81\n%s\n' "$v" | sort -V | head -n1)" == 1.81 ]] && echo "$v"
    done
}

# The Boost to use: the newest installed one, else the newest that apt can install completely.
weir_boost_version() {
  local v
  for v in $(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 'libboost*-dev' 2>/dev/null |
    sed -n 's/^installed //p' | weir_boost_versions); do
    echo "$v" && return
  done
  for v in $(apt-cache search --names-only '^libboost[0-9.]+-dev$' | weir_boost_versions); do
    if weir_known "libboost-url$v-dev" && weir_known "libboost-test$v-dev"; then
      echo "$v" && return
    fi
  done
}

# The clang for the sanitizers: an installed one, else one that is known to work with this Boost (18
# on Ubuntu 24.04, 16 on Debian 12), else the newest.
weir_clang_version() {
  local v
  for v in 18 16 17 $(seq 40 -1 19); do
    if weir_installed "clang-$v" && weir_installed "libclang-rt-$v-dev"; then
      echo "$v" && return
    fi
  done
  for v in 18 16 17 $(seq 40 -1 19); do
    if weir_known "clang-$v" && weir_known "libclang-rt-$v-dev"; then echo "$v" && return; fi
  done
}

# The words of weir_setup that a word includes.
weir_needs() {
  case "${1:-}" in
    "") echo base ;;
    servers) echo base servers ;;
    tests) echo base servers tests ;;
    sanitize) echo base servers tests clang ;;
    lint) echo base clang lint ;;
  esac
}

# The missing packages, on one line. A name with a "?" is one that apt does not know (yet).
weir_missing() {
  local boost clang need command package needs
  needs=" $(weir_needs "${1:-}") "
  boost="$(weir_boost_version)"
  while read -r need package; do
    [[ "$needs" == *" $need "* ]] || continue
    weir_installed "$package" || printf '%s ' "$package"
  done <<PACKAGES
base libssl-dev
base libboost${boost:-1.81?}-dev
base libboost-url${boost:-1.81?}-dev
tests libboost-test${boost:-1.81?}-dev
tests libbenchmark-dev
tests libhiredis-dev
tests prometheus-cpp-dev
PACKAGES
  while read -r need command package; do
    [[ "$needs" == *" $need "* ]] || continue
    command -v "$command" >/dev/null || printf '%s ' "$package"
  done <<'TOOLS'
base g++ g++
base cmake cmake
base ninja ninja-build
servers redis-server redis-server
servers redis-cli redis-tools
servers memcached memcached
tests pkg-config pkg-config
tests python3 python3
tests taskset util-linux
tests valgrind valgrind
lint shellcheck shellcheck
lint clang-format-16 clang-format-16
TOOLS
  if [[ "$needs" == *" clang "* ]]; then
    clang="$(weir_clang_version)"
    for package in "clang-${clang:-16?}" "libclang-rt-${clang:-16?}-dev"; do
      weir_installed "$package" || printf '%s ' "$package"
    done
    if [[ "$needs" == *" lint "* ]] && ! weir_installed "clang-tidy-${clang:-16?}"; then
      printf '%s ' "clang-tidy-${clang:-16?}"
    fi
  fi
}

# weir_apt <log> <root prefix...> -- <package...>: installs without asking, and without starting any
# server: meanwhile a policy-rc.d forbids that, unless the machine has one already.
weir_apt() (
  log="$1" && shift
  root=()
  while [[ "$1" != -- ]]; do root+=("$1") && shift; done
  shift
  policy=/usr/sbin/policy-rc.d
  if [[ ! -e "$policy" ]]; then
    trap '"${root[@]}" rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
  fi
  options=(-y --no-install-recommends -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  # Another Boost may be in the way. Only in CI may it be removed.
  [[ -n "${CI:-}" ]] || options+=(--no-remove)
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get "${options[@]}" install "$@" \
    </dev/null >>"$log" 2>&1
)

weir_setup() {
  local log=build/setup.log missing root=() command
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    local commands=(g++ cmake ninja)
    [[ "${1:-}" == @(|lint) ]] || commands+=(redis-server redis-cli memcached)
    [[ "${1:-}" != @(tests|sanitize) ]] || commands+=(pkg-config python3)
    for command in "${commands[@]}"; do
      command -v "$command" >/dev/null && continue
      weir_say "error: '$command' is missing, and this is neither Debian nor Ubuntu: please" \
        "install it, Boost >= 1.81 (with Boost.URL) and OpenSSL; for the tests also Boost.Test," \
        "Google Benchmark and hiredis"
      return 1
    done
    WEIR_CLANGXX="${WEIR_CLANGXX:-clang++}"
    # shellcheck disable=SC2034
    WEIR_CLANG_TIDY="${WEIR_CLANG_TIDY:-clang-tidy}"
    return 0
  fi

  missing="$(weir_missing "$@")"
  if [[ -n "$missing" ]]; then
    if [[ "$(id -u)" != 0 ]]; then
      if ! sudo -n true 2>/dev/null; then
        weir_say "error: packages are missing, and this user is not root and has no sudo without" \
          "a password. Please run:"
        weir_say "  sudo apt-get update && sudo apt-get install ${missing//\?/}"
        return 1
      fi
      root=(sudo -n)
    else
      root=(env)
    fi
    mkdir -p build
    weir_say "Updating the package lists (log: $log)"
    # A broken extra source fails this although the packages may be there: the installation decides.
    "${root[@]}" apt-get update -o Acquire::Retries=3 </dev/null >"$log" 2>&1 || true
    missing="$(weir_missing "$@")"  # asked again: with the new lists, newer versions may be known
    if [[ "$missing" == *\?* ]]; then
      cat "$log" >&2
      weir_say "error: apt knows no suitable package for: ${missing//\?/ or newer}"
      return 1
    fi
    weir_say "Installing $missing"
    # shellcheck disable=SC2086
    if ! weir_apt "$log" "${root[@]}" -- $missing; then
      cat "$log" >&2
      weir_say "error: the installation failed; by hand: sudo apt-get install $missing"
      return 1
    fi
  fi

  if [[ "${1:-}" == @(sanitize|lint) ]]; then
    WEIR_CLANGXX="clang++-$(weir_clang_version)"
    # shellcheck disable=SC2034
    WEIR_CLANG_TIDY="clang-tidy-$(weir_clang_version)"
  fi
  [[ "${1:-}" != @(|lint) ]] || return 0
  # The integration tests need them, and are never skipped silently.
  for command in redis-server memcached; do
    command -v "$command" >/dev/null && continue
    weir_say "error: there is no $command in PATH, even after the set-up (PATH=$PATH)"
    return 1
  done
}

# weir_build_program FOLDER TARGET: builds a program of examples/FOLDER and prints its path. Nothing
# else goes to the standard output, which belongs to the program.
weir_build_program() {
  local log="build/$1.log" program="build/release/examples/$1/$2"
  mkdir -p build
  local pieces=()
  # A few large pieces compile in a third of the time. A build directory that exists keeps what it
  # has.
  [[ -f build/release/CMakeCache.txt ]] || pieces=(-DWEIR_UNITY=ON)
  if ! cmake --preset release ${pieces[@]+"${pieces[@]}"} </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  if [[ ! -x "$program" ]]; then
    weir_say "Building the library and the program: about a minute, the first time"
  fi
  cmake --build --preset release --target "$2" --parallel "${WEIR_JOBS:-$(nproc)}" \
    </dev/null >&2 || return 1
  printf '%s\n' "$program"
}
