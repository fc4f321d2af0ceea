#pragma once

#include <boost/system/system_error.hpp>
#include <string>
#include <string_view>

#include "redis/url.hpp"
#include "weir/error.hpp"

namespace weir::test {

/// What a URL fails with.
struct failure {
  error_code code;
  std::string text;
};

inline failure failure_of(std::string_view url) {
  try {
    redis::parse_store_url(url);
  } catch (const boost::system::system_error& e) {
    return {e.code(), e.what()};
  }
  return {{}, "no failure"};
}

}  // namespace weir::test
