#include "redis/handshake.hpp"

#include <utility>

#include "redis/resp/error_reply.hpp"
#include "redis/resp/resp_writer.hpp"
#include "weir/version.hpp"

namespace weir::redis {
namespace {

/// Asks for all scripts, because it is not known yet which ones this process will use; each sha has
/// only 40 bytes.
void write_exists(std::string& out, std::span<const script> all) {
  command_writer writer(out);
  writer.begin(2 + all.size()).arg("SCRIPT").arg("EXISTS");
  for (const script& s : all) writer.arg(s.sha);
}

/// True for a reply to ROLE that is not a master's. Without the permission to ask, every server
/// counts as a master: a replica then refuses the first write.
bool is_replica(const reply_view& role) {
  const auto values = role.values();
  return !role.is_error() && (values.size() < 2 || values[1].text != "master");
}

}  // namespace

void write_hello(std::string& out, const redis_credentials& login, std::string_view client_name) {
  const bool authenticates = !login.password.empty();
  command_writer writer(out);
  writer.begin(2 + (authenticates ? 3 : 0) + (client_name.empty() ? 0 : 2));
  writer.arg("HELLO").arg("3");
  if (authenticates) {
    const bool is_named = !login.username.empty();
    writer.arg("AUTH").arg(is_named ? login.username : "default").arg(login.password);
  }
  if (!client_name.empty()) writer.arg("SETNAME").arg(client_name);
}

handshake::handshake(const redis_options& options)
    : handshake(options, {options.username, options.password}) {}

handshake::handshake(const redis_options& options, redis_credentials login)
    : options_(options), login_(std::move(login)) {
  begin(round::resp3);
}

const std::string& handshake::output() const { return outputs_[static_cast<std::size_t>(round_)]; }

/// SCRIPT EXISTS has its own round after the login, even without a password: a server that requires
/// one closes the connection if a client that has not logged in sends a command of more than 10
/// words.
void handshake::begin(round r) {
  round_ = r;
  expected_ = 0;
  received_ = 0;
  std::string& output = outputs_[static_cast<std::size_t>(r)];
  if (r == round::scripts) {
    const bool asks_role = !options_.sentinel.addresses.empty();
    if (asks_role) write_command(output, "ROLE");
    asked_scripts_ = scripts().size();
    write_exists(output, scripts().first(asked_scripts_));
    expected_ = asks_role ? 2 : 1;
    return;
  }
  if (r == round::resp3) {
    write_hello(output, login_, options_.client_name);
    ++expected_;
  } else {
    if (!login_.password.empty()) {
      // Servers older than ACLs take no user name.
      if (login_.username.empty()) {
        write_command(output, "AUTH", login_.password);
      } else {
        write_command(output, "AUTH", login_.username, login_.password);
      }
      ++expected_;
    }
    if (!options_.client_name.empty()) {
      write_command(output, "CLIENT", "SETNAME", options_.client_name);
      ++expected_;
    }
  }
  select_ = static_cast<std::size_t>(-1);
  if (options_.database != 0) {
    select_ = expected_;
    write_command(output, "SELECT", static_cast<std::int64_t>(options_.database));
    ++expected_;
  }
  // CLIENT SETINFO is for operators who read CLIENT LIST; Redis has it since 7.2.
  courtesies_ = expected_;
  write_command(output, "CLIENT", "SETINFO", "LIB-NAME", "weir");
  write_command(output, "CLIENT", "SETINFO", "LIB-VER", WEIR_VERSION_STRING);
  expected_ += courtesy_count;
}

/// Reads the reply to SCRIPT EXISTS; false for an error that fails the handshake. If the server
/// or a proxy does not let the store ask, all scripts count as known, because NOSCRIPT will name a
/// missing one. After a reply of another shape, no script counts as known.
bool handshake::read_known_scripts(const reply_view& reply) {
  known_scripts_.reset();
  if (reply.is_error()) {
    const error e = classify_error(reply.root().text);
    known_scripts_.set();
    return e == error::permission_denied || e == error::command_missing || e == error::server_error;
  }
  std::array<std::int64_t, most_scripts> found{};
  if (!reply.integers(std::span(found).first(asked_scripts_))) return true;
  for (std::size_t i = 0; i < asked_scripts_; ++i) known_scripts_[i] = found[i] == 1;
  return true;
}

handshake::step handshake::on_last_round(const reply_view& reply) {
  if (++received_ < expected_) {
    if (is_replica(reply)) failure_ = error::read_only;
    return step::going;
  }
  if (!read_known_scripts(reply)) failure_ = classify_error(reply.root().text);
  return failure_ == error{} ? step::done : step::failed;
}

handshake::step handshake::on_reply(const reply_view& reply) {
  if (reply.is_push()) return step::going;
  if (round_ == round::scripts) return on_last_round(reply);
  const bool is_hello = round_ == round::resp3 && received_ == 0;
  const bool is_select = received_ == select_;
  const bool is_courtesy = received_ - courtesies_ < courtesy_count;
  ++received_;
  if (reply.is_error() && !hello_unknown_ && !is_courtesy) {
    const std::string_view text = reply.root().text;
    error e = classify_error(text);
    // A number beyond 2^31, or a server with a single database, gets texts that classify_error()
    // cannot tell from other errors.
    if (is_select && e == error::server_error) e = error::invalid_database;
    // Valkey 9 asks for the login before it looks for the command.
    const bool knows_no_hello = text.starts_with("NOPROTO") || e == error::command_missing ||
                                (text.starts_with("NOAUTH") && !login_.password.empty());
    if (is_hello && knows_no_hello) {
      // Without HELLO's AUTH the rest of this round may fail, so its errors are ignored.
      hello_unknown_ = true;
    } else if (failure_ == error{}) {
      failure_ = e;
    }
  }
  if (is_hello && !reply.is_error() && failure_ == error{}) {
    const std::string_view mode = reply.text_at(0, "mode");
    if (mode == "cluster" && options_.cluster_seeds.empty()) failure_ = error::server_is_cluster;
    if (mode == "sentinel") failure_ = error::server_is_sentinel;
  }
  if (received_ < expected_) return step::going;
  if (failure_ != error{}) return step::failed;
  if (hello_unknown_ && round_ == round::resp3) {
    begin(round::resp2);
    hello_unknown_ = false;
    return step::again;
  }
  begin(round::scripts);
  return step::again;
}

}  // namespace weir::redis
