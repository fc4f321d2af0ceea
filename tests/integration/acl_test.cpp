// The ACL user of docs/security.md, read from there: it may do all that weir does, and no command
// of it is one too many.
#include <fstream>
#include <sstream>

#include "every_call.hpp"

namespace acl_test {

using namespace weir;
using namespace weir::test;
using words = std::vector<std::string>;

/// "ACL SETUSER ..." and the indented lines that go on with it, word by word.
words documented_command() {
  std::ifstream file(WEIR_SOURCE_DIR "/docs/security.md");
  words found;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("    ")) {
      if (!found.empty()) break;
      continue;
    }
    std::istringstream text(line);
    if (found.empty() && line.find("ACL SETUSER") == std::string::npos) continue;
    for (std::string word; text >> word;) found.push_back(word);
  }
  return found;
}

struct fixture {
  asio::io_context io;
  redis_server server;
  redis_client admin{server};

  fixture() { BOOST_TEST_REQUIRE(documented_command().size() > 10u); }

  void set_user(const words& command) {
    admin.must("ACL", "DELUSER", command.at(2));
    auto writer = admin.writer();
    writer.begin(command.size());
    for (const std::string& word : command) writer.arg(word);
    const auto reply = admin.read();
    BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
  }

  /// What all calls of the user of this command ended with.
  std::vector<error_code> do_everything(const words& command, const std::string& prefix = "weir") {
    auto options = patient_options(server);
    options.username = command.at(2);
    options.password = "password";
    options.database = 1;
    options.key_prefix = prefix;
    const auto s = make_redis_store(io.get_executor(), options);
    return every_call{io, admin, 1}.make(s);
  }
};

BOOST_FIXTURE_TEST_SUITE(acl_suite, fixture)

BOOST_AUTO_TEST_CASE(the_documented_user_may_do_everything) {
  const words command = documented_command();
  set_user(command);
  admin.must("ACL", "LOG", "RESET");
  for (const auto& ec : do_everything(command)) BOOST_TEST(!ec.failed(), ec.message());
  // The calls without a caller had all their commands, too. The log names CLIENT SETINFO,
  // without which the store works; before 7.2, CLIENT alone.
  for (const auto& entry : admin.must("ACL", "LOG").children) {
    const auto object = std::ranges::find(entry.children, "object", &weir::test::reply::text);
    BOOST_TEST_REQUIRE((object != entry.children.end()));
    const std::string& logged = std::next(object)->text;
    BOOST_TEST((logged == "client|setinfo" || logged == "client"), logged);
  }
  // The user reaches only its own keys.
  const auto elsewhere = do_everything(command, "other");
  for (const auto& ec : elsewhere) WEIR_TEST_ERROR(ec, error::permission_denied);
}

BOOST_AUTO_TEST_CASE(each_command_is_needed_and_missed_with_its_own_error) {
  const words command = documented_command();
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!command[i].starts_with('+')) continue;
    BOOST_TEST_CONTEXT("without " << command[i]) {
      words less = command;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      set_user(less);
      admin.must("ACL", "LOG", "RESET");
      const auto told = do_everything(less);
      const auto denied = std::ranges::count_if(
          told, [](const auto& ec) { return ec == error::permission_denied; });
      // If a call without a caller lacks a command, only the server's log tells.
      BOOST_TEST((denied > 0 || !admin.must("ACL", "LOG").children.empty()));
      for (const auto& ec : told) {
        BOOST_TEST((!ec || ec == error::permission_denied), ec.message());
        BOOST_TEST((!ec || ec == condition::not_counted));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace acl_test
