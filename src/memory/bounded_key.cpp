#include "memory/bounded_key.hpp"

#include <openssl/evp.h>

#include <new>

namespace weir::memory {

void bounded_key::shorten() {
  constexpr std::size_t digest_size = 32;
  auto* const digest = reinterpret_cast<unsigned char*>(text_.data());
  if (EVP_Digest(key_.data(), key_.size(), digest, nullptr, EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  // The digest and the beginning of the key together are longer than any key that is kept as it is,
  // so the two kinds never collide.
  key_.copy(text_.data() + digest_size, text_.size() - digest_size);
  key_ = {text_.data(), text_.size()};
}

}  // namespace weir::memory
