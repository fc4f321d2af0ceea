#pragma once

#include <algorithm>
#include <boost/url/url.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/error.hpp"

/// What the URLs of all stores have in common. The functions throw boost::system::system_error with
/// error::invalid_url. Its text holds no part of the URL: if the URL does not parse, any part may
/// belong to a password with an unescaped '@', '/', '?' or '#'.
namespace weir::text {

/// Throws with `what` behind "store URL: ".
[[noreturn]] void fail_url(const std::string& what, error code = error::invalid_url);

/// A URL in two parts, because Boost.URL reads one host, and 1.81 no zone of an IPv6 address.
struct split_url {
  std::vector<std::string_view> hosts;  // at least one text, which may be empty
  boost::urls::url rest;                // without the hosts
};

/// Reads a URL that has "://" and no fragment. `malformed`: the text of an error.
split_url split(std::string_view url, const char* malformed);

struct host_and_port {
  std::string host;  // may be empty
  std::uint16_t port;
};

/// Reads "host", "host:port", "[v6]" or "[v6]:port". The zone of an address is "%25eth0"
/// (RFC 6874), or "%eth0" as most programs write it; the result has "%eth0".
host_and_port read_host(std::string_view text, std::uint16_t default_port, const char* malformed);

/// A query parameter as the URL gives it.
struct given_parameter {
  std::string name;
  std::string value;  // a '+' stays a '+'

  std::chrono::microseconds timeout() const;
  bool is_true() const;
  std::string not_empty() &&;
};

/// Which URLs may have a parameter: those of one of these forms (bits of the store's own), or all.
struct parameter_place {
  unsigned forms;
  const char* misplaced;  // the error text in another URL

  bool is_in(unsigned form) const noexcept { return forms == 0 || (forms & form) != 0; }
};
inline constexpr parameter_place any_url{};

template <class Options>
struct parameter {
  const char* name;
  parameter_place place;
  void (*set)(Options&, given_parameter&&);
};

/// Reads the query of a URL of that form.
template <class Options>
void read_query(const boost::urls::url_view_base& url, std::span<const parameter<Options>> known,
                unsigned form, Options& out) {
  std::vector<bool> seen(known.size());
  std::size_t number = 0;
  for (const auto& each : url.encoded_params()) {
    ++number;
    given_parameter given{each.key.decode(), each.value.decode()};
    const auto found = std::ranges::find(known, given.name, &parameter<Options>::name);
    // The error gives the number, not the name, which may be the second half of a password.
    if (found == known.end()) {
      std::string names;
      for (const auto& p : known) {
        if (p.place.is_in(form)) names += (names.empty() ? "" : ", ") + std::string(p.name);
      }
      fail_url("query parameter " + std::to_string(number) + " is not one of " + names +
               " (a '?' in a password must be written %3F)");
    }
    if (!found->place.is_in(form)) fail_url(found->place.misplaced);
    auto&& is_seen = seen[static_cast<std::size_t>(found - known.begin())];
    if (is_seen) fail_url("the parameter " + given.name + " is given twice");
    is_seen = true;
    if (!each.has_value) fail_url("the parameter " + given.name + " has no value");
    found->set(out, std::move(given));
  }
}

}  // namespace weir::text
