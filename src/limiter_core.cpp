#include "limiter_core.hpp"

#include <boost/system/system_error.hpp>

#include "failure_policy.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t max_resource_size = 1024;

void append_escaped(std::string& out, std::string_view text, std::string_view special) {
  for (;;) {
    const std::size_t at = text.find_first_of(special);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return;
    constexpr char digits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(text[at]);
    out += '%';
    out += digits[byte >> 4];
    out += digits[byte & 15];
    text.remove_prefix(at + 1);
  }
}

std::string checked_resource(std::string_view name) {
  if (name.empty() || name.size() > max_resource_size) {
    throw boost::system::system_error(
        make_error_code(error::invalid_resource),
        "the name has " + std::to_string(name.size()) + " bytes; it must have 1 to 1024");
  }
  return std::string(name);
}

}  // namespace

limiter_core::limiter_core(std::shared_ptr<store_backend> backend, std::string_view name,
                           const weir::policy& policy, const limiter_options& options)
    : store(std::move(backend)),
      resource(checked_resource(name)),
      kernel(policies::compile(policy)),
      ceiling(std::visit([](const auto& k) { return k.ceiling(); }, kernel)),
      nominal_limit(std::visit([](const auto& k) { return k.limit(); }, kernel)),
      failure(options.on_failure) {
  if (failure == on_failure::fallback) fallback = std::make_unique<local_fallback>(policy, options);
  append_escaped(key_head_, store->key_prefix(), "{}%");
  key_head_ += ":{";
  append_escaped(key_head_, name, "{}%:");
  key_head_ += ':';
  key_tail_ = "}:";
  key_tail_ += std::visit([](const auto& k) { return k.key_suffix; }, kernel);
}

limiter_core::~limiter_core() = default;

void limiter_core::append_key(std::string& out, std::string_view subject) const {
  out += key_head_;
  append_escaped(out, subject, "{}%");
  out += key_tail_;
}

}  // namespace weir::detail
