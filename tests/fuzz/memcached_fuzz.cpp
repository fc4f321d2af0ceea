// What a memcached server sends, and what lies in it. The reader finds the same replies however the
// bytes are cut, within its bounds; a connection in the middle of its work survives them; no value
// harms the kernels, and what is written reads back the same.
#include <boost/system/system_error.hpp>
#include <string>
#include <vector>

#include "fuzz_wire.hpp"
#include "memcached/check_batch.hpp"
#include "memcached/connection_core.hpp"
#include "memcached/meta_reader.hpp"
#include "memcached/subject_value.hpp"
#include "memcached/url.hpp"
#include "support/fake_check.hpp"

namespace {

using namespace weir;
using memcached::connection_core;
using weir::fuzz::require;
using weir::test::fake_check;

constexpr std::int64_t now = 1'790'000'000'000'000;

struct outcome {
  std::string replies;
  bool broken = false;
  bool operator==(const outcome&) const = default;
};

outcome read(std::string_view bytes, std::size_t piece) {
  memcached::meta_reader reader(1024);
  outcome result;
  while (!bytes.empty() && !result.broken) {
    const auto part = bytes.substr(0, piece);
    const auto room = reader.prepare(part.size());
    std::copy(part.begin(), part.end(), room.begin());
    reader.commit(part.size());
    bytes.remove_prefix(part.size());
    error_code ec;
    while (const auto* r = reader.next(ec)) {
      result.replies += std::to_string(static_cast<int>(r->what)) + ':' + std::to_string(r->cas) +
                        (r->oversized ? "!" : ":");
      result.replies += r->text;
    }
    require(reader.memory() < 256 * 1024);
    result.broken = ec.failed();
  }
  return result;
}

void fuzz_reader(fuzz::input& in) {
  const std::size_t piece = 1 + in.byte();
  const std::string_view bytes = in.rest();
  const outcome whole = read(bytes, std::max<std::size_t>(1, bytes.size()));
  require(whole == read(bytes, piece));
  require(whole == read(bytes, 1));
}

test::core_ptr limiter_of(std::uint8_t which) {
  using namespace std::chrono_literals;
  static const test::core_ptr all[] = {
      test::make_core("r", fixed_window{.limit = 3, .window = 10s}),
      test::make_core("r", sliding_log{.limit = 3, .window = 10s}),
      test::make_core("r", sliding_window{.limit = 3, .window = 10s}),
      test::make_core("r", token_bucket{.capacity = 3, .refill = {7, 10s}}),
      test::make_core("r",
                      tiers(gcra{.rate = {3, 10s}, .burst = 3},
                            sliding_log{.limit = 9, .window = 1min, .resolution = 1s}),
                      {.cool_downs = true}),
  };
  return all[which % std::size(all)];
}

void fuzz_value(fuzz::input& in) {
  const test::core_ptr core = limiter_of(in.byte());
  constexpr detail::check_kind kinds[] = {detail::check_kind::record, detail::check_kind::fetch,
                                          detail::check_kind::acquire, detail::check_kind::settle,
                                          detail::check_kind::reset};
  fake_check one(core, "a", 1, kinds[in.byte() % std::size(kinds)]), two(core, "a");
  detail::check_list list;
  list.push_back(one.check());
  list.push_back(two.check());
  const std::string found(in.rest());
  std::string out;
  memcached::check_batch batch;
  const auto r = batch.run(list, found, false, now, 4096, out);
  list.clear();
  require(r.checks >= 1);
  if (r.what != memcached::check_batch::verdict::store) return;
  require(out.size() <= 4096);
  memcached::subject_value again;
  require(again.decode(out, 0) == error{});
  std::string twice;
  require(again.encode(now, twice) == r.ends);
  require(twice == out);
}

struct client final : test::wire_of<connection_core, memcached_options> {
  client() : wire_of(nullptr, small_values(), 7) {}

  static memcached_options small_values() {
    memcached_options o;
    o.max_value_size = 2048;
    return o;
  }
  std::int64_t clock() override { return ::now; }
  void go_on() {
    pump();
    for (int i = 0; i < 100 && (opening || writing); ++i) {
      opening ? opened({}) : written(true, writing->size());
    }
  }
  void hear(std::string_view bytes) {
    if (reading && !bytes.empty()) received(bytes.substr(0, core.room().size()));
    go_on();
  }
};

/// Bytes of a server, in the middle of everything.
void fuzz_connection(fuzz::input& in) {
  std::vector<std::unique_ptr<fake_check>> checks;
  client one;
  one.on_time();
  one.go_on();
  const std::string_view
      greeting = "MN\r\nSTAT item_size_max 1048576\r\nEND\r\nSTAT time 1790000000\r\nEND\r\n";
  if (in.byte() % 4 != 0) one.hear(greeting);
  while (!in.empty() && checks.size() < 200) {
    const std::uint8_t what = in.byte();
    if (what % 5 < 2) {
      const test::core_ptr of = limiter_of(what / 5);
      checks.push_back(std::make_unique<fake_check>(of, what % 2 == 0 ? "a" : "b"));
      std::string key;
      of->append_subject_key(key, what % 2 == 0 ? "a" : "b");
      one.core.submit(*checks.back(), key, one.now);
      one.go_on();
    } else if (what % 5 < 4) {
      one.hear(in.bytes(1 + what / 5));
    } else {
      one.now += std::chrono::milliseconds(what);
      one.on_time();
      one.go_on();
    }
  }
  one.abandon();
  for (const auto& c : checks) require(c->finished == 1);
}

void fuzz_url(fuzz::input& in) {
  const std::string rest(in.rest());
  for (const char* const scheme : {"memcached://", "memcached+unix://"}) {
    try {
      const memcached_options o = memcached::parse_url(scheme + rest);
      require(!o.servers.empty() && o.timeout.count() > 0);
    } catch (const boost::system::system_error& e) {
      require(e.code() == error::invalid_url);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  switch (in.byte() % 4) {
    case 0:
      fuzz_reader(in);
      break;
    case 1:
      fuzz_value(in);
      break;
    case 2:
      fuzz_connection(in);
      break;
    case 3:
      fuzz_url(in);
      break;
  }
  return 0;
}
