#include "base/hash.hpp"

#include "support/fake_check.hpp"
#include "support/test.hpp"

namespace subject_hash_test {

using weir::detail::is_same_subject;
using weir::detail::subject_hash;

BOOST_AUTO_TEST_SUITE(subject_hash_suite)

// Each byte counts: that of a short text, of one of 8 to 16 bytes, and of a longer one.
BOOST_AUTO_TEST_CASE(texts_that_differ_in_one_byte_are_told_apart) {
  std::set<std::uint64_t> hashes;
  std::size_t texts = 0;
  for (std::size_t n = 0; n <= 50; ++n) {
    const std::string text(n, 'a');
    BOOST_TEST(is_same_subject(text, std::string(n, 'a')));
    BOOST_TEST(!is_same_subject(text, text + 'a'));
    BOOST_TEST(!is_same_subject(text + 'a', text));
    hashes.insert(subject_hash(text));
    ++texts;
    for (std::size_t i = 0; i < n; ++i) {
      std::string other = text;
      other[i] = 'b';
      BOOST_TEST(!is_same_subject(text, other));
      BOOST_TEST(!is_same_subject(other, text));
      hashes.insert(subject_hash(other));
      ++texts;
    }
  }
  BOOST_TEST(hashes.size() == texts);
}

// Receipts are settled by other processes, on other machines too.
BOOST_AUTO_TEST_CASE(the_hash_is_the_same_everywhere) {
  BOOST_TEST(subject_hash("a") == 0x1d970ba635c221cbu);
  BOOST_TEST(subject_hash("alice") == 0x71aa684e667bc8c4u);
  BOOST_TEST(subject_hash("account-42") == 0x2ae6c2024ce1b86bu);
  BOOST_TEST(subject_hash("a subject of thirty-two letters.") == 0x1a947bd290ee7ae7u);
  BOOST_TEST(subject_hash("a subject of more than thirty-two letters") == 0x5981d25d5c67116u);
}

BOOST_AUTO_TEST_CASE(a_check_keeps_the_hash_of_its_subject) {
  const auto core = weir::test::make_core(
      "r", weir::fixed_window{.limit = 9, .window = std::chrono::seconds{10}});
  weir::test::fake_check check(core, "account-42");
  BOOST_TEST(subject_hash(check.check()) == subject_hash("account-42"));
  BOOST_TEST(check.check().flight.subject_hash == subject_hash("account-42"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace subject_hash_test
