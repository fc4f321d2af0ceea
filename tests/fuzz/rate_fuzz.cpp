// Rate text: what parses prints as text that parses to the same rate.
#include "fuzz_input.hpp"
#include "weir/rate.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = weir::rate::try_parse({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  weir::fuzz::require(parsed->count > 0 && parsed->period.count() > 0);
  const auto again = weir::rate::try_parse(weir::to_string(*parsed));
  weir::fuzz::require(again.has_value() && *again == *parsed);
  return 0;
}
