#include "net/tls.hpp"

#include <openssl/x509v3.h>

#include <boost/asio/ip/address.hpp>
#include <boost/system/system_error.hpp>
#include <string>

#include "weir/error.hpp"

namespace weir::net {

namespace asio = boost::asio;

namespace {

void check_used(const char* option, const error_code& ec) {
  if (!ec) return;
  throw boost::system::system_error(make_error_code(error::invalid_tls_file),
                                    std::string(option) + ": " + ec.message());
}

void load_authorities(asio::ssl::context& context, const redis_options& options) {
  error_code ec;
  if (options.tls_ca_file.empty()) {
    context.set_default_verify_paths(ec);
    check_used("the system's certificate authorities", ec);
    return;
  }
  context.load_verify_file(options.tls_ca_file, ec);
  check_used("tls_ca_file", ec);
}

void load_client_certificate(asio::ssl::context& context, const redis_options& options) {
  error_code ec;
  context.use_certificate_chain_file(options.tls_cert_file, ec);
  check_used("tls_cert_file", ec);
  // Without a callback, OpenSSL asks for a passphrase on the terminal.
  context.set_password_callback([](std::size_t, auto) { return std::string{}; }, ec);
  context.use_private_key_file(options.tls_key_file, asio::ssl::context::pem, ec);
  check_used("tls_key_file", ec);
}

}  // namespace

tls_context make_tls_context(const redis_options& options) {
  if (!options.tls) return nullptr;
  auto made = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  asio::ssl::context& context = *made;
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  if (options.tls_verify) load_authorities(context, options);
  if (!options.tls_cert_file.empty()) load_client_certificate(context, options);
  return made;
}

bool expect_server(SSL* connection, const redis_options& options, const std::string& host) {
  std::string name = options.tls_server_name.empty() ? host : options.tls_server_name;
  error_code not_an_address;
  const asio::ip::address address = asio::ip::make_address(name, not_an_address);
  // "example.com." is the same name, absolute in the DNS; certificates and SNI have no dot.
  if (not_an_address && name.ends_with('.')) name.pop_back();
  if (name.empty()) return false;

  // RFC 6066 allows no addresses in SNI.
  if (not_an_address && SSL_set_tlsext_host_name(connection, name.c_str()) != 1) return false;
  if (!options.tls_verify) {
    SSL_set_verify(connection, SSL_VERIFY_NONE, nullptr);
    return true;
  }
  SSL_set_verify(connection, SSL_VERIFY_PEER, nullptr);
  if (not_an_address) {
    SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(connection, name.c_str()) == 1;
  }
  // Compares the bytes, because the text may have a zone ("fe80::1%eth0").
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(connection);
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    return X509_VERIFY_PARAM_set1_ip(parameters, bytes.data(), bytes.size()) == 1;
  }
  const auto bytes = address.to_v6().to_bytes();
  return X509_VERIFY_PARAM_set1_ip(parameters, bytes.data(), bytes.size()) == 1;
}

}  // namespace weir::net
