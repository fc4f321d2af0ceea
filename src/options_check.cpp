#include "options_check.hpp"

#include <algorithm>

namespace weir::detail {
namespace {

constexpr std::size_t max_host_length = 255;

constexpr bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
}
constexpr bool is_control_or_space(char c) noexcept { return is_control(c) || c == ' '; }

/// A NUL would end a name early, where it is checked or where it is used.
std::string fault_of_name(const std::string& name, const char* what) {
  if (name.size() > max_host_length) return std::string(what) + " is longer than 255 characters";
  if (std::ranges::any_of(name, is_control_or_space)) {
    return std::string(what) + " contains a space or a control character";
  }
  return {};
}

std::string fault_of_tls(const redis_options& o) {
  if (!o.tls) {
    // More likely forgotten than meant, and then everything would go out in the clear.
    for (const std::string* given :
         {&o.tls_ca_file, &o.tls_cert_file, &o.tls_key_file, &o.tls_server_name}) {
      if (!given->empty()) return "there are TLS options, but tls is off: set tls, or rediss://";
    }
    return {};
  }
  if (!o.unix_path.empty()) return "TLS goes over TCP, not over a Unix socket";
  if (o.tls_cert_file.empty() != o.tls_key_file.empty()) {
    return "tls_cert_file and tls_key_file go together: give both or none";
  }
  if (!o.tls_verify && !o.tls_ca_file.empty()) {
    return "tls_verify is off, so that tls_ca_file would do nothing: drop one of them";
  }
  for (const std::string* file : {&o.tls_ca_file, &o.tls_cert_file, &o.tls_key_file}) {
    if (std::ranges::any_of(*file, is_control)) return "a file name contains a control character";
  }
  return fault_of_name(o.tls_server_name, "tls_server_name");
}

}  // namespace

std::string fault_of(const redis_options& o) {
  if (std::string fault = fault_of_name(o.host, "the host"); !fault.empty()) return fault;
  // CLIENT SETNAME takes '!' to '~' only, and the whole handshake would fail.
  if (!std::ranges::all_of(o.client_name, [](char c) { return c > ' ' && c <= '~'; })) {
    return "client_name contains something other than printable ASCII, or a space";
  }
  return fault_of_tls(o);
}

}  // namespace weir::detail
