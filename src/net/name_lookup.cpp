#include "net/name_lookup.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "weir/error.hpp"

namespace weir::net {

namespace asio = boost::asio;

void name_lookup::ask(const std::string& host, std::uint16_t port,
                      const std::shared_ptr<void>& alive, report r) {
  report_ = std::move(r);
  if (std::exchange(asking_, true)) return;
  resolver_.async_resolve(
      host, std::to_string(port),
      [this, alive](error_code ec, const asio::ip::tcp::resolver::results_type& results) {
        asking_ = false;
        if (!report_) return;
        endpoints found;
        if (!ec) {
          for (const auto& entry : results) found.emplace_back(entry.endpoint());
        }
        std::exchange(report_, nullptr)(std::move(found));
      });
}

void name_lookup::leave(const std::shared_ptr<void>& alive) {
  if (!report_) return;
  // Takes effect only if it is still in line behind other names.
  resolver_.cancel();
  asio::post(strand_, [r = std::exchange(report_, nullptr), alive] { r({}); });
}

}  // namespace weir::net
