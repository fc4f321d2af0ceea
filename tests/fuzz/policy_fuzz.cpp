// Policy text: what parses prints as text that parses to the same policies.
#include "fuzz_input.hpp"
#include "weir/policy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = weir::try_parse_policy({reinterpret_cast<const char*>(data), size});
  if (!parsed) return 0;
  const auto again = weir::try_parse_policy(weir::to_string(*parsed));
  weir::fuzz::require(again.has_value() && *again == *parsed);
  return 0;
}
