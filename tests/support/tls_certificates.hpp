#pragma once

#include <memory>
#include <string>

namespace weir::test {

/// When a certificate is valid, from the present on.
struct validity {
  long from_hours = -24;
  long to_hours = 24;
};
inline constexpr validity expired{-48, -24};
inline constexpr validity not_yet{24, 48};

struct tls_files {
  std::string certificate;
  std::string key;
};

/// A certificate authority of the test's own, whose files go with it.
class certificate_authority {
 public:
  certificate_authority();
  ~certificate_authority();
  certificate_authority(const certificate_authority&) = delete;
  certificate_authority& operator=(const certificate_authority&) = delete;

  const std::string& directory() const noexcept { return directory_; }
  std::string file() const { return directory_ + "/ca.pem"; }

  /// A certificate for servers and clients. `names` as OpenSSL writes them:
  /// "DNS:localhost,IP:127.0.0.1". The same `file` name again overwrites what was there.
  tls_files issue(const std::string& names, validity when = {}, const std::string& file = "leaf");

  /// The key once more, behind a passphrase; returns its file.
  std::string encrypt(const tls_files& files) const;

 private:
  struct material;
  std::string directory_;
  std::unique_ptr<material> material_;
};

}  // namespace weir::test
