#pragma once

#include "support/limiter_fixture.hpp"
#include "support/memcached_server.hpp"
#include "weir/memcached_store.hpp"

namespace weir::test {

/// Stores on a memcached that runs as long as the test program.
struct memcached_fixture : limiter_fixture {
  /// One server for all cases; each case has a prefix of its own.
  static memcached_server_process& server() {
    static memcached_server_process one;
    return one;
  }
  static std::string new_prefix() {
    static int last = 0;
    return "case" + std::to_string(++last);
  }
  static memcached_options options() {
    memcached_options o = server().patient_options();
    o.key_prefix = new_prefix();
    return o;
  }
  store open(memcached_options o = options()) {
    return make_memcached_store(io.get_executor(), std::move(o));
  }
  decision record(limiter& l, std::string_view subject, std::int64_t cost = 1) {
    return answer([&](auto handler) { l.record(subject, {.cost = cost}, handler); });
  }
  error_code error_of_record(limiter& l, std::string_view subject = "a") {
    return outcome_of([&](auto handler) { l.record(subject, handler); }).ec;
  }
};

}  // namespace weir::test
