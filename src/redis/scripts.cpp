#include "redis/scripts.hpp"

#include <openssl/evp.h>

#include <stdexcept>
#include <utility>

namespace weir::redis {
namespace {

std::string sha1_hex(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr) != 1) {
    throw std::runtime_error("weir: OpenSSL cannot compute SHA-1, which names scripts in Redis");
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += digits[digest[i] >> 4];
    hex += digits[digest[i] & 15];
  }
  return hex;
}

template <std::size_t... I>
std::array<script, script_count> make_scripts(std::index_sequence<I...>) {
  return {script{std::variant_alternative_t<I, policies::kernel>::script(),
                 sha1_hex(std::variant_alternative_t<I, policies::kernel>::script())}...};
}

}  // namespace

const std::array<script, script_count>& scripts() {
  static const auto all = make_scripts(std::make_index_sequence<script_count>());
  return all;
}

}  // namespace weir::redis
