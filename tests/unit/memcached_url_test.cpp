// URLs and options of a Memcached store.
#include "memcached/url.hpp"

#include "support/run.hpp"

namespace memcached_url_test {

using namespace weir;
using namespace weir::test;

BOOST_AUTO_TEST_SUITE(memcached_url_suite)

BOOST_AUTO_TEST_CASE(servers_ports_and_parameters) {
  const memcached_options one = parse_memcached_url("memcached://localhost");
  BOOST_TEST(one.servers.size() == 1u);
  BOOST_TEST(one.servers[0].host == "localhost");
  BOOST_TEST(one.servers[0].port == 11211);
  BOOST_TEST(one.key_prefix == "weir");

  const memcached_options all = parse_memcached_url(
      "MemCached://a,b.example:11212,[::1]:7,[fe80::1%eth0],[fe80::2%25br-lan.1]:8,127.0.0.1:11211/"
      "?prefix=sh%20op&timeout="
      "2s");
  const std::pair<std::string, int> expected[] = {{"a", 11211},
                                                  {"b.example", 11212},
                                                  {"::1", 7},
                                                  {"fe80::1%eth0", 11211},
                                                  {"fe80::2%br-lan.1", 8},
                                                  {"127.0.0.1", 11211}};
  BOOST_TEST_REQUIRE(all.servers.size() == std::size(expected));
  for (std::size_t i = 0; i < all.servers.size(); ++i) {
    BOOST_TEST(all.servers[i].host == expected[i].first);
    BOOST_TEST(all.servers[i].port == expected[i].second);
  }
  BOOST_TEST(all.key_prefix == "sh op");
  BOOST_TEST((all.timeout == 2s));
}

BOOST_AUTO_TEST_CASE(unix_sockets) {
  const memcached_options o = parse_memcached_url(
      "Memcached+Unix:///run/mem%20cached/a%2Cb.sock?prefix=shop&timeout=2s");
  BOOST_TEST(o.servers.size() == 1u);
  BOOST_TEST(o.servers[0].unix_path == "/run/mem cached/a,b.sock");
  BOOST_TEST(o.key_prefix == "shop");
  BOOST_TEST((o.timeout == 2s));
  BOOST_TEST(weir::memcached::is_memcached_url("MEMCACHED+UNIX:///a"));
  BOOST_TEST(!weir::memcached::is_memcached_url("memcached+unix:/a"));

  const std::string path = "/" + std::string(106, 'a');  // 107 bytes: Linux
  BOOST_TEST(parse_memcached_url("memcached+unix://" + path).servers[0].unix_path == path);
  const std::pair<std::string, std::string_view> bad[] = {
      {"memcached+unix://", "memcached+unix:///path/to/socket"},
      {"memcached+unix:///", "memcached+unix:///path/to/socket"},
      {"memcached+unix://?prefix=a", "memcached+unix:///path/to/socket"},
      {"memcached+unix://run/a.sock", "three slashes"},
      {"memcached+unix://h:1/a.sock", "three slashes"},
      {"memcached+unix:///a.sock,/b.sock", "memcached_options::servers"},
      {"memcached+unix:///a%zz", "percent-escape"},
      {"memcached+unix:///a%0ab", "control character"},
      {"memcached+unix://" + path + "a", "path of the socket is longer than the 107 bytes"},
      {"memcached+unix:///a#b", "contains a '#'"},
      {"memcached+unix:///a?x=1", "query parameter 1 is not one of timeout, prefix"},
      {"memcached:///run/a.sock", "memcached+unix:///path/to/socket"},
      {"memcached://run/a.sock", "memcached+unix:///path/to/socket"},
  };
  for (const auto& [url, says] : bad) {
    BOOST_CHECK_EXCEPTION((void)parse_memcached_url(url), boost::system::system_error,
                          ([&](const auto& e) {
                            BOOST_TEST(std::string(e.what()).find(says) != std::string::npos,
                                       url << ": " << e.what());
                            return e.code() == error::invalid_url;
                          }));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_such_url) {
  for (const char* url : {
           "memcached://",
           "memcached://a,",
           "memcached://,a",
           "memcached://a:0",
           "memcached://a:65536",
           "memcached://a:",
           "memcached://a:1x",
           "memcached://a b",
           "memcached://user:secret@a",
           "memcached://a/path",
           "memcached://[::1",
           "memcached://[a]",
           "memcached://[::1]x",
           "memcached://[fe80::1%]",
           "memcached://[fe80::1%25]",
           "memcached://[fe80::1%25a%20b]",
           "memcached://[a%25lo]",
           "memcached://a,a",
           "memcached://a#x",
           "memcached://a?timeout=1",
           "memcached://a?timeout=0s",
           "memcached://a?timeout=25h",
           "memcached://a?timeout=1s&timeout=2s",
           "memcached://a?secret=1",
           "memcached://a?prefix",
           "memcached://a?prefix=%zz",
           "memcached:a",
           "redis://a",
       }) {
    try {
      (void)parse_memcached_url(url);
      BOOST_TEST(false, url);
    } catch (const boost::system::system_error& e) {
      WEIR_TEST_ERROR(e.code(), error::invalid_url);
      BOOST_TEST(std::string(e.what()).find("secret") == std::string::npos, e.what());
    }
  }
  WEIR_TEST_ERROR(error_of([] { (void)parse_redis_url("memcached://a"); }),
                  error::unsupported_scheme);
}

BOOST_AUTO_TEST_CASE(options_out_of_range) {
  boost::asio::io_context io;
  const auto refused = [&](auto&& change) {
    memcached_options o;
    change(o);
    const error_code ec = error_of(
        [&] { (void)make_memcached_store(io.get_executor(), std::move(o)); });
    return ec == error::invalid_options;
  };
  BOOST_TEST(!refused([](auto&) {}));
  BOOST_TEST(!refused([](auto& o) { o.max_clock_skew = 0ms; }));
  BOOST_TEST(refused([](auto& o) { o.max_clock_skew = 999ms; }));
  BOOST_TEST(refused([](auto& o) { o.max_clock_skew = -1ms; }));
  BOOST_TEST(refused([](auto& o) { o.servers.clear(); }));
  BOOST_TEST(refused([](auto& o) { o.servers.push_back(o.servers.front()); }));
  BOOST_TEST(refused([](auto& o) { o.servers.front().host.clear(); }));
  BOOST_TEST(refused([](auto& o) { o.servers.front().host = "a b"; }));
  BOOST_TEST(refused([](auto& o) { o.servers.front().port = 0; }));
  BOOST_TEST(refused([](auto& o) { o.servers.front().weight = 0; }));
  // Sockets.
  const auto add_socket = [](auto& o, std::string path) {
    o.servers.push_back({.unix_path = std::move(path)});
  };
  BOOST_TEST(!refused([&](auto& o) { add_socket(o, "/a"), add_socket(o, "/b"); }));
  BOOST_TEST(refused([&](auto& o) { add_socket(o, "/a"), add_socket(o, "/a"); }));
  BOOST_TEST(refused([&](auto& o) { add_socket(o, std::string(108, 'a')); }));
  BOOST_TEST(refused([&](auto& o) { add_socket(o, std::string("/a\0", 3)); }));
  BOOST_TEST(refused([](auto& o) { o.timeout = 0us; }));
  BOOST_TEST(refused([](auto& o) { o.timeout = -1us; }));
  BOOST_TEST(refused([](auto& o) { o.timeout = 25h; }));
  BOOST_TEST(refused([](auto& o) { o.connect_timeout = 0ms; }));
  BOOST_TEST(refused([](auto& o) { o.silence_timeout = 9ms; }));
  BOOST_TEST(refused([](auto& o) { o.ping_interval = 9ms; }));
  BOOST_TEST(refused([](auto& o) { o.clock_check_interval = 99ms; }));
  BOOST_TEST(refused([](auto& o) { o.backoff_max = 1ms; }));
  BOOST_TEST(refused([](auto& o) { o.max_pending = 0; }));
  BOOST_TEST(refused([](auto& o) { o.max_value_size = 999; }));
  BOOST_TEST(refused([](auto& o) { o.spin_time = std::chrono::microseconds(-1); }));
  BOOST_TEST(!refused([](auto& o) { o.spin_time = std::chrono::microseconds(50); }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace memcached_url_test
