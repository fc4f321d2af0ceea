#include <boost/asio/error.hpp>
#include <boost/system/errc.hpp>
#include <boost/system/system_error.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <system_error>

#include "support/test.hpp"
#include "weir/decision.hpp"
#include "weir/error.hpp"

namespace error_test {

using namespace weir;

enum class group { input, not_counted, may_have_counted };

struct expectation {
  error value;
  group in;
  std::string_view name;
};
#define WEIR_ERROR(name, in) \
  { error::name, group::in, #name }

// Written out a second time on purpose: that a retry can count twice must not change by accident.
constexpr expectation table[] = {
    WEIR_ERROR(invalid_policy, input),
    WEIR_ERROR(invalid_rate, input),
    WEIR_ERROR(invalid_url, input),
    WEIR_ERROR(unsupported_scheme, input),
    WEIR_ERROR(invalid_resource, input),
    WEIR_ERROR(invalid_subject, input),
    WEIR_ERROR(invalid_cost, input),
    WEIR_ERROR(invalid_duration, input),
    WEIR_ERROR(invalid_options, input),
    WEIR_ERROR(invalid_tls_file, input),
    WEIR_ERROR(cost_exceeds_limit, input),
    WEIR_ERROR(cannot_combine, input),
    WEIR_ERROR(cool_downs_disabled, input),
    WEIR_ERROR(cannot_wait, input),
    WEIR_ERROR(cannot_settle, input),
    WEIR_ERROR(timed_out, not_counted),
    WEIR_ERROR(no_reply, may_have_counted),
    WEIR_ERROR(outcome_unknown, may_have_counted),
    WEIR_ERROR(overloaded, not_counted),
    WEIR_ERROR(circuit_open, not_counted),
    WEIR_ERROR(store_full, not_counted),
    WEIR_ERROR(settlements_full, not_counted),
    WEIR_ERROR(store_closed, not_counted),
    WEIR_ERROR(authentication_failed, not_counted),
    WEIR_ERROR(permission_denied, not_counted),
    WEIR_ERROR(command_missing, not_counted),
    WEIR_ERROR(invalid_database, not_counted),
    WEIR_ERROR(server_loading, not_counted),
    WEIR_ERROR(server_busy, not_counted),
    WEIR_ERROR(read_only, not_counted),
    WEIR_ERROR(out_of_memory, not_counted),
    WEIR_ERROR(server_misconfigured, not_counted),
    WEIR_ERROR(wrong_type, not_counted),
    WEIR_ERROR(script_missing, not_counted),
    WEIR_ERROR(server_error, not_counted),
    WEIR_ERROR(too_many_redirects, not_counted),
    WEIR_ERROR(cluster_down, not_counted),
    WEIR_ERROR(slot_migrating, not_counted),
    WEIR_ERROR(cross_slot, not_counted),
    WEIR_ERROR(tls_failed, not_counted),
    WEIR_ERROR(closed_by_peer, not_counted),
    WEIR_ERROR(host_not_found, not_counted),
    WEIR_ERROR(connection_refused, not_counted),
    WEIR_ERROR(host_unreachable, not_counted),
    WEIR_ERROR(not_redis, not_counted),
    WEIR_ERROR(server_is_cluster, not_counted),
    WEIR_ERROR(server_is_not_cluster, not_counted),
    WEIR_ERROR(server_is_sentinel, not_counted),
    WEIR_ERROR(master_unknown, not_counted),
    WEIR_ERROR(protocol_error, may_have_counted),
    WEIR_ERROR(joint_not_supported, input),
    WEIR_ERROR(clock_skew, not_counted),
    WEIR_ERROR(store_contention, not_counted),
    WEIR_ERROR(newer_state, not_counted),
    WEIR_ERROR(state_too_large, not_counted),
    WEIR_ERROR(not_memcached, not_counted),
};
constexpr int first_value = static_cast<int>(error::invalid_policy);
constexpr int last_value = static_cast<int>(error::not_memcached);
#undef WEIR_ERROR
static_assert(std::size(table) == last_value - first_value + 1, "an error is missing in the table");

error_code code_of(int value) { return {value, weir::error_category()}; }

BOOST_AUTO_TEST_SUITE(error_suite)

// The table of src/text/error.cpp does not notice an enumerator that is added at the end.
BOOST_AUTO_TEST_CASE(the_table_has_every_enumerator_of_the_header) {
  std::ifstream header(WEIR_ERROR_HEADER);
  const std::regex enumerator("^  ([a-z_]+)(?: = 1)?(?:,.*)?$");
  std::vector<std::string> names;
  std::string line;
  while (std::getline(header, line) && line != "enum class error : std::int16_t {") {
  }
  while (std::getline(header, line) && line != "};") {
    if (std::smatch found; std::regex_match(line, found, enumerator)) names.push_back(found[1]);
  }
  BOOST_TEST(names.size() == std::size(table));
  for (std::size_t i = 0; i < names.size(); ++i) {
    BOOST_TEST(name_of(static_cast<error>(i + 1)) == names[i]);
  }
}

BOOST_AUTO_TEST_CASE(the_categories_have_names_and_are_two) {
  BOOST_TEST(weir::error_category().name() == "weir");
  BOOST_TEST(condition_category().name() == "weir.condition");
  BOOST_TEST((weir::error_category() != condition_category()));
}

// A program and its plugin may each hold a copy of the library. They compared addresses, so no
// condition held for an error of the other copy.
BOOST_AUTO_TEST_CASE(errors_of_another_copy_of_the_library_meet_the_conditions) {
  struct copy final : boost::system::error_category {
    copy() : error_category(0x7f51'9c0e'62d8'a3b1u) {}
    const char* name() const noexcept override { return "weir"; }
    std::string message(int) const override { return {}; }
  };
  const copy other;
  BOOST_TEST((other == weir::error_category()));
  const error_code ec(static_cast<int>(error::timed_out), other);
  BOOST_TEST((ec == condition::not_counted));
  BOOST_TEST((ec == error::timed_out));
  BOOST_TEST(name_of(ec) == "timed_out");
}

BOOST_AUTO_TEST_CASE(enumerators_convert) {
  const error_code code = error::overloaded;
  BOOST_TEST((code.category() == weir::error_category()));
  BOOST_TEST(code.value() == static_cast<int>(error::overloaded));
  BOOST_TEST(code.failed());
  BOOST_TEST((code == error::overloaded));
  BOOST_TEST((code != error::store_full));

  const boost::system::error_condition asked = condition::not_counted;
  BOOST_TEST((asked.category() == condition_category()));
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
    const std::string message = make_error_condition(c).message();
    BOOST_TEST_CONTEXT(message) {
      BOOST_TEST(seen.insert(message).second);
      BOOST_TEST(message.find("unknown") == std::string::npos);
      char buffer[16];
      BOOST_TEST(condition_category().message(static_cast<int>(c), buffer, sizeof buffer) ==
                 message);
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_that_are_no_error_have_a_text_and_no_condition) {
  for (const int value : {-1, 0, last_value + 1, 65'536 + 1, 1'000'000}) {
    BOOST_TEST_CONTEXT("value " << value) {
      const error_code code = code_of(value);
      BOOST_TEST(code.message().find("unknown") != std::string::npos);
      BOOST_TEST((code != condition::invalid_input));
      BOOST_TEST((code != condition::not_counted));
      BOOST_TEST((code != condition::may_have_counted));
      BOOST_TEST(condition_category().message(value + 100).find("unknown") != std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(each_source_has_the_name_of_its_enumerator) {
  BOOST_TEST(to_string(source::store) == "store");
  BOOST_TEST(to_string(source::deny_cache) == "deny_cache");
  BOOST_TEST(to_string(source::local_units) == "local_units");
  BOOST_TEST(to_string(source::fallback) == "fallback");
}

BOOST_AUTO_TEST_CASE(each_error_has_the_name_of_its_enumerator) {
  for (const expectation& row : table) BOOST_TEST(name_of(row.value) == row.name);
  BOOST_TEST(name_of({}) == "success");
  BOOST_TEST(name_of(boost::asio::error::operation_aborted) == "cancelled");
  BOOST_TEST(name_of(boost::asio::error::eof) == "other");
  BOOST_TEST(name_of(code_of(last_value + 1)) == "unknown");
}

BOOST_AUTO_TEST_CASE(each_error_answers_to_its_conditions_only) {
  for (const auto& [value, in, name] : table) {
    const error_code code = value;
    BOOST_TEST_CONTEXT(code.message()) {
      BOOST_TEST((code == condition::invalid_input) == (in == group::input));
      BOOST_TEST((code == condition::not_counted) == (in != group::may_have_counted));
      BOOST_TEST((code == condition::may_have_counted) == (in == group::may_have_counted));
      // The standard's types ask the same question.
      const std::error_code standard = code;
      const std::error_condition asked = make_error_condition(condition::may_have_counted);
      BOOST_TEST((standard == asked) == (in == group::may_have_counted));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_condition_number_that_is_none_matches_nothing) {
  for (const int value : {0, 4, -7}) {
    const boost::system::error_condition strange(value, condition_category());
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
  for (const auto& [value, in, name] : table) {
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
  const boost::system::system_error thrown(make_error_code(error::read_only), "here");
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

}  // namespace error_test
