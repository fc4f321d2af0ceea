#pragma once

#include "support/run.hpp"

namespace weir::test {

/// One enter, awaited. What went wrong comes out in `ec`.
inline lease enter(asio::io_context& io, const concurrency_limiter& gate, std::string_view subject,
                   error_code& ec, enter_options options = {}) {
  std::optional<lease> got;
  gate.enter(subject, options, [&](error_code e, lease l) {
    ec = e;
    got = std::move(l);
  });
  run_until(io, [&] { return got.has_value(); });
  return std::move(*got);
}

inline lease enter(asio::io_context& io, const concurrency_limiter& gate,
                   std::string_view subject) {
  error_code ec;
  lease l = enter(io, gate, subject, ec);
  BOOST_TEST(!ec.failed(), ec.message());
  return l;
}

/// Counts the claims, too.
inline lease enter_with(asio::io_context& io, const concurrency_limiter& gate,
                        std::string_view subject, std::span<const claim> also) {
  std::optional<lease> got;
  gate.enter(subject, also, [&](error_code e, lease l) {
    BOOST_TEST(!e.failed(), e.message());
    got = std::move(l);
  });
  run_until(io, [&] { return got.has_value(); });
  return std::move(*got);
}

inline decision fetch(asio::io_context& io, const concurrency_limiter& gate,
                      std::string_view subject) {
  crowd c;
  gate.fetch(subject, {}, c.caller());
  run_until(io, [&] { return c.complete(); });
  BOOST_TEST(!c[0].ec.failed(), c[0].ec.message());
  return c[0].d;
}

/// Whether, and with what, a lease's lost() has completed. Copies share it.
class loss {
 public:
  explicit loss(const lease& of) {
    of.lost([state = state_](error_code ec) { *state = ec; });
  }
  bool told() const { return state_->has_value(); }
  error_code ec() const { return state_->value(); }
  void await(asio::io_context& io) const {
    run_until(io, [this] { return told(); });
  }

 private:
  std::shared_ptr<std::optional<error_code>> state_ = std::make_shared<std::optional<error_code>>();
};

}  // namespace weir::test
