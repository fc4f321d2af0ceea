#pragma once

// Cases that run on each kind of store.
#include <boost/asio/io_context.hpp>
#include <boost/test/data/test_case.hpp>

#include "support/stores.hpp"
#include "weir/weir.hpp"

namespace weir::test {

using namespace std::chrono_literals;

inline const auto each_store = boost::unit_test::data::make({"memory", "tcp", "unix", "memcached"});

struct each_store_fixture {
  boost::asio::io_context io;

  weir::limiter open(const std::string& store, std::int64_t limit = 5) {
    return weir::limiter(weir::open_store(io.get_executor(), empty_store_url(store)), "r",
                         weir::fixed_window{.limit = limit, .window = 24h});
  }
};

}  // namespace weir::test
