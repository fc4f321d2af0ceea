#include "memcached/ketama.hpp"

#include <algorithm>
#include <boost/endian/conversion.hpp>
#include <cmath>
#include <string>
#include <tuple>

#include "memcached/digest.hpp"

namespace weir::memcached {
namespace {

constexpr std::uint16_t usual_port = 11211;
constexpr int points_per_server = 160;
constexpr int points_per_hash = 4;

/// How many hashes give a server its points. In single precision, as libmemcached computes it: for
/// some numbers of servers it finds one hash less than an exact sum would.
std::uint32_t hashes_of(std::uint32_t weight, std::uint32_t total, std::size_t servers) {
  const float part = static_cast<float>(weight) / static_cast<float>(total);
  const float hashes = part * points_per_server / points_per_hash * static_cast<float>(servers);
  return static_cast<std::uint32_t>(
      std::floor(static_cast<float>(static_cast<double>(hashes) + 0.0000000001)));
}

}  // namespace

ketama::ketama(const std::vector<memcached_server>& servers) {
  if (servers.size() == 1) return;
  std::uint32_t total = 0;
  for (const memcached_server& s : servers) total += s.weight;
  for (std::uint32_t i = 0; i < servers.size(); ++i) {
    const memcached_server& s = servers[i];
    std::string name = s.host;
    if (!s.unix_path.empty()) {
      name = s.unix_path + ":0";
    } else if (s.port != usual_port) {
      name += ':' + std::to_string(s.port);
    }
    const std::uint32_t hashes = hashes_of(s.weight, total, servers.size());
    for (std::uint32_t h = 0; h < hashes; ++h) {
      const auto bytes = md5(name + '-' + std::to_string(h));
      for (int p = 0; p < points_per_hash; ++p) {
        points_.push_back({boost::endian::load_little_u32(bytes.data() + 4 * p), i});
      }
    }
  }
  // Two servers may have an equal point. Their names decide, so that the order of the list does
  // not.
  std::stable_sort(points_.begin(), points_.end(), [&](const point& a, const point& b) {
    const memcached_server &x = servers[a.server], &y = servers[b.server];
    return std::tie(a.value, x.unix_path, x.host, x.port) <
           std::tie(b.value, y.unix_path, y.host, y.port);
  });
}

std::size_t ketama::server_of(std::string_view key) const {
  if (points_.empty()) return 0;
  const std::uint32_t hash = boost::endian::load_little_u32(md5(key).data());
  const auto found = std::lower_bound(points_.begin(), points_.end(), hash,
                                      [](const point& p, std::uint32_t h) { return p.value < h; });
  return (found == points_.end() ? points_.front() : *found).server;
}

}  // namespace weir::memcached
