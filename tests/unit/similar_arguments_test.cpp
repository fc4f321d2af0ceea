#include "redis/script/similar_arguments.hpp"

#include "redis/resp/resp_writer.hpp"
#include "support/sanitized.hpp"
#include "support/test.hpp"

namespace similar_arguments_test {

using weir::redis::command_writer;
using weir::redis::similar_arguments;

/// What the plain writer makes of the same arguments.
std::string plainly(std::string out, std::string_view head, std::string_view tail,
                    const std::vector<std::string>& middles) {
  command_writer writer(out);
  for (const std::string& m : middles) writer.arg(std::string(head) + m + std::string(tail));
  return out;
}

BOOST_AUTO_TEST_SUITE(similar_arguments_suite)

BOOST_AUTO_TEST_CASE(writes_what_the_plain_writer_writes_for_all_sizes) {
  std::vector<std::string> middles = {std::string(70'000, 'm')};
  for (std::size_t n = 0; n < 140; ++n) {
    middles.emplace_back(n, static_cast<char>('a' + n % 26));
    if (n % 3 == 0) middles.emplace_back(n, '\n');  // two of one size
  }
  middles.emplace_back("\0\xff", 2);
  constexpr std::size_t step = weir::test::is_sanitized ? 6 : 1;
  for (std::size_t less = 0; less <= 97; less += step) {
    const std::size_t head_size = 97 - less;
    for (std::size_t tail_size = 0; tail_size <= 15; ++tail_size) {
      const std::string head(head_size, 'h'), tail(tail_size, 't');
      const bool fits = similar_arguments::fits(head, tail);
      BOOST_TEST_REQUIRE(fits == (head_size <= 96 && tail_size <= 14));
      if (!fits) continue;
      std::string out = "before";
      similar_arguments arguments(out, head, tail, 4 * head_size);  // too few, or too many
      for (const std::string& m : middles) arguments.put(m);
      arguments.end();
      BOOST_REQUIRE(out == plainly("before", head, tail, middles));
    }
  }
}

BOOST_AUTO_TEST_CASE(no_argument_adds_nothing) {
  std::string out = "before";
  similar_arguments(out, "head", "tail", 0).end();
  BOOST_TEST(out == "before");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace similar_arguments_test
