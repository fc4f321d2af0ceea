#include "redis/options_check.hpp"

#include <algorithm>
#include <span>

#include "text/ascii.hpp"
#include "text/option_range.hpp"

namespace weir::redis {
namespace {

std::string fault_of_host(const std::string& host) {
  const bool has_comma = host.find(',') != host.npos;
  return text::first_of({
      text::fault_of_name(host, "the host"),
      has_comma ? "there is a ',' in the host: a store is one server, so name one host" : "",
  });
}

std::string fault_of_hosts(std::span<const redis_address> hosts, const std::string& what) {
  if (hosts.size() > 64) return "there are more than 64 addresses of a " + what;
  for (const redis_address& at : hosts) {
    if (at.host.empty()) return "the host of a " + what + " is empty";
    if (at.port == 0) return "the port of a " + what + " is not from 1 to 65535";
    if (std::string fault = fault_of_host(at.host); !fault.empty()) return fault;
  }
  return {};
}

std::string fault_of_cluster(const redis_options& o) {
  if (o.cluster_seeds.empty()) return {};
  if (o.database != 0) return "a Redis Cluster has one database: leave it at 0";
  if (!o.unix_path.empty()) return "a Redis Cluster is reached over TCP, not over a Unix socket";
  if (!o.sentinel.addresses.empty()) return "a store has cluster_seeds or Sentinels, not both";
  return fault_of_hosts(o.cluster_seeds, "cluster seed");
}

std::string fault_of_tls(const redis_options& o) {
  if (!o.tls) {
    // The user has probably forgotten `tls`; without an error, all data would go out unencrypted.
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
    if (std::ranges::any_of(*file, text::is_control))
      return "a file name contains a control character";
  }
  return text::fault_of_name(o.tls_server_name, "tls_server_name");
}

/// A password that is empty beside a user name probably comes from a variable that was not set. The
/// store would then not log in at all, and be served as the default user.
std::string fault_of_login(const std::string& username, const std::string& password) {
  if (username.empty() || !password.empty()) return {};
  return "there is a username, but no password (a user without a password may be given any)";
}

std::string fault_of_sentinels(const redis_options& o) {
  const redis_sentinel_options& s = o.sentinel;
  if (s.addresses.empty()) return {};
  if (!o.unix_path.empty()) return "a Sentinel names TCP addresses: leave unix_path empty";
  if (std::string fault = fault_of_hosts(s.addresses, "Sentinel"); !fault.empty()) return fault;
  if (s.master.empty()) return "the name of the master is empty";
  if (std::string fault = text::fault_of_name(s.master, "the name of the master"); !fault.empty()) {
    return fault;
  }
  const std::string fault = text::first_of(
      {fault_of_login(s.username, s.password), fault_of_tls(link_to_sentinel(o))});
  return fault.empty() ? fault : "to the Sentinels: " + fault;
}

std::string fault_of_client_name(const std::string& name) {
  // CLIENT SETNAME accepts '!' to '~' only; another character would fail the whole handshake.
  if (std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; })) return {};
  return "client_name contains something other than printable ASCII, or a space";
}

}  // namespace

redis_options link_to_sentinel(const redis_options& options) {
  const redis_sentinel_options& s = options.sentinel;
  redis_options link;
  link.tls = s.tls;
  link.tls_ca_file = s.tls_ca_file;
  link.tls_cert_file = s.tls_cert_file;
  link.tls_key_file = s.tls_key_file;
  link.tls_server_name = s.tls_server_name;
  link.tls_verify = s.tls_verify;
  link.connect_timeout = options.connect_timeout;
  return link;
}

std::string fault_of(const redis_options& o) {
  return text::first_of({
      fault_of_host(o.host),
      text::fault_of_socket_path(o.unix_path),
      fault_of_cluster(o),
      fault_of_client_name(o.client_name),
      text::fault_of_connection(o),
      text::fault_of_number("port", o.unix_path.empty() ? o.port : 1, 1, 65'535),
      text::fault_of_number("max_keys_per_call", o.max_keys_per_call, 1, 1000),
      o.credentials ? std::string{} : fault_of_login(o.username, o.password),
      fault_of_sentinels(o),
      fault_of_tls(o),
  });
}

}  // namespace weir::redis
