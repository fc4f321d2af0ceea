#include "certificate.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <stdexcept>

namespace throttled {

namespace {

void must(bool ok) {
  if (!ok) throw std::runtime_error("OpenSSL cannot make a certificate");
}

struct releaser {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
};
template <class T>
using owned = std::unique_ptr<T, releaser>;

template <class Write>
std::string pem(Write&& write) {
  const owned<BIO> out(BIO_new(BIO_s_mem()));
  must(out && write(out.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<std::size_t>(size));
}

}  // namespace

certificate make_certificate() {
  const owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const owned<X509> made(X509_new());
  must(key && made && X509_set_version(made.get(), 2) == 1);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 24 * 3600);
  X509_set_pubkey(made.get(), key.get());
  X509_NAME* const name = X509_get_subject_name(made.get());
  const unsigned char text[] = "weir example vendor";
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(made.get(), name);

  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, made.get(), made.get(), nullptr, nullptr, 0);
  const owned<X509_EXTENSION> names(
      X509V3_EXT_conf_nid(nullptr, &context, NID_subject_alt_name, "DNS:localhost"));
  must(names && X509_add_ext(made.get(), names.get(), -1) == 1);
  must(X509_sign(made.get(), key.get(), EVP_sha256()) > 0);

  return {pem([&](BIO* out) { return PEM_write_bio_X509(out, made.get()); }), pem([&](BIO* out) {
            return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace throttled
