#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <memory>
#include <string>

#include "weir/error.hpp"
#include "weir/redis_options.hpp"

namespace weir::net {

/// What the connections of one store share; null without TLS.
using tls_context = std::shared_ptr<boost::asio::ssl::context>;
/// For the connections to Redis servers, and to Sentinels.
struct tls_contexts {
  tls_context server;
  tls_context sentinel;
};

/// Sets protocol versions, authorities and the client's certificate from the options. Throws
/// boost::system::system_error with error::invalid_tls_file; its text names the option, never the
/// file.
tls_context make_tls_context(const redis_options& options);

/// Makes the handshake on `connection` ask for `tls_server_name`, or `host` without one, and accept
/// no other server. False if OpenSSL refuses that; the caller must not start the handshake then.
bool expect_server(SSL* connection, const redis_options& options, const std::string& host);

/// True for errors that OpenSSL finds and for the server's TLS alerts; false for a lost connection.
inline bool is_tls_refusal(const error_code& ec) {
  return ec.category() == boost::asio::error::get_ssl_category();
}

}  // namespace weir::net
