// The parsing cases of github.com/httpwg/structured-field-tests, all of them, as they stand in
// tests/vectors. Their README.md describes the format.
#include <boost/json/src.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "feedback/structured_field.hpp"
#include "support/test.hpp"

namespace structured_field_vectors_test {

using namespace weir::feedback;
namespace json = boost::json;
using kind = bare_item::kind;

json::string base32_of(std::string_view base64) {
  constexpr std::string_view
      from = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::string_view to = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  base64 = base64.substr(0, base64.find('='));
  std::size_t bits = base64.size() * 6 / 8 * 8;  // the rest is padding
  json::string out;
  unsigned held = 0, count = 0;
  for (const char c : base64) {
    held = held << 6 | static_cast<unsigned>(from.find(c));
    count += 6;
    while (count >= 5 && bits >= 5) {
      out += to[held >> (count - 5) & 31];
      count -= 5;
      bits -= 5;
    }
    held &= (1u << count) - 1;
  }
  if (bits > 0) out += to[held >> (count - bits) << (5 - bits) & 31];
  while (out.size() % 8 != 0) out += '=';
  return out;
}

json::string unescaped(std::string_view text) {
  json::string out;
  for (std::size_t i = 0; i < text.size(); ++i) out += text[text[i] == '\\' ? ++i : i];
  return out;
}

json::string percent_decoded(std::string_view text) {
  json::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
    i += 2;
  }
  return out;
}

json::object typed(const char* type, json::value value) {
  return {{"__type", type}, {"value", std::move(value)}};
}

json::string string_of(std::string_view text) { return json::string(text.data(), text.size()); }

json::value value_of(const bare_item& item) {
  const std::int64_t whole = item.negative ? -item.number.whole : item.number.whole;
  switch (item.is) {
    case kind::integer:
      return whole;
    case kind::decimal: {
      const std::int64_t thousandths = item.number.whole * 1'000 + item.number.nanos / 1'000'000;
      return static_cast<double>(item.negative ? -thousandths : thousandths) / 1'000;
    }
    case kind::string:
      return unescaped(item.text);
    case kind::token:
      return typed("token", string_of(item.text));
    case kind::bytes:
      return typed("binary", base32_of(item.text));
    case kind::boolean:
      return item.truth;
    case kind::date:
      return typed("date", whole);
    case kind::display_string:
      return typed("displaystring", percent_decoded(item.text));
    case kind::inner_list:
      break;
  }
  return nullptr;
}

/// Adds a pair. Of equal keys, the last one counts, in the place of the first.
void add(json::array& pairs, std::string_view key, json::value value) {
  for (json::value& pair : pairs) {
    if (pair.at(0) == string_of(key)) {
      pair.as_array()[1] = std::move(value);
      return;
    }
  }
  pairs.push_back(json::array{string_of(key), std::move(value)});
}

json::array parameters_of(structured_reader& reader) {
  json::array out;
  for (keyed_item parameter; reader.next_parameter(parameter);) {
    add(out, parameter.key, value_of(parameter.item));
  }
  return out;
}

struct outcome {
  bool failed = false;
  bool cut = false;  ///< a string goes on in a line behind the one that it began in
  json::value value;
};

outcome parse(const std::vector<std::string>& lines, field_type type) {
  std::vector<weir::header_field> headers;
  for (const std::string& line : lines) headers.push_back({"Example", line});
  structured_reader reader{{headers, 0}, type};
  outcome out;
  json::array members;
  for (keyed_item member; reader.next_member(member);) {
    out.cut = out.cut || member.item.goes_on;
    json::value value = value_of(member.item);
    if (member.item.is == kind::inner_list) {
      json::array inner;
      for (bare_item item; reader.next_item(item);) {
        json::value plain = value_of(item);
        inner.push_back(json::array{std::move(plain), parameters_of(reader)});
      }
      value = std::move(inner);
    }
    json::array whole{std::move(value)};
    whole.push_back(parameters_of(reader));
    if (type == field_type::dictionary) {
      add(members, member.key, std::move(whole));
    } else {
      members.push_back(std::move(whole));
    }
  }
  out.failed = reader.failed();
  BOOST_TEST(out.failed == !well_formed({headers, 0}, type));
  if (type == field_type::item && !members.empty()) {
    out.value = std::move(members.front());
  } else {
    out.value = std::move(members);
  }
  return out;
}

bool says(const json::object& record, const char* key) {
  const json::value* const found = record.if_contains(key);
  return found != nullptr && found->as_bool();
}

void judge(const json::object& record, const std::vector<std::string>& lines) {
  const json::string& name = record.at("header_type").as_string();
  const field_type type = name == "item"   ? field_type::item
                          : name == "list" ? field_type::list
                                           : field_type::dictionary;
  const outcome out = parse(lines, type);
  if (says(record, "must_fail")) {
    BOOST_TEST(out.failed, json::serialize(out.value));
    return;
  }
  // The reader gives the part of such a string in the first line. That is no complete result.
  if (says(record, "can_fail") && (out.failed || out.cut)) return;
  BOOST_TEST(!out.failed);
  BOOST_TEST(!out.cut);
  if (out.value == record.at("expected")) return;
  BOOST_TEST(false, json::serialize(out.value)
                        << " is not " << json::serialize(record.at("expected")));
}

BOOST_AUTO_TEST_SUITE(structured_field_vectors_suite)

BOOST_AUTO_TEST_CASE(every_parsing_case) {
  int files = 0, records = 0, of_several_lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(WEIR_TEST_VECTORS)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const json::value all = json::parse(text);
    for (const json::value& each : all.as_array()) {
      const json::object& record = each.as_object();
      ++records;
      std::vector<std::string> lines;
      for (const json::value& line : record.at("raw").as_array()) {
        lines.emplace_back(line.as_string().begin(), line.as_string().end());
      }
      BOOST_TEST_CONTEXT(entry.path().filename() << ": " << record.at("name")) {
        judge(record, lines);
        if (lines.size() == 1) continue;
        ++of_several_lines;
        std::string joined = lines.front();
        for (std::size_t i = 1; i < lines.size(); ++i) joined += ", " + lines[i];
        judge(record, {joined});
      }
    }
  }
  BOOST_TEST(files == 20);
  BOOST_TEST(records == 1'591);
  BOOST_TEST(of_several_lines == 9);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace structured_field_vectors_test
