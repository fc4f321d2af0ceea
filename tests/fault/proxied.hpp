#pragma once

#include <boost/test/unit_test.hpp>

#include "support/fault_proxy.hpp"
#include "support/limiter_fixture.hpp"
#include "weir/weir.hpp"

namespace weir::test {

/// A real server, a proxy in front of it, and the way through both.
struct proxied : limiter_fixture {
  redis_server server;
  fault_proxy proxy{io, server};
  redis_options options = through_proxy();

  redis_options through_proxy() const {
    redis_options o = patient_options(server);
    o.port = static_cast<std::uint16_t>(proxy.port());
    return o;
  }
  weir::store open() { return make_redis_store(io.get_executor(), options); }

  /// One call, awaited.
  outcome record(const limiter& l, std::string_view subject, record_options how = {}) {
    return outcome_of([&](auto handler) { l.record(subject, how, handler); });
  }
  outcome fetch(const limiter& l, std::string_view subject) {
    return outcome_of([&](auto handler) { l.fetch(subject, handler); });
  }
  /// Until the first call that succeeds: a store on its way back may fail some.
  decision record_until_it_succeeds(const limiter& l, std::string_view subject) {
    outcome o;
    run_until(io, [&] {
      o = record(l, subject);
      return !o.ec;
    });
    return o.d;
  }
  void connect(const limiter& l) { BOOST_TEST(!fetch(l, "connected?").ec.failed()); }
};

}  // namespace weir::test
