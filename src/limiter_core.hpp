#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "policy/kernel.hpp"
#include "store_backend.hpp"
#include "weir/limiter.hpp"

namespace weir::detail {

class local_fallback;

/// What all copies of a limiter share. Immutable.
struct limiter_core {
  limiter_core(std::shared_ptr<store_backend> backend, std::string_view name,
               const weir::policy& policy, const limiter_options& options = {});
  ~limiter_core();

  /// Appends the subject's key: prefix:{resource:subject}:kind. Everything between the braces is the hash tag, and the
  /// only one: braces in names are escaped, and so is the colon in the resource, which keeps different pairs apart.
  void append_key(std::string& out, std::string_view subject) const;

  std::shared_ptr<store_backend> store;
  std::string resource;
  policies::kernel kernel;
  policies::units ceiling;        // the largest cost that can ever pass
  policies::units nominal_limit;  // what a decision calls `limit`
  on_failure failure;
  std::unique_ptr<local_fallback> fallback;  // on_failure::fallback

 private:
  std::string key_head_;
  std::string key_tail_;
};

}  // namespace weir::detail
