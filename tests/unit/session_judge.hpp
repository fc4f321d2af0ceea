#pragma once

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <vector>

#include "fake_redis.hpp"
#include "session_faults.hpp"
#include "session_scenarios.hpp"

/// Whether what a caller was told is what the server has done, and what a caller may be told then.
namespace weir::redis::test {

struct asked_check {
  const question* asked;
  fake_check* check;
  fate real;
  std::optional<detail::cancel_scope> cancelled;
  bool finished() const { return check->finished > 0; }
};

struct circumstances {
  const scenario& of;
  const manner& how;
  const std::vector<fault>& faults;

  bool have(std::initializer_list<kind> some) const {
    return std::any_of(faults.begin(), faults.end(), [&](const fault& f) {
      return std::find(some.begin(), some.end(), f.what) != some.end();
    });
  }
};

inline bool may_be_told(const asked_check& a, error_code e, const circumstances& in) {
  if (e == boost::asio::error::operation_aborted) {
    return a.cancelled && (*a.cancelled == detail::cancel_scope::any || a.real.executed == 0);
  }
  const fate::place where = a.real.where;
  if (e == a.real.refusal && where == fate::place::replied) return true;
  if (e == a.asked->told && !a.real.was_written) return true;  // refused in the greeting
  const bool closed = in.have({kind::close});
  const bool garbled = in.have({kind::garbage, kind::garbage_halfway, kind::wrong_reply});
  // Only of what has left whole, and got no reply. A close does not wait to learn what has left.
  if (e == error::outcome_unknown) {
    if (garbled && in.faults.size() == 1) return false;
    return where == fate::place::server ||
           (closed && a.real.was_written && where != fate::place::replied);
  }
  if (e == error::protocol_error) return garbled && where == fate::place::server;
  if (e == error::tls_failed) return in.have({kind::open_tls_failed, kind::read_tls_failed});
  if (e == error::store_closed) return closed;
  // After a failed attempt, new checks end at once, and others at their deadlines.
  if (e == error::closed_by_peer)
    return in.have({kind::open_hung_up, kind::read_fails, kind::write_fails, kind::write_stuck});
  if (e == error::connection_refused) return in.have({kind::open_fails});
  // An attempt was given up before there was a connection.
  if (e == error::host_unreachable) return in.have({kind::silence});
  if (e == error::not_redis) return garbled;
  if (e == in.of.reason) return true;
  if (!in.how.hasty) return false;
  if (e == error::no_reply) return a.real.was_written;
  return e == error::timed_out;
}

inline void judge(const asked_check& a, const circumstances& in) {
  const error_code told = a.check->ec;
  BOOST_TEST_REQUIRE(a.check->finished == 1);
  BOOST_TEST_REQUIRE(a.real.executed <= 1);
  if (in.have({kind::abandon})) return;
  if (in.faults.empty()) {
    // A check that comes after a failed attempt ends at once, with the reason of that.
    BOOST_TEST_REQUIRE(
        (told ? told == a.asked->told || told == in.of.reason : a.asked->told == error{}));
  }
  if (told) {
    if (told == condition::not_counted) BOOST_TEST_REQUIRE(a.real.executed == 0);
    BOOST_TEST_REQUIRE(may_be_told(a, told, in), "told " << told.message());
    return;
  }
  BOOST_TEST_REQUIRE(a.real.executed == 1);
  if (a.check->kind == detail::check_kind::reset) return;
  const decision& answer = a.check->answer;
  BOOST_TEST_REQUIRE(answer.allowed == a.real.right.allowed);
  BOOST_TEST_REQUIRE(answer.used == a.real.right.used);
  BOOST_TEST_REQUIRE(answer.limit == a.real.right.limit);
  BOOST_TEST_REQUIRE(static_cast<int>(answer.tier) == a.real.right.tier);
}

}  // namespace weir::redis::test
