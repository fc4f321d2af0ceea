#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>

#include "support/run.hpp"
#include "support/test.hpp"
#include "weir/limiter.hpp"

namespace weir::test {

/// What the server may forget while the callers go on.
enum class data_loss {
  none,
  everything,  // the server starts again, empty
  latest,  // a replica takes over, and lacks any part of what came after load::mark_replicated()
};

/// Calls again and again for a subject of its own, and checks each count: it must be the next one;
/// or one that the data loss explains; or one that calls of unknown outcome explain. A reply to
/// another caller, a call sent twice or a lost call shows at once.
struct caller {
  std::string subject;
  std::int64_t used = 0;
  std::int64_t unknown = 0;  // calls since the last success that may have counted
  std::int64_t successes = 0;
  std::int64_t failures = 0;
  std::int64_t successes_at_mark = 0;
  std::int64_t replicated = 0;  // a replica has this count

  void check(error_code ec, const decision& d, data_loss loss) {
    if (ec) {
      ++failures;
      BOOST_TEST_MESSAGE(subject << ": " << ec.message());
      if (ec == condition::may_have_counted) ++unknown;
      BOOST_CHECK_MESSAGE(ec == error::outcome_unknown || ec == error::no_reply ||
                              ec == error::timed_out || ec == error::too_many_redirects,
                          subject << ": " << ec.message());
      return;
    }
    const bool next = d.used > used && d.used <= used + 1 + unknown;
    const bool anew = loss == data_loss::everything && d.used >= 1 && d.used <= 1 + unknown;
    const bool back = loss == data_loss::latest && d.used > replicated && d.used <= used;
    BOOST_CHECK_MESSAGE(d.allowed && (next || anew || back),
                        subject << ": " << d.used << " after " << used << " and " << unknown
                                << " unknown; replicated: " << replicated);
    used = d.used;
    unknown = 0;
    ++successes;
  }
};

/// Callers that go on until end(), whatever happens to the server.
struct load {
  load(asio::io_context& context, const limiter& l, int count, data_loss loss = data_loss::none)
      : io(context) {
    for (int i = 0; i < count; ++i) {
      callers.push_back(std::make_unique<caller>());
      callers.back()->subject = "subject " + std::to_string(i);
      ++running;
      asio::co_spawn(io, live(*callers.back(), l, loss), [this](std::exception_ptr e) {
        BOOST_TEST(!e);
        --running;
      });
    }
  }
  asio::awaitable<void> live(caller& me, limiter l, data_loss loss) {
    while (!stop) {
      const auto [ec, d] = co_await l.record(me.subject, asio::as_tuple(asio::deferred));
      me.check(ec, d, loss);
    }
  }
  void mark() {
    for (auto& c : callers) c->successes_at_mark = c->successes;
  }
  /// A replica has all that the callers know of.
  void mark_replicated() {
    for (auto& c : callers) c->replicated = c->used;
  }
  /// Everybody has succeeded so many times since the mark.
  void run_on(std::int64_t times) {
    mark();
    run_until(io, [&] {
      for (auto& c : callers) {
        if (c->successes < c->successes_at_mark + times) return false;
      }
      return true;
    });
  }
  void end() {
    stop = true;
    run_until(io, [&] { return running == 0; });
  }

  asio::io_context& io;
  std::vector<std::unique_ptr<caller>> callers;
  bool stop = false;
  int running = 0;
};

}  // namespace weir::test
