// Replies to CLUSTER SLOTS, and redirections: whatever a node says, the map is within its bounds
// and names only masters that it has.
#include <string>

#include "fuzz_input.hpp"
#include "redis/resp/resp_reader.hpp"
#include "redis/slot_map.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weir::redis;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  reply_reader reader(slot_map_limits);
  const auto room = reader.prepare(std::max<std::size_t>(1, bytes.size()));
  std::copy(bytes.begin(), bytes.end(), room.begin());
  reader.commit(bytes.size());
  weir::error_code ec;
  while (const reply_view* reply = reader.next(ec)) {
    if (const auto map = read_slot_map(*reply, "asked")) {
      weir::fuzz::require(!map->masters.empty() && map->masters.size() <= slot_map::max_masters);
      for (const weir::redis_address& at : map->masters) {
        weir::fuzz::require(!at.host.empty() && at.host.size() <= 255 && at.port != 0);
      }
      for (const std::uint16_t owner : map->owner) {
        weir::fuzz::require(owner == slot_map::none || owner < map->masters.size());
      }
    }
  }
  const redirection to = read_redirection(bytes);
  if (to.what == redirection::kind::moved || to.what == redirection::kind::ask) {
    weir::fuzz::require(to.to.port != 0 && to.to.host.size() <= 255);
  }
  return 0;
}
