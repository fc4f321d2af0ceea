#include "memcached/digest.hpp"

#include <openssl/evp.h>

#include <boost/system/system_error.hpp>

#include "weir/error.hpp"

namespace weir::memcached {
namespace {

template <std::size_t size>
std::array<std::uint8_t, size> digest(std::string_view text, const EVP_MD* how, const char* name) {
  std::array<std::uint8_t, size> out{};
  if (how == nullptr || EVP_MD_get_size(how) != int{size} ||
      EVP_Digest(text.data(), text.size(), out.data(), nullptr, how, nullptr) != 1) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      std::string("memcached: this OpenSSL offers no ") + name);
  }
  return out;
}

}  // namespace

std::array<std::uint8_t, 16> md5(std::string_view text) {
  return digest<16>(text, EVP_md5(), "MD5");
}
std::array<std::uint8_t, 32> sha256(std::string_view text) {
  return digest<32>(text, EVP_sha256(), "SHA-256");
}

}  // namespace weir::memcached
