// The reply reader: however the bytes are cut, it finds the same replies and the same end, within
// its bounds.
#include <string>
#include <vector>

#include "fuzz_input.hpp"
#include "redis/resp/resp_reader.hpp"

namespace {

struct outcome {
  std::vector<std::string> replies;
  bool broken = false;
  bool operator==(const outcome&) const = default;
};

std::string flatten(const weir::redis::reply_view& reply) {
  std::string out;
  for (const auto& n : reply.values()) {
    out += std::to_string(static_cast<int>(n.type)) + ':' + std::to_string(n.integer) + ':';
    out.append(n.text);
    out += ';';
  }
  return out;
}

outcome read(std::string_view bytes, std::size_t piece) {
  const weir::redis::reply_limits limits{.max_bulk = 4096,
                                         .max_line = 1024,
                                         .max_values = 256,
                                         .max_depth = 4,
                                         .max_reply_bytes = 16 * 1024};
  weir::redis::reply_reader reader(limits);
  outcome result;
  while (!bytes.empty()) {
    const auto now = bytes.substr(0, piece);
    const auto room = reader.prepare(now.size());
    std::copy(now.begin(), now.end(), room.begin());
    reader.commit(now.size());
    bytes.remove_prefix(now.size());
    weir::error_code ec;
    while (const auto* reply = reader.next(ec)) result.replies.push_back(flatten(*reply));
    weir::fuzz::require(reader.memory() < 256 * 1024);
    if (ec) {
      result.broken = true;
      break;
    }
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weir::fuzz::input in(data, size);
  const std::size_t piece = 1 + in.byte();
  const std::string_view bytes = in.rest();
  const outcome whole = read(bytes, std::max<std::size_t>(1, bytes.size()));
  weir::fuzz::require(whole == read(bytes, piece));
  weir::fuzz::require(whole == read(bytes, 1));
  return 0;
}
