#pragma once

#include "support/run.hpp"
#include "support/test.hpp"

namespace weir::test {

/// A limiter of each kind of script, on which counts of up to a hundred thousand do not move by
/// themselves during a test: in a day each frees a few units at most, or none.
inline std::vector<limiter> one_limiter_of_each_kind(const store& s) {
  using namespace std::chrono_literals;
  std::vector<limiter> all;
  all.emplace_back(s, "window", fixed_window{.limit = 100'000, .window = 24000h});
  all.emplace_back(s, "sliding", sliding_window{.limit = 100'000, .window = 2400h});
  all.emplace_back(s, "log", sliding_log{.limit = 100'000, .window = 24h, .resolution = 1h});
  all.emplace_back(s, "bucket", token_bucket{.capacity = 100'000, .refill = every(6h)});
  return all;
}

/// A subject with a count that no other subject comes near: a decision that was meant for another
/// shows by its number.
struct account {
  limiter where;
  std::string subject;
  std::int64_t cost = 1;
  std::int64_t used = 0;  // by the last answer
  // Calls that may have counted, and are not in `used`. A server may run one late, behind a later
  // call: its bytes were on the way on a connection that the client has given up.
  std::int64_t unanswered = 0;

  /// What every call for it was told. True if it was a success.
  bool hear(const error_code& ec, const decision& d, bool sure_it_was_not_counted) {
    if (ec) {
      if (!sure_it_was_not_counted) ++unanswered;
      return false;
    }
    const bool its_own = d.allowed && d.source == source::store && d.used >= used + cost &&
                         d.used <= used + cost * (1 + unanswered) && (d.used - used) % cost == 0;
    BOOST_CHECK_MESSAGE(its_own, subject << " of " << where.resource() << ", cost " << cost << ": "
                                         << d.used << " after " << used << " and " << unanswered
                                         << " unanswered");
    if (its_own) unanswered -= (d.used - used) / cost - 1;
    used = d.used;
    return true;
  }
};

/// Up to 60 accounts for calls on `limiters`, spread over costs too, so that some share a script
/// call and some do not. Each begins 1500 units after the one before it; `straight`, the same
/// limiters on a store that nothing disturbs, counts it up to there.
inline std::vector<account> open_accounts(asio::io_context& io,
                                          const std::vector<limiter>& limiters,
                                          const std::vector<limiter>& straight, std::size_t count,
                                          const std::string& name) {
  std::vector<account> all;
  crowd opening;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t kind = i % limiters.size();
    const auto begin = static_cast<std::int64_t>(1500 * (i + 1));
    all.push_back({.where = limiters[kind],
                   .subject = name + " " + std::to_string(i),
                   .cost = static_cast<std::int64_t>(1 + i / limiters.size() % 3),
                   .used = begin});
    straight[kind].record(all.back().subject, {.cost = begin}, opening.caller());
  }
  run_until_complete(io, opening);
  BOOST_TEST(opening.allowed() == count);
  return all;
}

/// What the server has counted for each is what its callers were told, and of the calls without an
/// answer any part.
inline void check_in_the_end(asio::io_context& io, const std::vector<account>& accounts,
                             const std::vector<limiter>& straight) {
  // After a failed attempt to connect, calls end at once until one succeeds.
  for (bool is_served = false; !is_served;) {
    crowd one;
    for (const limiter& l : straight) l.fetch("nobody", one.caller());
    run_until_complete(io, one);
    is_served = std::all_of(one.begin(), one.end(), [](const outcome& o) { return !o.ec; });
  }
  crowd c;
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    straight[i % straight.size()].fetch(accounts[i].subject, c.caller());
  }
  run_until_complete(io, c);
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    const account& a = accounts[i];
    BOOST_CHECK_MESSAGE(
        !c[i].ec && c[i].d.used >= a.used && c[i].d.used <= a.used + a.cost * a.unanswered,
        a.subject << " of " << a.where.resource() << ": the server counts " << c[i].d.used
                  << ", the callers " << a.used << " and " << a.unanswered << " unanswered");
  }
}

}  // namespace weir::test
