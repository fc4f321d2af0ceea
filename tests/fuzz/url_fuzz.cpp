// Store URLs: never a crash, and never a piece of the URL in what is thrown.
#include <boost/system/system_error.hpp>
#include <string>

#include "fuzz_input.hpp"
#include "redis/url.hpp"
#include "weir/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view url(reinterpret_cast<const char*>(data), size);
  try {
    const auto parsed = weir::redis::parse_store_url(url);
    weir::fuzz::require(parsed.redis.timeout.count() > 0);
  } catch (const boost::system::system_error& e) {
    weir::fuzz::require(e.code() == weir::error::invalid_url ||
                        e.code() == weir::error::unsupported_scheme);
    // A marker stands for a password.
    const std::string marker = "s3cr3tM4rk";
    const std::string text = "redis://user:" + marker + std::string(url);
    try {
      weir::redis::parse_store_url(text);
    } catch (const boost::system::system_error& again) {
      weir::fuzz::require(std::string(again.what()).find(marker) == std::string::npos);
    }
  }
  return 0;
}
