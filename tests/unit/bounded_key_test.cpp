// The text under which memory keeps a key: no longer than a bound, and another one for each key.
#include "memory/bounded_key.hpp"

#include "support/test.hpp"

namespace bounded_key_test {

using weir::memory::bounded_key;

std::string text_of(const std::string& key) {
  return std::string(std::string_view(bounded_key(key)));
}

BOOST_AUTO_TEST_SUITE(bounded_key_suite)

BOOST_AUTO_TEST_CASE(no_two_keys_are_kept_as_one) {
  std::set<std::string> kept;
  std::size_t keys = 0;
  const auto keep = [&](const std::string& key) {
    ++keys;
    BOOST_TEST(kept.insert(text_of(key)).second, "a key of " << key.size());
    BOOST_TEST(text_of(key) == text_of(key));
  };
  // Keys around the bound; long ones that differ at one place; and what a long one is kept as.
  for (std::size_t size = 250; size <= 262; ++size) keep(std::string(size, 'x'));
  for (const std::size_t at : {0u, 31u, 32u, 255u, 256u, 300u, 59'999u}) {
    std::string key(60'000, 'x');
    key[at] = 'y';
    keep(key);
    keep(text_of(key));
    for (const std::size_t size : {32u, 225u, 256u}) keep(text_of(key).substr(0, size));
  }
  BOOST_TEST(kept.size() == keys);
}

BOOST_AUTO_TEST_CASE(a_long_key_becomes_257_bytes_and_another_one_stays) {
  for (const std::size_t size : {1u, 255u, 256u, 257u, 258u, 65'536u}) {
    std::string key(size, 'x');
    BOOST_TEST(text_of(key).size() == (size <= 256 ? size : 257));
    if (size <= 256) BOOST_TEST(text_of(key) == key);
    const std::string text = text_of(key);
    weir::memory::bound(key);
    BOOST_TEST(key == text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bounded_key_test
