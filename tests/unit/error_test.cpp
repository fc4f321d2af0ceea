#include <boost/asio/error.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/system_error.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>
#include <string>
#include <system_error>

#include "weir/error.hpp"

namespace error_test {
namespace {

using weir::condition;
using weir::error;
using weir::error_code;

enum class group { input, not_counted, may_have_counted };

struct expectation {
  error value;
  group in;
};

// Written out a second time on purpose: that a retry can count twice must not change by accident.
constexpr expectation table[] = {
    {error::invalid_policy, group::input},
    {error::invalid_rate, group::input},
    {error::invalid_url, group::input},
    {error::unsupported_scheme, group::input},
    {error::invalid_resource, group::input},
    {error::invalid_subject, group::input},
    {error::invalid_cost, group::input},
    {error::invalid_options, group::input},
    {error::invalid_tls_file, group::input},
    {error::cost_exceeds_limit, group::input},
    {error::cannot_combine, group::input},
    {error::cool_downs_disabled, group::input},
    {error::cannot_wait, group::input},
    {error::cannot_settle, group::input},
    {error::timed_out, group::not_counted},
    {error::no_reply, group::may_have_counted},
    {error::outcome_unknown, group::may_have_counted},
    {error::not_replicated, group::may_have_counted},
    {error::overloaded, group::not_counted},
    {error::circuit_open, group::not_counted},
    {error::store_full, group::not_counted},
    {error::settlements_full, group::not_counted},
    {error::store_closed, group::not_counted},
    {error::authentication_failed, group::not_counted},
    {error::permission_denied, group::not_counted},
    {error::invalid_database, group::not_counted},
    {error::server_loading, group::not_counted},
    {error::server_busy, group::not_counted},
    {error::read_only, group::not_counted},
    {error::out_of_memory, group::not_counted},
    {error::server_misconfigured, group::not_counted},
    {error::wrong_type, group::not_counted},
    {error::script_missing, group::not_counted},
    {error::server_error, group::not_counted},
    {error::too_many_redirects, group::not_counted},
    {error::cluster_down, group::not_counted},
    {error::slot_migrating, group::not_counted},
    {error::tls_failed, group::not_counted},
    {error::closed_by_peer, group::not_counted},
    {error::host_not_found, group::not_counted},
    {error::connection_refused, group::not_counted},
    {error::host_unreachable, group::not_counted},
    {error::not_redis, group::not_counted},
    {error::server_is_cluster, group::not_counted},
    {error::server_is_not_cluster, group::not_counted},
    {error::server_is_sentinel, group::not_counted},
    {error::master_unknown, group::not_counted},
    {error::protocol_error, group::may_have_counted},
    {error::joint_not_supported, group::input},
    {error::clock_skew, group::not_counted},
    {error::store_contention, group::not_counted},
    {error::newer_state, group::not_counted},
    {error::state_too_large, group::not_counted},
    {error::not_memcached, group::not_counted},
};
constexpr int first_value = static_cast<int>(error::invalid_policy);
constexpr int last_value = static_cast<int>(error::not_memcached);
static_assert(std::size(table) == last_value - first_value + 1, "an error is missing in the table");

error_code code_of(int value) { return {value, weir::error_category()}; }

BOOST_AUTO_TEST_SUITE(error_suite)

BOOST_AUTO_TEST_CASE(the_categories_have_names_and_are_two) {
  BOOST_TEST(weir::error_category().name() == "weir");
  BOOST_TEST(weir::condition_category().name() == "weir.condition");
  BOOST_TEST((weir::error_category() != weir::condition_category()));
}

BOOST_AUTO_TEST_CASE(enumerators_convert) {
  const error_code code = error::overloaded;
  BOOST_TEST((code.category() == weir::error_category()));
  BOOST_TEST(code.value() == static_cast<int>(error::overloaded));
  BOOST_TEST(code.failed());
  BOOST_TEST((code == error::overloaded));
  BOOST_TEST((code != error::store_full));

  const boost::system::error_condition asked = condition::not_counted;
  BOOST_TEST((asked.category() == weir::condition_category()));
  BOOST_TEST(asked.value() == static_cast<int>(condition::not_counted));
}

BOOST_AUTO_TEST_CASE(every_message_is_one_sentence_of_what_happened_and_what_to_do) {
  std::set<std::string> seen;
  for (int value = first_value; value <= last_value; ++value) {
    const std::string message = code_of(value).message();
    BOOST_TEST_CONTEXT("error " << value << ": " << message) {
      BOOST_TEST(seen.insert(message).second, "two errors share a text");
      BOOST_TEST(message.find("unknown") == std::string::npos);
      BOOST_TEST(message.find(": ") != std::string::npos);
      BOOST_TEST(message.find('\n') == std::string::npos);
      // An exception's text is "what: message": it begins in lower case and has no full stop.
      BOOST_TEST((message.front() >= 'a' && message.front() <= 'z'));
      BOOST_TEST(message.back() != '.');

      char buffer[16];
      BOOST_TEST(weir::error_category().message(value, buffer, sizeof buffer) == message);
    }
  }
  BOOST_TEST(
      error_code{error::cost_exceeds_limit}.message() ==
      "the cost is larger than the policy can ever allow: split the request or raise the limit");
}

BOOST_AUTO_TEST_CASE(every_condition_has_a_message) {
  std::set<std::string> seen;
  for (const condition c :
       {condition::invalid_input, condition::not_counted, condition::may_have_counted}) {
    const std::string message = weir::make_error_condition(c).message();
    BOOST_TEST_CONTEXT(message) {
      BOOST_TEST(seen.insert(message).second);
      BOOST_TEST(message.find("unknown") == std::string::npos);
      char buffer[16];
      BOOST_TEST(weir::condition_category().message(static_cast<int>(c), buffer, sizeof buffer) ==
                 message);
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_that_are_no_error_have_a_text_and_no_condition) {
  for (const int value : {-1, 0, last_value + 1, 1'000'000}) {
    BOOST_TEST_CONTEXT("value " << value) {
      const error_code code = code_of(value);
      BOOST_TEST(code.message().find("unknown") != std::string::npos);
      BOOST_TEST((code != condition::invalid_input));
      BOOST_TEST((code != condition::not_counted));
      BOOST_TEST((code != condition::may_have_counted));
      BOOST_TEST(weir::condition_category().message(value + 100).find("unknown") !=
                 std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_error_answers_to_its_conditions_only) {
  for (const auto& [value, in] : table) {
    const error_code code = value;
    BOOST_TEST_CONTEXT(code.message()) {
      BOOST_TEST((code == condition::invalid_input) == (in == group::input));
      BOOST_TEST((code == condition::not_counted) == (in != group::may_have_counted));
      BOOST_TEST((code == condition::may_have_counted) == (in == group::may_have_counted));
      // The standard's types ask the same question.
      const std::error_code standard = code;
      const std::error_condition asked = weir::make_error_condition(condition::may_have_counted);
      BOOST_TEST((standard == asked) == (in == group::may_have_counted));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_condition_number_that_is_none_matches_nothing) {
  for (const int value : {0, 4, -7}) {
    const boost::system::error_condition strange(value, weir::condition_category());
    for (const auto& row : table) BOOST_TEST((error_code{row.value} != strange));
  }
}

BOOST_AUTO_TEST_CASE(other_categories_answer_to_no_condition) {
  // The numbers of these codes are weir errors too: only the category tells them apart.
  const error_code foreign[] = {
      boost::asio::error::operation_aborted,
      boost::asio::error::eof,
      error_code(static_cast<int>(error::no_reply), boost::system::generic_category()),
      error_code(static_cast<int>(error::timed_out), boost::system::system_category()),
      error_code(),
  };
  for (const error_code& code : foreign) {
    BOOST_TEST_CONTEXT(code.to_string()) {
      BOOST_TEST((code != condition::invalid_input));
      BOOST_TEST((code != condition::not_counted));
      BOOST_TEST((code != condition::may_have_counted));
    }
  }
}

BOOST_AUTO_TEST_CASE(plain_cases_answer_to_errc) {
  namespace errc = boost::system::errc;
  for (const auto& [value, in] : table) {
    const error_code code = value;
    BOOST_TEST_CONTEXT(code.message()) {
      // no_reply is not errc::timed_out: code that retries on that would count twice.
      BOOST_TEST((code == errc::timed_out) == (value == error::timed_out));
      BOOST_TEST((code == errc::connection_refused) == (value == error::connection_refused));
      BOOST_TEST((code == errc::host_unreachable) == (value == error::host_unreachable));
      BOOST_TEST((code == errc::invalid_argument) == (in == group::input));
      BOOST_TEST((std::error_code(code) == std::errc::timed_out) == (value == error::timed_out));
    }
  }
  BOOST_TEST((error_code{error::read_only}.default_error_condition().category() ==
              weir::error_category()));
}

BOOST_AUTO_TEST_CASE(an_exception_carries_code_and_text) {
  const boost::system::system_error thrown(weir::make_error_code(error::read_only), "here");
  BOOST_TEST((thrown.code() == error::read_only));
  const std::string expected = "here: " + error_code{error::read_only}.message();
  BOOST_TEST(std::string{thrown.what()}.starts_with(expected));
}

// Codes are made before main() too: the categories must not wait for their turn to be initialised.
const error_code made_early = error::overloaded;
const std::string early_message = made_early.message();

BOOST_AUTO_TEST_CASE(usable_before_main) {
  BOOST_TEST(early_message == error_code{error::overloaded}.message());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace

}  // namespace error_test
