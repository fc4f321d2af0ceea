#include "redis/slot_map.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "text/number.hpp"

namespace weir::redis {
namespace {

constexpr std::size_t max_announced_host = 255;

bool is_text(const reply_value& n) noexcept {
  return n.type == reply_type::bulk_string || n.type == reply_type::simple_string;
}

bool is_host(std::string_view text) noexcept {
  return text.size() <= max_announced_host &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c != 0x7f; });
}

/// The end of the value at `index` and its children; nothing if the reply ends before.
std::optional<std::size_t> end_of(const reply_view& reply, std::size_t index) {
  if (index >= reply.values().size()) return std::nullopt;
  return reply.after(index);
}

/// Reads the node at `index`: [host, port, id, metadata...]. The port 0 means that the cluster does
/// not know where the node is.
std::optional<redis_address> read_node(const reply_view& reply, std::size_t index,
                                       std::string_view asked) {
  const auto values = reply.values();
  if (values[index].type != reply_type::array || values[index].integer < 2) return std::nullopt;
  const std::size_t end = reply.after(index);
  const reply_value& host = values[index + 1];
  const std::size_t port_at = reply.after(index + 1);
  if (port_at >= end) return std::nullopt;
  const reply_value& port = values[port_at];
  if (port.type != reply_type::integer || port.integer < 0 || port.integer > 65'535) {
    return std::nullopt;
  }
  std::string_view name;
  if (is_text(host)) {
    name = host.text;
  } else if (host.type != reply_type::null) {
    return std::nullopt;
  }
  if (name == "?") {
    name = {};
    const std::size_t id = reply.after(port_at);
    const std::size_t metadata = id < end ? reply.after(id) : end;
    // Its further addresses, which a server gives if it prefers host names.
    if (metadata < end) name = reply.text_at(metadata, "ip");
  }
  if (name.empty() || name == "?") name = asked;
  if (!is_host(name)) return std::nullopt;
  return redis_address{std::string(name), static_cast<std::uint16_t>(port.integer)};
}

}  // namespace

std::unique_ptr<slot_map> read_slot_map(const reply_view& reply, std::string_view asked) {
  const auto values = reply.values();
  if (reply.root().type != reply_type::array) return nullptr;
  auto map = std::make_unique<slot_map>();
  map->owner.fill(slot_map::none);
  std::map<std::pair<std::string, std::uint16_t>, std::uint16_t> known;
  std::size_t named = 0;  // bounded, or a reply could keep this process busy
  for (std::size_t range = 1; range < values.size(); range = reply.after(range)) {
    // [first slot, last slot, master, replicas...]
    if (values[range].type != reply_type::array || values[range].integer < 3) return nullptr;
    const reply_value& first = values[range + 1];
    const auto last_at = end_of(reply, range + 1);
    const auto master_at = last_at ? end_of(reply, *last_at) : std::nullopt;
    if (!master_at || *master_at >= values.size()) return nullptr;
    const reply_value& last = values[*last_at];
    const auto is_slot = [](const reply_value& n) {
      return n.type == reply_type::integer && n.integer >= 0 &&
             n.integer < static_cast<std::int64_t>(slot_count);
    };
    if (!is_slot(first) || !is_slot(last) || first.integer > last.integer) return nullptr;
    named += static_cast<std::size_t>(last.integer - first.integer) + 1;
    if (named > slot_count) return nullptr;
    auto master = read_node(reply, *master_at, asked);
    if (!master) return nullptr;
    // For example, an empty server was started in place of this master. The other masters serve.
    if (master->port == 0) continue;
    const auto [it, is_new] = known.try_emplace({master->host, master->port},
                                                static_cast<std::uint16_t>(map->masters.size()));
    if (is_new) {
      if (map->masters.size() == slot_map::max_masters) return nullptr;
      map->masters.push_back(std::move(*master));
    }
    std::fill(map->owner.begin() + first.integer, map->owner.begin() + last.integer + 1,
              it->second);
  }
  if (map->masters.empty()) return nullptr;
  return map;
}

namespace {

/// Reads "3999 127.0.0.1:6381". The host may have colons, or be missing.
std::optional<redis_address> read_target(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == text.npos) return std::nullopt;
  text.remove_prefix(space + 1);
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return std::nullopt;
  redis_address to{std::string(text.substr(0, colon)), 0};
  if (to.host == "?") to.host.clear();
  to.port = text::read_number<std::uint16_t>(text.substr(colon + 1)).value_or(0);
  if (to.port == 0 || !is_host(to.host)) return std::nullopt;
  return to;
}

}  // namespace

redirection read_redirection(std::string_view text) {
  using enum redirection::kind;
  const std::string_view word = text.substr(0, text.find(' '));
  if (word == "MOVED" || word == "ASK") {
    auto to = word == text ? std::nullopt : read_target(text.substr(word.size() + 1));
    if (!to) return {lost};
    return {word == "ASK" ? ask : moved, std::move(*to)};
  }
  if (text.starts_with("TRYAGAIN")) return {try_again};
  // With cluster-allow-reads-when-down, the script runs until its first write.
  if (text.starts_with("CLUSTERDOWN The cluster is down") ||
      text.find("while the cluster is down") != text.npos) {
    return {.what = down, .is_of_all = true};
  }
  for (const std::string_view prefix : {"CLUSTERDOWN", "MASTERDOWN", "READONLY"}) {
    if (text.starts_with(prefix)) return {down};
  }
  return {};
}

}  // namespace weir::redis
