#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "policy/kernel.hpp"
#include "redis/resp/resp_writer.hpp"
#include "redis/script/call_size.hpp"
#include "redis/script/call_writer.hpp"
#include "redis/script/scripts.hpp"
#include "support/counted_server.hpp"

/// What the library sends for checks of many subjects, in script calls of a given size.
namespace weir::bench {

/// Each is checked once, as far as whole calls go.
inline constexpr std::size_t subject_count = 512;

inline std::size_t calls_of(std::size_t subjects) { return subject_count / subjects; }

inline std::string key_of(std::size_t subject, const policies::kernel& k, std::size_t tier) {
  return "weir:{partner-api:account-" + std::to_string(1000 + subject) +
         "}:" + std::visit([](const auto& one) { return std::string(one.key_suffix); }, k) +
         (tier > 0 ? std::to_string(tier) : "");
}

/// A call for checks of that cost; for reservations, if they have a longest wait.
inline redis::script_call call_of(const std::vector<policies::kernel>& kernels,
                                  std::int64_t cost = 1,
                                  std::optional<std::int64_t> max_wait = {}) {
  redis::script_call call;
  call.what = redis::script_call::command::request;
  call.kind = max_wait ? detail::check_kind::acquire : detail::check_kind::record;
  call.traits = max_wait ? detail::asks::acquire : detail::asks::record;
  call.max_wait = max_wait.value_or(0);
  for (const policies::kernel& k : kernels) call.tiers.push_back({k, cost});
  call.script = redis::script_of(call);
  return call;
}

/// How many subjects the largest call has; `in_use`: the server has answered that its keys are.
inline std::size_t largest_call(const std::vector<policies::kernel>& kernels, bool in_use) {
  redis::call_size size(redis::script_call::usual_keys);
  redis::script_call call = call_of(kernels);
  if (in_use) call.answered_keys = 1000;
  size.answered(call);
  return size.most_keys(call) / kernels.size();
}

/// How many reservations the largest call has.
inline std::size_t most_turns(const std::vector<policies::kernel>& kernels) {
  std::size_t weight = 0;
  for (const policies::kernel& k : kernels) weight += redis::call_size::turn_weight(k);
  return redis::call_size::most_turns(weight);
}

inline void load_script(counted_server& server, const redis::script_call& call) {
  server.command("SCRIPT", "LOAD", redis::scripts()[call.script].text);
}

/// Sends one check like those of `call` for every subject, so many to a script.
inline void send_call(counted_server& server, const redis::script_call& call,
                      std::size_t subjects) {
  std::string argument;
  const bool reserves = call.kind == detail::check_kind::acquire;
  redis::pack_argument(argument, call.tiers, redis::list_of_script(call.script).has_common_path,
                       false, reserves ? call.max_wait : -1);
  std::string out;
  for (std::size_t first = 0; first + subjects <= subject_count; first += subjects) {
    redis::command_writer writer(out);
    const std::size_t keys = subjects * call.tiers.size();
    writer.begin(4 + keys);
    writer.arg("EVALSHA").arg(redis::scripts()[call.script].sha);
    writer.arg(static_cast<std::int64_t>(keys));
    for (std::size_t t = 0; t < call.tiers.size(); ++t) {
      for (std::size_t i = first; i < first + subjects; ++i) {
        writer.arg(key_of(i, call.tiers[t].kernel, t));
      }
    }
    writer.arg(argument);
  }
  server.call(out, calls_of(subjects));
}

inline void send_call(counted_server& server, const std::vector<policies::kernel>& kernels,
                      std::size_t subjects, std::int64_t cost = 1) {
  send_call(server, call_of(kernels, cost), subjects);
}

/// One check of every subject, so many to a script, 32 scripts to a write. A check has a key for
/// each suffix.
inline void send(counted_server& server, const std::string& sha,
                 const std::vector<std::string>& arguments,
                 const std::vector<std::string>& suffixes, std::size_t checks) {
  std::string out;
  std::size_t due = 0;
  for (std::size_t first = 0; first + checks <= subject_count; first += checks) {
    redis::command_writer writer(out);
    const std::size_t keys = checks * suffixes.size();
    writer.begin(3 + keys + arguments.size());
    writer.arg("EVALSHA").arg(sha).arg(static_cast<std::int64_t>(keys));
    for (std::size_t i = first; i < first + checks; ++i) {
      for (const std::string& suffix : suffixes) {
        writer.arg("weir:{partner-api:account-" + std::to_string(1000 + i) + "}:" + suffix);
      }
    }
    for (const std::string& argument : arguments) writer.arg(argument);
    if (++due < 32) continue;
    server.call(out, due);
    out.clear();
    due = 0;
  }
  server.call(out, due);
}

}  // namespace weir::bench
