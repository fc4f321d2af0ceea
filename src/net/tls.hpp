#pragma once

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>

#include "weir/redis_options.hpp"

namespace weir::net {

/// Protocol versions, authorities and the client's certificate, as the options say. Throws
/// boost::system::system_error with error::invalid_tls_file; its text names the option, never the
/// file.
boost::asio::ssl::context make_tls_context(const redis_options& options);

/// Sees to it that the handshake on `connection` asks for the right server, and takes no other.
/// False if OpenSSL cannot be told so; then there must be no handshake.
bool expect_server(SSL* connection, const redis_options& options);

}  // namespace weir::net
