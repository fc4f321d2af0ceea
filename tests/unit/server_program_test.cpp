#include "support/server_program.hpp"

#include <cstdlib>

#include "support/test.hpp"

namespace server_program_test {

constexpr char variable[] = "WEIR_TEST_SERVER_PROGRAM";

struct fixture {
  ~fixture() { ::unsetenv(variable); }
  static std::string found(const char* named) {
    ::setenv(variable, named, 1);
    return weir::test::server_program(variable, {"no-such-server", "sh"});
  }
};

BOOST_FIXTURE_TEST_SUITE(server_program_suite, fixture)

// WEIR_REDIS_SERVER=valkey-server ended at once: execve() looks for no name.
BOOST_AUTO_TEST_CASE(a_name_without_a_path_is_found) {
  const std::string shell = found("sh");
  BOOST_TEST(shell.ends_with("/sh"));
  BOOST_TEST(shell.front() == '/');
}

BOOST_AUTO_TEST_CASE(a_path_is_taken_as_it_is) {
  BOOST_TEST(found("build/redis-server") == "build/redis-server");
}

BOOST_AUTO_TEST_CASE(the_first_name_that_exists_is_taken) {
  BOOST_TEST(weir::test::server_program(variable, {"no-such-server", "sh"}) == found("sh"));
}

BOOST_AUTO_TEST_CASE(a_missing_program_is_a_failure) {
  BOOST_CHECK_THROW(found("no-such-server"), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace server_program_test
