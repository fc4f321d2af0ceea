#include "redis/resp/resp_writer.hpp"

#include "support/test.hpp"

namespace resp_writer_test {

using namespace std::string_literals;
using namespace std::string_view_literals;
using weir::redis::command_writer;
using weir::redis::write_command;

BOOST_AUTO_TEST_SUITE(resp_writer_suite)

BOOST_AUTO_TEST_CASE(a_command_is_an_array_of_bulk_strings) {
  std::string out;
  write_command(out, "PING");
  BOOST_TEST(out == "*1\r\n$4\r\nPING\r\n");
  out.clear();
  write_command(out, "PEXPIRE", "a key"sv, 1500);
  BOOST_TEST(out == "*3\r\n$7\r\nPEXPIRE\r\n$5\r\na key\r\n$4\r\n1500\r\n");
}

BOOST_AUTO_TEST_CASE(commands_are_appended_behind_what_is_there) {
  std::string out = "before";
  write_command(out, "PING");
  write_command(out, "QUIT");
  BOOST_TEST(out == "before*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n");
}

BOOST_AUTO_TEST_CASE(the_same_command_piece_by_piece) {
  std::string out;
  command_writer(out).begin(3).arg("GET").arg("k").arg(7);
  std::string whole;
  write_command(whole, "GET", "k"s, 7);
  BOOST_TEST(out == whole);
  BOOST_TEST(out == "*3\r\n$3\r\nGET\r\n$1\r\nk\r\n$1\r\n7\r\n");
}

BOOST_AUTO_TEST_CASE(arguments_are_binary_safe) {
  std::string out;
  command_writer writer(out);
  writer.arg("a\0b\r\n$3\r\n\xff"sv);
  BOOST_TEST(out == "$10\r\na\0b\r\n$3\r\n\xff\r\n"s);
  out.clear();
  writer.arg(""sv).arg(std::string_view());
  BOOST_TEST(out == "$0\r\n\r\n$0\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(numbers_are_written_in_decimal_over_the_whole_range) {
  const std::pair<std::int64_t, std::string_view> table[] = {
      {0, "$1\r\n0\r\n"},
      {-1, "$2\r\n-1\r\n"},
      {9, "$1\r\n9\r\n"},
      {10, "$2\r\n10\r\n"},
      {999'999'999, "$9\r\n999999999\r\n"},
      {1'000'000'000, "$10\r\n1000000000\r\n"},
      {1'790'000'000'123'456, "$16\r\n1790000000123456\r\n"},
      {std::numeric_limits<std::int64_t>::max(), "$19\r\n9223372036854775807\r\n"},
      {std::numeric_limits<std::int64_t>::min(), "$20\r\n-9223372036854775808\r\n"},
  };
  for (const auto& [number, expected] : table) {
    std::string out;
    command_writer(out).arg(number);
    BOOST_TEST(out == expected);
  }
}

BOOST_AUTO_TEST_CASE(narrower_numbers_keep_their_value) {
  std::string out;
  command_writer(out)
      .arg(std::numeric_limits<std::int32_t>::min())
      .arg(std::numeric_limits<std::uint32_t>::max())
      .arg(std::int16_t{-5});
  BOOST_TEST(out == "$11\r\n-2147483648\r\n$10\r\n4294967295\r\n$2\r\n-5\r\n");
}

BOOST_AUTO_TEST_CASE(every_length_around_a_change_of_digits_is_announced_exactly) {
  for (const std::size_t n : {0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001, 65'536, 100'000}) {
    const std::string text(n, 'x');
    std::string out;
    command_writer(out).begin(n).arg(text);
    const std::string length = std::to_string(n);
    BOOST_TEST((out == "*" + length + "\r\n$" + length + "\r\n" + text + "\r\n"), "length " << n);
  }
}

BOOST_AUTO_TEST_CASE(a_warm_buffer_is_not_allocated_again) {
  std::string out;
  const auto write = [&out] {
    for (int i = 0; i < 100; ++i) write_command(out, "EVALSHA", std::string_view("sha"), 1, i);
  };
  write();
  const char* const data = out.data();
  const std::size_t capacity = out.capacity();
  for (int round = 0; round < 10; ++round) {
    out.clear();
    write();
  }
  BOOST_TEST(static_cast<const void*>(out.data()) == static_cast<const void*>(data));
  BOOST_TEST(out.capacity() == capacity);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace resp_writer_test
