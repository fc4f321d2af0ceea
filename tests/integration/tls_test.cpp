// TLS with a real server: what is accepted, and what is refused in words that help. Certificates
// are made on the spot.
#include <filesystem>
#include <fstream>

#include "support/load.hpp"
#include "support/stores.hpp"
#include "support/tls_certificates.hpp"

namespace tls_test {

using namespace weir;
using namespace weir::test;

const std::string here = "DNS:localhost,IP:127.0.0.1";

struct fixture {
  certificate_authority ca;
  asio::io_context io;

  /// A server that shows this certificate.
  redis_server_options showing(const tls_files& files) const {
    return {.tls = {.certificate_file = files.certificate,
                    .key_file = files.key,
                    .ca_file = ca.file()}};
  }
  redis_options trusting(const redis_server& server) const {
    auto o = patient_options(server);
    o.tls_ca_file = ca.file();
    return o;
  }
  error_code record(const store& s) {
    crowd c;
    limiter(s, "r", fixed_window{.limit = 1000, .window = 24h}).record("a", c.caller());
    run_until_complete(io, c);
    return c[0].ec;
  }
  error_code record(const redis_options& o) {
    return record(make_redis_store(io.get_executor(), o));
  }
  error_code construction(const redis_options& o) {
    return error_of([&] { (void)make_redis_store(io.get_executor(), o); });
  }
};

BOOST_FIXTURE_TEST_SUITE(tls_suite, fixture)

BOOST_AUTO_TEST_CASE(every_operation_over_tls_by_url) {
  redis_server server(showing(ca.issue(here)));
  const auto s = open_store(io.get_executor(),
                            server.url() + "?timeout=50s&tls_ca_file=" + ca.file());
  const limiter l(s, "r", fixed_window{.limit = 2, .window = 24h});
  crowd c;
  l.record("a", c.caller());
  l.record("a", c.caller());
  l.record("a", c.caller());
  l.fetch("a", c.caller());
  l.reset("a", c.caller());
  l.fetch("a", c.caller());
  run_until_complete(io, c);
  for (const auto& o : c) BOOST_TEST(!o.ec.failed(), o.ec.message());
  BOOST_TEST(c[1].d.allowed);
  BOOST_TEST(!c[2].d.allowed);
  BOOST_TEST(c[3].d.used == 2);
  BOOST_TEST(c[5].d.used == 0);
}

// Without tls_ca_file, the authorities of the system are trusted: OpenSSL's, which SSL_CERT_FILE
// can stand in for.
BOOST_AUTO_TEST_CASE(the_systems_authorities_are_trusted_unless_others_are_named) {
  redis_server server(showing(ca.issue(here)));
  auto o = trusting(server);
  o.tls_ca_file.clear();
  const char* was = ::getenv("SSL_CERT_FILE");
  const std::string before = was ? was : "";
  ::setenv("SSL_CERT_FILE", ca.file().c_str(), 1);
  BOOST_TEST(!record(o).failed());
  const certificate_authority another;
  ::setenv("SSL_CERT_FILE", another.file().c_str(), 1);
  WEIR_TEST_ERROR(record(o), error::tls_failed);
  was ? ::setenv("SSL_CERT_FILE", before.c_str(), 1) : ::unsetenv("SSL_CERT_FILE");
}

// More than one TLS record takes, and more than the socket's buffer.
BOOST_AUTO_TEST_CASE(large_writes_arrive_whole) {
  redis_server server(showing(ca.issue(here)));
  const limiter l(make_redis_store(io.get_executor(), trusting(server)), "r",
                  fixed_window{.limit = 10, .window = 24h});
  crowd c;
  for (int i = 0; i < 300; ++i) l.record(std::string(65'530, 's') + std::to_string(i), c.caller());
  run_until_complete(io, c);
  BOOST_TEST(c.allowed() == 300u);
}

BOOST_AUTO_TEST_CASE(a_crash_in_the_middle_of_the_load) {
  redis_server server(showing(ca.issue(here)));
  const limiter l(make_redis_store(io.get_executor(), trusting(server)), "r",
                  fixed_window{.limit = max_units, .window = 24h});
  load all(io, l, 100, data_loss::everything);
  for (int round = 0; round < 5; ++round) {
    all.run_on(5);
    server.kill();
    server.restart();
  }
  all.run_on(5);
  all.end();
  std::int64_t failures = 0;
  for (const auto& c : all.callers) failures += c->failures;
  BOOST_TEST(failures > 0);  // or it was not in the middle of anything
}

BOOST_AUTO_TEST_CASE(certificates_that_are_refused) {
  certificate_authority stranger;
  const struct {
    const char* what;
    tls_files files;
  } cases[] = {
      {"expired", ca.issue(here, expired, "expired")},
      {"not valid yet", ca.issue(here, not_yet, "not_yet")},
      {"of an unknown authority", stranger.issue(here)},
      {"of another name", ca.issue("DNS:other.example,IP:127.0.0.2", {}, "other")},
      {"with the address as a name", ca.issue("DNS:127.0.0.1", {}, "name")},
  };
  for (const auto& [what, files] : cases) {
    BOOST_TEST_CONTEXT("a certificate " << what) {
      redis_server server(showing(files));
      auto o = trusting(server);
      const auto s = make_redis_store(io.get_executor(), o);
      for (int i = 0; i < 2; ++i) {  // told to calls that wait, and to calls that come later
        const auto ec = record(s);
        WEIR_TEST_ERROR(ec, error::tls_failed);
        BOOST_CHECK(ec == condition::not_counted);
      }
      // The system knows none of these authorities.
      o.tls_ca_file.clear();
      WEIR_TEST_ERROR(record(o), error::tls_failed);
      o.tls_verify = false;
      BOOST_TEST(!record(o).failed());
      const auto relaxed = open_store(io.get_executor(),
                                      server.url() + "?timeout=50s&tls_verify=false");
      BOOST_TEST(!record(relaxed).failed());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_server_is_known_by_name_or_address) {
  redis_server named(showing(ca.issue("DNS:localhost,DNS:redis.example,DNS:*.wild.example")));
  auto o = trusting(named);
  WEIR_TEST_ERROR(record(o), error::tls_failed);  // by its address, which is not in there
  o.host = "localhost";
  BOOST_TEST(!record(o).failed());
  o.host = "127.0.0.1";
  for (const char* name : {"redis.example", "REDIS.example.", "a.wild.example"}) {
    BOOST_TEST_CONTEXT(name) {
      o.tls_server_name = name;
      BOOST_TEST(!record(o).failed());
    }
  }
  for (const char* name : {"redis.example.com", "a.b.wild.example", "wild.example", "127.0.0.1"}) {
    BOOST_TEST_CONTEXT(name) {
      o.tls_server_name = name;
      WEIR_TEST_ERROR(record(o), error::tls_failed);
    }
  }

  redis_server numbered(showing(ca.issue("IP:127.0.0.1,IP:::1", {}, "numbered")));
  o = trusting(numbered);
  BOOST_TEST(!record(o).failed());
  o.host = "localhost";
  WEIR_TEST_ERROR(record(o), error::tls_failed);
  for (const char* address : {"::1", "127.0.0.1"}) {
    o.tls_server_name = address;
    BOOST_TEST(!record(o).failed());
  }
  o.tls_server_name = "::2";
  WEIR_TEST_ERROR(record(o), error::tls_failed);
}

BOOST_AUTO_TEST_CASE(a_server_that_asks_for_a_certificate) {
  certificate_authority stranger;
  const tls_files mine = ca.issue("DNS:client", {}, "client");
  const tls_files old = ca.issue("DNS:client", expired, "old");
  const tls_files strange = stranger.issue("DNS:client");
  // In 1.3 the client learns of a refusal only after its handshake.
  for (const char* version : {"TLSv1.2", "TLSv1.3"}) {
    BOOST_TEST_CONTEXT(version) {
      auto options = showing(ca.issue(here));
      options.tls.clients_need_certificate = true;
      options.arguments = {"--tls-protocols", version};
      redis_server server(options);
      auto o = trusting(server);
      WEIR_TEST_ERROR(record(o), error::tls_failed);
      for (const tls_files& files : {strange, old}) {
        o.tls_cert_file = files.certificate;
        o.tls_key_file = files.key;
        WEIR_TEST_ERROR(record(o), error::tls_failed);
      }
      const auto s = open_store(io.get_executor(), server.url() +
                                                       "?timeout=50s&tls_ca_file=" + ca.file() +
                                                       "&tls_cert_file=" + mine.certificate +
                                                       "&tls_key_file=" + mine.key);
      BOOST_TEST(!record(s).failed());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_store_recovers_when_the_certificate_is_renewed) {
  redis_server server(showing(ca.issue(here, expired)));
  const auto s = make_redis_store(io.get_executor(), trusting(server));
  WEIR_TEST_ERROR(record(s), error::tls_failed);
  ca.issue(here);  // into the same file
  server.restart();
  run_until(io, [&] {
    const auto ec = record(s);
    if (ec) WEIR_TEST_ERROR(ec, error::tls_failed);
    return !ec;
  });
}

// It may be a server about to start, so calls wait; but what they are told in the end is what
// happened.
BOOST_AUTO_TEST_CASE(one_side_speaks_tls_and_the_other_does_not) {
  redis_server plain, secure(showing(ca.issue(here)));
  auto o = patient_options(secure);
  o.tls = false;
  o.timeout = 20ms;
  o.connect_timeout = 10ms;
  const auto told_in_the_end = [&](error expected) {
    const auto s = make_redis_store(io.get_executor(), o);
    run_until(io, [&] {
      const auto ec = record(s);
      // As long as no attempt has come to its end, it is not known. On a busy machine, the name may
      // take longer than the connect timeout.
      if (ec == error::timed_out || ec == error::host_unreachable || ec == error::host_not_found) {
        return false;
      }
      WEIR_TEST_ERROR(ec, expected);
      BOOST_CHECK(ec == condition::not_counted);
      return true;
    });
  };
  told_in_the_end(error::closed_by_peer);
  // Redis waits for more of what it takes for a line.
  o = patient_options(plain);
  o.tls = true;
  o.timeout = 20ms;
  o.connect_timeout = 10ms;
  told_in_the_end(error::tls_failed);
}

BOOST_AUTO_TEST_CASE(options_and_files_that_cannot_work_are_refused_at_once) {
  const tls_files good = ca.issue(here), other = ca.issue(here, {}, "other");
  const std::string empty = ca.directory() + "/empty";
  std::ofstream{empty};
  const std::string missing = ca.directory() + "/missing";
  const auto with = [&](auto&& change) {
    redis_options o;
    o.tls = true;
    change(o);
    return o;
  };
  const auto clients = [&](std::string certificate, std::string key) {
    return with([&](auto& o) { o.tls_cert_file = certificate, o.tls_key_file = key; });
  };
  const redis_options unusable[] = {
      with([&](auto& o) { o.tls_ca_file = missing; }),
      with([&](auto& o) { o.tls_ca_file = empty; }),
      with([&](auto& o) { o.tls_ca_file = ca.directory(); }),
      with([&](auto& o) { o.tls_ca_file = good.key; }),
      clients(missing, good.key),
      clients(empty, good.key),
      clients(good.certificate, missing),
      clients(good.certificate, empty),
      clients(good.certificate, other.key),
      clients(good.certificate, ca.encrypt(good)),  // asks for no passphrase
  };
  for (const auto& o : unusable) {
    BOOST_TEST_CONTEXT(o.tls_ca_file << " " << o.tls_cert_file << " " << o.tls_key_file) {
      try {
        (void)make_redis_store(io.get_executor(), o);
        BOOST_ERROR("nothing was thrown");
      } catch (const boost::system::system_error& e) {
        WEIR_TEST_ERROR(e.code(), error::invalid_tls_file);
        BOOST_TEST_MESSAGE(e.what());
        BOOST_TEST(std::string(e.what()).starts_with("tls_"));
        BOOST_TEST(std::string(e.what()).find(ca.directory()) == std::string::npos);
        const bool is_missing = o.tls_ca_file == missing || o.tls_cert_file == missing ||
                                o.tls_key_file == missing;
        const bool says_so = std::string(e.what()).find("No such file") != std::string::npos;
        BOOST_TEST(says_so == is_missing);
      }
    }
  }
  WEIR_TEST_ERROR(
      error_of([&] { (void)open_store(io.get_executor(), "rediss://h?tls_ca_file=" + missing); }),
      error::invalid_tls_file);

  const redis_options contradictory[] = {
      with([&](auto& o) { o.tls = false, o.tls_ca_file = ca.file(); }),
      with([&](auto& o) { o.tls = false, o.tls_server_name = "a"; }),
      with([&](auto& o) { o.tls_verify = false, o.tls_ca_file = ca.file(); }),
      with([&](auto& o) { o.unix_path = "/tmp/a.sock"; }),
      with([&](auto& o) { o.tls_server_name = std::string("localhost\0.example", 18); }),
      clients(good.certificate, ""),
      clients("", good.key),
  };
  for (const auto& o : contradictory) WEIR_TEST_ERROR(construction(o), error::invalid_options);
  for (const char* name : {"a b", "a\n", "\x7f", "\xc3\xa4"}) {
    redis_options o;
    o.client_name = name;
    WEIR_TEST_ERROR(construction(o), error::invalid_options);
  }
  BOOST_TEST(io.poll() == 0u);  // nothing was started
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tls_test
