#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/kernel.hpp"
#include "support/reservation_ledger.hpp"
#include "weir/policy.hpp"

namespace weir::test {

class redis_server;

/// The wire between clients and a real server, which reads what passes: what turns are asked for,
/// given and given back, in the order in which the server sees it. Every connection is served as by
/// the server itself; one command after the other gets through.
///
/// Lives as long as its executor's context runs.
class reservation_wire {
 public:
  struct options {
    /// In each direction; none unless given.
    std::function<std::chrono::microseconds()> delay = {};
    std::function<void()> before_command = {};  ///< called when one reaches the server
  };

  reservation_wire(const boost::asio::any_io_executor& executor, const redis_server& server,
                   options o);
  reservation_wire(const boost::asio::any_io_executor& executor, const redis_server& server)
      : reservation_wire(executor, server, options()) {}
  ~reservation_wire();

  /// For redis_options::unix_path.
  const std::string& path() const noexcept { return path_; }

  /// Lines of such limiters are to be read. Resources and subjects are plain text.
  void expect(const std::string& resource, const std::vector<policy>& policies);

  /// One reservation that a client has been told of, or would have been if it were still there.
  struct told {
    std::size_t connection;  ///< counted from 0
    std::size_t number;      ///< in its ledger
    std::chrono::steady_clock::time_point at;
  };
  struct line {
    std::vector<policy> policies;
    reservation_ledger ledger;
    std::vector<told> answers;  // to callers that were given reservations
    std::int64_t calls = 0;     // of scripts
  };
  /// By "resource:subject".
  const std::map<std::string, line>& lines() const noexcept { return lines_; }

  /// When which connection had a reply.
  using replies = std::set<std::pair<std::size_t, std::chrono::steady_clock::time_point>>;
  const replies& replied() const noexcept { return replied_; }

  /// How many connections there have been.
  std::size_t connections() const noexcept { return connections_; }

 private:
  class connection;
  struct limiter_rules {
    std::vector<policy> policies;
    std::vector<policies::kernel> kernels;
  };
  struct standing {
    std::size_t number;
    std::array<std::int64_t, 3> left;  // in the first bucket: TAT (whole, part), returned
  };
  struct holder {  // of a line's turns
    std::multimap<std::pair<std::int64_t, std::int64_t>, standing> by_time_and_cost;
  };

  void accept();
  void read_reservations(const std::vector<std::string>& command, const std::string& reply,
                         std::vector<std::pair<line*, std::size_t>>& reserved);
  void read_return(const std::vector<std::string>& command, std::int64_t now);
  line& line_of(const std::string& key, const limiter_rules*& rules, std::string& name);

  boost::asio::any_io_executor executor_;
  const redis_server& server_;
  options options_;
  std::string path_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  std::size_t connections_ = 0;
  std::map<std::string, limiter_rules> rules_;
  std::map<std::string, line> lines_;
  replies replied_;
  std::map<std::string, holder> holders_;
};

}  // namespace weir::test
